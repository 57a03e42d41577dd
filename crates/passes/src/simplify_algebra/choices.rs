//! Selections and comparisons whose outcome is known.

use crate::constants::{Splat, integers};
use crate::peephole::{Rewrite, Site};
use kiln_ir::{Op, ValueId};
use kiln_symbolic_shape::{DimId, Predicate, Proof};
use kiln_tensor::Tensor;

/// `select(c, x, x)`, and a selection by a constant.
///
/// A select faults on nothing itself, and the branch not taken was computed by ops of its own.
pub(super) fn choose_branch(site: &mut Site<'_>) -> Option<Rewrite> {
    let (Op::Map { function, .. }, &[condition, yes, no]) = (site.op(), site.operands()) else {
        return None;
    };
    if function.name() != "select" {
        return None;
    }
    let chosen = match site.splat(condition) {
        _ if yes == no => yes,
        Some(Splat::Bool(true)) => yes,
        Some(Splat::Bool(false)) => no,
        _ => return None,
    };
    if let Some(value) = site.like_result(chosen) {
        return Some(Rewrite::Value(value));
    }
    let fits = site.dims_of(chosen).is_some_and(|from| {
        let to = &site.ty().dims;
        from.iter()
            .rev()
            .zip(to.iter().rev())
            .all(|(&from, &to)| site.is(from, 1) || site.equal(from, to))
    });
    let dims = site.ty().dims.clone();
    fits.then(|| Rewrite::op(Op::Broadcast { dims }, [chosen]))
}

/// A comparison of sizes that is proved, or disproved, for every element.
pub(super) fn decide_comparison(site: &mut Site<'_>) -> Option<Rewrite> {
    let (Op::Map { function, .. }, &[left, right]) = (site.op(), site.operands()) else {
        return None;
    };
    let predicate: fn(DimId, DimId) -> Predicate = match function.name() {
        "eq" => Predicate::Equal,
        "ne" => Predicate::NotEqual,
        "lt" => Predicate::Less,
        "le" => Predicate::LessEqual,
        "gt" => |left, right| Predicate::Less(right, left),
        "ge" => |left, right| Predicate::LessEqual(right, left),
        _ => return None,
    };
    let (Some(lefts), Some(rights)) = (sizes(site, left), sizes(site, right)) else {
        return None;
    };
    // Both are of rank 0 or 1, so one element meets all of the other.
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
    let shape = if site.ty().rank() == 0 {
        vec![]
    } else {
        vec![count]
    };
    let tensor = Tensor::from_slice(&shape, &outcomes).ok()?;
    Some(Rewrite::op(site.constant_op(tensor)?, []))
}

/// The elements of a value of rank 0 or 1, where they are sizes or integer constants.
fn sizes(site: &mut Site<'_>, value: ValueId) -> Option<Vec<DimId>> {
    if site.tensor(value)?.rank() > 1 {
        return None;
    }
    let mut source = value;
    // A single size is usually read as a scalar.
    if let Some((Op::Reshape { .. }, behind)) = site.through(value)
        && site.tensor(behind)?.rank() <= 1
    {
        source = behind;
    }
    match &site.definition(source)?.op {
        Op::Dims { sizes } => Some(sizes.to_vec()),
        Op::Constant(constant) => {
            let numbers = integers(constant.tensor())?;
            Some(
                numbers
                    .into_iter()
                    .map(|number| site.dims_mut().constant(number))
                    .collect(),
            )
        }
        _ => None,
    }
}
