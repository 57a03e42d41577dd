//! Loops over an axis.

use super::Var;
use crate::recorder::Recorder;
use crate::size::Size;
use kiln_ir::ValueId;

/// The results of one step of a [`scan`](Var::scan).
#[derive(Clone, Debug)]
pub struct Step {
    /// The states for the next step, each of the type it had.
    pub states: Vec<Var>,
    /// Values to be stacked along a new outermost axis.
    pub outputs: Vec<Var>,
}

impl Var {
    /// A loop over this variable's outermost axis: at each index, `step` receives the slice at the index, the states,
    /// and the `captures`, and cannot use any other variables. Returns the last states, then each output stacked.
    ///
    /// The step may be recorded more than once, and must do the same each time.
    ///
    /// ```
    /// use kiln_tensor::DType;
    /// use kiln_trace::{ArgumentType, Step, Var, trace};
    ///
    /// let running_sums = |x: Var| {
    ///     let first = x.sum(0) * 0.0;
    ///     let results = x.scan(&[&first], &[], |x, states, _| {
    ///         let sum = &states[0] + x;
    ///         Step { states: vec![sum.clone()], outputs: vec![sum] }
    ///     });
    ///     results[1].clone()
    /// };
    /// let graph = trace("sums", &running_sums, &[ArgumentType::new(DType::F32, 2)])?;
    /// assert_eq!(graph.outputs().len(), 1);
    /// # Ok::<(), kiln_trace::TraceError>(())
    /// ```
    #[must_use]
    #[track_caller]
    pub fn scan(
        &self,
        states: &[&Var],
        captures: &[&Var],
        step: impl FnMut(Var, &[Var], &[Var]) -> Step,
    ) -> Vec<Var> {
        let mut outer = Vec::with_capacity(captures.len() + 1);
        outer.push(self);
        outer.extend(captures);
        let mut step = step;
        let trips = self.size(0);
        self.repeat(trips, states, &outer, |index, states, captures| {
            let Some((sequence, captures)) = captures.split_first() else {
                unreachable!("the sequence is the first capture")
            };
            step(sequence.at(index), states, captures)
        })
    }

    /// A loop that repeats a step `trips` times; the step receives the index `i64[]`, the states and the captures.
    /// Otherwise as [`scan`](Self::scan); this variable only identifies the recording.
    #[must_use]
    #[track_caller]
    pub fn repeat(
        &self,
        trips: impl Into<Size>,
        states: &[&Var],
        captures: &[&Var],
        mut step: impl FnMut(Var, &[Var], &[Var]) -> Step,
    ) -> Vec<Var> {
        let recorder = &self.recorder;
        let mut n_outputs = None;
        let results = self.repeated(
            trips.into(),
            states,
            captures,
            &mut |index, states, captures| {
                let done = step(index, states, captures);
                n_outputs = Some(done.outputs.len());
                done
            },
        );
        let nothing = |count| vec![Var::new(recorder, None); count];
        // If the recording failed before the step, the step only tells how many outputs there would be.
        let n_outputs = n_outputs.unwrap_or_else(|| {
            let (states, captures) = (nothing(states.len()), nothing(captures.len()));
            let done = step(Var::new(recorder, None), &states, &captures);
            done.outputs.len()
        });
        // A step that returns too few states ends the recording; the expected number of results is returned
        // nevertheless.
        let n_results = states.len() + n_outputs;
        match results {
            Some(results) => {
                let results = results.into_iter().take(n_results).map(Some);
                results.map(|value| Var::new(recorder, value)).collect()
            }
            None => nothing(n_results),
        }
    }

    #[track_caller]
    fn repeated(
        &self,
        trips: Size,
        states: &[&Var],
        captures: &[&Var],
        step: &mut StepFunction<'_>,
    ) -> Option<Vec<ValueId>> {
        let recorder = &self.recorder;
        let trips = trips.dim(recorder)?;
        let values_of = |variables: &[&Var]| -> Option<Vec<ValueId>> {
            let values = variables.iter().map(|variable| variable.value_in(recorder));
            values.collect()
        };
        let (states, captures) = (values_of(states)?, values_of(captures)?);
        recorder.record_nested(|builder, nest| {
            let count = builder.dims_tensor(&[trips])?;
            let count = builder.reshape(count, &[])?;
            builder.repeat(
                count,
                &states,
                &captures,
                |builder, index, states, captures| {
                    let (next, outputs) = nest.enter(builder, |recorder| {
                        step_of(recorder, index, states, captures, step)
                    })?;
                    // Gradients read the states at the start of each step; without gradients, these outputs are unused.
                    Ok((next, [&outputs, states].concat()))
                },
            )
        })
    }

    /// The slice at an index `i64[]` of the outermost axis, which is removed.
    #[must_use]
    #[track_caller]
    pub fn at(&self, index: impl AsRef<Var>) -> Var {
        self.gather(index, 0)
    }
}

/// A step, as a function of the index, the states and the captures.
type StepFunction<'a> = dyn FnMut(Var, &[Var], &[Var]) -> Step + 'a;

/// The values of a step: states and outputs.
type StepValues = (Vec<ValueId>, Vec<ValueId>);

/// Records a step; `None` if that failed, in which case the recorder has the reason.
fn step_of(
    recorder: &Recorder,
    index: ValueId,
    states: &[ValueId],
    captures: &[ValueId],
    step: &mut StepFunction<'_>,
) -> Option<StepValues> {
    let variables = |values: &[ValueId]| -> Vec<Var> {
        let values = values.iter().copied().map(Some);
        values.map(|value| Var::new(recorder, value)).collect()
    };
    let index = Var::new(recorder, Some(index));
    let done = step(index, &variables(states), &variables(captures));
    let values = |variables: Vec<Var>| -> Option<Vec<ValueId>> {
        let values = variables.iter().map(|variable| variable.value_in(recorder));
        values.collect()
    };
    Some((values(done.states)?, values(done.outputs)?))
}
