//! Layouts: which buffers are not row-major. Decided after fusion, before memory is planned.
//!
//! A layout is the strides of an arena buffer that only kernels read and write: buffers that the host or a builtin
//! uses, or that outlive the run, stay row-major.

use std::collections::{BTreeMap, HashMap, HashSet};

use cranelift_entity::EntityRef;
use kiln_backend::PreferredLayout;
use kiln_ir::Op;
use kiln_kernel::{Role, VerifiedKernel};
use kiln_symbolic_shape::{DimError, DimId};
use smallvec::SmallVec;

use super::Builder;
use super::node::KernelNode;
use crate::buffer::Place;
use crate::ids::BufferId;
use crate::program::Block;
use crate::sizes::SizeList;
use crate::step::{Action, KernelLaunch};

/// Queries the layouts that kernels prefer for their buffers, which depend on a backend's schedules.
pub trait LayoutPreferences {
    /// The layouts that a kernel prefers.
    fn layouts(&self, kernel: &VerifiedKernel) -> Vec<PreferredLayout>;
}

/// Everything row-major.
#[derive(Clone, Copy, Debug, Default)]
pub struct RowMajor;

impl LayoutPreferences for RowMajor {
    fn layouts(&self, _kernel: &VerifiedKernel) -> Vec<PreferredLayout> {
        Vec::new()
    }
}

/// The sizes of buffers, as expressions.
pub(super) type Shapes = HashMap<BufferId, SmallVec<[DimId; 4]>>;

/// The layouts that the kernel of each node prefers, by position.
pub(super) type Preferences = Vec<Vec<PreferredLayout>>;

/// Whether it is an order of a buffer's axes other than row-major.
pub(super) fn is_order(shapes: &Shapes, buffer: BufferId, order: &[usize]) -> bool {
    let mut sorted = order.to_vec();
    sorted.sort_unstable();
    let rank = shapes.get(&buffer).map_or(0, SmallVec::len);
    sorted.into_iter().eq(0..rank) && !order.is_sorted()
}

/// Buffers of the arena that one kernel step writes, each element once, and only kernel steps read.
pub(super) fn free_buffers(
    block: &Block,
    nodes: &[KernelNode],
    watched: usize,
) -> HashSet<BufferId> {
    let mut writers: HashMap<BufferId, usize> = HashMap::new();
    let mut bound: HashSet<BufferId> = block.results.iter().skip(watched).copied().collect();
    let seen: HashSet<BufferId> = block.results.iter().take(watched).copied().collect();
    // Views of a buffer assume it to be row-major.
    for buffer in block.buffers.values() {
        if let Place::View { of, .. } = buffer.place {
            bound.insert(of);
        }
    }
    for step in block.segments.iter().flat_map(|segment| &segment.steps) {
        match &step.action {
            Action::Kernel(launch) => {
                for (&buffer, role) in launch.operands.iter().zip(roles(launch, nodes)) {
                    match role {
                        Role::Out => *writers.entry(buffer).or_default() += 1,
                        Role::InOut => drop(bound.insert(buffer)),
                        Role::In | Role::Const => {}
                    }
                }
            }
            other => {
                bound.extend(other.reads(|_, _| false));
                bound.extend(other.writes(|_, _| false));
            }
        }
    }
    let is_free = |&(buffer, count): &(BufferId, usize)| {
        let data = &block.buffers[buffer];
        let is_ours = match data.place {
            Place::Slot { .. } => true,
            Place::Own => seen.contains(&buffer),
            _ => false,
        };
        count == 1 && !bound.contains(&buffer) && is_ours
    };
    writers
        .into_iter()
        .filter(is_free)
        .map(|(buffer, _)| buffer)
        .collect()
}

/// The number of results of a block that may have the layout that kernels prefer.
pub(super) fn watched(program: &Builder<'_>, block: &Block) -> usize {
    if block.region == program.graph.body() {
        program.options.watched
    } else {
        0
    }
}

pub(super) fn roles<'a>(
    launch: &KernelLaunch,
    nodes: &'a [KernelNode],
) -> impl Iterator<Item = Role> + use<'a> {
    let node = nodes.get(launch.kernel.index());
    node.into_iter()
        .flat_map(|node| node.kernel.kernel().buffers().values().map(|b| b.role))
}

