//! Changes of element type.

use kiln_ir::ValueId;
use kiln_tensor::DType;
use smallvec::smallvec;

use super::narrow::{RoundMode, rounded};
use super::support::{Imported, operator};
use crate::import::{Item, Operator, Takes};
use crate::{ElementType, Error, NodeContext};

pub(super) const OPERATORS: &[Operator] = &[
    operator("Cast", &[6], cast).taking(Takes::Narrow),
    operator("CastLike", &[15], cast_like).taking(Takes::Narrow),
];

fn cast(ctx: &mut NodeContext<'_>) -> Imported {
    let x = ctx.input(0)?;
    let to = ctx.attributes().require::<i64>("to")?;
    let to = element_of(to);
    Ok(smallvec![converted(ctx, x, to)?])
}

fn cast_like(ctx: &mut NodeContext<'_>) -> Imported {
    let (x, like) = (ctx.input(0)?, ctx.input(1)?);
    let to = match ctx.narrow_type(1) {
        Some(narrow) => ElementType::Narrow(narrow),
        None => ElementType::Supported(ctx.dtype(like)?),
    };
    Ok(smallvec![converted(ctx, x, to)?])
}

/// A cast to an element type, with the node's rounding attributes.
fn converted(ctx: &mut NodeContext<'_>, x: ValueId, to: ElementType) -> Result<Item, Error> {
    match to {
        ElementType::Supported(dtype) => Ok(Item::Tensor(ctx.cast(x, dtype)?)),
        ElementType::Narrow(narrow) => {
            let saturate = ctx.flag("saturate", true)?;
            let mode = RoundMode::read(ctx)?;
            Ok(Item::Narrow(
                rounded(ctx, x, narrow, saturate, mode)?,
                narrow,
            ))
        }
        ElementType::Unsupported(_) => Err(unsupported(ctx, to)),
    }
}

/// The element type of an ONNX number.
pub(super) fn element_of(number: i64) -> ElementType {
    ElementType::from_number(i32::try_from(number).unwrap_or(-1))
}

/// The dtype of an ONNX number.
pub(super) fn dtype_of(ctx: &NodeContext<'_>, number: i64) -> Result<DType, Error> {
    match element_of(number) {
        ElementType::Supported(dtype) => Ok(dtype),
        element => Err(unsupported(ctx, element)),
    }
}

fn unsupported(ctx: &NodeContext<'_>, element: ElementType) -> Error {
    ctx.unsupported(format!("elements of type {element}"))
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
