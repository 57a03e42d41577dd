//! A model as read from its file and checked, before it is converted to a Kiln graph.
//!
//! Nothing here depends on the meaning of operators. Tensors are loaded, names are kept, types are described; whether
//! the operators are supported and the names fit together is checked by the importer.

mod attributes;
mod element_type;
mod function;
mod graph;
mod narrow;
mod node;
mod opsets;
mod scope;
mod tensor;
mod value;

use std::collections::BTreeMap;
use std::path::Path;

use kiln_tensor::zeroed_bytes;
use prost::bytes::Bytes;

pub use attributes::{Attribute, AttributeValue, Attributes, FromAttribute};
pub use element_type::ElementType;
pub use function::Function;
pub use graph::ModelGraph;
pub(crate) use narrow::FloatFormat;
pub use narrow::NarrowType;
pub use node::ModelNode;
pub(crate) use opsets::canonical_domain;
pub use opsets::{Opsets, SUPPORTED_OPSETS};
pub(crate) use scope::Scope;
pub use tensor::{ModelTensor, TensorPlace};
pub use value::{Dim, ValueInfo, ValueType};

use crate::files::read_model_file;
use crate::read::read_model;
use crate::{Error, Fs, Limits};

/// An ONNX model.
#[derive(Clone, Debug)]
pub struct Model {
    pub(crate) ir_version: i64,
    pub(crate) producer: String,
    pub(crate) producer_version: String,
    pub(crate) opsets: Opsets,
    pub(crate) metadata: BTreeMap<String, String>,
    pub(crate) graph: ModelGraph,
    pub(crate) functions: Vec<Function>,
}

impl Model {
    /// Loads a model file; external tensors are read from beneath its folder.
    ///
    /// # Errors
    /// When the file cannot be read, is not a model, exceeds the default [`Limits`], or names files that it may not
    /// read.
    pub fn load(path: impl AsRef<Path>) -> Result<Self, Error> {
        Self::load_with(path, &Limits::default())
    }

    /// Loads a model file within the given limits.
    ///
    /// # Errors
    /// As [`Model::load`].
    pub fn load_with(path: impl AsRef<Path>, limits: &Limits) -> Result<Self, Error> {
        let (bytes, folder) = read_model_file(path.as_ref(), limits)?;
        read_model(Bytes::from(bytes), &folder, limits)
    }

    /// Reads a model from memory; external tensors come from `files`.
    ///
    /// # Errors
    /// When the bytes are not a model, exceed the default [`Limits`], or name files that `files` does not provide.
    pub fn from_bytes(bytes: &[u8], files: &dyn Fs) -> Result<Self, Error> {
        Self::from_bytes_with(bytes, files, &Limits::default())
    }

    /// Reads a model from memory within the given limits.
    ///
    /// # Errors
    /// As [`Model::from_bytes`].
    pub fn from_bytes_with(bytes: &[u8], files: &dyn Fs, limits: &Limits) -> Result<Self, Error> {
        limits.check(crate::LimitKind::ModelBytes, bytes.len() as u64)?;
        let mut owned = zeroed_bytes(bytes.len()).map_err(|error| Error::File {
            file: crate::Name::from("model"),
            source: crate::FileError::Io(error.into()),
        })?;
        owned.copy_from_slice(bytes);
        Self::from_owned_bytes(owned, files, limits)
    }

    /// Reads a model from memory that it keeps, within the given limits.
    ///
    /// # Errors
    /// As [`Model::from_bytes`].
    pub fn from_owned_bytes(
        bytes: Vec<u8>,
        files: &dyn Fs,
        limits: &Limits,
    ) -> Result<Self, Error> {
        limits.check(crate::LimitKind::ModelBytes, bytes.len() as u64)?;
        read_model(Bytes::from(bytes), files, limits)
    }

    /// The version of the file format.
    pub fn ir_version(&self) -> i64 {
        self.ir_version
    }

    /// The tool that wrote the model, and its version; either may be empty.
    pub fn producer(&self) -> (&str, &str) {
        (&self.producer, &self.producer_version)
    }

    /// The operator sets that the model uses.
    pub fn opsets(&self) -> &Opsets {
        &self.opsets
    }

    /// The model's metadata: labels, a dictionary, an author.
    pub fn metadata(&self) -> &BTreeMap<String, String> {
        &self.metadata
    }

    /// The main graph.
    pub fn graph(&self) -> &ModelGraph {
        &self.graph
    }

    /// The operators that the model defines itself.
    pub fn functions(&self) -> &[Function] {
        &self.functions
    }
}
