//! The memory layout of each operand of a nest, and the stride of each access from point to point.
//!
//! A buffer is used as given, packed ahead, or packed at launch. Accesses of stride 1 are vectorised, so the vectorised axis
//! of each item is chosen here.

use cranelift_entity::SecondaryMap;
use kiln_backend::{PackAxis, PackSpec, Quantity};
use kiln_kernel::analysis::{Dependence, ElementwiseReader, GroupedIndex, elementwise_reader};
use kiln_kernel::{
    AxisId, BufferId, Extent, Item, Load, Node, NodeId, StageId, StageOperation, Store,
    VerifiedKernel,
};
use kiln_tensor::DType;

use crate::cost::movement;
use crate::launch_packing::PackedCopy;
use crate::strides::{buffer_strides, local_strides, packed_strides};
use crate::tile::{Tile, VectorAxis};

/// The layouts of a kernel's operands.
#[derive(Clone, Debug)]
pub struct Layout<'a> {
    kernel: &'a VerifiedKernel,
    dependence: &'a Dependence,
    packs: &'a [PackSpec],
    /// Strides, per buffer axis.
    strides: SecondaryMap<BufferId, Vec<Quantity>>,
}

impl<'a> Layout<'a> {
    /// The layout of a kernel: `packs` are the constants and operands packed in blocks; the other `copies` have whole
    /// axes in a different order.
    pub fn new(
        kernel: &'a VerifiedKernel,
        dependence: &'a Dependence,
        (packs, copies): (&'a [PackSpec], &'a [PackedCopy]),
    ) -> Self {
        let mut strides = SecondaryMap::new();
        for (id, _) in kernel.buffers() {
            strides[id] = buffer_strides(kernel, id);
        }
        for copy in copies.iter().filter(|copy| !copy.is_blocked()) {
            let (packed, _) = packed_strides(kernel, &copy.spec);
            for (axis, stride) in copy.spec.axes.iter().zip(packed) {
                if let PackAxis::Whole(axis) = *axis
                    && let Some(place) = strides[copy.buffer()].get_mut(axis)
                {
                    *place = stride;
                }
            }
        }
        Self {
            kernel,
            dependence,
            packs,
            strides,
        }
    }

    /// Strides, per axis of a buffer that is not packed in blocks.
    pub fn strides(&self, buffer: BufferId) -> &[Quantity] {
        &self.strides[buffer]
    }

    /// The stride along one axis.
    pub fn stride(&self, buffer: BufferId, axis: usize) -> Quantity {
        let stride = self.strides[buffer].get(axis).cloned();
        stride.unwrap_or_else(|| Quantity::constant(0))
    }

