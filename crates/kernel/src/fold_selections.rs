//! Folds selections between indices whose condition depends only on known sizes, such as the `select(N == 1, 0, i)` of a
//! broadcast that is decided at run time.

use std::collections::HashMap;

use kiln_scalar::{Mode, ScalarOp, ScalarValue, evaluate_op};
use kiln_tensor::DType;

use crate::form::{Kernel, Node, NodeId};

/// Replaces each such selection by the index that it selects. Returns whether there was one.
pub(crate) fn fold_selections(kernel: &mut Kernel) -> bool {
    let mut values = HashMap::new();
    let mut is_changed = false;
    let ids: Vec<NodeId> = kernel.nodes().keys().collect();
    for id in ids {
        if let Some(selected) = selected(kernel, &values, id) {
            kernel.nodes[id].node = kernel.node(selected).clone();
            is_changed = true;
        }
        if let Some(value) = value(kernel, &values, id) {
            values.insert(id, value);
        }
    }
    is_changed
}

/// The index that a selection takes at every point, if dropping the other one drops no fault.
fn selected(kernel: &Kernel, values: &HashMap<NodeId, ScalarValue>, id: NodeId) -> Option<NodeId> {
    let Node::Apply {
        op: ScalarOp::Select,
        operands,
    } = kernel.node(id)
    else {
        return None;
    };
    let &[condition, then, otherwise] = operands.as_slice() else {
        return None;
    };
    let (selected, dropped) = match values.get(&condition)? {
        ScalarValue::Bool(true) => (then, otherwise),
        ScalarValue::Bool(false) => (otherwise, then),
        _ => return None,
    };
    let cannot_fault = matches!(
        kernel.node(dropped),
        Node::Literal(_) | Node::Size(_) | Node::Axis(_)
    );
    (kernel.dtype(id) == DType::I64 && cannot_fault).then_some(selected)
}

/// The value of an integer or a condition that is the same at every point.
fn value(
    kernel: &Kernel,
    values: &HashMap<NodeId, ScalarValue>,
    id: NodeId,
) -> Option<ScalarValue> {
    match kernel.node(id) {
        Node::Literal(value) => Some(*value),
        Node::Size(dim) => kernel.dims().as_constant(*dim).map(ScalarValue::I64),
        Node::Apply { op, operands } => {
            let is_exact = |&node: &NodeId| matches!(kernel.dtype(node), DType::I64 | DType::Bool);
            if !operands.iter().all(is_exact) {
                return None;
            }
            let operands = operands.iter().map(|operand| values.get(operand).copied());
            let operands: Vec<ScalarValue> = operands.collect::<Option<_>>()?;
            evaluate_op(*op, &operands, Mode::Declared).ok()
        }
        _ => None,
    }
}
