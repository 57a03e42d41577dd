//! One call of a model or a session, with its inputs and options.

use crate::error::Error;
use crate::inputs::{Given, Inputs};
use crate::model::Model;
use crate::outputs::Outputs;
use crate::session::Session;
use kiln_lazy_runtime::{CallOptions, Cancellation, StepProfile};
use kiln_tensor::Tensor;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// One call of a model or of a session: created by [`Model::call`] and [`Session::call`], and executed by
/// [`run`](Self::run) or [`run_into`](Self::run_into).
///
/// ```
/// use kiln::{Cancellation, ErrorKind, Model, Source, Tensor};
/// use std::time::Duration;
///
/// let model = Model::load(Source::text("graph @double(%x: f32[N]) -> f32[N] {
///   %y = add %x, %x
///   return %y
/// }"))?;
/// let x = Tensor::full(&[2], 1.5f32)?;
/// let outputs = model.call([("x", &x)]).time_limit(Duration::from_secs(5)).run()?;
/// assert_eq!(outputs[0].to_vec::<f32>()?, [3.0, 3.0]);
///
/// let cancellation = Cancellation::new();
/// cancellation.cancel(); // usually from another thread, through a clone
/// let error = model.call([("x", &x)]).cancellation(&cancellation).run().unwrap_err();
/// assert_eq!(error.kind(), ErrorKind::Cancelled);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "a call is made by `run` or `run_into`"]
pub struct Call<'a> {
    target: Target<'a>,
    inputs: Inputs<'a>,
    carried: Carried<'a>,
}

enum Target<'a> {
    Model(&'a Model),
    Session(&'a mut Session),
}

/// The settings of a call other than its inputs and outputs.
#[derive(Default)]
pub(crate) struct Carried<'a> {
    /// `None` if nothing can end the call, in which case nothing is polled.
    pub(crate) options: Option<CallOptions>,
    pub(crate) profile: Option<&'a mut Vec<StepProfile>>,
}

/// The fields of [`Carried`].
pub(crate) type CarriedParts<'a> = (Option<&'a CallOptions>, Option<&'a mut Vec<StepProfile>>);

impl Carried<'_> {
    #[inline]
    pub(crate) fn parts(&mut self) -> CarriedParts<'_> {
        (self.options.as_ref(), self.profile.as_deref_mut())
    }
}

impl<'a> Call<'a> {
    #[inline]
    pub(crate) fn of_model(model: &'a Model, inputs: Inputs<'a>) -> Self {
        Self {
            target: Target::Model(model),
            inputs,
            carried: Carried::default(),
        }
    }

    #[inline]
    pub(crate) fn of_session(session: &'a mut Session, inputs: Inputs<'a>) -> Self {
        Self {
            target: Target::Session(session),
            inputs,
            carried: Carried::default(),
        }
    }

    /// Ends the call, with `E0835`, when another thread cancels this. The call ends within milliseconds wherever it is,
    /// even in the middle of a step, and stops waiting for a compiler.
    pub fn cancellation(self, cancellation: &Cancellation) -> Self {
        self.with(|options| options.with_cancellation(cancellation))
    }

    /// Ends the call in the same way once `should_stop` returns true. It is called often, on any thread that works for the
    /// call and on the thread that supervises all calls of a runtime, so it should return at once.
    pub fn cancel_when(self, should_stop: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        self.with(|options| options.with_should_stop(Arc::new(should_stop)))
    }

    /// Ends the call in the same way, with `E0894`, when it has taken this long, time spent waiting for compilers included.
    pub fn time_limit(self, limit: Duration) -> Self {
        self.with(|options| options.with_time_limit(limit))
    }

    /// Writes the cost of each step of the call to `steps`, in order, replacing its contents. The call fails with `E0983`
    /// if the model is interpreted.
    ///
    /// ```no_run
    /// # let (model, x) = (kiln::Model::load("model.onnx")?, kiln::Tensor::scalar(1.0f32));
    /// let mut steps = Vec::new();
    /// let outputs = model.call([("x", &x)]).profile(&mut steps).run()?;
    /// # let _ = outputs;
    /// # Ok::<(), kiln::Error>(())
    /// ```
    pub fn profile(mut self, steps: &'a mut Vec<StepProfile>) -> Self {
        self.carried.profile = Some(steps);
        self
    }

    /// Executes the call.
    ///
    /// # Errors
    /// When an input is missing, unknown, given twice, or does not have the dtype, rank or sizes that the model takes;
    /// when an op has a fault, such as an index out of range; when a limit is exceeded; when the call was ended. For a
    /// session see also [`Session::run`].
    pub fn run(mut self) -> Result<Outputs, Error> {
        match self.target {
            Target::Model(model) => model.serve(&mut self.inputs, &mut self.carried),
            Target::Session(session) => session.serve(&self.inputs, &mut self.carried),
        }
    }

    /// Executes the call and writes its results into `outputs`, one tensor per output. A tensor with the output's dtype and
    /// shape, whose memory is not shared, is written in place; kernels compute there directly where possible. A compiled
    /// call with sizes seen before, and with inputs by position or donated, then allocates no memory.
    ///
    /// # Errors
    /// As [`run`](Self::run); when the number of tensors differs from the number of outputs. The contents of the tensors
    /// are then unspecified, unless the call may be ended early: then they are unchanged. Such a call can no longer be
    /// ended once all results are computed and only the copy into the tensors remains.
    ///
    /// ```
    /// use kiln::{DType, Model, Source, Tensor};
    ///
    /// let model = Model::load(Source::text("graph @double(%x: f32[N]) -> f32[N] {
    ///   %y = add %x, %x
    ///   return %y
    /// }"))?;
    /// let mut outputs = [Tensor::zeros(DType::F32, &[2])?];
    /// for n in 0..3 {
    ///     let x = Tensor::full(&[2], n as f32)?;
    ///     model.call(&[x]).run_into(&mut outputs)?;
    ///     assert_eq!(outputs[0].to_vec::<f32>()?, [2.0 * n as f32; 2]);
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    // Inlined, so that a call that carries nothing needs no `Call` in memory.
    #[inline]
    pub fn run_into(mut self, outputs: &mut [Tensor]) -> Result<(), Error> {
        let carried = &mut self.carried;
        match (self.target, &mut self.inputs.0) {
            (Target::Model(model), Given::Slice(inputs)) => {
                model.serve_into(inputs, outputs, carried.parts())
            }
            (Target::Model(model), Given::Donated(inputs, donations)) => {
                model.serve_donating(inputs, donations, outputs, carried.parts())
            }
            (Target::Model(model), Given::Listed(_)) => {
                let inputs = model.arranged(&self.inputs)?;
                model.serve_into(&inputs, outputs, carried.parts())
            }
            (Target::Session(session), _) => session.serve_into(&self.inputs, outputs, carried),
        }
    }

    fn with(mut self, change: impl FnOnce(CallOptions) -> CallOptions) -> Self {
        let options = self.carried.options.unwrap_or_default();
        self.carried.options = Some(change(options));
        self
    }
}

impl fmt::Debug for Call<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let target: &dyn fmt::Debug = match &self.target {
            Target::Model(model) => model,
            Target::Session(session) => session,
        };
        f.debug_struct("Call")
            .field("of", target)
            .field("inputs", &self.inputs)
            .field("ended_by", &self.carried.options)
            .field("is_profiled", &self.carried.profile.is_some())
            .finish()
    }
}
