//! Broadcasts that an element-wise op makes unnecessary, or moves behind itself.

use crate::peephole::{Rewrite, Site};
use kiln_ir::{Dims, Op, TensorType, ValueId};
use kiln_symbolic_shape::DimId;
use smallvec::SmallVec;

/// `f(broadcast y, z)` is `f(y, z)` where the sizes of `y` and `z` are proved to give the result's;
/// so for a reshape of `y` that only puts axes of size 1 in front.
pub(super) fn drop_operand_broadcast(site: &mut Site<'_>) -> Option<Rewrite> {
    let operands = site.operands();
    if !matches!(site.op(), Op::Map { .. }) || operands.len() < 2 {
        return None;
    }
    for (index, &operand) in operands.iter().enumerate() {
        let Some(source) = unexpanded(site, operand) else {
            continue;
        };
        let mut tried: SmallVec<[ValueId; 4]> = operands.into();
        tried[index] = source;
        if gives(site, &tried, &site.ty().dims) {
            return Some(Rewrite::Op(site.op().clone(), tried));
        }
    }
    None
}

/// What a broadcast repeats, or a reshape puts axes of size 1 in front of.
fn unexpanded(site: &Site<'_>, value: ValueId) -> Option<ValueId> {
    match site.through(value)? {
        (Op::Broadcast { .. }, source) => Some(source),
        (Op::Reshape { dims }, source) => {
            let from = site.dims_of(source)?;
            let (front, rest) = dims.split_at_checked(dims.len().checked_sub(from.len())?)?;
            let expands = front.iter().all(|&dim| site.is(dim, 1)) && site.equal_dims(&from, rest);
            expands.then_some(source)
        }
        _ => None,
    }
}

/// `f(broadcast y)` is `broadcast f(y)`: fewer elements to compute.
pub(super) fn map_before_broadcast(site: &mut Site<'_>) -> Option<Rewrite> {
    let (Op::Map { .. } | Op::Cast { .. }, Some(operand)) = (site.op(), site.operand()) else {
        return None;
    };
    let Some((Op::Broadcast { .. }, source)) = site.through(operand) else {
        return None;
    };
    let Some(from) = site.dims_of(source) else {
        return None;
    };
    let ty = TensorType {
        dtype: site.ty().dtype,
        dims: from,
    };
    let mapped = site.emit(site.op().clone(), [source], ty);
    Some(Rewrite::op(
        Op::Broadcast {
            dims: site.ty().dims.clone(),
        },
        [mapped],
    ))
}

/// Whether on every axis each operand's size is 1 or proved to be the result's, and one is the result's.
fn gives(site: &Site<'_>, operands: &[ValueId], result: &[DimId]) -> bool {
    let Some(all) = operands
        .iter()
        .map(|&value| site.dims_of(value))
        .collect::<Option<Vec<Dims>>>()
    else {
        return false;
    };
    result.iter().rev().enumerate().all(|(from_end, &dim)| {
        let mut sizes = all
            .iter()
            .filter_map(|dims| dims.iter().rev().nth(from_end).copied())
            .peekable();
        let mut found = site.is(dim, 1) && sizes.peek().is_some();
        let fit = sizes.all(|size| {
            let equal = site.equal(size, dim);
            found |= equal;
            equal || site.is(size, 1)
        });
        fit && found
    })
}
