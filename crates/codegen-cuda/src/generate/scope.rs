//! The scope at a point of the generated code: indices of axes, values of stages, and nodes already computed.
//!
//! A scope belongs to a block of the C text: an inner block has a clone of it, so that a name is never used where it is
//! not declared. Along at most one axis, the code computes several consecutive points at once, the *lanes*.

use std::collections::HashMap;

use kiln_kernel::{AxisId, NodeId, StageId};

/// Consecutive points of one axis, computed by one thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Lanes {
    pub(super) axis: AxisId,
    pub(super) count: u32,
    /// Whether accesses at the axis itself are known to be aligned, so that they are one instruction each.
    pub(super) is_aligned: bool,
}

/// Selects a value of a stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum When {
    /// At this point, or in this step.
    Current,
    /// After the previous step of its block.
    Previous,
    /// At the end of its block.
    Last,
}

/// The place of the value of a stage.
#[derive(Clone, Debug)]
pub(super) enum Place {
    /// In variables: one per lane, or a single one.
    Values(Vec<String>),
    /// In memory.
    Array(Array),
}

/// An array over the axes of a stage, row-major.
#[derive(Clone, Debug)]
pub(super) struct Array {
    /// The address of its first element, of the stage's C type.
    pub(super) base: String,
    /// The distance of its elements: 1, or the number of threads whose arrays are interleaved.
    pub(super) step: Option<String>,
    /// The extents of the axes except the first, in C.
    pub(super) extents: Vec<String>,
}

/// A scope.
#[derive(Clone, Debug, Default)]
pub(super) struct Scope {
    axes: HashMap<AxisId, String>,
    places: HashMap<(StageId, When), Place>,
    known: HashMap<(NodeId, u32), String>,
    pub(super) lanes: Option<Lanes>,
}

impl Scope {
    /// An inner scope in which an axis has an index.
    pub(super) fn with_axis(&self, axis: AxisId, index: String) -> Self {
        let mut inner = self.clone();
        inner.axes.insert(axis, index);
        inner
    }

    /// An inner scope with lanes along an axis, whose first index is known.
    pub(super) fn with_lanes(&self, lanes: Lanes, first: String) -> Self {
        let mut inner = self.with_axis(lanes.axis, first);
        inner.lanes = Some(lanes);
        inner
    }

    /// Sets the index of an axis.
    pub(super) fn set_axis(&mut self, axis: AxisId, index: String) {
        self.axes.insert(axis, index);
    }

    /// The index of an axis: of its first lane, if lanes are along it.
    pub(super) fn axis(&self, axis: AxisId) -> &str {
        match self.axes.get(&axis) {
            Some(index) => index,
            None => unreachable!("the verifier accepts axes in scope alone"),
        }
    }

    /// Sets the place of a stage's value.
    pub(super) fn place(&mut self, stage: StageId, when: When, place: Place) {
        self.places.insert((stage, when), place);
    }

    /// The place of a stage's value.
    pub(super) fn place_of(&self, stage: StageId, when: When) -> &Place {
        match self.places.get(&(stage, when)) {
            Some(place) => place,
            None => unreachable!("the verifier accepts stages in scope alone"),
        }
    }

    /// The variable with the value of a node in a lane, if it was computed.
    pub(super) fn known(&self, node: NodeId, lane: u32) -> Option<&String> {
        self.known.get(&(node, lane))
    }

    /// Records a node's variable.
    pub(super) fn learn(&mut self, node: NodeId, lane: u32, name: String) {
        self.known.insert((node, lane), name);
    }

    /// Forgets the computed values, because they may change from here on.
    pub(super) fn forget(&mut self) {
        self.known.clear();
    }
}
