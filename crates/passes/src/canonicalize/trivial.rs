//! Other no-op ops, and operands without effect.

use crate::peephole::{Rewrite, Site};
use kiln_ir::{Op, PoolFunction};
use kiln_tensor::Tensor;
use smallvec::SmallVec;

/// A cast to the operand's dtype is the identity.
pub(super) fn drop_cast(site: &mut Site<'_>) -> Option<Rewrite> {
    let (Op::Cast { .. }, Some(operand)) = (site.op(), site.operand()) else {
        return None;
    };
    site.like_result(operand).map(Rewrite::Value)
}

/// Functions that are the identity: `identity`, and `stop_gradient`, which matters only for differentiation.
pub(super) fn drop_identity(site: &mut Site<'_>) -> Option<Rewrite> {
    let (Op::Map { function, .. }, Some(operand)) = (site.op(), site.operand()) else {
        return None;
    };
    let is_identity = matches!(function.name(), "identity" | "stop_gradient");
    is_identity
        .then(|| site.like_result(operand))
        .flatten()
        .map(Rewrite::Value)
}

/// A pad with an empty border is the identity.
pub(super) fn drop_pad(site: &mut Site<'_>) -> Option<Rewrite> {
    let (Op::Pad { low, high, .. }, &[operand, _]) = (site.op(), site.operands()) else {
        return None;
    };
    let nothing = low.iter().chain(high).all(|&dim| site.is(dim, 0));
    nothing
        .then(|| site.like_result(operand))
        .flatten()
        .map(Rewrite::Value)
}

/// A concat of one operand is the identity, and operands of size 0 along the axis are dropped.
pub(super) fn drop_concat_operands(site: &mut Site<'_>) -> Option<Rewrite> {
    let Op::Concat { axis } = *site.op() else {
        return None;
    };
    if let Some(operand) = site.operand() {
        return site.like_result(operand).map(Rewrite::Value);
    }
    let kept: SmallVec<[_; 4]> = site
        .operands()
        .iter()
        .copied()
        .filter(|&operand| {
            !site
                .size(operand, axis)
                .is_some_and(|size| site.is(size, 0))
        })
        .collect();
    let dropped = kept.len() < site.operands().len() && !kept.is_empty();
    dropped.then(|| Rewrite::op(site.op().clone(), kept))
}

/// A maximum over windows of one element is that element.
pub(super) fn drop_pool(site: &mut Site<'_>) -> Option<Rewrite> {
    let (
        Op::Pool {
            function,
            size,
            window,
        },
        Some(operand),
    ) = (site.op(), site.operand())
    else {
        return None;
    };
    let one = size.iter().chain(&window.strides).all(|&n| n == 1)
        && window
            .low
            .iter()
            .chain(&window.high)
            .all(|&dim| site.is(dim, 0));
    // A sum may start from 0.0 and so lose the sign of -0.0.
    let exact = *function == PoolFunction::Max;
    (one && exact)
        .then(|| site.like_result(operand))
        .flatten()
        .map(Rewrite::Value)
}

/// Sizes as data that are all known are a constant.
pub(super) fn dims_to_constant(site: &mut Site<'_>) -> Option<Rewrite> {
    let Op::Dims { sizes } = site.op() else {
        return None;
    };
    let numbers = site.constant_dims(sizes)?;
    let tensor = Tensor::from_slice(&[numbers.len()], &numbers).ok()?;
    Some(Rewrite::op(site.constant_op(tensor)?, []))
}
