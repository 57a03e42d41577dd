//! Appending ops whose types are known to a graph being rewritten.

use crate::error::PrecisionError;
use kiln_ir::{Constant, Dims, NewOp, Op, OpId, Rebuild, RegionId, TensorType, Type, ValueId};
use kiln_scalar::Function;
use kiln_tensor::{DType, Tensor, TensorError};

/// Appends ops of one origin to a region.
pub(crate) struct Emit<'r, 'g> {
    pub(crate) rebuild: &'r mut Rebuild<'g>,
    region: RegionId,
    like: OpId,
    name: &'r str,
}

impl<'r, 'g> Emit<'r, 'g> {
    /// Appends to `region`, with the origin of the old op `like`, whose name is `name`.
    pub(crate) fn new(
        rebuild: &'r mut Rebuild<'g>,
        region: RegionId,
        like: OpId,
        name: &'r str,
    ) -> Self {
        Self {
            rebuild,
            region,
            like,
            name,
        }
    }

    /// Appends an op with one result.
    pub(crate) fn op(&mut self, op: Op, operands: &[ValueId], ty: TensorType) -> ValueId {
        let mut new = NewOp::new(op, operands.iter().copied(), [Type::Tensor(ty)]);
        let origin = &self.rebuild.old().op(self.like).origin;
        new.origin.clone_from(origin);
        let id = self.rebuild.append(self.region, new);
        self.rebuild.new_graph().op(id).results[0]
    }

    /// The sizes of a constant.
    pub(crate) fn sizes(&mut self, sizes: &[usize]) -> Dims {
        let dims = self.rebuild.new_graph_mut().dims_mut();
        let size = |&size: &usize| dims.constant(i64::try_from(size).unwrap_or(i64::MAX));
        sizes.iter().map(size).collect()
    }

    /// A constant.
    pub(crate) fn constant(
        &mut self,
        tensor: Result<Tensor, TensorError>,
    ) -> Result<ValueId, PrecisionError> {
        let failed = |source| PrecisionError::Tensor {
            op: self.name.to_owned(),
            source,
        };
        let tensor = tensor.map_err(failed)?;
        let (dtype, shape) = (tensor.dtype(), tensor.shape().to_vec());
        let constant = Constant::new(tensor).map_err(failed)?;
        let ty = TensorType::new(dtype, self.sizes(&shape));
        Ok(self.op(Op::Constant(constant), &[], ty))
    }

    /// A scalar constant of f32.
    pub(crate) fn number(&mut self, number: f32) -> Result<ValueId, PrecisionError> {
        self.constant(Tensor::from_slice(&[], &[number]))
    }

    /// A cast.
    pub(crate) fn cast(&mut self, x: ValueId, to: DType) -> ValueId {
        let ty = TensorType {
            dtype: to,
            ..self.ty(x)
        };
        self.op(Op::Cast { to }, &[x], ty)
    }

    /// A scalar function, with a result of these sizes and the first operand's dtype.
    pub(crate) fn map(&mut self, name: &str, operands: &[ValueId], dims: Dims) -> ValueId {
        let Some(function) = Function::by_name(name) else {
            unreachable!("{name} is a row of the table of functions");
        };
        let dtype = match operands {
            [first, ..] => self.ty(*first).dtype,
            [] => unreachable!("{name} has operands"),
        };
        self.op(Op::map(function), operands, TensorType::new(dtype, dims))
    }

    /// A scalar function of operands that broadcast to the first.
    pub(crate) fn map_like(&mut self, name: &str, operands: &[ValueId]) -> ValueId {
        let dims = match operands {
            [first, ..] => self.ty(*first).dims,
            [] => unreachable!("{name} has operands"),
        };
        self.map(name, operands, dims)
    }

    /// The same elements under known sizes.
    pub(crate) fn reshape(&mut self, x: ValueId, sizes: &[usize]) -> ValueId {
        let dims = self.sizes(sizes);
        let ty = TensorType::new(self.ty(x).dtype, dims.clone());
        self.op(Op::Reshape { dims }, &[x], ty)
    }

    /// The type of a tensor of the new graph.
    pub(crate) fn ty(&self, value: ValueId) -> TensorType {
        match self.rebuild.new_graph().tensor_ty(value) {
            Some(ty) => ty.clone(),
            None => unreachable!("{value} is an operand of a tensor op"),
        }
    }
}
