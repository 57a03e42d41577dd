//! Broadcasts that repeat nothing, broadcasts of broadcasts, and those that are reshapes.

use crate::peephole::{Rewrite, Site};
use kiln_ir::Op;
use kiln_symbolic_shape::DimId;

/// A broadcast to the same sizes is the identity.
pub(super) fn drop_broadcast(site: &mut Site<'_>) -> Option<Rewrite> {
    let (Op::Broadcast { .. }, Some(operand)) = (site.op(), site.operand()) else {
        return None;
    };
    site.like_result(operand).map(Rewrite::Value)
}

/// A broadcast of a broadcast reads the inner one's operand directly, if the sizes are proved to fit.
pub(super) fn join_broadcasts(site: &mut Site<'_>) -> Option<Rewrite> {
    let (Op::Broadcast { dims }, Some(operand)) = (site.op(), site.operand()) else {
        return None;
    };
    let Some((Op::Broadcast { .. }, source)) = site.through(operand) else {
        return None;
    };
    let fits = site
        .dims_of(source)
        .is_some_and(|from| fits(site, &from, dims));
    fits.then(|| Rewrite::op(site.op().clone(), [source]))
}

/// A broadcast that only adds leading axes of size 1 is a reshape.
pub(super) fn broadcast_to_reshape(site: &mut Site<'_>) -> Option<Rewrite> {
    let (Op::Broadcast { dims }, Some(operand)) = (site.op(), site.operand()) else {
        return None;
    };
    let from = site.dims_of(operand)?;
    let (front, rest) = dims
        .len()
        .checked_sub(from.len())
        .and_then(|n| dims.split_at_checked(n))?;
    let is_reshape = front.iter().all(|&dim| site.is(dim, 1)) && site.equal_dims(&from, rest);
    is_reshape.then(|| Rewrite::op(Op::Reshape { dims: dims.clone() }, [operand]))
}

/// Whether each size is proved to be 1 or that of the result, aligned at the innermost axis.
fn fits(site: &Site<'_>, from: &[DimId], to: &[DimId]) -> bool {
    from.len() <= to.len()
        && from
            .iter()
            .rev()
            .zip(to.iter().rev())
            .all(|(&from, &to)| site.is(from, 1) || site.equal(from, to))
}
