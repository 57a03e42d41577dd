//! Queries about values: types, sizes, axes, and their display in messages.

use super::GraphBuilder;
use crate::error::{InferError, InferErrorKind};
use kiln_ir::{Dims, TensorType, Type, ValueId};
use kiln_tensor::DType;

impl GraphBuilder {
    /// The type of a value.
    pub fn ty(&self, value: ValueId) -> &Type {
        self.graph.ty(value)
    }

    /// The tensor type of a value.
    ///
    /// # Errors
    /// When it is a sequence or an optional.
    pub fn tensor(&self, value: ValueId) -> Result<TensorType, InferError> {
        match self.graph.tensor_ty(value) {
            Some(ty) => Ok(ty.clone()),
            None => Err(self.mistake(InferErrorKind::Operand {
                index: 0,
                expected: "a tensor".to_owned(),
                found: self.describe(value),
            })),
        }
    }

    /// The sizes of a tensor.
    ///
    /// # Errors
    /// As [`tensor`](Self::tensor).
    pub fn shape(&self, value: ValueId) -> Result<Dims, InferError> {
        self.tensor(value).map(|ty| ty.dims)
    }

    /// The element type of a tensor.
    ///
    /// # Errors
    /// As [`tensor`](Self::tensor).
    pub fn dtype(&self, value: ValueId) -> Result<DType, InferError> {
        self.tensor(value).map(|ty| ty.dtype)
    }

    /// The number of axes of a tensor.
    ///
    /// # Errors
    /// As [`tensor`](Self::tensor).
    pub fn rank(&self, value: ValueId) -> Result<usize, InferError> {
        self.tensor(value).map(|ty| ty.rank())
    }

    /// Converts an axis that may count from the end to one that counts from the start.
    ///
    /// # Errors
    /// When it is not in `[-rank, rank)`.
    pub fn axis(&self, value: ValueId, axis: i64) -> Result<usize, InferError> {
        let rank = self.rank(value)?;
        self.axis_of_rank(axis, rank)
    }

    /// As [`axis`](Self::axis), for a rank.
    ///
    /// # Errors
    /// When it is not in `[-rank, rank)`.
    pub fn axis_of_rank(&self, axis: i64, rank: usize) -> Result<usize, InferError> {
        let from_start = if axis < 0 {
            i64::try_from(rank)
                .ok()
                .and_then(|rank| axis.checked_add(rank))
        } else {
            Some(axis)
        };
        from_start
            .and_then(|axis| usize::try_from(axis).ok())
            .filter(|&axis| axis < rank)
            .ok_or_else(|| {
                let expected = format!("an axis in [-{rank}, {rank})");
                self.mistake(InferErrorKind::Attribute {
                    name: "axis",
                    expected,
                    found: axis.to_string(),
                })
            })
    }

    /// A value with its type, as shown in messages.
    pub fn describe(&self, value: ValueId) -> String {
        let ty = self.graph.ty(value).display(self.dims());
        match self.graph.value(value).name.as_deref() {
            Some(name) => format!("%{}: {ty}", name.escape_debug()),
            None => format!("{value}: {ty}"),
        }
    }
}
