//! Rounding floats to integral values, with or without a dedicated instruction.
//!
//! Without one, adding and subtracting `2^(fraction bits)` rounds to nearest even, and the other directions differ from
//! that by at most one. Invariants: the sign of zero is kept; NaN, infinities and large values are unchanged.

use inkwell::FloatPredicate;

use super::{Elem, Emitter, Value, elem};

impl<'ctx> Emitter<'_, 'ctx> {
    /// The nearest integral value, ties to even.
    pub(crate) fn round_even(&self, x: Value<'ctx>) -> Value<'ctx> {
        if self.level().rounds() {
            return self.intrinsic_value("llvm.roundeven", &[x]);
        }
        self.where_fractional(x, self.nearest(x))
    }

    /// The largest integral value not above `x`.
    pub(crate) fn floor(&self, x: Value<'ctx>) -> Value<'ctx> {
        if self.level().rounds() {
            return self.intrinsic_value("llvm.floor", &[x]);
        }
        let nearest = self.nearest(x);
        let above = self.fcmp(FloatPredicate::OGT, nearest, x);
        let below = self.fsub(nearest, self.float(x, 1.0));
        self.where_fractional(x, self.select(above, below, nearest))
    }

    /// The smallest integral value not below `x`.
    pub(crate) fn ceil(&self, x: Value<'ctx>) -> Value<'ctx> {
        if self.level().rounds() {
            return self.intrinsic_value("llvm.ceil", &[x]);
        }
        let nearest = self.nearest(x);
        let below = self.fcmp(FloatPredicate::OLT, nearest, x);
        let above = self.fadd(nearest, self.float(x, 1.0));
        self.where_fractional(x, self.select(below, above, nearest))
    }

    /// The integral value towards zero.
    pub(crate) fn trunc_float(&self, x: Value<'ctx>) -> Value<'ctx> {
        if self.level().rounds() {
            return self.intrinsic_value("llvm.trunc", &[x]);
        }
        let magnitude = self.fabs(x);
        let nearest = self.nearest(magnitude);
        let above = self.fcmp(FloatPredicate::OGT, nearest, magnitude);
        let below = self.fsub(nearest, self.float(x, 1.0));
        self.where_fractional(x, self.select(above, below, nearest))
    }

    fn nearest(&self, x: Value<'ctx>) -> Value<'ctx> {
        let large = self.copysign(self.float(x, first_integral(elem(x))), x);
        self.fsub(self.fadd(x, large), large)
    }

    /// The rounded value with the sign of `x`, or `x` if it has no fraction or is NaN.
    fn where_fractional(&self, x: Value<'ctx>, rounded: Value<'ctx>) -> Value<'ctx> {
        let limit = self.float(x, first_integral(elem(x)));
        let fractional = self.fcmp(FloatPredicate::OLT, self.fabs(x), limit);
        self.select(fractional, self.copysign(rounded, x), x)
    }
}

/// From this value on, floats have no fraction.
fn first_integral(elem: Elem) -> f64 {
    match elem {
        Elem::F32 => 8_388_608.0,
        _ => 4_503_599_627_370_496.0,
    }
}
