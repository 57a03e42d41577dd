//! A node as seen by its operator's importer: operands by position, attributes, and the builder.
//!
//! Errors of shape inference pass through here, so that each names the node it happened in.

use kiln_ir::{Definition, Dims, Op, TensorType, ValueId};
use kiln_shape_inference::{GraphBuilder, InferError};
use kiln_symbolic_shape::{DimError, DimId, DimTable};
use kiln_tensor::{DType, Tensor, TensorError};
use smallvec::SmallVec;

use super::graph::Frame;
use super::item::Item;
use super::names::Names;
use crate::name::printable;
use crate::{Attributes, Error, LimitKind, ModelNode, Name, NarrowType};

/// The results of an operator, in its order; trailing ones may be omitted.
pub(crate) type Outputs = SmallVec<[Item; 2]>;

/// A node being imported.
pub struct NodeContext<'a> {
    pub(super) frame: &'a Frame<'a>,
    pub(super) builder: &'a mut GraphBuilder,
    pub(super) names: &'a Names,
    pub(super) node: &'a ModelNode,
    pub(super) inputs: SmallVec<[Option<Item>; 4]>,
    pub(super) version: i64,
}

/// # The node
impl<'a> NodeContext<'a> {
    /// The node.
    pub fn node(&self) -> &'a ModelNode {
        self.node
    }

    /// The version of the node's operator set; for standard operators, of the operator itself.
    pub fn version(&self) -> i64 {
        self.version
    }

    /// The node's attributes.
    pub fn attributes(&self) -> Attributes<'a> {
        self.node.attributes()
    }

    /// The number of operands, not counting omitted trailing ones.
    pub fn n_inputs(&self) -> usize {
        self.inputs.len()
    }

    /// The operand at `index`.
    ///
    /// # Errors
    /// When the node omits it.
    pub fn input(&self, index: usize) -> Result<ValueId, Error> {
        self.optional(index)
            .ok_or_else(|| self.operand_error(index, "a value", "none"))
    }

    /// The operand at `index`, unless the node omits it.
    pub fn optional(&self, index: usize) -> Option<ValueId> {
        self.item(index)?.value()
    }

    /// The item of the operand at `index`, unless the node omits it.
    pub(crate) fn item(&self, index: usize) -> Option<&Item> {
        self.inputs.get(index)?.as_ref()
    }

    /// The narrow type of the elements of the operand at `index`.
    pub(crate) fn narrow_type(&self, index: usize) -> Option<NarrowType> {
        match self.item(index)? {
            Item::Narrow(_, narrow) => Some(*narrow),
            _ => None,
        }
    }

    /// Whether the node is in a body of control flow that may never run.
    pub fn is_nested(&self) -> bool {
        self.frame.is_nested
    }

    /// Checks a request of the node against the limit of that kind.
    pub(crate) fn check_limit(&self, kind: LimitKind, given: u64) -> Result<(), Error> {
        self.frame.limits.check(kind, given)
    }

    /// Whether the result at `index` may be read.
    pub fn wants_output(&self, index: usize) -> bool {
        self.node.output(index).is_some()
    }
}

/// # What is known about values
impl NodeContext<'_> {
    /// The tensor type of a value.
    ///
    /// # Errors
    /// When it is a sequence or an optional.
    pub fn tensor(&self, value: ValueId) -> Result<TensorType, Error> {
        self.at(self.builder.tensor(value))
    }

    /// The sizes of a tensor.
    ///
    /// # Errors
    /// As [`NodeContext::tensor`].
    pub fn shape(&self, value: ValueId) -> Result<Dims, Error> {
        Ok(self.tensor(value)?.dims)
    }

    /// The element type of a tensor.
    ///
    /// # Errors
    /// As [`NodeContext::tensor`].
    pub fn dtype(&self, value: ValueId) -> Result<DType, Error> {
        Ok(self.tensor(value)?.dtype)
    }

    /// The number of axes of a tensor.
    ///
    /// # Errors
    /// As [`NodeContext::tensor`].
    pub fn rank(&self, value: ValueId) -> Result<usize, Error> {
        Ok(self.tensor(value)?.rank())
    }

    /// The elements of a small integer tensor, if they are known at compile time and constant.
    pub fn constant_integers(&self, value: ValueId) -> Option<Vec<i64>> {
        let dims = self.builder.known_values(value)?;
        dims.iter()
            .map(|&dim| self.builder.dims().as_constant(dim))
            .collect()
    }

    /// The tensor, if the value is a constant.
    pub fn constant(&self, value: ValueId) -> Option<Tensor> {
        let graph = self.builder.graph();
        match graph.value(value).definition {
            Definition::Result { op, .. } => match &graph.op(op).op {
                Op::Constant(constant) => Some(constant.tensor()),
                _ => None,
            },
            Definition::Parameter { .. } => None,
        }
    }

    /// Converts an axis that may count from the end to one that counts from the start.
    ///
    /// # Errors
    /// When it is not in `[-rank, rank)`.
    pub fn axis(&self, axis: i64, rank: usize) -> Result<usize, Error> {
        self.at(self.builder.axis_of_rank(axis, rank))
    }
}

