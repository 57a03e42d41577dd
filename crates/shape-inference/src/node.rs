//! An op as seen by a rule: the op, its operands, and its origin.
//!
//! A node may be in a graph already or about to be added; its results are not part of it.

use crate::error::{InferError, InferErrorKind};
use kiln_ir::{Op, OpData, RegionId, ValueId};
use kiln_symbolic_shape::{DimError, SymbolId};
use kiln_tensor::TensorError;

/// An op with its operands, regions and symbols.
#[derive(Clone, Debug)]
pub struct OpView<'a> {
    /// The operation and its attributes.
    pub op: &'a Op,
    /// Its operands.
    pub operands: &'a [ValueId],
    /// The regions of control ops.
    pub regions: &'a [RegionId],
    /// The symbols it binds.
    pub symbols: &'a [SymbolId],
    /// The path of the source node, for messages.
    pub origin: Option<&'a str>,
    /// Its first result, or the one it is about to get: the name in messages if there is no origin.
    pub result: Option<ValueId>,
}

impl<'a> OpView<'a> {
    /// The node of an op of a graph.
    pub fn of_op(data: &'a OpData) -> Self {
        Self {
            op: &data.op,
            operands: &data.operands,
            regions: &data.regions,
            symbols: &data.symbols,
            origin: data.origin.as_deref(),
            result: data.results.first().copied(),
        }
    }

    /// The op's name in messages, such as `matmul (encoder/MatMul_3)`; safe to print.
    pub fn label(&self) -> String {
        let mnemonic = match self.op {
            Op::Custom { name, .. } => format!("custom {name:?}"),
            op => op.mnemonic().to_owned(),
        };
        match (self.origin, self.result) {
            (Some(origin), _) => format!("{mnemonic} ({})", origin.escape_debug()),
            (None, Some(result)) => format!("{mnemonic} ({result})"),
            (None, None) => mnemonic,
        }
    }

    /// An error about this op.
    pub fn error(&self, kind: InferErrorKind) -> InferError {
        InferError::new(self.label(), kind)
    }

    /// An error about an attribute of this op.
    pub fn attribute_error(
        &self,
        name: &'static str,
        expected: impl Into<String>,
        found: impl ToString,
    ) -> InferError {
        let (expected, found) = (expected.into(), found.to_string());
        self.error(InferErrorKind::Attribute {
            name,
            expected,
            found,
        })
    }

    /// Attaches this op's place to an error of computing sizes.
    pub fn size<T>(&self, result: Result<T, DimError>) -> Result<T, InferError> {
        result.map_err(|cause| self.error(InferErrorKind::Size(cause)))
    }

    /// Attaches this op's place to an error of making a tensor.
    pub fn tensor<T>(&self, result: Result<T, TensorError>) -> Result<T, InferError> {
        result.map_err(|cause| self.error(InferErrorKind::Tensor(cause)))
    }

    /// Operand `index`.
    ///
    /// # Errors
    /// When the op has fewer operands.
    pub fn operand(&self, index: usize) -> Result<ValueId, InferError> {
        self.operands.get(index).copied().ok_or_else(|| {
            self.error(InferErrorKind::Operand {
                index,
                expected: "an operand".to_owned(),
                found: format!("{} operands", self.operands.len()),
            })
        })
    }

    /// Checks the number of operands.
    ///
    /// # Errors
    /// When it is not `expected`.
    pub fn expect_operands(&self, expected: usize) -> Result<(), InferError> {
        let found = self.operands.len();
        if found == expected {
            return Ok(());
        }
        Err(self.error(InferErrorKind::Operand {
            index: found.min(expected),
            expected: format!("{expected} operands"),
            found: format!("{found}"),
        }))
    }

    /// Checks that an axis attribute is below `rank`.
    ///
    /// # Errors
    /// When it is not.
    pub fn expect_axis(
        &self,
        name: &'static str,
        axis: usize,
        rank: usize,
    ) -> Result<(), InferError> {
        if axis < rank {
            return Ok(());
        }
        Err(self.attribute_error(name, format!("an axis below the rank, {rank}"), axis))
    }

    /// Checks the length of a list attribute.
    ///
    /// # Errors
    /// When it is not `expected`.
    pub fn expect_length(
        &self,
        name: &'static str,
        found: usize,
        expected: usize,
    ) -> Result<(), InferError> {
        if found == expected {
            return Ok(());
        }
        Err(self.attribute_error(name, format!("{expected} entries"), found))
    }
}
