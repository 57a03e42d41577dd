//! Messages of structure: model, graph, node, attribute, function.

use prost::Message;

use super::{Bytes, SparseTensorProto, TensorProto, TypeProto};

/// A whole model file.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct ModelProto {
    #[prost(int64, tag = "1")]
    pub(crate) ir_version: i64,
    #[prost(message, repeated, tag = "8")]
    pub(crate) opset_import: Vec<OperatorSetIdProto>,
    #[prost(string, tag = "2")]
    pub(crate) producer_name: String,
    #[prost(string, tag = "3")]
    pub(crate) producer_version: String,
    #[prost(string, tag = "4")]
    pub(crate) domain: String,
    #[prost(int64, tag = "5")]
    pub(crate) model_version: i64,
    #[prost(message, optional, tag = "7")]
    pub(crate) graph: Option<GraphProto>,
    #[prost(message, repeated, tag = "14")]
    pub(crate) metadata_props: Vec<StringStringEntryProto>,
    #[prost(message, repeated, tag = "25")]
    pub(crate) functions: Vec<FunctionProto>,
}

/// Nodes, constants, and the names of inputs and outputs.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct GraphProto {
    #[prost(message, repeated, tag = "1")]
    pub(crate) node: Vec<NodeProto>,
    #[prost(string, tag = "2")]
    pub(crate) name: String,
    #[prost(message, repeated, tag = "5")]
    pub(crate) initializer: Vec<TensorProto>,
    #[prost(message, repeated, tag = "15")]
    pub(crate) sparse_initializer: Vec<SparseTensorProto>,
    #[prost(message, repeated, tag = "11")]
    pub(crate) input: Vec<ValueInfoProto>,
    #[prost(message, repeated, tag = "12")]
    pub(crate) output: Vec<ValueInfoProto>,
    #[prost(message, repeated, tag = "13")]
    pub(crate) value_info: Vec<ValueInfoProto>,
}

/// One operator call.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct NodeProto {
    #[prost(string, repeated, tag = "1")]
    pub(crate) input: Vec<String>,
    #[prost(string, repeated, tag = "2")]
    pub(crate) output: Vec<String>,
    #[prost(string, tag = "3")]
    pub(crate) name: String,
    #[prost(string, tag = "4")]
    pub(crate) op_type: String,
    #[prost(string, tag = "7")]
    pub(crate) domain: String,
    #[prost(string, tag = "8")]
    pub(crate) overload: String,
    #[prost(message, repeated, tag = "5")]
    pub(crate) attribute: Vec<AttributeProto>,
}

/// A named attribute; `kind` (the field `type`) selects the content field.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct AttributeProto {
    #[prost(string, tag = "1")]
    pub(crate) name: String,
    #[prost(string, tag = "21")]
    pub(crate) ref_attr_name: String,
    #[prost(int32, tag = "20")]
    pub(crate) kind: i32,
    #[prost(float, tag = "2")]
    pub(crate) f: f32,
    #[prost(int64, tag = "3")]
    pub(crate) i: i64,
    #[prost(bytes = "bytes", tag = "4")]
    pub(crate) s: Bytes,
    #[prost(message, optional, boxed, tag = "5")]
    pub(crate) t: Option<Box<TensorProto>>,
    #[prost(message, optional, boxed, tag = "6")]
    pub(crate) g: Option<Box<GraphProto>>,
    #[prost(message, optional, boxed, tag = "22")]
    pub(crate) sparse_tensor: Option<Box<SparseTensorProto>>,
    #[prost(message, optional, boxed, tag = "14")]
    pub(crate) tp: Option<Box<TypeProto>>,
    #[prost(float, repeated, tag = "7")]
    pub(crate) floats: Vec<f32>,
    #[prost(int64, repeated, tag = "8")]
    pub(crate) ints: Vec<i64>,
    #[prost(bytes = "bytes", repeated, tag = "9")]
    pub(crate) strings: Vec<Bytes>,
    #[prost(message, repeated, tag = "10")]
    pub(crate) tensors: Vec<TensorProto>,
    #[prost(message, repeated, tag = "11")]
    pub(crate) graphs: Vec<GraphProto>,
    #[prost(message, repeated, tag = "23")]
    pub(crate) sparse_tensors: Vec<SparseTensorProto>,
    #[prost(message, repeated, tag = "15")]
    pub(crate) type_protos: Vec<TypeProto>,
}

/// Name and type of an input or output.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct ValueInfoProto {
    #[prost(string, tag = "1")]
    pub(crate) name: String,
    #[prost(message, optional, tag = "2")]
    pub(crate) r#type: Option<TypeProto>,
}

/// A key and its value.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct StringStringEntryProto {
    #[prost(string, tag = "1")]
    pub(crate) key: String,
    #[prost(string, tag = "2")]
    pub(crate) value: String,
}

/// The version of one operator set that the model uses.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct OperatorSetIdProto {
    #[prost(string, tag = "1")]
    pub(crate) domain: String,
    #[prost(int64, tag = "2")]
    pub(crate) version: i64,
}

/// An operator that the model defines by nodes.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct FunctionProto {
    #[prost(string, tag = "1")]
    pub(crate) name: String,
    #[prost(string, repeated, tag = "4")]
    pub(crate) input: Vec<String>,
    #[prost(string, repeated, tag = "5")]
    pub(crate) output: Vec<String>,
    #[prost(string, repeated, tag = "6")]
    pub(crate) attribute: Vec<String>,
    #[prost(message, repeated, tag = "11")]
    pub(crate) attribute_proto: Vec<AttributeProto>,
    #[prost(message, repeated, tag = "7")]
    pub(crate) node: Vec<NodeProto>,
    #[prost(message, repeated, tag = "9")]
    pub(crate) opset_import: Vec<OperatorSetIdProto>,
    #[prost(string, tag = "10")]
    pub(crate) domain: String,
    #[prost(string, tag = "13")]
    pub(crate) overload: String,
}
