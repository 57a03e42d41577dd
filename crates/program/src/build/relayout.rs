//! Copies into the layouts that kernels prefer, for buffers that have to stay row-major.
//!
//! The inputs and results of a program are row-major, and so are buffers read by the host, a builtin or a view. A
//! kernel that gains more than the copy costs ([`PreferredLayout::is_worth_copying`](kiln_backend::PreferredLayout))
//! reads or writes a separate buffer instead, which has no other use and gets its layout from
//! [`assign_layouts`](super::layout).
//!
//! The same is done for a map, such as a resize or a pad, that reads a buffer in a different layout at indices without
//! constant steps, or under conditions. Vectorised along the innermost axis, it would scatter its result, one line per
//! element; along another axis, it would gather its operand. A copy is a transpose, which does neither.

use std::collections::HashMap;

use cranelift_entity::EntityRef;
use kiln_ir::ValueId;
use kiln_kernel::analysis::Dependence;
use kiln_kernel::{Buffer, Class, KernelBuilder, Node, NodeId, Role, VerifiedKernel};
use kiln_symbolic_shape::{DimId, DimTable};
use kiln_tensor::DType;
use smallvec::smallvec;

use super::layout::{
    Orders, Preferences, Shapes, free_buffers, is_order, roles, strides_in_order, watched,
};
use super::node::KernelNode;
use super::{Builder, kernels};
use crate::buffer::Place;
use crate::error::ProgramError;
use crate::ids::{BufferId, KernelId};
use crate::program::Block;
use crate::step::{Action, KernelLaunch, Step};

/// Inserts the copies. Kernels that read a buffer that was already copied in the same segment, in the same axis order,
/// share the copy.
pub(super) fn copy_bound_buffers(
    program: &mut Builder<'_>,
    block: &mut Block,
    nodes: &mut Vec<KernelNode>,
    preferences: &Preferences,
    shapes: &mut Shapes,
) -> Result<(), ProgramError> {
    let free = free_buffers(block, nodes, watched(program, block));
    for segment in 0..block.segments.len() {
        let mut copies: HashMap<(BufferId, &[usize]), BufferId> = HashMap::new();
        let steps = std::mem::take(&mut block.segments[segment].steps);
        for mut step in steps {
            let Action::Kernel(launch) = &mut step.action else {
                block.segments[segment].steps.push(step);
                continue;
            };
            let wanted = preferences.get(launch.kernel.index()).into_iter().flatten();
            let roles: Vec<Role> = roles(launch, nodes).collect();
            let mut after = Vec::new();
            for layout in wanted.filter(|layout| layout.is_worth_copying) {
                let (Some(&buffer), Some(&value), Some(role)) = (
                    launch.operands.get(layout.buffer),
                    launch.values.get(layout.buffer),
                    roles.get(layout.buffer),
                ) else {
                    continue;
                };
                if free.contains(&buffer) || !is_order(shapes, buffer, &layout.order) {
                    continue;
                }
                let key = (buffer, layout.order.as_slice());
                let copy = match (role, copies.get(&key)) {
                    (Role::In, Some(&copy)) => copy,
                    (Role::In, None) => {
                        let copy = twin(block, shapes, buffer, segment);
                        let step = copy_step(program, block, nodes, shapes, (buffer, copy), value)?;
                        block.segments[segment].steps.push(step);
                        copy
                    }
                    (Role::Out, _) => {
                        let copy = twin(block, shapes, buffer, segment);
                        let step = copy_step(program, block, nodes, shapes, (copy, buffer), value)?;
                        after.push(step);
                        copy
                    }
                    _ => continue,
                };
                copies.insert(key, copy);
                launch.operands[layout.buffer] = copy;
            }
            block.segments[segment].steps.push(step);
            block.segments[segment].steps.append(&mut after);
        }
    }
    Ok(())
}

/// Inserts the copies of results of maps that would be scattered, after layouts are assigned: such a result gets the layout
/// of the operand.
pub(super) fn copy_scattered_results(
    program: &mut Builder<'_>,
    block: &mut Block,
    nodes: &mut Vec<KernelNode>,
    orders: &mut Orders,
    shapes: &mut Shapes,
) -> Result<(), ProgramError> {
    for segment in 0..block.segments.len() {
        for mut step in std::mem::take(&mut block.segments[segment].steps) {
            let mut after = Vec::new();
            if let Action::Kernel(launch) = &mut step.action {
                for (place, order) in scattered_results(launch, nodes, orders) {
                    let buffer = launch.operands[place];
                    let shape = shapes.get(&buffer).cloned().unwrap_or_default();
                    let Ok(strides) = strides_in_order(program, &shape, &order) else {
                        continue;
                    };
                    let copy = twin(block, shapes, buffer, segment);
                    block.buffers[copy].strides = Some(strides);
                    orders.insert(copy, order);
                    let value = launch.values[place];
                    let pair = (copy, buffer);
                    after.push(copy_step(program, block, nodes, shapes, pair, value)?);
                    launch.operands[place] = copy;
                }
            }
            block.segments[segment].steps.push(step);
            block.segments[segment].steps.append(&mut after);
        }
    }
    Ok(())
}

