//! Copies into the layouts that kernels prefer, where a buffer itself has to stay row-major.
//!
//! The inputs and results of a program are row-major, and so is whatever the host, a builtin or a view reads. A kernel that
//! gains more than the copy costs ([`PreferredLayout::is_worth_copying`](kiln_backend::PreferredLayout)) reads or writes a
//! buffer of its own instead, which has no other use and takes its layout from [`assign_layouts`](super::layout).

use std::collections::HashMap;

use cranelift_entity::EntityRef;
use kiln_ir::ValueId;
use kiln_kernel::{KernelBuilder, Role};
use kiln_symbolic_shape::{DimId, DimTable};
use kiln_tensor::DType;
use smallvec::smallvec;

use super::layout::{Preferences, Shapes, free_buffers, is_order, roles, watched};
use super::node::KernelNode;
use super::{Builder, kernels};
use crate::buffer::Place;
use crate::error::ProgramError;
use crate::ids::{BufferId, KernelId};
use crate::program::Block;
use crate::step::{Action, KernelLaunch, Step};

/// Inserts the copies. Kernels that read what was copied before in the same segment, and in the same order, share the copy.
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
