//! The minimum cut: which values to save so that the fewest bytes are kept.
//!
//! Each value of the forward half is an edge whose capacity is its bytes. A value whose op may be recomputed has flow
//! from its operands; other values have flow from the source. Values that the backward half reads flow into the sink.
//! The edges of a minimum cut are the values to save. Inputs are kept anyway, so nothing flows from them.

use super::Halves;
use crate::size_hints::SizeHints;
use kiln_ir::{Graph, Op, OpId, ValueId};
use kiln_symbolic_shape::DimId;
use petgraph::algo::dinics;
use petgraph::graph::{DiGraph, NodeIndex};
use petgraph::visit::EdgeRef;
use std::collections::{BTreeSet, HashMap, HashSet};

/// The capacity of an edge that is not to be cut: more than all values together.
const UNCUT: u64 = 1 << 60;

/// Sizes are clamped to this, so that sums do not overflow.
const MOST_BYTES: u64 = 1 << 40;

/// The costs of values and ops at one set of sizes, and which ops may be rematerialised.
pub(super) struct Costs<'g> {
    graph: &'g Graph,
    sizes: SizeHints<'g>,
    allowed: HashSet<OpId>,
}

impl<'g> Costs<'g> {
    pub(super) fn new(graph: &'g Graph, size_hint: i64) -> Self {
        Self {
            graph,
            sizes: SizeHints::of(graph, size_hint),
            allowed: HashSet::new(),
        }
    }

    /// The bytes of a value.
    pub(super) fn bytes(&self, value: ValueId) -> u64 {
        let ty = self.graph.ty(value).innermost();
        let elements = self.elements(&ty.dims);
        elements
            .saturating_mul(ty.dtype.size_in_bytes() as u64)
            .clamp(1, MOST_BYTES)
    }

    /// The total bytes of values.
    pub(super) fn total(&self, values: &BTreeSet<ValueId>) -> u64 {
        values.iter().map(|&value| self.bytes(value)).sum()
    }

    /// Allows rematerialising the op of a saved value that has the least arithmetic per byte; false if none is left.
    pub(super) fn allow_cheapest(&mut self, saved: &BTreeSet<ValueId>) -> bool {
        let mut best: Option<(u64, OpId)> = None;
        for (op, data) in self.graph.ops() {
            let bytes: u64 = data
                .results
                .iter()
                .filter(|result| saved.contains(result))
                .map(|&result| self.bytes(result))
                .sum();
            if bytes == 0 || self.may_repeat(op) || !data.symbols.is_empty() {
                continue;
            }
            let intensity = self.operations(op) / bytes;
            if best.is_none_or(|(least, _)| intensity < least) {
                best = Some((intensity, op));
            }
        }
        best.is_some_and(|(_, op)| self.allowed.insert(op))
    }

    /// Whether an op may be rematerialised in the backward half.
    fn may_repeat(&self, op: OpId) -> bool {
        let is_cheap = matches!(
            self.graph.op(op).op,
            Op::Constant(_)
                | Op::Iota { .. }
                | Op::Dims { .. }
                | Op::RandomBits { .. }
                | Op::Map { .. }
                | Op::Cast { .. }
                | Op::Reshape { .. }
                | Op::Broadcast { .. }
                | Op::Transpose { .. }
                | Op::Slice { .. }
                | Op::Pad { .. }
                | Op::Concat { .. }
                | Op::Bind
        );
        is_cheap || self.allowed.contains(&op)
    }

    /// About how many arithmetic operations an op takes.
    fn operations(&self, op: OpId) -> u64 {
        let data = self.graph.op(op);
        let of = |value: &ValueId| self.elements(&self.graph.ty(*value).innermost().dims);
        let results: u64 = data.results.iter().map(of).sum();
        let operands: u64 = data.operands.iter().map(of).sum();
        let dims_of = |index: usize| {
            data.operands
                .get(index)
                .map(|&value| &self.graph.ty(value).innermost().dims)
        };
        match &data.op {
            Op::Matmul { .. } => {
                let depth = dims_of(0).and_then(|dims| dims.last().copied());
                results.saturating_mul(depth.map_or(1, |depth| self.elements(&[depth])))
            }
            Op::Conv { .. } | Op::ConvTranspose { .. } => {
                let taps = dims_of(1).map_or(1, |dims| self.elements(dims.get(1..).unwrap_or(&[])));
                results.saturating_mul(taps)
            }
            Op::Loop { .. } | Op::If => MOST_BYTES,
            _ => results.saturating_add(operands),
        }
    }

    fn elements(&self, dims: &[DimId]) -> u64 {
        self.sizes.elements(dims)
    }
}

/// The network whose minimum cut is the choice of values to save.
pub(super) struct Network {
    flows: DiGraph<Option<ValueId>, u64>,
    source: NodeIndex,
    sink: NodeIndex,
    /// The edge of each value runs between these.
    ends: HashMap<ValueId, (NodeIndex, NodeIndex)>,
}

impl Network {
    pub(super) fn of(graph: &Graph, halves: &Halves, costs: &Costs<'_>) -> Self {
        let mut flows = DiGraph::new();
        let (source, sink) = (flows.add_node(None), flows.add_node(None));
        let mut ends: HashMap<ValueId, (NodeIndex, NodeIndex)> = HashMap::new();
        let ops = &graph.region(graph.body()).ops;
        for &op in ops.iter().filter(|op| halves.forward.contains(op)) {
            let data = graph.op(op);
            for &result in &data.results {
                let (into, out) = (flows.add_node(Some(result)), flows.add_node(Some(result)));
                flows.add_edge(into, out, costs.bytes(result));
                if halves.needed.contains(&result) {
                    flows.add_edge(out, sink, UNCUT);
                }
                if costs.may_repeat(op) {
                    for operand in &data.operands {
                        // An input has no node: it is available in both halves.
                        if let Some(&(_, from)) = ends.get(operand) {
                            flows.add_edge(from, into, UNCUT);
                        }
                    }
                } else {
                    flows.add_edge(source, into, UNCUT);
                }
                ends.insert(result, (into, out));
            }
        }
        Self {
            flows,
            source,
            sink,
            ends,
        }
    }

    /// The values whose edges form a minimum cut.
    pub(super) fn cut(&self) -> BTreeSet<ValueId> {
        let (_, flow) = dinics(&self.flows, self.source, self.sink);
        let mut reached = HashSet::from([self.source]);
        let mut pending = vec![self.source];
        while let Some(node) = pending.pop() {
            let onward = self.flows.edges(node).filter_map(|edge| {
                let left = *edge.weight() > flow[edge.id().index()];
                left.then_some(edge.target())
            });
            let incoming = self
                .flows
                .edges_directed(node, petgraph::Direction::Incoming);
            let back =
                incoming.filter_map(|edge| (flow[edge.id().index()] > 0).then_some(edge.source()));
            for next in onward.chain(back) {
                if reached.insert(next) {
                    pending.push(next);
                }
            }
        }
        let is_cut =
            |(into, out): &(NodeIndex, NodeIndex)| reached.contains(into) && !reached.contains(out);
        let cut = self.ends.iter().filter(|(_, ends)| is_cut(ends));
        cut.map(|(&value, _)| value).collect()
    }
}
