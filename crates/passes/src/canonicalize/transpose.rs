//! Transposes that move nothing, transposes of transposes, and those that are reshapes.

use crate::peephole::{Rewrite, Site};
use kiln_ir::{Indices, Op};

/// A transpose by the identity permutation is the identity.
pub(super) fn drop_transpose(site: &mut Site<'_>) -> Option<Rewrite> {
    let (Op::Transpose { permutation }, Some(operand)) = (site.op(), site.operand()) else {
        return None;
    };
    let identity = permutation
        .iter()
        .enumerate()
        .all(|(axis, &from)| axis == from);
    identity
        .then(|| site.like_result(operand))
        .flatten()
        .map(Rewrite::Value)
}

/// A transpose of a transpose is one transpose.
pub(super) fn join_transposes(site: &mut Site<'_>) -> Option<Rewrite> {
    let (Op::Transpose { permutation: outer }, Some(operand)) = (site.op(), site.operand()) else {
        return None;
    };
    let Some((Op::Transpose { permutation: inner }, source)) = site.through(operand) else {
        return None;
    };
    let joined: Option<Indices> = outer.iter().map(|&axis| inner.get(axis).copied()).collect();
    joined.map(|permutation| Rewrite::op(Op::Transpose { permutation }, [source]))
}

/// A transpose in which the axes that are not of size 1 keep their order is a reshape.
pub(super) fn transpose_to_reshape(site: &mut Site<'_>) -> Option<Rewrite> {
    let (Op::Transpose { permutation }, Some(operand)) = (site.op(), site.operand()) else {
        return None;
    };
    let from = site.dims_of(operand)?;
    let moving: Vec<usize> = permutation
        .iter()
        .copied()
        .filter(|&axis| from.get(axis).is_some_and(|&dim| !site.is(dim, 1)))
        .collect();
    moving.is_sorted().then(|| {
        let dims = site.ty().dims.clone();
        Rewrite::op(Op::Reshape { dims }, [operand])
    })
}
