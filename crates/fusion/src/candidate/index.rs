//! Index patterns as fusion sees them: which axes each index of a read uses, and how.

use kiln_symbolic_shape::DimId;
use smallvec::SmallVec;

/// A set of axes of a candidate kernel, by bit.
pub(crate) type AxisSet = u128;

/// The maximum number of axes of a candidate: the bits of an [`AxisSet`].
pub(crate) const AXIS_LIMIT: usize = 128;

/// One index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Index {
    /// The only index: the size is 1.
    Unit,
    /// An axis itself.
    Axis(usize),
    /// An axis scaled and shifted by sizes.
    Shifted(usize),
    /// A sum of scaled axes; the empty sum is a fixed position.
    Sum(AxisSet),
    /// An index that needs a division, a bound, or data.
    Computed(AxisSet),
}

/// One index per axis of a value.
pub(crate) type Indices = SmallVec<[Index; 4]>;

impl Index {
    /// The axes it uses.
    pub(crate) fn axes(self) -> AxisSet {
        match self {
            Index::Unit => 0,
            Index::Axis(axis) | Index::Shifted(axis) => 1 << axis,
            Index::Sum(axes) | Index::Computed(axes) => axes,
        }
    }

    /// The same, scaled or shifted.
    pub(crate) fn shifted(self) -> Self {
        match self {
            Index::Unit => Index::Sum(0),
            Index::Axis(axis) => Index::Shifted(axis),
            other => other,
        }
    }

    /// The sum of this and others.
    pub(crate) fn plus(self, axes: AxisSet) -> Self {
        match self {
            Index::Computed(own) => Index::Computed(own | axes),
            other => Index::Sum(other.axes() | axes),
        }
    }

    /// An index that needs more than sums.
    pub(crate) fn computed(self) -> Self {
        Index::Computed(self.axes())
    }
}

/// The axes that indices use.
pub(crate) fn axes_of(indices: &[Index]) -> AxisSet {
    indices.iter().fold(0, |axes, index| axes | index.axes())
}

/// Whether the indices are distinct axes, ignoring sizes of 1: points and elements correspond one to one.
pub(crate) fn is_plain(indices: &[Index]) -> bool {
    let mut seen: AxisSet = 0;
    indices.iter().all(|index| match index {
        Index::Unit => true,
        Index::Axis(axis) => {
            let bit = 1 << axis;
            let new = seen & bit == 0;
            seen |= bit;
            new
        }
        Index::Shifted(_) | Index::Sum(_) | Index::Computed(_) => false,
    })
}

/// An axis of a candidate.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AxisInfo {
    /// Its extent.
    pub(crate) extent: DimId,
}
