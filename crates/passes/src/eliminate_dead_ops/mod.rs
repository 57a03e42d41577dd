//! `eliminate_dead_ops`: drops everything that no output needs.
//!
//! This includes dead parts of control flow: ops of regions, captures and results without readers, and carried values
//! that only feed themselves. Inputs of the graph are kept. An op that would have faulted on its data is dropped like
//! any other; a dropped op's requirements on sizes are still checked for entered regions (see
//! `kiln_ir::Region::requirements`).
//!
//! All dead parts are removed at once, because dead ops may read them; each op and each part of an op counts as one
//! rewrite.

mod liveness;

use self::liveness::Liveness;
use crate::context::{Changed, PassContext};
use crate::error::PassError;
use crate::rebuild::rebuild_with;
use kiln_ir::{Graph, NewOp, Op, OpData, OpId, Rebuild, RegionId, ValueId, Visit};

const PASS: &str = "eliminate_dead_ops";

/// Drops dead parts.
///
/// # Errors
/// None today.
pub fn eliminate_dead_ops(
    graph: Graph,
    ctx: &mut PassContext,
) -> Result<Changed<Graph>, PassError> {
    let live = Liveness::of(&graph);
    let dead = graph
        .ops()
        .map(|(id, data)| n_dead(&graph, id, data, &live))
        .sum();
    if dead == 0 || !ctx.count_rewrites(PASS, "drop", dead) {
        return Ok(Changed::unchanged(graph));
    }
    let trimmed = rebuild_with(&graph, &mut |rebuild, into, op| {
        trim_op(rebuild, into, op, &live);
        Visit::Done
    });
    Ok(Changed {
        graph: trimmed,
        rewrites: dead,
    })
}

/// The parts of a control op that are kept.
struct Kept {
    /// Per result.
    results: Vec<bool>,
    /// Per parameter of its regions. Operand `i + 1` is the initial value of parameter `i`; operand 0 has none.
    parameters: Vec<bool>,
}

impl Kept {
    fn of(graph: &Graph, data: &OpData, live: &Liveness) -> Self {
        let results: Vec<bool> = data
            .results
            .iter()
            .map(|&value| live.values[value])
            .collect();
        let is_live = |index: usize| {
            let mut parameters = data
                .regions
                .iter()
                .filter_map(|&region| graph.region(region).parameters.get(index));
            parameters.any(|&value| live.values[value])
        };
        let parameters = (1..data.operands.len())
            .map(|operand| operand - 1)
            .map(|index| match data.op {
                // The iteration number is kept; a carried value is removed together with its result.
                Op::Loop { .. } if index == 0 => true,
                Op::Loop { carried } if index <= carried => results[index - 1],
                _ => is_live(index),
            })
            .collect();
        Self {
            results,
            parameters,
        }
    }

    fn n_dead(&self) -> usize {
        self.results
            .iter()
            .chain(&self.parameters)
            .filter(|&&kept| !kept)
            .count()
    }
}

/// The number of parts of an op that are removed: the op itself, or parts of a control op.
fn n_dead(graph: &Graph, id: OpId, data: &OpData, live: &Liveness) -> usize {
    match live.ops[id] {
        false => 1,
        true if data.regions.is_empty() => 0,
        true => Kept::of(graph, data, live).n_dead(),
    }
}

/// Copies the live parts of an op. Recursion is bounded by the verifier's limit on nested regions.
fn trim_op(rebuild: &mut Rebuild<'_>, into: RegionId, id: OpId, live: &Liveness) {
    let old = rebuild.old();
    let data = old.op(id);
    if !live.ops[id] {
        return;
    }
    if data.regions.is_empty() {
        return rebuild.copy_op(into, id);
    }
    let kept = Kept::of(old, data, live);
    let op = match data.op {
        Op::Loop { carried } => Op::Loop {
            carried: kept
                .results
                .iter()
                .take(carried)
                .filter(|&&kept| kept)
                .count(),
        },
        ref op => op.clone(),
    };
    let with_operand_0: Vec<bool> = std::iter::once(true)
        .chain(kept.parameters.iter().copied())
        .collect();
    let results = only(&data.results, &kept.results);
    let mut new = NewOp::new(
        op,
        only(&data.operands, &with_operand_0)
            .into_iter()
            .map(|value| rebuild.value(value)),
        results.iter().map(|&value| old.ty(value).clone()),
    );
    new.symbols = data
        .symbols
        .iter()
        .copied()
        .filter(|&symbol| live.symbols[symbol])
        .collect();
    new.origin.clone_from(&data.origin);
    // A loop's region first yields whether to continue.
    let going_on = matches!(data.op, Op::Loop { .. }).then_some(true);
    let yields: Vec<bool> = going_on
        .into_iter()
        .chain(kept.results.iter().copied())
        .collect();
    for &region in &data.regions {
        new.regions
            .push(trim_region(rebuild, region, &kept, &yields, live));
    }
    rebuild.append_mapped(into, new, &results);
}

fn trim_region(
    rebuild: &mut Rebuild<'_>,
    region: RegionId,
    kept: &Kept,
    yields: &[bool],
    live: &Liveness,
) -> RegionId {
    let copy = rebuild.new_graph_mut().add_region();
    let keep = |index: usize| kept.parameters.get(index).copied().unwrap_or(true);
    rebuild.open_region(region, copy, keep, |symbol| live.symbols[symbol]);
    let data = rebuild.old().region(region);
    for &op in &data.ops {
        trim_op(rebuild, copy, op, live);
    }
    let results: Vec<ValueId> = only(&data.results, yields)
        .into_iter()
        .map(|value| rebuild.value(value))
        .collect();
    rebuild.new_graph_mut().set_results(copy, results);
    copy
}

fn only(values: &[ValueId], kept: &[bool]) -> Vec<ValueId> {
    values
        .iter()
        .zip(kept)
        .filter(|&(_, &kept)| kept)
        .map(|(&value, _)| value)
        .collect()
}

#[cfg(test)]
mod tests;
