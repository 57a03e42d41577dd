//! Conversions between all dtypes.

use kiln_tensor::{bf16, f16, match_dtype};

use crate::block::{Block, BlockMut, Lane};
use crate::rounding::{bf16_from_f64, f16_from_f64, f64_to_odd};

use super::map;

/// Converts every element to the dtype of `out`.
pub(super) fn apply(from: Block<'_>, out: BlockMut<'_>) {
    match_dtype!(from.dtype(), S => {
        match_dtype!(out.dtype(), D => {
            map(S::of(from), D::of_mut(out), |x: S| D::narrow(x.wide()));
        })
    });
}

/// A value of any dtype, exactly.
#[derive(Clone, Copy)]
enum Wide {
    Float(f64),
    /// 64-bit integers of either kind; `bool` is 0 or 1.
    Integer(i128),
}

trait Convert: Lane {
    fn wide(self) -> Wide;
    fn narrow(wide: Wide) -> Self;
}

macro_rules! convert_integers {
    ($($ty:ident)*) => {
        $(
            impl Convert for $ty {
                #[inline]
                fn wide(self) -> Wide {
                    Wide::Integer(i128::from(self))
                }

                /// Rust's `as` has the required semantics: floats truncate and saturate, NaN is 0, integers keep their low
                /// bits.
                #[inline]
                fn narrow(wide: Wide) -> $ty {
                    match wide {
                        Wide::Float(value) => value as $ty,
                        Wide::Integer(value) => value as $ty,
                    }
                }
            }
        )*
    };
}

convert_integers!(i64 i32 i16 i8 u64 u32 u16 u8);

macro_rules! convert_floats {
    ($($ty:ident: $to_f64:expr, $from_f64:expr, $from_integer:expr;)*) => {
        $(
            impl Convert for $ty {
                #[inline]
                fn wide(self) -> Wide {
                    Wide::Float($to_f64(self))
                }

                #[inline]
                fn narrow(wide: Wide) -> $ty {
                    match wide {
                        Wide::Float(value) => $from_f64(value),
                        Wide::Integer(value) => $from_integer(value),
                    }
                }
            }
        )*
    };
}

convert_floats! {
    f64: |x: f64| x, |x: f64| x, |x: i128| x as f64;
    f32: f64::from, |x: f64| x as f32, |x: i128| x as f32;
    f16: f16::to_f64, f16_from_f64, |x: i128| f16_from_f64(f64_to_odd(x));
    bf16: bf16::to_f64, bf16_from_f64, |x: i128| bf16_from_f64(f64_to_odd(x));
}

impl Convert for bool {
    #[inline]
    fn wide(self) -> Wide {
        Wide::Integer(i128::from(self))
    }

    #[inline]
    fn narrow(wide: Wide) -> bool {
        match wide {
            Wide::Float(value) => value != 0.0,
            Wide::Integer(value) => value != 0,
        }
    }
}
