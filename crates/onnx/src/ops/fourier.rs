//! Discrete Fourier transforms, as products with a matrix of sines and cosines.
//!
//! The last axis holds a number's real and, if it has two entries, imaginary part. Angles are computed from products of
//! indices modulo the length, so they stay exact however long the signal is.

use kiln_ir::{PadMode, ValueId};
use kiln_symbolic_shape::DimId;
use kiln_tensor::DType;

use super::support::{Imported, one, operator};
use crate::import::Operator;
use crate::{Error, NodeContext};

pub(super) const OPERATORS: &[Operator] = &[
    operator("DFT", &[17, 20], dft),
    operator("STFT", &[17], stft),
];

/// Real and imaginary part; a part that is zero throughout is `None`.
#[derive(Clone, Copy)]
struct Complex {
    real: ValueId,
    imaginary: Option<ValueId>,
}

/// The parts of numbers along the last axis, which is removed.
fn parts(ctx: &mut NodeContext<'_>, x: ValueId) -> Result<Complex, Error> {
    let dims = ctx.shape(x)?;
    let last = dims.len().saturating_sub(1);
    match dims.last().and_then(|&entries| ctx.known(entries)) {
        Some(1) => Ok(Complex {
            real: ctx.entry(x, last, 0)?,
            imaginary: None,
        }),
        Some(2) => Ok(Complex {
            real: ctx.entry(x, last, 0)?,
            imaginary: Some(ctx.entry(x, last, 1)?),
        }),
        _ => {
            let found = ctx.builder().describe(x);
            Err(ctx.operand_error(0, "1 or 2 entries along the last axis", found))
        }
    }
}

/// Cosine and sine of `2 pi j k / length`: `[rows, columns]`.
fn waves(
    ctx: &mut NodeContext<'_>,
    (rows, columns): (DimId, DimId),
    length: DimId,
    dtype: DType,
) -> Result<(ValueId, ValueId), Error> {
    let unit = ctx.size(1);
    let length = ctx.dim_as_data(length)?;
    let row = ctx.positions(DType::I64, &[rows, unit], 0)?;
    let column = ctx.positions(DType::I64, &[unit, columns], 1)?;
    let product = ctx.mul(row, column)?;
    let one = ctx.integer(1)?;
    let length = ctx.map("max", &[length, one])?;
    let turns = ctx.map("floor_mod", &[product, length])?;
    let (turns, length) = (ctx.cast(turns, DType::F64)?, ctx.cast(length, DType::F64)?);
    let turns = ctx.div(turns, length)?;
    let angle = ctx.scaled(turns, std::f64::consts::TAU)?;
    let (cosine, sine) = (ctx.map("cos", &[angle])?, ctx.map("sin", &[angle])?);
    Ok((ctx.cast(cosine, dtype)?, ctx.cast(sine, dtype)?))
}

/// `x` times `cos + i * sine`, along the last axis of `x`.
fn transformed(
    ctx: &mut NodeContext<'_>,
    x: Complex,
    cosine: ValueId,
    sine: ValueId,
) -> Result<(ValueId, ValueId), Error> {
    let mut real = ctx.matmul(x.real, cosine)?;
    let mut imaginary = ctx.matmul(x.real, sine)?;
    if let Some(own) = x.imaginary {
        let crossed = ctx.matmul(own, sine)?;
        real = ctx.sub(real, crossed)?;
        let crossed = ctx.matmul(own, cosine)?;
        imaginary = ctx.add(imaginary, crossed)?;
    }
    Ok((real, imaginary))
}

fn dft(ctx: &mut NodeContext<'_>) -> Imported {
    let x = ctx.input(0)?;
    let dims = ctx.shape(x)?;
    let rank = dims.len();
    let axis = if ctx.version() < 20 {
        ctx.attributes().get_or("axis", 1_i64)?
    } else {
        match ctx.optional_integers(2)?.as_deref() {
            None => -2,
            Some(&[axis]) => axis,
            Some(axes) => return Err(ctx.operand_error(2, "one axis", axes.len().to_string())),
        }
    };
    let axis = ctx.axis(axis, rank)?;
    if axis + 1 == rank {
        let expected = "an axis before the last, which holds real and imaginary parts";
        return Err(ctx.attribute_error("axis", expected, axis));
    }
    let inverse = ctx.flag("inverse", false)?;
    let one_sided = ctx.flag("onesided", false)?;
    let own = dims[axis];
    let length = match ctx.optional(1) {
        Some(_) => match ctx.sizes_of(1)?.as_slice() {
            &[length] => length,
            sizes => return Err(ctx.operand_error(1, "one length", sizes.len().to_string())),
        },
        None if inverse && one_sided => ctx.sizes(|table| {
            let (one, two) = (table.constant(1), table.constant(2));
            let steps = table.sub(own, one)?;
            table.mul(steps, two)
        })?,
        None => own,
    };
    let half = ctx.sizes(|table| {
        let (one, two) = (table.constant(1), table.constant(2));
        let half = table.floor_div(length, two)?;
        table.add(half, one)
    })?;
    // The axis is moved to the end, before the one with the parts.
    let mut order: Vec<usize> = (0..rank - 1).filter(|&other| other != axis).collect();
    order.extend([axis, rank - 1]);
    let moved = ctx.transpose(x, &order)?;
    let used = if inverse && one_sided { half } else { length };
    let fitted = fitted(ctx, moved, rank - 2, own, used)?;
    let x = parts(ctx, fitted)?;
    let dtype = ctx.dtype(x.real)?;
    let y = if inverse && one_sided {
        let real = real_inverse(ctx, x, (used, length), dtype)?;
        ctx.build(|builder| builder.unsqueeze(real, &[rank - 1]))?
    } else {
        let results = if one_sided { half } else { length };
        let (cosine, mut sine) = waves(ctx, (length, results), length, dtype)?;
        if !inverse {
            sine = ctx.map("neg", &[sine])?;
        }
        let (mut real, mut imaginary) = transformed(ctx, x, cosine, sine)?;
        if inverse {
            let count = ctx.dim_as(length, dtype)?;
            real = ctx.div(real, count)?;
            imaginary = ctx.div(imaginary, count)?;
        }
        ctx.build(|builder| builder.stack(&[real, imaginary], rank - 1))?
    };
    let mut back: Vec<usize> = (0..rank - 2).collect();
    back.insert(axis, rank - 2);
    back.push(rank - 1);
    one(ctx.transpose(y, &back)?)
}

