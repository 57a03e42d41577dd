//! The indices that a reshape reads: axes that are kept, axes that were split, and axes that were merged.
//!
//! Splitting `[384]` into `[12, 32]` reads at `i * 32 + j`, a sum. Merging the other way needs divisions; such a
//! reshape is better as a view, unless a contraction sums over the merged axis: lowering then sums over the original
//! axes.

use kiln_symbolic_shape::{DimId, Predicate};

use super::index::{Index, Indices, axes_of};
use super::walk::Walk;
use crate::op_kind::OpKind;

/// The operand's indices for a reshape `from -> to` demanded at `indices`; `None` if divisions would be needed. Axes
/// are merged only if the operand depends only on constants: weights that a kernel unpacks.
pub(crate) fn indices(
    walk: &Walk<'_>,
    from: &[DimId],
    to: &[DimId],
    (indices, is_constant): (&[Index], bool),
) -> Option<Indices> {
    let real = |dims: &[DimId]| -> Vec<usize> {
        let axes = dims.iter().enumerate();
        axes.filter(|&(_, &dim)| !walk.sizes.is_one(dim))
            .map(|(axis, _)| axis)
            .collect()
    };
    let (sources, targets) = (real(from), real(to));
    let mut result = Indices::from_elem(Index::Unit, from.len());
    let mut next = 0;
    let mut merged: Vec<usize> = Vec::new();
    for (position, &source) in sources.iter().enumerate() {
        let rest = targets.get(next..)?;
        if merged.contains(&source) {
            continue;
        }
        if is_constant
            && let Some((parts, axis)) =
                summed(walk, (from, to), &sources[position..], rest, indices)
        {
            for &part in parts {
                if let Some(slot) = result.get_mut(part) {
                    *slot = Index::Shifted(axis);
                }
            }
            merged.extend_from_slice(parts);
            next += 1;
            continue;
        }
        let group = if position + 1 == sources.len() {
            // The last one takes the remaining axes: both sides have the same number of elements.
            rest
        } else {
            split(walk, from, to, source, rest)?
        };
        let parts: Indices = group
            .iter()
            .filter_map(|&axis| indices.get(axis).copied())
            .collect();
        let index = match parts.as_slice() {
            [only] => *only,
            parts if parts.iter().any(|part| matches!(part, Index::Computed(_))) => {
                Index::Computed(axes_of(parts))
            }
            parts => Index::Sum(axes_of(parts)),
        };
        if let Some(slot) = result.get_mut(source) {
            *slot = index;
        }
        next += group.len();
    }
    (next == targets.len()).then_some(result)
}

/// The axes of `from`, at the front of `sources`, that the next axis of `to` merges, if that is an axis that a contraction
/// sums over, of known size.
fn summed<'s>(
    walk: &Walk<'_>,
    (from, to): (&[DimId], &[DimId]),
    sources: &'s [usize],
    targets: &[usize],
    indices: &[Index],
) -> Option<(&'s [usize], usize)> {
    let &target = targets.first()?;
    let &Index::Axis(axis) = indices.get(target)? else {
        return None;
    };
    let is_summed = walk
        .stages
        .iter()
        .any(|stage| stage.kind == OpKind::Contraction && stage.reduced & (1 << axis) != 0);
    let constant = |dim: DimId| walk.sizes.table().as_constant(dim);
    let whole = constant(*to.get(target)?).filter(|_| is_summed)?;
    let mut product = 1_i64;
    for (position, &source) in sources.iter().enumerate() {
        product = product.checked_mul(constant(*from.get(source)?)?)?;
        if product >= whole {
            let parts = sources.get(..=position)?;
            return (product == whole && parts.len() > 1).then_some((parts, axis));
        }
    }
    None
}

/// The axes of `to` whose product is the operand's axis, from the front of `targets`.
fn split<'t>(
    walk: &Walk<'_>,
    from: &[DimId],
    to: &[DimId],
    source: usize,
    targets: &'t [usize],
) -> Option<&'t [usize]> {
    let &whole = from.get(source)?;
    for count in 1..=targets.len() {
        let group = targets.get(..count)?;
        let dims: Vec<DimId> = group
            .iter()
            .filter_map(|&axis| to.get(axis).copied())
            .collect();
        if walk.holds(&Predicate::ProductEqual(vec![whole], dims)) {
            return Some(group);
        }
    }
    None
}
