//! Data-parallel steps: the gradients of each rank's batch are summed over ranks, and every rank applies the same
//! update.
//!
//! There are two programs: one computes the loss and the gradients, the other the update. Between them, the gradients
//! are summed in buckets, in the order in which the backward pass produces them, from the last layer to the first.
//! Invariant: a rank that fails before the sums notifies the others, so that none waits for it.

use super::builder::{Recorded, State, trained};
use super::{LOSS, RATE, Trainer, TrainerBuilder};
use crate::error::TrainError;
use crate::network::{Kind, Network, Parameter};
use crate::optimizer::Optimizer;
use crate::parallel::{Buckets, Collective, CollectiveError, Numbers};
use kiln::internals::lazy_runtime::StepProfile;
use kiln::{AxisSize, Model, Recording, Session, Tensor, Var};

/// Separates the random numbers of the ranks: an odd number whose bits look random (2^64 over the golden ratio).
const RANK_SEED: u64 = 0x9e37_79b9_7f4a_7c15;

/// The parts of a data-parallel trainer other than the session of its update.
pub(super) struct Across {
    collective: Box<dyn Collective>,
    /// Computes the values to be summed, the loss last, from a batch and the parameters.
    gradients: Model,
    /// The inputs of the update that take these values, except the loss.
    names: Vec<String>,
    /// The parameters and buffers.
    parameters: Vec<String>,
    /// The input whose first axis gives the number of samples.
    counted: Option<String>,
}

impl<O: Optimizer> TrainerBuilder<O> {
    /// As [`build`](Self::build), for a trainer whose steps are shared by the [ranks](crate::parallel) of a collective.
    /// Every rank builds the same network, and takes each step with its own part of a batch. If the loss is a mean over
    /// samples, the result equals that of a step on all parts together, up to rounding: parts are weighted by the first
    /// size of the first input. Buffers, such as running statistics, become means over ranks; batch normalisation sees
    /// only its rank's part, and dropout differs from rank to rank.
    ///
    /// # Errors
    /// As [`build`](Self::build); E0632 when the ranks build different networks, or one is gone.
    pub fn build_across(
        self,
        collective: impl Collective + 'static,
        network: impl FnOnce(&Network, &[Var]) -> Var,
    ) -> Result<Trainer, TrainError> {
        let Recorded {
            recording,
            inputs,
            asked,
            loss,
        } = self.record(network)?;
        let mut values: Vec<(String, Var)> = Vec::new();
        let mut gradients = loss.gradients_of_all(&trained(&asked)).into_iter();
        for parameter in &asked {
            let value = match &parameter.kind {
                Kind::Parameter => gradients.next(),
                Kind::Buffer(next) => Some(next.clone()),
            };
            values.extend(value.map(|value| (summed_name(parameter), value)));
        }
        // The gradients of the last layers are available first.
        values.reverse();
        let mut outputs: Vec<(&str, &Var)> = values
            .iter()
            .map(|(name, value)| (name.as_str(), value))
            .collect();
        outputs.push((LOSS, &loss));
        let gradients = self.load(recording, &outputs)?;

        let (recording, asked, states) = self.record_update(asked)?;
        let session = self.session(recording, None, &states)?;
        let mut trainer = self.trainer(session, asked, states);
        trainer.across = Some(Across {
            collective: Box::new(collective),
            gradients,
            names: values.into_iter().map(|(name, _)| name).collect(),
            parameters: trainer.parameters().map(ToOwned::to_owned).collect(),
            counted: inputs.first().cloned(),
        });
        trainer.synchronize()?;
        Ok(trainer)
    }

    /// Records the update: it computes the next states from the summed gradients and the current states.
    fn record_update(
        &self,
        asked: Vec<Parameter>,
    ) -> Result<(Recording, Vec<Parameter>, Vec<State>), TrainError> {
        let (name, dtype) = self.kind();
        let recording = Recording::new(&format!("{name}_update"));
        let mut again = Vec::with_capacity(asked.len());
        let mut gradients = Vec::new();
        for parameter in asked {
            let sizes = || parameter.shape.iter().map(|&size| AxisSize::from(size));
            let variable = recording.input(&parameter.name, dtype, sizes());
            let sum = recording.input(&summed_name(&parameter), dtype, sizes());
            let kind = match parameter.kind {
                Kind::Parameter => {
                    gradients.push(sum);
                    Kind::Parameter
                }
                Kind::Buffer(_) => Kind::Buffer(sum),
            };
            again.push(Parameter {
                variable,
                kind,
                ..parameter
            });
        }
        let states = self.states(&recording, &again, gradients)?;
        Ok((recording, again, states))
    }
}

