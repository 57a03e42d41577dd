//! Arithmetic that integers and floats share.

use crate::block::Lane;

/// The operations on numbers; `None` is a division by zero, which only integers have.
pub(super) trait Number: Lane + PartialOrd {
    fn add(self, other: Self) -> Self;
    fn sub(self, other: Self) -> Self;
    fn mul(self, other: Self) -> Self;
    fn div(self, other: Self) -> Option<Self>;
    fn floor_div(self, other: Self) -> Option<Self>;
    fn rem(self, other: Self) -> Option<Self>;
    fn floor_mod(self, other: Self) -> Option<Self>;
    fn pow(self, other: Self) -> Option<Self>;
    fn min(self, other: Self) -> Self;
    fn max(self, other: Self) -> Self;
    fn neg(self) -> Self;
    fn abs(self) -> Self;
    fn sign(self) -> Self;
}
