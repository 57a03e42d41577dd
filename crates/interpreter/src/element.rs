//! The interpreter's element types: widened to an accumulator, and rounded once.
//!
//! Floats accumulate in `f64`; integers in their own type, wrapping; `bool` as "or" and "and". So an
//! op is written once, over [`Number`], and means the same for every dtype.

use crate::fault::OpFault;
use crate::interrupt::{Interrupt, PIECE};
use crate::ops::contraction::{Product, exact_product, float_product};
use kiln_scalar::ScalarValue;
use kiln_tensor::{DType, Element, bf16, f16};

/// The accumulator of a reduction or a contraction: `f64`, an integer, or `bool`.
pub(crate) trait Accumulator: Copy + PartialEq + PartialOrd + 'static {
    /// The neutral element of [`plus`](Self::plus).
    const ZERO: Self;
    /// The neutral element of [`times`](Self::times).
    const ONE: Self;
    /// The neutral element of [`larger`](Self::larger).
    const LOWEST: Self;
    /// The neutral element of [`smaller`](Self::smaller).
    const HIGHEST: Self;

    /// The sum, wrapping for integers.
    fn plus(self, other: Self) -> Self;
    /// The product, wrapping for integers.
    fn times(self, other: Self) -> Self;
    /// The quotient by a count, truncated for integers; `None` for an integer divided by 0.
    fn over(self, count: usize) -> Option<Self>;
    /// Whether this is NaN.
    fn is_nan(self) -> bool;

    /// Writes the product of two row-major matrices over `result`.
    fn product(sizes: Product, left: &[Self], right: &[Self], result: &mut [Self]) {
        exact_product(sizes, left, right, result);
    }

    /// Whether this orders before an equal number: -0 orders before +0.
    fn is_negative_zero(self) -> bool {
        false
    }

    /// The maximum, NaN if either is; +0 is greater than -0.
    fn larger(self, other: Self) -> Self {
        let keeps = self > other || (self == other && !self.is_negative_zero());
        if self.is_nan() || (!other.is_nan() && keeps) {
            self
        } else {
            other
        }
    }

    /// The minimum, NaN if either is; -0 is less than +0.
    fn smaller(self, other: Self) -> Self {
        let keeps = self < other || (self == other && !other.is_negative_zero());
        if self.is_nan() || (!other.is_nan() && keeps) {
            self
        } else {
            other
        }
    }
}

/// How two accumulators are combined.
pub(crate) type Join<A> = fn(A, A) -> A;

/// An element type for computation.
pub(crate) trait Number: Element {
    /// The type in which it is computed.
    type Wide: Accumulator;

    /// The same value, wider.
    fn to_wide(self) -> Self::Wide;
    /// The nearest element, ties to even; integers keep their low bits.
    fn narrow(wide: Self::Wide) -> Self;
    /// The element for a position along an axis.
    fn of_index(index: usize) -> Self;
}

impl Accumulator for f64 {
    const ZERO: Self = 0.0;
    const ONE: Self = 1.0;
    const LOWEST: Self = f64::NEG_INFINITY;
    const HIGHEST: Self = f64::INFINITY;

    fn plus(self, other: Self) -> Self {
        self + other
    }

    fn times(self, other: Self) -> Self {
        self * other
    }

    fn over(self, count: usize) -> Option<Self> {
        Some(self / count as f64)
    }

    fn is_nan(self) -> bool {
        f64::is_nan(self)
    }

    fn product(sizes: Product, left: &[Self], right: &[Self], result: &mut [Self]) {
        float_product(sizes, left, right, result);
    }

    fn is_negative_zero(self) -> bool {
        self == 0.0 && self.is_sign_negative()
    }
}

impl Accumulator for bool {
    const ZERO: Self = false;
    const ONE: Self = true;
    const LOWEST: Self = false;
    const HIGHEST: Self = true;

    fn plus(self, other: Self) -> Self {
        self | other
    }

    fn times(self, other: Self) -> Self {
        self & other
    }

    fn over(self, count: usize) -> Option<Self> {
        (count > 0).then_some(self)
    }

    fn is_nan(self) -> bool {
        false
    }
}

impl Number for bool {
    type Wide = bool;

    fn to_wide(self) -> bool {
        self
    }

    fn narrow(wide: bool) -> Self {
        wide
    }

    fn of_index(index: usize) -> Self {
        index != 0
    }
}

macro_rules! integers {
    ($($ty:ty),*) => {$(
        impl Accumulator for $ty {
            const ZERO: Self = 0;
            const ONE: Self = 1;
            const LOWEST: Self = <$ty>::MIN;
            const HIGHEST: Self = <$ty>::MAX;

            fn plus(self, other: Self) -> Self {
                self.wrapping_add(other)
            }

            fn times(self, other: Self) -> Self {
                self.wrapping_mul(other)
            }

            fn over(self, count: usize) -> Option<Self> {
                (count > 0).then(|| (i128::from(self) / count as i128) as $ty)
            }

            fn is_nan(self) -> bool {
                false
            }
        }

        impl Number for $ty {
            type Wide = $ty;

            fn to_wide(self) -> $ty {
                self
            }

            fn narrow(wide: $ty) -> Self {
                wide
            }

            fn of_index(index: usize) -> Self {
                index as $ty
            }
        }
    )*};
}

