//! `sink_constants`: a constant that a region captures becomes a constant inside it.
//!
//! This makes constants visible to passes, which do not look beyond a region. Constants are shared, not copied. The
//! capture is left without a reader, and `eliminate_dead_ops` drops it.

use crate::context::{Changed, PassContext};
use crate::error::PassError;
use crate::peephole::constant_of;
use crate::rebuild::rebuild_with;
use cranelift_entity::SecondaryMap;
use kiln_ir::{Constant, Graph, NewOp, Op, OpData, OpId, Rebuild, RegionId, ValueId, Visit};

const PASS: &str = "sink_constants";

/// Moves captured constants into regions.
///
/// # Errors
/// None today.
pub fn sink_constants(graph: Graph, ctx: &mut PassContext) -> Result<Changed<Graph>, PassError> {
    if graph.ops().all(|(_, data)| data.regions.is_empty()) {
        return Ok(Changed::unchanged(graph));
    }
    let before = ctx.rewrites();
    let uses = graph.use_counts();
    let sunk = rebuild_with(&graph, &mut |rebuild, into, op| {
        if sink(rebuild, into, op, &uses, ctx) {
            Visit::Done
        } else {
            Visit::Copy
        }
    });
    Ok(match ctx.rewrites() - before {
        0 => Changed::unchanged(graph),
        rewrites => Changed {
            graph: sunk,
            rewrites,
        },
    })
}

fn sink(
    rebuild: &mut Rebuild<'_>,
    into: RegionId,
    id: OpId,
    uses: &SecondaryMap<ValueId, u32>,
    ctx: &mut PassContext,
) -> bool {
    let old = rebuild.old();
    let data = old.op(id);
    let constants = captured_constants(rebuild, data, uses);
    if constants.is_empty() || !ctx.count_rewrites(PASS, "capture", constants.len()) {
        return false;
    }
    let mut new = rebuild.like(id);
    for &region in &data.regions {
        let copy = rebuild.new_graph_mut().add_region();
        rebuild.open_region(region, copy, |_| true, |_| true);
        for (parameter, constant) in constants
            .iter()
            .filter(|(parameter, _)| stands_in(old, region, *parameter))
        {
            let new = NewOp::new(
                Op::Constant(constant.clone()),
                [],
                [old.ty(*parameter).clone()],
            );
            rebuild.append_mapped(copy, new, &[*parameter]);
        }
        let results = rebuild.copy_ops(region, copy);
        rebuild.new_graph_mut().set_results(copy, results);
        new.regions.push(copy);
    }
    rebuild.append_mapped(into, new, &data.results);
    true
}

fn stands_in(graph: &Graph, region: RegionId, value: ValueId) -> bool {
    graph.region(region).parameters.contains(&value)
}

/// The parameters of an op's regions that are read and always have the same constant value.
fn captured_constants(
    rebuild: &Rebuild<'_>,
    data: &OpData,
    uses: &SecondaryMap<ValueId, u32>,
) -> Vec<(ValueId, Constant)> {
    let first = match data.op {
        Op::Loop { carried } => 1 + carried,
        _ => 0,
    };
    let mut found = Vec::new();
    for &region in &data.regions {
        for (index, &parameter) in rebuild
            .old()
            .region(region)
            .parameters
            .iter()
            .enumerate()
            .skip(first)
        {
            let operand = data
                .operands
                .get(index + 1)
                .map(|&operand| rebuild.value(operand));
            if uses[parameter] > 0
                && let Some(constant) =
                    operand.and_then(|operand| constant_of(rebuild.new_graph(), operand))
            {
                found.push((parameter, constant.clone()));
            }
        }
    }
    found
}

#[cfg(test)]
mod tests;
