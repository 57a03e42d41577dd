//! Changes of dtype.

use kiln_tensor::DType;

use super::support::{Imported, one, operator};
use crate::import::Operator;
use crate::{ElementType, Error, NodeContext};

pub(super) const OPERATORS: &[Operator] = &[
    operator("Cast", &[6], cast),
    operator("CastLike", &[15], cast_like),
];

fn cast(ctx: &mut NodeContext<'_>) -> Imported {
    let x = ctx.input(0)?;
    let to = ctx.attributes().require::<i64>("to")?;
    let to = dtype_of(ctx, to)?;
    one(ctx.cast(x, to)?)
}

fn cast_like(ctx: &mut NodeContext<'_>) -> Imported {
    let (x, like) = (ctx.input(0)?, ctx.input(1)?);
    let to = ctx.dtype(like)?;
    one(ctx.cast(x, to)?)
}

/// The dtype of an ONNX number.
pub(super) fn dtype_of(ctx: &NodeContext<'_>, number: i64) -> Result<DType, Error> {
    let element = ElementType::from_number(i32::try_from(number).unwrap_or(-1));
    element
        .dtype()
        .ok_or_else(|| ctx.unsupported(format!("elements of type {element}")))
}

/// The dtype that an attribute names, or a default.
pub(super) fn dtype_attribute(
    ctx: &NodeContext<'_>,
    name: &str,
    default: DType,
) -> Result<DType, Error> {
    match ctx.attributes().get::<i64>(name)? {
        None | Some(0) => Ok(default),
        Some(number) => dtype_of(ctx, number),
    }
}
