//! Floats: f32 and f64 natively, 16-bit ones through f32, functions through f64.

use kiln_tensor::{bf16, f16};

use super::number::Number;
use crate::op::ScalarOp;
use crate::rounding::{bf16_from_f64, f16_from_f64};

/// A float, converted through f64.
pub(super) trait Float: Number {
    fn to_f64(self) -> f64;
    /// Rounds once, to nearest even.
    fn from_f64(value: f64) -> Self;
}

/// The function of a unary float operation, on f64.
pub(super) fn function(op: ScalarOp) -> fn(f64) -> f64 {
    match op {
        ScalarOp::Floor => f64::floor,
        ScalarOp::Ceil => f64::ceil,
        ScalarOp::RoundEven => f64::round_ties_even,
        ScalarOp::Trunc => f64::trunc,
        ScalarOp::Sqrt => f64::sqrt,
        ScalarOp::Rsqrt => |x| 1.0 / x.sqrt(),
        ScalarOp::Exp => libm::exp,
        ScalarOp::Exp2 => libm::exp2,
        ScalarOp::Expm1 => libm::expm1,
        ScalarOp::Log => libm::log,
        ScalarOp::Log2 => libm::log2,
        ScalarOp::Log1p => libm::log1p,
        ScalarOp::Sin => libm::sin,
        ScalarOp::Cos => libm::cos,
        ScalarOp::Tan => libm::tan,
        ScalarOp::Asin => libm::asin,
        ScalarOp::Acos => libm::acos,
        ScalarOp::Atan => libm::atan,
        ScalarOp::Sinh => libm::sinh,
        ScalarOp::Cosh => libm::cosh,
        ScalarOp::Tanh => libm::tanh,
        ScalarOp::Asinh => libm::asinh,
        ScalarOp::Acosh => acosh,
        ScalarOp::Atanh => libm::atanh,
        ScalarOp::Erf => libm::erf,
        ScalarOp::Sigmoid => sigmoid,
        other => unreachable!("`{}` is no function of one float", other.name()),
    }
}

/// The exponential's argument is never above zero, so it cannot overflow.
fn sigmoid(x: f64) -> f64 {
    let small = libm::exp(-x.abs());
    if x < 0.0 {
        small / (1.0 + small)
    } else {
        1.0 / (1.0 + small)
    }
}

/// The library returns numbers for some arguments below -1.
fn acosh(x: f64) -> f64 {
    if x < 1.0 { f64::NAN } else { libm::acosh(x) }
}

macro_rules! native_number {
    ($($ty:ident)*) => {
        $(
            impl Number for $ty {
                #[inline]
                fn add(self, other: $ty) -> $ty {
                    self + other
                }

                #[inline]
                fn sub(self, other: $ty) -> $ty {
                    self - other
                }

                #[inline]
                fn mul(self, other: $ty) -> $ty {
                    self * other
                }

                #[inline]
                fn div(self, other: $ty) -> Option<$ty> {
                    Some(self / other)
                }

                #[inline]
                fn floor_div(self, other: $ty) -> Option<$ty> {
                    Some((self / other).floor())
                }

                #[inline]
                fn rem(self, other: $ty) -> Option<$ty> {
                    Some(self % other)
                }

                #[inline]
                fn floor_mod(self, other: $ty) -> Option<$ty> {
                    let rest = self % other;
                    Some(if rest == 0.0 {
                        (0.0 as $ty).copysign(other)
                    } else if (rest < 0.0) != (other < 0.0) {
                        rest + other
                    } else {
                        rest
                    })
                }

                fn pow(self, other: $ty) -> Option<$ty> {
                    Some(libm::pow(f64::from(self), f64::from(other)) as $ty)
                }

                #[inline]
                fn min(self, other: $ty) -> $ty {
                    let first = self < other || self.is_nan() || (self == other && self.is_sign_negative());
                    if first { self } else { other }
                }

                #[inline]
                fn max(self, other: $ty) -> $ty {
                    let first = self > other || self.is_nan() || (self == other && self.is_sign_positive());
                    if first { self } else { other }
                }

                #[inline]
                fn neg(self) -> $ty {
                    -self
                }

                #[inline]
                fn abs(self) -> $ty {
                    self.abs()
                }

                #[inline]
                fn sign(self) -> $ty {
                    if self == 0.0 || self.is_nan() { self } else { self.signum() }
                }
            }
        )*
    };
}

native_number!(f64 f32);

macro_rules! number_through_f32 {
    ($($ty:ident $from_f64:ident,)*) => {
        $(
            impl Number for $ty {
                #[inline]
                fn add(self, other: $ty) -> $ty {
                    $ty::from_f32(self.to_f32() + other.to_f32())
                }

                #[inline]
                fn sub(self, other: $ty) -> $ty {
                    $ty::from_f32(self.to_f32() - other.to_f32())
                }

                #[inline]
                fn mul(self, other: $ty) -> $ty {
                    $ty::from_f32(self.to_f32() * other.to_f32())
                }

                #[inline]
                fn div(self, other: $ty) -> Option<$ty> {
                    Some($ty::from_f32(self.to_f32() / other.to_f32()))
                }

                #[inline]
                fn floor_div(self, other: $ty) -> Option<$ty> {
                    let quotient = $ty::from_f32(self.to_f32() / other.to_f32());
                    Some($ty::from_f32(quotient.to_f32().floor()))
                }

                #[inline]
                fn rem(self, other: $ty) -> Option<$ty> {
                    Some($ty::from_f32(self.to_f32() % other.to_f32()))
                }

                #[inline]
                fn floor_mod(self, other: $ty) -> Option<$ty> {
                    self.to_f32().floor_mod(other.to_f32()).map($ty::from_f32)
                }

                fn pow(self, other: $ty) -> Option<$ty> {
                    Some($from_f64(libm::pow(self.to_f64(), other.to_f64())))
                }

                #[inline]
                fn min(self, other: $ty) -> $ty {
                    $ty::from_f32(Number::min(self.to_f32(), other.to_f32()))
                }

                #[inline]
                fn max(self, other: $ty) -> $ty {
                    $ty::from_f32(Number::max(self.to_f32(), other.to_f32()))
                }

                #[inline]
                fn neg(self) -> $ty {
                    -self
                }

                #[inline]
                fn abs(self) -> $ty {
                    $ty::from_bits(self.to_bits() & 0x7fff)
                }

                #[inline]
                fn sign(self) -> $ty {
                    $ty::from_f32(self.to_f32().sign())
                }
            }

            impl Float for $ty {
                #[inline]
                fn to_f64(self) -> f64 {
                    $ty::to_f64(self)
                }

                #[inline]
                fn from_f64(value: f64) -> $ty {
                    $from_f64(value)
                }
            }
        )*
    };
}

number_through_f32! {
    f16 f16_from_f64,
    bf16 bf16_from_f64,
}

impl Float for f64 {
    #[inline]
    fn to_f64(self) -> f64 {
        self
    }

    #[inline]
    fn from_f64(value: f64) -> f64 {
        value
    }
}

impl Float for f32 {
    #[inline]
    fn to_f64(self) -> f64 {
        f64::from(self)
    }

    #[inline]
    fn from_f64(value: f64) -> f32 {
        value as f32
    }
}
