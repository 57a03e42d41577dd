//! Strategies: ways to arrange a kernel's loops, each for the kernels and sizes that suit it.
//!
//! A strategy is a file that proposes a register tile, the packing of operands, and the sizes it is for. [`STRATEGIES`] is
//! the table of them. A kernel whose sizes are symbols has one artifact, yet no tile suits both GEMM and GEMV: the
//! proposals of all strategies become the nests of the kernel, and a launch runs the first whose condition on sizes holds.
//! Sizes alone decide, never the number of threads.
//!
//! To add a strategy, write a file with a `propose` function and add a line to the table, before those that would handle
//! its sizes.

mod column_reduction;
mod dot_products;
mod fallback;
mod gemv;
mod half_vectors;
mod map;
mod one_row;
mod other_rows;
mod packed_gemm;
mod problem;
mod reduction;
mod rows;
mod scan;
mod skinny_gemm;
mod split_reduction;
mod strided_rows;
mod transpose;
mod usual;
mod winograd;

#[cfg(test)]
mod tests;

use kiln_backend::PackSpec;

use crate::annotate::annotate;
use crate::launch_packing;
use crate::loops::{LoopNest, Loops, When};
use crate::row_remainder::row_remainder;
use crate::tables::permutes;
use crate::tile::{Tile, VectorAxis};
use crate::tile_order::columns_first;
use crate::winograd::Transform;

pub(crate) use problem::Problem;
pub(crate) use skinny_gemm::SKINNY_ROWS;

/// The strategies, in the order in which launches try them.
const STRATEGIES: &[Strategy] = &[
    Strategy::new("split_reduction", split_reduction::propose),
    Strategy::new("winograd", winograd::propose),
    Strategy::new("one_row", one_row::propose),
    Strategy::new("other_rows", other_rows::propose),
    Strategy::new("dot_products", dot_products::propose_narrow),
    Strategy::new("half_vectors", half_vectors::propose),
    Strategy::new("gemv", gemv::propose),
    Strategy::new("skinny_gemm", skinny_gemm::propose),
    Strategy::new("packed_gemm", packed_gemm::propose).usual(),
    Strategy::new("dot_products", dot_products::propose),
    Strategy::new("scan", scan::propose),
    Strategy::new("transpose", transpose::propose).usual(),
    Strategy::new("short_rows", transpose::propose_short),
    Strategy::new("gathered_rows", transpose::propose_gathered),
    Strategy::new("map", map::propose),
    Strategy::new("sliding_window", reduction::propose_sliding_window).usual(),
    Strategy::new("contraction", reduction::propose_contraction).usual(),
    Strategy::new("column_reduction", column_reduction::propose),
    Strategy::new("strided_rows", strided_rows::propose),
    Strategy::new("reduction", reduction::propose).usual(),
    Strategy::new("fallback", fallback::propose),
];

/// A way to arrange loops.
struct Strategy {
    name: &'static str,
    propose: fn(&Problem<'_>) -> Vec<Proposal>,
    /// Whether its tile is the kernel's usual one.
    is_usual: bool,
}

/// A proposal of a strategy.
#[derive(Clone, Debug)]
struct Proposal {
    /// The sizes it is for.
    when: When,
    /// The register tile.
    tile: Tile,
    /// Elements of a vectorised outer axis per unit of work.
    chunk: u32,
    /// How operands other than constants are packed at each launch.
    copies: Vec<PackSpec>,
    /// The Winograd transform.
    winograd: Option<Transform>,
    /// Whether reductions to few results are split.
    split_reductions: bool,
    /// The number of values that are tabulated.
    tables: u32,
}

impl Strategy {
    const fn new(name: &'static str, propose: fn(&Problem<'_>) -> Vec<Proposal>) -> Self {
        Self {
            name,
            propose,
            is_usual: false,
        }
    }

    /// One whose tile is the kernel's usual one.
    const fn usual(self) -> Self {
        Self {
            is_usual: true,
            ..self
        }
    }
}

impl Proposal {
    /// A tile for some sizes.
    fn new(when: When, tile: Tile, chunk: u32) -> Self {
        Self {
            when,
            tile,
            chunk,
            copies: Vec::new(),
            winograd: None,
            split_reductions: false,
            tables: 0,
        }
    }

    /// With operands packed at each launch.
    fn packing(self, copies: Vec<PackSpec>) -> Self {
        Self { copies, ..self }
    }
}

/// The nests of a kernel.
pub(crate) fn loops(problem: &Problem<'_>) -> Loops {
    let mut nests = Vec::new();
    'table: for strategy in STRATEGIES {
        for proposal in (strategy.propose)(problem) {
            let when = proposal.when.clone().simplified(problem.kernel);
            if when.is_never() {
                continue;
            }
            let takes_the_rest = when.is_always();
            nests.push(nest(problem, strategy.name, when, proposal));
            if takes_the_rest {
                break 'table;
            }
        }
    }
    Loops {
        packs: problem.packs.clone(),
        nests,
    }
}

/// A kernel's usual tile.
pub(crate) fn usual_tile(loops: &Loops) -> Option<Tile> {
    let is_usual = |nest: &&LoopNest| {
        let mut usual = STRATEGIES.iter().filter(|strategy| strategy.is_usual);
        usual.any(|strategy| strategy.name == nest.strategy)
    };
    loops.nests.iter().rfind(is_usual).map(|nest| nest.tile)
}

fn nest(problem: &Problem<'_>, strategy: &str, when: When, proposal: Proposal) -> LoopNest {
    let (kernel, tile) = (problem.kernel, proposal.tile);
    let (copies, _) = launch_packing::place(kernel, proposal.copies.clone());
    let packs = launch_packing::with_blocked(&problem.packs, &copies);
    let mut nest = LoopNest {
        when,
        tile,
        chunk: match tile.vector {
            VectorAxis::Outer(_) => proposal.chunk,
            _ => 1,
        },
        columns_first: columns_first(kernel, problem.level, &tile, &problem.packs)
            .simplified(kernel),
        remainder: row_remainder(kernel, &tile, &packs, copies.is_empty()),
        copies: proposal.copies,
        winograd: proposal.winograd,
        split_reductions: proposal.split_reductions,
        tables: proposal.tables,
        windows: proposal.tables != 0 && permutes(problem.level, tile.lanes),
        ..LoopNest::new(strategy, 0)
    };
    annotate(
        kernel,
        &problem.dependence,
        problem.level,
        &problem.packs,
        &mut nest,
    );
    nest
}
