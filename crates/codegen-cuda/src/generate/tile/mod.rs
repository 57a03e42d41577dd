//! Tiles in shared memory, used by contractions and attention: filling the tiles of the factors, and moving sums out of
//! registers.

mod fill;
mod leave;
mod operand;

pub(super) use fill::{Filler, Points, Side, TileShape};
pub(super) use leave::{Results, leave};
pub(super) use operand::{Operand, steps_by_one, unit_of};

use kiln_backend::Quantity;

use super::function::Function;

/// The number of tiles that fills a device: if there are fewer, smaller tiles are used.
pub(super) const ENOUGH_TILES: i64 = 264;

/// 1 if there are enough tasks, otherwise 0.
pub(super) fn is_enough(tasks: &Quantity) -> Quantity {
    let enough = Quantity::constant(ENOUGH_TILES);
    tasks.clone().floor_div(enough).min(Quantity::constant(1))
}

/// The functions of a large tile and, if there is one, of a small one: sizes decide which of them has tasks.
pub(super) fn for_sizes(large: Function, small: Option<Function>) -> Vec<Function> {
    let Some(small) = small else {
        return vec![large];
    };
    let is_enough = is_enough(&large.tasks);
    let is_few = Quantity::constant(1) - is_enough.clone();
    vec![large.only_when(&is_enough), small.only_when(&is_few)]
}

/// Rows of the strip of shared memory through which sums are stored.
pub(super) const STRIP_ROWS: u32 = 32;

/// The distance of the lines of a strip, in elements.
pub(super) fn strip_pitch(columns: u32) -> u32 {
    columns + 4
}

/// Bytes of a strip, for sums of this many bytes.
pub(super) fn strip_bytes(columns: u32, sum_bytes: u32) -> u32 {
    STRIP_ROWS * strip_pitch(columns) * sum_bytes
}
