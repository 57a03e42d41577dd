//! The register tile of a contraction: the cheapest of its level by measurement.
//!
//! The cost of a row depends on its number of vectors, since a partial set takes another path. The table
//! (`tile_costs.rs`) covers rows of up to [`TILED_VECTORS`]; `cargo xtask tune` measures it. A level that was never
//! measured is estimated from a core's execution units.

use kiln_kernel::{StageOperation, VerifiedKernel};

use super::tile::VectorAxis;
use super::tile_costs::COSTS;
use kiln_backend::IsaLevel;

/// Row widths, in vectors, at which tiles are measured: 1 to this. The widths of the tiles divide it.
pub const TILED_VECTORS: u32 = 12;

/// Rows and vectors of the register tiles of contractions, most rows first. Their sums, the vectors and one broadcast fit
/// the registers, with some left for the epilogue.
pub const fn contraction_tiles(level: IsaLevel) -> &'static [(u32, u32)] {
    match level {
        IsaLevel::Portable => &[(4, 2), (3, 3), (2, 4)],
        IsaLevel::Avx2Fma => &[(6, 2), (3, 3), (2, 4)],
        IsaLevel::Avx512 | IsaLevel::Avx512Vnni | IsaLevel::Avx512Bf16 => {
            &[(12, 2), (8, 3), (6, 4)]
        }
        IsaLevel::Neon | IsaLevel::NeonI8mmBf16 => &[(8, 2), (6, 3), (5, 4)],
    }
}

/// The meaning of the rows of a contraction's tile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Work {
    /// Rows of an array, with a vector of results per accumulator.
    Product,
    /// Rows of an array, with vectors of partial sums, each reduced horizontally at the end.
    DotProducts,
    /// Positions of a window, each with several taps.
    Window,
}

impl Work {
    /// The work of a kernel: of its first contraction.
    pub(super) fn of(kernel: &VerifiedKernel, vector: VectorAxis) -> Self {
        let contraction = kernel.classification().contractions.first();
        let operation = contraction.map(|first| &kernel.stage(first.stage).operation);
        match operation {
            Some(StageOperation::Reduce { axes, .. }) if axes.len() > 1 => Work::Window,
            _ if matches!(vector, VectorAxis::Outer(_)) => Work::Product,
            _ => Work::DotProducts,
        }
    }

    /// Its name in the table.
    fn name(self) -> &'static str {
        match self {
            Work::Product | Work::DotProducts => "product",
            Work::Window => "window",
        }
    }
}

/// Differences of this many percent are measurement noise.
const NOISE: u64 = 3;

/// Associativity of the level-1 cache on many cores.
///
/// Rows of an array whose distance is a multiple of 4 KiB, such as those of 1024 floats, share a set. Twelve such rows take
/// a tenth longer than eight. Positions of a window are closer together.
const WAYS: u32 = 8;

/// The cheapest tile for a row of this many vectors. Among equal ones, and if the width is unknown, the one with most rows,
/// which reads shared operands least often; for rows of an array, no more rows than the associativity of the level-1 cache,
/// unless each is read a vector at a time.
pub(super) fn cheapest(
    level: IsaLevel,
    work: Work,
    tiles: &[(u32, u32)],
    width: Option<u32>,
) -> (u32, u32) {
    let cost = |&tile: &(u32, u32)| width.map_or(0, |width| row(level, work, tile, width));
    let least = tiles.iter().map(cost).min().unwrap_or(0);
    let is_cheap = |tile: &&(u32, u32)| cost(tile) * 100 <= least * (100 + NOISE);
    let crowds = |tile: &&(u32, u32)| work == Work::Product && tile.0 > WAYS;
    let cheap = tiles.iter().filter(is_cheap);
    cheap.min_by_key(crowds).copied().unwrap_or((1, 1))
}

/// The cost of a step for a row of this many vectors, in hundredths of a multiply-add.
fn row(level: IsaLevel, work: Work, tile: (u32, u32), width: u32) -> u64 {
    let cost = |width: u32| match width {
        0 => 0,
        _ => measured(level, work, tile, width).unwrap_or_else(|| estimated(tile, width)),
    };
    let most = TILED_VECTORS;
    u64::from(width / most) * cost(most) + cost(width % most)
}

