//! The value of a scalar expression at the current point.

use std::collections::BTreeSet;
use std::rc::Rc;

use kiln_scalar::{Mode, ScalarValue, evaluate_op};
use smallvec::SmallVec;

use super::{EvaluateError, Evaluator};
use crate::analysis::expression_nodes;
use crate::form::{AxisId, Load, Node, NodeId, Nodes};

impl Evaluator<'_> {
    /// The value of an expression.
    pub(super) fn value(&mut self, root: NodeId) -> Result<ScalarValue, EvaluateError> {
        let order = match &self.orders[root] {
            Some(order) => Rc::clone(order),
            None => {
                let order = self.ordered(root).into();
                Rc::clone(self.orders[root].insert(order))
            }
        };
        self.nodes(&order, root)
    }

    /// The value of an expression whose value is known at another point, if only `moved` has changed since.
    pub(super) fn value_after(
        &mut self,
        root: NodeId,
        moved: Option<AxisId>,
    ) -> Result<ScalarValue, EvaluateError> {
        let Some(axis) = moved else {
            return self.value(root);
        };
        let varying = match self.varying.get(&(root, axis)) {
            Some(varying) => Rc::clone(varying),
            None => {
                let varying = self.varying(root, axis);
                self.varying.insert((root, axis), Rc::clone(&varying));
                varying
            }
        };
        self.nodes(&varying, root)
    }

    /// The nodes of an expression, operands first.
    fn ordered(&self, root: NodeId) -> Vec<NodeId> {
        let mut nodes = expression_nodes(self.kernel, &[root]);
        // Ids ascend from operands to users.
        nodes.sort_unstable();
        nodes
    }

    /// The nodes of an expression that depend on the position of an axis, operands first.
    fn varying(&self, root: NodeId, axis: AxisId) -> Rc<[NodeId]> {
        let mut varying = BTreeSet::new();
        for node in self.ordered(root) {
            let data = self.kernel.node(node);
            let mut varies = *data == Node::Axis(axis);
            data.for_each_operand(&mut |operand| varies |= varying.contains(&operand));
            if varies {
                varying.insert(node);
            }
        }
        varying.into_iter().collect()
    }

    /// Computes nodes in order; the value of `root`.
    fn nodes(&mut self, order: &[NodeId], root: NodeId) -> Result<ScalarValue, EvaluateError> {
        for &node in order {
            let value = self.node(node)?;
            self.values[node] = Some(value);
        }
        self.known(root)
    }

    /// The value of an integer expression.
    pub(super) fn integer(&mut self, root: NodeId) -> Result<i64, EvaluateError> {
        self.value(root).and_then(as_integer)
    }

    fn known(&self, node: NodeId) -> Result<ScalarValue, EvaluateError> {
        match self.values[node] {
            Some(value) => Ok(value),
            None => Err(EvaluateError::unverified("a node before its operands")),
        }
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

    fn operands(&self, operands: &Nodes) -> Result<SmallVec<[ScalarValue; 3]>, EvaluateError> {
        let mut values = SmallVec::new();
        for &operand in operands {
            values.push(self.known(operand)?);
        }
        Ok(values)
    }

    fn indices(&self, indices: &Nodes) -> Result<SmallVec<[i64; 4]>, EvaluateError> {
        let mut values = SmallVec::new();
        for &index in indices {
            values.push(as_integer(self.known(index)?)?);
        }
        Ok(values)
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
