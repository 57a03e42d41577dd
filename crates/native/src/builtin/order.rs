//! The order in which elements are ranked: NaN before every number, in both directions; zeros are equal.
//!
//! An element's place in the order is an integer. An [`Item`] is compared as one number, with the place in the high
//! bits and the index in the low bits, so of equal elements the lower index is first.

use kiln_tensor::{bf16, f16};

/// An element that can be ranked.
pub(crate) trait Ranked: Copy + Send + Sync {
    /// Whether ranks in the order have more than 32 bits.
    const IS_WIDE: bool;

    /// Whether it is zero of either sign.
    fn is_zero(self) -> bool;
    /// Its rank in the order: of two elements, the one with the smaller rank is first.
    fn place(self, largest: bool) -> u64;
    /// Whether it may be before another one; it is not if this is false.
    fn may_precede(self, other: Self, largest: bool) -> bool;
}

/// An element in an order: its rank, then its index.
pub(crate) trait Item: Copy + Ord {
    /// Combines a rank and an index.
    fn new(place: u64, index: usize) -> Self;
    /// The index.
    fn index(self) -> usize;
}

/// An item for ranks and indices of 32 bits.
impl Item for u64 {
    fn new(place: u64, index: usize) -> Self {
        (place << 32) | index as u64
    }

    fn index(self) -> usize {
        self as u32 as usize
    }
}

impl Item for u128 {
    fn new(place: u64, index: usize) -> Self {
        (u128::from(place) << 64) | index as u128
    }

    fn index(self) -> usize {
        self as u64 as usize
    }
}

macro_rules! ranked_integers {
    ($($ty:ty: $wide:ty, $place:ty, $first:expr;)*) => {$(
        impl Ranked for $ty {
            const IS_WIDE: bool = <$place>::BITS > 32;

            fn is_zero(self) -> bool {
                self == <$ty>::default()
            }

            fn place(self, largest: bool) -> u64 {
                // The lowest value is at 0.
                let ascending = (self as $wide as $place) ^ $first;
                u64::from(if largest { !ascending } else { ascending })
            }

            fn may_precede(self, other: Self, largest: bool) -> bool {
                if largest { self > other } else { self < other }
            }
        }
    )*};
}

macro_rules! ranked_floats {
    ($($ty:ty: $place:ty, $infinity:expr;)*) => {$(
        impl Ranked for $ty {
            const IS_WIDE: bool = <$place>::BITS > 32;

            fn is_zero(self) -> bool {
                self.to_bits() << 1 == 0
            }

            fn place(self, largest: bool) -> u64 {
                const SIGN: $place = 1 << (<$place>::BITS - 1);
                let bits = self.to_bits();
                let magnitude = bits & !SIGN;
                if magnitude > $infinity {
                    return 0;
                }
                let ascending = match bits & SIGN != 0 && magnitude != 0 {
                    true => !bits,
                    false => magnitude | SIGN,
                };
                u64::from(if largest { !ascending } else { ascending })
            }

            fn may_precede(self, other: Self, largest: bool) -> bool {
                // A NaN may precede, regardless of which operand it is.
                #[allow(clippy::neg_cmp_op_on_partial_ord, reason = "NaN is to be true")]
                if largest { !(self <= other) } else { !(self >= other) }
            }
        }
    )*};
}

ranked_integers! {
    i64: i64, u64, 1 << 63;
    i32: i32, u32, 1 << 31;
    i16: i32, u32, 1 << 31;
    i8: i32, u32, 1 << 31;
    u64: u64, u64, 0;
    u32: u32, u32, 0;
    u16: u32, u32, 0;
    u8: u32, u32, 0;
    bool: u32, u32, 0;
}
ranked_floats! {
    f64: u64, 0x7ff0_0000_0000_0000;
    f32: u32, 0x7f80_0000;
    f16: u16, 0x7c00;
    bf16: u16, 0x7f80;
}
