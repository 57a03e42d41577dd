//! Tiles: how many points of a kernel are computed at once, and along which axes.

use kiln_kernel::AxisId;

/// The shape of the innermost body.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tile {
    /// Points of one outer axis that are computed together, so that values independent of the axis are shared.
    pub rows: Option<(AxisId, u32)>,
    /// Whether these points are spread over the whole axis, rather than adjacent.
    pub spread: bool,
    /// The vectorised axis.
    pub vector: VectorAxis,
    /// Elements per vector; 1 is scalar code.
    pub lanes: u32,
    /// Vectors per tile: several accumulators, or columns of a register tile.
    pub vectors: u32,
    /// How a partial vector is handled.
    pub tail: Tail,
}

/// The vectorised axis.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum VectorAxis {
    /// No axis.
    #[default]
    None,
    /// One outer axis, throughout the body.
    Outer(AxisId),
    /// The innermost axis of each stage and store, chosen per item.
    Inner,
}

/// How a partial vector is handled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tail {
    /// Element by element.
    #[default]
    Scalar,
    /// By a masked vector.
    Masked,
}

impl Tile {
    /// Plain loops.
    pub(crate) fn scalar() -> Self {
        Self {
            lanes: 1,
            vectors: 1,
            ..Self::default()
        }
    }
}