fn measured(level: IsaLevel, work: Work, (rows, vectors): (u32, u32), width: u32) -> Option<u64> {
    // The same registers and units, with more instructions.
    let level = match level {
        IsaLevel::Avx512Vnni | IsaLevel::Avx512Bf16 => IsaLevel::Avx512,
        level => level,
    };
    let key = (level.name(), work.name(), rows, vectors, width);
    let of = |&(level, work, rows, vectors, width, _)| (level, work, rows, vectors, width);
    let found = COSTS.iter().find(|row| of(row) == key);
    found.map(|&(.., cost)| u64::from(cost))
}

/// The same, estimated for a core that issues two multiply-adds and two loads per cycle with a latency of four.
fn estimated((rows, vectors): (u32, u32), width: u32) -> u64 {
    let (rows, vectors, width) = (u64::from(rows), u64::from(vectors), u64::from(width));
    // In half cycles, of which a multiply-add takes one.
    let step = |vectors: u64| (rows * vectors).max(rows + vectors).max(8);
    100 * (width / vectors * step(vectors) + width % vectors * step(1)) / rows
}

#[cfg(test)]
mod tests {
    use super::*;

    const MEASURED: [IsaLevel; 3] = [IsaLevel::Portable, IsaLevel::Avx2Fma, IsaLevel::Avx512];

    const WORKS: [Work; 2] = [Work::Product, Work::Window];

    #[test]
    fn every_tile_of_a_measured_level_is_in_the_table_at_every_width() {
        for (level, work) in MEASURED
            .into_iter()
            .flat_map(|level| WORKS.map(|work| (level, work)))
        {
            for &tile in contraction_tiles(level) {
                for width in 1..=TILED_VECTORS {
                    let found = measured(level, work, tile, width);
                    let is_there = found.is_some_and(|cost| cost >= 100);
                    assert!(is_there, "{level} {work:?} {tile:?} {width}");
                }
            }
        }
    }

    #[test]
    fn sets_divide_the_widest_rows_that_are_measured() {
        for level in IsaLevel::ALL {
            let tiles = contraction_tiles(level);
            let mut sets = tiles.iter().map(|&(_, vectors)| vectors);
            assert!(sets.all(|set| TILED_VECTORS.is_multiple_of(set)));
            assert!(tiles.is_sorted_by_key(|&(rows, _)| std::cmp::Reverse(rows)));
        }
    }

    #[test]
    fn an_unmeasured_level_is_estimated_from_its_execution_units() {
        let level = IsaLevel::Neon;
        let choice = |width| cheapest(level, Work::Product, contraction_tiles(level), width);
        assert_eq!([choice(None), choice(Some(2))], [(8, 2); 2]);
        assert_eq!(choice(Some(3)), (6, 3));
        assert_eq!(row(level, Work::Window, (8, 2), 26), 2 * 1200 + 200);
    }

    #[test]
    fn rows_of_unknown_width_use_the_tile_with_most_rows_that_fit_the_cache() {
        for level in IsaLevel::ALL {
            let tiles = contraction_tiles(level);
            let choices = WORKS.map(|work| cheapest(level, work, tiles, None));
            let fits = tiles.iter().find(|tile| tile.0 <= WAYS).unwrap();
            assert_eq!(choices, [*fits, tiles[0]], "{level}");
        }
    }

    #[test]
    fn taps_make_a_window() {
        let work = |reduced: &str, place: &str| {
            let text = format!(
                "kernel @w(%x: in f32[W + 2, 8], %y: const f32[3, 8, 24], %o: out f32[W, 24]) {{
                   outer w < W, n < 24
                   s = reduce add[{reduced}c < 8] %x[{place}, c] * %y[{}, c, n]
                   store %o[w, n] = s
                 }}",
                if reduced.is_empty() { "0" } else { "t" },
            );
            let kernel = kiln_kernel::text::read(&text).unwrap();
            let kernel = kiln_kernel::verify(kernel).unwrap();
            let columns = kernel.outer()[1];
            let along = [VectorAxis::Outer(columns), VectorAxis::Inner];
            along.map(|vector| Work::of(&kernel, vector))
        };
        assert_eq!(work("", "w"), [Work::Product, Work::DotProducts]);
        assert_eq!(work("t < 3, ", "w + t"), [Work::Window; 2]);
    }
}
