//! The memory plan: the lifetime of each buffer, and which buffers share a slot of the arena.
//!
//! Decided once, for all sizes: a buffer takes a free slot if its size provably compares with the slot's, as equal,
//! smaller or larger. Nothing is shared without proof.

use std::collections::HashMap;

use kiln_kernel::seeded::{Fault, is_on};
use kiln_symbolic_shape::{DimId, DimTable, Fuel, Predicate};
use smallvec::SmallVec;

use super::in_place::share_in_place;
use super::last_uses::{LastUses, Moment};
use super::{Builder, elements};
use crate::buffer::{Place, Slot};
use crate::ids::BufferId;
use crate::program::Block;
use crate::step::Action;

/// The maximum number of free slots that are compared with a buffer.
const CANDIDATES: usize = 12;

/// Steps that a comparison of two sizes may take.
const FUEL: u64 = 400;

/// Gives separate memory to the buffers that outlive the arena's use of them.
pub(super) fn keep_results(block: &mut Block) {
    // A control step may pass on its operands as results, so their memory must not be reused.
    let steps = block.segments.iter().flat_map(|segment| &segment.steps);
    let control =
        steps.filter(|step| matches!(step.action, Action::If { .. } | Action::Loop { .. }));
    let handed_on = control.flat_map(|step| step.action.reads(|_, _| false));
    let handed_on: Vec<BufferId> = handed_on.chain(block.results.iter().copied()).collect();
    for buffer in handed_on {
        let buffer = block.root(buffer);
        if let Place::Slot { segment, .. } = block.buffers[buffer].place {
            block.buffers[buffer].place = Place::Own;
            block.segments[segment].own.push(buffer);
        }
    }
}

/// Gives every other buffer of the arena a slot.
pub(super) fn assign_places(
    program: &mut Builder<'_>,
    block: &mut Block,
    shapes: &HashMap<BufferId, SmallVec<[DimId; 4]>>,
) {
    share_in_place(program, block, shapes);
    let last_uses = LastUses::of(program, block);
    for index in 0..block.segments.len() {
        let steps = &block.segments[index].steps;
        let mut slots: Vec<Slot> = Vec::new();
        let mut largest: Vec<Option<DimId>> = Vec::new();
        let mut free: Vec<usize> = Vec::new();
        let mut placed: Vec<(BufferId, usize)> = Vec::new();
        let mut seen: HashMap<BufferId, usize> = HashMap::new();
        for (step_index, step) in steps.iter().enumerate() {
            let writes = program.writes(&step.action);
            for buffer in writes.iter().map(|&buffer| block.root(buffer)) {
                let is_here = matches!(block.buffers[buffer].place,
                    Place::Slot { segment, .. } if segment == index);
                if !is_here || seen.contains_key(&buffer) {
                    continue;
                }
                let size = shapes.get(&buffer).and_then(|shape| {
                    let width = block.buffers[buffer].dtype.size_in_bytes() as i64;
                    let count = elements(&mut program.graph, shape).ok()?;
                    let dims = program.graph.dims_mut();
                    let width = dims.constant(width);
                    dims.mul(count, width).ok()
                });
                let dims = program.graph.dims();
                let chosen = match size {
                    Some(size) if program.options.share_memory => {
                        choose(dims, size, &free, &largest)
                    }
                    _ => None,
                };
                let slot = match chosen {
                    Some((position, grows)) => {
                        let slot = free.remove(position);
                        if grows {
                            largest[slot] = size;
                        }
                        slot
                    }
                    None => {
                        slots.push(Slot::default());
                        largest.push(size);
                        slots.len() - 1
                    }
                };
                slots[slot].buffers.push(buffer);
                placed.push((buffer, slot));
                seen.insert(buffer, slot);
            }
            // A buffer that is dead after this step releases its slot, but not to the step itself.
            let reads = program.reads(&step.action).into_iter();
            let used = reads.chain(writes).map(|buffer| block.root(buffer));
            for buffer in used {
                let Some(&slot) = seen.get(&buffer) else {
                    continue;
                };
                let here = Moment {
                    segment: index,
                    step: step_index,
                };
                let is_last = last_uses.of_root(buffer) == Some(here);
                if (is_last || is_on(Fault::EarlyReuse)) && !free.contains(&slot) {
                    free.push(slot);
                }
            }
        }
        for (buffer, slot) in placed {
            block.buffers[buffer].place = Place::Slot {
                segment: index,
                slot,
            };
        }
        block.segments[index].slots = slots;
    }
}

/// A free slot for a buffer of a size, by position, and whether the slot grows: one of the same size, otherwise a
/// larger one, otherwise a smaller one.
fn choose(
    dims: &DimTable,
    size: DimId,
    free: &[usize],
    largest: &[Option<DimId>],
) -> Option<(usize, bool)> {
    let size_of = |slot: usize| largest.get(slot).copied().flatten();
    let same = free.iter().rposition(|&slot| size_of(slot) == Some(size));
    if let Some(position) = same {
        return Some((position, false));
    }
    let fits = |small: DimId, large: DimId| {
        let predicate = Predicate::LessEqual(small, large);
        dims.prove_with_fuel(&predicate, &mut Fuel::new(FUEL))
            .is_proved()
    };
    let mut smaller = None;
    let mut larger: Option<(usize, DimId)> = None;
    for (position, &slot) in free.iter().enumerate().rev().take(CANDIDATES) {
        let Some(there) = size_of(slot) else { continue };
        if fits(size, there) {
            if larger.is_none_or(|(_, best)| fits(there, best)) {
                larger = Some((position, there));
            }
        } else if smaller.is_none() && fits(there, size) {
            smaller = Some((position, true));
        }
    }
    larger.map(|(position, _)| (position, false)).or(smaller)
}