integers!(i64, i32, i16, i8, u64, u32, u16, u8);

macro_rules! floats {
    ($($ty:ty: $widen:expr, $narrow:expr);* $(;)?) => {$(
        impl Number for $ty {
            type Wide = f64;

            fn to_wide(self) -> f64 {
                $widen(self)
            }

            fn narrow(wide: f64) -> Self {
                $narrow(wide)
            }

            fn of_index(index: usize) -> Self {
                Self::narrow(index as f64)
            }
        }
    )*};
}

floats! {
    f64: |x| x, |x| x;
    f32: f64::from, |x| x as f32;
    f16: f16::to_f64, narrow_to_f16;
    bf16: bf16::to_f64, narrow_to_bf16;
}

/// `x` rounded once, by the common definition of rounding.
fn narrow_to_f16(x: f64) -> f16 {
    match ScalarValue::from_number(x, DType::F16) {
        Some(ScalarValue::F16(value)) => value,
        _ => unreachable!("every number has a value in a float dtype"),
    }
}

fn narrow_to_bf16(x: f64) -> bf16 {
    match ScalarValue::from_number(x, DType::BF16) {
        Some(ScalarValue::BF16(value)) => value,
        _ => unreachable!("every number has a value in a float dtype"),
    }
}

impl Interrupt<'_> {
    /// Rounds results; both sides have the same length.
    pub(crate) fn narrow<T: Number>(self, to: &mut [T], from: &[T::Wide]) -> Result<(), OpFault> {
        for (to, from) in to.chunks_mut(PIECE).zip(from.chunks(PIECE)) {
            self.work(from.len())?;
            for (to, &from) in to.iter_mut().zip(from) {
                *to = T::narrow(from);
            }
        }
        Ok(())
    }

    /// Widens elements, up to the length of the shorter side.
    pub(crate) fn widen<T: Number>(self, to: &mut [T::Wide], from: &[T]) -> Result<(), OpFault> {
        for (to, from) in to.chunks_mut(PIECE).zip(from.chunks(PIECE)) {
            self.work(to.len())?;
            for (to, from) in to.iter_mut().zip(from) {
                *to = from.to_wide();
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn narrowing_rounds_once() {
        // Just above the tie between 1 and the next f16: rounding through f32 would fall back to the tie.
        let above_tie = 1.0 + f64::powi(2.0, -11) + f64::powi(2.0, -40);
        assert_eq!(
            f16::narrow(above_tie),
            f16::from_f32(1.0 + f32::powi(2.0, -10))
        );
        assert_eq!(f16::narrow(1.0 + f64::powi(2.0, -11)), f16::ONE);
        let above_tie = 1.0 + f64::powi(2.0, -8) + f64::powi(2.0, -45);
        assert_eq!(
            bf16::narrow(above_tie),
            bf16::from_f32(1.0 + f32::powi(2.0, -7))
        );
        assert_eq!(f16::narrow(-1e300), f16::NEG_INFINITY);
        assert_eq!(bf16::narrow(f64::MAX), bf16::INFINITY);
        assert_eq!(f16::narrow(-1e-300).to_bits(), f16::NEG_ZERO.to_bits());
        assert!(f16::narrow(f64::NAN).is_nan() && bf16::narrow(f64::NAN).is_nan());
    }

    #[test]
    fn every_half_float_survives_widening() {
        for bits in 0..=u16::MAX {
            let (half, brain) = (f16::from_bits(bits), bf16::from_bits(bits));
            assert!(half.is_nan() || f16::narrow(half.to_wide()).to_bits() == bits);
            assert!(brain.is_nan() || bf16::narrow(brain.to_wide()).to_bits() == bits);
        }
    }

    #[test]
    fn extrema_propagate_nan_from_either_side() {
        assert!(f64::NAN.larger(1.0).is_nan() && 1.0.larger(f64::NAN).is_nan());
        assert!(f64::NAN.smaller(1.0).is_nan() && 1.0.smaller(f64::NAN).is_nan());
        assert_eq!(f64::LOWEST.larger(-3.0), -3.0);
        assert_eq!(3i8.smaller(i8::HIGHEST), 3);
        for (left, right) in [(0.0, -0.0), (-0.0, 0.0)] {
            assert!(
                left.larger(right).is_sign_positive() && left.smaller(right).is_sign_negative()
            );
        }
    }

    #[test]
    fn integers_wrap_and_divide_towards_zero() {
        assert_eq!(200u8.plus(100), 44);
        assert_eq!(i8::MIN.times(-1), i8::MIN);
        assert_eq!((-7i8).over(2), Some(-3));
        assert_eq!(1i8.over(300), Some(0));
        assert_eq!(7i32.over(0), None);
        assert!(1.0.over(0).is_some_and(f64::is_infinite));
        assert_eq!(
            (
                true.plus(false),
                true.times(false),
                true.over(2),
                true.over(0)
            ),
            (true, false, Some(true), None)
        );
        assert_eq!(
            (bool::of_index(0), bool::of_index(2), u8::of_index(257)),
            (false, true, 1)
        );
    }
}
