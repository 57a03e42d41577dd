//! Comparisons of sizes and counts whose outcome is proved.

use crate::constants::{Splat, splat};
use crate::peephole::{Rewrite, Site};
use kiln_ir::{Op, ValueId};
use kiln_symbolic_shape::{DimId, Predicate, Proof};
use kiln_tensor::{DType, Tensor};

/// The maximum number of data-movement ops that are looked through.
const DEPTH_LIMIT: usize = 8;

/// The comparison functions, as predicates to prove of two sizes.
fn predicate(name: &str) -> Option<fn(DimId, DimId) -> Predicate> {
    Some(match name {
        "eq" => Predicate::Equal,
        "ne" => Predicate::NotEqual,
        "lt" => Predicate::Less,
        "le" => Predicate::LessEqual,
        "gt" => |left, right| Predicate::Less(right, left),
        "ge" => |left, right| Predicate::LessEqual(right, left),
        _ => return None,
    })
}

/// A comparison of vectors of sizes that is proved, or disproved, for every element.
pub(super) fn decide_comparison(site: &mut Site<'_>) -> Option<Rewrite> {
    let (Op::Map { function, .. }, &[left, right]) = (site.op(), site.operands()) else {
        return None;
    };
    let predicate = predicate(function.name())?;
    let (lefts, rights) = (site.elements(left)?, site.elements(right)?);
    // Both are of rank 0 or 1, so one element meets all elements of the other.
    let count = if lefts.len() == 1 {
        rights.len()
    } else {
        lefts.len()
    };
    if [&lefts, &rights]
        .iter()
        .any(|sizes| sizes.len() != 1 && sizes.len() != count)
    {
        return None;
    }
    let mut outcomes = Vec::with_capacity(count);
    for index in 0..count {
        let at = |sizes: &[DimId]| sizes[if sizes.len() == 1 { 0 } else { index }];
        match site.dims().prove(&predicate(at(&lefts), at(&rights))) {
            Proof::Proved => outcomes.push(true),
            Proof::Disproved => outcomes.push(false),
            Proof::Unknown => return None,
        }
    }
    let shape: &[usize] = if site.ty().rank() == 0 { &[] } else { &[count] };
    let tensor = Tensor::from_slice(shape, &outcomes).ok()?;
    Some(Rewrite::op(site.constant_op(tensor)?, []))
}

/// A comparison of two ranges of integers, such as positions with a constant or a size, as in masks.
pub(super) fn decide_comparison_of_ranges(site: &mut Site<'_>) -> Option<Rewrite> {
    let (Op::Map { function, .. }, &[left, right]) = (site.op(), site.operands()) else {
        return None;
    };
    let name = function.name();
    predicate(name)?;
    let (left, right) = (bounds(site, left)?, bounds(site, right)?);
    let below = site.proved(&Predicate::Less(left.1, right.0));
    let above = site.proved(&Predicate::Less(right.1, left.0));
    let at_most = below || site.proved(&Predicate::LessEqual(left.1, right.0));
    let at_least = above || site.proved(&Predicate::LessEqual(right.1, left.0));
    let outcome = match name {
        "lt" => decided(below, at_least),
        "le" => decided(at_most, above),
        "gt" => decided(above, at_most),
        "ge" => decided(at_least, below),
        "ne" => decided(below || above, false),
        _ => decided(false, below || above),
    }?;
    let outcome = Tensor::scalar(outcome);
    if site.ty().rank() == 0 {
        return Some(Rewrite::op(site.constant_op(outcome)?, []));
    }
    let outcome = site.emit_constant(outcome)?;
    site.as_result(outcome)
}

fn decided(always: bool, never: bool) -> Option<bool> {
    // If there are no elements, both are true, and either is correct.
    if always {
        Some(true)
    } else {
        never.then_some(false)
    }
}

/// The minimum and the maximum element of an i64 value, if it counts along an axis or is a single number.
fn bounds(site: &mut Site<'_>, value: ValueId) -> Option<(DimId, DimId)> {
    if site.dtype(value)? != DType::I64 {
        return None;
    }
    let mut source = value;
    for _ in 0..DEPTH_LIMIT {
        match site.through(source) {
            Some((Op::Reshape { .. } | Op::Broadcast { .. } | Op::Transpose { .. }, behind)) => {
                source = behind
            }
            _ => break,
        }
    }
    match &site.definition(source)?.op {
        &Op::Iota { ref dims, axis, .. } => {
            let size = *dims.get(axis)?;
            let dims = site.dims_mut();
            let (zero, one) = (dims.constant(0), dims.constant(1));
            Some((zero, dims.sub(size, one).ok()?))
        }
        Op::Dims { sizes } => match sizes.as_slice() {
            &[only] => Some((only, only)),
            _ => None,
        },
        Op::Constant(constant) => match splat(&constant.tensor())? {
            Splat::Integer(number) => {
                let number = site.dims_mut().constant(i64::try_from(number).ok()?);
                Some((number, number))
            }
            _ => None,
        },
        _ => None,
    }
}
