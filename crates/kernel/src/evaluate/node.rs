//! The value of a scalar expression at the current point.

use std::rc::Rc;

use kiln_scalar::{Mode, ScalarValue, evaluate_op};

use super::{EvaluateError, Evaluator};
use crate::form::{Load, Node, NodeId, Nodes};

impl Evaluator<'_> {
    /// The value of an expression.
    pub(super) fn value(&mut self, root: NodeId) -> Result<ScalarValue, EvaluateError> {
        for &node in self.order(root).iter() {
            let value = self.node(node)?;
            self.values[node] = Some(value);
        }
        self.known(root)
    }

    /// The value of an integer expression.
    pub(super) fn integer(&mut self, root: NodeId) -> Result<i64, EvaluateError> {
        self.value(root).and_then(as_integer)
    }

    /// The nodes of an expression, operands first.
    fn order(&mut self, root: NodeId) -> Rc<[NodeId]> {
        if let Some(order) = self.orders.get(&root) {
            return Rc::clone(order);
        }
        // Ids ascend from operands to users.
        let mut found = std::collections::BTreeSet::new();
        let mut pending = vec![root];
        while let Some(node) = pending.pop() {
            if found.insert(node) {
                self.kernel
                    .node(node)
                    .for_each_operand(&mut |operand| pending.push(operand));
            }
        }
        let order: Rc<[NodeId]> = found.into_iter().collect();
        self.orders.insert(root, Rc::clone(&order));
        order
    }

    fn known(&self, node: NodeId) -> Result<ScalarValue, EvaluateError> {
        self.values[node].ok_or_else(|| EvaluateError::unverified("a node before its operands"))
    }

    /// The value of a node whose operands have values.
    fn node(&mut self, id: NodeId) -> Result<ScalarValue, EvaluateError> {
        let kernel = self.kernel;
        match kernel.node(id) {
            Node::Literal(value) => Ok(self.stored(*value)),
            Node::Size(dim) => Ok(ScalarValue::I64(self.size(*dim)?)),
            Node::Axis(axis) => match self.positions[*axis] {
                Some(at) => Ok(ScalarValue::I64(at)),
                None => {
                    let name = &kernel.axis(*axis).name;
                    Err(EvaluateError::unverified(format!(
                        "axis `{name}` where it does not run"
                    )))
                }
            },
            Node::Load(load) => self.load(load),
            Node::Local { stage, indices } => {
                let indices = self.indices(indices)?;
                super::items::element(&self.locals[*stage], &kernel.stage(*stage).name, &indices)
            }
            Node::Previous { stage, indices } => {
                let indices = self.indices(indices)?;
                super::items::element(&self.previous[*stage], &kernel.stage(*stage).name, &indices)
            }
            Node::Last { stage, indices } => {
                let indices = self.indices(indices)?;
                super::items::element(&self.last[*stage], &kernel.stage(*stage).name, &indices)
            }
            Node::Apply { op, operands } => {
                let operands = self.operands(operands)?;
                Ok(evaluate_op(*op, &operands, self.mode)?)
            }
            Node::Call {
                function,
                parameters,
                operands,
            } => {
                let operands = self.operands(operands)?;
                let expression = match self.functions.get(&id) {
                    Some(expression) => Rc::clone(expression),
                    None => {
                        let expression = Rc::new(function.expression(parameters)?);
                        self.functions.insert(id, Rc::clone(&expression));
                        expression
                    }
                };
                Ok(kiln_scalar::evaluate(&expression, &operands, self.mode)?)
            }
        }
    }

    fn load(&self, load: &Load) -> Result<ScalarValue, EvaluateError> {
        let contents = &self.contents[load.buffer];
        let indices = self.indices(&load.indices)?;
        if let Some(guard) = &load.guard {
            let is_true = match guard.when {
                Some(when) => self.known(when)? == ScalarValue::Bool(true),
                None => true,
            };
            if !is_true || (guard.inside && !contents.is_inside(&indices)) {
                return self.known(guard.otherwise);
            }
        }
        contents.get(&self.kernel.buffer(load.buffer).name, &indices)
    }

    fn operands(
        &self,
        operands: &Nodes,
    ) -> Result<smallvec::SmallVec<[ScalarValue; 3]>, EvaluateError> {
        operands
            .iter()
            .map(|&operand| self.known(operand))
            .collect()
    }

    fn indices(&self, indices: &Nodes) -> Result<smallvec::SmallVec<[i64; 4]>, EvaluateError> {
        indices
            .iter()
            .map(|&index| self.known(index).and_then(as_integer))
            .collect()
    }

    /// A value in the mode's representation.
    pub(super) fn stored(&self, value: ScalarValue) -> ScalarValue {
        match self.mode {
            Mode::Promoted if value.dtype().is_float() => ScalarValue::F64(value.to_f64()),
            _ => value,
        }
    }
}

pub(super) fn as_integer(value: ScalarValue) -> Result<i64, EvaluateError> {
    match value {
        ScalarValue::I64(value) => Ok(value),
        other => Err(EvaluateError::unverified(format!(
            "an index of {}",
            other.dtype()
        ))),
    }
}
