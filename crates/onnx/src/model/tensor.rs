//! A tensor that the model carries: an initializer or an attribute.

use kiln_tensor::Tensor;

use super::ElementType;
use crate::{Error, Name};

/// A named constant of the model.
#[derive(Clone, Debug)]
pub struct ModelTensor {
    name: Name,
    content: Result<Tensor, ElementType>,
}

impl ModelTensor {
    pub(crate) fn new(name: Name, content: Result<Tensor, ElementType>) -> Self {
        Self { name, content }
    }

    /// The name that the model gives, or the place where the tensor stands.
    pub fn name(&self) -> &Name {
        &self.name
    }

    /// The elements.
    ///
    /// # Errors
    /// [`Error::UnsupportedElement`] when Kiln has no dtype for them.
    pub fn tensor(&self) -> Result<&Tensor, Error> {
        match &self.content {
            Ok(tensor) => Ok(tensor),
            Err(element) => Err(Error::UnsupportedElement {
                tensor: self.name.clone(),
                element: *element,
            }),
        }
    }
}