/// Buffers with a different memory order of their axes, outermost first.
pub(super) type Orders = BTreeMap<BufferId, Vec<usize>>;

/// Gives buffers the layouts that the schedules of the kernels around them prefer, if no kernel prefers another one,
/// and does the same for buffers that correspond to such a buffer in other kernels.
pub(super) fn assign_layouts(
    program: &mut Builder<'_>,
    block: &mut Block,
    nodes: &[KernelNode],
    preferences: &Preferences,
    shapes: &Shapes,
) -> Orders {
    let mut wishes: BTreeMap<BufferId, Option<Vec<usize>>> = BTreeMap::new();
    for (launch, _) in launches(block, nodes) {
        for layout in preferences.get(launch.kernel.index()).into_iter().flatten() {
            let Some(&buffer) = launch.operands.get(layout.buffer) else {
                continue;
            };
            let order = &layout.order;
            let wish = wishes.entry(buffer).or_insert_with(|| Some(order.clone()));
            if wish.as_ref() != Some(order) {
                *wish = None;
            }
        }
    }
    let free = free_buffers(block, nodes, watched(program, block));
    let mut orders: Orders = wishes
        .iter()
        .filter_map(|(&buffer, wish)| Some((buffer, wish.clone()?)))
        .filter(|(buffer, order)| free.contains(buffer) && is_order(shapes, *buffer, order))
        .collect();
    let undecided = |buffer: &BufferId| free.contains(buffer) && !wishes.contains_key(buffer);
    loop {
        let alike: Vec<(BufferId, Vec<usize>)> = launches(block, nodes)
            .flat_map(|(launch, node)| followers(launch, node, &orders, &undecided))
            .collect();
        if alike.is_empty() {
            break;
        }
        orders.extend(alike);
    }
    orders.retain(|&buffer, order| {
        let strides = shapes.get(&buffer);
        let strides = strides.and_then(|shape| strides_in_order(program, shape, order).ok());
        block.buffers[buffer].strides.clone_from(&strides);
        strides.is_some()
    });
    orders
}

/// The kernel steps of a block.
fn launches<'a>(
    block: &'a Block,
    nodes: &'a [KernelNode],
) -> impl Iterator<Item = (&'a KernelLaunch, &'a KernelNode)> {
    let steps = block.segments.iter().flat_map(|segment| &segment.steps);
    steps.filter_map(|step| match &step.action {
        Action::Kernel(launch) => Some((launch, nodes.get(launch.kernel.index())?)),
        _ => None,
    })
}

/// Buffers of a kernel that correspond to one with an axis order: of the same rank, and wherever the kernel reads or writes
/// them, the index at the innermost axis in that order is the same axis.
fn followers(
    launch: &KernelLaunch,
    node: &KernelNode,
    orders: &Orders,
    undecided: &dyn Fn(&BufferId) -> bool,
) -> Vec<(BufferId, Vec<usize>)> {
    let kernel = node.kernel.kernel();
    let ids: Vec<kiln_kernel::BufferId> = kernel.buffers().keys().collect();
    let mut found = Vec::new();
    let ordered = launch.operands.iter().zip(&ids);
    for (leader, &leading) in ordered {
        let Some(order) = orders.get(leader) else {
            continue;
        };
        let Some(&innermost) = order.last() else {
            continue;
        };
        let Some(axis) = kernel.axis_at(leading, innermost) else {
            continue;
        };
        for (buffer, &id) in launch.operands.iter().zip(&ids) {
            let is_new = !orders.contains_key(buffer)
                && !found.iter().any(|(other, _)| other == buffer)
                && undecided(buffer);
            if is_new
                && kernel.buffer(id).rank() == order.len()
                && kernel.axis_at(id, innermost) == Some(axis)
            {
                found.push((*buffer, order.clone()));
            }
        }
    }
    found
}

