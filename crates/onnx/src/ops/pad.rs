//! Padding; negative padding crops.

use kiln_ir::{Dims, Integers, Op, PadMode, ValueId};
use kiln_symbolic_shape::DimId;

use super::support::{Imported, one, operator};
use crate::import::Operator;
use crate::{Error, NodeContext};

pub(super) const OPERATORS: &[Operator] = &[
    operator("CenterCropPad", &[18], center_crop_pad),
    operator("Pad", &[2, 11], pad),
];

/// Counts and value are attributes before version 11 and operands from then on.
fn pad(ctx: &mut NodeContext<'_>) -> Imported {
    let x = ctx.input(0)?;
    let rank = ctx.rank(x)?;
    let mode = match ctx.attributes().get_or("mode", "constant")? {
        "constant" => PadMode::Constant,
        "reflect" => PadMode::Reflect,
        "edge" => PadMode::Edge,
        "wrap" => PadMode::Wrap,
        other => {
            let expected = "\"constant\", \"reflect\", \"edge\" or \"wrap\"";
            return Err(ctx.attribute_error("mode", expected, other));
        }
    };
    let (counts, axes) = if ctx.version() < 11 {
        let pads = ctx.attributes().require::<&[i64]>("pads")?;
        let counts: Vec<DimId> = pads.iter().map(|&count| ctx.size(count)).collect();
        (counts, None)
    } else {
        (ctx.sizes_of(1)?, ctx.optional_integers(3)?)
    };
    let axes = match axes {
        Some(axes) => axes
            .iter()
            .map(|&axis| ctx.axis(axis, rank))
            .collect::<Result<_, _>>()?,
        None => (0..rank).collect::<Vec<usize>>(),
    };
    if counts.len() != 2 * axes.len() {
        let expected = format!("{} counts, two per axis", 2 * axes.len());
        return Err(ctx.operand_error(1, expected, counts.len().to_string()));
    }
    let value = fill_value(ctx, x)?;
    let zero = ctx.size(0);
    let (mut low, mut high) = (Dims::from_elem(zero, rank), Dims::from_elem(zero, rank));
    let (lows, highs) = counts.split_at(axes.len());
    for (&axis, (&before, &after)) in axes.iter().zip(lows.iter().zip(highs)) {
        (low[axis], high[axis]) = (before, after);
    }
    one(pad_or_cut(ctx, x, value, &low, &high, mode)?)
}

/// The value of a constant border.
fn fill_value(ctx: &mut NodeContext<'_>, x: ValueId) -> Result<ValueId, Error> {
    if ctx.version() < 11 {
        let value = ctx.attributes().get_or("value", 0.0_f32)?;
        return ctx.scalar_like(x, f64::from(value));
    }
    match ctx.optional(2) {
        Some(value) => ctx.as_scalar(value),
        None => ctx.scalar_like(x, 0.0),
    }
}

/// A border of any size: a negative one crops.
pub(super) fn pad_or_cut(
    ctx: &mut NodeContext<'_>,
    x: ValueId,
    value: ValueId,
    low: &[DimId],
    high: &[DimId],
    mode: PadMode,
) -> Result<ValueId, Error> {
    let own = ctx.shape(x)?;
    let mut added = (Dims::new(), Dims::new());
    let (mut starts, mut sizes) = (Dims::new(), Dims::new());
    for (&size, (&low, &high)) in own.iter().zip(low.iter().zip(high)) {
        let (cut_low, cut_high) = ctx.sizes(|table| {
            let zero = table.constant(0);
            let (negative_low, negative_high) = (table.neg(low)?, table.neg(high)?);
            added.0.push(table.max(low, zero)?);
            added.1.push(table.max(high, zero)?);
            Ok((
                table.max(negative_low, zero)?,
                table.max(negative_high, zero)?,
            ))
        })?;
        starts.push(cut_low);
        sizes.push(ctx.sizes(|table| {
            let rest = table.sub(size, cut_low)?;
            table.sub(rest, cut_high)
        })?);
    }
    let steps: Integers = own.iter().map(|_| 1).collect();
    let kept = if sizes == own {
        x
    } else {
        let op = Op::Slice {
            starts,
            sizes,
            steps,
        };
        ctx.op(op, &[x])?
    };
    let (low, high) = added;
    let zero = ctx.size(0);
    if low.iter().chain(&high).all(|&count| count == zero) {
        return Ok(kept);
    }
    ctx.build(|builder| builder.pad(kept, value, &low, &high, mode))
}

/// Axes cropped or zero-padded to given sizes, equally at both ends; the odd element goes to the end.
fn center_crop_pad(ctx: &mut NodeContext<'_>) -> Imported {
    let x = ctx.input(0)?;
    let own = ctx.shape(x)?;
    let target = ctx.sizes_of(1)?;
    let axes = match ctx.attributes().get::<&[i64]>("axes")? {
        Some(axes) => axes
            .iter()
            .map(|&axis| ctx.axis(axis, own.len()))
            .collect::<Result<_, _>>()?,
        None => (0..own.len()).collect::<Vec<usize>>(),
    };
    if axes.len() != target.len() {
        let expected = format!("{} sizes, one per axis", axes.len());
        return Err(ctx.operand_error(1, expected, target.len().to_string()));
    }
    let zero = ctx.size(0);
    let (mut low, mut high) = (
        Dims::from_elem(zero, own.len()),
        Dims::from_elem(zero, own.len()),
    );
    for (&axis, &size) in axes.iter().zip(&target) {
        (low[axis], high[axis]) = ctx.sizes(|table| {
            // Padding by n: floor(n / 2) before. Cropping m: floor(m / 2) before, so -floor(m / 2).
            let (zero, two) = (table.constant(0), table.constant(2));
            let growth = table.sub(size, own[axis])?;
            let loss = table.neg(growth)?;
            let (grown, cut) = (table.max(growth, zero)?, table.max(loss, zero)?);
            let (before, cut_before) = (table.floor_div(grown, two)?, table.floor_div(cut, two)?);
            let low = table.sub(before, cut_before)?;
            Ok((low, table.sub(growth, low)?))
        })?;
    }
    let value = ctx.scalar_like(x, 0.0)?;
    one(pad_or_cut(ctx, x, value, &low, &high, PadMode::Constant)?)
}
