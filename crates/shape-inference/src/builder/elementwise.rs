//! Element-wise ops: any scalar function by name, and the common ones as methods.

use super::GraphBuilder;
use crate::error::{InferError, InferErrorKind};
use crate::number::Number;
use kiln_ir::{Op, ValueId};
use kiln_scalar::Function;
use kiln_tensor::{DType, Tensor};
use smallvec::SmallVec;

/// Declares a method per scalar function.
macro_rules! functions {
    ($($(#[$meta:meta])* $method:ident($($operand:ident),+) = $name:literal;)+) => {
        impl GraphBuilder {
            $(
                $(#[$meta])*
                ///
                /// # Errors
                /// When the operands do not broadcast, or their dtypes do not fit.
                pub fn $method(&mut self, $($operand: ValueId),+) -> Result<ValueId, InferError> {
                    self.map($name, &[$($operand),+])
                }
            )+
        }
    };
}

functions! {
    /// `a + b`.
    add(a, b) = "add";
    /// `a - b`.
    sub(a, b) = "sub";
    /// `a * b`.
    mul(a, b) = "mul";
    /// `a / b`, truncated for integers.
    div(a, b) = "div";
    /// `a` to the power of `b`.
    pow(a, b) = "pow";
    /// The minimum, element by element.
    min(a, b) = "min";
    /// The maximum, element by element.
    max(a, b) = "max";
    /// `-x`.
    neg(x) = "neg";
    /// The absolute value.
    abs(x) = "abs";
    /// `e` to the `x`.
    exp(x) = "exp";
    /// The natural logarithm.
    log(x) = "log";
    /// The square root.
    sqrt(x) = "sqrt";
    /// One over the square root.
    rsqrt(x) = "rsqrt";
    /// `x * x`.
    square(x) = "square";
    /// The hyperbolic tangent.
    tanh(x) = "tanh";
    /// The logistic function.
    sigmoid(x) = "sigmoid";
    /// `max(x, 0)`.
    relu(x) = "relu";
    /// The error function.
    erf(x) = "erf";
    /// Rounds down.
    floor(x) = "floor";
    /// Rounds up.
    ceil(x) = "ceil";
    /// Whether equal.
    equal(a, b) = "eq";
    /// Whether `a < b`.
    less(a, b) = "lt";
    /// Whether `a > b`.
    greater(a, b) = "gt";
    /// Whether both.
    and(a, b) = "and";
    /// Whether either.
    or(a, b) = "or";
    /// Whether not.
    not(x) = "not";
    /// `a` where the condition is true, otherwise `b`.
    select(condition, a, b) = "select";
}

impl GraphBuilder {
    /// A scalar function by name, with its default parameters: `builder.map("gelu", &[x])`.
    ///
    /// # Errors
    /// When there is no such function, the operands do not broadcast, or their dtypes do not fit.
    pub fn map(&mut self, name: &str, operands: &[ValueId]) -> Result<ValueId, InferError> {
        let function = self.function(name)?;
        self.op1(Op::map(function), operands)
    }

    /// A scalar function by name, with its parameters in order.
    ///
    /// # Errors
    /// As [`map`](Self::map), and when the number of parameters is wrong.
    pub fn map_with(
        &mut self,
        name: &str,
        parameters: &[f64],
        operands: &[ValueId],
    ) -> Result<ValueId, InferError> {
        let function = self.function(name)?;
        let parameters: SmallVec<[f64; 2]> = parameters.iter().copied().collect();
        self.op1(
            Op::Map {
                function,
                parameters,
            },
            operands,
        )
    }

    /// Casts every element to a dtype; returns the operand itself if it already has the dtype.
    ///
    /// # Errors
    /// When the operand is not a tensor.
    pub fn cast(&mut self, x: ValueId, to: DType) -> Result<ValueId, InferError> {
        if self.dtype(x)? == to {
            return Ok(x);
        }
        self.op1(Op::Cast { to }, &[x])
    }

    /// A scalar constant of `dtype` from a number that it can represent: integers without a fraction and in range, a bool 0
    /// or 1, floats after rounding.
    ///
    /// # Errors
    /// E0804 for any other number.
    pub fn scalar(&mut self, dtype: DType, value: f64) -> Result<ValueId, InferError> {
        let number = Number::Float(value);
        let tensor = number.tensor(dtype);
        let tensor =
            tensor.ok_or_else(|| self.mistake(InferErrorKind::Number { dtype, number }))?;
        self.constant(tensor)
    }

    /// A scalar constant of `dtype` nearest to a number: integers truncate it and saturate, a bool is whether it is
    /// nonzero, floats overflow to infinity. For importers of formats that define it so.
    ///
    /// # Errors
    /// When the dtype has no scalars.
    pub fn scalar_nearest(&mut self, dtype: DType, value: f64) -> Result<ValueId, InferError> {
        let tensor = match dtype {
            DType::F64 => Tensor::scalar(value),
            DType::F32 => Tensor::scalar(value as f32),
            DType::F16 => Tensor::scalar(half::f16::from_f64(value)),
            DType::BF16 => Tensor::scalar(half::bf16::from_f64(value)),
            DType::I64 => Tensor::scalar(value as i64),
            DType::I32 => Tensor::scalar(value as i32),
            DType::I16 => Tensor::scalar(value as i16),
            DType::I8 => Tensor::scalar(value as i8),
            DType::U64 => Tensor::scalar(value as u64),
            DType::U32 => Tensor::scalar(value as u32),
            DType::U16 => Tensor::scalar(value as u16),
            DType::U8 => Tensor::scalar(value as u8),
            DType::Bool => Tensor::scalar(value != 0.0),
            other => {
                return Err(self.mistake(InferErrorKind::Operand {
                    index: 0,
                    expected: "a dtype with scalars".to_owned(),
                    found: other.to_string(),
                }));
            }
        };
        self.constant(tensor)
    }

    fn function(&self, name: &str) -> Result<Function, InferError> {
        Function::by_name(name).ok_or_else(|| {
            let (expected, found) = (
                "the name of a scalar function".to_owned(),
                name.escape_debug().to_string(),
            );
            self.mistake(InferErrorKind::Attribute {
                name: "function",
                expected,
                found,
            })
        })
    }
}
