//! The state shared by all strategies while they write a kernel's functions: the text, sizes as variables, fault
//! reports.

use std::cell::RefCell;
use std::fmt::Display;

use kiln_backend::Quantity;
use kiln_kernel::analysis::Dependence;
use kiln_kernel::{BufferId, Extent, VerifiedKernel};
use kiln_symbolic_shape::DimId;

use super::launch::LaunchBuilder;
use super::scope::Scope;
use super::writer::Writer;
use crate::container::{FAULT_DIVISION, FAULT_INDEX};

/// The state of writing a kernel's functions.
pub(super) struct Lowering<'k> {
    pub(super) kernel: &'k VerifiedKernel,
    pub(super) dependence: &'k Dependence,
    pub(super) launch: RefCell<LaunchBuilder>,
    writer: RefCell<Writer>,
}

impl<'k> Lowering<'k> {
    pub(super) fn new(kernel: &'k VerifiedKernel, dependence: &'k Dependence) -> Self {
        Self {
            kernel,
            dependence,
            launch: RefCell::default(),
            writer: RefCell::default(),
        }
    }

    /// Adds a line.
    pub(super) fn line(&self, line: impl Display) {
        self.writer.borrow_mut().line(line);
    }

    /// Opens a block.
    pub(super) fn open(&self, head: impl Display) {
        self.writer.borrow_mut().open(head);
    }

    /// Closes the innermost block.
    pub(super) fn close(&self) {
        self.writer.borrow_mut().close();
    }

    /// A fresh name.
    pub(super) fn fresh(&self, prefix: &str) -> String {
        self.writer.borrow_mut().fresh(prefix)
    }

    /// The text written since the last call.
    pub(super) fn take(&self) -> String {
        self.writer.borrow_mut().take()
    }

    /// Declares a constant with a value, and returns its name.
    pub(super) fn declare(&self, ty: &str, value: impl Display) -> String {
        let name = self.fresh("v");
        self.line(format_args!("const {ty} {name} = {value};"));
        name
    }

    /// A number of the launch in C: a literal, or one of the variables at the start of each function.
    pub(super) fn quantity(&self, quantity: &Quantity) -> String {
        match quantity.as_constant() {
            Some(value) => super::c_type::literal(value.into()),
            None => format!("s{}", self.launch.borrow_mut().argument(quantity)),
        }
    }

    /// A size in C.
    pub(super) fn size(&self, dim: DimId) -> String {
        self.quantity(&Quantity::of(self.kernel.dims(), dim))
    }

    /// The strides of a buffer, per axis, in elements.
    pub(super) fn strides(&self, buffer: BufferId) -> Vec<Quantity> {
        strides(self.kernel, buffer)
    }

    /// The extent of an axis in C; one that is clamped is computed here.
    pub(super) fn extent(&self, scope: &mut Scope, axis: kiln_kernel::AxisId) -> String {
        match self.kernel.axis(axis).extent {
            Extent::Size(size) => self.size(size),
            Extent::Clamped { value, bound } => {
                let value = self.value(scope, value, 0);
                let bound = self.size(bound);
                self.declare(
                    "k_i64",
                    format_args!("k_min(k_max({value}, 0ll), (k_i64){bound})"),
                )
            }
        }
    }

    /// Reports an index out of bounds where a condition is true.
    pub(super) fn report_index(&self, condition: &str, site: String) {
        self.report(condition, site, FAULT_INDEX);
    }

    /// Reports a division by zero where a condition is true.
    pub(super) fn report_division(&self, condition: &str, op: &str) {
        self.report(condition, format!("`{op}` divides by zero"), FAULT_DIVISION);
    }

    fn report(&self, condition: &str, site: String, cause: u8) {
        let site = self.launch.borrow_mut().site(site) & 0xff_ffff;
        self.line(format_args!("if ({condition}) K_FAULT({site}, {cause});"));
    }
}

/// The strides of a buffer, per axis, in elements.
pub(crate) fn strides(kernel: &VerifiedKernel, buffer: BufferId) -> Vec<Quantity> {
    let dims = kernel.dims();
    let buffer = kernel.buffer(buffer);
    if let Some(strides) = &buffer.strides {
        let strides = strides.iter();
        return strides.map(|&stride| Quantity::of(dims, stride)).collect();
    }
    let mut product = Quantity::constant(1);
    let strides = buffer.shape.iter().rev().map(|&size| {
        let stride = product.clone();
        product = product.clone() * Quantity::of(dims, size);
        stride
    });
    let mut strides: Vec<Quantity> = strides.collect();
    strides.reverse();
    strides
}
