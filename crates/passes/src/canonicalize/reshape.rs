//! Reshapes that change nothing, and reshapes of reshapes.

use crate::peephole::{Rewrite, Site};
use kiln_ir::Op;
use kiln_symbolic_shape::Predicate;

/// A reshape to the same sizes is the identity.
pub(super) fn drop_reshape(site: &mut Site<'_>) -> Option<Rewrite> {
    let (Op::Reshape { .. }, Some(operand)) = (site.op(), site.operand()) else {
        return None;
    };
    site.like_result(operand).map(Rewrite::Value)
}

/// A reshape of a reshape reads the inner one's operand directly, if the products are proved equal.
pub(super) fn join_reshapes(site: &mut Site<'_>) -> Option<Rewrite> {
    let (Op::Reshape { dims }, Some(operand)) = (site.op(), site.operand()) else {
        return None;
    };
    let Some((Op::Reshape { .. }, source)) = site.through(operand) else {
        return None;
    };
    let from = site.dims_of(source)?;
    let same = Predicate::ProductEqual(from.to_vec(), dims.to_vec());
    site.proved(&same)
        .then(|| Rewrite::op(site.op().clone(), [source]))
}
