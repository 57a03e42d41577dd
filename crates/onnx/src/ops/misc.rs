//! Operators without a family: running sums, the largest k, nonzero elements, reversed sequences.

use kiln_ir::{CumulateFunction, Extremum, Op};
use kiln_tensor::DType;

use super::support::{Imported, one, operator, several};
use crate::NodeContext;
use crate::import::Operator;

pub(super) const OPERATORS: &[Operator] = &[
    operator("CumProd", &[26], |ctx| {
        cumulate(ctx, CumulateFunction::Product)
    }),
    operator("CumSum", &[11], |ctx| cumulate(ctx, CumulateFunction::Sum)),
    operator("NonZero", &[9], non_zero),
    operator("ReverseSequence", &[10], reverse_sequence),
    operator("TopK", &[1, 10], top_k),
];

fn cumulate(ctx: &mut NodeContext<'_>, function: CumulateFunction) -> Imported {
    let x = ctx.input(0)?;
    let rank = ctx.rank(x)?;
    let axis = match ctx.integers(1)?.as_slice() {
        &[axis] => ctx.axis(axis, rank)?,
        axes => return Err(ctx.operand_error(1, "one axis", axes.len().to_string())),
    };
    let op = Op::Cumulate {
        function,
        axis,
        exclusive: ctx.flag("exclusive", false)?,
        reverse: ctx.flag("reverse", false)?,
    };
    one(ctx.op(op, &[x])?)
}

/// A scalar counts as a vector of one element.
fn non_zero(ctx: &mut NodeContext<'_>) -> Imported {
    let mut x = ctx.input(0)?;
    if ctx.rank(x)? == 0 {
        x = ctx.flat(x)?;
    }
    one(ctx.build(|builder| builder.non_zero(x))?)
}

/// The number is an attribute before version 10 and an operand from then on.
fn top_k(ctx: &mut NodeContext<'_>) -> Imported {
    let x = ctx.input(0)?;
    let rank = ctx.rank(x)?;
    let k = if ctx.version() < 10 {
        let k = ctx.attributes().require::<i64>("k")?;
        ctx.size(k)
    } else {
        match ctx.sizes_of(1)?.as_slice() {
            &[k] => k,
            sizes => return Err(ctx.operand_error(1, "one number", sizes.len().to_string())),
        }
    };
    let axis = ctx.axis_attribute(-1, rank)?;
    let largest = ctx.flag("largest", true)?;
    let extremum = if largest {
        Extremum::Max
    } else {
        Extremum::Min
    };
    let (values, indices) = ctx.build(|builder| builder.top_k(x, k, axis, extremum))?;
    several([values, indices])
}

/// The first `lens[b]` entries of each sequence reversed, the rest unchanged.
fn reverse_sequence(ctx: &mut NodeContext<'_>) -> Imported {
    let (x, lengths) = (ctx.input(0)?, ctx.input(1)?);
    let dims = ctx.shape(x)?;
    let batch_axis = ctx.attributes().get_or("batch_axis", 1_i64)?;
    let time_axis = ctx.attributes().get_or("time_axis", 0_i64)?;
    let batch_axis = ctx.axis(batch_axis, dims.len())?;
    let time_axis = ctx.axis(time_axis, dims.len())?;
    if batch_axis == time_axis {
        return Err(ctx.attribute_error(
            "time_axis",
            "an axis other than the batch axis",
            time_axis,
        ));
    }
    let unit = ctx.size(1);
    let (mut per_batch, mut per_time) = (vec![unit; dims.len()], vec![unit; dims.len()]);
    per_batch[batch_axis] = dims[batch_axis];
    per_time[time_axis] = dims[time_axis];
    one(ctx.build(|builder| {
        let lengths = builder.cast(lengths, DType::I64)?;
        let lengths = builder.reshape(lengths, &per_batch)?;
        let time = builder.iota(DType::I64, &per_time, time_axis)?;
        let one = builder.scalar(DType::I64, 1.0)?;
        let last = builder.sub(lengths, one)?;
        let mirrored = builder.sub(last, time)?;
        let inside = builder.less(time, lengths)?;
        let source = builder.select(inside, mirrored, time)?;
        let source = builder.broadcast_to(source, &dims)?;
        builder.gather_elements(x, source, time_axis)
    })?)
}
