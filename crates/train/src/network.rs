//! Networks: parameters and layers, asked for by name while a step is recorded.

use crate::error::TrainError;
use crate::initial::Initial;
use kiln::{AxisSize, DType, Recording, Var};
use std::cell::RefCell;
use std::rc::Rc;

/// A parameter as the network asked for it.
#[derive(Clone, Debug)]
pub(crate) struct Parameter {
    pub(crate) name: String,
    pub(crate) shape: Vec<usize>,
    pub(crate) initial: Initial,
    pub(crate) variable: Var,
}

#[derive(Debug, Default)]
struct State {
    parameters: Vec<Parameter>,
    error: Option<TrainError>,
}

/// A network being recorded. Layers ask it for parameters by name; names of nested layers are joined by dots, as in PyTorch.
#[derive(Clone, Debug)]
pub struct Network {
    recording: Recording,
    dtype: DType,
    prefix: String,
    state: Rc<RefCell<State>>,
}

impl Network {
    pub(crate) fn new(recording: &Recording, dtype: DType) -> Self {
        Self {
            recording: recording.clone(),
            dtype,
            prefix: String::new(),
            state: Rc::default(),
        }
    }

    /// The parameters asked for, in order.
    pub(crate) fn finish(self) -> Result<Vec<Parameter>, TrainError> {
        let mut state = self.state.borrow_mut();
        match state.error.take() {
            Some(error) => Err(error),
            None => Ok(std::mem::take(&mut state.parameters)),
        }
    }

    /// The same network, whose parameters' names begin with `name` and a dot.
    #[must_use]
    pub fn within(&self, name: &str) -> Self {
        Self {
            prefix: format!("{}{name}.", self.prefix),
            ..self.clone()
        }
    }

    /// A parameter, in the trainer's dtype.
    #[track_caller]
    pub fn parameter(&self, name: &str, shape: &[usize], initial: Initial) -> Var {
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
                variable: variable.clone(),
            });
        }
        variable
    }

    /// `x W + b`: `x: [.., inputs] -> [.., outputs]`, with `NAME.weight: [inputs, outputs]` and `NAME.bias: [outputs]`.
    #[track_caller]
    pub fn linear(&self, name: &str, x: &Var, inputs: usize, outputs: usize) -> Var {
        let layer = self.within(name);
        let weight = Initial::He { fan_in: inputs };
        let weight = layer.parameter("weight", &[inputs, outputs], weight);
        let bias = layer.parameter("bias", &[outputs], Initial::Constant(0.0));
        x.matmul(&weight) + bias
    }

    /// Rows of `NAME.weight: [count, width]` at indices: `indices: int[..] -> [.., width]`.
    #[track_caller]
    pub fn embedding(&self, name: &str, indices: &Var, count: usize, width: usize) -> Var {
        let layer = self.within(name);
        let weight = layer.parameter("weight", &[count, width], Initial::Normal(1.0));
        weight.gather(indices, 0)
    }

    /// `x` with mean 0 and variance 1 along its last axis of `width` elements, times `NAME.weight`, plus `NAME.bias`.
    #[track_caller]
    pub fn layer_norm(&self, name: &str, x: &Var, width: usize) -> Var {
        /// As PyTorch's default.
        const EPSILON: f64 = 1e-5;
        let layer = self.within(name);
        let weight = layer.parameter("weight", &[width], Initial::Constant(1.0));
        let bias = layer.parameter("bias", &[width], Initial::Constant(0.0));
        let centred = x - x.mean_keep(-1);
        let variance = centred.square().mean_keep(-1);
        centred * (variance + EPSILON).rsqrt() * weight + bias
    }
}
