//! Interpolation in images: neighbours, their weights, and the weighted sum.
//!
//! Images have any number of spatial axes. A neighbour outside the image is determined by the padding.

use kiln_ir::ValueId;
use kiln_symbolic_shape::DimId;
use kiln_tensor::DType;

use crate::{Error, NodeContext};

/// The padding outside an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outside {
    Zeros,
    /// The element at the edge.
    Edge,
    /// The inside, mirrored: at the centres of the corner elements if `corners`, otherwise at their outer edges.
    Mirror {
        corners: bool,
    },
}

/// Which neighbours count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Interpolation {
    Nearest,
    Linear,
    Cubic,
}

/// A neighbour along one axis, for every point.
#[derive(Clone, Copy)]
pub(super) struct Tap {
    /// Its index, i64, inside the axis.
    pub(super) index: ValueId,
    /// Its weight; 1 without one.
    pub(super) weight: Option<ValueId>,
}

/// The maximum number of neighbours of a point: those of a cubic interpolation in four axes.
const COMBINATION_LIMIT: usize = 256;

/// ONNX's coefficient of cubic interpolation.
const CUBIC: f64 = -0.75;

/// The neighbours of float coordinates along an axis of size `length`.
pub(super) fn taps(
    ctx: &mut NodeContext<'_>,
    at: ValueId,
    length: DimId,
    interpolation: Interpolation,
    outside: Outside,
) -> Result<Vec<Tap>, Error> {
    if interpolation == Interpolation::Nearest {
        return Ok(vec![tap(ctx, at, None, length, outside)?]);
    }
    let low = ctx.map("floor", &[at])?;
    let part = ctx.sub(at, low)?;
    let one = ctx.scalar_like(at, 1.0)?;
    let rest = ctx.sub(one, part)?;
    let weights = match interpolation {
        Interpolation::Cubic => vec![
            (-1.0, outer_weight(ctx, part)?),
            (0.0, inner_weight(ctx, part)?),
            (1.0, inner_weight(ctx, rest)?),
            (2.0, outer_weight(ctx, rest)?),
        ],
        _ => vec![(0.0, rest), (1.0, part)],
    };
    let mut taps = Vec::with_capacity(weights.len());
    for (distance, weight) in weights {
        let position = ctx.plus(low, distance)?;
        taps.push(tap(ctx, position, Some(weight), length, outside)?);
    }
    Ok(taps)
}

/// The cubic weight of a neighbour at distance `x`, at most 1.
fn inner_weight(ctx: &mut NodeContext<'_>, x: ValueId) -> Result<ValueId, Error> {
    // ((a + 2) x - (a + 3)) x x + 1
    let line = ctx.scaled(x, CUBIC + 2.0)?;
    let line = ctx.plus(line, -(CUBIC + 3.0))?;
    let square = ctx.mul(x, x)?;
    let bent = ctx.mul(line, square)?;
    ctx.plus(bent, 1.0)
}

/// The cubic weight of a neighbour at distance `x + 1`.
fn outer_weight(ctx: &mut NodeContext<'_>, x: ValueId) -> Result<ValueId, Error> {
    // ((a y - 5 a) y + 8 a) y - 4 a, where y = x + 1
    let y = ctx.plus(x, 1.0)?;
    let sum = ctx.scaled(y, CUBIC)?;
    let sum = ctx.plus(sum, -5.0 * CUBIC)?;
    let sum = ctx.mul(sum, y)?;
    let sum = ctx.plus(sum, 8.0 * CUBIC)?;
    let sum = ctx.mul(sum, y)?;
    ctx.plus(sum, -4.0 * CUBIC)
}

/// A neighbour at an integral position, inside or not.
fn tap(
    ctx: &mut NodeContext<'_>,
    position: ValueId,
    weight: Option<ValueId>,
    length: DimId,
    outside: Outside,
) -> Result<Tap, Error> {
    let dtype = ctx.dtype(position)?;
    let length = ctx.dim_as(length, dtype)?;
    let last = ctx.plus(length, -1.0)?;
    let zero = ctx.scalar(dtype, 0.0)?;
    let position = match outside {
        Outside::Mirror { corners } => mirrored(ctx, position, length, corners)?,
        _ => position,
    };
    let inside = ctx.map("clip", &[position, zero, last])?;
    let index = ctx.cast(inside, DType::I64)?;
    if outside != Outside::Zeros {
        return Ok(Tap { index, weight });
    }
    let is_inside = ctx.map("eq", &[inside, position])?;
    let weight = match weight {
        Some(weight) => ctx.select(is_inside, weight, zero)?,
        None => ctx.cast(is_inside, dtype)?,
    };
    let weight = Some(weight);
    Ok(Tap { index, weight })
}

