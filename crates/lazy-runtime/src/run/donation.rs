//! The inputs of a call: all borrowed, or some of them donated.

use std::ops::Deref;
use std::sync::Arc;

use kiln_backend::Resident;
use kiln_tensor::{DType, Tensor};
use smallvec::SmallVec;

use super::state::Taken;
use super::walk::Run;
use crate::donate::{DonationFate, Donations};
use crate::error::RuntimeError;
use crate::plan::{DonationPlan, Frame, MemoryIndex, SegmentPlan};

/// The inputs of a call.
pub(crate) enum Inputs<'a> {
    /// Inputs that are only read.
    Read(&'a [Tensor]),
    /// Inputs that are read, and some of which may be overwritten.
    Donated(&'a mut [Tensor], &'a mut Donations),
}

impl Inputs<'_> {
    /// The same inputs for a part of the call.
    pub(crate) fn reborrow(&mut self) -> Inputs<'_> {
        match self {
            Self::Read(inputs) => Inputs::Read(inputs),
            Self::Donated(inputs, donations) => Inputs::Donated(inputs, donations),
        }
    }
}

impl Deref for Inputs<'_> {
    type Target = [Tensor];

    fn deref(&self) -> &[Tensor] {
        match self {
            Self::Read(inputs) => inputs,
            Self::Donated(inputs, _) => inputs,
        }
    }
}

