//! The outputs of a call: new tensors, or those provided by the caller.

use kiln_backend::Resident;
use kiln_program::{BufferId, Place};
use kiln_tensor::Tensor;

use super::walk::Run;
use crate::error::RuntimeError;
use crate::plan::{Frame, OwnMemory, PlacedTensor, SegmentPlan, TensorPlace};

impl Run<'_> {
    /// The outputs, if possible as tensors over the memory in which they were computed.
    pub(super) fn outputs(
        &self,
        plan: &SegmentPlan,
        frame: &Frame,
    ) -> Result<Vec<Tensor>, RuntimeError> {
        let block = self.program.block(self.program.body());
        let results = block.results.iter().zip(&plan.results);
        let outputs = results.map(|(&buffer, place)| self.output_of(buffer, place, frame));
        outputs.collect()
    }

    /// A result of the body as an output.
    fn output_of(
        &self,
        buffer: BufferId,
        place: &TensorPlace,
        frame: &Frame,
    ) -> Result<Tensor, RuntimeError> {
        let block = self.program.block(self.program.body());
        match block.buffers[buffer].place {
            // A tensor passed by the caller is returned.
            Place::Parameter(index) if let Some(input) = self.inputs.get(index) => {
                let what = "an output that is an input";
                match input.is_contiguous() {
                    true => Ok(input.clone()),
                    false => self.copied(what, |goes_on| input.copied_while(goes_on)),
                }
            }
            _ => self.output(frame.tensor(place)?),
        }
    }

    /// A device tensor as an output: resident, if it is to stay there and its elements are row-major, otherwise as one of
    /// the host.
    fn output(&self, placed: PlacedTensor<'_>) -> Result<Tensor, RuntimeError> {
        let what = "an output";
        if !self.outputs_stay || placed.order.is_some() || placed.apart.is_some() {
            return self.download(placed, what);
        }
        let executor = self.runtime.shared_executor();
        let PlacedTensor {
            memory,
            offset,
            dtype,
            shape,
            ..
        } = placed;
        let tensor = Resident::tensor(&executor, memory, offset, dtype, shape);
        tensor.map_err(RuntimeError::tensor(what))
    }

    /// Makes launches write a result into the tensor that the caller passed for it, if that is possible.
    ///
    /// This is not done if the call may be cancelled, because those tensors must then be unchanged.
    pub(super) fn lend(
        &mut self,
        own: &OwnMemory,
        results: &[TensorPlace],
        frame: &mut Frame,
    ) -> Result<bool, Box<RuntimeError>> {
        let Some(number) = own.result else {
            return Ok(false);
        };
        let (Some(place), Some(into), None) =
            (results.get(number), self.into.as_deref_mut(), self.control)
        else {
            return Ok(false);
        };
        let Some(output) = into.get_mut(number) else {
            return Ok(false);
        };
        if output.dtype() != place.dtype || output.shape() != place.shape.as_slice() {
            return Ok(false);
        }
        if frame.kept(own.index).is_none() {
            let memory = self.runtime.alloc(0);
            let memory = memory.map_err(RuntimeError::execute("an output"))?;
            frame.keep(own.index, memory);
        }
        let Some(memory) = frame.kept(own.index) else {
            return Ok(false);
        };
        let tensor = std::mem::replace(output, self.state.nothing.clone());
        if let Some(tensor) = self.runtime.executor().lend(tensor, memory) {
            *output = tensor;
            return Ok(false);
        }
        self.state.lent.push(number);
        Ok(true)
    }

    /// Takes back lent tensors.
    pub(super) fn reclaim(
        &mut self,
        plan: &SegmentPlan,
        frame: &mut Frame,
    ) -> Result<(), Box<RuntimeError>> {
        let mut lent = std::mem::take(&mut self.state.lent);
        for own in &plan.own {
            let Some(number) = own.result.filter(|number| lent.contains(number)) else {
                continue;
            };
            let place = plan.results.get(number);
            let place = place.ok_or_else(|| RuntimeError::malformed("a result without a place"))?;
            let executor = self.runtime.executor();
            let reclaim = |memory| executor.reclaim(memory, place.dtype, &place.shape);
            let tensor = match frame.kept(own.index).and_then(reclaim) {
                Some(tensor) => tensor,
                // The memory is shared.
                None => {
                    let tensor = self.download(frame.tensor(place)?, "an output")?.copied();
                    frame.drop_memory(own.index);
                    tensor.map_err(RuntimeError::tensor("an output"))?
                }
            };
            if let Some(output) = self
                .into
                .as_deref_mut()
                .and_then(|into| into.get_mut(number))
            {
                *output = tensor;
            }
        }
        lent.clear();
        self.state.lent = lent;
        Ok(())
    }

    /// Copies the outputs that are not yet in the caller's tensors into them.
    pub(super) fn write_outputs(
        &mut self,
        plan: &SegmentPlan,
        frame: &Frame,
    ) -> Result<(), Box<RuntimeError>> {
        let block = self.program.block(self.program.body());
        let results = block.results.iter().zip(&plan.results);
        let Some(into) = self.into.take() else {
            return Ok(());
        };
        let (lent, taken) = (&self.state.lent, &self.state.taken);
        let is_there = |number: &usize| {
            let mut taken = taken.iter();
            lent.contains(number) || taken.any(|taken| taken.donation.result == *number)
        };
        let others = results.zip(into.iter_mut()).enumerate();
        let mut others = others.filter(|(number, _)| !is_there(number));
        let written = others.try_for_each(|(number, ((&buffer, place), output))| {
            if self.stays(number) {
                *output = self.output_of(buffer, place, frame)?;
                return Ok(());
            }
            match block.buffers[buffer].place {
                Place::Parameter(index) if let Some(input) = self.inputs.get(index) => {
                    *output = input
                        .copied()
                        .map_err(RuntimeError::tensor("an output that is an input"))?;
                    Ok(())
                }
                _ => self.download_into(frame.tensor(place)?, output),
            }
        });
        self.into = Some(into);
        written
    }
}
