//! Calls: arranging the inputs, choosing the instance, running it.

use super::Model;
use super::arrange::arrange;
use crate::call::{Carried, CarriedParts};
use crate::error::Error;
use crate::guard::guarded;
use crate::inputs::{Given, Inputs};
use crate::outputs::Outputs;
use kiln_lazy_runtime::Donations;
use kiln_tensor::Tensor;
use std::borrow::Cow;

impl Model {
    /// Inputs in the model's order.
    ///
    /// # Errors
    /// When a name is unknown, given twice or missing, or a tensor has the wrong dtype or rank.
    pub(crate) fn arranged<'a>(&self, inputs: &'a Inputs<'_>) -> Result<Cow<'a, [Tensor]>, Error> {
        arrange(&self.0.signature, inputs)
    }

    /// Runs a call with new outputs.
    pub(crate) fn serve(
        &self,
        inputs: &mut Inputs<'_>,
        carried: &mut Carried<'_>,
    ) -> Result<Outputs, Error> {
        guarded("a call", || {
            let options = &self.0.options;
            let inside = options.enter_first_call();
            let (call, profile) = carried.parts();
            let control = options.control(call);
            let control = control.as_ref();
            let (instance, tensors) = if let Given::Donated(inputs, donations) = &mut inputs.0 {
                let instance = self.instance_for(inputs, control)?;
                let n_outputs = instance.optimized().outputs().len();
                let mut outputs = vec![Tensor::scalar(0u8); n_outputs];
                let given_up = (&mut **inputs, &mut **donations);
                instance.run_donating(given_up, &mut outputs, options, control, profile)?;
                (instance, outputs)
            } else {
                let inputs = self.arranged(inputs)?;
                let instance = self.instance_for(&inputs, control)?;
                let tensors = instance.run(&inputs, options, control, profile)?;
                (instance, tensors)
            };
            drop(inside);
            options.report_first_call();
            Ok(self.outputs_of(&instance, tensors))
        })
    }

    /// Runs a call with inputs in the model's order, into given tensors.
    pub(crate) fn serve_into(
        &self,
        inputs: &[Tensor],
        outputs: &mut [Tensor],
        (call, profile): CarriedParts<'_>,
    ) -> Result<(), Error> {
        guarded("a call", || {
            let options = &self.0.options;
            let control = options.control(call);
            let instance = self.instance_for(inputs, control.as_ref())?;
            instance.run_into(inputs, outputs, options, control.as_ref(), profile)
        })
    }

    /// The same with donated inputs.
    pub(crate) fn serve_donating(
        &self,
        inputs: &mut [Tensor],
        donations: &mut Donations,
        outputs: &mut [Tensor],
        (call, profile): CarriedParts<'_>,
    ) -> Result<(), Error> {
        guarded("a call", || {
            let options = &self.0.options;
            let control = options.control(call);
            let control = control.as_ref();
            let instance = self.instance_for(inputs, control)?;
            let given_up = (inputs, donations);
            instance.run_donating(given_up, outputs, options, control, profile)
        })
    }
}