impl Run<'_> {
    /// Has a result computed in the memory of a parameter, if the caller donated that and the plan allows it; returns
    /// whether the parameter is now in its place for launches.
    ///
    /// This is not done if the call may be ended early, because its inputs must then be unchanged.
    pub(super) fn take_donation(
        &mut self,
        plan: &SegmentPlan,
        parameter: usize,
        index: MemoryIndex,
        frame: &mut Frame,
    ) -> Result<bool, Box<RuntimeError>> {
        let (Inputs::Donated(inputs, donations), None) = (&mut self.inputs, self.control) else {
            return Ok(false);
        };
        let is_asked = |donation: &&DonationPlan| {
            donation.parameter == parameter && donations.has(parameter, donation.result)
        };
        let Some(&donation) = plan.donations.iter().find(is_asked) else {
            return Ok(false);
        };
        let Some(input) = inputs.get_mut(parameter) else {
            return Ok(false);
        };
        if self.outputs_stay {
            return self.take_resident(donation, index, frame);
        }
        if frame.kept(index).is_none() {
            let memory = self.runtime.alloc(0);
            frame.keep(index, memory.map_err(RuntimeError::execute("an input"))?);
        }
        let Some(memory) = frame.kept(index) else {
            return Ok(false);
        };
        let tensor = std::mem::replace(input, self.state.nothing.clone());
        if let Some(tensor) = self.runtime.executor().adopt(tensor, memory) {
            *input = tensor;
            return Ok(false);
        }
        let memory = memory.clone();
        frame.set(donation.own, memory, 0);
        self.state.taken.push(Taken { donation, index });
        Ok(true)
    }

    /// The same if results stay on the device: if the input is there too, and neither the tensor nor its memory is
    /// shared. A tensor of the host is uploaded as any other input.
    fn take_resident(
        &mut self,
        donation: DonationPlan,
        index: MemoryIndex,
        frame: &mut Frame,
    ) -> Result<bool, Box<RuntimeError>> {
        let Inputs::Donated(inputs, _) = &mut self.inputs else {
            return Ok(false);
        };
        let Some(input) = inputs.get_mut(donation.parameter) else {
            return Ok(false);
        };
        let Some(place) = Resident::place_of(input).filter(|place| place.offset == 0) else {
            return Ok(false);
        };
        // The device identifies its own memory by sharing it.
        let uploaded = self.runtime.executor().upload(input);
        let mut memory = uploaded.map_err(RuntimeError::execute("an input"))?;
        if Arc::ptr_eq(memory.handle(), place.memory.handle()) {
            let (dtype, shape) = (input.dtype(), SmallVec::<[usize; 6]>::from(input.shape()));
            drop(std::mem::replace(input, self.state.nothing.clone()));
            if memory.is_sole() {
                frame.set(donation.own, memory.clone(), 0);
                self.state.taken.push(Taken { donation, index });
            } else {
                let executor = self.runtime.shared_executor();
                let tensor = Resident::tensor(&executor, &memory, 0, dtype, &shape);
                *input = tensor.map_err(RuntimeError::tensor("an input"))?;
            }
        }
        frame.keep(index, memory);
        Ok(true)
    }

    /// Whether donated inputs of a call are replaced by results that stay on the device.
    pub(super) fn keeps_states(&self) -> bool {
        self.outputs_stay && matches!(self.inputs, Inputs::Donated(..))
    }

    /// Whether a result stays on the device, although the caller passed a tensor for it: it replaces a donated input.
    pub(super) fn stays(&self, result: usize) -> bool {
        match &self.inputs {
            Inputs::Read(_) => false,
            Inputs::Donated(_, donations) => self.outputs_stay && donations.has_output(result),
        }
    }

    /// Whether this memory is a donated input's in this call.
    pub(super) fn is_taken(&self, own: MemoryIndex) -> bool {
        let mut taken = self.state.taken.iter();
        taken.any(|taken| taken.donation.own == own)
    }

    /// Passes on the tensors whose memory was taken: as outputs of a call that succeeded, or otherwise back as inputs.
    pub(super) fn hand_on_donations(
        &mut self,
        plan: &SegmentPlan,
        frame: &mut Frame,
        succeeded: bool,
    ) -> Result<(), Box<RuntimeError>> {
        if self.state.taken.is_empty() {
            return Ok(());
        }
        let fate = match (succeeded, self.state.began) {
            (true, _) => DonationFate::Taken,
            (false, true) => DonationFate::Spoiled,
            (false, false) => DonationFate::Kept,
        };
        let mut taken = std::mem::take(&mut self.state.taken);
        let mut handed_on = Ok(());
        for Taken { donation, index } in taken.drain(..) {
            frame.drop_memory(donation.own);
            let input = match fate {
                DonationFate::Taken => None,
                _ => self.type_of_input(plan, donation.parameter),
            };
            let result = plan.results.get(donation.result);
            let result = result.map(|place| (place.dtype, place.shape.as_slice()));
            let ty = input
                .as_ref()
                .map(|(dtype, shape)| (*dtype, shape.as_slice()));
            let Some((dtype, shape)) = ty.or(result) else {
                handed_on = Err(RuntimeError::malformed("a result without a place").into());
                continue;
            };
            let (runtime, stays) = (self.runtime, self.outputs_stay);
            let tensor = frame.kept(index).and_then(|memory| match stays {
                // Its last other handle is dropped with the inputs.
                true => {
                    let executor = runtime.shared_executor();
                    Resident::tensor(&executor, memory, 0, dtype, shape).ok()
                }
                false => runtime.executor().reclaim(memory, dtype, shape),
            });
            let Inputs::Donated(inputs, donations) = &mut self.inputs else {
                continue;
            };
            let Some(tensor) = tensor else {
                handed_on = Err(RuntimeError::malformed("a donated input that others have").into());
                continue;
            };
            donations.set_fate(donation.parameter, fate);
            let to = match fate {
                DonationFate::Taken => self
                    .into
                    .as_deref_mut()
                    .and_then(|into| into.get_mut(donation.result)),
                _ => inputs.get_mut(donation.parameter),
            };
            if let Some(to) = to {
                *to = tensor;
            }
        }
        self.state.taken = taken;
        handed_on
    }

    /// The type and shape of an input, in a call with these sizes.
    fn type_of_input(
        &self,
        plan: &SegmentPlan,
        parameter: usize,
    ) -> Option<(DType, SmallVec<[usize; 6]>)> {
        let graph = self.program.graph();
        let ty = graph.tensor_ty(*graph.inputs().get(parameter)?)?;
        let size = |&dim| {
            let size = graph.dims().evaluate(dim, &plan.binding);
            usize::try_from(size.ok()?).ok()
        };
        let shape = ty.dims.iter().map(size).collect::<Option<_>>()?;
        Some((ty.dtype, shape))
    }
}
