//! One product with its sizes, for which an algorithm is chosen.

use super::bias_of;
use crate::container::{FIXED_WORDS, GemmEntry, GemmEpilogue, GemmOperand};
use crate::executor::error::DeviceError;
use kiln_backend::Artifact;
use kiln_tensor::DType;

/// A product with its sizes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Problem {
    pub(super) m: u64,
    pub(super) n: u64,
    pub(super) k: u64,
    pub(super) batch: u64,
    pub(super) a: Matrix,
    pub(super) b: Matrix,
    pub(super) d: Matrix,
    /// The dtype of the operands; the result's is `d_dtype`.
    pub(super) dtype: DType,
    pub(super) d_dtype: DType,
    /// The bits of the factor.
    pub(super) scale: u32,
    pub(super) allow_tf32: bool,
    pub(super) epilogue: Activation,
    pub(super) has_bias: bool,
}

/// The layout of a matrix in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Matrix {
    pub(super) transposed: bool,
    /// The distance of rows, in elements.
    pub(super) leading: i64,
    /// The distance of matrices, in elements.
    pub(super) batch_stride: i64,
    /// The largest power of two that divides its address, at most 256.
    pub(super) alignment: u32,
}

/// The activation that an epilogue applies to the biased product.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Activation {
    Identity,
    Relu,
    GeluTanh,
}

/// The addresses of a product's operands.
#[derive(Clone, Copy, Debug)]
pub(super) struct Places {
    pub(super) a: u64,
    pub(super) b: u64,
    pub(super) d: u64,
    pub(super) bias: u64,
}

impl Problem {
    /// The product of a launch with this parameter; `None` if it has no elements.
    pub(super) fn of(
        gemm: &GemmEntry,
        words: &[u64],
        artifact: &Artifact,
    ) -> Result<Option<(Self, Places)>, DeviceError> {
        let n_buffers = artifact.buffers.len();
        let arguments = words.len().saturating_sub(FIXED_WORDS);
        let number = |position: usize| {
            let value = words.get(n_buffers + position);
            let value = value.filter(|_| n_buffers + position < arguments);
            let value = value.map(|&word| word.cast_signed());
            value.filter(|&value| value >= 0).ok_or_else(|| {
                DeviceError::mismatch(
                    "a size of a product",
                    "a number from 0 on",
                    format_args!("{value:?}"),
                )
            })
        };
        let place = |position: usize| words.get(position).copied().unwrap_or(0);
        let matrix = |operand: &GemmOperand| {
            Ok::<_, DeviceError>(Matrix {
                transposed: operand.transposed,
                leading: number(operand.leading)?.max(1),
                batch_stride: number(operand.batch_stride)?,
                alignment: 1 << place(operand.buffer).trailing_zeros().min(8),
            })
        };
        let size = |position| Ok::<_, DeviceError>(number(position)?.cast_unsigned());
        let dtype = |operand: &GemmOperand| {
            let buffer = artifact.buffers.get(operand.buffer);
            buffer.map_or(DType::F32, |buffer| buffer.dtype)
        };
        let bias = bias_of(gemm.epilogue);
        let problem = Self {
            m: size(gemm.m)?,
            n: size(gemm.n)?,
            k: size(gemm.k)?,
            batch: size(gemm.batch)?,
            a: matrix(&gemm.a)?,
            b: matrix(&gemm.b)?,
            d: matrix(&gemm.d)?,
            dtype: dtype(&gemm.a),
            d_dtype: dtype(&gemm.d),
            scale: gemm.scale,
            allow_tf32: gemm.allow_tf32,
            epilogue: match gemm.epilogue {
                GemmEpilogue::None | GemmEpilogue::Bias { .. } => Activation::Identity,
                GemmEpilogue::Relu | GemmEpilogue::BiasRelu { .. } => Activation::Relu,
                GemmEpilogue::GeluTanh | GemmEpilogue::BiasGeluTanh { .. } => Activation::GeluTanh,
            },
            has_bias: bias.is_some(),
        };
        if problem.m == 0 || problem.n == 0 || problem.batch == 0 {
            return Ok(None);
        }
        if problem.k == 0 || problem.d.transposed || dtype(&gemm.b) != problem.dtype {
            return Err(DeviceError::mismatch(
                "a product by cuBLASLt",
                "at least one addend, operands of one dtype, and a row-major result",
                format_args!("{problem:?}"),
            ));
        }
        let places = Places {
            a: place(gemm.a.buffer),
            b: place(gemm.b.buffer),
            d: place(gemm.d.buffer),
            bias: bias.map_or(0, place),
        };
        Ok(Some((problem, places)))
    }
}
