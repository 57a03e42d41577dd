//! Row kernels over more rows than the second-level cache holds: one row at a time.
//!
//! With vectors as long as cache lines, a layer norm over 64 MB ran at 38 GB/s this way, instead of 27 GB/s with
//! several rows at once. In the caches, where several rows hide each other's latency, it is 54 GB/s instead of 66 GB/s.

use super::Proposal;
use super::problem::Problem;
use crate::loops::{Factor, When};
use crate::tile::Tile;

/// Bytes of a cache line.
const LINE: u32 = 64;

pub(super) fn propose(problem: &Problem<'_>) -> Vec<Proposal> {
    let base = &problem.base.tile;
    let suits = base.rows.is_some()
        && base.spread
        && problem.level.vector_bytes() >= LINE
        && !problem.only_reads()
        && problem.waits_for_memory();
    if !suits {
        return Vec::new();
    }
    let tile = Tile {
        rows: None,
        spread: false,
        ..*base
    };
    let when = When::below(Factor::Cache(2), Factor::Results);
    vec![Proposal::new(when, tile, problem.base.chunk)]
}
