//! Tensors built from positions: ranges, diagonals, triangles, one-hot codes.

use kiln_ir::{Dims, ValueId};
use kiln_symbolic_shape::DimId;
use kiln_tensor::DType;

use super::cast::dtype_attribute;
use super::support::{Imported, one, operator};
use crate::import::Operator;
use crate::{Error, NodeContext};

pub(super) const OPERATORS: &[Operator] = &[
    operator("EyeLike", &[9], eye_like),
    operator("OneHot", &[9], one_hot),
    operator("Range", &[11], range),
    operator("Trilu", &[14], trilu),
];

/// `start, start + delta, …` up to `limit`, exclusive.
fn range(ctx: &mut NodeContext<'_>) -> Imported {
    let (start, limit, delta) = (ctx.input(0)?, ctx.input(1)?, ctx.input(2)?);
    if ctx.constant_number(delta) == Some(0.0) {
        return Err(ctx.operand_error(2, "a step other than 0", "0"));
    }
    let (start, limit, delta) = (
        ctx.as_scalar(start)?,
        ctx.as_scalar(limit)?,
        ctx.as_scalar(delta)?,
    );
    let count = match known_count(ctx, start, limit, delta)? {
        Some(count) => count,
        None => counted_by_data(ctx, start, limit, delta)?,
    };
    let dtype = ctx.dtype(start)?;
    one(ctx.build(|builder| {
        let index = builder.iota(dtype, &[count], 0)?;
        let steps = builder.mul(index, delta)?;
        builder.add(start, steps)
    })?)
}

/// `max(0, ceil((limit - start) / delta))`, if these are known and delta is constant.
fn known_count(
    ctx: &mut NodeContext<'_>,
    start: ValueId,
    limit: ValueId,
    delta: ValueId,
) -> Result<Option<DimId>, Error> {
    let known = |value| ctx.builder().known_values(value)?.first().copied();
    let (Some(first), Some(end)) = (known(start), known(limit)) else {
        return Ok(None);
    };
    let delta = match ctx.constant_integers(delta).as_deref() {
        Some(&[delta]) if delta != 0 && delta != i64::MIN => delta,
        _ => return Ok(None),
    };
    let count = ctx.sizes(|table| {
        let (zero, step) = (table.constant(0), table.constant(delta.abs()));
        let distance = if delta > 0 {
            table.sub(end, first)?
        } else {
            table.sub(first, end)?
        };
        let distance = table.max(distance, zero)?;
        table.ceil_div(distance, step)
    })?;
    Ok(Some(count))
}

fn counted_by_data(
    ctx: &mut NodeContext<'_>,
    start: ValueId,
    limit: ValueId,
    delta: ValueId,
) -> Result<DimId, Error> {
    let dtype = ctx.dtype(start)?;
    let sizes = ctx.build(|builder| {
        // Through f64: exact for every float dtype, and for integers up to 2^53.
        let wide = wide_or(dtype);
        let (start, limit, delta) = if dtype.is_float() {
            (start, limit, delta)
        } else {
            (
                builder.cast(start, wide)?,
                builder.cast(limit, wide)?,
                builder.cast(delta, wide)?,
            )
        };
        let still = builder.scalar(wide_or(dtype), 0.0)?;
        let is_still = builder.equal(delta, still)?;
        let distance = builder.sub(limit, start)?;
        let steps = builder.div(distance, delta)?;
        let steps = builder.ceil(steps)?;
        let steps = builder.cast(steps, DType::I64)?;
        let zero = builder.scalar(DType::I64, 0.0)?;
        let steps = builder.max(steps, zero)?;
        // A step of 0 does not give a range: the size is negative, which the binding rejects.
        let refused = builder.scalar(DType::I64, -1.0)?;
        let steps = builder.select(is_still, refused, steps)?;
        builder.bind_sizes(steps)
    })?;
    match sizes.as_slice() {
        &[size] => Ok(size),
        _ => unreachable!("a scalar binds one size"),
    }
}

