//! Reductions over axes, and the indices of extrema.

use kiln_ir::{Extremum, Indices, Op, ReduceFunction, ValueId};
use kiln_tensor::DType;

use super::support::{Imported, in_f32, one, operator};
use crate::import::Operator;
use crate::{Error, NodeContext};

pub(super) const OPERATORS: &[Operator] = &[
    operator("ArgMax", &[1], |ctx| arg_reduce(ctx, Extremum::Max)),
    operator("ArgMin", &[1], |ctx| arg_reduce(ctx, Extremum::Min)),
    operator("ReduceL1", &[1, 18], l1),
    operator("ReduceL2", &[1, 18], l2),
    operator("ReduceLogSum", &[1, 18], log_sum),
    operator("ReduceLogSumExp", &[1, 18], log_sum_exp),
    operator("ReduceMax", &[1, 18], |ctx| {
        extremum(ctx, ReduceFunction::Max, ReduceFunction::Any)
    }),
    operator("ReduceMean", &[1, 18], mean),
    operator("ReduceMin", &[1, 18], |ctx| {
        extremum(ctx, ReduceFunction::Min, ReduceFunction::All)
    }),
    operator("ReduceProd", &[1, 18], |ctx| {
        plain(ctx, ReduceFunction::Product)
    }),
    operator("ReduceSum", &[1, 13], |ctx| plain(ctx, ReduceFunction::Sum)),
    operator("ReduceSumSquare", &[1, 18], sum_square),
];

/// The operand, the reduced axes, and whether they are kept.
struct Reduction {
    x: ValueId,
    axes: Indices,
    keep_dims: bool,
}

impl Reduction {
    fn read(ctx: &mut NodeContext<'_>) -> Result<Self, Error> {
        let x = ctx.input(0)?;
        let rank = ctx.rank(x)?;
        // The table gives, for each operator, the first version in which axes are an operand.
        let given = if ctx.version() == 1 {
            ctx.attributes().get::<&[i64]>("axes")?.map(<[i64]>::to_vec)
        } else {
            ctx.optional_integers(1)?
        };
        let axes = match given {
            Some(axes) if !axes.is_empty() => ctx.ascending(&axes, rank)?,
            _ if ctx.flag("noop_with_empty_axes", false)? => Indices::new(),
            _ => (0..rank).collect(),
        };
        let keep_dims = ctx.flag("keepdims", true)?;
        Ok(Self { x, axes, keep_dims })
    }

    fn apply(
        &self,
        ctx: &mut NodeContext<'_>,
        function: ReduceFunction,
        x: ValueId,
    ) -> Result<ValueId, Error> {
        ctx.reduce(function, x, &self.axes, self.keep_dims)
    }
}

fn plain(ctx: &mut NodeContext<'_>, function: ReduceFunction) -> Imported {
    let reduction = Reduction::read(ctx)?;
    one(reduction.apply(ctx, function, reduction.x)?)
}

/// For bools, the maximum is whether any is true, and the minimum whether all are.
fn extremum(
    ctx: &mut NodeContext<'_>,
    function: ReduceFunction,
    of_bools: ReduceFunction,
) -> Imported {
    let dtype = ctx.input(0).and_then(|x| ctx.dtype(x))?;
    let is_bool = dtype == DType::Bool;
    plain(ctx, if is_bool { of_bools } else { function })
}

/// The mean of integers is their sum divided by their number, truncated.
fn mean(ctx: &mut NodeContext<'_>) -> Imported {
    let reduction = Reduction::read(ctx)?;
    let dtype = ctx.dtype(reduction.x)?;
    if dtype.is_float() {
        return one(reduction.apply(ctx, ReduceFunction::Mean, reduction.x)?);
    }
    let sum = reduction.apply(ctx, ReduceFunction::Sum, reduction.x)?;
    let shape = ctx.shape(reduction.x)?;
    let reduced: Vec<_> = reduction.axes.iter().map(|&axis| shape[axis]).collect();
    let count = ctx.product(&reduced)?;
    let count = ctx.dim_as_data(count)?;
    let count = ctx.cast(count, dtype)?;
    one(ctx.div(sum, count)?)
}

