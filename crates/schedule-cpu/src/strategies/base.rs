//! The tile of a kernel at sizes that no special strategy takes.

use kiln_kernel::AxisId;

use crate::tile::Tile;

/// The usual tile of a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Base {
    /// Which kind of kernel it is for.
    pub(super) kind: Kind,
    /// The tile.
    pub(super) tile: Tile,
    /// Elements of a vectorised outer axis per unit of work.
    pub(super) chunk: u32,
    /// An axis that serves for rows as well as the tile's, for sizes at which that has too few points.
    pub(super) other_rows: Option<AxisId>,
}

/// The kinds of kernels, by what bounds them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Plain loops.
    Fallback,
    /// Points that depend on each other.
    Scan,
    /// No reduction.
    Map,
    /// No reduction, and an operand that is contiguous across the vectors.
    Transpose,
    /// Windows that slide along the rows, with an element per lane.
    SlidingWindow,
    /// Products whose operands rows share.
    Contraction,
    /// Other reductions.
    Reduction,
}
