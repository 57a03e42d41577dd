//! Networks: parameters and buffers, requested by name while a step is recorded. The layers are in `layers`.

use crate::error::TrainError;
use crate::initial::Initial;
use kiln::{AxisSize, Continued, DType, Recording, Tensor, Var};
use std::cell::RefCell;
use std::rc::Rc;

/// A parameter or buffer as requested by the network.
#[derive(Clone, Debug)]
pub(crate) struct Parameter {
    pub(crate) name: String,
    pub(crate) shape: Vec<usize>,
    pub(crate) initial: Initial,
    pub(crate) variable: Var,
    /// For a constant of an imported model: its value.
    pub(crate) first: Option<Tensor>,
    pub(crate) kind: Kind,
}

/// Whether a tensor is trained.
#[derive(Clone, Debug)]
pub(crate) enum Kind {
    /// It is trained.
    Parameter,
    /// It is a buffer, and has this value after a step.
    Buffer(Var),
}

#[derive(Debug, Default)]
struct State {
    parameters: Vec<Parameter>,
    error: Option<TrainError>,
    n_dropouts: u64,
}

/// The purpose for which a network is recorded.
#[derive(Clone, Debug)]
pub(crate) enum Purpose {
    /// Steps, with a key for random numbers.
    Training(Var),
    /// Predictions.
    Prediction,
}

/// A network being recorded. Layers ask it for parameters by name; names of nested layers are joined by dots, as in PyTorch.
#[derive(Clone, Debug)]
pub struct Network {
    recording: Recording,
    dtype: DType,
    prefix: String,
    purpose: Purpose,
    /// The outputs of an imported model.
    model_outputs: Rc<[(String, Var)]>,
    state: Rc<RefCell<State>>,
}

impl Network {
    pub(crate) fn new(recording: &Recording, dtype: DType, purpose: Purpose) -> Self {
        Self {
            recording: recording.clone(),
            dtype,
            prefix: String::new(),
            purpose,
            model_outputs: Rc::default(),
            state: Rc::default(),
        }
    }

    /// The parameters and buffers requested so far, in order.
    pub(crate) fn finish(self) -> Result<Vec<Parameter>, TrainError> {
        let mut state = self.state.borrow_mut();
        match state.error.take() {
            Some(error) => Err(error),
            None => Ok(std::mem::take(&mut state.parameters)),
        }
    }

    /// The same network, with `name` and a dot prefixed to the names of its parameters.
    #[must_use]
    pub fn within(&self, name: &str) -> Self {
        Self {
            prefix: format!("{}{name}.", self.prefix),
            ..self.clone()
        }
    }

    /// The network with an imported model, whose parameters are the first.
    pub(crate) fn with_model(self, model: &Continued) -> Self {
        let parameters = model.parameters.iter();
        self.state
            .borrow_mut()
            .parameters
            .extend(parameters.map(|(name, variable, tensor)| Parameter {
                name: name.clone(),
                shape: tensor.shape().to_vec(),
                initial: Initial::Constant(0.0),
                variable: variable.clone(),
                first: Some(tensor.clone()),
                kind: Kind::Parameter,
            }));
        Self {
            model_outputs: model.outputs.clone().into(),
            ..self
        }
    }

    /// An output of the imported model that the trainer or predictor was given; `None` if there is no output of that
    /// name.
    pub fn model_output(&self, name: &str) -> Option<Var> {
        let mut outputs = self.model_outputs.iter();
        let found = outputs.find(|(known, _)| known == name);
        found.map(|(_, output)| output.clone())
    }

    /// Whether it is recorded for training: with the batch's statistics and dropout.
    pub fn is_training(&self) -> bool {
        matches!(self.purpose, Purpose::Training(_))
    }

    /// The key of this step's random numbers, while training.
    pub(crate) fn random_key(&self) -> Option<Var> {
        match &self.purpose {
            Purpose::Training(key) => Some(key.clone()),
            Purpose::Prediction => None,
        }
    }

    /// The number of the next dropout, from 0.
    pub(crate) fn next_dropout(&self) -> u64 {
        let mut state = self.state.borrow_mut();
        let number = state.n_dropouts;
        state.n_dropouts += 1;
        number
    }

    /// A parameter, in the trainer's dtype.
    #[track_caller]
    pub fn parameter(&self, name: &str, shape: &[usize], initial: Initial) -> Var {
        self.ask(name, shape, initial, |_| Kind::Parameter)
    }

    /// A tensor that is kept with the parameters and not trained, in the trainer's dtype: it stays as it is unless it is
    /// [set](Self::set_buffer).
    #[track_caller]
    pub fn buffer(&self, name: &str, shape: &[usize], initial: Initial) -> Var {
        self.ask(name, shape, initial, |value| Kind::Buffer(value.clone()))
    }

    /// Sets the value of a [buffer](Self::buffer) after the step. A name without a buffer is an error of the recording (E0622).
    pub fn set_buffer(&self, name: &str, value: &Var) {
        let name = format!("{}{name}", self.prefix);
        let state = &mut *self.state.borrow_mut();
        let found = state
            .parameters
            .iter_mut()
            .find_map(|parameter| match &mut parameter.kind {
                Kind::Buffer(next) if parameter.name == name => Some(next),
                _ => None,
            });
        match found {
            Some(next) => *next = value.clone(),
            None => {
                let known = String::from("the network's buffers");
                let name = name.escape_debug().to_string();
                state
                    .error
                    .get_or_insert(TrainError::UnknownParameter { name, known });
            }
        }
    }

    #[track_caller]
    fn ask(
        &self,
        name: &str,
        shape: &[usize],
        initial: Initial,
        kind: impl FnOnce(&Var) -> Kind,
    ) -> Var {
        let name = format!("{}{name}", self.prefix);
        let sizes = shape.iter().map(|&size| AxisSize::from(size));
        let variable = self.recording.input(&name, self.dtype, sizes);
        let state = &mut *self.state.borrow_mut();
        if state.parameters.iter().any(|other| other.name == name) {
            let name = name.escape_debug().to_string();
            state
                .error
                .get_or_insert(TrainError::DuplicateParameter { name });
        } else {
            state.parameters.push(Parameter {
                name,
                shape: shape.to_vec(),
                initial,
                first: None,
                kind: kind(&variable),
                variable: variable.clone(),
            });
        }
        variable
    }
}
