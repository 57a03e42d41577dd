//! The placement of values in the arena of a segment, for the sizes of a call: values that are never live together may
//! share memory.
//!
//! A program knows which buffers share a slot at every size; where sizes cannot be compared, they do not share. With
//! concrete sizes they are packed more tightly: the largest first, each at the lowest offset that is free while it is live.

use kiln_kernel::seeded::{Fault, is_on};
use kiln_program::{Block, BufferId, Place, Program};
use kiln_tensor::alignment_of;

/// The steps of a segment during which a buffer is live, inclusive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Lifetime {
    pub(crate) buffer: BufferId,
    pub(crate) from: usize,
    /// Past all steps for values that a later segment reads.
    pub(crate) to: usize,
}

impl Lifetime {
    fn meets(&self, other: &Self) -> bool {
        self.from <= other.to && other.from <= self.to
    }
}

/// The lifetimes of the buffers in the arena of a segment, in the order in which they are first written.
pub(crate) fn lifetimes_of(program: &Program, block: &Block, segment: usize) -> Vec<Lifetime> {
    let is_here =
        |place: Place| matches!(place, Place::Slot { segment: its, .. } if its == segment);
    lifetimes_where(program, block, segment, is_here)
}

/// The same for buffers in some places, from this segment's steps on.
pub(crate) fn lifetimes_where(
    program: &Program,
    block: &Block,
    segment: usize,
    is_meant: impl Fn(Place) -> bool,
) -> Vec<Lifetime> {
    let mut position_of = std::collections::HashMap::new();
    let mut lifetimes: Vec<Lifetime> = Vec::new();
    for (index, of_segment) in block.segments.iter().enumerate().skip(segment) {
        for (number, step) in of_segment.steps.iter().enumerate() {
            // A value that a later segment reads is live to the end.
            let number = if index == segment { number } else { usize::MAX };
            let used = program.reads(&step.action).into_iter();
            let used = used.chain(program.writes(&step.action));
            let used = used.map(|buffer| block.root(buffer));
            for buffer in used.filter(|&buffer| is_meant(block.buffers[buffer].place)) {
                let position = *position_of.entry(buffer).or_insert_with(|| {
                    let (from, to) = (number, number);
                    lifetimes.push(Lifetime { buffer, from, to });
                    lifetimes.len() - 1
                });
                if !is_on(Fault::EarlyReuse) {
                    lifetimes[position].to = number;
                }
            }
        }
    }
    lifetimes
}

/// The offset of each buffer, and the end of the last, for buffers of these sizes in bytes. `None` on overflow.
pub(crate) fn place(lifetimes: &[Lifetime], bytes: &[usize]) -> Option<(Vec<usize>, usize)> {
    let mut order: Vec<usize> = (0..lifetimes.len().min(bytes.len())).collect();
    order.sort_by_key(|&position| (std::cmp::Reverse(bytes[position]), position));
    let mut starts = vec![0; lifetimes.len()];
    // Placed buffers, by offset.
    let mut placed: Vec<usize> = Vec::with_capacity(order.len());
    let mut end = 0;
    for position in order {
        let (lifetime, bytes_here) = (&lifetimes[position], bytes[position]);
        if bytes_here == 0 {
            continue;
        }
        let alignment = alignment_of(bytes_here);
        let mut start = 0usize;
        for &other in &placed {
            if !lifetimes[other].meets(lifetime) {
                continue;
            }
            if start.checked_add(bytes_here)? <= starts[other] {
                break;
            }
            let after = starts[other].checked_add(bytes[other])?;
            start = start.max(after.checked_next_multiple_of(alignment)?);
        }
        end = end.max(start.checked_add(bytes_here)?);
        starts[position] = start;
        let next = placed.partition_point(|&other| starts[other] <= start);
        placed.insert(next, position);
    }
    Some((starts, end))
}

#[cfg(test)]
mod tests {
    use super::*;
    use cranelift_entity::EntityRef;
    use proptest::prelude::*;

    fn lifetime(from: usize, to: usize) -> Lifetime {
        let buffer = BufferId::new(0);
        Lifetime { buffer, from, to }
    }

    #[test]
    fn dead_values_free_their_arena_space() {
        // A chain: each value is needed only by the next step.
        let chain: Vec<_> = (0..6).map(|step| lifetime(step, step + 1)).collect();
        let bytes = [6400, 64, 3200, 128, 6400, 640];
        let (starts, end) = place(&chain, &bytes).unwrap();
        assert_eq!(starts, [0, 6400, 0, 6400, 0, 6400]);
        assert_eq!(end, 6400 + 640);
        assert_eq!(place(&[], &[]), Some((Vec::new(), 0)));
        assert_eq!(place(&chain[..2], &[0, 0]), Some((vec![0, 0], 0)));
        assert_eq!(place(&chain[..2], &[usize::MAX, usize::MAX]), None);
    }

    proptest! {
        #[test]
        fn values_alive_together_never_overlap(
            values in prop::collection::vec((0..20_usize, 0..8_usize, 0..10_000_usize), 0..40),
        ) {
            let lifetimes: Vec<_> = values.iter().map(|&(from, length, _)| lifetime(from, from + length)).collect();
            let bytes: Vec<usize> = values.iter().map(|&(.., bytes)| bytes).collect();
            let (starts, end) = place(&lifetimes, &bytes).unwrap();
            for (position, start) in starts.iter().enumerate() {
                prop_assert_eq!(start % alignment_of(bytes[position]), 0);
                prop_assert!(start + bytes[position] <= end);
                for other in 0..position {
                    let is_apart = starts[other] + bytes[other] <= *start || start + bytes[position] <= starts[other];
                    let is_empty = bytes[other] == 0 || bytes[position] == 0;
                    prop_assert!(is_apart || is_empty || !lifetimes[other].meets(&lifetimes[position]));
                }
            }
            // Never more than without any reuse.
            let apart: usize = bytes.iter().map(|bytes| bytes.next_multiple_of(alignment_of(*bytes))).sum();
            prop_assert!(end <= apart);
        }
    }
}
