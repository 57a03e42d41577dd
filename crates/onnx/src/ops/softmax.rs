//! Softmax and related functions. Before version 13 they work on a matrix: all axes from `axis` on are merged.

use kiln_ir::{Dims, Extremum, Op, ValueId};
use kiln_tensor::DType;

use super::support::{Imported, one, operator};
use crate::import::Operator;
use crate::{Error, NodeContext};

pub(super) const OPERATORS: &[Operator] = &[
    operator("Hardmax", &[1, 13], |ctx| along_axis(ctx, hardmax)),
    operator("LogSoftmax", &[1, 13], |ctx| {
        along_axis(ctx, |ctx, x, axis| ctx.build(|b| b.log_softmax(x, axis)))
    }),
    operator("Softmax", &[1, 13], |ctx| {
        along_axis(ctx, |ctx, x, axis| ctx.build(|b| b.softmax(x, axis)))
    }),
];

type AlongAxis = fn(&mut NodeContext<'_>, ValueId, usize) -> Result<ValueId, Error>;

fn along_axis(ctx: &mut NodeContext<'_>, compute: AlongAxis) -> Imported {
    let x = ctx.input(0)?;
    let dims = ctx.shape(x)?;
    if ctx.version() >= 13 {
        let axis = ctx.axis_attribute(-1, dims.len())?;
        return one(compute(ctx, x, axis)?);
    }
    let axis = ctx.axis_attribute(1, dims.len())?;
    if axis + 1 == dims.len() {
        return one(compute(ctx, x, axis)?);
    }
    let (outer, inner) = dims.split_at(axis);
    let matrix: Dims = [ctx.product(outer)?, ctx.product(inner)?]
        .into_iter()
        .collect();
    let flat = ctx.reshape(x, &matrix)?;
    let result = compute(ctx, flat, 1)?;
    one(ctx.reshape(result, &dims)?)
}

/// 1 at the first of the maximum elements, 0 elsewhere.
fn hardmax(ctx: &mut NodeContext<'_>, x: ValueId, axis: usize) -> Result<ValueId, Error> {
    let dims = ctx.shape(x)?;
    let dtype = ctx.dtype(x)?;
    let op = Op::ArgReduce {
        extremum: Extremum::Max,
        axis,
        keep_dims: true,
        last: false,
    };
    let winner = ctx.op(op, &[x])?;
    let position = ctx.build(|builder| builder.iota(DType::I64, &dims, axis))?;
    let hit = ctx.map("eq", &[position, winner])?;
    ctx.cast(hit, dtype)
}
