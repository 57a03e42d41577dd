//! The state of lowering one kernel: the kernel, its loop nest and the function being emitted.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;

use kiln_backend::{IsaLevel, PackSpec, Quantity};
use kiln_kernel::analysis::{Dependence, Unconditional};
use kiln_kernel::seeded::{Fault, is_on};
use kiln_kernel::{AxisId, BufferId, VerifiedKernel};
use kiln_schedule_cpu::{Layout, PackedCopy, ScheduledNest, SplitReductions, Tables};
use kiln_symbolic_shape::DimId;
use kiln_tensor::DType;

use super::launch::LaunchBuilder;
use crate::abi::{FaultCause, Launch};
use crate::emit::{Emitter, Value};
use crate::module::PhaseParameters;

/// Everything that is constant while one body is emitted.
pub(crate) struct KernelLowering<'a, 'm, 'ctx> {
    pub(crate) kernel: &'a VerifiedKernel,
    pub(crate) dependence: &'a Dependence,
    pub(crate) launch: &'a LaunchBuilder,
    pub(crate) emit: Emitter<'m, 'ctx>,
    pub(crate) parameters: PhaseParameters<'ctx>,
    abi: Launch<'ctx>,
    /// Nodes that may be computed before a loop that may run zero times.
    pub(super) unconditional: Unconditional,
    /// The layouts of buffers and locals.
    pub(crate) layout: Layout<'a>,
    /// Operands that are read from their packed copies.
    copies: &'a [PackedCopy],
    /// The loops to emit.
    pub(super) nest: &'a ScheduledNest,
    /// Reductions whose partial results earlier phases computed.
    pub(super) split: Option<&'a SplitReductions>,
    /// Values that an earlier phase tabulated.
    pub(super) tables: Option<&'a Tables>,
    /// Whether the function has non-temporal stores.
    pub(super) uses_non_temporal_stores: Cell<bool>,
    arguments: RefCell<HashMap<Quantity, Value<'ctx>>>,
    bases: RefCell<HashMap<BufferId, Value<'ctx>>>,
    /// Zeros on the stack, by size in bytes.
    pub(super) zeros: RefCell<HashMap<u32, Value<'ctx>>>,
    /// Bytes of scratch allocated so far.
    scratch: RefCell<Quantity>,
}

impl<'a, 'm, 'ctx> KernelLowering<'a, 'm, 'ctx> {
    pub(crate) fn new(
        kernel: &'a VerifiedKernel,
        dependence: &'a Dependence,
        launch: &'a LaunchBuilder,
        nest: &'a ScheduledNest,
        (packs, copies): (&'a [PackSpec], &'a [PackedCopy]),
        (emit, parameters): (Emitter<'m, 'ctx>, PhaseParameters<'ctx>),
    ) -> Self {
        if !nest.loops.strength_reduction {
            emit.hide_counters();
        }
        let abi = Launch::new(parameters);
        abi.poll(&emit);
        Self {
            kernel,
            dependence,
            launch,
            emit,
            parameters,
            abi,
            unconditional: Unconditional::of(kernel),
            layout: Layout::new(kernel, dependence, (packs, copies)),
            copies,
            nest,
            split: None,
            tables: None,
            uses_non_temporal_stores: Cell::new(false),
            bases: RefCell::default(),
            arguments: RefCell::default(),
            zeros: RefCell::default(),
            scratch: RefCell::new(Quantity::constant(0)),
        }
    }

    pub(crate) fn level(&self) -> IsaLevel {
        self.emit.level()
    }

    /// A number of the launch as an i64: a constant, or loaded once at the start of the function.
    pub(crate) fn quantity(&self, quantity: &Quantity) -> Value<'ctx> {
        if let Some(value) = quantity.as_constant() {
            return self.emit.i64(value);
        }
        if let Some(&value) = self.arguments.borrow().get(quantity) {
            return value;
        }
        let position = self.launch.argument(quantity);
        let value = self.emit.at_entry(|| self.abi.size(&self.emit, position));
        self.arguments.borrow_mut().insert(quantity.clone(), value);
        value
    }

    /// A size of the kernel's table.
    pub(crate) fn dim(&self, dim: DimId) -> Value<'ctx> {
        self.quantity(&Quantity::of(self.kernel.dims(), dim))
    }

    /// An upper bound on the points of an axis.
    pub(crate) fn bound(&self, axis: AxisId) -> Quantity {
        kiln_schedule_cpu::bound(self.kernel, axis)
    }

    /// The base address of a buffer.
    pub(crate) fn base(&self, buffer: BufferId) -> Value<'ctx> {
        if let Some(&base) = self.bases.borrow().get(&buffer) {
            return base;
        }
        let base = match self.copies.iter().find(|copy| copy.buffer() == buffer) {
            Some(copy) => self.shared(&copy.offset),
            None => {
                let position = buffer.as_u32() as usize;
                self.emit.at_entry(|| self.abi.buffer(&self.emit, position))
            }
        };
        self.bases.borrow_mut().insert(buffer, base);
        base
    }

    /// An address in the scratch shared by all tasks, at an offset in bytes.
    pub(super) fn shared(&self, offset: &Quantity) -> Value<'ctx> {
        let offset = self.quantity(offset);
        self.emit.at_entry(|| {
            let shared = self.abi.shared(&self.emit);
            self.emit.offset(shared, offset)
        })
    }

    /// Records a fault of a site if the i1 is true.
    pub(crate) fn fault_if(&self, condition: Value<'ctx>, site: String, cause: FaultCause) {
        let site = u32::try_from(self.launch.fault_site(site)).unwrap_or(u32::MAX) & 0xff_ffff;
        self.abi.fault_if(&self.emit, condition, site, cause);
    }

    /// 64 bytes of zeros, read in place of a load that is not performed.
    pub(crate) fn dummy(&self) -> Value<'ctx> {
        self.zeros(64)
    }

    /// Scratch for an array of `n` elements, aligned to 64 bytes.
    pub(crate) fn scratch(&self, elements: &Quantity, dtype: DType) -> Value<'ctx> {
        let start = self.scratch.borrow().clone();
        let bytes = elements.clone() * Quantity::constant(dtype.size_in_bytes() as i64);
        let line = Quantity::constant(64);
        let padded = bytes.ceil_div(line.clone()) * line;
        let offset = if is_on(Fault::OverlappingScratch) {
            self.emit.i64(0)
        } else {
            self.quantity(&start)
        };
        *self.scratch.borrow_mut() = start + padded;
        self.emit.offset(self.parameters.scratch, offset)
    }

    /// Bytes of scratch that the function uses.
    pub(crate) fn scratch_bytes(&self) -> Quantity {
        self.scratch.borrow().clone()
    }
}
