//! The addresses of the lanes of an access.

use kiln_backend::Quantity;
use kiln_tensor::DType;

use super::context::KernelLowering;
use crate::emit::{Elem, Value};

/// The addresses of an access.
#[derive(Clone, Copy)]
pub(super) enum Address<'ctx> {
    /// The same element in all lanes.
    Same(Value<'ctx>),
    /// Consecutive elements, from this address on.
    Consecutive(Value<'ctx>),
    /// Every other element, from this address on.
    EveryOther(Value<'ctx>),
    /// An address per lane.
    Each(Value<'ctx>),
}

impl<'ctx> Address<'ctx> {
    /// The address of the first lane, or of each.
    pub(super) fn pointer(&self) -> Value<'ctx> {
        match *self {
            Address::Same(pointer)
            | Address::Consecutive(pointer)
            | Address::EveryOther(pointer)
            | Address::Each(pointer) => pointer,
        }
    }
}

impl<'ctx> KernelLowering<'_, '_, 'ctx> {
    /// The addresses of lanes this many elements apart, the first of them at `pointer`.
    pub(super) fn lanes_apart(
        &self,
        (pointer, dtype): (Value<'ctx>, DType),
        stride: &Quantity,
        n_lanes: u32,
    ) -> Address<'ctx> {
        let emit = &self.emit;
        match stride.as_constant() {
            Some(0) => Address::Same(pointer),
            Some(1) => Address::Consecutive(pointer),
            Some(2) => Address::EveryOther(pointer),
            _ => {
                let numbers = emit.lane_numbers(Elem::I64, n_lanes);
                let step = emit.splat(self.quantity(stride), n_lanes);
                Address::Each(emit.element(pointer, dtype, emit.imul(numbers, step)))
            }
        }
    }

    /// The addresses of every other element.
    pub(super) fn every_other(
        &self,
        dtype: DType,
        n_lanes: u32,
        pointer: Value<'ctx>,
    ) -> Value<'ctx> {
        let emit = &self.emit;
        let numbers = emit.lane_numbers(Elem::I64, n_lanes);
        let two = emit.int_of(Elem::I64, n_lanes, 2);
        emit.element(pointer, dtype, emit.imul(numbers, two))
    }
}
