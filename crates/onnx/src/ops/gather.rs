//! Gathers: reads at indices.

use kiln_ir::{Op, ValueId};

use super::support::{Imported, one, operator};
use crate::import::{Operator, Takes};
use crate::{Error, NodeContext};

pub(super) const OPERATORS: &[Operator] = &[
    operator("Compress", &[9], compress),
    operator("Gather", &[1], gather).taking(Takes::Moved),
    operator("GatherElements", &[11], gather_elements).taking(Takes::Moved),
    operator("GatherND", &[11], gather_nd).taking(Takes::Moved),
];

fn gather(ctx: &mut NodeContext<'_>) -> Imported {
    let (x, indices) = (ctx.input(0)?, ctx.input(1)?);
    let rank = ctx.rank(x)?;
    let axis = ctx.axis_attribute(0, rank)?;
    one(ctx.op(Op::Gather { axis }, &[x, indices])?)
}

fn gather_elements(ctx: &mut NodeContext<'_>) -> Imported {
    let (x, indices) = (ctx.input(0)?, ctx.input(1)?);
    let rank = ctx.rank(x)?;
    let axis = ctx.axis_attribute(0, rank)?;
    one(ctx.op(Op::GatherElements { axis }, &[x, indices])?)
}

fn gather_nd(ctx: &mut NodeContext<'_>) -> Imported {
    let x = ctx.input(0)?;
    let indices = addresses(ctx, 1)?;
    let batch_axes = ctx.attributes().get_or("batch_dims", 0_i64)?;
    let batch_axes = usize::try_from(batch_axes)
        .map_err(|_| ctx.attribute_error("batch_dims", "at least 0", batch_axes))?;
    one(ctx.op(Op::GatherNd { batch_axes }, &[x, indices])?)
}

/// Indices `[.., k]` into `k` axes at once, with `k` known.
pub(super) fn addresses(ctx: &mut NodeContext<'_>, index: usize) -> Result<ValueId, Error> {
    let indices = ctx.input(index)?;
    let innermost = ctx.rank(indices)?.saturating_sub(1);
    let expected = "indices whose innermost size is known";
    let (indices, _) = ctx.with_known_size(index, innermost, expected)?;
    Ok(indices)
}

/// The entries of an axis (or of all elements) for which the condition is true.
fn compress(ctx: &mut NodeContext<'_>) -> Imported {
    let (mut x, condition) = (ctx.input(0)?, ctx.input(1)?);
    let rank = ctx.rank(x)?;
    let axis = match ctx.attributes().get::<i64>("axis")? {
        Some(axis) => ctx.axis(axis, rank)?,
        None => {
            x = ctx.flat(x)?;
            0
        }
    };
    one(ctx.build(|builder| {
        let hits = builder.non_zero(condition)?;
        let hits = builder.squeeze(hits, &[0])?;
        builder.gather(x, hits, axis)
    })?)
}
