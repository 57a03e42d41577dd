//! The position in the loop nest at which code is emitted: bound axes, the tile, and values already computed.
//!
//! The scope of a loop starts as a copy of the enclosing one, so values computed outside are used inside but not vice
//! versa: the values of a scope dominate the code emitted with it.

use std::cell::RefCell;
use std::collections::HashMap;

use kiln_backend::Quantity;
use kiln_kernel::{AxisId, NodeId, StageId};
use kiln_tensor::DType;

use crate::emit::Value;

/// A point of the tile: its row and its vector.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Coordinate {
    pub(crate) row: u32,
    pub(crate) vector: u32,
}

/// The elements of a vector that are needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Form {
    /// All of them, as a vector; a uniform value stays a scalar.
    Lanes,
    /// The first lane, as a scalar.
    First,
}

/// Points of an outer axis computed together.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rows<'ctx> {
    pub(crate) axis: AxisId,
    pub(crate) count: u32,
    /// The first index.
    pub(crate) base: Value<'ctx>,
    /// Whether they are spread over the whole axis, rather than adjacent.
    pub(crate) spread: bool,
    /// The offset of the first index from the tile's first.
    pub(crate) offset: Value<'ctx>,
    /// Set if fewer rows than the tile's may remain.
    pub(crate) repeats: Option<Repeats<'ctx>>,
    /// `base` divided by the block in which constants are packed, and the block.
    pub(crate) block: Option<(Value<'ctx>, u32)>,
}

/// For rows of a tile past the end: they are the last row, computed and stored again.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Repeats<'ctx> {
    /// The first that may be past the end.
    pub(crate) from: u32,
    /// The offset of the last existing row from the tile's first.
    pub(crate) last: Value<'ctx>,
}

/// Vectors along an axis.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Vectors<'ctx> {
    pub(crate) axis: AxisId,
    pub(crate) lanes: u32,
    pub(crate) count: u32,
    /// The first index.
    pub(crate) base: Value<'ctx>,
    /// The number of elements in range, starting with the first, unless all are.
    pub(crate) left: Option<Remainder<'ctx>>,
    /// `base` divided by the block in which constants are packed, and the block.
    pub(crate) block: Option<(Value<'ctx>, u32)>,
}

/// The remainder of an axis, possibly fewer elements than lanes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Remainder<'ctx> {
    /// Elements in range.
    pub(crate) elements: Value<'ctx>,
    /// The number of vectors in which all lanes are in range.
    pub(crate) full: u32,
}

/// The place of a stage's local.
#[derive(Clone, Debug)]
pub(crate) enum Place<'ctx> {
    /// A scalar local, in registers: one per point of the tile on which it depends.
    Registers(HashMap<Coordinate, Value<'ctx>>),
    /// A scalar local, in memory for every row: one element, or a vector of lanes, per vector of the tile.
    Spilled {
        base: Value<'ctx>,
        lanes: u32,
        vectors: u32,
    },
    /// An array.
    Memory(Array<'ctx>),
}

/// An array in memory.
#[derive(Clone, Debug)]
pub(crate) struct Array<'ctx> {
    pub(crate) base: Value<'ctx>,
    pub(crate) dtype: DType,
    /// Strides, per axis.
    pub(crate) strides: Vec<Quantity>,
    /// The stride from one row of the tile to the next; 0 if all rows share it.
    pub(crate) row_stride: Quantity,
    /// Lanes per element: 1, or those of each vector of the tile, one vector after the other, if the array differs along
    /// them.
    pub(crate) lanes: u32,
}

/// Which value of a stage: that of the current or previous step, or the last one of a finished block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum StageValue {
    Current,
    Previous,
    Last,
}

/// The range of a reduced axis that is iterated.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AxisRange<'ctx> {
    pub(crate) axis: AxisId,
    pub(crate) begin: Value<'ctx>,
    pub(crate) end: Value<'ctx>,
}

/// A position in the nest.
#[derive(Clone, Debug, Default)]
pub(crate) struct Scope<'ctx> {
    axes: HashMap<AxisId, Value<'ctx>>,
    pub(crate) rows: Option<Rows<'ctx>>,
    pub(crate) vectors: Option<Vectors<'ctx>>,
    places: HashMap<(StageId, StageValue), Place<'ctx>>,
    /// Indices of loads that are in bounds at every point of the tile, although not proved so for all points.
    inside: Vec<(NodeId, usize)>,
    /// Loads that are out of bounds at every point of the tile.
    outside: Vec<NodeId>,
    non_temporal: bool,
    range: Option<AxisRange<'ctx>>,
    /// Conditions of selects that are the same at every point of the tile.
    choices: Vec<(NodeId, bool)>,
    pub(crate) known: RefCell<HashMap<(NodeId, Coordinate, Form), Value<'ctx>>>,
}

