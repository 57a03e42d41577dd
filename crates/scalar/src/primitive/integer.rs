//! Integers: two's complement, wrapping.

use std::ops::{BitAnd, BitOr, BitXor, Not};

use super::number::Number;

/// An integer's bits.
pub(super) trait Integer:
    Number + BitAnd<Output = Self> + BitOr<Output = Self> + BitXor<Output = Self> + Not<Output = Self>
{
    fn shl(self, amount: Self) -> Self;
    fn shr(self, amount: Self) -> Self;
}

macro_rules! integers {
    ($($ty:ident: $abs:expr, $sign:expr;)*) => {
        $(
            impl Number for $ty {
                #[inline]
                fn add(self, other: $ty) -> $ty {
                    self.wrapping_add(other)
                }

                #[inline]
                fn sub(self, other: $ty) -> $ty {
                    self.wrapping_sub(other)
                }

                #[inline]
                fn mul(self, other: $ty) -> $ty {
                    self.wrapping_mul(other)
                }

                #[inline]
                fn div(self, other: $ty) -> Option<$ty> {
                    (other != 0).then(|| self.wrapping_div(other))
                }

                #[inline]
                #[allow(unused_comparisons, reason = "unsigned types share the definition")]
                fn floor_div(self, other: $ty) -> Option<$ty> {
                    let quotient = self.div(other)?;
                    let exact = self.rem(other)? == 0 || (self < 0) == (other < 0);
                    Some(if exact { quotient } else { quotient.wrapping_sub(1) })
                }

                #[inline]
                fn rem(self, other: $ty) -> Option<$ty> {
                    (other != 0).then(|| self.wrapping_rem(other))
                }

                #[inline]
                #[allow(unused_comparisons, reason = "unsigned types share the definition")]
                fn floor_mod(self, other: $ty) -> Option<$ty> {
                    let rest = self.rem(other)?;
                    let fits = rest == 0 || (rest < 0) == (other < 0);
                    Some(if fits { rest } else { rest.wrapping_add(other) })
                }

                #[allow(unused_comparisons, reason = "unsigned types share the definition")]
                fn pow(self, exponent: $ty) -> Option<$ty> {
                    if exponent < 0 {
                        let odd = exponent & 1 == 1;
                        return match self {
                            0 => None,
                            1 => Some(1),
                            minus_one if minus_one == (0 as $ty).wrapping_sub(1) => {
                                Some(if odd { minus_one } else { 1 })
                            }
                            _ => Some(0),
                        };
                    }
                    // By squaring: the widest exponent takes 64 rounds.
                    let (mut power, mut square, mut left) = (1 as $ty, self, exponent);
                    while left != 0 {
                        if left & 1 == 1 {
                            power = power.wrapping_mul(square);
                        }
                        square = square.wrapping_mul(square);
                        left >>= 1;
                    }
                    Some(power)
                }

                #[inline]
                fn min(self, other: $ty) -> $ty {
                    Ord::min(self, other)
                }

                #[inline]
                fn max(self, other: $ty) -> $ty {
                    Ord::max(self, other)
                }

                #[inline]
                fn neg(self) -> $ty {
                    self.wrapping_neg()
                }

                #[inline]
                fn abs(self) -> $ty {
                    $abs(self)
                }

                #[inline]
                fn sign(self) -> $ty {
                    $sign(self)
                }
            }

            impl Integer for $ty {
                #[inline]
                fn shl(self, amount: $ty) -> $ty {
                    u32::try_from(amount).ok().and_then(|amount| self.checked_shl(amount)).unwrap_or(0)
                }

                #[inline]
                fn shr(self, amount: $ty) -> $ty {
                    // A shift by all bits but one leaves copies of the sign, or the last bit of
                    // an unsigned number, which one more shift removes.
                    let shifted = u32::try_from(amount).ok().and_then(|amount| self.checked_shr(amount));
                    shifted.unwrap_or((self >> ($ty::BITS - 1)) >> 1)
                }
            }
        )*
    };
}

integers! {
    i64: i64::wrapping_abs, i64::signum;
    i32: i32::wrapping_abs, i32::signum;
    i16: i16::wrapping_abs, i16::signum;
    i8: i8::wrapping_abs, i8::signum;
    u64: |x: u64| x, |x: u64| u64::from(x != 0);
    u32: |x: u32| x, |x: u32| u32::from(x != 0);
    u16: |x: u16| x, |x: u16| u16::from(x != 0);
    u8: |x: u8| x, |x: u8| u8::from(x != 0);
}
