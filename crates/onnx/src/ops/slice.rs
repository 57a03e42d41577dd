//! Slices.

use kiln_symbolic_shape::DimId;

use super::support::{Imported, one, operator};
use crate::import::{Operator, Takes};
use crate::{Error, NodeContext};

pub(super) const OPERATORS: &[Operator] =
    &[operator("Slice", &[1, 10], slice).taking(Takes::Moved)];

/// Bounds are attributes before version 10 and operands from then on.
fn slice(ctx: &mut NodeContext<'_>) -> Imported {
    let mut x = ctx.input(0)?;
    let rank = ctx.rank(x)?;
    let (starts, ends) = if ctx.version() < 10 {
        (from_attribute(ctx, "starts")?, from_attribute(ctx, "ends")?)
    } else {
        (ctx.sizes_of(1)?, ctx.sizes_of(2)?)
    };
    let (axes, steps) = if ctx.version() < 10 {
        let axes = ctx.attributes().get::<&[i64]>("axes")?;
        (axes.map(<[i64]>::to_vec), None)
    } else {
        (ctx.optional_integers(3)?, ctx.optional_integers(4)?)
    };
    let axes = axes.unwrap_or_else(|| (0..).take(starts.len()).collect());
    let steps = steps.unwrap_or_else(|| vec![1; starts.len()]);
    if ends.len() != starts.len() || axes.len() != starts.len() || steps.len() != starts.len() {
        let found = format!("{}, {}, {}", ends.len(), axes.len(), steps.len());
        let expected = format!("{} ends, axes and steps, one per start", starts.len());
        return Err(ctx.operand_error(1, expected, found));
    }
    for (((start, end), axis), step) in starts.into_iter().zip(ends).zip(axes).zip(steps) {
        let axis = ctx.axis(axis, rank)?;
        x = ctx.build(|builder| builder.slice_range(x, axis, start, end, step))?;
    }
    one(x)
}

fn from_attribute(ctx: &mut NodeContext<'_>, name: &str) -> Result<Vec<DimId>, Error> {
    let values = ctx.attributes().require::<&[i64]>(name)?;
    Ok(values.iter().map(|&value| ctx.size(value)).collect())
}