impl<'ctx> Scope<'ctx> {
    /// The scope with an axis bound to an index.
    pub(crate) fn with_axis(&self, axis: AxisId, index: Value<'ctx>) -> Self {
        let mut scope = self.clone();
        scope.axes.insert(axis, index);
        scope
    }

    /// The scope before any loop over an inner axis, with nothing known.
    pub(crate) fn outside_of_loops(&self, outer: &[AxisId]) -> Self {
        let mut scope = self.clone();
        scope.axes.retain(|axis, _| outer.contains(axis));
        scope.known.get_mut().clear();
        scope
    }

    /// The scope in which a range of an axis is iterated.
    pub(crate) fn with_axis_range(&self, range: AxisRange<'ctx>) -> Self {
        let mut scope = self.clone();
        scope.range = Some(range);
        scope
    }

    /// The range of an axis that is iterated: its first index, and one past its last.
    pub(crate) fn axis_range(&self, axis: AxisId) -> Option<(Value<'ctx>, Value<'ctx>)> {
        let range = self.range.filter(|range| range.axis == axis)?;
        Some((range.begin, range.end))
    }

    /// Whether a range of one of some axes is iterated.
    pub(crate) fn has_range_of(&self, axes: &[AxisId]) -> bool {
        self.range.is_some_and(|range| axes.contains(&range.axis))
    }

    /// The scope with rows. Known values are kept if `keep` says that they are the same in other rows.
    pub(crate) fn with_rows(&self, rows: Rows<'ctx>, keep: impl Fn(NodeId) -> bool) -> Self {
        let mut scope = self.clone();
        scope.rows = Some(rows);
        let stale = kiln_kernel::seeded::is_on(kiln_kernel::seeded::Fault::StaleRowValue);
        scope
            .known
            .get_mut()
            .retain(|(node, ..), _| stale || keep(*node));
        scope
    }

    /// The scope with vectors.
    pub(crate) fn with_vectors(&self, vectors: Vectors<'ctx>) -> Self {
        let mut scope = self.clone();
        scope.vectors = Some(vectors);
        scope
    }

    /// The scope in which some indices of loads are known to be in bounds.
    pub(crate) fn with_inside(&self, inside: impl IntoIterator<Item = (NodeId, usize)>) -> Self {
        let mut scope = self.clone();
        scope.inside.extend(inside);
        scope
    }

    /// The scope in which some loads are known to be out of bounds.
    pub(crate) fn with_outside(&self, outside: impl IntoIterator<Item = NodeId>) -> Self {
        let mut scope = self.clone();
        scope.outside.extend(outside);
        scope
    }

    /// The scope in which a condition is known.
    pub(crate) fn with_choice(&self, condition: NodeId, is_true: bool) -> Self {
        let mut scope = self.clone();
        scope.choices.push((condition, is_true));
        scope
    }

    /// Whether a condition holds at every point of the tile, or at none; `None` if that is unknown.
    pub(crate) fn choice(&self, condition: NodeId) -> Option<bool> {
        let mut choices = self.choices.iter();
        let choice = choices.find(|(known, _)| *known == condition);
        choice.map(|&(_, is_true)| is_true)
    }

    /// Whether any condition is known.
    pub(crate) fn has_choices(&self) -> bool {
        !self.choices.is_empty()
    }

    /// The scope in which stores are non-temporal.
    pub(crate) fn non_temporal(&self) -> Self {
        let mut scope = self.clone();
        scope.non_temporal = true;
        scope
    }

    /// Whether stores are non-temporal.
    pub(crate) fn is_non_temporal(&self) -> bool {
        self.non_temporal
    }

    /// Whether an index of a load is in bounds at every point of the tile.
    pub(crate) fn is_inside(&self, load: NodeId, axis: usize) -> bool {
        self.inside.contains(&(load, axis))
    }

    /// Whether a load is out of bounds at every point of the tile.
    pub(crate) fn is_outside(&self, load: NodeId) -> bool {
        self.outside.contains(&load)
    }

    /// The index an axis is bound to, except rows and vectors.
    pub(crate) fn axis(&self, axis: AxisId) -> Option<Value<'ctx>> {
        self.axes.get(&axis).copied()
    }

    /// Records the place of a stage's local.
    pub(crate) fn place(&mut self, stage: StageId, moment: StageValue, place: Place<'ctx>) {
        self.places.insert((stage, moment), place);
    }

    /// The place of a stage's local.
    pub(crate) fn placed(&self, stage: StageId, moment: StageValue) -> Option<&Place<'ctx>> {
        self.places.get(&(stage, moment))
    }

    /// The points of the tile, rows outermost.
    pub(crate) fn coordinates(&self) -> Vec<Coordinate> {
        let rows = self.rows.map_or(1, |rows| rows.count);
        let vectors = self.vectors.map_or(1, |vectors| vectors.count);
        (0..rows)
            .flat_map(|row| (0..vectors).map(move |vector| Coordinate { row, vector }))
            .collect()
    }
}
