//! The distinct elements of a tensor.

use kiln_ir::{Combine, Extremum, Op, PadMode, ReduceFunction, ValueId};
use kiln_shape_inference::InferError;
use kiln_symbolic_shape::DimId;
use kiln_tensor::DType;

use super::support::{Imported, operator, several};
use crate::import::Operator;
use crate::{Error, NodeContext};

pub(super) const OPERATORS: &[Operator] = &[operator("Unique", &[11], unique)];

/// Elements, or the slices along an axis, compared one after the other. They are sorted (by stable sorts from the last
/// element to the first, if they have several), and an entry that differs from the previous one starts a group.
fn unique(ctx: &mut NodeContext<'_>) -> Imported {
    let x = ctx.input(0)?;
    let dims = ctx.shape(x)?;
    let axis = ctx.attributes().get::<i64>("axis")?;
    let axis = axis.map(|axis| ctx.axis(axis, dims.len())).transpose()?;
    // One row per slice.
    let (moved, count) = match axis {
        None => {
            let flat = ctx.flat(x)?;
            (flat, ctx.shape(flat)?[0])
        }
        Some(axis) => {
            let mut order: Vec<usize> = (0..dims.len()).filter(|&other| other != axis).collect();
            order.insert(0, axis);
            (ctx.transpose(x, &order)?, dims[axis])
        }
    };
    let slice_dims = ctx.shape(moved)?;
    let width = ctx.product(&slice_dims[1..])?;
    let rows = ctx.reshape(moved, &[count, width])?;
    let order = sorted_order(ctx, rows, (count, width))?;
    let sorted = ctx.build(|builder| builder.gather(rows, order, 0))?;

    let starts = group_starts(ctx, sorted, (count, width))?;
    let firsts = ctx.build(|builder| {
        let places = builder.non_zero(starts)?;
        builder.squeeze(places, &[0])
    })?;
    let groups = ctx.shape(firsts)?[0];
    // Since the sort is stable, the first of each group is the first in the operand.
    let first_index = ctx.build(|builder| builder.gather(order, firsts, 0))?;
    let unit = ctx.size(1);
    let end = ctx.build(|builder| builder.dims_tensor(&[count]))?;
    let next = ctx.build(|builder| {
        let all = builder.concat(&[firsts, end], 0)?;
        builder.slice_axis(all, 0, unit, groups)
    })?;
    let counts = ctx.sub(next, firsts)?;
    let started = ctx.cast(starts, DType::I64)?;
    let group = ctx.build(|builder| builder.cumulative_sum(started, 0))?;
    let group = ctx.plus(group, -1.0)?;
    let inverse = placed(ctx, order, group, count)?;

    let is_sorted = ctx.flag("sorted", true)?;
    let (first_index, inverse, counts) = if is_sorted {
        (first_index, inverse, counts)
    } else {
        // The groups in the order of the operand.
        let (_, rank) =
            ctx.build(|builder| builder.top_k(first_index, groups, 0, Extremum::Min))?;
        let number = ctx.positions(DType::I64, &[groups], 0)?;
        let place = placed(ctx, rank, number, groups)?;
        ctx.build(|builder| {
            Ok((
                builder.gather(first_index, rank, 0)?,
                builder.gather(place, inverse, 0)?,
                builder.gather(counts, rank, 0)?,
            ))
        })?
    };
    let mut y = ctx.build(|builder| builder.gather(moved, first_index, 0))?;
    if let Some(axis) = axis {
        let mut back: Vec<usize> = (1..dims.len()).collect();
        back.insert(axis, 0);
        y = ctx.transpose(y, &back)?;
    }
    several([y, first_index, inverse, counts])
}

/// `result[places[i]] = values[i]`, for a permutation.
fn placed(
    ctx: &mut NodeContext<'_>,
    places: ValueId,
    values: ValueId,
    count: DimId,
) -> Result<ValueId, Error> {
    let empty = ctx.filled(DType::I64, 0.0, &[count])?;
    let scatter = Op::ScatterElements {
        axis: 0,
        combine: Combine::Set,
    };
    ctx.op(scatter, &[empty, places, values])
}

/// The permutation that sorts rows.
fn sorted_order(
    ctx: &mut NodeContext<'_>,
    rows: ValueId,
    (count, width): (DimId, DimId),
) -> Result<ValueId, Error> {
    if ctx.known(width) == Some(1) {
        let flat = ctx.reshape(rows, &[count])?;
        let (_, order) = ctx.build(|builder| builder.top_k(flat, count, 0, Extremum::Min))?;
        return Ok(order);
    }
    let start = ctx.positions(DType::I64, &[count], 0)?;
    let trips = ctx.dim_as_data(width)?;
    let last = ctx.plus(trips, -1.0)?;
    let order = ctx.build(|builder| {
        builder.repeat::<InferError>(
            trips,
            &[start],
            &[rows, last],
            |builder, step, carried, captures| {
                let &[rows, last] = captures else {
                    unreachable!("two values are passed in");
                };
                let column = builder.sub(last, step)?;
                let keys = builder.gather(rows, column, 1)?;
                let keys = builder.gather(keys, carried[0], 0)?;
                let (_, order) = builder.top_k(keys, count, 0, Extremum::Min)?;
                Ok((vec![builder.gather(carried[0], order, 0)?], vec![]))
            },
        )
    })?;
    Ok(order[0])
}

/// Whether each row differs from the previous one; the first does.
fn group_starts(
    ctx: &mut NodeContext<'_>,
    sorted: ValueId,
    (count, width): (DimId, DimId),
) -> Result<ValueId, Error> {
    let (zero, unit) = (ctx.size(0), ctx.size(1));
    let value = ctx.scalar(ctx.dtype(sorted)?, 0.0)?;
    let before = ctx.build(|builder| {
        let padded = builder.pad(
            sorted,
            value,
            &[unit, zero],
            &[zero, zero],
            PadMode::Constant,
        )?;
        builder.slice(padded, &[zero, zero], &[count, width], &[1, 1])
    })?;
    let differs = ctx.map("ne", &[sorted, before])?;
    let differs = ctx.reduce(ReduceFunction::Any, differs, &[1], false)?;
    let index = ctx.positions(DType::I64, &[count], 0)?;
    let first = ctx.integer(0)?;
    let is_first = ctx.map("eq", &[index, first])?;
    ctx.map("or", &[differs, is_first])
}