    /// How a buffer is packed in blocks, if it is.
    pub fn pack(&self, buffer: BufferId) -> Option<&'a PackSpec> {
        let position = buffer.as_u32() as usize;
        self.packs.iter().find(|pack| pack.buffer == position)
    }

    /// The axis of a packed buffer whose blocks are innermost, groups of a few elements of another axis apart.
    pub fn innermost_of_pack(&self, buffer: BufferId) -> Option<usize> {
        block_of(self.pack(buffer)?).map(|(axis, _)| axis)
    }

    /// The axis of a packed buffer of which this many elements are side by side, within the blocks of another axis.
    pub fn grouped_in_pack(&self, buffer: BufferId, group: usize) -> Option<usize> {
        match self.pack(buffer)?.axes.as_slice() {
            &[.., PackAxis::Inner { .. }, PackAxis::Inner { axis, block }] => {
                (block == group).then_some(axis)
            }
            _ => None,
        }
    }

    /// The terms of an index along an axis packed in groups: the group and the position within it.
    pub fn grouped_by(&self, axis: PackAxis, index: NodeId) -> Option<GroupedIndex> {
        let (PackAxis::Outer { block, .. } | PackAxis::Inner { block, .. }) = axis else {
            return None;
        };
        let grouped = GroupedIndex::of(self.kernel, index)?;
        (grouped.size == block as i64).then_some(grouped)
    }

    /// Whether a load of a packed operand may cross its block: the block of a group need not be a multiple of the vector.
    pub fn may_leave_block(&self, load: &Load) -> bool {
        let innermost = self.pack(load.buffer).and_then(|pack| pack.axes.last());
        innermost.is_some_and(|&innermost| match innermost {
            PackAxis::Inner { axis, .. } => {
                let index = load.indices.get(axis);
                index.is_some_and(|&index| self.grouped_by(innermost, index).is_some())
            }
            PackAxis::Whole(_) | PackAxis::Outer { .. } => false,
        })
    }

    /// The block in which operands are packed along the vectors of a tile, if any are.
    pub fn column_block(&self, tile: &Tile) -> Option<u32> {
        let set = tile.lanes * tile.vectors;
        let is_set =
            |pack: &PackSpec| block_of(pack).is_some_and(|(_, block)| block == set as usize);
        self.packs.iter().any(is_set).then_some(set)
    }

    /// The stride of a load, or of an access to a local, from one index of an axis to the next; `None` if it is not
    /// constant, or leaves its packing block.
    pub fn movement(&self, access: NodeId, axis: AxisId) -> Option<Quantity> {
        let (indices, strides) = match self.kernel.node(access) {
            Node::Load(load) => {
                let is_consecutive = |pack: &PackSpec| !is_grouped(pack);
                if !self.pack(load.buffer).is_none_or(is_consecutive) {
                    return None;
                }
                if let Some(place) = self.innermost_of_pack(load.buffer) {
                    return self.movement_in_pack(&load.indices, place, axis);
                }
                (&load.indices, self.strides(load.buffer).to_vec())
            }
            Node::Local { stage, indices }
            | Node::Previous { stage, indices }
            | Node::Last { stage, indices } => (indices, local_strides(self.kernel, *stage)),
            _ => return None,
        };
        movement(self.kernel, self.dependence, (indices, &strides), axis)
    }

    /// The same for a store.
    pub fn store_movement(&self, store: &Store, axis: AxisId) -> Option<Quantity> {
        let access = (store.indices.as_slice(), self.strides(store.buffer));
        movement(self.kernel, self.dependence, access, axis)
    }

    fn movement_in_pack(
        &self,
        indices: &[NodeId],
        innermost: usize,
        axis: AxisId,
    ) -> Option<Quantity> {
        let mut step = 0;
        for (place, &index) in indices.iter().enumerate() {
            match self.dependence.step_along(self.kernel, index, axis)? {
                0 => {}
                1 if place == innermost => step = 1,
                _ => return None,
            }
        }
        Some(Quantity::constant(step))
    }

    /// The axis of a stage that is best vectorised: one of its own, or a reduced one.
    pub fn stage_vectors(&self, id: StageId) -> Option<AxisId> {
        let stage = self.kernel.stage(id);
        let mut axes: Vec<AxisId> = stage.axes.to_vec();
        if let StageOperation::Reduce { axes: reduced, .. } = &stage.operation {
            axes.extend(reduced.iter().copied());
        }
        self.best_axis(&axes, &[stage.value], None)
    }

    /// The axis of a store that is best vectorised.
    pub fn store_vectors(&self, store: &Store) -> Option<AxisId> {
        let mut nodes = store.indices.to_vec();
        nodes.push(store.value);
        self.best_axis(&store.axes, &nodes, Some(store))
    }

    /// Of some axes, the one with the most contiguous and the fewest scattered accesses.
    fn best_axis(
        &self,
        axes: &[AxisId],
        nodes: &[NodeId],
        store: Option<&Store>,
    ) -> Option<AxisId> {
        let accesses = self.accesses_below(nodes);
        let mut best: Option<(i64, AxisId)> = None;
        for &axis in axes {
            if !matches!(self.kernel.axis(axis).extent, Extent::Size(_)) && store.is_some() {
                continue;
            }
            if self.bounds_others(axis) {
                continue;
            }
            let mut score = 1;
            for &node in &accesses {
                score += match self.movement(node, axis) {
                    Some(step) => match step.as_constant() {
                        Some(0) => 0,
                        Some(1) => 2,
                        _ => -3,
                    },
                    None => -4,
                };
            }
            if let Some(store) = store {
                let step = self.store_movement(store, axis);
                score += match step.and_then(|step| step.as_constant()) {
                    Some(1) => 4,
                    _ => -4,
                };
            }
            if best.is_none_or(|(so_far, _)| score >= so_far) {
                best = Some((score, axis));
            }
        }
        best.map(|(_, axis)| axis)
    }

    /// Whether the extent of another axis depends on the index of this one: lanes would have different trip counts.
    fn bounds_others(&self, axis: AxisId) -> bool {
        self.kernel.axes().values().any(|other| match other.extent {
            Extent::Size(_) => false,
            Extent::Clamped { value, .. } => self.dependence.depends(value, axis),
        })
    }

    /// The loads and locals below some nodes.
    fn accesses_below(&self, nodes: &[NodeId]) -> Vec<NodeId> {
        let is_access = |&node: &NodeId| {
            matches!(
                self.kernel.node(node),
                Node::Load(_) | Node::Local { .. } | Node::Previous { .. } | Node::Last { .. }
            )
        };
        let mut nodes = kiln_kernel::analysis::expression_nodes(self.kernel, nodes);
        nodes.retain(is_access);
        nodes
    }

    /// The map that is fused into the array of a stage, if `next` is one: its loops and lanes are those of the array.
    pub fn fused_map(
        &self,
        filled: StageId,
        next: &Item,
        tile: &Tile,
    ) -> Option<ElementwiseReader> {
        let in_vectors = tile.vector == VectorAxis::Inner && tile.lanes > 1;
        let is_kept_as_computed =
            matches!(self.kernel.stage_dtype(filled), DType::F32 | DType::F64);
        if !in_vectors || !is_kept_as_computed {
            return None;
        }
        let vectors = |stage: StageId| -> Option<usize> {
            let axis = self.stage_vectors(stage)?;
            let axes = &self.kernel.stage(stage).axes;
            axes.iter().position(|&own| own == axis)
        };
        let reader = elementwise_reader(self.kernel, self.dependence, filled, next)?;
        let place = vectors(filled)?;
        (vectors(reader.stage) == Some(place)).then_some(reader)
    }
}

/// The axis whose blocks are innermost in a packed array, and their size; within them, there may be groups of a few
/// elements of another axis.
pub(crate) fn block_of(pack: &PackSpec) -> Option<(usize, usize)> {
    let mut inner = pack.axes.iter().rev().map_while(|axis| match *axis {
        PackAxis::Inner { axis, block } => Some((axis, block)),
        _ => None,
    });
    let innermost = inner.next()?;
    Some(inner.next().unwrap_or(innermost))
}

/// Whether groups of a few elements of another axis are within the innermost blocks.
fn is_grouped(pack: &PackSpec) -> bool {
    matches!(
        pack.axes.as_slice(),
        [.., PackAxis::Inner { .. }, PackAxis::Inner { .. }]
    )
}
