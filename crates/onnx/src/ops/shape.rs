//! Sizes as data, and identity operators.

use kiln_ir::ValueId;
use kiln_tensor::DType;
use smallvec::smallvec;

use super::random::unit_numbers;
use super::support::{Imported, one, operator, several};
use crate::NodeContext;
use crate::import::{Operator, Takes};

pub(super) const OPERATORS: &[Operator] = &[
    operator("Dropout", &[6, 7, 10, 12], dropout),
    operator("Identity", &[1], identity).taking(Takes::Items),
    operator("Shape", &[1], shape).taking(Takes::Narrow),
    operator("Size", &[1], size).taking(Takes::Narrow),
];

fn identity(ctx: &mut NodeContext<'_>) -> Imported {
    match ctx.item(0) {
        Some(item) => Ok(smallvec![item.clone()]),
        None => one(ctx.input(0)?),
    }
}

/// The sizes of axes `start..end`; positions outside are clamped.
fn shape(ctx: &mut NodeContext<'_>) -> Imported {
    let x = ctx.input(0)?;
    let dims = ctx.shape(x)?;
    let rank = i64::try_from(dims.len()).unwrap_or(i64::MAX);
    let position = |at: i64| {
        let from_start = if at < 0 { at.saturating_add(rank) } else { at };
        usize::try_from(from_start.clamp(0, rank)).unwrap_or(0)
    };
    let start = position(ctx.attributes().get_or("start", 0)?);
    let end = position(ctx.attributes().get_or("end", i64::MAX)?);
    let wanted = dims.get(start..end).unwrap_or_default();
    one(ctx.build(|builder| builder.dims_tensor(wanted))?)
}

fn size(ctx: &mut NodeContext<'_>) -> Imported {
    let x = ctx.input(0)?;
    let dims = ctx.shape(x)?;
    let count = ctx.product(&dims)?;
    one(ctx.dim_as_data(count)?)
}

/// No element is dropped unless the model requests training. The mask shows what was kept.
fn dropout(ctx: &mut NodeContext<'_>) -> Imported {
    let x = ctx.input(0)?;
    if ctx.version() >= 12 && is_training(ctx)? {
        return dropped(ctx, x);
    }
    if !ctx.wants_output(1) {
        return one(x);
    }
    let dims = ctx.shape(x)?;
    // Version 7 gave the mask the dtype of the data.
    let old = ctx.version() < 10;
    let dtype = if old { ctx.dtype(x)? } else { DType::Bool };
    let mask = ctx.filled(dtype, 1.0, &dims)?;
    several([x, mask])
}

/// Each element is dropped with the probability in operand 1, and the others are scaled up; no element is dropped if
/// the mode operand is false.
fn dropped(ctx: &mut NodeContext<'_>, x: ValueId) -> Imported {
    let dims = ctx.shape(x)?;
    let ratio = match ctx.optional(1) {
        Some(ratio) => {
            let ratio = ctx.as_scalar(ratio)?;
            ctx.cast(ratio, DType::F32)?
        }
        None => ctx.scalar(DType::F32, 0.5)?,
    };
    let mode = ctx.input(2)?;
    let mode = ctx.as_scalar(mode)?;
    let mode = ctx.cast(mode, DType::F32)?;
    let ratio = ctx.mul(ratio, mode)?;
    let numbers = unit_numbers(ctx, &dims, 0)?;
    let mask = ctx.map("ge", &[numbers, ratio])?;
    let one = ctx.scalar(DType::F32, 1.0)?;
    let rest = ctx.sub(one, ratio)?;
    let scale = ctx.div(one, rest)?;
    let dtype = ctx.dtype(x)?;
    let scale = ctx.cast(scale, dtype)?;
    let scaled = ctx.mul(x, scale)?;
    let zero = ctx.scalar(dtype, 0.0)?;
    let y = ctx.select(mask, scaled, zero)?;
    several([y, mask])
}

/// Whether the mode operand may be true while the ratio operand may be above 0.
fn is_training(ctx: &NodeContext<'_>) -> Result<bool, crate::Error> {
    let Some(mode) = ctx.optional(2) else {
        return Ok(false);
    };
    let off = ctx.constant_integers(mode).is_some_and(|mode| mode == [0]);
    let ratio = ctx.optional(1).and_then(|ratio| ctx.constant_number(ratio));
    Ok(!off && ratio != Some(0.0))
}
