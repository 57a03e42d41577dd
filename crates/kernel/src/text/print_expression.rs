//! Prints a scalar expression.
//!
//! A node that is used more than once, or nests too deep, is named in a preceding block: `{ t0 = exp(x); t0 * t0 }`. So the
//! text is linear in the number of nodes, and reads back within the reader's depth limit. Nothing recurses.

use std::collections::HashMap;

use kiln_scalar::ScalarValue;
use kiln_tensor::DType;

use super::print::{Printer, put};
use super::words::{AND, CONDITIONAL, Level, NOT, PRIMARY, infix};
use crate::form::{AxisId, Kernel, Load, Node, NodeId};
use std::fmt::Write;

/// The maximum nesting of an expression before a part of it gets a name.
const MAX_DEPTH: usize = 16;

/// The text of a node.
struct Text {
    text: String,
    level: Level,
    depth: usize,
}

impl Printer<'_> {
    pub(super) fn expression(&self, root: NodeId) -> String {
        let (order, uses) = reachable(self.kernel, root);
        let mut texts: HashMap<NodeId, Text> = HashMap::new();
        let mut definitions = String::new();
        let mut next = 0;
        for node in order {
            let mut text = self.node(node, &texts);
            let is_shared = uses.get(&node).is_some_and(|&uses| uses > 1) && !self.is_leaf(node);
            if node != root && (is_shared || text.depth >= MAX_DEPTH) {
                let name = self.names.temporary(&mut next);
                put!(definitions, "{name} = {}; ", text.text);
                text = Text {
                    text: name,
                    level: PRIMARY,
                    depth: 0,
                };
            }
            texts.insert(node, text);
        }
        let whole = texts
            .remove(&root)
            .map(|text| text.text)
            .unwrap_or_default();
        if definitions.is_empty() {
            whole
        } else {
            format!("{{ {definitions}{whole} }}")
        }
    }

    /// Whether an expression depends on an axis directly.
    pub(super) fn uses_axis(&self, root: NodeId, axis: AxisId) -> bool {
        let (order, _) = reachable(self.kernel, root);
        order
            .iter()
            .any(|&node| *self.kernel.node(node) == Node::Axis(axis))
    }

    /// Whether a node is as short as a name would be.
    fn is_leaf(&self, node: NodeId) -> bool {
        let is_simple = |&node: &NodeId| {
            matches!(
                self.kernel.node(node),
                Node::Literal(_) | Node::Size(_) | Node::Axis(_)
            )
        };
        match self.kernel.node(node) {
            Node::Literal(_) | Node::Size(_) | Node::Axis(_) => true,
            Node::Load(load) => load.guard.is_none() && load.indices.iter().all(is_simple),
            Node::Local { indices, .. }
            | Node::Previous { indices, .. }
            | Node::Last { indices, .. } => indices.iter().all(is_simple),
            Node::Apply { .. } | Node::Call { .. } => false,
        }
    }

    fn node(&self, node: NodeId, texts: &HashMap<NodeId, Text>) -> Text {
        let mut depth = 0;
        self.kernel.node(node).for_each_operand(&mut |operand| {
            depth = depth.max(texts.get(&operand).map_or(0, |text| text.depth + 1));
        });
        let at_least = |operand: NodeId, level: Level| match texts.get(&operand) {
            Some(text) if text.level >= level => text.text.clone(),
            Some(text) => format!("({})", text.text),
            None => unreachable!("operands are printed first"),
        };
        let list = |operands: &[NodeId]| {
            let texts: Vec<String> = operands
                .iter()
                .map(|&operand| at_least(operand, CONDITIONAL))
                .collect();
            texts.join(", ")
        };
        let array = |name: String, indices: &[NodeId]| {
            if indices.is_empty() {
                name
            } else {
                format!("{name}[{}]", list(indices))
            }
        };
        let mut level = PRIMARY;
        let text = match self.kernel.node(node) {
            Node::Literal(value) => literal(*value),
            Node::Size(dim) => match self.kernel.dims().as_symbol(*dim) {
                Some(_) if !super::words::KEYWORDS.contains(&self.size(*dim).as_str()) => {
                    self.size(*dim)
                }
                _ => format!("size({})", self.size(*dim)),
            },
            Node::Axis(axis) => self.names.axes[*axis].clone(),
            Node::Load(load) => {
                if load.guard.is_some() {
                    level = CONDITIONAL;
                }
                self.load(load, &at_least)
            }
            Node::Local { stage, indices } => array(self.names.stages[*stage].clone(), indices),
            Node::Previous { stage, indices } => {
                array(format!("prev({})", self.names.stages[*stage]), indices)
            }
            Node::Last { stage, indices } => {
                array(format!("last({})", self.names.stages[*stage]), indices)
            }
            Node::Apply {
                op: kiln_scalar::ScalarOp::Cast(to),
                operands,
            } => self.cast(*to, operands, &list),
            Node::Apply {
                op: kiln_scalar::ScalarOp::Not,
                operands: only,
            } => {
                level = NOT;
                only.iter()
                    .map(|&operand| format!("not {}", at_least(operand, NOT)))
                    .collect()
            }
            Node::Apply { op, operands } => {
                let dtype = operands
                    .first()
                    .map_or(DType::I64, |&operand| self.kernel.dtype(operand));
                match (infix(*op, dtype), operands.as_slice()) {
                    (Some((mark, own)), &[left, right]) => {
                        level = own;
                        // Comparisons do not chain; the others associate to the left.
                        let left_level = if own == super::words::COMPARE {
                            own + 1
                        } else {
                            own
                        };
                        format!(
                            "{} {mark} {}",
                            at_least(left, left_level),
                            at_least(right, own + 1)
                        )
                    }
                    _ => format!("{}({})", op.name(), list(operands)),
                }
            }
            Node::Call {
                function,
                parameters,
                operands,
            } => {
                let mut text = format!("{function}({}", list(operands));
                for (parameter, value) in function.parameters().iter().zip(parameters) {
                    put!(text, ", {}={}", parameter.name, ScalarValue::F64(*value));
                }
                text + ")"
            }
        };
        Text { text, level, depth }
    }

    fn load(&self, load: &Load, at_least: &dyn Fn(NodeId, Level) -> String) -> String {
        let indices: Vec<String> = load
            .indices
            .iter()
            .map(|&index| at_least(index, CONDITIONAL))
            .collect();
        let mut text = format!(
            "%{}[{}]",
            self.names.buffers[load.buffer],
            indices.join(", ")
        );
        if let Some(guard) = &load.guard {
            text.push_str(match (guard.inside, guard.when) {
                (true, Some(_)) => " if inside and ",
                (true, None) => " if inside",
                // The text reads as a condition that is always true.
                (false, None) => " if true",
                (false, Some(_)) => " if ",
            });
            if let Some(when) = guard.when {
                text.push_str(&at_least(
                    when,
                    if guard.inside { AND } else { super::words::OR },
                ));
            }
            put!(text, " else {}", at_least(guard.otherwise, CONDITIONAL));
        }
        text
    }

    /// A lone number in parentheses is a literal of that dtype, so a cast of a number needs two pairs of parentheses.
    fn cast(&self, to: DType, operands: &[NodeId], list: &dyn Fn(&[NodeId]) -> String) -> String {
        let is_number = |&operand: &NodeId| {
            matches!(
                self.kernel.node(operand),
                Node::Literal(ScalarValue::I64(_) | ScalarValue::F32(_))
            )
        };
        let operand = list(operands);
        if operands.first().is_some_and(is_number) {
            format!("{to}(({operand}))")
        } else {
            format!("{to}({operand})")
        }
    }
}

/// `i64`, `f32` and `bool` literals are plain; others state their dtype.
fn literal(value: ScalarValue) -> String {
    match value {
        ScalarValue::I64(_) | ScalarValue::F32(_) | ScalarValue::Bool(_) => value.to_string(),
        other => format!("{}({other})", other.dtype()),
    }
}

/// The nodes of an expression, operands first and left to right, and the number of uses of each.
fn reachable(kernel: &Kernel, root: NodeId) -> (Vec<NodeId>, HashMap<NodeId, usize>) {
    let mut order = Vec::new();
    let mut uses: HashMap<NodeId, usize> = HashMap::new();
    let mut pending = vec![(root, false)];
    while let Some((node, is_complete)) = pending.pop() {
        if is_complete {
            order.push(node);
            continue;
        }
        let uses = uses.entry(node).or_insert(0);
        *uses += 1;
        if *uses > 1 {
            continue;
        }
        pending.push((node, true));
        let first = pending.len();
        kernel
            .node(node)
            .for_each_operand(&mut |operand| pending.push((operand, false)));
        if let Some(operands) = pending.get_mut(first..) {
            operands.reverse();
        }
    }
    (order, uses)
}
