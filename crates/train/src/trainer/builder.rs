//! Builds a trainer: records its step, and creates its parameters.

use super::{KEY, LOSS, RATE, STEP, Trainer};
use crate::error::TrainError;
use crate::network::{Kind, Network, Parameter, Purpose};
use crate::optimizer::{Optimizer, Update};
use kiln::internals::ir::Graph;
use kiln::{
    AxisSize, Continued, DType, MemoryBudget, Model, Options, Recording, Session, Source, Tensor,
    Var,
};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

/// Prevents a division by a gradient norm of zero.
const NORM_EPSILON: f64 = 1e-6;

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
    model: Option<Continued>,
}

impl<O: Optimizer> TrainerBuilder<O> {
    pub(super) fn new(name: &str, optimizer: O) -> Self {
        Self {
            name: name.to_owned(),
            optimizer,
            inputs: Vec::new(),
            dtype: DType::F32,
            seed: 0,
            rate: 1e-3,
            clip: None,
            options: Options::new(),
            model: None,
        }
    }

    /// Adds an input of a batch. Sizes that are names may change from batch to batch.
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

    /// The dtype of parameters, a floating-point type; `f32` by default.
    #[must_use]
    pub fn dtype(self, dtype: DType) -> Self {
        Self { dtype, ..self }
    }

