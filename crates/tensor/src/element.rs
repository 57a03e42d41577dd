//! The Rust types that can be elements, and dispatch from a run-time dtype to a type.

use std::fmt::Debug;

use bytemuck::{CheckedBitPattern, NoUninit};
use half::{bf16, f16};

use crate::DType;

/// A Rust type that is an element type: `f64`, `f32`, [`half::f16`], [`half::bf16`], the eight
/// integers and `bool`.
///
/// Sealed: the implementing types correspond to the [`DType`]s.
pub trait Element:
    Copy
    + Send
    + Sync
    + Default
    + PartialEq
    + Debug
    + NoUninit
    + CheckedBitPattern
    + sealed::Sealed
    + 'static
{
    /// The dtype that names this type.
    const DTYPE: DType;
}

/// Runs a block with a type name bound to the element type of a dtype.
///
/// ```
/// use kiln_tensor::{DType, Element, match_dtype};
///
/// let size = match_dtype!(DType::F16, T => std::mem::size_of::<T>());
/// assert_eq!(size, 2);
/// ```
#[macro_export]
macro_rules! match_dtype {
    ($dtype:expr, $ty:ident => $body:expr) => {
        match $dtype {
            $crate::DType::F64 => {
                type $ty = f64;
                $body
            }
            $crate::DType::F32 => {
                type $ty = f32;
                $body
            }
            $crate::DType::F16 => {
                type $ty = $crate::f16;
                $body
            }
            $crate::DType::BF16 => {
                type $ty = $crate::bf16;
                $body
            }
            $crate::DType::I64 => {
                type $ty = i64;
                $body
            }
            $crate::DType::I32 => {
                type $ty = i32;
                $body
            }
            $crate::DType::I16 => {
                type $ty = i16;
                $body
            }
            $crate::DType::I8 => {
                type $ty = i8;
                $body
            }
            $crate::DType::U64 => {
                type $ty = u64;
                $body
            }
            $crate::DType::U32 => {
                type $ty = u32;
                $body
            }
            $crate::DType::U16 => {
                type $ty = u16;
                $body
            }
            $crate::DType::U8 => {
                type $ty = u8;
                $body
            }
            $crate::DType::Bool => {
                type $ty = bool;
                $body
            }
            #[allow(
                unreachable_patterns,
                reason = "reachable nowhere today, and required outside this crate"
            )]
            other => unreachable!("dtype {other} has no element type"),
        }
    };
}

macro_rules! elements {
    ($($ty:ty => $dtype:ident),* $(,)?) => {
        $(
            impl Element for $ty {
                const DTYPE: DType = DType::$dtype;
            }
            impl sealed::Sealed for $ty {}
        )*
    };
}

elements! {
    f64 => F64, f32 => F32, f16 => F16, bf16 => BF16,
    i64 => I64, i32 => I32, i16 => I16, i8 => I8,
    u64 => U64, u32 => U32, u16 => U16, u8 => U8,
    bool => Bool,
}

mod sealed {
    pub trait Sealed {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn match_dtype_binds_the_type_of_the_dtype() {
        for dtype in DType::ALL {
            let (named, size) = match_dtype!(dtype, T => (<T as Element>::DTYPE, size_of::<T>()));
            assert_eq!((named, size), (dtype, dtype.size_in_bytes()));
        }
    }
}
