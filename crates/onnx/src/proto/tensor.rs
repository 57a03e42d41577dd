//! Messages that carry numbers.

use prost::Message;

use super::{Bytes, StringStringEntryProto};

/// A tensor; its elements are in `raw_data`, in one of the typed lists, or in another file.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct TensorProto {
    #[prost(int64, repeated, tag = "1")]
    pub(crate) dims: Vec<i64>,
    #[prost(int32, tag = "2")]
    pub(crate) data_type: i32,
    #[prost(message, optional, tag = "3")]
    pub(crate) segment: Option<Segment>,
    #[prost(float, repeated, tag = "4")]
    pub(crate) float_data: Vec<f32>,
    #[prost(int32, repeated, tag = "5")]
    pub(crate) int32_data: Vec<i32>,
    #[prost(int64, repeated, tag = "7")]
    pub(crate) int64_data: Vec<i64>,
    #[prost(string, tag = "8")]
    pub(crate) name: String,
    #[prost(bytes = "bytes", tag = "9")]
    pub(crate) raw_data: Bytes,
    #[prost(double, repeated, tag = "10")]
    pub(crate) double_data: Vec<f64>,
    #[prost(uint64, repeated, tag = "11")]
    pub(crate) uint64_data: Vec<u64>,
    #[prost(message, repeated, tag = "13")]
    pub(crate) external_data: Vec<StringStringEntryProto>,
    #[prost(int32, tag = "14")]
    pub(crate) data_location: i32,
}

/// The segment of a larger tensor. Never seen in practice; a tensor with one is rejected.
#[derive(Clone, Copy, PartialEq, Message)]
pub(crate) struct Segment {
    #[prost(int64, tag = "1")]
    pub(crate) begin: i64,
    #[prost(int64, tag = "2")]
    pub(crate) end: i64,
}

/// The nonzero elements of a tensor, and their positions.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct SparseTensorProto {
    #[prost(message, optional, tag = "1")]
    pub(crate) values: Option<TensorProto>,
    #[prost(message, optional, tag = "2")]
    pub(crate) indices: Option<TensorProto>,
    #[prost(int64, repeated, tag = "3")]
    pub(crate) dims: Vec<i64>,
}
