//! A tape: a recording whose values are computed as it is made.

use crate::eager::EagerValues;
use crate::error::{CallSite, TraceError};
use crate::gradient_ops::engine;
use crate::recorded::Recorded;
use crate::recorder::Recorder;
use crate::var::Var;
use kiln_ir::{Graph, OpId, Rebuild, ValueId, Visit};
use kiln_shape_inference::GraphBuilder;
use kiln_symbolic_shape::DimLimits;
use kiln_tensor::Tensor;
use std::collections::HashSet;
use std::convert::Infallible;
use std::panic::Location;

/// A recording of eager calls: every op is computed as soon as it is recorded, one at a time, as the interpreter computes it.
///
/// The sizes of its inputs are symbols, so its graph also works for tensors of other sizes. A tape keeps all values as
/// long as it lives.
///
/// ```
/// use kiln_tensor::Tensor;
/// use kiln_trace::Tape;
///
/// let tape = Tape::new("squares");
/// let x = tape.input("x", &Tensor::from_slice(&[2], &[1.0f64, 3.0])?);
/// let loss = x.square().sum(..);
/// let [slope] = loss.gradients([&x]);
/// assert_eq!(tape.value(&loss)?.to_vec::<f64>()?, [10.0]);
/// assert_eq!(tape.value(&slope)?.to_vec::<f64>()?, [2.0, 6.0]);
/// assert_eq!(tape.graph(&[("loss", &loss)])?.inputs().len(), 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Tape(Recorder);

impl Tape {
    /// An empty tape.
    pub fn new(name: &str) -> Self {
        Self::with_limits(name, DimLimits::default())
    }

    /// An empty tape with other limits for the size table of its graph.
    pub fn with_limits(name: &str, limits: DimLimits) -> Self {
        let builder = GraphBuilder::with_limits(name, engine(), limits);
        Self(Recorder::eager(builder, EagerValues::default()))
    }

    /// An input with its value. Its sizes become symbols `NAME_0`, `NAME_1`, … of the graph.
    #[track_caller]
    pub fn input(&self, name: &str, tensor: &Tensor) -> Var {
        let value = self.0.add_valued_input(name, tensor);
        Var::new(&self.0, value)
    }

    /// A constant tensor.
    #[track_caller]
    pub fn constant(&self, tensor: &Tensor) -> Var {
        let value = self.0.record(|builder| builder.constant(tensor.clone()));
        Var::new(&self.0, value)
    }

    /// The tensor of a variable.
    ///
    /// # Errors
    /// The first mistake or fault of the tape, with its source line; E0883 for a variable of another recording.
    #[track_caller]
    pub fn value(&self, variable: &Var) -> Result<Tensor, TraceError> {
        let at = CallSite(Location::caller());
        let value = self.value_id(variable, at)?;
        self.0.tensor(value).ok_or(TraceError::Failed { at })
    }

    /// The graph of these outputs, with all inputs and the ops that they depend on. The tape can be continued.
    ///
    /// # Errors
    /// As [`value`](Self::value), and E0884 if there are no outputs.
    #[track_caller]
    pub fn graph(&self, outputs: &[(&str, &Var)]) -> Result<Graph, TraceError> {
        Ok((**self.recorded(outputs)?.graph()).clone())
    }

    /// The recording of these outputs, with the custom gradients of values. The tape can be continued.
    ///
    /// # Errors
    /// As [`graph`](Self::graph).
    #[track_caller]
    pub fn recorded(&self, outputs: &[(&str, &Var)]) -> Result<Recorded, TraceError> {
        let at = CallSite(Location::caller());
        if outputs.is_empty() {
            return Err(TraceError::NoResult);
        }
        let mut values: Vec<(&str, ValueId)> = Vec::with_capacity(outputs.len());
        for (name, variable) in outputs {
            values.push((name, self.value_id(variable, at)?));
        }
        let builder = self.0.look(Clone::clone);
        let builder = builder.ok_or(TraceError::Foreign { at })?;
        let graph = builder.finish(&values);
        let graph = graph.map_err(|source| TraceError::Op { at, source })?;
        Ok(Recorded::new(pruned(&graph), self.0.rules()))
    }

    /// The tensors of the inputs, in order.
    pub fn inputs(&self) -> Vec<Tensor> {
        let inputs = self.0.look(|builder| builder.graph().inputs().to_vec());
        let inputs = inputs.unwrap_or_default().into_iter();
        inputs.filter_map(|input| self.0.tensor(input)).collect()
    }

    /// The positions of variables among the inputs.
    ///
    /// # Errors
    /// As [`value`](Self::value), and E0889 for a variable that is not an input.
    #[track_caller]
    pub fn input_positions(&self, variables: &[&Var]) -> Result<Vec<usize>, TraceError> {
        let at = CallSite(Location::caller());
        let inputs = self.0.look(|builder| builder.graph().inputs().to_vec());
        let inputs = inputs.unwrap_or_default();
        let mut positions = Vec::with_capacity(variables.len());
        for variable in variables {
            let value = self.value_id(variable, at)?;
            let position = inputs.iter().position(|&input| input == value);
            positions.push(position.ok_or(TraceError::NotAnInput { at })?);
        }
        Ok(positions)
    }

    /// The number of ops recorded so far.
    pub fn n_ops(&self) -> usize {
        let count = self.0.look(|builder| builder.graph().ops().count());
        count.unwrap_or(0)
    }

    fn value_id(&self, variable: &Var, at: CallSite) -> Result<ValueId, TraceError> {
        if let Some(error) = self.0.take_error() {
            return Err(error);
        }
        if !variable.is_of(&self.0) {
            return Err(TraceError::Foreign { at });
        }
        variable.id().ok_or(TraceError::Failed { at })
    }
}

/// The graph without the ops that its outputs do not depend on: a tape may continue after its outputs, for example with
/// gradients.
fn pruned(graph: &Graph) -> Graph {
    let mut live: HashSet<ValueId> = graph.outputs().iter().copied().collect();
    let mut kept = HashSet::new();
    for &op in graph.region(graph.body()).ops.iter().rev() {
        let data = graph.op(op);
        if !data.symbols.is_empty() || data.results.iter().any(|result| live.contains(result)) {
            live.extend(data.operands.iter().copied());
            kept.insert(op);
        }
    }
    let body = graph.body();
    let in_body: HashSet<OpId> = graph.region(body).ops.iter().copied().collect();
    let visited = Rebuild::new(graph).run::<Infallible>(&mut |_, _, op| {
        Ok(match kept.contains(&op) || !in_body.contains(&op) {
            true => Visit::Copy,
            false => Visit::Done,
        })
    });
    let Ok(graph) = visited;
    graph
}
