//! A rule's view: the op, the ops of its operands, proofs, and new ops.
//!
//! Invariant: ops a rule emits come before the current op; a rule that then returns `None` has only created dead ops.

use super::Rewrite;
use crate::constants::{Splat, splat};
use crate::sizes::elements;
use kiln_interpreter::constant_value;
use kiln_ir::{
    Constant, Definition, Dims, Graph, NewOp, Op, OpData, RegionId, TensorType, Type, ValueId,
};
use kiln_symbolic_shape::{DimId, DimTable, Predicate, Proof};
use kiln_tensor::{DType, Tensor};
use std::sync::Arc;

/// An op that is about to be appended to the new graph.
pub(crate) struct Site<'a> {
    graph: &'a mut Graph,
    region: RegionId,
    op: &'a Op,
    operands: &'a [ValueId],
    ty: &'a TensorType,
    origin: Option<&'a Arc<str>>,
}

impl<'a> Site<'a> {
    pub(crate) fn new(
        graph: &'a mut Graph,
        region: RegionId,
        op: &'a Op,
        operands: &'a [ValueId],
        ty: &'a TensorType,
        origin: Option<&'a Arc<str>>,
    ) -> Self {
        Self {
            graph,
            region,
            op,
            operands,
            ty,
            origin,
        }
    }

