//! Vector math: elementary functions of floats, for any number of lanes, without a library.
//!
//! Each function takes f32 or f64, treats special values as `kiln_scalar`'s table defines, and is within its budget of
//! [`BUDGETS`] for every argument. Functions are branch-free except for rare loops (huge arguments of the trigonometric
//! functions, remainders of operands of very different size). Coefficients come from `tools/minimax.py`.

mod common;
mod error_function;
mod exponential;
mod hyperbolic;
mod inverse_trigonometric;
mod logarithm;
mod power;
mod remainder;
mod trigonometric;

use kiln_scalar::ScalarOp;

use crate::emit::{Emitter, Value};

pub(crate) use exponential::exp_of_non_positive;
pub(crate) use inverse_trigonometric::atan2;
pub(crate) use power::pow;
pub(crate) use remainder::{floor_remainder, remainder};

/// The maximum error of a function.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Budget {
    /// The function.
    pub op: ScalarOp,
    /// In units in the last place of an f32 result.
    pub f32: f64,
    /// In units in the last place of an f64 result.
    pub f64: f64,
}

const fn budget(op: ScalarOp, f32: f64, f64: f64) -> Budget {
    Budget { op, f32, f64 }
}

/// The budget of every function; functions not listed are exact. Those of f64 allow for the last digit of the reference.
pub const BUDGETS: &[Budget] = &[
    budget(ScalarOp::Exp, 1.5, 2.0),
    budget(ScalarOp::Exp2, 1.0, 2.0),
    budget(ScalarOp::Expm1, 2.0, 3.0),
    budget(ScalarOp::Sigmoid, 3.0, 3.0),
    budget(ScalarOp::Log, 1.5, 2.0),
    budget(ScalarOp::Log2, 1.0, 3.0),
    budget(ScalarOp::Log1p, 1.5, 3.0),
    budget(ScalarOp::Pow, 1.0, 2.0),
    budget(ScalarOp::Rsqrt, 1.5, 1.5),
    budget(ScalarOp::Sin, 2.0, 2.0),
    budget(ScalarOp::Cos, 2.0, 2.0),
    budget(ScalarOp::Tan, 1.0, 4.0),
    budget(ScalarOp::Asin, 1.0, 3.0),
    budget(ScalarOp::Acos, 1.0, 2.0),
    budget(ScalarOp::Atan, 1.0, 2.0),
    budget(ScalarOp::Atan2, 1.0, 3.0),
    budget(ScalarOp::Sinh, 1.0, 3.0),
    budget(ScalarOp::Cosh, 1.0, 3.0),
    budget(ScalarOp::Tanh, 3.0, 4.0),
    budget(ScalarOp::Asinh, 1.0, 4.0),
    budget(ScalarOp::Acosh, 1.0, 4.0),
    budget(ScalarOp::Atanh, 1.0, 4.0),
    budget(ScalarOp::Erf, 3.0, 3.0),
];

/// Emits a function of one float; `None` for any other operation.
pub(crate) fn function<'ctx>(
    e: &Emitter<'_, 'ctx>,
    op: ScalarOp,
    x: Value<'ctx>,
) -> Option<Value<'ctx>> {
    Some(match op {
        ScalarOp::Rsqrt => power::rsqrt(e, x),
        ScalarOp::Exp => exponential::exp(e, x),
        ScalarOp::Exp2 => exponential::exp2(e, x),
        ScalarOp::Expm1 => exponential::expm1(e, x),
        ScalarOp::Sigmoid => exponential::sigmoid(e, x),
        ScalarOp::Log => logarithm::log(e, x),
        ScalarOp::Log2 => logarithm::log2(e, x),
        ScalarOp::Log1p => logarithm::log1p(e, x),
        ScalarOp::Sin => trigonometric::sin(e, x),
        ScalarOp::Cos => trigonometric::cos(e, x),
        ScalarOp::Tan => trigonometric::tan(e, x),
        ScalarOp::Asin => inverse_trigonometric::asin(e, x),
        ScalarOp::Acos => inverse_trigonometric::acos(e, x),
        ScalarOp::Atan => inverse_trigonometric::atan(e, x),
        ScalarOp::Sinh => hyperbolic::sinh(e, x),
        ScalarOp::Cosh => hyperbolic::cosh(e, x),
        ScalarOp::Tanh => hyperbolic::tanh(e, x),
        ScalarOp::Asinh => hyperbolic::asinh(e, x),
        ScalarOp::Acosh => hyperbolic::acosh(e, x),
        ScalarOp::Atanh => hyperbolic::atanh(e, x),
        ScalarOp::Erf => error_function::erf(e, x),
        _ => return None,
    })
}

#[cfg(test)]
mod tests;
