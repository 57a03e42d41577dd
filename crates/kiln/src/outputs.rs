//! The outputs of a call, in the model's order, by position and by name.

use crate::error::{Error, Failure};
use kiln_tensor::Tensor;
use std::ops::Index;
use std::sync::Arc;

/// The outputs of one call.
///
/// ```
/// use kiln::{Model, Source, Tensor};
///
/// let model = Model::load(Source::text("graph @f(%x: f32[N]) -> (f32[N], f32[N]) {
///   %a = neg %x
///   %b = abs %x
///   return %a, %b
/// }"))?;
/// let outputs = model.run([("x", &Tensor::from_slice(&[2], &[1.0f32, -2.0])?)])?;
/// assert_eq!(outputs.len(), 2);
/// assert_eq!(outputs[0].to_vec::<f32>()?, [-1.0, 2.0]);
/// assert_eq!(outputs.get("b")?.to_vec::<f32>()?, [1.0, 2.0]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Outputs {
    names: Arc<[Arc<str>]>,
    tensors: Vec<Tensor>,
}

impl Outputs {
    pub(crate) fn new(names: Arc<[Arc<str>]>, tensors: Vec<Tensor>) -> Self {
        Self { names, tensors }
    }

    /// The output of that name.
    ///
    /// # Errors
    /// When the model has no output of that name.
    pub fn get(&self, name: &str) -> Result<&Tensor, Error> {
        let found = self
            .iter()
            .find(|&(known, _)| known == name)
            .map(|(_, tensor)| tensor);
        found.ok_or_else(|| {
            let expected = self
                .names
                .iter()
                .map(|name| name.escape_debug().to_string());
            let expected = expected.collect::<Vec<_>>().join(", ");
            Failure::UnknownOutput {
                name: name.escape_debug().to_string(),
                expected,
            }
            .into()
        })
    }

    /// Names and tensors in the model's order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Tensor)> {
        self.names.iter().map(|name| &**name).zip(&self.tensors)
    }

    /// The number of outputs.
    pub fn len(&self) -> usize {
        self.tensors.len()
    }

    /// Whether there are no outputs.
    pub fn is_empty(&self) -> bool {
        self.tensors.is_empty()
    }

    /// The tensors in the model's order.
    pub fn into_tensors(self) -> Vec<Tensor> {
        self.tensors
    }
}

/// The output at a position; panics beyond the last, as a slice does.
impl Index<usize> for Outputs {
    type Output = Tensor;

    fn index(&self, position: usize) -> &Tensor {
        &self.tensors[position]
    }
}
