//! A trainer: one compiled step, and the parameters and the optimiser's state that it updates in place.

mod across;
mod builder;

pub use builder::TrainerBuilder;

use across::Across;

use crate::error::TrainError;
use crate::optimizer::Optimizer;
use crate::weights;
use kiln::internals::lazy_runtime::StepProfile;
use kiln::{DType, Session, Tensor};
use std::fmt;
use std::path::Path;

/// The input of a step that is the learning rate.
const RATE: &str = "learning_rate";
/// The output of a step that is the loss.
const LOSS: &str = "loss";
/// The state that counts steps.
const STEP: &str = "step";
/// The input of a step that is the key of its random numbers: the seed, and the number of the step in the high bits.
const KEY: &str = "random_key";
/// The low bits of a key's second element, which number the random draws of a step.
const DRAW_BITS: u32 = 16;

/// Trains a network: records forward, backward and update as one graph, and runs it for each batch.
pub struct Trainer {
    session: Session,
    /// For a data-parallel trainer, whose session has only the updates: the gradients.
    across: Option<Across>,
    dtype: DType,
    /// Parameters and buffers, with their shapes.
    parameters: Vec<(String, Vec<usize>)>,
    /// Everything that is kept between steps.
    states: Vec<String>,
    rate: f64,
    seed: u64,
    n_steps: u64,
}

impl Trainer {
    /// Begins a trainer; `name` is the name of the step in reports.
    #[expect(
        clippy::new_ret_no_self,
        reason = "a trainer needs its network, which `build` takes"
    )]
    pub fn new<O: Optimizer>(name: &str, optimizer: O) -> TrainerBuilder<O> {
        TrainerBuilder::new(name, optimizer)
    }

    /// Runs a step on a batch, with the learning rate of the builder; returns the loss before the update.
    ///
    /// # Errors
    /// When the batch does not fit the inputs, or the call fails.
    pub fn step<'a>(
        &mut self,
        batch: impl IntoIterator<Item = (&'a str, &'a Tensor)>,
    ) -> Result<f64, TrainError> {
        self.step_at(self.rate, batch)
    }

    /// Runs a step with a different learning rate, such as one of a [schedule](crate::schedules).
    ///
    /// # Errors
    /// As [`step`](Self::step).
    pub fn step_at<'a>(
        &mut self,
        rate: f64,
        batch: impl IntoIterator<Item = (&'a str, &'a Tensor)>,
    ) -> Result<f64, TrainError> {
        self.run(rate, batch, None)
    }

    /// Runs a step, and also writes the cost of each of its kernels to `steps`: see [`kiln::Call::profile`].
    ///
    /// # Errors
    /// As [`step`](Self::step); E0983 if the step is interpreted.
    pub fn profile<'a>(
        &mut self,
        steps: &mut Vec<StepProfile>,
        batch: impl IntoIterator<Item = (&'a str, &'a Tensor)>,
    ) -> Result<f64, TrainError> {
        self.run(self.rate, batch, Some(steps))
    }

    fn run<'a>(
        &mut self,
        rate: f64,
        batch: impl IntoIterator<Item = (&'a str, &'a Tensor)>,
        profile: Option<&mut Vec<StepProfile>>,
    ) -> Result<f64, TrainError> {
        let rate = Tensor::from_f64_slice(self.dtype, &[], &[rate])?;
        let mut inputs: Vec<(&str, &Tensor)> = Vec::new();
        for (name, tensor) in batch {
            inputs.push((name, tensor));
        }
        let seed = self
            .across
            .as_ref()
            .map_or(self.seed, |across| across.seed(self.seed));
        let key = Tensor::from_slice(&[2], &[seed, self.n_steps << DRAW_BITS])?;
        inputs.push((KEY, &key));
        if let Some(across) = &self.across {
            let loss = across.step(&mut self.session, &inputs, &rate, profile)?;
            self.n_steps += 1;
            return Ok(loss);
        }
        inputs.push((RATE, &rate));
        let outputs = match profile {
            Some(steps) => self.session.call(inputs).profile(steps).run()?,
            None => self.session.run(inputs)?,
        };
        self.n_steps += 1;
        let loss = outputs.get(LOSS)?.to_f64_vec()?;
        Ok(loss.first().copied().unwrap_or(f64::NAN))
    }

    /// The dtype of the parameters.
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// The number of steps so far.
    pub fn n_steps(&self) -> u64 {
        self.n_steps
    }

    /// The names of the parameters and buffers, in the order in which the network requested them.
    pub fn parameters(&self) -> impl Iterator<Item = &str> {
        self.parameters.iter().map(|(name, _)| name.as_str())
    }

    /// The current value of a parameter.
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
    /// When the network has no parameter of that name, or the tensor is of a different dtype or shape.
    pub fn set_parameter(&mut self, name: &str, tensor: Tensor) -> Result<(), TrainError> {
        let shape = self.shape_of(name)?.to_vec();
        if tensor.dtype() != self.dtype {
            return Err(other_type(name, &tensor, self.dtype, &shape));
        }
        let tensor = fitted(name, tensor, self.dtype, &shape)?;
        Ok(self.session.set_state(name, tensor)?)
    }

    /// Writes parameters and buffers to a safetensors file.
    ///
    /// # Errors
    /// E0626 when the file cannot be written.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<(), TrainError> {
        let mut tensors = Vec::with_capacity(self.parameters.len());
        for (name, _) in &self.parameters {
            tensors.push((name.as_str(), self.session.state(name)?));
        }
        weights::write(path.as_ref(), tensors)
    }

    /// Reads parameters and buffers from a safetensors file, such as one that PyTorch wrote. Tensors of other names are
    /// ignored; one of a different float dtype is converted.
    ///
    /// # Errors
    /// E0626 when the file cannot be read, E0627 when it is damaged, E0622 when it lacks a parameter, E0623 for a
    /// tensor of a different shape. After an error, nothing is changed.
    pub fn load(&mut self, path: impl AsRef<Path>) -> Result<(), TrainError> {
        let mut found = weights::read(path.as_ref())?;
        let mut tensors = Vec::with_capacity(self.parameters.len());
        for (name, shape) in &self.parameters {
            let Some(tensor) = found.remove(name) else {
                return Err(unknown(name, found.keys().map(String::as_str)));
            };
            tensors.push((name.clone(), fitted(name, tensor, self.dtype, shape)?));
        }
        for (name, tensor) in tensors {
            self.session.set_state(&name, tensor)?;
        }
        Ok(())
    }

    /// Writes everything that the next step depends on, the optimiser's state included, to a safetensors file.
    ///
    /// # Errors
    /// As [`save`](Self::save).
    pub fn save_checkpoint(&self, path: impl AsRef<Path>) -> Result<(), TrainError> {
        let count = Tensor::from_slice(&[1], &[self.n_steps])?;
        let mut tensors = vec![(N_STEPS, &count)];
        for name in &self.states {
            tensors.push((name.as_str(), self.session.state(name)?));
        }
        weights::write(path.as_ref(), tensors)
    }

    /// Continues from a checkpoint of the same network and optimiser, as if training had not stopped.
    ///
    /// # Errors
    /// As [`load`](Self::load).
    pub fn load_checkpoint(&mut self, path: impl AsRef<Path>) -> Result<(), TrainError> {
        let mut found = weights::read(path.as_ref())?;
        let mut tensors = Vec::with_capacity(self.states.len());
        for name in &self.states {
            let shape = self.session.state(name)?.shape().to_vec();
            let Some(tensor) = found.remove(name) else {
                return Err(unknown(name, found.keys().map(String::as_str)));
            };
            tensors.push((name.clone(), fitted(name, tensor, self.dtype, &shape)?));
        }
        let count = found.remove(N_STEPS);
        let count = count.and_then(|count| count.to_vec::<u64>().ok()?.first().copied());
        let Some(count) = count else {
            return Err(unknown(N_STEPS, found.keys().map(String::as_str)));
        };
        for (name, tensor) in tensors {
            self.session.set_state(&name, tensor)?;
        }
        self.n_steps = count;
        Ok(())
    }

    /// Replaces everything that the next step depends on by the state of rank 0, such as after rank 0 loaded a file.
    /// All ranks of a [data-parallel](crate::parallel) trainer have to call it; for other trainers it does nothing.
    ///
    /// # Errors
    /// E0632 when the ranks train different networks, or one is gone.
    pub fn synchronize(&mut self) -> Result<(), TrainError> {
        match &self.across {
            Some(across) => {
                self.n_steps = across.synchronize(&mut self.session, &self.states, self.n_steps)?;
                Ok(())
            }
            None => Ok(()),
        }
    }

    /// The session of the step, or of the update of a [data-parallel](crate::parallel) trainer: its model can be inspected, timed and explained.
    pub fn session(&self) -> &Session {
        &self.session
    }

    fn shape_of(&self, name: &str) -> Result<&[usize], TrainError> {
        let mut parameters = self.parameters.iter();
        let found = parameters.find(|(known, _)| known == name);
        let found = found.map(|(_, shape)| shape.as_slice());
        found.ok_or_else(|| unknown(name, self.parameters()))
    }
}

