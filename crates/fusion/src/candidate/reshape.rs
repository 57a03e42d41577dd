//! Where a reshape reads: axes that are kept, axes that were split, and axes that were merged.
//!
//! Splitting `[384]` into `[12, 32]` reads at `i * 32 + j`, a sum. Merging the other way needs divisions; such a reshape is
//! better as a view.

use kiln_symbolic_shape::{DimId, Predicate};

use super::index::{Index, Indices, axes_of};
use super::walk::Walk;

/// The operand's indices for a reshape `from -> to` demanded at `indices`; `None` where divisions would be needed.
pub(crate) fn indices(
    walk: &Walk<'_>,
    from: &[DimId],
    to: &[DimId],
    indices: &[Index],
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
    for (position, &source) in sources.iter().enumerate() {
        let rest = targets.get(next..)?;
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
