//! The table of every size that a program needs at run time: shapes, strides, offsets, kernels' symbols.
//!
//! A launch plan evaluates them together; the rest of a program refers to them by [`SizeId`].

use std::collections::HashMap;

use cranelift_entity::PrimaryMap;
use kiln_symbolic_shape::DimId;
use smallvec::SmallVec;

use crate::ids::SizeId;

/// Sizes, one per axis.
pub type SizeList = SmallVec<[SizeId; 4]>;

/// The sizes of a program: expressions of its graph's table, without known duplicates.
#[derive(Clone, Debug, Default)]
pub struct SizeTable {
    dims: PrimaryMap<SizeId, DimId>,
    ids: HashMap<DimId, SizeId>,
}

impl SizeTable {
    /// The id of a size, which is added if it is new.
    pub(crate) fn intern(&mut self, dim: DimId) -> SizeId {
        let dims = &mut self.dims;
        *self.ids.entry(dim).or_insert_with(|| dims.push(dim))
    }

    /// Adds a size while loading. Two sizes that were different when they were written may now be equal to the prover; each
    /// keeps its id.
    pub(crate) fn push(&mut self, dim: DimId) -> SizeId {
        let id = self.dims.push(dim);
        self.ids.entry(dim).or_insert(id);
        id
    }

    /// The ids of sizes.
    pub(crate) fn intern_all(&mut self, dims: &[DimId]) -> SizeList {
        dims.iter().map(|&dim| self.intern(dim)).collect()
    }

    /// The expression of a size, in the table of the program's graph.
    pub fn dim(&self, size: SizeId) -> DimId {
        self.dims[size]
    }

    /// The number of sizes.
    pub fn len(&self) -> usize {
        self.dims.len()
    }

    /// Whether there are no sizes.
    pub fn is_empty(&self) -> bool {
        self.dims.is_empty()
    }

    /// Every size with its expression, in the order of ids.
    pub fn iter(&self) -> impl Iterator<Item = (SizeId, DimId)> + '_ {
        self.dims.iter().map(|(id, &dim)| (id, dim))
    }
}