/// The name of the step count in a checkpoint.
const N_STEPS: &str = "n_steps";

/// The error that a tensor does not exist.
pub(crate) fn unknown<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> TrainError {
    let known: Vec<String> = known.map(|name| name.escape_debug().to_string()).collect();
    TrainError::UnknownParameter {
        name: name.escape_debug().to_string(),
        known: known.join(", "),
    }
}

/// A tensor as a parameter of this dtype and shape.
fn fitted(name: &str, tensor: Tensor, dtype: DType, shape: &[usize]) -> Result<Tensor, TrainError> {
    if tensor.shape() != shape || !tensor.dtype().is_float() {
        return Err(other_type(name, &tensor, dtype, shape));
    }
    if tensor.dtype() == dtype {
        return Ok(tensor);
    }
    Ok(Tensor::from_f64_slice(dtype, shape, &tensor.to_f64_vec()?)?)
}

fn other_type(name: &str, tensor: &Tensor, dtype: DType, shape: &[usize]) -> TrainError {
    TrainError::ParameterType {
        name: name.escape_debug().to_string(),
        expected: format!("{dtype}{shape:?}"),
        found: format!("{}{:?}", tensor.dtype(), tensor.shape()),
    }
}

impl fmt::Debug for Trainer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.parameters().collect();
        f.debug_tuple("Trainer").field(&names).finish()
    }
}