/// The strides of an array with this memory order of axes, outermost first.
pub(super) fn strides_in_order(
    program: &mut Builder<'_>,
    shape: &[DimId],
    order: &[usize],
) -> Result<SizeList, DimError> {
    let dims = program.graph.dims_mut();
    let mut step = dims.constant(1);
    let mut strides: SmallVec<[DimId; 4]> = SmallVec::from_elem(step, shape.len());
    for &axis in order.iter().rev() {
        let (Some(stride), Some(&size)) = (strides.get_mut(axis), shape.get(axis)) else {
            continue;
        };
        *stride = step;
        step = dims.mul(step, size)?;
    }
    Ok(program.sizes.intern_all(&strides))
}

/// Makes the operands of a concatenation be computed directly in its result: the concatenating step is removed.
pub(super) fn concat_in_place(
    program: &mut Builder<'_>,
    block: &mut Block,
    nodes: &[KernelNode],
    shapes: &Shapes,
    orders: &Orders,
) {
    if !program.options.concat_in_place {
        return;
    }
    for segment in 0..block.segments.len() {
        let mut position = 0;
        while position < block.segments[segment].steps.len() {
            // A result is read as a whole, whether inspected or not, so it stays contiguous.
            let free = || free_buffers(block, nodes, 0);
            let at = (segment, position);
            if let Some(parts) = parts_of(program, block, nodes, (shapes, orders), at, free) {
                for (buffer, place, strides) in parts {
                    block.buffers[buffer].place = place;
                    block.buffers[buffer].strides = strides;
                }
                block.segments[segment].steps.remove(position);
            } else {
                position += 1;
            }
        }
    }
}

/// Where each operand of a pure concatenation step would be in the result, if all of them can be there.
fn parts_of(
    program: &mut Builder<'_>,
    block: &Block,
    nodes: &[KernelNode],
    (shapes, orders): (&Shapes, &Orders),
    (segment, position): (usize, usize),
    free: impl FnOnce() -> HashSet<BufferId>,
) -> Option<Vec<(BufferId, Place, Option<SizeList>)>> {
    let step = block.segments[segment].steps.get(position)?;
    let (Action::Kernel(launch), &[op]) = (&step.action, step.ops.as_slice()) else {
        return None;
    };
    let op = program.graph.op(op);
    let Op::Concat { axis } = op.op else {
        return None;
    };
    let operands = op.operands.clone();
    let whole = roles(launch, nodes).position(|role| role == Role::Out)?;
    let whole = *launch.operands.get(whole)?;
    // Each operand once, each computed in this segment.
    let parts: Vec<BufferId> = operands
        .iter()
        .map(|value| {
            let position = launch.values.iter().position(|known| known == value)?;
            launch.operands.get(position).copied()
        })
        .collect::<Option<_>>()?;
    let distinct: HashSet<BufferId> = parts.iter().copied().collect();
    let in_segment = |buffer: &BufferId| {
        let buffer = &block.buffers[*buffer];
        matches!(buffer.place, Place::Slot { segment: at, .. } if at == segment)
    };
    let order = orders.get(&whole);
    if distinct.len() != parts.len() || !in_segment(&whole) || !parts.iter().all(in_segment) {
        return None;
    }
    if parts.iter().any(|part| orders.get(part) != order) {
        return None;
    }
    let free = free();
    if !parts.iter().all(|part| free.contains(part)) {
        return None;
    }
    let row_major: Vec<usize> = (0..shapes.get(&whole)?.len()).collect();
    let order = order.unwrap_or(&row_major);
    let strides = strides_in_order(program, shapes.get(&whole)?, order).ok()?;
    let along = program.sizes.dim(*strides.get(axis)?);
    let mut start = program.graph.dims_mut().constant(0);
    let mut placed = Vec::with_capacity(parts.len());
    for part in parts {
        let dims = program.graph.dims_mut();
        let offset = dims.mul(start, along).ok()?;
        start = dims.add(start, *shapes.get(&part)?.get(axis)?).ok()?;
        let offset = program.sizes.intern(offset);
        // Along the outermost axis, parts are contiguous, as before.
        let strides = if order.first() == Some(&axis) {
            block.buffers[part].strides.clone()
        } else {
            Some(strides.clone())
        };
        placed.push((part, Place::View { of: whole, offset }, strides));
    }
    Some(placed)
}
