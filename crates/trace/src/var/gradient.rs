//! Gradients inside a recording.

use super::Var;
use crate::recorder::Recorder;
use kiln_autodiff::append_gradients;
use kiln_ir::ValueId;

impl Var {
    /// The gradients of this variable, a scalar such as a loss, with respect to others; zero for those it does not depend on. They
    /// are variables like any other: an update of parameters is recorded with the loss and compiled with it.
    ///
    /// ```
    /// use kiln_trace::{ArgumentType, Var, trace};
    /// use kiln_tensor::DType;
    ///
    /// let step = |x: Var, w: Var, y: Var| {
    ///     let loss = (x.matmul(&w) - y).square().mean(..);
    ///     let [slope] = loss.gradients([&w]);
    ///     (loss, w - slope * 0.1)
    /// };
    /// let graph = trace("step", &step, &[ArgumentType::new(DType::F32, 2); 3])?;
    /// assert_eq!(graph.outputs().len(), 2);
    /// # Ok::<(), kiln_trace::TraceError>(())
    /// ```
    #[must_use]
    #[track_caller]
    pub fn gradients<const N: usize>(&self, with_respect_to: [&Var; N]) -> [Var; N] {
        let slopes = self.slopes(&with_respect_to);
        std::array::from_fn(|index| {
            let slope = slopes
                .as_ref()
                .and_then(|slopes| slopes.get(index).copied());
            Var::new(&self.recorder, slope)
        })
    }

    /// As [`gradients`](Self::gradients), for a list of variables whose length is known at run time.
    #[must_use]
    #[track_caller]
    pub fn gradients_of_all(&self, with_respect_to: &[&Var]) -> Vec<Var> {
        let slopes = self.slopes(with_respect_to);
        let slope = |index: usize| {
            slopes
                .as_ref()
                .and_then(|slopes| slopes.get(index).copied())
        };
        (0..with_respect_to.len())
            .map(|index| Var::new(&self.recorder, slope(index)))
            .collect()
    }

    #[track_caller]
    fn slopes(&self, with_respect_to: &[&Var]) -> Option<Vec<ValueId>> {
        let recorder: &Recorder = &self.recorder;
        let output = self.value?;
        let mut inputs = Vec::with_capacity(with_respect_to.len());
        for variable in with_respect_to {
            inputs.push(variable.value_in(recorder)?);
        }
        recorder.differentiate(|builder, rules| {
            append_gradients(builder, &[(output, None)], &inputs, rules)
        })
    }
}
