//! The size of a candidate's kernel once every demand is lowered in place.
//!
//! Lowering shares values that are demanded twice at the same indices under the same guard. A concatenation or a border
//! demands its operands at other indices and under another guard, so the ops below it are emitted once per *path* to
//! it: three nested concatenations of ten operands have a thousand paths, each with the tests of all its guards. The
//! nodes on such paths are counted here, up to the limit, which also bounds the time for counting. Nodes under no guard
//! are emitted once, are bounded by the number of ops of a kernel, and are not counted.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use kiln_ir::{Graph, Op, OpId, ValueId};

use super::refusal::Refusal;
use crate::op_kind::unit_cost;

/// The kernel nodes that each operand of a concatenation adds to its element: an end, a comparison, a choice.
const PER_PIECE: usize = 3;

/// The kernel nodes that each guard on a path adds to a load: two comparisons and a conjunction.
const PER_GUARD: usize = 3;

/// A path from an output through the ops that move or guard what they read.
type PathId = usize;

/// Counts the guarded kernel nodes of a candidate, stopping at most one step of work after `limit` is exceeded.
///
/// # Errors
/// [`Refusal::Limit`] when there would be more than `limit`. A single op is always allowed.
pub(crate) fn count_nodes(
    graph: &Graph,
    ops: &BTreeSet<OpId>,
    outputs: &[ValueId],
    limit: usize,
) -> Result<usize, Refusal> {
    let mut paths = Paths::default();
    let mut wanted: BTreeMap<ValueId, BTreeSet<PathId>> = BTreeMap::new();
    for &output in outputs {
        wanted.entry(output).or_default().insert(Paths::ROOT);
    }
    let mut nodes: usize = 0;
    for &op in ops.iter().rev() {
        let data = graph.op(op);
        let at: BTreeSet<PathId> = data
            .results
            .iter()
            .filter_map(|result| wanted.get(result))
            .flatten()
            .copied()
            .collect();
        for path in at {
            if path != Paths::ROOT {
                let cost = usize::try_from(unit_cost(&data.op).max(1)).unwrap_or(usize::MAX);
                nodes = nodes.saturating_add(cost);
            }
            for (position, &operand) in data.operands.iter().enumerate() {
                let below = match moves(&data.op, position) {
                    Some(steps) => {
                        nodes = nodes.saturating_add(PER_PIECE);
                        paths.below(path, op, position, steps)
                    }
                    None => path,
                };
                let is_new = wanted.entry(operand).or_default().insert(below);
                if is_new && below != Paths::ROOT {
                    nodes = nodes.saturating_add(1 + PER_GUARD * paths.guards(below));
                }
                if nodes > limit && ops.len() > 1 {
                    return Err(Refusal::Limit {
                        what: "guarded nodes after inlining",
                        given: nodes,
                        limit,
                    });
                }
            }
        }
    }
    Ok(nodes)
}

/// The number of guards that an op puts before an operand; `None` if the operand is read under the op's own guard.
fn moves(op: &Op, position: usize) -> Option<usize> {
    match op {
        Op::Concat { .. } => Some(1),
        Op::Pad { .. } if position == 0 => Some(1),
        Op::Resize(_) if position == 0 => Some(1),
        _ => None,
    }
}

/// Paths, without duplicates.
#[derive(Default)]
struct Paths {
    ids: HashMap<(PathId, OpId, usize), PathId>,
    /// The guards on each path except the root.
    guards: Vec<usize>,
}

impl Paths {
    const ROOT: PathId = 0;

    fn guards(&self, path: PathId) -> usize {
        let place = path.checked_sub(1);
        place
            .and_then(|place| self.guards.get(place))
            .copied()
            .unwrap_or(0)
    }

    fn below(&mut self, path: PathId, op: OpId, position: usize, guards: usize) -> PathId {
        let guards = self.guards(path).saturating_add(guards);
        let next = self.guards.len() + 1;
        *self.ids.entry((path, op, position)).or_insert_with(|| {
            self.guards.push(guards);
            next
        })
    }
}
