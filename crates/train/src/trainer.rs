//! A trainer: one compiled step, and the parameters and the optimiser's state that it updates in place.

use crate::error::TrainError;
use crate::network::{Network, Parameter};
use crate::optimizer::{Optimizer, Update};
use kiln::{AxisSize, DType, Options, Recording, Session, Source, Tensor, Var};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use std::fmt;

/// The input of a step that is the learning rate.
const RATE: &str = "learning_rate";
/// The output of a step that is the loss.
const LOSS: &str = "loss";
/// The state that counts steps.
const STEP: &str = "step";
/// Keeps the norm of gradients that are clipped from being zero.
const NORM_EPSILON: f64 = 1e-6;

/// Trains a network: records forward, backward and update as one graph, and runs it for each batch.
pub struct Trainer {
    session: Session,
    dtype: DType,
    parameters: Vec<(String, Vec<usize>)>,
    rate: f64,
}

/// A trainer that is not built yet.
#[derive(Clone, Debug)]
pub struct TrainerBuilder<O> {
    name: String,
    optimizer: O,
    inputs: Vec<(String, DType, Vec<AxisSize>)>,
    dtype: DType,
    seed: u64,
    rate: f64,
    clip: Option<f64>,
    options: Options,
}

impl Trainer {
    /// Begins a trainer; `name` is the step's, in reports.
    #[expect(
        clippy::new_ret_no_self,
        reason = "a trainer needs its network, which `build` takes"
    )]
    pub fn new<O: Optimizer>(name: &str, optimizer: O) -> TrainerBuilder<O> {
        TrainerBuilder {
            name: name.to_owned(),
            optimizer,
            inputs: Vec::new(),
            dtype: DType::F32,
            seed: 0,
            rate: 1e-3,
            clip: None,
            options: Options::new(),
        }
    }

    /// A step on a batch, with the learning rate of the builder; returns the loss before the update.
    ///
    /// # Errors
    /// When the batch does not fit the inputs, or the call fails.
    pub fn step<'a>(
        &mut self,
        batch: impl IntoIterator<Item = (&'a str, &'a Tensor)>,
    ) -> Result<f64, TrainError> {
        self.step_at(self.rate, batch)
    }

    /// A step with another learning rate, such as one of a [schedule](crate::schedules).
    ///
    /// # Errors
    /// As [`step`](Self::step).
    pub fn step_at<'a>(
        &mut self,
        rate: f64,
        batch: impl IntoIterator<Item = (&'a str, &'a Tensor)>,
    ) -> Result<f64, TrainError> {
        let rate = Tensor::from_f64_slice(self.dtype, &[], &[rate])?;
        let mut inputs: Vec<(&str, &Tensor)> = Vec::new();
        for (name, tensor) in batch {
            inputs.push((name, tensor));
        }
        inputs.push((RATE, &rate));
        let outputs = self.session.run(inputs)?;
        let loss = outputs.get(LOSS)?.to_f64_vec()?;
        Ok(loss.first().copied().unwrap_or(f64::NAN))
    }

    /// The names of the parameters, in the order in which the network asked for them.
    pub fn parameters(&self) -> impl Iterator<Item = &str> {
        self.parameters.iter().map(|(name, _)| name.as_str())
    }

    /// A parameter as it is now.
    ///
    /// # Errors
    /// When the network has no parameter of that name.
    pub fn parameter(&self, name: &str) -> Result<Tensor, TrainError> {
        self.shape_of(name)?;
        Ok(self.session.state(name)?.clone())
    }

    /// Replaces a parameter.
    ///
    /// # Errors
    /// When the network has no parameter of that name, or the tensor is of another dtype or shape.
    pub fn set_parameter(&mut self, name: &str, tensor: Tensor) -> Result<(), TrainError> {
        let shape = self.shape_of(name)?;
        if tensor.shape() != shape || tensor.dtype() != self.dtype {
            return Err(TrainError::ParameterType {
                name: name.escape_debug().to_string(),
                expected: format!("{}{shape:?}", self.dtype),
                found: format!("{}{:?}", tensor.dtype(), tensor.shape()),
            });
        }
        Ok(self.session.set_state(name, tensor)?)
    }

    /// The session of the step: its model can be inspected, timed and explained.
    pub fn session(&self) -> &Session {
        &self.session
    }

    fn shape_of(&self, name: &str) -> Result<&[usize], TrainError> {
        let mut parameters = self.parameters.iter();
        let found = parameters.find(|(known, _)| known == name);
        found.map(|(_, shape)| shape.as_slice()).ok_or_else(|| {
            let known: Vec<String> = self
                .parameters()
                .map(|name| name.escape_debug().to_string())
                .collect();
            TrainError::UnknownParameter {
                name: name.escape_debug().to_string(),
                known: known.join(", "),
            }
        })
    }
}

