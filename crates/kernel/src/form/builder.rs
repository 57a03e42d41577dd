//! Builds kernels: nodes are typed and shared as they are added.
//!
//! A mistake (operands of the wrong dtype, an id of another kernel) does not interrupt the caller: the first one is
//! kept and returned by [`KernelBuilder::finish`]. The kernel as a whole is not checked here. Each file adds the
//! methods for one kind of part.

mod buffers;
mod expect;
mod intern;
mod nodes;
mod reads;
mod stages;
mod stores;

pub(crate) use intern::Interned;

use std::collections::HashMap;

use cranelift_entity::PrimaryMap;
use kiln_symbolic_shape::DimTable;

use super::ids::{AxisId, NodeId};
use super::item::{Axes, Carry, Item};
use super::kernel::Kernel;
use crate::error::KernelError;

/// Builds one kernel.
///
/// Axes are made first ([`outer`](Self::outer), [`axis`](Self::axis)), then nodes over them, then the items in order.
/// Stages are declared when their value is known, or ahead of that ([`declare_stage`](Self::declare_stage)), inside a
/// carry block in which `prev` refers to a stage that comes later.
#[derive(Debug)]
pub struct KernelBuilder {
    kernel: Kernel,
    interned: HashMap<Interned, NodeId>,
    /// The open `carry` block.
    carry: Option<Carry>,
    error: Option<KernelError>,
}

impl KernelBuilder {
    /// An empty kernel. The table holds its symbols and the facts about them; sizes passed to the builder are ids of
    /// it.
    pub fn new(name: impl Into<String>, dims: DimTable) -> Self {
        Self {
            kernel: Kernel {
                name: name.into(),
                dims,
                buffers: PrimaryMap::new(),
                axes: PrimaryMap::new(),
                nodes: PrimaryMap::new(),
                stages: PrimaryMap::new(),
                outer: Axes::new(),
                items: Vec::new(),
            },
            interned: HashMap::new(),
            carry: None,
            error: None,
        }
    }

    /// The sizes.
    pub fn dims(&self) -> &DimTable {
        &self.kernel.dims
    }

    /// The sizes, to add to.
    pub fn dims_mut(&mut self) -> &mut DimTable {
        &mut self.kernel.dims
    }

    /// The kernel under construction.
    pub fn kernel(&self) -> &Kernel {
        &self.kernel
    }

    /// Keeps the first error.
    pub(crate) fn fail(&mut self, error: KernelError) {
        self.error.get_or_insert(error);
    }

    /// Takes the first error so far.
    pub(crate) fn take_error(&mut self) -> Option<KernelError> {
        self.error.take()
    }

    /// Opens a `carry` block: items added until [`end_carry`](Self::end_carry) run at each of its steps.
    pub fn begin_carry(&mut self, axis: AxisId, reverse: bool) {
        if self.carry.is_some() {
            self.fail(KernelError::NestedCarry);
            return;
        }
        self.carry = Some(Carry {
            axis,
            reverse,
            items: Vec::new(),
        });
    }

    /// Closes the block.
    pub fn end_carry(&mut self) {
        match self.carry.take() {
            Some(carry) => self.kernel.items.push(Item::Carry(carry)),
            None => self.fail(KernelError::NoCarry),
        }
    }

    /// The kernel.
    ///
    /// # Errors
    /// The first mistake made while building; an unclosed block.
    pub fn finish(mut self) -> Result<Kernel, KernelError> {
        if self.carry.is_some() {
            self.fail(KernelError::OpenCarry);
        }
        match self.error {
            Some(error) => Err(error),
            None => Ok(self.kernel),
        }
    }

    fn push_item(&mut self, item: Item) {
        match &mut self.carry {
            Some(carry) => carry.items.push(item),
            None => self.kernel.items.push(item),
        }
    }
}
