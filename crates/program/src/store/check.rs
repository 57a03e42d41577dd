//! Validity checks of a loaded program: every number in range, no cycles among blocks.

use cranelift_entity::EntityRef;

use crate::buffer::Place;
use crate::ids::{BlockId, BufferId, SizeId};
use crate::program::{Block, Donation, Program};
use crate::step::{Action, Step};

/// Checks a program; returns the problem if there is one.
pub(super) fn check(program: &Program) -> Result<(), String> {
    if !program.blocks.is_valid(program.body) {
        return Err("a missing body".to_owned());
    }
    for (id, block) in &program.blocks {
        let region = program.graph.region(block.region);
        if region.parameters.len() != block.parameters.len()
            || region.results.len() != block.results.len()
        {
            return Err(format!(
                "{id} with other parameters or results than its region"
            ));
        }
        Checker { program, block, id }.check()?;
    }
    Ok(())
}

struct Checker<'a> {
    program: &'a Program,
    block: &'a Block,
    id: BlockId,
}

impl Checker<'_> {
    fn check(&self) -> Result<(), String> {
        for buffer in self.block.buffers.values() {
            self.sizes(&buffer.shape)?;
            if let Some(strides) = &buffer.strides {
                self.sizes(strides)?;
                if strides.len() != buffer.shape.len() {
                    return Err(format!(
                        "{} strides of {} axes",
                        strides.len(),
                        buffer.shape.len()
                    ));
                }
            }
            match buffer.place {
                Place::View { of, offset } => {
                    self.sizes(&[offset])?;
                    self.buffers(&[of])?;
                    if matches!(self.block.buffers[of].place, Place::View { .. }) {
                        return Err("a view of a view".to_owned());
                    }
                }
                Place::Constant(constant) if !self.program.constants.is_valid(constant) => {
                    return Err(format!("{constant}, which does not exist"));
                }
                Place::Slot { segment, slot } => {
                    let segment = self.block.segments.get(segment);
                    if segment.is_none_or(|segment| slot >= segment.slots.len()) {
                        return Err("a missing slot".to_owned());
                    }
                }
                Place::Parameter(index) if index >= self.block.parameters.len() => {
                    return Err("a missing parameter".to_owned());
                }
                _ => {}
            }
        }
        self.buffers(&self.block.parameters)?;
        self.buffers(&self.block.results)?;
        let (parameters, results) = (self.block.parameters.len(), self.block.results.len());
        let is_there =
            |donation: &Donation| donation.parameter < parameters && donation.result < results;
        if !self.block.donations.iter().all(is_there) {
            return Err("a donation of a missing buffer".to_owned());
        }
        if self.block.segments.is_empty() {
            return Err(format!("{} without a segment", self.id));
        }
        for segment in &self.block.segments {
            self.sizes(&segment.sizes)?;
            self.buffers(&segment.own)?;
            segment
                .slots
                .iter()
                .try_for_each(|slot| self.buffers(&slot.buffers))?;
            segment.steps.iter().try_for_each(|step| self.step(step))?;
        }
        Ok(())
    }

    fn step(&self, step: &Step) -> Result<(), String> {
        match &step.action {
            Action::Kernel(launch) => {
                let Some(kernel) = self.program.kernels.get(launch.kernel) else {
                    return Err(format!("{}, which does not exist", launch.kernel));
                };
                let form = kernel.kernel.kernel();
                let counts = [launch.operands.len(), launch.values.len()];
                if counts.iter().any(|&count| count != form.buffers().len())
                    || launch.symbols.len() != form.dims().symbols().count()
                {
                    return Err(format!("a launch that does not match {}", launch.kernel));
                }
                self.sizes(&launch.symbols)?;
            }
            Action::Dims { sizes, .. } => self.sizes(sizes)?,
            Action::If {
                then, otherwise, ..
            } => {
                self.inner(*then)?;
                self.inner(*otherwise)?;
            }
            Action::Loop { body, course, .. } => {
                self.inner(*body)?;
                self.sizes(course.trips.as_slice())?;
            }
            Action::Builtin { .. } | Action::Bind { .. } | Action::Interpret { .. } => {}
        }
        self.buffers(&self.program.reads(&step.action))?;
        self.buffers(&self.program.writes(&step.action))
    }

    /// Blocks come after those inside them, so that none contains itself.
    fn inner(&self, block: BlockId) -> Result<(), String> {
        if block.index() < self.id.index() {
            Ok(())
        } else {
            Err(format!("{block} inside {}", self.id))
        }
    }

    fn buffers(&self, buffers: &[BufferId]) -> Result<(), String> {
        match buffers
            .iter()
            .find(|&&buffer| !self.block.buffers.is_valid(buffer))
        {
            Some(buffer) => Err(format!("{buffer}, which is not in {}", self.id)),
            None => Ok(()),
        }
    }

    fn sizes(&self, sizes: &[SizeId]) -> Result<(), String> {
        match sizes
            .iter()
            .find(|size| size.index() >= self.program.sizes.len())
        {
            Some(size) => Err(format!("{size}, which does not exist")),
            None => Ok(()),
        }
    }
}
