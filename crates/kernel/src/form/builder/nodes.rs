//! Nodes that compute: literals, sizes, indices, operations, calls and conversions.

use kiln_scalar::{Function, ScalarOp, ScalarValue};
use kiln_symbolic_shape::DimId;
use kiln_tensor::DType;

use super::KernelBuilder;
use crate::error::KernelError;
use crate::form::ids::{AxisId, NodeId};
use crate::form::node::{Node, Nodes};

impl KernelBuilder {
    /// A literal.
    pub fn literal(&mut self, value: ScalarValue) -> NodeId {
        self.push(Node::Literal(value), value.dtype())
    }

    /// An `i64` literal.
    pub fn integer(&mut self, value: i64) -> NodeId {
        self.literal(ScalarValue::I64(value))
    }

    /// A number in a dtype; an error if an integer dtype cannot represent it.
    pub fn number(&mut self, value: f64, dtype: DType) -> NodeId {
        match ScalarValue::from_number(value, dtype) {
            Some(value) => self.literal(value),
            None => {
                self.fail(KernelError::Literal { value, dtype });
                self.integer(0)
            }
        }
    }

    /// A size as a scalar.
    pub fn size(&mut self, dim: DimId) -> NodeId {
        match self.kernel.dims.as_constant(dim) {
            Some(value) => self.integer(value),
            None => self.push(Node::Size(dim), DType::I64),
        }
    }

    /// The index along an axis.
    pub fn index(&mut self, axis: AxisId) -> NodeId {
        self.push(Node::Axis(axis), DType::I64)
    }

    /// A primitive operation.
    pub fn apply(&mut self, op: ScalarOp, operands: impl IntoIterator<Item = NodeId>) -> NodeId {
        let operands: Nodes = operands.into_iter().collect();
        let Some(dtypes) = self.dtypes(&operands) else {
            return self.integer(0);
        };
        match op.signature().result_type(&dtypes) {
            Some(dtype) => self.push(Node::Apply { op, operands }, dtype),
            None => {
                self.fail(KernelError::OperandTypes {
                    op: op.name(),
                    found: dtypes.to_vec(),
                });
                self.integer(0)
            }
        }
    }

    /// A named function with its parameters; omitted ones have their defaults.
    pub fn call(
        &mut self,
        function: Function,
        parameters: &[f64],
        operands: impl IntoIterator<Item = NodeId>,
    ) -> NodeId {
        if let Some(op) = function.primitive() {
            return self.apply(op, operands);
        }
        let operands: Nodes = operands.into_iter().collect();
        let Some(dtypes) = self.dtypes(&operands) else {
            return self.integer(0);
        };
        // Equal calls are one node, whether or not the defaults were given explicitly.
        let defaults = function.parameters().iter().skip(parameters.len());
        let filled = parameters
            .iter()
            .copied()
            .chain(defaults.map(|parameter| parameter.default))
            .collect();
        let typed = function
            .expression(parameters)
            .and_then(|expression| expression.result_type(&dtypes));
        match typed {
            Ok(dtype) => self.push(
                Node::Call {
                    function,
                    parameters: filled,
                    operands,
                },
                dtype,
            ),
            Err(source) => {
                self.fail(KernelError::Scalar {
                    function: function.name(),
                    source,
                });
                self.integer(0)
            }
        }
    }

    /// A conversion. Returns the node itself if it already has the dtype, and the original of a widened 16-bit float if
    /// that has it.
    pub fn cast(&mut self, node: NodeId, to: DType) -> NodeId {
        let Some(data) = self.kernel.nodes.get(node) else {
            return self.apply(ScalarOp::Cast(to), [node]);
        };
        if data.dtype == to {
            return node;
        }
        if let Node::Apply {
            op: ScalarOp::Cast(DType::F32),
            operands,
        } = &data.node
            && matches!(to, DType::F16 | DType::BF16)
            && let [narrow] = *operands.as_slice()
            && self.kernel.dtype(narrow) == to
        {
            return narrow;
        }
        self.apply(ScalarOp::Cast(to), [node])
    }

    /// Any node, for rewriting kernels: its operands are nodes of this builder.
    pub fn push_node(&mut self, node: Node) -> NodeId {
        match node {
            Node::Literal(value) => self.literal(value),
            Node::Size(dim) => self.size(dim),
            Node::Axis(axis) => self.index(axis),
            Node::Load(load) => self.push_load(load),
            Node::Local { stage, indices } => self.local(stage, indices),
            Node::Previous { stage, indices } => self.previous(stage, indices),
            Node::Last { stage, indices } => self.last(stage, indices),
            Node::Apply { op, operands } => self.apply(op, operands),
            Node::Call {
                function,
                parameters,
                operands,
            } => self.call(function, &parameters, operands),
        }
    }
}