/// Positions mirrored at both ends of an axis until they are inside.
pub(super) fn mirrored(
    ctx: &mut NodeContext<'_>,
    position: ValueId,
    length: ValueId,
    corners: bool,
) -> Result<ValueId, Error> {
    let first = if corners { 0.0 } else { -0.5 };
    let span = if corners {
        ctx.plus(length, -1.0)?
    } else {
        length
    };
    let zero = ctx.scalar_like(position, 0.0)?;
    let from_first = ctx.plus(position, -first)?;
    let twice = ctx.add(span, span)?;
    let around = ctx.map("floor_mod", &[from_first, twice])?;
    let back = ctx.sub(twice, around)?;
    let folded = ctx.map("min", &[around, back])?;
    // An axis of one element needs no mirroring.
    let is_point = ctx.map("eq", &[span, zero])?;
    let folded = ctx.select(is_point, zero, folded)?;
    ctx.plus(folded, first)
}

/// The sums over all combinations of neighbours: of `x: [N, C, spatial..]`, with the number of the picture in
/// `picture: i64` and neighbours per spatial axis that broadcast to `points`; returns `[C, points..]`.
pub(super) fn weighted_sum(
    ctx: &mut NodeContext<'_>,
    x: ValueId,
    picture: ValueId,
    axes: &[Vec<Tap>],
    points: &[DimId],
) -> Result<ValueId, Error> {
    let terms = weighted_terms(ctx, x, picture, axes, points)?;
    let mut sum: Option<ValueId> = None;
    for term in terms {
        sum = Some(match sum {
            Some(sum) => ctx.add(sum, term)?,
            None => term,
        });
    }
    sum.ok_or_else(|| ctx.unsupported("a picture without neighbours"))
}

/// The same, not summed yet.
pub(super) fn weighted_terms(
    ctx: &mut NodeContext<'_>,
    x: ValueId,
    picture: ValueId,
    axes: &[Vec<Tap>],
    points: &[DimId],
) -> Result<Vec<ValueId>, Error> {
    let dims = ctx.shape(x)?;
    let &[_, channels, ..] = dims.as_slice() else {
        let found = ctx.builder().describe(x);
        return Err(ctx.operand_error(0, "a tensor of rank 3 or more", found));
    };
    let mut order: Vec<usize> = (0..dims.len()).collect();
    order.swap(0, 1);
    let by_channel = ctx.transpose(x, &order)?;
    let rest: Vec<DimId> = order.iter().skip(1).map(|&axis| dims[axis]).collect();
    let elements = ctx.product(&rest)?;
    let flat = ctx.reshape(by_channel, &[channels, elements])?;
    let combinations = axes.iter().map(Vec::len);
    let combinations = combinations.fold(1_usize, usize::saturating_mul);
    if combinations > COMBINATION_LIMIT {
        let what = format!(
            "{combinations} neighbours of each point, in {} axes",
            axes.len()
        );
        return Err(ctx.unsupported(what));
    }
    // Indices so far, and the product of weights.
    let mut partial: Vec<(ValueId, Option<ValueId>)> = vec![(picture, None)];
    for (taps, &size) in axes.iter().zip(&dims[2..]) {
        let size = ctx.dim_as(size, DType::I64)?;
        let mut longer = Vec::with_capacity(partial.len() * taps.len());
        for &(index, weight) in &partial {
            let base = ctx.mul(index, size)?;
            for tap in taps {
                let index = ctx.add(base, tap.index)?;
                let weight = match (weight, tap.weight) {
                    (Some(one), Some(other)) => Some(ctx.mul(one, other)?),
                    (one, other) => one.or(other),
                };
                longer.push((index, weight));
            }
        }
        partial = longer;
    }
    let dtype = ctx.dtype(x)?;
    let mut terms = Vec::with_capacity(partial.len());
    for (index, weight) in partial {
        let index = ctx.broadcast(index, points)?;
        let read = ctx.build(|builder| builder.gather(flat, index, 1))?;
        terms.push(match weight {
            Some(weight) => {
                let weight = ctx.cast(weight, dtype)?;
                ctx.mul(read, weight)?
            }
            None => read,
        });
    }
    Ok(terms)
}
