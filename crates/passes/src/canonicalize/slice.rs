//! Full slices, slices of slices, and slices of sizes.

use crate::peephole::{Rewrite, Site};
use kiln_ir::{Dims, Integers, Op};
use kiln_symbolic_shape::{DimId, Predicate};

/// A slice of the whole operand, forwards, is the identity.
pub(super) fn drop_slice(site: &mut Site<'_>) -> Option<Rewrite> {
    let (Op::Slice { starts, steps, .. }, Some(operand)) = (site.op(), site.operand()) else {
        return None;
    };
    let whole =
        starts.iter().all(|&start| site.is(start, 0)) && steps.iter().all(|&step| step == 1);
    whole
        .then(|| site.like_result(operand))
        .flatten()
        .map(Rewrite::Value)
}

/// A slice of a slice is one slice, if both are proved in bounds.
pub(super) fn join_slices(site: &mut Site<'_>) -> Option<Rewrite> {
    let (
        Op::Slice {
            starts,
            sizes,
            steps,
        },
        Some(operand),
    ) = (site.op(), site.operand())
    else {
        return None;
    };
    let Some((
        Op::Slice {
            starts: first,
            sizes: first_sizes,
            steps: first_steps,
        },
        source,
    )) = site.through(operand)
    else {
        return None;
    };
    let (first, first_sizes, first_steps) =
        (first.clone(), first_sizes.clone(), first_steps.clone());
    let from = site.dims_of(source)?;
    let mut joined = (Dims::new(), Integers::new());
    for axis in 0..starts.len() {
        let inner = (first[axis], first_sizes[axis], first_steps[axis]);
        let outer = (starts[axis], sizes[axis], steps[axis]);
        if !in_bounds(site, from[axis], inner)? || !in_bounds(site, first_sizes[axis], outer)? {
            return None;
        }
        let step = steps[axis].checked_mul(first_steps[axis])?;
        let dims = site.dims_mut();
        let stride = dims.constant(first_steps[axis]);
        let offset = dims.mul(starts[axis], stride).ok()?;
        joined.0.push(dims.add(first[axis], offset).ok()?);
        joined.1.push(step);
    }
    let op = Op::Slice {
        starts: joined.0,
        sizes: sizes.clone(),
        steps: joined.1,
    };
    Some(Rewrite::op(op, [source]))
}

/// A slice of sizes as data is the selected sizes.
pub(super) fn slice_dims(site: &mut Site<'_>) -> Option<Rewrite> {
    let (
        Op::Slice {
            starts,
            sizes,
            steps,
        },
        Some(operand),
    ) = (site.op(), site.operand())
    else {
        return None;
    };
    let Op::Dims { sizes: source } = &site.definition(operand)?.op else {
        return None;
    };
    let (&[start], &[count], &[step]) = (
        site.constant_dims(starts)?.as_slice(),
        site.constant_dims(sizes)?.as_slice(),
        steps.as_slice(),
    ) else {
        return None;
    };
    let taken = (0..count).map(|index| {
        let position = index.checked_mul(step)?.checked_add(start)?;
        source.get(usize::try_from(position).ok()?).copied()
    });
    let sizes = taken.collect::<Option<Dims>>()?;
    Some(Rewrite::op(Op::Dims { sizes }, []))
}

/// Whether the indices starting at `start` are proved to be in `[0, size)`.
fn in_bounds(
    site: &mut Site<'_>,
    size: DimId,
    (start, count, step): (DimId, DimId, i64),
) -> Option<bool> {
    let dims = site.dims_mut();
    let (zero, one, stride) = (dims.constant(0), dims.constant(1), dims.constant(step));
    let steps = dims.sub(count, one).ok()?;
    let way = dims.mul(steps, stride).ok()?;
    let last = dims.add(start, way).ok()?;
    // For an empty slice `last` is one step before `start`: the proofs then require more than is needed.
    let inside = |index| {
        [
            Predicate::LessEqual(zero, index),
            Predicate::Less(index, size),
        ]
    };
    if step == 1 {
        // With `start` 0 that would never be proved for a size that may be 0.
        let end = dims.add(start, count).ok()?;
        return Some(
            site.proved(&Predicate::LessEqual(zero, start))
                && site.proved(&Predicate::LessEqual(end, size)),
        );
    }
    Some(
        inside(start)
            .iter()
            .chain(&inside(last))
            .all(|predicate| site.proved(predicate)),
    )
}
