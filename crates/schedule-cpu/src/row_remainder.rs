//! Tiles for the row remainder.
//!
//! Each row count adds code to compile; its benefit depends on how often a remainder has that many rows.

use kiln_backend::PackSpec;
use kiln_kernel::{Class, Item, VerifiedKernel};

use super::tile::{Tile, VectorAxis};
use crate::layout::block_of;
use crate::strategies::SKINNY_ROWS;

/// A row remainder is joined with the last full tile into two tiles of three or four rows only for tiles of this many rows.
const EVENED_ROWS: u32 = 6;

/// How the row remainder is computed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RowRemainder {
    /// The fewest rows that the full tile computes, repeating its last row for the missing ones.
    pub least: u32,
    /// Row counts of the smaller tiles, largest first. If the remainder exceeds the next smaller one, the last row is
    /// repeated to fill this one.
    pub rows: Vec<u32>,
    /// A remainder of fewer rows than this is joined with the last full tile into two tiles of about equal size; 0 to leave
    /// both unchanged.
    pub evened_below: u32,
}

/// The fewest rows for which a tile of `count` rows is used: the next smaller tile handles any number that it computes in
/// one step, or nearly.
pub fn least_rows(count: u32, next: Option<u32>) -> u32 {
    next.map_or(1, |next| (next + (count / 4).max(1)).min(count))
}

/// How a tile handles the row remainder; `reads_in_place` if no operand is packed at launch.
pub(crate) fn row_remainder(
    kernel: &VerifiedKernel,
    tile: &Tile,
    packs: &[PackSpec],
    reads_in_place: bool,
) -> RowRemainder {
    let Some((axis, count)) = tile.rows else {
        return RowRemainder::default();
    };
    if let Some(known) = kernel.dims().as_constant(kernel.axis(axis).extent.bound()) {
        let left = u32::try_from(known % i64::from(count)).unwrap_or(1);
        return RowRemainder {
            least: count,
            rows: vec![left.max(1)],
            evened_below: 0,
        };
    }
    let mut rows = rows(kernel, tile, count, (packs.is_empty(), reads_in_place));
    let mut least = count;
    // A tile only for full row counts would duplicate the code of one that may repeat its last row.
    if rows.first() == Some(&count) && may_repeat(kernel, count, packs) {
        rows.remove(0);
        least = least_rows(count, rows.first().copied());
    }
    RowRemainder {
        least,
        rows,
        evened_below: match count {
            EVENED_ROWS if reads_in_place => 3,
            _ => 0,
        },
    }
}

fn rows(
    kernel: &VerifiedKernel,
    tile: &Tile,
    count: u32,
    (has_no_weights, reads_in_place): (bool, bool),
) -> Vec<u32> {
    let class = kernel.classification().class;
    let is_product = !kernel.classification().contractions.is_empty();
    let is_contraction = class == Class::Contraction;
    match count {
        _ if class == Class::Map => vec![1],
        // An accumulated row must not be computed twice.
        _ if combines(kernel) => vec![1],
        // Two or three rows are computed as four; a dot product is not.
        ..=4 if is_contraction && tile.vector == VectorAxis::Inner => vec![count, 1],
        // Few columns of an unpacked operand are rare, and a vector of each row is little work.
        8.. if reads_in_place && has_no_weights && is_contraction && tile.vectors == 1 => {
            vec![count]
        }
        SKINNY_ROWS if reads_in_place => vec![2, 1],
        // With many rows, a few single ones do not matter.
        EVENED_ROWS if reads_in_place => vec![4, 3, 1],
        // Weights are read again for each tile: six to eight rows, such as those of a batch, are better computed as one
        // tile.
        8.. if reads_in_place => vec![8, 4, 1],
        5.. if reads_in_place => vec![4, 1],
        // Attention may have few rows: one per token.
        5.. if class == Class::Attention => vec![2, 1],
        // Four rows take as long as one.
        5.. if is_product => vec![4],
        _ => vec![1],
    }
}

/// Whether a tile may repeat a row: not if an operand is packed in blocks of rows.
fn may_repeat(kernel: &VerifiedKernel, rows: u32, packs: &[PackSpec]) -> bool {
    let in_blocks =
        |pack: &PackSpec| block_of(pack).is_some_and(|(_, block)| block == rows as usize);
    kernel.classification().class == Class::Contraction && !packs.iter().any(in_blocks)
}

/// Whether results are combined with what is in memory.
fn combines(kernel: &VerifiedKernel) -> bool {
    let mut items = kernel.items().iter().flat_map(Item::parts);
    items.any(|item| matches!(item, Item::Store(store) if store.combine.is_some()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{loops, product};
    use kiln_backend::IsaLevel;

    /// The rows of the usual tile of a product, and its remainder.
    fn remainder_of(rows: &str, role: &str, level: IsaLevel) -> (u32, RowRemainder) {
        let kernel = product(rows, role, "K, 512", "512");
        let nests = loops(&kernel, level).nests;
        let nest = nests.into_iter().next_back().unwrap();
        (nest.tile.rows.map_or(1, |(_, count)| count), nest.remainder)
    }

    #[test]
    fn no_remainder_tile_has_a_row_count_that_the_full_tile_covers() {
        let expected = RowRemainder {
            least: 6,
            rows: vec![4, 1],
            evened_below: 0,
        };
        assert_eq!(remainder_of("M", "const", IsaLevel::Avx512), (8, expected));
    }

    #[test]
    fn six_rows_and_one_are_balanced_to_four_and_three() {
        let expected = RowRemainder {
            least: 6,
            rows: vec![4, 3, 1],
            evened_below: 3,
        };
        assert_eq!(remainder_of("M", "const", IsaLevel::Avx2Fma), (6, expected));
    }

    #[test]
    fn a_constant_row_count_has_one_remainder_tile() {
        let (count, remainder) = remainder_of("29", "const", IsaLevel::Avx2Fma);
        assert_eq!((remainder.least, remainder.rows), (count, vec![29 % count]));
    }

    #[test]
    fn rows_that_are_accumulated_into_are_never_repeated() {
        let kernel = crate::testing::kernel(
            "kernel @mm(%x: in f32[M, K], %y: const f32[K, 512], %o: inout f32[M, 512]) {
               outer m < M, n < 512
               s = reduce add[k < K] %x[m, k] * %y[k, n]
               store add %o[m, n] = s
             }",
        );
        let tile = Tile {
            rows: Some((kernel.outer()[0], 8)),
            ..Tile::scalar()
        };
        let remainder = row_remainder(&kernel, &tile, &[], true);
        assert_eq!((remainder.least, remainder.rows), (8, vec![1]));
    }
}
