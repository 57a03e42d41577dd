//! Rematerialisation: steps are repeated, so that their results need not be kept.
//!
//! This is the last change to the list of steps, after everything that merges or reorders computations: no pass sees
//! the repeated steps, so none has to preserve them. A repeated step launches the same kernel on operands with the same
//! elements, so results are bit-identical. The choice is made at likely sizes, and is correct for all sizes.
//!
//! Only steps of the outermost block are repeated: the gradient of a control step recomputes its region anyway.

mod replay;
mod simulate;

use std::collections::HashMap;

use kiln_symbolic_shape::DimId;
use smallvec::SmallVec;

use super::Builder;
use super::flow::Flow;
use super::order_steps::order_for_memory;
use crate::ids::BufferId;
use crate::memory_budget::MemoryBudget;
use crate::program::Block;
use simulate::{Run, Weights, within};

type Shapes = HashMap<BufferId, SmallVec<[DimId; 4]>>;

/// The number of bisection steps between a budget that is not met and the memory needed without one.
const ATTEMPTS: usize = 6;

/// The run within the budget that repeats the least work, or a run within approximately the smallest budget that can be
/// met.
///
/// No single heuristic for dropping values is best for all programs, and a simulated run costs little, so all are
/// tried.
fn lowest(flow: &Flow, budget: u64, peak: u64) -> Run {
    let best = cheapest(flow, budget);
    if best.peak <= budget {
        return best;
    }
    let (mut low, mut high) = (budget, best.peak.min(peak));
    let mut best = best;
    for _ in 0..ATTEMPTS {
        let middle = low + (high - low) / 2;
        let run = cheapest(flow, middle);
        match run.peak <= middle {
            true => high = middle,
            false => low = middle,
        }
        if run.peak < best.peak {
            best = run;
        }
    }
    best
}

/// Of the runs with different weights, the one with the least repeated work within the budget; if all exceed it, the
/// one with the lowest peak.
fn cheapest(flow: &Flow, budget: u64) -> Run {
    let [first, others @ ..] = Weights::ALL;
    let mut best = within(flow, budget, first);
    for weights in others {
        let run = within(flow, budget, weights);
        let is_better = match (run.peak <= budget, best.peak <= budget) {
            (true, true) => run.repeated < best.repeated,
            (fits, best_fits) if fits != best_fits => fits,
            _ => run.peak < best.peak,
        };
        if is_better {
            best = run;
        }
    }
    best
}

/// Orders the steps of each segment so that values die early, and repeats steps of the body until live values fit into the
/// memory budget.
pub(super) fn fit_memory(program: &mut Builder<'_>, block: &mut Block, shapes: &mut Shapes) {
    if !program.options.share_memory {
        return;
    }
    let memory = match block.region == program.graph.body() {
        true => program.options.memory,
        false => MemoryBudget::Unlimited,
    };
    let has_budget = memory != MemoryBudget::Unlimited;
    for segment in 0..block.segments.len() {
        let mut flow = Flow::of(program, block, segment, shapes, has_budget);
        if let Some(order) = order_for_memory(&flow, has_budget) {
            let mut steps: Vec<_> = std::mem::take(&mut block.segments[segment].steps)
                .into_iter()
                .map(Some)
                .collect();
            let steps = order.iter().filter_map(|&step| steps[step].take());
            block.segments[segment].steps = steps.collect();
            flow = Flow::of(program, block, segment, shapes, has_budget);
        }
        let in_order: Vec<usize> = (0..flow.steps.len()).collect();
        let peak = flow.peak(&in_order);
        if let Some(budget) = memory.below(peak) {
            let run = lowest(&flow, budget, peak);
            if run.peak < peak {
                replay::replay(program, block, segment, shapes, &flow, &run.steps);
            }
        }
    }
}