fn l1(ctx: &mut NodeContext<'_>) -> Imported {
    let reduction = Reduction::read(ctx)?;
    let sizes = ctx.map("abs", &[reduction.x])?;
    one(reduction.apply(ctx, ReduceFunction::Sum, sizes)?)
}

fn l2(ctx: &mut NodeContext<'_>) -> Imported {
    let reduction = Reduction::read(ctx)?;
    in_floats(ctx, reduction.x, |ctx, x| {
        let squares = ctx.map("square", &[x])?;
        let sum = reduction.apply(ctx, ReduceFunction::Sum, squares)?;
        ctx.map("sqrt", &[sum])
    })
}

fn log_sum(ctx: &mut NodeContext<'_>) -> Imported {
    let reduction = Reduction::read(ctx)?;
    in_floats(ctx, reduction.x, |ctx, x| {
        let sum = reduction.apply(ctx, ReduceFunction::Sum, x)?;
        ctx.map("log", &[sum])
    })
}

/// `log(sum(exp(x)))`, with the maximum subtracted first so that nothing overflows.
fn log_sum_exp(ctx: &mut NodeContext<'_>) -> Imported {
    let reduction = Reduction::read(ctx)?;
    in_floats(ctx, reduction.x, |ctx, x| {
        let largest = ctx.reduce(ReduceFunction::Max, x, &reduction.axes, true)?;
        // An infinity would cancel to NaN; if the maximum is one, 0 is used instead.
        let zero = ctx.scalar_like(x, 0.0)?;
        let infinite = ctx.map("is_inf", &[largest])?;
        let shift = ctx.map("select", &[infinite, zero, largest])?;
        let shifted = ctx.sub(x, shift)?;
        let powers = ctx.map("exp", &[shifted])?;
        let sum = ctx.reduce(ReduceFunction::Sum, powers, &reduction.axes, true)?;
        let log = ctx.map("log", &[sum])?;
        let result = ctx.add(log, shift)?;
        if reduction.keep_dims {
            return Ok(result);
        }
        let mut dims = ctx.shape(result)?;
        for &axis in reduction.axes.iter().rev() {
            dims.remove(axis);
        }
        ctx.reshape(result, &dims)
    })
}

fn sum_square(ctx: &mut NodeContext<'_>) -> Imported {
    let reduction = Reduction::read(ctx)?;
    one(in_f32(ctx, reduction.x, |ctx, x| {
        let squares = ctx.map("square", &[x])?;
        reduction.apply(ctx, ReduceFunction::Sum, squares)
    })?)
}

/// Integers go through f64 and back, floats of 16 bits through f32.
fn in_floats(
    ctx: &mut NodeContext<'_>,
    x: ValueId,
    compute: impl FnOnce(&mut NodeContext<'_>, ValueId) -> Result<ValueId, Error>,
) -> Imported {
    let dtype = ctx.dtype(x)?;
    if dtype.is_float() {
        return one(in_f32(ctx, x, compute)?);
    }
    let wide = ctx.cast(x, DType::F64)?;
    let result = compute(ctx, wide)?;
    one(ctx.cast(result, dtype)?)
}

fn arg_reduce(ctx: &mut NodeContext<'_>, extremum: Extremum) -> Imported {
    let x = ctx.input(0)?;
    let rank = ctx.rank(x)?;
    let op = Op::ArgReduce {
        extremum,
        axis: ctx.axis_attribute(0, rank)?,
        keep_dims: ctx.flag("keepdims", true)?,
        last: ctx.flag("select_last_index", false)?,
    };
    one(ctx.op(op, &[x])?)
}
