//! `Resize` with scales that are data: sizes and coordinates are computed when the model runs.
//!
//! Each axis is resampled separately, as weighted sums of the entries next to every point.

use kiln_ir::{Coordinates, NearestRounding, ResizeMode, ValueId};
use kiln_symbolic_shape::DimId;
use kiln_tensor::DType;

use super::crop_resize::rounded;
use super::sample::{Interpolation, Outside, taps};
use crate::{Error, NodeContext};

/// How points are placed and read.
pub(super) struct Sampling {
    pub(super) mode: ResizeMode,
    pub(super) coordinates: Coordinates,
    pub(super) rounding: NearestRounding,
}

impl Sampling {
    /// The behaviour of versions before 11.
    pub(super) fn floored(mode: ResizeMode) -> Self {
        Self {
            mode,
            coordinates: Coordinates::Asymmetric,
            rounding: NearestRounding::Floor,
        }
    }
}

/// `x` with `axes` resampled to `floor(size * scale)` each; `scales` is a vector of floats, one per axis.
///
/// # Errors
/// When the vector has another length, or the sizes overflow.
pub(super) fn rescaled(
    ctx: &mut NodeContext<'_>,
    x: ValueId,
    axes: &[usize],
    scales: ValueId,
    sampling: &Sampling,
) -> Result<ValueId, Error> {
    let scales = ctx.cast(scales, DType::F32)?;
    let own = ctx.shape(x)?;
    let lengths: Vec<DimId> = axes.iter().map(|&axis| own[axis]).collect();
    let sizes = ctx.build(|builder| {
        let lengths = builder.dims_tensor(&lengths)?;
        // In f32, as in the operator's definition.
        let lengths = builder.cast(lengths, DType::F32)?;
        let sizes = builder.mul(lengths, scales)?;
        let sizes = builder.map("floor", &[sizes])?;
        let sizes = builder.cast(sizes, DType::I64)?;
        builder.bind_sizes(sizes)
    })?;
    let dtype = ctx.dtype(x)?;
    let unit = ctx.size(1);
    let mut y = x;
    for (index, (&axis, &size)) in axes.iter().zip(&sizes).enumerate() {
        let scale = ctx.entry(scales, 0, i64::try_from(index).unwrap_or(i64::MAX))?;
        let at = points(ctx, (own[axis], size), scale, sampling.coordinates)?;
        let (at, interpolation) = match sampling.mode {
            ResizeMode::Nearest => (rounded(ctx, at, sampling.rounding)?, Interpolation::Nearest),
            ResizeMode::Linear => (at, Interpolation::Linear),
            ResizeMode::Cubic => (at, Interpolation::Cubic),
        };
        let mut along = vec![unit; own.len()];
        along[axis] = size;
        let mut sum: Option<ValueId> = None;
        for tap in taps(ctx, at, own[axis], interpolation, Outside::Edge)? {
            let mut term = ctx.build(|builder| builder.gather(y, tap.index, axis))?;
            if let Some(weight) = tap.weight {
                let weight = ctx.reshape(weight, &along)?;
                let weight = ctx.cast(weight, dtype)?;
                term = ctx.mul(term, weight)?;
            }
            sum = Some(match sum {
                Some(sum) => ctx.add(sum, term)?,
                None => term,
            });
        }
        y = sum.unwrap_or(y);
    }
    Ok(y)
}

/// The positions of the result's points along an axis of size `own`, `f32[size]`.
fn points(
    ctx: &mut NodeContext<'_>,
    (own, size): (DimId, DimId),
    scale: ValueId,
    coordinates: Coordinates,
) -> Result<ValueId, Error> {
    let index = ctx.positions(DType::F32, &[size], 0)?;
    let length = ctx.dim_as(size, DType::F32)?;
    if coordinates == Coordinates::Asymmetric {
        return ctx.div(index, scale);
    }
    if coordinates == Coordinates::AlignCorners {
        let one = ctx.scalar(DType::F32, 1.0)?;
        let steps = ctx.plus(length, -1.0)?;
        let steps = ctx.map("max", &[steps, one])?;
        let last = ctx.dim_as(own, DType::F32)?;
        let last = ctx.plus(last, -1.0)?;
        let moved = ctx.mul(index, last)?;
        return ctx.div(moved, steps);
    }
    let middle = ctx.plus(index, 0.5)?;
    let middle = ctx.div(middle, scale)?;
    let at = ctx.plus(middle, -0.5)?;
    match coordinates {
        Coordinates::PytorchHalfPixel => {
            let one = ctx.scalar(DType::F32, 1.0)?;
            let is_many = ctx.map("gt", &[length, one])?;
            let zero = ctx.scalar(DType::F32, 0.0)?;
            ctx.select(is_many, at, zero)
        }
        Coordinates::HalfPixelSymmetric => {
            // The centre is preserved, regardless of the rounding of the size.
            let own = ctx.dim_as(own, DType::F32)?;
            let wanted = ctx.mul(own, scale)?;
            let kept = ctx.div(length, wanted)?;
            let centre = ctx.scaled(own, 0.5)?;
            let moved = ctx.mul(centre, kept)?;
            let offset = ctx.sub(centre, moved)?;
            ctx.add(at, offset)
        }
        _ => Ok(at),
    }
}