impl fmt::Debug for Trainer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.parameters().collect();
        f.debug_tuple("Trainer").field(&names).finish()
    }
}

impl<O: Optimizer> TrainerBuilder<O> {
    /// An input of a batch. Sizes that are names may change from batch to batch.
    #[must_use]
    pub fn input(
        mut self,
        name: &str,
        dtype: DType,
        sizes: impl IntoIterator<Item = AxisSize>,
    ) -> Self {
        self.inputs
            .push((name.to_owned(), dtype, sizes.into_iter().collect()));
        self
    }

    /// The dtype of parameters, a float; `f32` by default.
    #[must_use]
    pub fn dtype(self, dtype: DType) -> Self {
        Self { dtype, ..self }
    }

    /// The seed of initial values; 0 by default.
    #[must_use]
    pub fn seed(self, seed: u64) -> Self {
        Self { seed, ..self }
    }

    /// The learning rate of [`Trainer::step`]; 0.001 by default.
    #[must_use]
    pub fn learning_rate(self, rate: f64) -> Self {
        Self { rate, ..self }
    }

    /// Scales all gradients down where the norm of all of them together is larger.
    #[must_use]
    pub fn clip_norm(self, norm: f64) -> Self {
        Self {
            clip: Some(norm),
            ..self
        }
    }

    /// The options that the step is loaded with.
    #[must_use]
    pub fn options(self, options: Options) -> Self {
        Self { options, ..self }
    }

    /// Records the step and makes the parameters. `network` gets the network to ask for parameters, and the inputs in the order
    /// in which they were added, and returns the loss, a scalar.
    ///
    /// # Errors
    /// When an op does not fit its operands, with its source line; when names collide; when the loss cannot be differentiated.
    pub fn build(
        self,
        network: impl FnOnce(&Network, &[Var]) -> Var,
    ) -> Result<Trainer, TrainError> {
        let recording = Recording::new(&self.name);
        let inputs: Vec<Var> = self
            .inputs
            .iter()
            .map(|(name, dtype, sizes)| recording.input(name, *dtype, sizes.clone()))
            .collect();
        let asked = Network::new(&recording, self.dtype);
        let loss = network(&asked, &inputs);
        let parameters = asked.finish()?;
        self.check_names(&parameters)?;
        let variables: Vec<&Var> = parameters
            .iter()
            .map(|parameter| &parameter.variable)
            .collect();
        let gradients = self.clipped(loss.gradients_of_all(&variables));

        let rate = recording.input(RATE, self.dtype, []);
        let step = recording.input(STEP, self.dtype, []);
        let next_step = &step + 1.0;
        let mut states = vec![State {
            input: STEP.to_owned(),
            first: Tensor::from_f64_slice(self.dtype, &[], &[0.0])?,
            output: next_step.clone(),
        }];
        let mut random = ChaCha8Rng::seed_from_u64(self.seed);
        for (parameter, gradient) in parameters.iter().zip(&gradients) {
            let kept = self.kept_for(&recording, parameter)?;
            let values: Vec<Var> = kept.iter().map(|(_, value, _)| value.clone()).collect();
            let updated = self.optimizer.update(&Update {
                parameter: &parameter.variable,
                gradient,
                states: &values,
                rate: &rate,
                step: &next_step,
            });
            states.push(State {
                input: parameter.name.clone(),
                first: first_value(parameter, self.dtype, &mut random)?,
                output: updated.parameter,
            });
            for ((name, _, first), output) in kept.into_iter().zip(updated.states) {
                states.push(State {
                    input: name,
                    first,
                    output,
                });
            }
        }
        let names: Vec<String> = states
            .iter()
            .map(|state| format!("next {}", state.input))
            .collect();
        let mut outputs = vec![(LOSS, &loss)];
        outputs.extend(
            names
                .iter()
                .map(String::as_str)
                .zip(states.iter().map(|state| &state.output)),
        );
        let graph = recording.finish(&outputs)?;

        let model = self.options.load(Source::graph(graph))?;
        let mut session = model.session();
        for (state, name) in states.iter().zip(&names) {
            session = session.state(&state.input, name, state.first.clone());
        }
        Ok(Trainer {
            session: session.build()?,
            dtype: self.dtype,
            parameters: parameters
                .into_iter()
                .map(|parameter| (parameter.name, parameter.shape))
                .collect(),
            rate: self.rate,
        })
    }

