//! The order of elements when they are ranked: NaN before every number, in both directions; zeros are equal.

use kiln_tensor::{bf16, f16};
use std::cmp::Ordering;

/// An element that can be ranked.
pub(crate) trait Ranked: Copy {
    /// Whether it is NaN.
    fn is_nan(self) -> bool;
    /// Whether it is zero of either sign.
    fn is_zero(self) -> bool;
    /// Ascending, for numbers.
    fn ascending(self, other: Self) -> Ordering;
}

/// `Less` when `left` comes before `right`.
pub(crate) fn rank<T: Ranked>(left: T, right: T, largest: bool) -> Ordering {
    match (left.is_nan(), right.is_nan()) {
        (true, true) => Ordering::Equal,
        (true, false) => Ordering::Less,
        (false, true) => Ordering::Greater,
        (false, false) if largest => right.ascending(left),
        (false, false) => left.ascending(right),
    }
}

macro_rules! ranked_integers {
    ($($ty:ty),*) => {$(
        impl Ranked for $ty {
            fn is_nan(self) -> bool {
                false
            }

            fn is_zero(self) -> bool {
                self == <$ty>::default()
            }

            fn ascending(self, other: Self) -> Ordering {
                self.cmp(&other)
            }
        }
    )*};
}

macro_rules! ranked_floats {
    ($($ty:ty),*) => {$(
        impl Ranked for $ty {
            fn is_nan(self) -> bool {
                <$ty>::is_nan(self)
            }

            fn is_zero(self) -> bool {
                self == <$ty>::default()
            }

            fn ascending(self, other: Self) -> Ordering {
                self.partial_cmp(&other).unwrap_or(Ordering::Equal)
            }
        }
    )*};
}

ranked_integers!(i64, i32, i16, i8, u64, u32, u16, u8, bool);
ranked_floats!(f64, f32, f16, bf16);
