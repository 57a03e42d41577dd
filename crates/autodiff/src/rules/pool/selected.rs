//! The cotangent of a maximum over windows, without a scatter: each element sums the cotangents of the windows that selected it.
//!
//! Along an axis, the elements are processed in blocks of one stride. A block is covered by the same windows as the
//! previous block, shifted by one. So the windows are shifted once for each window that covers a block, each shift is
//! repeated for the elements of a block, and an element adds the shifted cotangent if the selected position is its own.
//! The axis is the concatenation of the blocks.

use crate::Result;
use crate::emit::{keep_where, number_of};
use kiln_ir::{Dims, Integers, PadMode, ValueId, Window};
use kiln_shape_inference::GraphBuilder;
use kiln_symbolic_shape::{DimId, Predicate, Proof};
use kiln_tensor::DType;

/// The maximum number of windows that cover an element; each is a term of one sum.
const MAX_TERMS: i64 = 36;

/// The blocks of an axis.
struct Blocks {
    /// The elements of a block.
    stride: i64,
    /// The number of blocks.
    count: DimId,
    /// The elements of the first blocks that are padding: 0 if the amount of padding is known.
    skipped: DimId,
    /// The first window that may cover the first block; negative if no window does.
    earliest: i64,
    /// The windows that may cover a block.
    windows: i64,
    /// The numbers of empty windows that are added before the first window and after the last.
    border: (i64, i64),
}

/// The cotangent of `x`, of sizes `dims: [N, C, spatial..]`, from that of its maxima over windows and the positions
/// that these selected, -1 for none: both `[N, C, windows..]`. `None` if an element is in too many windows.
pub(super) fn gathered(
    b: &mut GraphBuilder,
    (g, selected): (ValueId, ValueId),
    size: &Integers,
    window: &Window,
    dims: &[DimId],
) -> Result<Option<ValueId>> {
    let n_windows = b.shape(g)?;
    let spatial = &dims[2..];
    let mut axes = Vec::with_capacity(spatial.len());
    for (axis, (&size, &count)) in size.iter().zip(&n_windows[2..]).enumerate() {
        axes.push(blocks(b, window, axis, (size, count, spatial[axis]))?);
    }
    let terms = axes
        .iter()
        .try_fold(1_i64, |product, axis| product.checked_mul(axis.windows));
    if terms.is_none_or(|terms| terms > MAX_TERMS) {
        return Ok(None);
    }

    let (nothing, nowhere) = (b.scalar(b.dtype(g)?, 0.0)?, b.scalar(DType::I64, -1.0)?);
    let g = bordered(b, g, nothing, &axes)?;
    let selected = bordered(b, selected, nowhere, &axes)?;
    let own = positions(b, &axes, spatial)?;
    let mut sum: Option<ValueId> = None;
    for shift in shifts(&axes) {
        let there = shifted(b, selected, &axes, &shift)?;
        let is_own = b.equal(there, own)?;
        let there = shifted(b, g, &axes, &shift)?;
        let term = keep_where(b, is_own, there)?;
        sum = Some(match sum {
            Some(sum) => b.add(sum, term)?,
            None => term,
        });
    }
    let Some(sum) = sum else {
        unreachable!("every block is covered by a window")
    };

    let mut merged: Dims = Dims::from_slice(&dims[..2]);
    let mut starts = b.sizes(&[0, 0]);
    for axis in &axes {
        merged.push(extent(b, axis)?);
        starts.push(axis.skipped);
    }
    let merged = b.reshape(sum, &merged)?;
    if b.shape(merged)?.as_slice() == dims {
        return Ok(Some(merged));
    }
    Ok(Some(b.slice(
        merged,
        &starts,
        dims,
        &vec![1; dims.len()],
    )?))
}

/// The blocks of an axis of `size` elements with `count` windows of `kernel` taps.
fn blocks(
    b: &mut GraphBuilder,
    window: &Window,
    axis: usize,
    (kernel, count, size): (i64, DimId, DimId),
) -> Result<Blocks> {
    let stride = window.strides[axis];
    // The distance of a window's last tap from its first.
    let reach = window.dilations[axis].saturating_mul(kernel - 1);
    let [low, high] = [&window.low, &window.high].map(|sides| b.dims().as_constant(sides[axis]));
    // Blocks begin at the first element, or, if the padding before it is not known, at the start of the padding.
    let skipped = match low {
        Some(_) => b.size(0),
        None => window.low[axis],
    };
    let (low, high) = (low.unwrap_or(0), high.unwrap_or(0));
    let earliest = ceil_div(low.saturating_sub(reach), stride);
    let latest = ceil_div(low, stride);

    // There are about as many blocks as windows: at least this many more, plus one if that is needed.
    let beyond = reach.saturating_sub(low).saturating_sub(high);
    let least = beyond.div_euclid(stride);
    let end = b.dims_mut().add(skipped, size)?;
    let each = b.size(stride);
    let mut more = least;
    loop {
        let surplus = b.size(more);
        let blocks = b.dims_mut().add(count, surplus)?;
        let covered = b.dims_mut().mul(blocks, each)?;
        let is_enough = Predicate::LessEqual(end, covered);
        if more == ceil_div(beyond, stride) || b.dims().prove(&is_enough) == Proof::Proved {
            return Ok(Blocks {
                stride,
                count: blocks,
                skipped,
                earliest,
                windows: latest - earliest + 1,
                border: ((-earliest).max(0), latest.saturating_add(more).max(0)),
            });
        }
        more += 1;
    }
}

