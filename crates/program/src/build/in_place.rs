//! In-place steps: a result may reuse the memory of an operand that is dead afterwards and has as many bytes in the
//! same order.
//!
//! Decided before slots are chosen, and for all sizes: the two share one buffer's memory, so later passes (slots,
//! lifetimes, placement) are unaffected. If the operand is a parameter, only a call can decide whether its memory may
//! be taken; that is recorded as a [`Donation`].

use std::collections::{HashMap, HashSet};

use kiln_backend::Builtin;
use kiln_kernel::analysis::{SharedPair, may_share};
use kiln_symbolic_shape::DimId;
use smallvec::SmallVec;

use super::last_uses::{LastUses, Moment};
use super::{Builder, elements};
use crate::buffer::Place;
use crate::ids::BufferId;
use crate::program::{Block, Donation};
use crate::step::Action;

type Shapes = HashMap<BufferId, SmallVec<[DimId; 4]>>;

/// Puts results into the memory of operands whose lifetime ends with the step, and records which parameters' memory a
/// result could reuse. Copies of a buffer into itself are removed. Results of the block and operands of control steps have
/// separate memory already.
pub(super) fn share_in_place(program: &mut Builder<'_>, block: &mut Block, shapes: &Shapes) {
    if !program.options.share_memory {
        return;
    }
    let merge = &mut |shares: &mut Shares<'_, '_, '_>, pair| shares.merge(pair);
    let merged = each_step(program, block, shapes, merge);
    for at in merged.into_iter().rev() {
        let steps = &mut block.segments[at.segment].steps;
        if is_copy(&steps[at.step].action) {
            steps.remove(at.step);
        }
    }
    // This comes after it is known which buffers share memory.
    each_step(program, block, shapes, &mut |shares, pair| {
        shares.donate(pair)
    });
}

/// An operand of a step and a result that may share its memory, as far as the step is concerned.
#[derive(Clone, Copy)]
struct Pair {
    read: BufferId,
    written: BufferId,
}

/// Calls back with each pair of a step whose operand is dead afterwards and whose result was not written before, and lists
/// the steps with accepted pairs: one pair for each operand and result.
fn each_step(
    program: &mut Builder<'_>,
    block: &mut Block,
    shapes: &Shapes,
    share: &mut dyn FnMut(&mut Shares<'_, '_, '_>, Pair) -> bool,
) -> Vec<Moment> {
    let last_uses = LastUses::of(program, block);
    let mut written: HashSet<BufferId> = HashSet::new();
    let mut shared = Vec::new();
    let mut views: HashMap<BufferId, Vec<BufferId>> = HashMap::new();
    for (id, buffer) in &block.buffers {
        if let Place::View { of, .. } = buffer.place {
            views.entry(of).or_default().push(id);
        }
    }
    let mut shares = Shares {
        program,
        block,
        shapes,
        last_uses,
        views,
    };
    for segment in 0..shares.block.segments.len() {
        for step in 0..shares.block.segments[segment].steps.len() {
            let at = Moment { segment, step };
            let action = shares.block.segments[segment].steps[step].action.clone();
            let results = shares.program.writes(&action);
            let used = shares.program.reads(&action).into_iter();
            let used: Vec<BufferId> = used.chain(results.iter().copied()).collect();
            for pair in shares.pairs(&action) {
                let operand = shares.block.root(pair.read);
                let result = shares.block.root(pair.written);
                // A pair that shares memory uses it twice in the step, so neither buffer is shared again.
                let uses = |root| {
                    used.iter()
                        .filter(|&&id| shares.block.root(id) == root)
                        .count()
                };
                if uses(operand) == 1
                    && uses(result) == 1
                    && !written.contains(&result)
                    && shares.last_uses.of_root(operand) == Some(at)
                    && shares.is_whole(pair.read)
                    && shares.is_whole(pair.written)
                    && share(&mut shares, pair)
                {
                    shared.push(at);
                }
            }
            written.extend(results.iter().map(|&buffer| shares.block.root(buffer)));
        }
    }
    shared
}

fn is_copy(action: &Action) -> bool {
    matches!(
        action,
        Action::Builtin {
            builtin: Builtin::Copy,
            ..
        }
    )
}

/// A block whose buffers come to share memory.
struct Shares<'s, 'b, 'a> {
    program: &'s mut Builder<'a>,
    block: &'b mut Block,
    shapes: &'s Shapes,
    last_uses: LastUses,
    /// Keyed by the buffer that owns the memory.
    views: HashMap<BufferId, Vec<BufferId>>,
}

