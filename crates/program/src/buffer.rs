//! Buffers: the tensors of a block, and where each is placed.
//!
//! Invariants: a view's base comes earlier in the arena and is not a view itself; a buffer in the arena, a result and
//! the output of a step are written by exactly one step, except that views of one base may each be written by their own
//! step.

use kiln_tensor::DType;
use serde::{Deserialize, Serialize};

use crate::ids::{BufferId, ConstantId, SizeId};
use crate::sizes::SizeList;

/// A tensor of a block.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Buffer {
    /// For human readers: the graph's name of the value, or its number.
    pub name: String,
    /// The elements.
    pub dtype: DType,
    /// The sizes, outermost first.
    pub shape: SizeList,
    /// Elements from one index to the next, per axis; `None` is row-major.
    pub strides: Option<SizeList>,
    /// Its place.
    pub place: Place,
}

/// The place of a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Place {
    /// In memory provided by the caller of the block, by the parameter's position: an input, carried or captured.
    Parameter(usize),
    /// In a constant.
    Constant(ConstantId),
    /// In the arena of a segment, in one of its slots.
    Slot {
        /// The segment, by position.
        segment: usize,
        /// The slot, by position.
        slot: usize,
    },
    /// In separate memory, which may outlive the run: a result of the block, or passed to a control step.
    Own,
    /// In memory provided by the step that computes it: a result of a control or interpreted step.
    Brought,
    /// In another buffer's memory.
    View {
        /// The other buffer.
        of: BufferId,
        /// Elements (of this buffer's dtype) from its start.
        offset: SizeId,
    },
}

/// A piece of a segment's arena, used by several buffers one after another. It is as large as the largest of them, and
/// begins after the previous slot, aligned according to [`kiln_tensor::alignment_of`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Slot {
    /// The buffers, none of which is live when another is written.
    pub buffers: Vec<BufferId>,
}