/// A quotient, rounded up; the divisor is positive.
fn ceil_div(dividend: i64, divisor: i64) -> i64 {
    let rounded = dividend.div_euclid(divisor);
    rounded + i64::from(dividend.rem_euclid(divisor) != 0)
}

/// The elements of an axis's blocks.
fn extent(b: &mut GraphBuilder, axis: &Blocks) -> Result<DimId> {
    let stride = b.size(axis.stride);
    Ok(b.dims_mut().mul(axis.count, stride)?)
}

/// A tensor over the windows, `[N, C, windows..]`, with a border of empty windows.
fn bordered(
    b: &mut GraphBuilder,
    of_windows: ValueId,
    nothing: ValueId,
    axes: &[Blocks],
) -> Result<ValueId> {
    if axes.iter().all(|axis| axis.border == (0, 0)) {
        return Ok(of_windows);
    }
    let (mut low, mut high) = (b.sizes(&[0, 0]), b.sizes(&[0, 0]));
    for axis in axes {
        low.push(b.size(axis.border.0));
        high.push(b.size(axis.border.1));
    }
    Ok(b.pad(of_windows, nothing, &low, &high, PadMode::Constant)?)
}

/// All combinations, over the axes, of which of its windows a block reads.
fn shifts(axes: &[Blocks]) -> Vec<Vec<i64>> {
    axes.iter().fold(vec![Vec::new()], |shifts, axis| {
        let first = axis.border.0 + axis.earliest;
        let longer = |start: &Vec<i64>, at: i64| start.iter().copied().chain([at]).collect();
        let all = shifts.iter();
        all.flat_map(|start| (first..first + axis.windows).map(move |at| longer(start, at)))
            .collect()
    })
}

/// The window that each block reads at a shift, once for all its elements: `[N, C, windows..] -> [N, C, (blocks,
/// 1)..]`.
fn shifted(
    b: &mut GraphBuilder,
    of_windows: ValueId,
    axes: &[Blocks],
    shift: &[i64],
) -> Result<ValueId> {
    let own = b.shape(of_windows)?;
    let mut starts = b.sizes(&[0, 0]);
    let mut sizes = Dims::from_slice(&own[..2]);
    for (axis, &start) in axes.iter().zip(shift) {
        starts.push(b.size(start));
        sizes.push(axis.count);
    }
    let part = match sizes == own {
        true => of_windows,
        false => b.slice(of_windows, &starts, &sizes, &vec![1; sizes.len()])?,
    };
    let inner: Vec<usize> = (0..axes.len()).map(|axis| 3 + 2 * axis).collect();
    Ok(b.unsqueeze(part, &inner)?)
}

/// The row-major positions in a plane of sizes `spatial` of the elements of all blocks: `i64[(blocks, stride)..]`.
/// Positions in the padding and beyond the last element belong to no element, or to another one: they are sliced off
/// afterwards.
fn positions(b: &mut GraphBuilder, axes: &[Blocks], spatial: &[DimId]) -> Result<ValueId> {
    let mut position = b.scalar(DType::I64, 0.0)?;
    for (index, axis) in axes.iter().enumerate() {
        let count = extent(b, axis)?;
        let along = b.iota(DType::I64, &[count], 0)?;
        let skipped = number_of(b, &[axis.skipped], DType::I64)?;
        let along = b.sub(along, skipped)?;
        let inner = number_of(b, &spatial[index + 1..], DType::I64)?;
        let along = b.mul(along, inner)?;
        let mut split: Dims = [axis.count, b.size(axis.stride)].into_iter().collect();
        split.extend(b.sizes(&vec![1; 2 * (axes.len() - index - 1)]));
        let along = b.reshape(along, &split)?;
        position = b.add(position, along)?;
    }
    Ok(position)
}