/// # Building
impl NodeContext<'_> {
    /// The builder, for queries.
    pub fn builder(&self) -> &GraphBuilder {
        self.builder
    }

    /// The builder, for operations without a method here.
    pub fn builder_mut(&mut self) -> &mut GraphBuilder {
        self.builder
    }

    /// Builds with the builder; its errors are placed at this node.
    ///
    /// # Errors
    /// The errors of `build`.
    pub fn build<T>(
        &mut self,
        build: impl FnOnce(&mut GraphBuilder) -> Result<T, InferError>,
    ) -> Result<T, Error> {
        let result = build(self.builder);
        self.at(result)
    }

    /// Adds a core operation with one result.
    ///
    /// # Errors
    /// When the operands do not fit it.
    pub fn op(&mut self, op: Op, operands: &[ValueId]) -> Result<ValueId, Error> {
        self.build(|builder| builder.op1(op, operands))
    }

    /// Adds an element-wise scalar function with its default parameters.
    ///
    /// # Errors
    /// When there is no function of this name, or the operands do not fit it.
    pub fn map(&mut self, function: &str, operands: &[ValueId]) -> Result<ValueId, Error> {
        self.build(|builder| builder.map(function, operands))
    }

    /// Adds an element-wise scalar function with these parameters.
    ///
    /// # Errors
    /// As [`NodeContext::map`].
    pub fn map_with(
        &mut self,
        function: &str,
        parameters: &[f64],
        operands: &[ValueId],
    ) -> Result<ValueId, Error> {
        self.build(|builder| builder.map_with(function, parameters, operands))
    }

    /// Adds a constant.
    ///
    /// # Errors
    /// When memory cannot be allocated.
    pub fn add_constant(&mut self, tensor: Tensor) -> Result<ValueId, Error> {
        self.build(|builder| builder.constant(tensor))
    }

    /// Computes sizes.
    ///
    /// # Errors
    /// When the sizes cannot be computed, placed at this node.
    pub fn sizes<T>(
        &mut self,
        compute: impl FnOnce(&mut DimTable) -> Result<T, DimError>,
    ) -> Result<T, Error> {
        compute(self.builder.dims_mut()).map_err(|source| Error::Size {
            node: self.node.path(),
            source,
        })
    }

    /// A known size.
    pub fn size(&mut self, size: i64) -> DimId {
        self.builder.size(size)
    }
}

/// # Errors, placed at the node
impl NodeContext<'_> {
    /// Places an error of shape inference.
    pub fn at<T>(&self, result: Result<T, InferError>) -> Result<T, Error> {
        result.map_err(|source| Error::Infer {
            node: self.node.path(),
            source,
        })
    }

    /// Places an error of making a tensor.
    pub(crate) fn tensor_at<T>(&self, result: Result<T, TensorError>) -> Result<T, Error> {
        result.map_err(|source| Error::Tensor {
            tensor: Name::new(format!("of {}", self.node.label())),
            source,
        })
    }

    /// An unsupported use of the node's operator.
    pub fn unsupported(&self, what: impl Into<String>) -> Error {
        Error::Unsupported {
            node: self.node.path(),
            what: printable(&what.into()),
        }
    }

    /// An operand that the operator does not accept.
    pub fn operand_error(
        &self,
        index: usize,
        expected: impl Into<String>,
        found: impl Into<String>,
    ) -> Error {
        Error::Operand {
            node: self.node.path(),
            index,
            expected: printable(&expected.into()),
            found: printable(&found.into()),
        }
    }

    /// An attribute with an invalid value.
    pub fn attribute_error(
        &self,
        attribute: &str,
        expected: impl Into<String>,
        found: impl ToString,
    ) -> Error {
        Error::AttributeValue {
            node: self.node.path(),
            attribute: Name::from(attribute),
            expected: printable(&expected.into()),
            found: printable(&found.to_string()),
        }
    }
}
