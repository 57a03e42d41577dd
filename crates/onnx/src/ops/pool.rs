//! Pools: the maximum, the mean or a norm of a window.

use kiln_ir::{Integers, Op, PoolFunction, ReduceFunction, ValueId, Window};
use kiln_symbolic_shape::DimId;

use super::pool_indices::largest_indices;
use super::support::{Imported, in_f32, one, operator, several};
use super::window::{Moves, spatial_sizes};
use crate::import::Operator;
use crate::{Error, NodeContext};

pub(super) const OPERATORS: &[Operator] = &[
    operator("AveragePool", &[1], average_pool),
    operator("GlobalAveragePool", &[1], |ctx| {
        global(ctx, |ctx, x, axes| {
            ctx.reduce(ReduceFunction::Mean, x, axes, true)
        })
    }),
    operator("GlobalLpPool", &[2], global_lp_pool),
    operator("GlobalMaxPool", &[1], |ctx| {
        global(ctx, |ctx, x, axes| {
            ctx.reduce(ReduceFunction::Max, x, axes, true)
        })
    }),
    operator("LpPool", &[2], lp_pool),
    operator("MaxPool", &[1], max_pool),
];

/// A pooling window, and whether `ceil_mode` made it reach beyond the padding.
struct Pooling {
    size: Integers,
    window: Window,
    reaches_beyond: bool,
}

impl Pooling {
    fn read(ctx: &mut NodeContext<'_>) -> Result<Self, Error> {
        let sizes = spatial_sizes(ctx, 0)?;
        let size = Integers::from_slice(ctx.attributes().require::<&[i64]>("kernel_shape")?);
        if size.len() != sizes.len() || size.iter().any(|&size| size < 1) {
            let expected = format!("{} positive sizes, one per spatial axis", sizes.len());
            return Err(ctx.attribute_error("kernel_shape", expected, format!("{size:?}")));
        }
        let moves = Moves::read(ctx, sizes.len())?;
        let kernel: Vec<DimId> = size.iter().map(|&size| ctx.size(size)).collect();
        let mut window = moves.window(ctx, &sizes, &kernel)?;
        let mut reaches_beyond = false;
        if ctx.flag("ceil_mode", false)? {
            for (axis, &length) in sizes.iter().enumerate() {
                let before = window.high[axis];
                round_up(ctx, &mut window, axis, length, size[axis])?;
                reaches_beyond |= window.high[axis] != before;
            }
        }
        Ok(Self {
            size,
            window,
            reaches_beyond,
        })
    }

    fn apply(
        &self,
        ctx: &mut NodeContext<'_>,
        function: PoolFunction,
        x: ValueId,
    ) -> Result<ValueId, Error> {
        let op = Op::Pool {
            function,
            size: self.size.clone(),
            window: self.window.clone(),
        };
        ctx.op(op, &[x])
    }
}

/// Extends the padding after an axis so that its last window, partial or not, counts; one that would start in the padding
/// after the axis does not.
fn round_up(
    ctx: &mut NodeContext<'_>,
    window: &mut Window,
    axis: usize,
    length: DimId,
    kernel: i64,
) -> Result<(), Error> {
    let (low, high) = (window.low[axis], window.high[axis]);
    let stride = window.strides[axis];
    let reach = (kernel - 1)
        .checked_mul(window.dilations[axis])
        .and_then(|reach| reach.checked_add(1))
        .ok_or_else(|| ctx.attribute_error("dilations", "a window that fits an i64", kernel))?;
    // The last window starts at most `stride - 1` after where the last whole one would, so before the
    // end of the operand if this holds.
    let starts_inside = ctx
        .known(high)
        .and_then(|high| high.checked_add(stride))
        .is_some_and(|latest| latest <= reach);
    window.high[axis] = ctx.sizes(|table| {
        let (zero, one) = (table.constant(0), table.constant(1));
        let (stride, reach) = (table.constant(stride), table.constant(reach));
        let before_end = table.add(length, low)?;
        let padded = table.add(before_end, high)?;
        let room = table.sub(padded, reach)?;
        let steps = table.ceil_div(room, stride)?;
        if starts_inside {
            let last = table.mul(steps, stride)?;
            let end = table.add(last, reach)?;
            return table.sub(end, before_end);
        }
        let count = table.add(steps, one)?;
        let starting_before_end = table.ceil_div(before_end, stride)?;
        let count = table.min(count, starting_before_end)?;
        // The minimum padding that gives this many windows.
        let last = table.sub(count, one)?;
        let last = table.mul(last, stride)?;
        let end = table.add(last, reach)?;
        let needed = table.sub(end, before_end)?;
        table.max(needed, zero)
    })?;
    Ok(())
}