/// The dtype in which steps are counted.
fn wide_or(dtype: DType) -> DType {
    if dtype.is_float() { dtype } else { DType::F64 }
}

/// Row and column numbers of the last two of `dims`, shaped to broadcast against them.
fn rows_and_columns(
    ctx: &mut NodeContext<'_>,
    dims: &[DimId],
) -> Result<(ValueId, ValueId), Error> {
    let &[.., rows, columns] = dims else {
        let x = ctx.input(0)?;
        let found = ctx.builder().describe(x);
        return Err(ctx.operand_error(0, "a tensor of rank 2 or more", found));
    };
    let unit = ctx.size(1);
    ctx.build(|builder| {
        let rows = builder.iota(DType::I64, &[rows, unit], 0)?;
        let columns = builder.iota(DType::I64, &[unit, columns], 1)?;
        Ok((rows, columns))
    })
}

/// Ones on diagonal `k`, zeros elsewhere.
fn eye_like(ctx: &mut NodeContext<'_>) -> Imported {
    let x = ctx.input(0)?;
    let dims = ctx.shape(x)?;
    let own = ctx.dtype(x)?;
    let dtype = dtype_attribute(ctx, "dtype", own)?;
    let k = ctx.attributes().get_or("k", 0_i64)?;
    let (rows, columns) = rows_and_columns(ctx, &dims)?;
    let k = ctx.integer(k)?;
    one(ctx.build(|builder| {
        let diagonal = builder.add(rows, k)?;
        let hit = builder.equal(columns, diagonal)?;
        builder.cast(hit, dtype)
    })?)
}

/// Elements above (or below) diagonal `k` are kept, zeros elsewhere.
fn trilu(ctx: &mut NodeContext<'_>) -> Imported {
    let x = ctx.input(0)?;
    let dims = ctx.shape(x)?;
    let upper = ctx.flag("upper", true)?;
    let (rows, columns) = rows_and_columns(ctx, &dims)?;
    let k = match ctx.optional(1) {
        Some(k) => ctx.as_scalar(k)?,
        None => ctx.integer(0)?,
    };
    let k = ctx.cast(k, DType::I64)?;
    let zero = ctx.scalar_like(x, 0.0)?;
    one(ctx.build(|builder| {
        let diagonal = builder.add(rows, k)?;
        let stays = if upper {
            builder.map("ge", &[columns, diagonal])?
        } else {
            builder.map("le", &[columns, diagonal])?
        };
        builder.select(stays, x, zero)
    })?)
}

/// `values = [off, on]`; negative indices count from `depth`, those outside are all off.
fn one_hot(ctx: &mut NodeContext<'_>) -> Imported {
    let (indices, values) = (ctx.input(0)?, ctx.input(2)?);
    let depth = ctx.input(1)?;
    let depth = ctx.as_scalar(depth)?;
    let depth = ctx.cast(depth, DType::I64)?;
    let depth = match ctx.sizes_in(depth)?.as_slice() {
        &[depth] => depth,
        _ => unreachable!("a scalar gives one size"),
    };
    let own = ctx.shape(indices)?;
    let axis = ctx.attributes().get_or("axis", -1_i64)?;
    let axis = ctx.axis(axis, own.len() + 1)?;
    let unit = ctx.size(1);
    let mut along = Dims::from_elem(unit, own.len() + 1);
    along[axis] = depth;
    let (off, on) = (ctx.entry(values, 0, 0)?, ctx.entry(values, 0, 1)?);
    one(ctx.build(|builder| {
        let indices = builder.cast(indices, DType::I64)?;
        let count = builder.dims_tensor(&[depth])?;
        let count = builder.reshape(count, &[])?;
        let zero = builder.scalar(DType::I64, 0.0)?;
        let is_negative = builder.less(indices, zero)?;
        let from_end = builder.add(indices, count)?;
        let indices = builder.select(is_negative, from_end, indices)?;
        let indices = builder.unsqueeze(indices, &[axis])?;
        let position = builder.iota(DType::I64, &along, axis)?;
        let hit = builder.equal(indices, position)?;
        builder.select(hit, on, off)
    })?)
}
