//! Double-word arithmetic: numbers as unevaluated sums of two floats, for more precision than one float has.
//!
//! The algorithms are those of Dekker and Knuth, as in the Handbook of Floating-Point Arithmetic, chapter 4. Invariant:
//! `|low| <= ulp(high) / 2`, so `high` is the rounded sum.

use super::{Elem, Emitter, Value, elem};

/// `high + low`.
#[derive(Clone, Copy)]
pub(crate) struct Twofold<'ctx> {
    pub(crate) high: Value<'ctx>,
    pub(crate) low: Value<'ctx>,
}

impl<'ctx> Emitter<'_, 'ctx> {
    /// `a + b`, exactly.
    pub(crate) fn two_sum(&self, a: Value<'ctx>, b: Value<'ctx>) -> Twofold<'ctx> {
        let high = self.fadd(a, b);
        let b_part = self.fsub(high, a);
        let a_part = self.fsub(high, b_part);
        let low = self.fadd(self.fsub(a, a_part), self.fsub(b, b_part));
        Twofold { high, low }
    }

    /// `a + b`, exactly, where `|a| >= |b|` or `a` is 0.
    pub(crate) fn fast_two_sum(&self, a: Value<'ctx>, b: Value<'ctx>) -> Twofold<'ctx> {
        let high = self.fadd(a, b);
        let low = self.fsub(b, self.fsub(high, a));
        Twofold { high, low }
    }

    /// `a * b`, exactly unless the low part underflows. Without fused multiply-add, neither operand may be within a few
    /// powers of two of overflow.
    pub(crate) fn two_product(&self, a: Value<'ctx>, b: Value<'ctx>) -> Twofold<'ctx> {
        let high = self.fmul(a, b);
        if self.level().has_fma() {
            let low = self.fma(a, b, self.fneg(high));
            return Twofold { high, low };
        }
        let (a_high, a_low) = self.halves(a);
        let (b_high, b_low) = self.halves(b);
        let mut low = self.fsub(self.fmul(a_high, b_high), high);
        low = self.fadd(low, self.fmul(a_high, b_low));
        low = self.fadd(low, self.fmul(a_low, b_high));
        low = self.fadd(low, self.fmul(a_low, b_low));
        Twofold { high, low }
    }

    /// The sum of a twofold and a float, to about twice the precision of a float.
    pub(crate) fn twofold_add(&self, a: Twofold<'ctx>, b: Value<'ctx>) -> Twofold<'ctx> {
        let sum = self.two_sum(a.high, b);
        self.fast_two_sum(sum.high, self.fadd(sum.low, a.low))
    }

    /// The sum of two, to about twice the precision of a float unless it nearly cancels.
    pub(crate) fn twofold_sum(&self, a: Twofold<'ctx>, b: Twofold<'ctx>) -> Twofold<'ctx> {
        let high = self.two_sum(a.high, b.high);
        let low = self.two_sum(a.low, b.low);
        let middle = self.fast_two_sum(high.high, self.fadd(high.low, low.high));
        self.fast_two_sum(middle.high, self.fadd(middle.low, low.low))
    }

    /// The product of a twofold and a float, to about twice the precision of a float.
    pub(crate) fn twofold_scale(&self, a: Twofold<'ctx>, b: Value<'ctx>) -> Twofold<'ctx> {
        let product = self.two_product(a.high, b);
        let low = self.fma(a.low, b, product.low);
        self.fast_two_sum(product.high, low)
    }

    /// The product of two, to about twice the precision of a float.
    pub(crate) fn twofold_product(&self, a: Twofold<'ctx>, b: Twofold<'ctx>) -> Twofold<'ctx> {
        let product = self.two_product(a.high, b.high);
        let crossed = self.fma(a.high, b.low, self.fmul(a.low, b.high));
        self.fast_two_sum(product.high, self.fadd(product.low, crossed))
    }

    /// The quotient of two floats, to about twice the precision of a float.
    pub(crate) fn two_quotient(&self, a: Twofold<'ctx>, b: Twofold<'ctx>) -> Twofold<'ctx> {
        let high = self.fdiv(a.high, b.high);
        let back = self.two_product(high, b.high);
        let rest = self.fsub(self.fsub(a.high, back.high), back.low);
        let rest = self.fadd(rest, self.fnma(high, b.low, a.low));
        self.fast_two_sum(high, self.fdiv(rest, b.high))
    }

    pub(crate) fn twofold_neg(&self, a: Twofold<'ctx>) -> Twofold<'ctx> {
        Twofold {
            high: self.fneg(a.high),
            low: self.fneg(a.low),
        }
    }

    /// A constant, given as two floats that sum to it.
    pub(crate) fn twofold(&self, like: Value<'ctx>, high: f64, low: f64) -> Twofold<'ctx> {
        Twofold {
            high: self.float(like, high),
            low: self.float(like, low),
        }
    }

    /// A float as the sum of two with half as many bits each (Veltkamp).
    fn halves(&self, a: Value<'ctx>) -> (Value<'ctx>, Value<'ctx>) {
        let splitter = match elem(a) {
            Elem::F32 => 4097.0,
            _ => 134_217_729.0,
        };
        let scaled = self.fmul(self.float(a, splitter), a);
        let high = self.fsub(scaled, self.fsub(scaled, a));
        (high, self.fsub(a, high))
    }
}