    /// Rejects parameters without names of their own.
    fn check_names(&self, parameters: &[Parameter]) -> Result<(), TrainError> {
        if parameters.is_empty() {
            return Err(TrainError::NoParameters);
        }
        let taken = |name: &str| {
            let mut inputs = self.inputs.iter();
            name == RATE || name == STEP || inputs.any(|(input, ..)| input == name)
        };
        match parameters.iter().find(|parameter| taken(&parameter.name)) {
            Some(parameter) => Err(TrainError::DuplicateParameter {
                name: parameter.name.escape_debug().to_string(),
            }),
            None => Ok(()),
        }
    }

    /// Gradients, scaled down where their norm is too large.
    fn clipped(&self, gradients: Vec<Var>) -> Vec<Var> {
        let Some(limit) = self.clip else {
            return gradients;
        };
        let squares = gradients.iter().map(|gradient| gradient.square().sum(..));
        let Some(total) = squares.reduce(|total, square| total + square) else {
            return gradients;
        };
        let norm = total.sqrt();
        let factor = (norm.scalar(limit) / (norm + NORM_EPSILON)).minimum(1.0);
        gradients
            .iter()
            .map(|gradient| gradient * &factor)
            .collect()
    }

    /// The tensors that the optimiser keeps for a parameter: name, variable, first value.
    fn kept_for(
        &self,
        recording: &Recording,
        parameter: &Parameter,
    ) -> Result<Vec<(String, Var, Tensor)>, TrainError> {
        let mut kept = Vec::new();
        for state in self.optimizer.states() {
            let name = format!("{}.{state}", parameter.name);
            let sizes = parameter.shape.iter().map(|&size| AxisSize::from(size));
            let value = recording.input(&name, self.dtype, sizes);
            let count: usize = parameter.shape.iter().product();
            let first = Tensor::from_f64_slice(self.dtype, &parameter.shape, &vec![0.0; count])?;
            kept.push((name, value, first));
        }
        Ok(kept)
    }
}

/// A tensor that is kept between steps.
struct State {
    input: String,
    first: Tensor,
    output: Var,
}

fn first_value(
    parameter: &Parameter,
    dtype: DType,
    random: &mut ChaCha8Rng,
) -> Result<Tensor, TrainError> {
    match parameter.initial.tensor(dtype, &parameter.shape, random) {
        Some(tensor) => Ok(tensor?),
        None => Err(TrainError::Initial {
            name: parameter.name.escape_debug().to_string(),
            expected: "a finite number of 0 or more",
            found: format!("{:?}", parameter.initial),
        }),
    }
}
