//! The operands that a tile reads packed: those indexed by its rows or by its vectorised axis (Goto and van de Geijn,
//! "Anatomy of high-performance matrix multiplication", 2008).
//!
//! Constants are packed once, when the kernel is loaded; other operands are packed by a phase of each launch, if each
//! of their elements is used often enough.

use kiln_backend::{IsaLevel, PackAxis, PackSpec};
use kiln_kernel::analysis::{Dependence, GroupedIndex, is_multiple};
use kiln_kernel::{
    AxisId, BufferId, Load, Node, NodeId, Role, StageId, StageOperation, VerifiedKernel,
};
use kiln_scalar::ScalarOp;
use kiln_tensor::DType;

use super::narrow_products::{sums_fours, sums_pairs};
use super::scaled_bytes::sums_scaled_fours;
use super::tile::{Tile, VectorAxis};

/// Steps of a reduced axis whose products of bytes are summed at once.
pub(super) const FOURS: usize = 4;

/// Steps of a reduced axis whose products of bf16 are summed at once.
const PAIRS: usize = 2;

/// The row count from which on packing a shared operand at each launch pays if vectors could not read it in place.
pub(super) const SCATTERED_ROWS: u32 = 12;

/// How each constant is packed: blocks of rows, or of vectors, innermost.
pub(super) fn specs(
    kernel: &VerifiedKernel,
    (dependence, level): (&Dependence, IsaLevel),
    tile: &Tile,
) -> Vec<PackSpec> {
    // Vectors along inner axes may run along any axis of a constant, and blocks of rows would split them.
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
            if let Some(place) = indexed_by(kernel, id, tiled, avoided) {
                // Groups are separate blocks, for any tile.
                let block = place.group.unwrap_or(block);
                let grouped = match tiled == vector && place.group.is_none() {
                    true => read_in_groups(kernel, (dependence, level), (id, vector)),
                    false => None,
                };
                let blocks = in_blocks(kernel, id, place.axis, block);
                specs.push(match grouped {
                    Some((axis, size)) => in_groups(blocks, axis, size),
                    None => blocks,
                });
                break;
            }
        }
    }
    specs
}

/// How other operands shared by all rows of a tile are packed at launch: blocks of vectors innermost.
pub(super) fn copies(kernel: &VerifiedKernel, tile: &Tile) -> Vec<PackSpec> {
    let Some((rows, _)) = tile.rows else {
        return Vec::new();
    };
    let block = tile.lanes * tile.vectors;
    let packed = |buffer, vector| {
        let place = indexed_by(kernel, buffer, vector, Some(rows))?;
        Some(in_blocks(kernel, buffer, place.whole()?, block))
    };
    match tile.vector {
        VectorAxis::None => Vec::new(),
        VectorAxis::Outer(vector) => factors(kernel)
            .into_iter()
            .filter_map(|(_, buffer)| packed(buffer, vector))
            .collect(),
        // An array of products is best vectorised along itself, once its operand is packed for that.
        VectorAxis::Inner => factors(kernel)
            .into_iter()
            .filter_map(|(stage, buffer)| packed(buffer, *kernel.stage(stage).axes.last()?))
            .filter(|spec| !are_dense(kernel, std::slice::from_ref(spec)))
            .collect(),
    }
}

/// How other operands are packed at launch whose elements a tile's rows share, and which are read across their rows: each
/// step of the reduced axis is in another line, and often in another page. Blocks of rows are innermost.
pub(super) fn row_copies(kernel: &VerifiedKernel, tile: &Tile) -> Vec<PackSpec> {
    let (Some((rows, count)), VectorAxis::Outer(vector), Some(reduced)) =
        (tile.rows, tile.vector, reduced(kernel))
    else {
        return Vec::new();
    };
    let packed = |buffer: BufferId| {
        let axis = indexed_by(kernel, buffer, rows, Some(vector))?.whole()?;
        let along = indexed_by(kernel, buffer, reduced, None)?.whole()?;
        let is_apart = along + 1 != kernel.buffer(buffer).rank();
        is_apart.then(|| in_blocks(kernel, buffer, axis, count))
    };
    let factors = factors(kernel).into_iter();
    factors.filter_map(|(_, buffer)| packed(buffer)).collect()
}

/// Whether the packed blocks would be contiguous without packing.
pub(super) fn are_dense(kernel: &VerifiedKernel, specs: &[PackSpec]) -> bool {
    specs.iter().all(|spec| {
        let buffer = kernel.buffer(BufferId::from_u32(spec.buffer as u32));
        let innermost = match spec.axes.last() {
            Some(PackAxis::Inner { axis, .. } | PackAxis::Whole(axis)) => axis + 1 == buffer.rank(),
            _ => true,
        };
        innermost && buffer.strides.is_none()
    })
}

