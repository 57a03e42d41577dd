//! How many points of a kernel the generated code computes at once, and along which axes.

use kiln_kernel::AxisId;

/// The shape of the innermost body.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tile {
    /// Points of one outer axis that are computed together, so that what does not depend on them is shared.
    pub rows: Option<(AxisId, u32)>,
    /// Whether these points lie as far apart as the axis allows, instead of next to each other.
    pub spread: bool,
    /// What vectors run along.
    pub vector: VectorAxis,
    /// Elements per vector; 1 is scalar code.
    pub lanes: u32,
    /// Vectors side by side: several accumulators, or columns of a register tile.
    pub vectors: u32,
    /// What becomes of the elements that fill no vector.
    pub tail: Tail,
}

/// What vectors run along.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum VectorAxis {
    /// Nothing.
    #[default]
    None,
    /// One outer axis, throughout the body.
    Outer(AxisId),
    /// The innermost axis of each stage and store, as suits it.
    Inner,
}

/// What becomes of the elements that fill no vector.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tail {
    /// One at a time.
    #[default]
    Scalar,
    /// A last vector with lanes masked off.
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
