//! The states of a session, checked before its first call.

use super::growth::Growth;
use super::{Session, State};
use crate::error::{Error, Failure};
use crate::model::Model;
use kiln_lazy_runtime::Donations;
use kiln_symbolic_shape::SymbolicShape;
use kiln_tensor::Tensor;
use std::sync::Arc;

/// Builds a [`Session`]: which inputs it keeps, and their initial values.
#[derive(Clone, Debug)]
pub struct SessionBuilder {
    model: Model,
    /// Input, output, initial tensor.
    states: Vec<(String, String, Tensor)>,
    /// A size, and its limit.
    grows: Option<(String, usize)>,
}

impl SessionBuilder {
    pub(crate) fn new(model: &Model) -> Self {
        Self {
            model: model.clone(),
            states: Vec::new(),
            grows: None,
        }
    }

    /// Keeps an input, which is `first` initially, and afterwards the named output of the last call.
    #[must_use]
    pub fn state(mut self, input: &str, output: &str, first: Tensor) -> Self {
        self.states
            .push((input.to_owned(), output.to_owned(), first));
        self
    }

    /// Lets the states grow along the size that the model names `dim`, up to `limit` entries, when
    /// [`reserve`](Session::reserve) asks for more than they have.
    #[must_use]
    pub fn grows(mut self, dim: &str, limit: usize) -> Self {
        self.grows = Some((dim.to_owned(), limit));
        self
    }

    /// Builds the session.
    ///
    /// # Errors
    /// `E0972` when states are to grow along a size that none of them has. `E0875` when the model has no such input or
    /// output, one of them is in two states, or their dtypes or shapes differ from each other or from the tensor's.
    pub fn build(self) -> Result<Session, Error> {
        let (model, nothing) = (self.model, Tensor::scalar(0u8));
        let mut inputs = vec![nothing.clone(); model.inputs().len()];
        let outputs = vec![nothing.clone(); model.outputs().len()];
        let mut states: Vec<State> = Vec::with_capacity(self.states.len());
        for (name, output, first) in self.states {
            let (input, output) = positions(&model, &states, &name, &output)?;
            check_tensor(&model, input, &first)?;
            states.push(State {
                name,
                input,
                output,
                is_lost: false,
            });
            inputs[input] = first;
        }
        let growth = match self.grows {
            Some((dim, limit)) => {
                let shapes = states
                    .iter()
                    .map(|state| model.inputs()[state.input].shape());
                Some(Growth::new(shapes, dim, limit)?)
            }
            None => None,
        };
        let pairs = states.iter().map(|state| (state.input, state.output));
        let donations = Donations::new(pairs)?;
        let names = model.outputs().iter().enumerate();
        let names =
            names.filter(|(position, _)| !states.iter().any(|state| state.output == *position));
        let names: Vec<Arc<str>> = names.map(|(_, output)| Arc::from(output.name())).collect();
        Ok(Session {
            model,
            inputs,
            outputs,
            states,
            donations,
            growth,
            names: names.into(),
            nothing,
        })
    }
}

/// The positions of a state's input and output, which no other state uses.
fn positions(
    model: &Model,
    states: &[State],
    input: &str,
    output: &str,
) -> Result<(usize, usize), Error> {
    let mut inputs = model.inputs().iter();
    let mut outputs = model.outputs().iter();
    let from = inputs.position(|known| known.name() == input);
    let to = outputs.position(|known| known.name() == output);
    let from = from.ok_or_else(|| unfit(input, "an input of the model", "none of that name"))?;
    let no_output = || {
        let found = format!("`{}`", output.escape_debug());
        unfit(input, "an output of the model", found)
    };
    let to = to.ok_or_else(no_output)?;
    if states
        .iter()
        .any(|state| state.input == from || state.output == to)
    {
        let expected = "an input and an output that are in no other state";
        return Err(unfit(input, expected, "one that is"));
    }
    let (given, taken) = (&model.outputs()[to], &model.inputs()[from]);
    let dtypes_fit =
        given.dtype().is_none() || taken.dtype().is_none() || given.dtype() == taken.dtype();
    let shapes = given.shape().zip(taken.shape());
    let shapes_fit = shapes.is_none_or(|(given, taken)| taken.is_compatible_with(given));
    if !dtypes_fit || !shapes_fit {
        return Err(unfit(
            input,
            "an output of the input's dtype and shape",
            given.to_string(),
        ));
    }
    Ok((from, to))
}

/// Whether a tensor may be an input.
pub(super) fn check_tensor(model: &Model, input: usize, tensor: &Tensor) -> Result<(), Error> {
    let description = &model.inputs()[input];
    let is_dtype = description
        .dtype()
        .is_none_or(|dtype| dtype == tensor.dtype());
    let sizes = tensor.shape().iter();
    let sizes = sizes.map(|&size| i64::try_from(size).unwrap_or(i64::MAX));
    let given = SymbolicShape::from_concrete(&sizes.collect::<Vec<i64>>());
    let is_shape = description
        .shape()
        .is_none_or(|shape| shape.is_compatible_with(&given));
    if is_dtype && is_shape {
        return Ok(());
    }
    let found = format!("{}{:?}", tensor.dtype(), tensor.shape());
    Err(unfit(
        description.name(),
        "a tensor of the input's dtype and shape",
        found,
    ))
}

pub(super) fn unfit(input: &str, expected: &'static str, found: impl Into<String>) -> Error {
    let input = input.escape_debug().to_string();
    let found = found.into();
    Failure::State {
        input,
        expected,
        found,
    }
    .into()
}