/// How operands shared by all rows are packed for vectors along the reduced axis, unless they are contiguous along it
/// already. `None` if one cannot be packed.
pub(super) fn along_reduced(kernel: &VerifiedKernel, rows: AxisId) -> Option<Vec<PackSpec>> {
    let reduced = reduced(kernel)?;
    let mut copies = Vec::new();
    for (_, buffer) in factors(kernel) {
        let axis = indexed_by(kernel, buffer, reduced, None)?.whole()?;
        let rank = kernel.buffer(buffer).rank();
        if axis + 1 == rank && kernel.buffer(buffer).strides.is_none() {
            continue;
        }
        indexed_by(kernel, buffer, reduced, Some(rows))?;
        let others = (0..rank).filter(|&other| other != axis);
        let axes = others.chain([axis]).map(PackAxis::Whole).collect();
        copies.push(PackSpec {
            buffer: buffer.as_u32() as usize,
            axes,
        });
    }
    Some(copies)
}

/// The reduced axis of a kernel's only contraction.
pub(super) fn reduced(kernel: &VerifiedKernel) -> Option<AxisId> {
    let [contraction] = kernel.classification().contractions.as_slice() else {
        return None;
    };
    match &kernel.stage(contraction.stage).operation {
        StageOperation::Reduce { axes, .. } => match axes.as_slice() {
            &[axis] => Some(axis),
            _ => None,
        },
        StageOperation::Map => None,
    }
}

/// The operands, other than constants, that are read only by products, with the stage that sums the products.
fn factors(kernel: &VerifiedKernel) -> Vec<(StageId, BufferId)> {
    let mut factors = Vec::new();
    for contraction in &kernel.classification().contractions {
        for factor in [contraction.left, contraction.right] {
            if let Some(load) = loaded(kernel, factor) {
                let buffer = kernel.buffer(load.buffer);
                let is_plain = load.guard.is_none()
                    && buffer.role == Role::In
                    && buffer.rank() > 1
                    && buffer.dtype.is_float()
                    && kernel.accesses(load.buffer).count() == 1;
                if is_plain {
                    factors.push((contraction.stage, load.buffer));
                }
            }
        }
    }
    factors
}

/// The load that a factor is, or that it widens.
fn loaded(kernel: &VerifiedKernel, factor: NodeId) -> Option<&Load> {
    match kernel.node(factor) {
        Node::Load(load) => Some(load),
        Node::Apply {
            op: ScalarOp::Cast(DType::F32),
            operands,
        } => match (operands.as_slice(), kernel.dtype(*operands.first()?)) {
            (&[narrow], DType::F16 | DType::BF16) => match kernel.node(narrow) {
                Node::Load(load) => Some(load),
                _ => None,
            },
            _ => None,
        },
        _ => None,
    }
}

/// Whether a buffer, by position, is an operand that is read only by products.
pub(super) fn is_factor(kernel: &VerifiedKernel, buffer: usize) -> bool {
    let factors = factors(kernel);
    factors
        .iter()
        .any(|(_, factor)| factor.as_u32() as usize == buffer)
}

/// The axis of an operand along which products read four or two elements at once, and how many: that of the innermost loop
/// of their only sum, which is a multiple of it. `vector` is the vectorised axis.
fn read_in_groups(
    kernel: &VerifiedKernel,
    (dependence, level): (&Dependence, IsaLevel),
    (buffer, vector): (BufferId, AxisId),
) -> Option<(usize, usize)> {
    let mut accesses = kernel.accesses(buffer);
    let (indices, None) = (accesses.next()?, accesses.next()) else {
        return None;
    };
    let [contraction] = kernel.classification().contractions.as_slice() else {
        return None;
    };
    let stage = contraction.stage;
    let StageOperation::Reduce { axes, .. } = &kernel.stage(stage).operation else {
        return None;
    };
    let &reduced = axes.last()?;
    let is_reduced =
        |&index: &NodeId| matches!(kernel.node(index), Node::Axis(axis) if *axis == reduced);
    let place = indices.iter().position(is_reduced)?;
    let mut others = indices
        .iter()
        .enumerate()
        .filter(|&(other, _)| other != place);
    let is_suitable = others.all(|(_, &index)| !dependence.depends(index, reduced));
    let are_bytes = || sums_fours(kernel, dependence, level, stage);
    let are_scaled = || {
        let bytes = sums_scaled_fours(kernel, dependence, level, stage);
        bytes.is_some_and(|bytes| {
            bytes.unsigned_buffer(kernel) == Some(buffer)
                && !dependence.depends(bytes.signed, vector)
        })
    };
    let is_float = kernel.buffer(buffer).dtype == DType::BF16;
    let size = if are_bytes() || are_scaled() {
        FOURS
    } else if is_float && sums_pairs(kernel, dependence, level, stage) {
        PAIRS
    } else {
        return None;
    };
    (is_suitable && is_multiple(kernel, reduced, size as u32)).then_some((place, size))
}

