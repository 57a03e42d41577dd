//! A tensor that the model carries: an initializer or an attribute.

use kiln_tensor::Tensor;

use super::ElementType;
use crate::{Error, Location, Name};

/// A named constant of the model.
#[derive(Clone, Debug)]
pub struct ModelTensor {
    name: Name,
    element: ElementType,
    content: Option<Tensor>,
    place: Option<TensorPlace>,
}

/// The place of a tensor's elements, contiguous, little-endian, each valid for its type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TensorPlace {
    /// The file; `None` is the model's own.
    pub file: Option<Location>,
    /// The first byte.
    pub offset: u64,
}

impl ModelTensor {
    pub(crate) fn new(name: Name, element: ElementType, content: Option<Tensor>) -> Self {
        Self {
            name,
            element,
            content,
            place: None,
        }
    }

    pub(crate) fn at(self, place: Option<TensorPlace>) -> Self {
        Self { place, ..self }
    }

    /// The place of its raw elements; `None` if they have to be converted.
    pub fn place(&self) -> Option<&TensorPlace> {
        self.place.as_ref()
    }

    /// The model's name, or the tensor's place.
    pub fn name(&self) -> &Name {
        &self.name
    }

    /// The element type stated by the model.
    pub fn element(&self) -> ElementType {
        self.element
    }

    /// The elements; those of a narrow type in its storage dtype.
    ///
    /// # Errors
    /// [`Error::UnsupportedElement`] when there is no dtype for them.
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
