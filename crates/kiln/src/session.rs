//! Calls that pass tensors on to the next one: growing caches, trained parameters, hidden states.

mod branches;
mod builder;
mod capacity;
mod growth;

pub use builder::SessionBuilder;
use builder::{check_tensor, unfit};
use growth::Growth;

use crate::call::{Call, Carried};
use crate::error::{Error, Failure};
use crate::inputs::{Given, Inputs};
use crate::model::{Model, arrange_beside};
use crate::outputs::Outputs;
use kiln_lazy_runtime::{DonationFate, Donations};
use kiln_tensor::Tensor;
use std::fmt;
use std::sync::Arc;

/// A model with *states*: inputs that it keeps between calls, each replaced by an output of the call.
///
/// States are donated to the outputs that replace them, so that an output may be computed in the memory of the state. A
/// graph that changes part of a state (`update_slice`, a scatter) then writes that part and copies nothing; a call with
/// sizes seen before allocates nothing. A cache therefore has the size of its full capacity, and an input says how much of
/// it is filled: one launch plan serves every length. On a device with its own memory, states stay there from call to call,
/// unless [outputs](crate::Options::outputs) are requested in the host's memory; reading a state downloads it.
///
/// A session is called by one thread at a time, which the compiler enforces:
///
/// ```compile_fail,E0499
/// # let model = kiln::Model::load(kiln::Source::text("graph @id(%x: f32[N]) -> f32[N] { return %x }")).unwrap();
/// let mut session = model.session().build().unwrap();
/// std::thread::scope(|threads| {
///     threads.spawn(|| session.run([("x", &kiln::Tensor::scalar(1.0f32))]));
///     threads.spawn(|| session.run([("x", &kiln::Tensor::scalar(2.0f32))]));
/// });
/// ```
///
/// A cache of four rows, written one row at a time:
///
/// ```
/// use kiln::{Model, Source, Tensor};
///
/// let text = "graph @append(%cache: f32[C, 2], %at: i64[1], %row: f32[1, 2]) -> (f32[C, 2], f32[2]) {
///   %next = update_slice %cache, %at, %row {axes = [0]}
///   %sum = reduce %next {function = sum, axes = [0]}
///   return %next, %sum
/// }";
/// let model = Model::load(Source::text(text))?;
/// let empty = Tensor::full(&[4, 2], 0.0f32)?;
/// let mut session = model.session().state("cache", "next", empty).build()?;
/// for at in 0..3i64 {
///     let row = Tensor::full(&[1, 2], 1.5f32)?;
///     let at = Tensor::from_slice(&[1], &[at])?;
///     let outputs = session.run([("at", &at), ("row", &row)])?;
///     assert_eq!(outputs.iter().count(), 1, "the sum alone: the state stays with the session");
/// }
/// assert_eq!(session.state("cache")?.to_vec::<f32>()?, [1.5, 1.5, 1.5, 1.5, 1.5, 1.5, 0.0, 0.0]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Session {
    model: Model,
    /// In the model's order, the states among them.
    inputs: Vec<Tensor>,
    /// In the model's order; for a state's output, memory into which its next value may be written.
    outputs: Vec<Tensor>,
    states: Vec<State>,
    donations: Donations,
    /// The size along which states grow, if they may.
    growth: Option<Growth>,
    /// The names of the outputs that are not states.
    names: Arc<[Arc<str>]>,
    /// A placeholder for absent tensors.
    nothing: Tensor,
}

/// An input that a session keeps.
#[derive(Clone)]
struct State {
    name: String,
    input: usize,
    output: usize,
    /// Whether a failed call left its elements undefined.
    is_lost: bool,
}

impl Session {
    /// The model.
    pub fn model(&self) -> &Model {
        &self.model
    }

