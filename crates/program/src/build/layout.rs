//! Layouts: which buffers lie otherwise than row-major, each on its own.

use std::collections::HashMap;

use kiln_kernel::VerifiedKernel;
use kiln_symbolic_shape::DimId;
use smallvec::SmallVec;

use super::Builder;
use crate::ids::BufferId;
use crate::program::Block;

/// Who knows how kernels would rather have their buffers: a backend's schedules.
pub trait LayoutPreferences {
    /// Buffers, by position, and the order of their axes in memory, outermost first.
    fn layouts(&self, kernel: &VerifiedKernel) -> Vec<(usize, Vec<usize>)>;
}

/// Everything row-major.
#[derive(Clone, Copy, Debug, Default)]
pub struct RowMajor;

impl LayoutPreferences for RowMajor {
    fn layouts(&self, _kernel: &VerifiedKernel) -> Vec<(usize, Vec<usize>)> {
        Vec::new()
    }
}

/// Has the operands of a concatenation computed where they will lie.
pub(super) fn concat_in_place(
    _program: &mut Builder<'_>,
    _block: &mut Block,
    _shapes: &mut HashMap<BufferId, SmallVec<[DimId; 4]>>,
) {
}
