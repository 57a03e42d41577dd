//! Which constants a tile wants laid out anew: those that are indexed by its rows or its vectors' axis.

use kiln_kernel::{
    AxisId, BufferId, Node, PackAxis, PackSpec, Role, StageOperation, VerifiedKernel,
};

use crate::lower::{Tile, VectorAxis};

/// How each such constant is packed: blocks of rows, or of vectors, innermost.
pub(super) fn specs(kernel: &VerifiedKernel, tile: &Tile) -> Vec<PackSpec> {
    // Vectors along inner axes may run along any axis of a constant: blocks of rows would be cut across.
    let VectorAxis::Outer(vector) = tile.vector else {
        return Vec::new();
    };
    let mut wishes: Vec<(AxisId, u32)> = tile.rows.into_iter().collect();
    wishes.push((vector, tile.lanes * tile.vectors));
    let mut specs = Vec::new();
    for (id, buffer) in kernel.buffers() {
        if buffer.role != Role::Const || buffer.rank() < 2 {
            continue;
        }
        for &(tiled, block) in &wishes {
            let avoided = (tiled != vector).then_some(vector);
            if let Some(axis) = indexed_by(kernel, id, tiled, avoided) {
                let block = block as usize;
                let mut axes = vec![PackAxis::Outer { axis, block }];
                axes.extend(
                    in_loop_order(kernel, id)
                        .into_iter()
                        .filter(|&other| other != axis)
                        .map(PackAxis::Whole),
                );
                axes.push(PackAxis::Inner { axis, block });
                specs.push(PackSpec {
                    buffer: id.as_u32() as usize,
                    axes,
                });
                break;
            }
        }
    }
    specs
}

/// The axes of a buffer in the order in which loops run over them: those that are reduced last, as they are nested.
fn in_loop_order(kernel: &VerifiedKernel, buffer: BufferId) -> Vec<usize> {
    let depth = |axis: &usize| {
        let index = kernel
            .accesses(buffer)
            .find_map(|indices| indices.get(*axis));
        let Some(Node::Axis(index)) = index.map(|&index| kernel.node(index)) else {
            return None;
        };
        kernel
            .stages()
            .values()
            .find_map(|stage| match &stage.operation {
                StageOperation::Reduce { axes, .. } => axes.iter().position(|axis| axis == index),
                StageOperation::Map => None,
            })
    };
    let mut order: Vec<usize> = (0..kernel.buffer(buffer).rank()).collect();
    order.sort_by_key(depth);
    order
}

/// Whether a buffer is a constant that can be laid out so that an outer axis runs through consecutive elements.
pub(super) fn is_packable(kernel: &VerifiedKernel, buffer: BufferId, axis: AxisId) -> bool {
    let data = kernel.buffer(buffer);
    data.role == Role::Const && data.rank() >= 2 && indexed_by(kernel, buffer, axis, None).is_some()
}

/// The axis of a buffer at which every load has exactly this axis of the kernel as its index, and nowhere else; and
/// which no load indexes by the axis to avoid.
fn indexed_by(
    kernel: &VerifiedKernel,
    buffer: BufferId,
    axis: AxisId,
    avoided: Option<AxisId>,
) -> Option<usize> {
    let dependence = crate::lower::Dependence::of(kernel);
    let mut found = None;
    for data in kernel.nodes().values() {
        let Node::Load(load) = &data.node else {
            continue;
        };
        if load.buffer != buffer {
            continue;
        }
        let mut here = None;
        for (position, &index) in load.indices.iter().enumerate() {
            match kernel.node(index) {
                Node::Axis(other) if *other == axis && here.is_none() => here = Some(position),
                _ if dependence.depends(index, axis)
                    || avoided.is_some_and(|avoided| dependence.depends(index, avoided)) =>
                {
                    return None;
                }
                _ => {}
            }
        }
        let here = here?;
        if found.is_some_and(|found| found != here) {
            return None;
        }
        found = Some(here);
    }
    found
}