    /// Trains a model that was imported, such as from ONNX: takes its graph, and a predicate on the names of the
    /// constants that are parameters. Its inputs come before those that are [added](Self::input), and its outputs are
    /// [`Network::model_output`]s.
    ///
    /// # Errors
    /// E0899 for a model with control flow.
    pub fn model(
        self,
        graph: &Graph,
        is_parameter: impl Fn(&str) -> bool,
    ) -> Result<Self, TrainError> {
        Ok(Self {
            model: Some(Recording::continuing(graph, is_parameter)?),
            ..self
        })
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

    /// Clips gradients by their global norm: all are scaled down if it is larger than this.
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

    /// How much memory the intermediate values of a step may take: if activations take more, some are recomputed in the
    /// backward pass. Sets [`Options::memory_budget`], so it must be called after [`options`](Self::options).
    #[must_use]
    pub fn memory_budget(self, memory: MemoryBudget) -> Self {
        Self {
            options: self.options.memory_budget(memory),
            ..self
        }
    }

    /// Records the step and makes the parameters. `network` receives the network, from which it requests parameters,
    /// and the inputs in the order in which they were added, and returns the loss, a scalar.
    ///
    /// # Errors
    /// When an op does not fit its operands, with its source line; when names collide; when the loss cannot be differentiated.
    pub fn build(
        self,
        network: impl FnOnce(&Network, &[Var]) -> Var,
    ) -> Result<Trainer, TrainError> {
        let Recorded {
            recording,
            asked,
            loss,
            ..
        } = self.record(network)?;
        let gradients = loss.gradients_of_all(&trained(&asked));
        let states = self.states(&recording, &asked, gradients)?;
        let session = self.session(recording, Some(&loss), &states)?;
        Ok(self.trainer(session, asked, states))
    }

    /// Records the network and its loss.
    pub(super) fn record(
        &self,
        network: impl FnOnce(&Network, &[Var]) -> Var,
    ) -> Result<Recorded, TrainError> {
        let model = self.model.as_ref();
        let recording = match model {
            Some(model) => model.recording.clone(),
            None => Recording::new(&self.name),
        };
        let inputs: Vec<Var> = self
            .inputs
            .iter()
            .map(|(name, dtype, sizes)| recording.input(name, *dtype, sizes.clone()))
            .collect();
        let key = recording.input(KEY, DType::U64, [2.into()]);
        let mut asked = Network::new(&recording, self.dtype, Purpose::Training(key));
        if let Some(model) = model {
            asked = asked.with_model(model);
        }
        let loss = network(&asked, &inputs);
        let asked = asked.finish()?;
        self.check_names(&asked)?;
        let of_model = model.iter().flat_map(|model| &model.inputs);
        let names = of_model.map(|(name, _)| name);
        let names = names.chain(self.inputs.iter().map(|(name, ..)| name));
        Ok(Recorded {
            inputs: names.cloned().collect(),
            recording,
            asked,
            loss,
        })
    }

    /// A session of a recording that computes the next values of states.
    pub(super) fn session(
        &self,
        recording: Recording,
        loss: Option<&Var>,
        states: &[State],
    ) -> Result<Session, TrainError> {
        let names: Vec<String> = states
            .iter()
            .map(|state| format!("next {}", state.input))
            .collect();
        let mut outputs: Vec<(&str, &Var)> = loss.map(|loss| (LOSS, loss)).into_iter().collect();
        let next = states.iter().map(|state| &state.output);
        outputs.extend(names.iter().map(String::as_str).zip(next));
        let graph = recording.finish(&outputs)?;
        let model = self.options.load(Source::graph(graph))?;
        let mut session = model.session();
        for (state, name) in states.iter().zip(&names) {
            session = session.state(&state.input, name, state.first.clone());
        }
        Ok(session.build()?)
    }

    /// The trainer of a session.
    pub(super) fn trainer(
        &self,
        session: Session,
        asked: Vec<Parameter>,
        states: Vec<State>,
    ) -> Trainer {
        Trainer {
            session,
            across: None,
            dtype: self.dtype,
            parameters: asked
                .into_iter()
                .map(|parameter| (parameter.name, parameter.shape))
                .collect(),
            states: states.into_iter().map(|state| state.input).collect(),
            rate: self.rate,
            seed: self.seed,
            n_steps: 0,
        }
    }

    /// A model of a recording, with the options of the step.
    pub(super) fn load(
        &self,
        recording: Recording,
        outputs: &[(&str, &Var)],
    ) -> Result<Model, TrainError> {
        let graph = recording.finish(outputs)?;
        Ok(self.options.load(Source::graph(graph))?)
    }

    /// The name of the step, and the dtype of its parameters.
    pub(super) fn kind(&self) -> (&str, DType) {
        (&self.name, self.dtype)
    }

    /// The tensors that are kept between steps, with the updates of the optimiser; `gradients` are those of the
    /// parameters, in order.
    pub(super) fn states(
        &self,
        recording: &Recording,
        asked: &[Parameter],
        gradients: Vec<Var>,
    ) -> Result<Vec<State>, TrainError> {
        let gradients = self.clipped(gradients);
        let rate = recording.input(RATE, self.dtype, []);
        let step = recording.input(STEP, self.dtype, []);
        let next_step = &step + 1.0;
        let mut states = vec![State {
            input: STEP.to_owned(),
            first: Tensor::from_f64_slice(self.dtype, &[], &[0.0])?,
            output: next_step.clone(),
        }];
        let mut random = ChaCha8Rng::seed_from_u64(self.seed);
        let mut gradients = gradients.iter();
        for parameter in asked {
            let first = first_value(parameter, self.dtype, &mut random)?;
            let input = parameter.name.clone();
            let output = match &parameter.kind {
                Kind::Buffer(next) => next.clone(),
                Kind::Parameter => {
                    let Some(gradient) = gradients.next() else {
                        unreachable!("there is a gradient for each parameter")
                    };
                    let kept = self.kept_for(recording, parameter)?;
                    let values: Vec<Var> = kept.iter().map(|(_, value, _)| value.clone()).collect();
                    let updated = self.optimizer.update(&Update {
                        parameter: &parameter.variable,
                        gradient,
                        states: &values,
                        rate: &rate,
                        step: &next_step,
                    });
                    let updates = kept.into_iter().zip(updated.states);
                    states.extend(updates.map(|((input, _, first), output)| State {
                        input,
                        first,
                        output,
                    }));
                    updated.parameter
                }
            };
            states.push(State {
                input,
                first,
                output,
            });
        }
        Ok(states)
    }

    /// Rejects parameters that have the name of an input, and networks without trained parameters.
    fn check_names(&self, parameters: &[Parameter]) -> Result<(), TrainError> {
        let is_trained = |parameter: &Parameter| matches!(parameter.kind, Kind::Parameter);
        if !parameters.iter().any(is_trained) {
            return Err(TrainError::NoParameters);
        }
        let taken = |name: &str| {
            let model = self.model.iter().flat_map(|model| &model.inputs);
            let own = self.inputs.iter().map(|(name, ..)| name);
            let mut inputs = own.chain(model.map(|(name, _)| name));
            [RATE, STEP, KEY].contains(&name) || inputs.any(|input| input == name)
        };
        match parameters.iter().find(|parameter| taken(&parameter.name)) {
            Some(parameter) => Err(TrainError::DuplicateParameter {
                name: parameter.name.escape_debug().to_string(),
            }),
            None => Ok(()),
        }
    }

    /// The gradients, scaled down if their global norm is too large.
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

    /// The tensors that the optimiser keeps for a parameter: name, variable, initial value.
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

/// A network and its loss.
pub(super) struct Recorded {
    pub(super) recording: Recording,
    /// The names of a batch's tensors.
    pub(super) inputs: Vec<String>,
    pub(super) asked: Vec<Parameter>,
    pub(super) loss: Var,
}

/// The parameters that are trained.
pub(super) fn trained(asked: &[Parameter]) -> Vec<&Var> {
    let is_trained = |other: &&Parameter| matches!(other.kind, Kind::Parameter);
    let trained = asked.iter().filter(is_trained);
    trained.map(|parameter| &parameter.variable).collect()
}

/// A tensor that is kept between steps.
pub(super) struct State {
    input: String,
    first: Tensor,
    output: Var,
}

fn first_value(
    parameter: &Parameter,
    dtype: DType,
    random: &mut ChaCha8Rng,
) -> Result<Tensor, TrainError> {
    if let Some(tensor) = &parameter.first {
        return match tensor.dtype() == dtype {
            true => Ok(tensor.contiguous()?),
            false => Err(TrainError::ParameterType {
                name: parameter.name.escape_debug().to_string(),
                expected: format!("a constant of {dtype}, the trainer's dtype"),
                found: tensor.dtype().to_string(),
            }),
        };
    }
    match parameter.initial.tensor(dtype, &parameter.shape, random) {
        Ok(tensor) => Ok(tensor?),
        Err(expected) => Err(TrainError::Initial {
            name: parameter.name.escape_debug().to_string(),
            expected,
            found: format!("{:?}", parameter.initial),
        }),
    }
}
