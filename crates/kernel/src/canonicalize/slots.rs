//! The places in a kernel that contain a size: axes of buffers, strides, extents, sizes used as numbers.

use kiln_symbolic_shape::DimId;

use crate::form::{AxisId, BufferId, Extent, Item, Kernel, Node, NodeId, StageOperation};

/// A place that holds a size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Slot {
    /// An axis of a buffer.
    Shape(BufferId, usize),
    /// A stride of a buffer.
    Stride(BufferId, usize),
    /// The extent of an axis, or its bound.
    Extent(AxisId),
    /// A size in an expression.
    Number(NodeId),
}

/// Every place, buffers first, in a fixed order.
pub(crate) fn slots(kernel: &Kernel) -> Vec<(Slot, DimId)> {
    let mut found = Vec::new();
    for (id, buffer) in kernel.buffers() {
        let shape = buffer.shape.iter().enumerate();
        found.extend(shape.map(|(place, &dim)| (Slot::Shape(id, place), dim)));
    }
    for (id, buffer) in kernel.buffers() {
        let strides = buffer.strides.iter().flatten().enumerate();
        found.extend(strides.map(|(place, &dim)| (Slot::Stride(id, place), dim)));
    }
    for id in bound_axes(kernel) {
        found.push((Slot::Extent(id), kernel.axis(id).extent.bound()));
    }
    for node in crate::verify::used_nodes(kernel) {
        if let Node::Size(dim) = kernel.node(node) {
            found.push((Slot::Number(node), *dim));
        }
    }
    found
}

/// The axes over which some item runs, in the order of the items; others are leftovers from building.
fn bound_axes(kernel: &Kernel) -> Vec<AxisId> {
    let mut found = kernel.outer().to_vec();
    for item in kernel.items() {
        match item {
            Item::Carry(carry) => {
                found.push(carry.axis);
                carry
                    .items
                    .iter()
                    .for_each(|item| of_item(kernel, item, &mut found));
            }
            item => of_item(kernel, item, &mut found),
        }
    }
    found
}

fn of_item(kernel: &Kernel, item: &Item, found: &mut Vec<AxisId>) {
    match item {
        Item::Stage(id) => {
            let stage = kernel.stage(*id);
            found.extend(&stage.axes);
            if let StageOperation::Reduce { axes, .. } = &stage.operation {
                found.extend(axes);
            }
        }
        Item::Store(store) => found.extend(&store.axes),
        Item::Carry(_) => {}
    }
}

/// Replaces the size in a place.
pub(crate) fn put(kernel: &mut Kernel, slot: Slot, dim: DimId) {
    match slot {
        Slot::Shape(buffer, place) => kernel.buffers[buffer].shape[place] = dim,
        Slot::Stride(buffer, place) => {
            if let Some(strides) = &mut kernel.buffers[buffer].strides {
                strides[place] = dim;
            }
        }
        Slot::Extent(axis) => match &mut kernel.axes[axis].extent {
            Extent::Size(size) => *size = dim,
            Extent::Clamped { bound, .. } => *bound = dim,
        },
        Slot::Number(node) => kernel.nodes[node].node = Node::Size(dim),
    }
}
