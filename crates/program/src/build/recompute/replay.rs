//! The steps of a simulated run: repeated steps write separate buffers, which later steps read.

use std::collections::HashMap;

use super::super::Builder;
use super::super::flow::Flow;
use super::super::relayout::twin;
use super::Shapes;
use super::simulate::RunStep;
use crate::buffer::Place;
use crate::ids::BufferId;
use crate::program::Block;
use crate::step::{Action, Step};

/// Replaces the steps of a segment by those of a run.
pub(super) fn replay(
    program: &mut Builder<'_>,
    block: &mut Block,
    segment: usize,
    shapes: &mut Shapes,
    flow: &Flow,
    run: &[RunStep],
) {
    let before = std::mem::take(&mut block.segments[segment].steps);
    let mut versions = Versions::default();
    let mut steps = Vec::with_capacity(run.len());
    for RunStep { step, again } in run {
        let Some(mut step) = before.get(*step).cloned() else {
            continue;
        };
        let written = program.writes(&step.action);
        replace_reads(&mut step.action, &written, &mut |buffer| {
            versions.current(block, shapes, buffer)
        });
        if let Some(again) = again {
            let again: Vec<BufferId> = again
                .iter()
                .map(|&value| flow.values[value].buffer)
                .collect();
            repeat(
                program,
                block,
                segment,
                shapes,
                &mut step,
                &mut |buffer, copy| {
                    if again.contains(&buffer) {
                        versions.of.insert(buffer, copy);
                    }
                },
            );
        }
        steps.push(step);
    }
    block.segments[segment].steps = steps;
}

/// Gives a repeated step its own buffers to write.
fn repeat(
    program: &mut Builder<'_>,
    block: &mut Block,
    segment: usize,
    shapes: &mut Shapes,
    step: &mut Step,
    replaced: &mut dyn FnMut(BufferId, BufferId),
) {
    step.name.push_str("_again");
    let written = program.writes(&step.action);
    let Action::Kernel(launch) = &mut step.action else {
        return;
    };
    program.kernels[launch.kernel].uses += 1;
    for buffer in &mut launch.operands {
        if written.contains(buffer) {
            let copy = twin(block, shapes, *buffer, segment);
            block.buffers[copy].name.push_str("_again");
            replaced(*buffer, copy);
            *buffer = copy;
        }
    }
}

/// The buffers that currently hold values.
#[derive(Default)]
struct Versions {
    /// By the buffer that held a value first.
    of: HashMap<BufferId, BufferId>,
    /// The views of later buffers, by the view of the first and the later buffer.
    views: HashMap<(BufferId, BufferId), BufferId>,
}

impl Versions {
    /// The buffer to read in place of this one.
    fn current(&mut self, block: &mut Block, shapes: &mut Shapes, buffer: BufferId) -> BufferId {
        let Some(&version) = self.of.get(&block.root(buffer)) else {
            return buffer;
        };
        let Place::View { offset, .. } = block.buffers[buffer].place else {
            return version;
        };
        *self.views.entry((buffer, version)).or_insert_with(|| {
            let mut view = block.buffers[buffer].clone();
            let of = version;
            view.place = Place::View { of, offset };
            let view = block.buffers.push(view);
            if let Some(shape) = shapes.get(&buffer).cloned() {
                shapes.insert(view, shape);
            }
            view
        })
    }
}

/// Replaces the buffers that a step reads. Operands of control steps have their own memory, which is never dropped.
fn replace_reads(
    action: &mut Action,
    written: &[BufferId],
    current: &mut dyn FnMut(BufferId) -> BufferId,
) {
    match action {
        Action::Kernel(launch) => {
            for buffer in &mut launch.operands {
                if !written.contains(buffer) {
                    *buffer = current(*buffer);
                }
            }
        }
        Action::Builtin { inputs, .. } => {
            for buffer in inputs {
                *buffer = current(*buffer);
            }
        }
        Action::Interpret { inputs, .. } => {
            for (_, buffer) in inputs {
                *buffer = current(*buffer);
            }
        }
        Action::Bind { data, .. } => *data = current(*data),
        Action::Dims { .. } | Action::If { .. } | Action::Loop { .. } => {}
    }
}
