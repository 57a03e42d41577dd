//! ONNX import: converts model files to graphs of core operations over symbolic sizes.
//!
//! | you want to | use |
//! |---|---|
//! | read a model file | [`Model::load`], [`Model::from_bytes`] |
//! | convert it to a graph | [`import()`] |
//! | constrain sizes, fix inputs, register operators | [`ImportOptions`] |
//! | inspect a model | [`Model::graph`], [`ModelNode::attributes`] |
//!
//! Everything in a model file is untrusted: sizes, nesting, names, and the files that it refers to. [`Model`] is the
//! checked result, with tensors loaded, names kept and types described. [`Limits`] bound the cost of loading. Other
//! files are read only through [`Fs`], which [`Folder`] confines to the model's own folder.
//!
//! [`import()`] then decomposes every operator (versions 1 to 28 of the standard operator set; of the first six, the
//! operators that old exporters wrote) into core operations, keeps the names of sizes, and turns sizes that are
//! computed as data back into symbolic sizes.
//!
//! Every error is an [`Error`] with a code and the node's or tensor's name, printed safely for any terminal ([`Name`]).
//!
//! ```
//! use kiln_onnx::{Dim, ImportOptions, Model, NoFiles, ValueType, import};
//!
//! // A graph with one input `x: f32[batch, 3]`, for operators of version 17.
//! let bytes = b"\x08\x08\x3a\x1d\x12\x01g\x5a\x18\x0a\x01x\x12\x13\x0a\x11\x08\x01\x12\x0d\
//!               \x0a\x07\x12\x05batch\x0a\x02\x08\x03\x42\x02\x10\x11";
//! let model = Model::from_bytes(bytes, &NoFiles)?;
//! assert_eq!(model.opsets().standard(), Some(17));
//! let input = &model.graph().inputs()[0];
//! let Some(ValueType::Tensor { shape: Some(shape), .. }) = &input.ty else { panic!("a tensor") };
//! assert_eq!(shape[..], [Dim::Named("batch".into()), Dim::Known(3)]);
//! let graph = import(&model, &ImportOptions::new())?;
//! assert_eq!(graph.ty(graph.inputs()[0]).display(graph.dims()).to_string(), "f32[batch, 3]");
//! # Ok::<(), kiln_onnx::Error>(())
//! ```

#![forbid(unsafe_code)]

mod error;
mod files;
mod import;
mod limits;
mod model;
mod name;
mod ops;
mod proto;
mod quantize;
mod read;

pub use error::Error;
pub use files::{
    DataFile, FileError, FileIdentity, Folder, Fs, Location, MemoryFiles, NoFiles, Refusal,
};
pub use import::{
    Import, ImportOptions, Imported, NodeContext, OpImporter, Question, UnsupportedOperator,
    WrongType, graph_inputs, import, import_or_ask, import_reporting,
};
pub use limits::{LimitKind, Limits};
pub use model::{
    Attribute, AttributeValue, Attributes, Dim, ElementType, FromAttribute, Function, Model,
    ModelGraph, ModelNode, ModelTensor, NarrowType, Opsets, SUPPORTED_OPSETS, TensorPlace,
    ValueInfo, ValueType,
};
pub use name::Name;
pub use quantize::{
    ProtoModel, Quantize, QuantizeRequest, QuantizedForm, QuantizedProduct, QuantizedWeights,
};
pub use read::read_tensor;

#[cfg(test)]
mod tests;
