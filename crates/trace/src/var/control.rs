//! Control flow that depends on the values of a call: loops with a condition, and branches.

use super::Var;
use crate::recorder::{NestedError, Recorder};
use kiln_ir::ValueId;
use kiln_shape_inference::LoopBody;
use kiln_tensor::Tensor;

/// More iterations than any loop has.
const ALWAYS: i64 = i64::MAX >> 1;

impl Var {
    /// A while loop: repeats a step while a condition on the states, a `bool[]`, is true; returns the last states. The
    /// step and the condition receive the states and the `captures`, and cannot use any other variables; this variable
    /// only identifies the recording. The states keep their number of axes and element types.
    ///
    /// Both functions may be recorded more than once, and must do the same each time.
    ///
    /// ```
    /// use kiln_tensor::DType;
    /// use kiln_trace::{ArgumentType, Var, trace};
    ///
    /// // How often a number can be halved until it is below 1.
    /// let halvings = |x: Var| {
    ///     let count = x.full_like(0);
    ///     let last = x.repeat_while(
    ///         &[&x, &count],
    ///         &[],
    ///         |states, _| states[0].greater_equal(1),
    ///         |states, _| vec![&states[0] / 2, &states[1] + 1],
    ///     );
    ///     last[1].clone()
    /// };
    /// let graph = trace("halvings", &halvings, &[ArgumentType::new(DType::F32, 0)])?;
    /// assert_eq!(graph.outputs().len(), 1);
    /// # Ok::<(), kiln_trace::TraceError>(())
    /// ```
    #[must_use]
    #[track_caller]
    pub fn repeat_while(
        &self,
        states: &[&Var],
        captures: &[&Var],
        mut condition: impl FnMut(&[Var], &[Var]) -> Var,
        mut step: impl FnMut(&[Var], &[Var]) -> Vec<Var>,
    ) -> Vec<Var> {
        let recorder = &self.recorder;
        let (first, captured) = (values_of(recorder, states), values_of(recorder, captures));
        let results = first.zip(captured).and_then(|(first, captured)| {
            recorder.record_nested(|builder, nest| {
                let trips = builder.constant(Tensor::scalar(ALWAYS))?;
                let begins = nest.enter(builder, |recorder| {
                    let states = variables(recorder, &first);
                    condition(&states, &variables(recorder, &captured)).value_in(recorder)
                })?;
                builder.loop_(
                    trips,
                    begins,
                    &first,
                    &captured,
                    |builder, _, states, captures| {
                        nest.enter(builder, |recorder| {
                            let captures = variables(recorder, captures);
                            let next = step(&variables(recorder, states), &captures);
                            let goes_on = condition(&next, &captures).value_in(recorder)?;
                            Some(LoopBody {
                                condition: goes_on,
                                carried: values_of(recorder, &next.iter().collect::<Vec<_>>())?,
                                stacked: Vec::new(),
                            })
                        })
                    },
                )
            })
        });
        let results = results.unwrap_or_default();
        let result = |state: usize| Var::new(recorder, results.get(state).copied());
        (0..states.len()).map(result).collect()
    }

    /// The results of `then` if this variable, a `bool[]`, is true, otherwise those of `otherwise`: only one of the two
    /// is computed. Both receive the `captures`, and cannot use any other variables; their results must have the same
    /// element types and numbers of axes. For a choice element by element, see [`select`](Self::select).
    ///
    /// ```
    /// use kiln_tensor::DType;
    /// use kiln_trace::{ArgumentType, Var, trace};
    ///
    /// let scaled = |x: Var| {
    ///     let large = x.max(..).greater(1);
    ///     let [y] = large.choose(&[&x], |x| [&x[0] / 10], |x| [x[0].clone()]);
    ///     y
    /// };
    /// let graph = trace("scaled", &scaled, &[ArgumentType::new(DType::F32, 1)])?;
    /// assert_eq!(graph.outputs().len(), 1);
    /// # Ok::<(), kiln_trace::TraceError>(())
    /// ```
    #[must_use]
    #[track_caller]
    pub fn choose<const N: usize>(
        &self,
        captures: &[&Var],
        then: impl FnOnce(&[Var]) -> [Var; N],
        otherwise: impl FnOnce(&[Var]) -> [Var; N],
    ) -> [Var; N] {
        let recorder = &self.recorder;
        let captured = values_of(recorder, captures);
        let results = self.value.zip(captured).and_then(|(condition, captured)| {
            recorder.record_nested(|builder, nest| {
                builder.if_else::<NestedError>(
                    condition,
                    &captured,
                    |builder, captures| {
                        nest.enter(builder, |recorder| {
                            let results = then(&variables(recorder, captures));
                            values_of(recorder, &results.iter().collect::<Vec<_>>())
                        })
                    },
                    |builder, captures| {
                        nest.enter(builder, |recorder| {
                            let results = otherwise(&variables(recorder, captures));
                            values_of(recorder, &results.iter().collect::<Vec<_>>())
                        })
                    },
                )
            })
        });
        let results = results.unwrap_or_default();
        std::array::from_fn(|number| Var::new(recorder, results.get(number).copied()))
    }
}

fn variables(recorder: &Recorder, values: &[ValueId]) -> Vec<Var> {
    let values = values.iter().copied().map(Some);
    values.map(|value| Var::new(recorder, value)).collect()
}

#[track_caller]
fn values_of(recorder: &Recorder, variables: &[&Var]) -> Option<Vec<ValueId>> {
    let values = variables.iter().map(|variable| variable.value_in(recorder));
    values.collect()
}
