//! Non-maximum suppression: the boxes of each class with the highest scores, without those that overlap a better one.

use super::arg_reduce::rank_order;
use crate::context::EvaluateContext;
use crate::element::{Accumulator, Number};
use crate::fault::OpFault;
use kiln_ir::Extremum;
use kiln_symbolic_shape::DimId;
use kiln_tensor::{DType, Tensor};
use std::ops::{Add, Div, Mul, Sub};

/// `boxes: [N, B, 4], scores: [N, C, B], overlap: [], least: [] -> i64[N * C * k, 3], i64[]`: the first count rows hold
/// the batch, class and box of each box that is kept, the others 0.
pub(crate) fn suppress(
    ctx: &EvaluateContext<'_>,
    operands: &[Tensor],
    k: DimId,
) -> Result<Vec<Tensor>, OpFault> {
    match operands {
        [boxes, scores, overlap, least] if boxes.dtype() == DType::F64 => {
            select::<f64>(ctx, boxes, scores, overlap.item()?, least.item()?, k)
        }
        [boxes, scores, overlap, least] => {
            select::<f32>(ctx, boxes, scores, overlap.item()?, least.item()?, k)
        }
        _ => Err(OpFault::malformed(
            "suppression has four operands".to_owned(),
        )),
    }
}

fn select<T>(
    ctx: &EvaluateContext<'_>,
    boxes: &Tensor,
    scores: &Tensor,
    overlap: T,
    least: T,
    k: DimId,
) -> Result<Vec<Tensor>, OpFault>
where
    T: Number + Add<Output = T> + Sub<Output = T> + Mul<Output = T> + Div<Output = T> + PartialOrd,
{
    let &[batch, n_classes, n_boxes] = scores.shape() else {
        return Err(OpFault::malformed("scores have three axes".to_owned()));
    };
    let fits = boxes.shape() == [batch, n_boxes, 4];
    let k = ctx.size("the number of boxes to keep", k)?;
    let rows = batch.checked_mul(n_classes).and_then(|n| n.checked_mul(k));
    let (true, Some(n_rows)) = (fits, rows) else {
        return Err(OpFault::malformed(
            "boxes and scores differ in size".to_owned(),
        ));
    };
    let (boxes, scores) = (ctx.dense(boxes)?, ctx.dense(scores)?);
    let (boxes, scores) = (
        boxes.as_slice::<T>()?.as_chunks::<4>().0,
        scores.as_slice::<T>()?,
    );
    let mut selected = Tensor::zeros(DType::I64, &[n_rows, 3])?;
    let mut rows = selected
        .as_mut_slice::<i64>()?
        .as_chunks_mut::<3>()
        .0
        .iter_mut();
    let mut count = 0_i64;
    // Without boxes, nothing is selected, for any number of classes.
    for (row, scores) in scores.chunks_exact(n_boxes.max(1)).enumerate() {
        let (batch, class) = (row / n_classes, row % n_classes);
        let boxes = &boxes[batch * n_boxes..][..n_boxes];
        let mut order = ctx.interrupt().collect(n_boxes, 0..n_boxes)?;
        order.retain(|&index| scores[index] > least || least.to_wide().is_nan());
        let better = |&a: &usize, &b: &usize| rank_order(scores[a], scores[b], Extremum::Max);
        ctx.interrupt().sort(&mut order, better)?;
        let mut kept: Vec<usize> = Vec::new();
        for index in order {
            if kept.len() == k {
                break;
            }
            ctx.work(kept.len() + 1)?;
            if kept
                .iter()
                .any(|&other| overlaps(boxes[index], boxes[other], overlap))
            {
                continue;
            }
            kept.push(index);
            if let Some(place) = rows.next() {
                *place = [batch as i64, class as i64, index as i64];
                count += 1;
            }
        }
    }
    Ok(vec![selected, Tensor::scalar(count)])
}

/// Whether the intersection of two boxes is more than `threshold` of their union. A box is given by two opposite
/// corners.
fn overlaps<T>(a: [T; 4], b: [T; 4], threshold: T) -> bool
where
    T: Number + Add<Output = T> + Sub<Output = T> + Mul<Output = T> + Div<Output = T> + PartialOrd,
{
    let zero = T::default();
    let smaller = |a: T, b: T| if a < b { a } else { b };
    let larger = |a: T, b: T| if a > b { a } else { b };
    let side = |[a, b, c, d]: [T; 4], axis| match axis {
        0 => (smaller(a, c), larger(a, c)),
        _ => (smaller(b, d), larger(b, d)),
    };
    let length = |from, axis| {
        let (low, high) = side(from, axis);
        high - low
    };
    let common = |axis| {
        let ((low, high), (other_low, other_high)) = (side(a, axis), side(b, axis));
        larger(smaller(high, other_high) - larger(low, other_low), zero)
    };
    let shared = common(0) * common(1);
    let (area, other) = (length(a, 0) * length(a, 1), length(b, 0) * length(b, 1));
    let covered = area + other - shared;
    let are_boxes = shared > zero && area > zero && other > zero && covered > zero;
    are_boxes && shared / covered > threshold
}
