//! The bytes that a kernel reads and writes.

use std::collections::BTreeSet;

use kiln_ir::{Definition, Graph, Op, OpId, ValueId};

use crate::sizes::SizeQueries;

/// The bytes of one kernel, at likely sizes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Traffic {
    /// Bytes of values that other kernels write or read.
    pub(super) memory: u64,
    /// Bytes of constants.
    pub(super) constants: u64,
}

impl Traffic {
    pub(super) fn of(
        graph: &Graph,
        sizes: &SizeQueries<'_>,
        ops: &BTreeSet<OpId>,
        outputs: &[ValueId],
    ) -> Self {
        let written = outputs.iter().map(|&value| bytes(graph, sizes, value));
        let mut traffic = Self {
            memory: written.fold(0, u64::saturating_add),
            constants: 0,
        };
        for value in inputs(graph, ops) {
            let readers = ops.iter().flat_map(|&op| reads(graph, sizes, op, value));
            let part = if is_constant(graph, value) {
                &mut traffic.constants
            } else {
                &mut traffic.memory
            };
            *part = part.saturating_add(readers.max().unwrap_or(0));
        }
        traffic
    }
}

fn is_constant(graph: &Graph, value: ValueId) -> bool {
    match graph.value(value).definition {
        Definition::Result { op, .. } => matches!(graph.op(op).op, Op::Constant(_)),
        Definition::Parameter { .. } => false,
    }
}

/// The operands that a set of ops reads from outside, in order of first use.
pub(crate) fn inputs(graph: &Graph, ops: &BTreeSet<OpId>) -> Vec<ValueId> {
    let mut seen = BTreeSet::new();
    let operands = ops.iter().flat_map(|&op| &graph.op(op).operands).copied();
    operands
        .filter(|&value| {
            let inside = match graph.value(value).definition {
                Definition::Result { op, .. } => ops.contains(&op),
                Definition::Parameter { .. } => false,
            };
            !inside && seen.insert(value)
        })
        .collect()
}

fn bytes(graph: &Graph, sizes: &SizeQueries<'_>, value: ValueId) -> u64 {
    graph
        .tensor_ty(value)
        .map_or(0, |ty| sizes.likely_bytes(ty))
}

/// The bytes of a value that an op reads; for an op that selects elements, only the selected part.
fn reads(graph: &Graph, sizes: &SizeQueries<'_>, op: OpId, value: ValueId) -> Option<u64> {
    let data = graph.op(op);
    let position = data.operands.iter().position(|&operand| operand == value)?;
    let all = bytes(graph, sizes, value);
    let selects = matches!(
        data.op,
        Op::Slice { .. } | Op::Gather { .. } | Op::GatherElements { .. } | Op::GatherNd { .. }
    );
    let result = data
        .results
        .first()
        .map(|&value| bytes(graph, sizes, value));
    Some(match result {
        Some(result) if selects && position == 0 => all.min(result),
        _ => all,
    })
}
