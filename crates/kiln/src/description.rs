//! The inputs and outputs of a model, as a user sees them.

use kiln_ir::{Graph, Type, ValueId};
use kiln_symbolic_shape::SymbolicShape;
use kiln_tensor::DType;
use std::fmt;
use std::sync::Arc;

/// An input or output of a model: its name, element type and symbolic shape.
///
/// ```
/// let text = "graph @id(%x: f32[N, 3]) -> f32[N, 3] { return %x }";
/// let model = kiln::Model::load(kiln::Source::text(text))?;
/// let x = &model.inputs()[0];
/// assert_eq!(x.to_string(), "x: f32[N, 3]");
/// assert_eq!(x.shape().map(|shape| shape.rank()), Some(2));
/// # Ok::<(), kiln::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ValueDescription {
    name: Arc<str>,
    dtype: Option<DType>,
    shape: Option<SymbolicShape>,
}

impl ValueDescription {
    pub(crate) fn new(name: &str, dtype: Option<DType>, shape: Option<SymbolicShape>) -> Self {
        Self {
            name: name.into(),
            dtype,
            shape,
        }
    }

    /// The description of a value of `graph`.
    pub(crate) fn of(graph: &Graph, name: &str, value: ValueId) -> Self {
        let Type::Tensor(ty) = graph.ty(value) else {
            return Self::new(name, None, None);
        };
        Self::new(name, Some(ty.dtype), Some(graph.dims().describe(&ty.dims)))
    }

    /// The name.
    pub fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn shared_name(&self) -> &Arc<str> {
        &self.name
    }

    /// The element type; `None` if the model does not state it, or if the value is not a tensor.
    pub fn dtype(&self) -> Option<DType> {
        self.dtype
    }

    /// The symbolic shape; `None` if the rank is known only at a call, or if the value is not a tensor.
    pub fn shape(&self) -> Option<&SymbolicShape> {
        self.shape.as_ref()
    }
}

impl fmt::Display for ValueDescription {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.name.escape_debug())?;
        match self.dtype {
            Some(dtype) => write!(f, "{dtype}")?,
            None => f.write_str("?")?,
        }
        match &self.shape {
            Some(shape) => write!(f, "{shape}"),
            None => f.write_str("[..]"),
        }
    }
}
