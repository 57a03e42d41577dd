//! The order of the tiles of a contraction: down a block of columns, or along a block of rows.
//!
//! Down the columns, a block of the right operand is read once, and all rows once per block. Along the rows the reverse
//! is true, and results are written in long runs: with long rows, each tile in the other order touches a new page per
//! row, for only a line or two.

use kiln_backend::{IsaLevel, PackSpec};
use kiln_kernel::{Class, VerifiedKernel};

use crate::loops::{Factor, Size, When};
use crate::packing;
use crate::tile::{Tile, VectorAxis};

/// The row size in bytes from which on tiles of a row are on separate pages.
const PAGE: u32 = 4096;

/// The depth below which writing the results takes so long that their order decides: 512 x 128 x 4096 takes a tenth longer
/// down the columns.
const SHALLOW: u32 = 192;

/// The sizes at which tiles proceed along the rows: if rows are long, and the right operand stays in a cache that is fast
/// enough while it is read again for each block of rows.
///
/// Never if the weights are the rows, as in a convolution whose pixels are the columns: there was no gain, and a choice
/// made at each launch is more code to compile.
pub(crate) fn columns_first(
    kernel: &VerifiedKernel,
    level: IsaLevel,
    tile: &Tile,
    packs: &[PackSpec],
) -> When {
    let (Some(_), VectorAxis::Outer(columns), Some(reduced), Class::Contraction) = (
        tile.rows,
        tile.vector,
        packing::reduced(kernel),
        kernel.classification().class,
    ) else {
        return When::never();
    };
    let is_known = kernel
        .dims()
        .as_constant(kernel.axis(columns).extent.bound());
    if !packs.is_empty() && is_known.is_none() {
        return When::never();
    }
    let written = kernel
        .buffers()
        .values()
        .filter(|buffer| buffer.role.is_written());
    let Some(element) = written.map(|buffer| buffer.dtype.size_in_bytes()).max() else {
        return When::never();
    };
    let is_long = When::at_least(columns, PAGE.div_ceil(element as u32));
    let bytes = Size::product(element as i64, [columns, reduced].map(Factor::Axis));
    let within = |level| When::at_least(Factor::Cache(level), bytes.clone());
    let stays = match reads_slowly_from_the_third_level(level) {
        true => within(2).or(When::below(reduced, SHALLOW).and(within(3))),
        false => within(3),
    };
    is_long.and(stays)
}

/// Whether a core multiplies faster than it reads the right operand from the third level. With two 512-bit multiply-adds
/// per cycle, a tile of 8 rows reads 16 bytes per cycle, and servers with such cores give 10: on Emerald Rapids, 2048 x 384 x
/// 1536 takes 1.75 times as long from there, and 256 x 1024 x 1024 1.65 times.
fn reads_slowly_from_the_third_level(level: IsaLevel) -> bool {
    level.has_avx512() && !level.halves_are_as_fast()
}

#[cfg(test)]
mod tests {
    use kiln_backend::{IsaLevel, LaunchContext};

    use crate::testing::{loops, product};

    /// At `M`, `K` and `N`, with a cache of 1 MiB; `None` if the order is fixed.
    fn at(role: &str, symbols: &[i64]) -> Option<i64> {
        let kernel = product("M", role, "K, N", "N");
        let nests = loops(&kernel, IsaLevel::Avx2Fma).nests;
        let order = &nests.last().unwrap().columns_first;
        let context = LaunchContext {
            symbols,
            threads: 2,
            caches: [1 << 20; 3],
        };
        let decides = !order.is_never();
        decides.then(|| order.quantity(&kernel).evaluate(&context).unwrap())
    }

    #[test]
    fn tiles_follow_long_rows_while_the_right_operand_stays_in_the_cache() {
        let inputs = |n, k| at("in", &[50, k, n]);
        assert_eq!([inputs(1023, 8), inputs(1024, 8)], [Some(0), Some(1)]);
        assert_eq!([inputs(1024, 256), inputs(1024, 257)], [Some(1), Some(0)]);
        assert_eq!(at("const", &[50, 8, 1024]), None, "columns not known");
    }
}