/// With groups of an axis within the innermost blocks.
fn in_groups(mut spec: PackSpec, axis: usize, block: usize) -> PackSpec {
    for part in &mut spec.axes {
        if *part == PackAxis::Whole(axis) {
            *part = PackAxis::Outer { axis, block };
        }
    }
    spec.axes.push(PackAxis::Inner { axis, block });
    spec
}

/// Blocks of one axis innermost.
fn in_blocks(kernel: &VerifiedKernel, buffer: BufferId, axis: usize, block: u32) -> PackSpec {
    let block = block as usize;
    let mut axes = vec![PackAxis::Outer { axis, block }];
    let others = in_loop_order(kernel, buffer).into_iter();
    axes.extend(others.filter(|&other| other != axis).map(PackAxis::Whole));
    axes.push(PackAxis::Inner { axis, block });
    PackSpec {
        buffer: buffer.as_u32() as usize,
        axes,
    }
}

/// The axes of a buffer in loop order: reduced axes last, as they are nested. An axis along which a reduced axis moves a
/// window counts as that one.
fn in_loop_order(kernel: &VerifiedKernel, buffer: BufferId) -> Vec<usize> {
    let dependence = Dependence::of(kernel);
    let depth = |axis: &usize| {
        let index = *kernel
            .accesses(buffer)
            .find_map(|indices| indices.get(*axis))?;
        kernel
            .stages()
            .values()
            .find_map(|stage| match &stage.operation {
                StageOperation::Reduce { axes, .. } => axes
                    .iter()
                    .rposition(|&axis| dependence.depends(index, axis)),
                StageOperation::Map => None,
            })
    };
    let mut order: Vec<usize> = (0..kernel.buffer(buffer).rank()).collect();
    order.sort_by_key(depth);
    order
}

/// Whether a buffer is a constant that can be packed so that an outer axis is contiguous.
pub(super) fn is_packable(kernel: &VerifiedKernel, buffer: BufferId, axis: AxisId) -> bool {
    let data = kernel.buffer(buffer);
    data.role == Role::Const && data.rank() >= 2 && indexed_by(kernel, buffer, axis, None).is_some()
}

/// Whether a buffer is another operand that can be packed like that at each launch, and is read often enough.
pub(super) fn is_copyable(kernel: &VerifiedKernel, buffer: BufferId, axis: AxisId) -> bool {
    let is_shared = |&row: &AxisId| {
        let place = indexed_by(kernel, buffer, axis, Some(row));
        row != axis && place.and_then(Place::whole).is_some()
    };
    let is_factor = factors(kernel).iter().any(|&(_, factor)| factor == buffer);
    is_factor && kernel.outer().iter().any(is_shared)
}

/// The position of a kernel axis among a buffer's indices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Place {
    /// The axis of the buffer.
    axis: usize,
    /// Points of a group, if the index is the position within one.
    group: Option<u32>,
}

impl Place {
    /// The axis of the buffer, if the kernel's axis covers all of it.
    fn whole(self) -> Option<usize> {
        self.group.is_none().then_some(self.axis)
    }
}

/// The axis of a buffer that every load indexes by exactly this axis of the kernel, or by the position within a group, and
/// by nothing else; and that no load indexes by the axis to avoid.
fn indexed_by(
    kernel: &VerifiedKernel,
    buffer: BufferId,
    axis: AxisId,
    avoided: Option<AxisId>,
) -> Option<Place> {
    let dependence = Dependence::of(kernel);
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
            let is_avoided = |index| avoided.is_some_and(|axis| dependence.depends(index, axis));
            let split = GroupedIndex::of(kernel, index)
                .filter(|split| split.axis == axis && !is_avoided(split.group));
            match kernel.node(index) {
                Node::Axis(other) if *other == axis && here.is_none() => {
                    here = Some(Place {
                        axis: position,
                        group: None,
                    });
                }
                _ if let Some(split) = split
                    && here.is_none() =>
                {
                    here = Some(Place {
                        axis: position,
                        group: Some(u32::try_from(split.size).ok()?),
                    });
                }
                _ if dependence.depends(index, axis) || is_avoided(index) => return None,
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
