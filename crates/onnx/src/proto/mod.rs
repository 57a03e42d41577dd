//! The ONNX messages, written by hand for `prost`, so that no `protoc` is needed.
//!
//! Field numbers follow `onnx.proto3` of the ONNX project (IR version 14). Only the fields that
//! importing reads are here: documentation, training, quantisation annotations and device placement
//! are skipped by the decoder without costing memory.
//! Enumerations stay integers; [`crate::ElementType`] and the attribute reader give them names.
//! Tensor bytes are [`Bytes`], so decoding from one buffer does not copy them.
//!
//! [`census`] runs before `prost` and bounds what decoding can cost; its table must know each
//! message here.

pub(crate) mod census;
mod graph;
mod tensor;
mod types;

pub(crate) use graph::{
    AttributeProto, FunctionProto, GraphProto, ModelProto, NodeProto, OperatorSetIdProto,
    StringStringEntryProto, ValueInfoProto,
};
pub(crate) use tensor::{Segment, SparseTensorProto, TensorProto};
pub(crate) use types::{
    Dimension, DimensionValue, MapType, OpaqueType, TensorShapeProto, TensorType, TypeProto,
    TypeValue, WrapperType,
};

pub(crate) use prost::bytes::Bytes;
