//! Gathers whose indices are constants at a uniform stride become slices.

use crate::constants::integers;
use crate::peephole::{Rewrite, Site};
use kiln_ir::{Dims, Integers, Op, TensorType};
use kiln_symbolic_shape::{Predicate, Proof};

/// `gather x, [3]` is `slice x` from 3, reshaped to the gather's sizes.
///
/// Both fault if an index is out of bounds. A negative index counts from the end. A gather that is out of bounds on
/// every call is kept, because as a slice it would have no type.
pub(super) fn gather_to_slice(site: &mut Site<'_>) -> Option<Rewrite> {
    let (&Op::Gather { axis }, &[x, indices]) = (site.op(), site.operands()) else {
        return None;
    };
    let numbers = site
        .constant(indices)
        .and_then(|constant| integers(&constant.tensor()))?;
    let (Some((start, step)), Some(from)) = (arithmetic(&numbers), site.tensor(x).cloned()) else {
        return None;
    };
    let size = *from.dims.get(axis)?;
    let dims = site.dims_mut();
    let (zero, count) = (
        dims.constant(0),
        dims.constant(i64::try_from(numbers.len()).unwrap_or(i64::MAX)),
    );
    let mut first = dims.constant(start);
    if start < 0 {
        first = dims.add(size, first).ok()?;
    }
    let last = numbers.len().checked_sub(1)?;
    let reach = step.checked_mul(i64::try_from(last).ok()?)?;
    let last = dims.constant(reach);
    let last = dims.add(first, last).ok()?;
    let never = |predicate| dims.prove(&predicate) == Proof::Disproved;
    if [first, last].iter().any(|&index| {
        never(Predicate::Less(index, size)) || never(Predicate::LessEqual(zero, index))
    }) {
        return None;
    }
    let mut starts: Dims = from.dims.iter().map(|_| zero).collect();
    let mut steps: Integers = from.dims.iter().map(|_| 1).collect();
    let mut sizes = from.dims.clone();
    (starts[axis], sizes[axis], steps[axis]) = (first, count, step);
    let ty = TensorType {
        dtype: from.dtype,
        dims: sizes.clone(),
    };
    let slice = Op::Slice {
        starts,
        sizes,
        steps,
    };
    if ty.rank() == site.ty().rank() {
        return Some(Rewrite::op(slice, [x]));
    }
    let slice = site.emit(slice, [x], ty);
    Some(Rewrite::op(
        Op::Reshape {
            dims: site.ty().dims.clone(),
        },
        [slice],
    ))
}

/// The first of the numbers and the stride, if it is even and all have the same sign.
fn arithmetic(numbers: &[i64]) -> Option<(i64, i64)> {
    let &start = numbers.first()?;
    let step = match numbers.get(1) {
        Some(second) => second.checked_sub(start).filter(|&step| step != 0)?,
        None => 1,
    };
    let even = numbers
        .windows(2)
        .all(|pair| pair[1].checked_sub(pair[0]) == Some(step));
    let one_side = numbers.iter().all(|&number| (number < 0) == (start < 0));
    (even && one_side).then_some((start, step))
}

#[cfg(test)]
mod tests {
    use super::arithmetic;

    #[test]
    fn index_sequences_with_constant_steps_are_recognized() {
        assert_eq!(arithmetic(&[3]), Some((3, 1)));
        assert_eq!(arithmetic(&[4, 2, 0]), Some((4, -2)));
        assert_eq!(arithmetic(&[-2, -1]), Some((-2, 1)));
        for uneven in [
            &[][..],
            &[1, 1],
            &[0, 1, 3],
            &[1, 0, -1],
            &[i64::MIN, i64::MAX],
        ] {
            assert_eq!(arithmetic(uneven), None, "{uneven:?}");
        }
    }
}
