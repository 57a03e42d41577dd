//! Values with a custom gradient.
//!
//! While a function is recorded, such values are the results of a [custom op](crate::gradient_ops) whose gradient is
//! the caller's function.

use crate::error::{CallSite, TraceError};
use crate::gradient_ops::{KeepFirst, op_of};
use crate::recorder::Recorder;
use crate::var::Var;
use kiln_autodiff::{CustomGradient, GradientContext, GradientError};
use kiln_ir::{Definition, Graph, Op, OpId, ValueId};
use kiln_shape_inference::GraphBuilder;
use std::panic::Location;
use std::sync::Arc;

/// The inputs of a custom gradient; see [`custom_gradient`].
#[derive(Clone, Debug)]
pub struct Backward<const N: usize, const M: usize> {
    /// The inputs.
    pub inputs: [Var; N],
    /// The outputs.
    pub outputs: [Var; M],
    /// The cotangents of the outputs, of their types; zero where nothing depends on an output.
    pub cotangents: [Var; M],
}

/// The values of `forward(inputs)`, with `backward` as their gradient with respect to the inputs, however they are
/// computed.
///
/// `backward` returns a cotangent for each input, of its dtype and sizes; those of inputs that are not floats are
/// ignored. It is called when a gradient is taken, and may use only its arguments. Gradients of gradients are those of
/// the ops that it records.
///
/// From outside, `forward` may use constants, masks, integers and results of `stop_gradient`, but no other floats:
/// their gradients would be lost (E0615).
///
/// A straight-through gradient of rounding, and a clipped gradient:
///
/// ```
/// use kiln_tensor::Tensor;
/// use kiln_trace::{Tape, Var, custom_gradient};
///
/// let rounded = |x: &Var| -> Var {
///     let [y] = custom_gradient([x], |[x]| [x.floor()], |rule| rule.cotangents);
///     y
/// };
/// let limited = |x: &Var| -> Var {
///     let [y] = custom_gradient([x], |x| x, |rule| rule.cotangents.map(|g| g.maximum(-1.0).minimum(1.0)));
///     y
/// };
/// let tape = Tape::new("rules");
/// let x = tape.input("x", &Tensor::from_slice(&[2], &[1.5f64, -0.2])?);
/// let [slope] = (rounded(&x) * 3.0).sum(..).gradients([&x]);
/// assert_eq!(tape.value(&slope)?.to_vec::<f64>()?, [3.0, 3.0]);
/// let [slope] = (limited(&x) * 3.0).sum(..).gradients([&x]);
/// assert_eq!(tape.value(&slope)?.to_vec::<f64>()?, [1.0, 1.0]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use]
#[track_caller]
pub fn custom_gradient<const N: usize, const M: usize>(
    inputs: [&Var; N],
    forward: impl FnOnce([Var; N]) -> [Var; M],
    backward: impl Fn(Backward<N, M>) -> [Var; N] + Send + Sync + 'static,
) -> [Var; M] {
    let at = CallSite(Location::caller());
    let Some(recorder) = inputs.first().map(|input| input.recorder().clone()) else {
        return forward(inputs.map(Clone::clone));
    };
    let before = recorder.look(|builder| Extent::of(builder.graph()));
    let outputs = forward(inputs.map(Clone::clone));
    let nothing = || std::array::from_fn(|_| Var::new(&recorder, None));
    let values: Option<Vec<ValueId>> = outputs
        .iter()
        .chain(inputs)
        .map(|variable| variable.value_in(&recorder))
        .collect();
    let (Some(before), Some(values)) = (before, values) else {
        return nothing();
    };
    let given = values.get(M..).unwrap_or_default();
    let captured = recorder.look(|builder| before.captured(builder.graph(), given));
    if let Some(name) = captured.flatten() {
        recorder.fail(TraceError::Capture { at, name });
        return nothing();
    }
    let (name, op) = op_of(M);
    let rule = Arc::new(Rule::<_, N, M> { backward });
    recorder.add_rule(&name, rule, Arc::new(KeepFirst(M)));
    let results = recorder.record(|builder| builder.op(op, &values));
    match results {
        Some(results) => {
            std::array::from_fn(|index| Var::new(&recorder, results.get(index).copied()))
        }
        None => nothing(),
    }
}

/// The extent of a graph: how many ops and values it has.
struct Extent {
    ops: usize,
    regions: usize,
}

impl Extent {
    fn of(graph: &Graph) -> Self {
        Self {
            ops: graph.n_ops(),
            regions: graph.n_regions(),
        }
    }

    /// Describes a float from outside that the ops added since then read, and that is neither an input nor a constant,
    /// if there is one.
    fn captured(&self, graph: &Graph, given: &[ValueId]) -> Option<String> {
        let stops =
            |op: &Op| matches!(op, Op::Map { function, .. } if function.name() == "stop_gradient");
        let added = graph.ops().skip(self.ops);
        let added = added.filter(|(_, data)| !stops(&data.op));
        let mut read = added.flat_map(|(_, data)| &data.operands);
        let is_captured = |&&value: &&ValueId| {
            let is_constant = |op: OpId| {
                let data = graph.op(op);
                data.operands.is_empty() || stops(&data.op)
            };
            let is_older = match graph.value(value).definition {
                // Ids are numbered in the order of creation.
                Definition::Result { op, .. } => {
                    (op.as_u32() as usize) < self.ops && !is_constant(op)
                }
                Definition::Parameter { region, .. } => (region.as_u32() as usize) < self.regions,
            };
            let is_float = graph.ty(value).innermost().dtype.is_float();
            is_older && is_float && !given.contains(&value)
        };
        let value = read.find(is_captured)?;
        Some(graph.ty(*value).display(graph.dims()).to_string())
    }
}

/// A gradient given as a function of variables.
struct Rule<F, const N: usize, const M: usize> {
    backward: F,
}

impl<F, const N: usize, const M: usize> CustomGradient for Rule<F, N, M>
where
    F: Fn(Backward<N, M>) -> [Var; N] + Send + Sync,
{
    fn cotangents(
        &self,
        context: &mut GradientContext<'_, '_>,
    ) -> Result<Vec<Option<ValueId>>, GradientError> {
        let mut cotangents = Vec::with_capacity(M);
        for index in 0..M {
            cotangents.push(context.cotangent(index)?);
        }
        let inputs = context.operands().get(M..).unwrap_or_default();
        let outputs = context.results();
        // The recorder has the builder while the caller's function runs.
        let lent = std::mem::replace(&mut *context.builder, GraphBuilder::new(""));
        let recorder = Recorder::new(lent);
        let at = |values: &[ValueId], index: usize| Var::new(&recorder, values.get(index).copied());
        let found = (self.backward)(Backward {
            inputs: std::array::from_fn(|index| at(inputs, index)),
            outputs: std::array::from_fn(|index| at(outputs, index)),
            cotangents: std::array::from_fn(|index| at(&cotangents, index)),
        });
        let found = found.map(|variable| variable.value_in(&recorder));
        let (builder, error) = recorder.into_parts();
        if let Some(builder) = builder {
            *context.builder = builder;
        }
        if let Some(error) = error {
            return Err(GradientError::Backward {
                code: error.code(),
                message: error.to_string(),
            });
        }
        let is_wanted = |index: usize| context.is_wanted(M + index);
        let of_inputs = found.into_iter().enumerate();
        let of_inputs = of_inputs.map(|(index, value)| value.filter(|_| is_wanted(index)));
        Ok(std::iter::repeat_n(None, M).chain(of_inputs).collect())
    }
}
