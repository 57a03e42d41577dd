//! A tensor that the model carries: an initializer or an attribute.

use kiln_tensor::Tensor;

use super::ElementType;
use crate::{Error, Name};

/// A named constant of the model.
#[derive(Clone, Debug)]
pub struct ModelTensor {
    name: Name,
    element: ElementType,
    content: Option<Tensor>,
}

impl ModelTensor {
    pub(crate) fn new(name: Name, element: ElementType, content: Option<Tensor>) -> Self {
        Self {
            name,
            element,
            content,
        }
    }

    /// The name that the model gives, or the place where the tensor stands.
    pub fn name(&self) -> &Name {
        &self.name
    }

    /// The type of its elements as the model says it.
    pub fn element(&self) -> ElementType {
        self.element
    }

    /// The elements; those of a narrow type in the dtype that keeps them.
    ///
    /// # Errors
    /// [`Error::UnsupportedElement`] when Kiln has no dtype for them.
    pub fn tensor(&self) -> Result<&Tensor, Error> {
        match &self.content {
            Some(tensor) => Ok(tensor),
            None => Err(Error::UnsupportedElement {
                tensor: self.name.clone(),
                element: self.element,
            }),
        }
    }
}
