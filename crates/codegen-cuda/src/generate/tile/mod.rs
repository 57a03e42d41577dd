//! Tiles of products in shared memory, which contractions and attention have in common: factors and how their tiles are
//! filled, and how sums leave the registers.

mod fill;
mod leave;
mod operand;

pub(super) use fill::{Filler, Points, Side, TileShape};
pub(super) use leave::{Results, leave};
pub(super) use operand::{Operand, steps_by_one, unit_of};

/// Tiles that are enough for a device: below that many, smaller ones are used.
pub(super) const ENOUGH_TILES: i64 = 264;

/// Rows of the strip of shared memory through which sums leave.
pub(super) const STRIP_ROWS: u32 = 32;

/// Elements between the lines of a strip.
pub(super) fn strip_pitch(columns: u32) -> u32 {
    columns + 4
}

/// Bytes of a strip of sums of so many bytes.
pub(super) fn strip_bytes(columns: u32, sum_bytes: u32) -> u32 {
    STRIP_ROWS * strip_pitch(columns) * sum_bytes
}
