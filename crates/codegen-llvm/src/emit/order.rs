//! Minimum and maximum of two floats, with NaN and signed zeros as `kiln_scalar` defines them.
//!
//! `llvm.minimum` is not used: LLVM 19 drops a NaN for some operand types on x86. With a constant operand this takes
//! two instructions; with AVX-512 it takes three without one.

use inkwell::FloatPredicate;

use super::{Emitter, Value};

impl<'ctx> Emitter<'_, 'ctx> {
    /// The smaller operand; NaN if either is, and -0 is less than +0.
    pub(crate) fn minimum(&self, a: Value<'ctx>, b: Value<'ctx>) -> Value<'ctx> {
        self.extreme(Side::Smaller, a, b)
    }

    /// The larger operand; NaN if either is, and +0 is greater than -0.
    pub(crate) fn maximum(&self, a: Value<'ctx>, b: Value<'ctx>) -> Value<'ctx> {
        self.extreme(Side::Larger, a, b)
    }

    fn extreme(&self, side: Side, a: Value<'ctx>, b: Value<'ctx>) -> Value<'ctx> {
        match (constant(a), constant(b)) {
            (_, Some(limit)) if !limit.is_nan() => return self.limited(side, a, b, limit),
            (Some(limit), _) if !limit.is_nan() => return self.limited(side, b, a, limit),
            _ => {}
        }
        if let Some(chosen) = self.extreme_of_numbers(side, a, b) {
            let is_nan = self.fcmp(FloatPredicate::UNO, a, b);
            // The sum is NaN if either is.
            return self.select(is_nan, self.fadd(a, b), chosen);
        }
        let beyond = self.fcmp(side.strictly(), a, b);
        let chosen = self.select(beyond, a, b);
        // Equal values differ at most in the sign of zero.
        let (a_bits, b_bits) = (self.to_bits(a), self.to_bits(b));
        let zero = match side {
            Side::Smaller => self.or(a_bits, b_bits),
            Side::Larger => self.and(a_bits, b_bits),
        };
        let equal = self.fcmp(FloatPredicate::OEQ, a, b);
        let chosen = self.select(equal, self.bits_to_float(zero), chosen);
        // If `b` is NaN, it has already been selected: no comparison with it is true.
        self.select(self.is_nan(a), a, chosen)
    }

    /// With a constant: `x` if it is beyond the limit or NaN, otherwise the constant.
    fn limited(&self, side: Side, x: Value<'ctx>, limit: Value<'ctx>, value: f64) -> Value<'ctx> {
        // Of equal zeros, the constant is correct if it is the last in order on this side.
        let constant_wins_ties = match side {
            Side::Smaller => value != 0.0 || value.is_sign_negative(),
            Side::Larger => value != 0.0 || value.is_sign_positive(),
        };
        let predicate = match (side, constant_wins_ties) {
            (Side::Smaller, true) => FloatPredicate::OGE,
            (Side::Smaller, false) => FloatPredicate::OGT,
            (Side::Larger, true) => FloatPredicate::OLE,
            (Side::Larger, false) => FloatPredicate::OLT,
        };
        self.select(self.fcmp(predicate, x, limit), limit, x)
    }
}

/// Whether the minimum or the maximum is selected.
#[derive(Clone, Copy)]
pub(super) enum Side {
    Smaller,
    Larger,
}

impl Side {
    fn strictly(self) -> FloatPredicate {
        match self {
            Side::Smaller => FloatPredicate::OLT,
            Side::Larger => FloatPredicate::OGT,
        }
    }
}

/// The value of a constant whose lanes are all equal.
fn constant(value: Value<'_>) -> Option<f64> {
    match value {
        Value::FloatValue(value) => value.get_constant().map(|(number, _)| number),
        Value::VectorValue(vector) if vector.is_constant_data_vector() => {
            let lane = |index| match vector.get_element_as_constant(index) {
                Value::FloatValue(value) => value.get_constant().map(|(number, _)| number),
                _ => None,
            };
            let first = lane(0)?;
            (1..vector.get_type().get_size())
                .all(|index| lane(index).map(f64::to_bits) == Some(first.to_bits()))
                .then_some(first)
        }
        _ => None,
    }
}
