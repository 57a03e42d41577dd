//! Predictions with a trainer's parameters: the network without dropout and with running statistics.

use crate::error::TrainError;
use crate::network::{Network, Purpose};
use crate::trainer::{Trainer, unknown};
use kiln::internals::ir::Graph;
use kiln::{AxisSize, Continued, DType, Model, Options, Outputs, Recording, Source, Tensor, Var};
use std::fmt;

/// A network recorded for predictions. It reads the parameters of a [`Trainer`] at each call and keeps none itself.
///
/// ```
/// use kiln::{DType, Tensor};
/// use kiln_train::{Network, Predictor, Sgd, Trainer, losses};
///
/// let network = |network: &Network, x: &kiln::Var| network.linear("out", x, 2, 1);
/// let trainer = Trainer::new("fit", Sgd::default())
///     .input("x", DType::F32, ["B".into(), 2.into()])
///     .input("y", DType::F32, ["B".into(), 1.into()])
///     .build(|n, inputs| losses::mean_squared_error(&network(n, &inputs[0]), &inputs[1]))?;
/// let predictor = Predictor::new("predict", &trainer)
///     .input("x", DType::F32, ["B".into(), 2.into()])
///     .build(|n, inputs| vec![("y", network(n, &inputs[0]))])?;
/// let outputs = predictor.run(&trainer, [("x", &Tensor::full(&[3, 2], 1.0f32)?)])?;
/// assert_eq!(outputs.get("y")?.shape(), [3, 1]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Predictor {
    model: Model,
    parameters: Vec<String>,
}

/// A predictor that is not built yet.
pub struct PredictorBuilder<'a> {
    name: String,
    trainer: &'a Trainer,
    inputs: Vec<(String, DType, Vec<AxisSize>)>,
    options: Options,
    model: Option<Continued>,
}

impl Predictor {
    /// Begins a predictor for the parameters of a trainer.
    #[expect(
        clippy::new_ret_no_self,
        reason = "a predictor needs its network, which `build` takes"
    )]
    pub fn new<'a>(name: &str, trainer: &'a Trainer) -> PredictorBuilder<'a> {
        PredictorBuilder {
            name: name.to_owned(),
            trainer,
            inputs: Vec::new(),
            options: Options::new(),
            model: None,
        }
    }

    /// The outputs for these inputs, with the current parameters.
    ///
    /// # Errors
    /// When the inputs do not fit, or the call fails.
    pub fn run<'a>(
        &self,
        trainer: &Trainer,
        inputs: impl IntoIterator<Item = (&'a str, &'a Tensor)>,
    ) -> Result<Outputs, TrainError> {
        let mut parameters = Vec::with_capacity(self.parameters.len());
        for name in &self.parameters {
            parameters.push((name.as_str(), trainer.parameter(name)?));
        }
        let mut given: Vec<(&str, &Tensor)> = Vec::new();
        for (name, tensor) in inputs {
            given.push((name, tensor));
        }
        given.extend(parameters.iter().map(|(name, tensor)| (*name, tensor)));
        Ok(self.model.run(given)?)
    }

    /// The model: the inputs, then the parameters by name.
    pub fn model(&self) -> &Model {
        &self.model
    }
}

impl PredictorBuilder<'_> {
    /// Adds an input. Sizes that are names may change from call to call.
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

    /// Predicts with an imported model that was trained: `graph` is the graph that the trainer was given. Constants
    /// that are parameters of the trainer are read from the trainer.
    ///
    /// # Errors
    /// E0899 for a model with control flow.
    pub fn model(self, graph: &Graph) -> Result<Self, TrainError> {
        let names: Vec<&str> = self.trainer.parameters().collect();
        let model = Recording::continuing(graph, |name| names.contains(&name))?;
        Ok(Self {
            model: Some(model),
            ..self
        })
    }

    /// The options that the network is loaded with.
    #[must_use]
    pub fn options(self, options: Options) -> Self {
        Self { options, ..self }
    }

    /// Records the network, which returns its outputs by name.
    ///
    /// # Errors
    /// When an op does not fit its operands, with its source line; E0622 for a parameter that the trainer does not have.
    pub fn build<'o>(
        self,
        network: impl FnOnce(&Network, &[Var]) -> Vec<(&'o str, Var)>,
    ) -> Result<Predictor, TrainError> {
        let recording = match &self.model {
            Some(model) => model.recording.clone(),
            None => Recording::new(&self.name),
        };
        let inputs: Vec<Var> = self
            .inputs
            .iter()
            .map(|(name, dtype, sizes)| recording.input(name, *dtype, sizes.clone()))
            .collect();
        let mut asked = Network::new(&recording, self.trainer.dtype(), Purpose::Prediction);
        if let Some(model) = &self.model {
            asked = asked.with_model(model);
        }
        let outputs = network(&asked, &inputs);
        let asked = asked.finish()?;
        let known: Vec<&str> = self.trainer.parameters().collect();
        for parameter in &asked {
            if !known.contains(&parameter.name.as_str()) {
                return Err(unknown(&parameter.name, known.iter().copied()));
            }
        }
        let outputs: Vec<(&str, &Var)> =
            outputs.iter().map(|(name, value)| (*name, value)).collect();
        let graph = recording.finish(&outputs)?;
        Ok(Predictor {
            model: self.options.load(Source::graph(graph))?,
            parameters: asked.into_iter().map(|parameter| parameter.name).collect(),
        })
    }
}

impl fmt::Debug for Predictor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Predictor({:?})", self.model)
    }
}

impl fmt::Debug for PredictorBuilder<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PredictorBuilder({})", self.name)
    }
}