/// The positions of a map's row-major results that correspond to an operand with a different order of axes, which is
/// not read at constant steps; also returns that order.
fn scattered_results(
    launch: &KernelLaunch,
    nodes: &[KernelNode],
    orders: &Orders,
) -> Vec<(usize, Vec<usize>)> {
    let Some(node) = nodes.get(launch.kernel.index()) else {
        return Vec::new();
    };
    let kernel = &node.kernel;
    if kernel.classification().class != Class::Map {
        return Vec::new();
    }
    let operands = || launch.operands.iter().zip(kernel.buffers());
    let moved = operands().find_map(|(operand, (id, _))| {
        let order = orders.get(operand)?;
        let axis = kernel.axis_at(id, *order.last()?)?;
        (!is_affine(kernel, id)).then_some((order, axis))
    });
    let Some((order, axis)) = moved else {
        return Vec::new();
    };
    let is_scattered = |(operand, (id, buffer)): (&BufferId, (_, &Buffer))| {
        let innermost = order.last().and_then(|&place| kernel.axis_at(id, place));
        let is_alike = buffer.rank() == order.len() && innermost == Some(axis);
        buffer.role == Role::Out && is_alike && !orders.contains_key(operand)
    };
    let places = operands()
        .enumerate()
        .filter(|&(_, operand)| is_scattered(operand));
    places.map(|(place, _)| (place, order.clone())).collect()
}

/// Whether a kernel reads a buffer without conditions, and at indices that move by constant steps along each axis.
fn is_affine(kernel: &VerifiedKernel, buffer: kiln_kernel::BufferId) -> bool {
    let dependence = Dependence::of(kernel);
    let mut nodes = kernel.nodes().values();
    nodes.all(|data| match &data.node {
        Node::Load(load) if load.buffer == buffer => {
            let moves_evenly = |&index: &NodeId| {
                let mut outer = kernel.outer().iter();
                outer.all(|&axis| dependence.step_along(kernel, index, axis).is_some())
            };
            load.guard.is_none() && load.indices.iter().all(moves_evenly)
        }
        _ => true,
    })
}

/// A buffer of the arena for the elements of another one.
pub(super) fn twin(
    block: &mut Block,
    shapes: &mut Shapes,
    of: BufferId,
    segment: usize,
) -> BufferId {
    let mut buffer = block.buffers[of].clone();
    buffer.place = Place::Slot {
        segment,
        slot: usize::MAX,
    };
    let twin = block.buffers.push(buffer);
    if let Some(shape) = shapes.get(&of).cloned() {
        shapes.insert(twin, shape);
    }
    twin
}

/// A step that copies a buffer into another one.
fn copy_step(
    program: &Builder<'_>,
    block: &Block,
    nodes: &mut Vec<KernelNode>,
    shapes: &Shapes,
    (from, to): (BufferId, BufferId),
    value: ValueId,
) -> Result<Step, ProgramError> {
    let shape = shapes.get(&from).map_or(&[][..], |shape| shape);
    let node = copy_node(
        program.graph.dims(),
        block.buffers[from].dtype,
        shape,
        value,
    )?;
    let kernel = KernelId::new(nodes.len());
    nodes.push(node);
    let launch = KernelLaunch {
        kernel,
        operands: smallvec![from, to],
        values: smallvec![value; 2],
        symbols: Vec::new(),
    };
    Ok(Step {
        name: format!("{}_relayout", block.buffers[from].name),
        ops: Vec::new(),
        action: Action::Kernel(launch),
    })
}

/// A kernel that copies an array of these sizes.
fn copy_node(
    dims: &DimTable,
    dtype: DType,
    shape: &[DimId],
    value: ValueId,
) -> Result<KernelNode, ProgramError> {
    let mut b = KernelBuilder::new("relayout", DimTable::new());
    let mut symbols = Vec::new();
    let mut sizes = Vec::with_capacity(shape.len());
    for &size in shape {
        let table = b.dims_mut();
        sizes.push(match dims.as_constant(size) {
            Some(size) => table.constant(size),
            None => {
                symbols.push(size);
                let symbol = table.fresh("size");
                table.dim(symbol)
            }
        });
    }
    let from = b.buffer("from", Role::In, dtype, sizes.iter().copied());
    let to = b.buffer("to", Role::Out, dtype, sizes.iter().copied());
    let axes = sizes.iter().enumerate();
    let axes: Vec<_> = axes
        .map(|(at, &size)| b.outer(format!("a{at}"), size))
        .collect();
    let indices: Vec<_> = axes.iter().map(|&axis| b.index(axis)).collect();
    let element = b.load(from, indices.iter().copied());
    b.store([], to, indices, element);
    let invalid = |problem: String| ProgramError::Kernel {
        kernel: "relayout".to_owned(),
        problem,
    };
    let kernel = b.finish().map_err(|error| invalid(error.to_string()))?;
    Ok(KernelNode {
        kernel: kernels::verify(kernel)?,
        operands: vec![value; 2],
        symbols,
        initialise: None,
        requirements: Vec::new(),
    })
}
