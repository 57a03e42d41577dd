//! Calls: inputs in order, the instance that they need, and its run.

use super::Model;
use super::arrange::arrange;
use crate::call::Carried;
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
    /// When a name is unknown, given twice or missing, or a tensor has another dtype or rank.
    pub(crate) fn arranged<'a>(&self, inputs: &'a Inputs<'_>) -> Result<Cow<'a, [Tensor]>, Error> {
        arrange(&self.0.signature, inputs)
    }

    /// A call with new outputs.
    pub(crate) fn serve(&self, inputs: Inputs<'_>, carried: Carried<'_>) -> Result<Outputs, Error> {
        guarded("a call", || {
            let options = &self.0.options;
            let inside = options.enter_first_call();
            let control = options.control(carried.options.as_ref());
            let control = control.as_ref();
            let (instance, tensors) = match inputs {
                Inputs(Given::Donated(inputs, donations)) => {
                    let instance = self.instance_for(inputs, control)?;
                    let n_outputs = instance.optimized().outputs().len();
                    let mut outputs = vec![Tensor::scalar(0u8); n_outputs];
                    let profile = carried.profile;
                    instance.run_donating(
                        inputs,
                        donations,
                        &mut outputs,
                        options,
                        control,
                        profile,
                    )?;
                    (instance, outputs)
                }
                inputs => {
                    let inputs = self.arranged(&inputs)?;
                    let instance = self.instance_for(&inputs, control)?;
                    let tensors = instance.run(&inputs, options, control, carried.profile)?;
                    (instance, tensors)
                }
            };
            drop(inside);
            options.tell_first_call();
            Ok(self.outputs_of(&instance, tensors))
        })
    }

    /// A call into tensors that are given.
    pub(crate) fn serve_into(
        &self,
        inputs: Inputs<'_>,
        outputs: &mut [Tensor],
        carried: Carried<'_>,
    ) -> Result<(), Error> {
        let inputs = match inputs {
            Inputs(Given::Donated(inputs, donations)) => {
                return self.serve_donating(inputs, donations, outputs, carried);
            }
            inputs => inputs,
        };
        guarded("a call", || {
            let options = &self.0.options;
            let control = options.control(carried.options.as_ref());
            let inputs = self.arranged(&inputs)?;
            let instance = self.instance_for(&inputs, control.as_ref())?;
            instance.run_into(&inputs, outputs, options, control.as_ref(), carried.profile)
        })
    }

    /// The same with inputs that are given up.
    pub(crate) fn serve_donating(
        &self,
        inputs: &mut [Tensor],
        donations: &mut Donations,
        outputs: &mut [Tensor],
        carried: Carried<'_>,
    ) -> Result<(), Error> {
        guarded("a call", || {
            let options = &self.0.options;
            let control = options.control(carried.options.as_ref());
            let control = control.as_ref();
            let instance = self.instance_for(inputs, control)?;
            instance.run_donating(
                inputs,
                donations,
                outputs,
                options,
                control,
                carried.profile,
            )
        })
    }
}
