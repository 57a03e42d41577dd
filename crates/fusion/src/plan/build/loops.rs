//! Loops lowered to one kernel.
//!
//! A loop with element-wise iterations becomes its own kernel; only the ops that compute its trip count and captured
//! sizes are joined to it. If lowering rejects it, the loop stays a control step, with the reason in its notes.

use std::collections::BTreeSet;

use kiln_ir::{Op, OpId, RegionId};

use super::{Builder, Draft};
use crate::candidate::Refusal;
use crate::lower::size_ops;
use crate::plan::NodeKind;

impl Builder<'_> {
    /// Compiles the loops of a region to kernels where possible.
    pub(super) fn make_loops_kernels(&mut self, region: RegionId, drafts: &mut Vec<Draft>) {
        if !self.analyzer.options.fuse {
            return;
        }
        let mut again = BTreeSet::new();
        for draft in drafts.iter_mut() {
            let Some(&id) = draft.ops.first() else {
                continue;
            };
            if !matches!(self.graph.op(id).op, Op::Loop { .. }) {
                continue;
            }
            match self.loop_kernel(draft, id) {
                Ok(kernel) => {
                    *draft = kernel;
                    again.extend(draft.ops.difference(&draft.own));
                }
                Err(refusal) => {
                    let reason = refusal.describe(self.graph);
                    draft.notes.push(format!("no kernel: {reason}"));
                }
            }
        }
        self.give_away(region, drafts, &again);
    }

    /// A loop as a kernel, if it is within the limits.
    fn loop_kernel(&mut self, draft: &Draft, id: OpId) -> Result<Draft, Refusal> {
        let bodies = self.graph.op(id).regions.iter();
        let n_ops = bodies.map(|&body| self.graph.region(body).ops.len()).sum();
        let limit = |what, given, limit| match given > limit {
            true => Err(Refusal::Limit { what, given, limit }),
            false => Ok(()),
        };
        limit("ops", n_ops, self.analyzer.options.max_ops)?;
        let budget = self.sizes().budget();
        budget.spend(n_ops as u64);
        if budget.is_spent() {
            let limit = self.sizes().limits().plan_work;
            return Err(Refusal::Budget { limit });
        }
        let mut kernel = Draft {
            kind: NodeKind::Kernel,
            ..draft.clone()
        };
        kernel.ops.extend(size_ops(self.graph, id));
        let (lowered, class) = self.lower(&kernel)?;
        let n_buffers = lowered.kernel.buffers().len();
        limit("buffers", n_buffers, self.analyzer.options.max_buffers)?;
        kernel.class = Some(class);
        Ok(kernel)
    }

    /// Drops nodes whose results are read only by loops that recompute their ops (`again`): the ops then belong to the
    /// first reader.
    fn give_away(&self, region: RegionId, drafts: &mut Vec<Draft>, again: &BTreeSet<OpId>) {
        let region = self.graph.region(region);
        for place in (0..drafts.len()).rev() {
            let Some(draft) = drafts.get(place).filter(|draft| draft.own.is_subset(again)) else {
                continue;
            };
            let results = draft.own.iter().flat_map(|&op| &self.graph.op(op).results);
            let results: BTreeSet<_> = results.copied().collect();
            let reads = |op: &&OpId| {
                let mut operands = self.graph.op(**op).operands.iter();
                operands.any(|operand| results.contains(operand))
            };
            let readers = region.ops.iter().filter(|op| !draft.own.contains(*op));
            let readers: Vec<usize> = readers
                .filter(reads)
                .filter_map(|op| drafts.iter().position(|draft| draft.own.contains(op)))
                .collect();
            let does_again = |&reader: &usize| {
                let reader = drafts.get(reader);
                reader.is_some_and(|reader| draft.own.is_subset(&reader.ops))
            };
            let escapes = region.results.iter().any(|result| results.contains(result));
            if escapes || !readers.iter().all(does_again) {
                continue;
            }
            let Some(&first) = readers.first() else {
                continue;
            };
            let own = draft.own.clone();
            if let Some(reader) = drafts.get_mut(first) {
                reader.own.extend(own);
            }
            drafts.remove(place);
        }
    }
}