/// The input of the update for the sum of a gradient, or of a buffer's next values.
fn summed_name(parameter: &Parameter) -> String {
    match parameter.kind {
        Kind::Parameter => format!("gradient of {}", parameter.name),
        Kind::Buffer(_) => format!("mean of {}", parameter.name),
    }
}

impl Across {
    /// The seed of this rank's random numbers.
    pub(super) fn seed(&self, seed: u64) -> u64 {
        seed.wrapping_add(RANK_SEED.wrapping_mul(self.collective.rank() as u64))
    }

    /// A step on this rank's part of a batch: the loss of all parts.
    pub(super) fn step(
        &self,
        session: &mut Session,
        inputs: &[(&str, &Tensor)],
        rate: &Tensor,
        profile: Option<&mut Vec<StepProfile>>,
    ) -> Result<f64, TrainError> {
        let values = self.local(session, inputs, profile);
        let counted = inputs
            .iter()
            .find(|(name, _)| Some(*name) == self.counted.as_deref());
        let count = counted.and_then(|(_, tensor)| tensor.shape().first().copied());
        let count = count.unwrap_or(1) as f64;
        let mut all = [count, if values.is_ok() { 0.0 } else { 1.0 }];
        self.collective.all_reduce(Numbers::F64(&mut all))?;
        let [total, failed] = all;
        let values = values?;
        if failed > 0.0 {
            let problem = "expected every rank to compute its gradients, found one that failed";
            return Err(CollectiveError::new(problem).into());
        }
        let share = match total > 0.0 {
            true => count / total,
            false => 1.0 / self.collective.size() as f64,
        };
        let mut sums = Buckets::new(&*self.collective, share).sums(&values)?;
        let loss = sums.pop().map(|loss| loss.to_f64_vec()).transpose()?;
        let names = self.names.iter().map(String::as_str);
        let mut given: Vec<(&str, &Tensor)> = names.zip(&sums).collect();
        given.push((RATE, rate));
        session.run(given)?;
        let loss = loss.and_then(|loss| loss.first().copied());
        Ok(loss.unwrap_or(f64::NAN))
    }

    /// The values of this rank, in the order of their names.
    fn local(
        &self,
        session: &Session,
        inputs: &[(&str, &Tensor)],
        profile: Option<&mut Vec<StepProfile>>,
    ) -> Result<Vec<Tensor>, TrainError> {
        let mut given = inputs.to_vec();
        for name in &self.parameters {
            given.push((name, session.state(name)?));
        }
        let outputs = match profile {
            Some(steps) => self.gradients.call(given).profile(steps).run()?,
            None => self.gradients.run(given)?,
        };
        let names = self.names.iter().map(String::as_str).chain([LOSS]);
        let values = names.map(|name| Ok(outputs.get(name)?.clone()));
        values.collect()
    }

    /// Replaces states by those of rank 0; returns its number of steps.
    pub(super) fn synchronize(
        &self,
        session: &mut Session,
        states: &[String],
        n_steps: u64,
    ) -> Result<u64, TrainError> {
        self.expect_same(session, states)?;
        for name in states {
            let tensor = session.state(name)?.contiguous()?;
            let mut bytes = tensor.as_bytes()?.to_vec();
            self.collective.broadcast(&mut bytes, 0)?;
            let tensor = Tensor::from_bytes(tensor.dtype(), tensor.shape(), &bytes)?;
            session.set_state(name, tensor)?;
        }
        let mut count = n_steps.to_le_bytes();
        self.collective.broadcast(&mut count, 0)?;
        Ok(u64::from_le_bytes(count))
    }

    /// Rejects ranks whose states differ from those of rank 0.
    fn expect_same(&self, session: &Session, states: &[String]) -> Result<(), TrainError> {
        let mut own = String::new();
        for name in states {
            let tensor = session.state(name)?;
            own.push_str(&format!("{name}: {}{:?}\n", tensor.dtype(), tensor.shape()));
        }
        let mut length = (own.len() as u64).to_le_bytes();
        self.collective.broadcast(&mut length, 0)?;
        let length = usize::try_from(u64::from_le_bytes(length)).unwrap_or(usize::MAX);
        let mut first = own.clone().into_bytes();
        first.resize(length, 0);
        self.collective.broadcast(&mut first, 0)?;
        let mut different = [if first == own.as_bytes() { 0.0 } else { 1.0 }];
        self.collective.all_reduce(Numbers::F64(&mut different))?;
        if different[0] > 0.0 {
            let problem =
                "expected every rank to train the same network, found different parameters";
            return Err(CollectiveError::new(problem).into());
        }
        Ok(())
    }
}
