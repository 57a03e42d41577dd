//! A batch: tensors by the names of a step's inputs.

use crate::error::TrainError;
use crate::trainer::unknown;
use kiln::Tensor;
use kiln::internals::tensor::TensorError;
use std::iter::Map;
use std::slice::Iter;

/// Tensors by name, as [`Trainer::step`](crate::Trainer::step) takes them: `trainer.step(&batch)`.
#[derive(Clone, Debug, Default)]
pub struct Batch(Vec<(String, Tensor)>);

impl Batch {
    /// A batch of these tensors.
    pub fn new<N: Into<String>>(tensors: impl IntoIterator<Item = (N, Tensor)>) -> Self {
        let tensors = tensors.into_iter();
        Self(
            tensors
                .map(|(name, tensor)| (name.into(), tensor))
                .collect(),
        )
    }

    /// A tensor by its name.
    ///
    /// # Errors
    /// E0622 when the batch has no tensor of that name.
    pub fn get(&self, name: &str) -> Result<&Tensor, TrainError> {
        let found = self.0.iter().find(|(known, _)| known == name);
        let known = self.0.iter().map(|(known, _)| known.as_str());
        found
            .map(|(_, tensor)| tensor)
            .ok_or_else(|| unknown(name, known))
    }

    /// The names and tensors, in the order in which they were given.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Tensor)> {
        self.into_iter()
    }
}

impl<'a> IntoIterator for &'a Batch {
    type Item = (&'a str, &'a Tensor);
    type IntoIter = Map<Iter<'a, (String, Tensor)>, fn(&'a (String, Tensor)) -> Self::Item>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.iter().map(|(name, tensor)| (name.as_str(), tensor))
    }
}

/// Tensors of one dtype and shape `[sizes..]` side by side: `[count, sizes..]`.
///
/// # Errors
/// When there is no tensor, or they differ in dtype or shape.
pub fn stacked<'a>(tensors: impl IntoIterator<Item = &'a Tensor>) -> Result<Tensor, TrainError> {
    let rows = tensors.into_iter().map(|tensor| tensor.unsqueeze(0));
    let rows = rows.collect::<Result<Vec<Tensor>, TensorError>>()?;
    Ok(Tensor::concat(&rows.iter().collect::<Vec<_>>(), 0)?)
}