impl Shares<'_, '_, '_> {
    /// The operands and results of a step that may share memory.
    fn pairs(&self, action: &Action) -> Vec<Pair> {
        match action {
            Action::Kernel(launch) => {
                let kernel = self.program.kernels[launch.kernel].kernel.kernel();
                let operand = |buffer: kiln_kernel::BufferId| {
                    launch.operands.get(buffer.as_u32() as usize).copied()
                };
                let pair = |pair: SharedPair| {
                    Some(Pair {
                        read: operand(pair.read)?,
                        written: operand(pair.written)?,
                    })
                };
                may_share(kernel).into_iter().filter_map(pair).collect()
            }
            Action::Builtin {
                inputs, outputs, ..
            } if is_copy(action) => {
                let pairs = inputs.iter().zip(outputs);
                let pair = |(&read, &written)| Pair { read, written };
                pairs.map(pair).collect()
            }
            _ => Vec::new(),
        }
    }

    /// Whether a buffer spans all of its memory.
    fn is_whole(&mut self, buffer: BufferId) -> bool {
        let Place::View { of, offset } = self.block.buffers[buffer].place else {
            return true;
        };
        let offset = self.program.sizes.dim(offset);
        let widths = [buffer, of].map(|id| self.block.buffers[id].dtype.size_in_bytes());
        let counts = [buffer, of].map(|id| {
            let shape = self.shapes.get(&id)?;
            elements(&mut self.program.graph, shape).ok()
        });
        self.program.graph.dims().as_constant(offset) == Some(0)
            && widths[0] == widths[1]
            && counts[0].is_some()
            && counts[0] == counts[1]
    }

    /// Merges an operand in the arena with a result into one memory: the result's, if it outlives the arena's use of it.
    fn merge(&mut self, pair: Pair) -> bool {
        let (operand, result) = (self.block.root(pair.read), pair.written);
        let Place::Slot { segment, .. } = self.block.buffers[operand].place else {
            return false;
        };
        let (root, view) = match self.block.buffers[result].place {
            // Memory of a later segment does not exist yet when the operand is written.
            Place::Own if self.block.segments[segment].own.contains(&result) => (result, operand),
            Place::Slot { segment: other, .. } if other == segment => (operand, result),
            _ => return false,
        };
        let zero = self.program.graph.dims_mut().constant(0);
        let offset = self.program.sizes.intern(zero);
        let moved = self.views.remove(&view).unwrap_or_default();
        for &buffer in &moved {
            if let Place::View { of, .. } = &mut self.block.buffers[buffer].place {
                *of = root;
            }
        }
        self.block.buffers[view].place = Place::View { of: root, offset };
        let of_root = self.views.entry(root).or_default();
        of_root.extend(moved);
        of_root.push(view);
        self.last_uses.join(root, view);
        true
    }

    /// Records that a result of the block could use a parameter's memory.
    fn donate(&mut self, pair: Pair) -> bool {
        let (operand, memory) = (self.block.root(pair.read), self.block.root(pair.written));
        let (Place::Parameter(parameter), Place::Own) = (
            self.block.buffers[operand].place,
            self.block.buffers[memory].place,
        ) else {
            return false;
        };
        let results = self.block.results.iter().enumerate();
        let mut inside = results.filter(|&(_, &buffer)| self.block.root(buffer) == memory);
        let (Some((result, &buffer)), None) = (inside.next(), inside.next()) else {
            return false;
        };
        if self.block.buffers[buffer].strides.is_some() || !self.is_whole(buffer) {
            return false;
        }
        self.block.donations.push(Donation { parameter, result });
        true
    }
}
