//! Readable names of nodes, derived from their ops.

use std::collections::BTreeSet;

use kiln_ir::{Definition, Graph, Op, OpId, ReduceFunction, ValueId};
use kiln_kernel::Class;

use crate::op_kind::{OpKind, is_index_map};

/// The maximum number of words of a name.
const WORD_LIMIT: usize = 4;

/// A name for the ops of a node: `matmul_bias_relu`, `softmax`, `norm`, `transpose`.
pub(crate) fn name_of_ops(graph: &Graph, ops: &BTreeSet<OpId>, class: Option<Class>) -> String {
    let mut words: Vec<&'static str> = Vec::new();
    if class == Some(Class::Attention) {
        return "attention".to_owned();
    }
    let row = row_word(graph, ops);
    let counted = |op: &&OpId| !is_index_map(&graph.op(**op).op);
    let all_maps = ops.iter().find(counted).is_none();
    let mut row_named = false;
    for &op in ops {
        let data = graph.op(op);
        if is_index_map(&data.op) && !all_maps {
            continue;
        }
        let word = match (OpKind::of(&data.op), row) {
            (OpKind::Reduction, Some(word)) => {
                if row_named {
                    continue;
                }
                row_named = true;
                word
            }
            (OpKind::Pointwise, Some(_)) if row_named => continue,
            _ => word_of(graph, op),
        };
        if words.last() != Some(&word) {
            words.push(word);
        }
    }
    if words.len() > WORD_LIMIT {
        let rest = words.len() - WORD_LIMIT;
        words.truncate(WORD_LIMIT);
        return format!("{}_{rest}_more", words.join("_"));
    }
    words.join("_")
}

/// The name of a row kernel, if its reductions match a well-known operation.
fn row_word(graph: &Graph, ops: &BTreeSet<OpId>) -> Option<&'static str> {
    let reduces = |wanted: ReduceFunction| {
        ops.iter().any(
            |&op| matches!(&graph.op(op).op, Op::Reduce { function, .. } if *function == wanted),
        )
    };
    let maps = |name: &str| {
        ops.iter().any(
            |&op| matches!(&graph.op(op).op, Op::Map { function, .. } if function.name() == name),
        )
    };
    if reduces(ReduceFunction::Max) && reduces(ReduceFunction::Sum) && maps("exp") {
        let log = maps("log");
        return Some(if log { "log_softmax" } else { "softmax" });
    }
    let root = maps("rsqrt") || maps("sqrt");
    (reduces(ReduceFunction::Mean) && root).then_some("norm")
}

fn word_of(graph: &Graph, op: OpId) -> &'static str {
    let data = graph.op(op);
    match &data.op {
        Op::Map { function, .. } if function.name() == "add" => {
            let bias = data.operands.iter().any(|&value| is_bias(graph, op, value));
            if bias { "bias" } else { "add" }
        }
        other => other.mnemonic(),
    }
}

/// Whether an operand of an addition is a constant of fewer axes, or with sizes of 1, than the result.
fn is_bias(graph: &Graph, op: OpId, value: ValueId) -> bool {
    let Definition::Result { op: by, .. } = graph.value(value).definition else {
        return false;
    };
    let constant = matches!(graph.op(by).op, Op::Constant(_));
    let dims = |value: ValueId| graph.tensor_ty(value).map(|ty| ty.dims.clone());
    let result = graph.op(op).results.first().and_then(|&value| dims(value));
    constant && dims(value).is_some_and(|own| !own.is_empty()) && dims(value) != result
}