    /// Calls the model with the inputs that are not states, by name or by position among them: see [`Inputs`]. States
    /// become the results of the call; the other outputs are returned.
    ///
    /// # Errors
    /// As [`Call::run`]; `E0877` for the wrong number of tensors. States are then unchanged, except those into which
    /// results were being written, and the next call fails with `E0876` until these are [set](Self::set_state).
    pub fn run<'a>(&'a mut self, inputs: impl Into<Inputs<'a>>) -> Result<Outputs, Error> {
        self.call(inputs).run()
    }

    /// A call with options in addition to its inputs. A call that may be ended computes into memory other than that of
    /// the states, so that no state is lost. The tensors it is given to write into are for the outputs that replace no
    /// state; with inputs by position, and sizes seen before, a compiled call then allocates nothing.
    pub fn call<'a>(&'a mut self, inputs: impl Into<Inputs<'a>>) -> Call<'a> {
        Call::of_session(self, inputs.into())
    }

    pub(crate) fn serve(
        &mut self,
        inputs: &Inputs<'_>,
        carried: &mut Carried<'_>,
    ) -> Result<Outputs, Error> {
        self.place(inputs)?;
        self.advance(carried)?;
        let is_state = |position| self.states.iter().any(|state| state.output == position);
        let mut given = Vec::with_capacity(self.names.len());
        for (position, output) in self.outputs.iter_mut().enumerate() {
            if !is_state(position) {
                given.push(std::mem::replace(output, self.nothing.clone()));
            }
        }
        Ok(Outputs::new(Arc::clone(&self.names), given))
    }

    pub(crate) fn serve_into(
        &mut self,
        inputs: &Inputs<'_>,
        outputs: &mut [Tensor],
        carried: &mut Carried<'_>,
    ) -> Result<(), Error> {
        check_count(
            "outputs",
            self.outputs.len() - self.states.len(),
            outputs.len(),
        )?;
        self.place(inputs)?;
        self.swap_outputs(outputs);
        let called = self.advance(carried);
        self.swap_outputs(outputs);
        called
    }

    /// Combines the inputs of a call with the states.
    fn place(&mut self, inputs: &Inputs<'_>) -> Result<(), Error> {
        let states = &self.states;
        let is_state = |position| states.iter().any(|state| state.input == position);
        let tensors: &[Tensor] = match &inputs.0 {
            Given::Slice(tensors) => tensors,
            Given::Donated(tensors, _) => tensors,
            Given::Listed(listed) => {
                let given = arrange_beside(self.model.signature(), listed, &is_state)?;
                for (place, given) in self.inputs.iter_mut().zip(given) {
                    if let Some(tensor) = given {
                        place.clone_from(tensor);
                    }
                }
                return Ok(());
            }
        };
        check_count("inputs", self.inputs.len() - states.len(), tensors.len())?;
        let open = self.inputs.iter_mut().enumerate();
        let open = open.filter(|(position, _)| !is_state(*position));
        for ((_, place), tensor) in open.zip(tensors) {
            place.clone_from(tensor);
        }
        Ok(())
    }

    /// The current value of a state: from the last call, or as set. A clone shares its memory, so the next call then
    /// computes the state into other memory.
    ///
    /// # Errors
    /// `E0875` if there is no state of that name; `E0876` if a failed call left its elements undefined.
    pub fn state(&self, input: &str) -> Result<&Tensor, Error> {
        let state = &self.states[self.position(input)?];
        match state.is_lost {
            true => Err(lost([state])),
            false => Ok(&self.inputs[state.input]),
        }
    }

    /// Sets a state, for the next call.
    ///
    /// # Errors
    /// `E0875` if there is no state of that name, or the tensor has a different dtype or shape.
    pub fn set_state(&mut self, input: &str, tensor: Tensor) -> Result<(), Error> {
        let position = self.position(input)?;
        let state = &mut self.states[position];
        check_tensor(&self.model, state.input, &tensor)?;
        self.inputs[state.input] = tensor;
        state.is_lost = false;
        Ok(())
    }

    /// The states, in the order in which they were named.
    ///
    /// # Errors
    /// `E0876` if a failed call left the elements of one undefined.
    pub fn into_states(self) -> Result<Vec<(String, Tensor)>, Error> {
        self.check_states()?;
        let Self {
            states, mut inputs, ..
        } = self;
        let take = |state: State| {
            let nothing = Tensor::scalar(0u8);
            (
                state.name,
                std::mem::replace(&mut inputs[state.input], nothing),
            )
        };
        Ok(states.into_iter().map(take).collect())
    }

    fn advance(&mut self, carried: &mut Carried<'_>) -> Result<(), Error> {
        self.check_states()?;
        // Undefined unless the call reports otherwise, even if it does not return.
        self.states
            .iter_mut()
            .for_each(|state| state.is_lost = true);
        let (inputs, outputs) = (&mut self.inputs, &mut self.outputs);
        let called =
            self.model
                .serve_donating(inputs, &mut self.donations, outputs, carried.parts());
        for state in &mut self.states {
            state.is_lost = self.donations.fate(state.input) == DonationFate::Spoiled;
            if called.is_ok() {
                // The next state may be written into the memory of the old one, if that still exists.
                std::mem::swap(
                    &mut self.inputs[state.input],
                    &mut self.outputs[state.output],
                );
            }
        }
        for (position, input) in self.inputs.iter_mut().enumerate() {
            if !self.states.iter().any(|state| state.input == position) {
                input.clone_from(&self.nothing);
            }
        }
        called
    }

    fn swap_outputs(&mut self, outputs: &mut [Tensor]) {
        let states = &self.states;
        let open = self.outputs.iter_mut().enumerate();
        let open =
            open.filter(|(position, _)| !states.iter().any(|state| state.output == *position));
        for ((_, place), tensor) in open.zip(outputs) {
            std::mem::swap(place, tensor);
        }
    }

    fn check_states(&self) -> Result<(), Error> {
        let mut are_lost = self.states.iter().filter(|state| state.is_lost).peekable();
        match are_lost.peek() {
            Some(_) => Err(lost(are_lost)),
            None => Ok(()),
        }
    }

    fn position(&self, input: &str) -> Result<usize, Error> {
        let mut states = self.states.iter();
        let position = states.position(|state| state.name == input);
        position.ok_or_else(|| unfit(input, "an input that the session keeps", "none"))
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.states.iter().map(|state| &*state.name).collect();
        write!(f, "Session({:?}, states: {})", self.model, names.join(", "))
    }
}

fn check_count(what: &'static str, expected: usize, found: usize) -> Result<(), Error> {
    match expected == found {
        true => Ok(()),
        false => Err(Failure::SessionTensors {
            what,
            expected,
            found,
        }
        .into()),
    }
}

fn lost<'a>(states: impl IntoIterator<Item = &'a State>) -> Error {
    let names = states
        .into_iter()
        .map(|state| format!("`{}`", state.name.escape_debug()));
    let names = names.collect::<Vec<_>>().join(", ");
    Failure::StateLost { names }.into()
}