    /// The op.
    pub(crate) fn op(&self) -> &'a Op {
        self.op
    }

    /// Its operands, in the new graph.
    pub(crate) fn operands(&self) -> &'a [ValueId] {
        self.operands
    }

    /// The type of its result.
    pub(crate) fn ty(&self) -> &'a TensorType {
        self.ty
    }

    /// The only operand.
    pub(crate) fn operand(&self) -> Option<ValueId> {
        match self.operands {
            &[only] => Some(only),
            _ => None,
        }
    }

    /// The sizes of the new graph.
    pub(crate) fn dims(&self) -> &DimTable {
        self.graph.dims()
    }

    /// The sizes of the new graph, mutable.
    pub(crate) fn dims_mut(&mut self) -> &mut DimTable {
        self.graph.dims_mut()
    }

    /// The tensor type of a value.
    pub(crate) fn tensor(&self, value: ValueId) -> Option<&TensorType> {
        self.graph.tensor_ty(value)
    }

    /// The op that computes a value.
    pub(crate) fn definition(&self, value: ValueId) -> Option<&OpData> {
        match self.graph.value(value).definition {
            Definition::Result { op, .. } => Some(self.graph.op(op)),
            Definition::Parameter { .. } => None,
        }
    }

    /// The operand of the unary op that computes a value, with that op.
    pub(crate) fn through(&self, value: ValueId) -> Option<(&Op, ValueId)> {
        let data = self.definition(value)?;
        match data.operands.as_slice() {
            &[operand] => Some((&data.op, operand)),
            _ => None,
        }
    }

    /// The name of the scalar function that computes a value, with its operands.
    pub(crate) fn map_behind(&self, value: ValueId) -> Option<(&'static str, &[ValueId])> {
        let data = self.definition(value)?;
        match &data.op {
            Op::Map { function, .. } => Some((function.name(), &data.operands)),
            _ => None,
        }
    }

    /// The constant that defines a value.
    pub(crate) fn constant(&self, value: ValueId) -> Option<&Constant> {
        constant_of(self.graph, value)
    }

    /// The tensor that a value equals in every call, if it follows from constants through a few ops.
    pub(crate) fn constant_value(&self, value: ValueId) -> Option<Tensor> {
        constant_value(self.graph, value)
    }

    /// The element that fills a value, if it is a constant, or a broadcast constant, of one element.
    pub(crate) fn splat(&self, value: ValueId) -> Option<Splat> {
        let source = match self.through(value) {
            Some((Op::Broadcast { .. } | Op::Reshape { .. }, source)) => source,
            _ => value,
        };
        splat(&self.constant(source)?.tensor())
    }

    /// Whether two sizes are proved equal.
    pub(crate) fn equal(&self, left: DimId, right: DimId) -> bool {
        left == right || self.dims().equal(left, right) == Proof::Proved
    }

    /// Whether two lists of sizes are proved equal, size by size.
    pub(crate) fn equal_dims(&self, left: &[DimId], right: &[DimId]) -> bool {
        left.len() == right.len()
            && left
                .iter()
                .zip(right)
                .all(|(&left, &right)| self.equal(left, right))
    }

    /// Whether the size is the constant `value`.
    pub(crate) fn is(&self, dim: DimId, value: i64) -> bool {
        self.dims().as_constant(dim) == Some(value)
    }

    /// Whether a predicate is proved.
    pub(crate) fn proved(&self, predicate: &Predicate) -> bool {
        self.dims().prove(predicate) == Proof::Proved
    }

    /// The value, if it is proved to have the result's type.
    pub(crate) fn like_result(&self, value: ValueId) -> Option<ValueId> {
        let ty = self.tensor(value)?;
        (ty.dtype == self.ty.dtype && self.equal_dims(&ty.dims, &self.ty.dims)).then_some(value)
    }

    /// The result as this value, or as a broadcast of it, if its sizes are proved to fit.
    pub(crate) fn as_result(&self, value: ValueId) -> Option<Rewrite> {
        if let Some(value) = self.like_result(value) {
            return Some(Rewrite::Value(value));
        }
        let ty = self.tensor(value)?;
        let (from, to) = (&ty.dims, &self.ty.dims);
        let fits = ty.dtype == self.ty.dtype
            && from.len() <= to.len()
            && from
                .iter()
                .rev()
                .zip(to.iter().rev())
                .all(|(&from, &to)| self.is(from, 1) || self.equal(from, to));
        fits.then(|| Rewrite::op(Op::Broadcast { dims: to.clone() }, [value]))
    }

    /// The elements of a value, if they are sizes or integer constants.
    pub(crate) fn elements(&mut self, value: ValueId) -> Option<Vec<DimId>> {
        elements(self.graph, value)
    }

    /// Whether operands of an element-wise op are proved to give the result's sizes.
    pub(crate) fn broadcasts_to_result(&mut self, operands: &[ValueId]) -> bool {
        let all: Option<Vec<Dims>> = operands.iter().map(|&value| self.dims_of(value)).collect();
        all.is_some_and(|all| self.dims_broadcast_to_result(&all))
    }

    /// As [`Self::broadcasts_to_result`], for operands of these sizes.
    pub(crate) fn dims_broadcast_to_result(&mut self, all: &[Dims]) -> bool {
        let rank = all.iter().map(|dims| dims.len()).max().unwrap_or(0);
        let result = self.ty.dims.clone();
        rank == result.len()
            && result.iter().rev().enumerate().all(|(from_end, &dim)| {
                let sizes = all
                    .iter()
                    .filter_map(|dims| dims.iter().rev().nth(from_end).copied());
                self.axis_broadcasts_to(&sizes.collect::<Vec<_>>(), dim)
            })
    }

    /// Each size is 1 or that of the result, and one is that of the result; or the result is the broadcast of the
    /// sizes, and none of them is taken as the result because it cannot be 1.
    fn axis_broadcasts_to(&mut self, sizes: &[DimId], result: DimId) -> bool {
        let is_result: Vec<bool> = sizes.iter().map(|&size| self.equal(size, result)).collect();
        let each = sizes
            .iter()
            .zip(&is_result)
            .all(|(&size, &equal)| equal || self.is(size, 1));
        if each {
            return self.is(result, 1) || is_result.contains(&true);
        }
        let dims = self.graph.dims_mut();
        !sizes.iter().any(|&size| dims.cannot_be_one(size))
            && dims
                .bcast_of(sizes)
                .is_ok_and(|joined| self.equal(joined, result))
    }

    /// Appends an op before this one.
    pub(crate) fn emit(
        &mut self,
        op: Op,
        operands: impl IntoIterator<Item = ValueId>,
        ty: TensorType,
    ) -> ValueId {
        let mut new = NewOp::new(op, operands, [Type::Tensor(ty)]);
        new.origin = self.origin.cloned();
        let id = self.graph.append(self.region, new);
        self.graph.op(id).results[0]
    }

    /// Appends a constant before this op; `None` if memory cannot be allocated.
    pub(crate) fn emit_constant(&mut self, tensor: Tensor) -> Option<ValueId> {
        let ty = constant_type(self.graph.dims_mut(), &tensor);
        let constant = Constant::new(tensor).ok()?;
        Some(self.emit(Op::Constant(constant), [], ty))
    }

    /// A tensor as an op; `None` if memory cannot be allocated.
    pub(crate) fn constant_op(&self, tensor: Tensor) -> Option<Op> {
        Some(Op::Constant(Constant::new(tensor).ok()?))
    }

    /// Sizes known to be constant, as numbers.
    pub(crate) fn constant_dims(&self, dims: &[DimId]) -> Option<Vec<i64>> {
        dims.iter()
            .map(|&dim| self.dims().as_constant(dim))
            .collect()
    }

    /// The size of an axis of a value.
    pub(crate) fn size(&self, value: ValueId, axis: usize) -> Option<DimId> {
        self.tensor(value)?.dims.get(axis).copied()
    }

    /// The dtype of a value.
    pub(crate) fn dtype(&self, value: ValueId) -> Option<DType> {
        Some(self.tensor(value)?.dtype)
    }

    /// The sizes of a value.
    pub(crate) fn dims_of(&self, value: ValueId) -> Option<Dims> {
        Some(self.tensor(value)?.dims.clone())
    }
}

/// The constant that defines a value.
pub(crate) fn constant_of(graph: &Graph, value: ValueId) -> Option<&Constant> {
    match graph.value(value).definition {
        Definition::Result { op, .. } => match &graph.op(op).op {
            Op::Constant(constant) => Some(constant),
            _ => None,
        },
        Definition::Parameter { .. } => None,
    }
}

/// The type of a constant.
pub(crate) fn constant_type(dims: &mut DimTable, tensor: &Tensor) -> TensorType {
    // A tensor's sizes fit `isize`.
    let sizes = tensor
        .shape()
        .iter()
        .map(|&size| dims.constant(i64::try_from(size).unwrap_or(i64::MAX)));
    TensorType::new(tensor.dtype(), sizes)
}
