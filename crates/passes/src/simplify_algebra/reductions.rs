//! Reductions over axes of size 1, or over no axes.

use crate::peephole::{Rewrite, Site};
use kiln_ir::{Op, ReduceFunction};

/// A reduction only over axes of size 1 is a reshape, except for a float sum or mean, which may turn -0.0 into +0.0.
pub(super) fn reduce_to_reshape(site: &mut Site<'_>) -> Option<Rewrite> {
    let (Op::Reduce { function, axes, .. }, Some(operand)) = (site.op(), site.operand()) else {
        return None;
    };
    let sums = matches!(function, ReduceFunction::Sum | ReduceFunction::Mean);
    if sums && site.ty().dtype.is_float() {
        return None;
    }
    let all_one = axes.iter().all(|&axis| {
        site.size(operand, axis)
            .is_some_and(|size| site.is(size, 1))
    });
    let dims = site.ty().dims.clone();
    all_one.then(|| Rewrite::op(Op::Reshape { dims }, [operand]))
}
