//! The sizes each segment needs, which a launch plan evaluates.

use std::collections::BTreeSet;

use super::Builder;
use crate::buffer::{Buffer, Place};
use crate::ids::SizeId;
use crate::program::Block;
use crate::step::Action;

/// Lists the sizes of each segment's steps and slots.
pub(super) fn collect_sizes(program: &Builder<'_>, block: &mut Block) {
    let is_written = |kernel: crate::KernelId, position: usize| {
        let buffers = program.kernels[kernel].kernel.kernel().buffers();
        buffers
            .values()
            .nth(position)
            .is_some_and(|buffer| buffer.role.is_written())
    };
    let last = block.segments.len().saturating_sub(1);
    for (index, segment) in block.segments.iter_mut().enumerate() {
        let mut sizes: BTreeSet<SizeId> = BTreeSet::new();
        let mut add = |buffer: &Buffer| {
            sizes.extend(&buffer.shape);
            sizes.extend(buffer.strides.iter().flatten());
        };
        let slots = segment.slots.iter().flat_map(|slot| &slot.buffers);
        for &buffer in slots.chain(&segment.own) {
            add(&block.buffers[buffer]);
        }
        for step in &segment.steps {
            let brings = matches!(
                step.action,
                Action::If { .. } | Action::Loop { .. } | Action::Interpret { .. }
            );
            let mut buffers = step.action.reads(is_written);
            if !brings {
                buffers.extend(step.action.writes(is_written));
            }
            for buffer in buffers {
                let buffer = &block.buffers[buffer];
                add(buffer);
                if let Place::View { of, .. } = buffer.place {
                    add(&block.buffers[of]);
                }
            }
        }
        for &result in block.results.iter().filter(|_| index == last) {
            let buffer = &block.buffers[result];
            sizes.extend(&buffer.shape);
            if let Place::View { offset, of } = buffer.place {
                sizes.insert(offset);
                sizes.extend(&block.buffers[of].shape);
            }
        }
        for step in &segment.steps {
            match &step.action {
                Action::Kernel(launch) => sizes.extend(&launch.symbols),
                Action::Dims { sizes: values, .. } => sizes.extend(values),
                Action::Loop { course, .. } => sizes.extend(course.trips),
                _ => {}
            }
            for buffer in step
                .action
                .reads(is_written)
                .into_iter()
                .chain(step.action.writes(is_written))
            {
                if let Place::View { offset, .. } = block.buffers[buffer].place {
                    sizes.insert(offset);
                }
            }
        }
        segment.sizes = sizes.into_iter().collect();
    }
}