fn max_pool(ctx: &mut NodeContext<'_>) -> Imported {
    let x = ctx.input(0)?;
    let pooling = Pooling::read(ctx)?;
    let y = pooling.apply(ctx, PoolFunction::Max, x)?;
    if !ctx.wants_output(1) {
        return one(y);
    }
    let column_major = ctx.flag("storage_order", false)?;
    let indices = largest_indices(ctx, x, &pooling.size, &pooling.window, column_major)?;
    several([y, indices])
}

fn average_pool(ctx: &mut NodeContext<'_>) -> Imported {
    let mut x = ctx.input(0)?;
    let mut pooling = Pooling::read(ctx)?;
    if !ctx.flag("count_include_pad", false)? {
        return one(pooling.apply(ctx, PoolFunction::Mean, x)?);
    }
    if !pooling.reaches_beyond {
        return one(pooling.apply(ctx, PoolFunction::MeanWithPadding, x)?);
    }
    // Padding counts, the part added by `ceil_mode` does not: so the padding becomes part of the operand.
    let sizes = spatial_sizes(ctx, 0)?;
    let kernel: Vec<DimId> = pooling.size.iter().map(|&size| ctx.size(size)).collect();
    let stated = Moves::read(ctx, sizes.len())?.window(ctx, &sizes, &kernel)?;
    let zero = ctx.size(0);
    let (mut low, mut high) = (vec![zero; 2], vec![zero; 2]);
    for axis in 0..sizes.len() {
        let (before, after) = (stated.low[axis], stated.high[axis]);
        low.push(before);
        high.push(after);
        pooling.window.low[axis] = zero;
        pooling.window.high[axis] = ctx.sizes(|table| {
            let beyond = table.sub(pooling.window.high[axis], after)?;
            table.max(beyond, zero)
        })?;
    }
    let value = ctx.scalar_like(x, 0.0)?;
    x = ctx.build(|builder| builder.pad(x, value, &low, &high, kiln_ir::PadMode::Constant))?;
    one(pooling.apply(ctx, PoolFunction::Mean, x)?)
}

/// The `p`-th root of the sum of `|x|^p` over a window.
fn lp_pool(ctx: &mut NodeContext<'_>) -> Imported {
    let x = ctx.input(0)?;
    let p = ctx.attributes().get_or("p", 2_i64)?;
    let pooling = Pooling::read(ctx)?;
    one(in_f32(ctx, x, |ctx, x| {
        let powers = to_power(ctx, x, p)?;
        let sum = pooling.apply(ctx, PoolFunction::Sum, powers)?;
        root(ctx, sum, p)
    })?)
}

fn global_lp_pool(ctx: &mut NodeContext<'_>) -> Imported {
    let p = ctx.attributes().get_or("p", 2_i64)?;
    global(ctx, |ctx, x, axes| {
        in_f32(ctx, x, |ctx, x| {
            let powers = to_power(ctx, x, p)?;
            let sum = ctx.reduce(ReduceFunction::Sum, powers, axes, true)?;
            root(ctx, sum, p)
        })
    })
}

fn global(
    ctx: &mut NodeContext<'_>,
    reduce: impl FnOnce(&mut NodeContext<'_>, ValueId, &[usize]) -> Result<ValueId, Error>,
) -> Imported {
    let x = ctx.input(0)?;
    let axes: Vec<usize> = (2..ctx.rank(x)?).collect();
    one(reduce(ctx, x, &axes)?)
}

/// `|x|^p`.
pub(super) fn to_power(ctx: &mut NodeContext<'_>, x: ValueId, p: i64) -> Result<ValueId, Error> {
    match p {
        1 => ctx.map("abs", &[x]),
        2 => ctx.map("square", &[x]),
        _ => {
            let size = ctx.map("abs", &[x])?;
            let p = ctx.scalar_like(x, p as f64)?;
            ctx.map("pow", &[size, p])
        }
    }
}

/// `x^(1 / p)`, of numbers of at least 0.
pub(super) fn root(ctx: &mut NodeContext<'_>, x: ValueId, p: i64) -> Result<ValueId, Error> {
    match p {
        1 => Ok(x),
        2 => ctx.map("sqrt", &[x]),
        _ => {
            let p = ctx.scalar_like(x, 1.0 / p as f64)?;
            ctx.map("pow", &[x, p])
        }
    }
}
