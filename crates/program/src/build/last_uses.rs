//! The last step that uses each buffer's memory.

use cranelift_entity::SecondaryMap;

use super::Builder;
use crate::ids::BufferId;
use crate::program::Block;

/// A step of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Moment {
    pub(super) segment: usize,
    pub(super) step: usize,
}

/// By root: a buffer and its views count as one. The block's results are used after all steps.
pub(super) struct LastUses(SecondaryMap<BufferId, Option<Moment>>);

impl LastUses {
    pub(super) fn of(program: &Builder<'_>, block: &Block) -> Self {
        let mut last = SecondaryMap::new();
        for (index, segment) in block.segments.iter().enumerate() {
            for (step, of_step) in segment.steps.iter().enumerate() {
                let at = Moment {
                    segment: index,
                    step,
                };
                let reads = program.reads(&of_step.action).into_iter();
                for buffer in reads.chain(program.writes(&of_step.action)) {
                    last[block.root(buffer)] = Some(at);
                }
            }
        }
        for &result in &block.results {
            last[block.root(result)] = Some(Moment {
                segment: usize::MAX,
                step: 0,
            });
        }
        Self(last)
    }

    /// The last use of a root; `None` if it is never used.
    pub(super) fn of_root(&self, root: BufferId) -> Option<Moment> {
        self.0[root]
    }

    /// Counts the uses of a new view of a root as the root's.
    pub(super) fn join(&mut self, root: BufferId, view: BufferId) {
        self.0[root] = self.0[root].max(self.0[view]);
    }
}