/// The real signal for which `x` is the first half of its transform: the other half contributes the same again, except
/// for the first entry and, for an even length, the last.
fn real_inverse(
    ctx: &mut NodeContext<'_>,
    x: Complex,
    (used, length): (DimId, DimId),
    dtype: DType,
) -> Result<ValueId, Error> {
    let (cosine, sine) = waves(ctx, (used, length), length, dtype)?;
    let unit = ctx.size(1);
    let index = ctx.positions(DType::I64, &[used, unit], 0)?;
    let (zero, whole) = (ctx.integer(0)?, ctx.dim_as_data(length)?);
    let twice = ctx.add(index, index)?;
    let first = ctx.map("eq", &[index, zero])?;
    let middle = ctx.map("eq", &[twice, whole])?;
    let alone = ctx.map("or", &[first, middle])?;
    let (once, again) = (ctx.scalar(dtype, 1.0)?, ctx.scalar(dtype, 2.0)?);
    let weight = ctx.select(alone, once, again)?;
    let count = ctx.dim_as(length, dtype)?;
    let weight = ctx.div(weight, count)?;
    let cosine = ctx.mul(cosine, weight)?;
    let real = ctx.matmul(x.real, cosine)?;
    let Some(imaginary) = x.imaginary else {
        return Ok(real);
    };
    let sine = ctx.mul(sine, weight)?;
    let crossed = ctx.matmul(imaginary, sine)?;
    ctx.sub(real, crossed)
}

/// Truncated or zero-padded, so that an axis of size `own` has size `wanted`.
fn fitted(
    ctx: &mut NodeContext<'_>,
    x: ValueId,
    axis: usize,
    own: DimId,
    wanted: DimId,
) -> Result<ValueId, Error> {
    if own == wanted {
        return Ok(x);
    }
    let (kept, missing) = ctx.sizes(|table| {
        let kept = table.min(own, wanted)?;
        Ok((kept, table.sub(wanted, kept)?))
    })?;
    let zero = ctx.size(0);
    let rank = ctx.rank(x)?;
    let low = vec![zero; rank];
    let mut high = vec![zero; rank];
    high[axis] = missing;
    let value = ctx.scalar_like(x, 0.0)?;
    ctx.build(|builder| {
        let cut = builder.slice_axis(x, axis, zero, kept)?;
        builder.pad(cut, value, &low, &high, PadMode::Constant)
    })
}

/// `signal: [N, L, 1 or 2] -> [N, frames, frequencies, 2]`.
fn stft(ctx: &mut NodeContext<'_>) -> Imported {
    let signal = ctx.input(0)?;
    let [_, length, _] = ctx.dims_of_rank::<3>(0, signal)?;
    let steps = ctx.sizes_of(1)?;
    let &[step] = steps.as_slice() else {
        return Err(ctx.operand_error(1, "one step", steps.len().to_string()));
    };
    let window = ctx.optional(2);
    let frame = match (ctx.optional(3), window) {
        (Some(_), _) => match ctx.sizes_of(3)?.as_slice() {
            &[frame] => frame,
            sizes => return Err(ctx.operand_error(3, "one length", sizes.len().to_string())),
        },
        (None, Some(window)) => ctx.dims_of_rank::<1>(2, window)?[0],
        (None, None) => return Err(ctx.operand_error(3, "a window or a frame's length", "none")),
    };
    let (frames, half) = ctx.sizes(|table| {
        let (one, two) = (table.constant(1), table.constant(2));
        let free = table.sub(length, frame)?;
        let frames = table.floor_div(free, step)?;
        let half = table.floor_div(frame, two)?;
        Ok((table.add(frames, one)?, table.add(half, one)?))
    })?;
    let unit = ctx.size(1);
    let (begin, inside) = (
        ctx.positions(DType::I64, &[frames, unit], 0)?,
        ctx.positions(DType::I64, &[unit, frame], 1)?,
    );
    let step = ctx.dim_as_data(step)?;
    let begin = ctx.mul(begin, step)?;
    let index = ctx.add(begin, inside)?;
    let mut framed = ctx.build(|builder| builder.gather(signal, index, 1))?;
    if let Some(window) = window {
        let window = ctx.cast(window, ctx.dtype(signal)?)?;
        let window = ctx.reshape(window, &[frame, unit])?;
        framed = ctx.mul(framed, window)?;
    }
    let x = parts(ctx, framed)?;
    let results = if ctx.flag("onesided", true)? {
        half
    } else {
        frame
    };
    let dtype = ctx.dtype(x.real)?;
    let (cosine, sine) = waves(ctx, (frame, results), frame, dtype)?;
    let sine = ctx.map("neg", &[sine])?;
    let (real, imaginary) = transformed(ctx, x, cosine, sine)?;
    one(ctx.build(|builder| builder.stack(&[real, imaginary], 3))?)
}
