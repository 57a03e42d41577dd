//! The messages of `inference.GRPCInferenceService`, with the fields that Kiln reads and writes. Field numbers are
//! those of the protocol; other fields are skipped.

use bytes::Bytes;
use prost::{Enumeration, Message, Oneof};
use std::collections::HashMap;

#[derive(Clone, PartialEq, Message)]
pub(crate) struct ServerLiveRequest {}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct ServerLiveResponse {
    #[prost(bool, tag = "1")]
    pub(crate) live: bool,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct ServerReadyRequest {}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct ServerReadyResponse {
    #[prost(bool, tag = "1")]
    pub(crate) ready: bool,
}

/// A request about a version of a model: `ModelReadyRequest`, `ModelMetadataRequest`, `ModelConfigRequest` and
/// `ModelStatisticsRequest` are alike.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct ModelRequest {
    #[prost(string, tag = "1")]
    pub(crate) name: String,
    #[prost(string, tag = "2")]
    pub(crate) version: String,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct ModelReadyResponse {
    #[prost(bool, tag = "1")]
    pub(crate) ready: bool,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct ServerMetadataRequest {}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct ServerMetadataResponse {
    #[prost(string, tag = "1")]
    pub(crate) name: String,
    #[prost(string, tag = "2")]
    pub(crate) version: String,
    #[prost(string, repeated, tag = "3")]
    pub(crate) extensions: Vec<String>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct TensorMetadata {
    #[prost(string, tag = "1")]
    pub(crate) name: String,
    #[prost(string, tag = "2")]
    pub(crate) datatype: String,
    #[prost(int64, repeated, tag = "3")]
    pub(crate) shape: Vec<i64>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct ModelMetadataResponse {
    #[prost(string, tag = "1")]
    pub(crate) name: String,
    #[prost(string, repeated, tag = "2")]
    pub(crate) versions: Vec<String>,
    #[prost(string, tag = "3")]
    pub(crate) platform: String,
    #[prost(message, repeated, tag = "4")]
    pub(crate) inputs: Vec<TensorMetadata>,
    #[prost(message, repeated, tag = "5")]
    pub(crate) outputs: Vec<TensorMetadata>,
}

/// `InferParameter` and `ModelRepositoryParameter` are alike.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct InferParameter {
    #[prost(oneof = "ParameterChoice", tags = "1, 2, 3, 4, 5")]
    pub(crate) choice: Option<ParameterChoice>,
}

#[derive(Clone, PartialEq, Oneof)]
pub(crate) enum ParameterChoice {
    #[prost(bool, tag = "1")]
    Bool(bool),
    #[prost(int64, tag = "2")]
    Int64(i64),
    #[prost(string, tag = "3")]
    Text(String),
    #[prost(double, tag = "4")]
    Double(f64),
    #[prost(uint64, tag = "5")]
    Uint64(u64),
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct InferTensorContents {
    #[prost(bool, repeated, tag = "1")]
    pub(crate) bool_contents: Vec<bool>,
    #[prost(int32, repeated, tag = "2")]
    pub(crate) int_contents: Vec<i32>,
    #[prost(int64, repeated, tag = "3")]
    pub(crate) int64_contents: Vec<i64>,
    #[prost(uint32, repeated, tag = "4")]
    pub(crate) uint_contents: Vec<u32>,
    #[prost(uint64, repeated, tag = "5")]
    pub(crate) uint64_contents: Vec<u64>,
    #[prost(float, repeated, tag = "6")]
    pub(crate) fp32_contents: Vec<f32>,
    #[prost(double, repeated, tag = "7")]
    pub(crate) fp64_contents: Vec<f64>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct InferInputTensor {
    #[prost(string, tag = "1")]
    pub(crate) name: String,
    #[prost(string, tag = "2")]
    pub(crate) datatype: String,
    #[prost(int64, repeated, tag = "3")]
    pub(crate) shape: Vec<i64>,
    #[prost(map = "string, message", tag = "4")]
    pub(crate) parameters: HashMap<String, InferParameter>,
    #[prost(message, optional, tag = "5")]
    pub(crate) contents: Option<InferTensorContents>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct InferRequestedOutputTensor {
    #[prost(string, tag = "1")]
    pub(crate) name: String,
    #[prost(map = "string, message", tag = "2")]
    pub(crate) parameters: HashMap<String, InferParameter>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct ModelInferRequest {
    #[prost(string, tag = "1")]
    pub(crate) model_name: String,
    #[prost(string, tag = "2")]
    pub(crate) model_version: String,
    #[prost(string, tag = "3")]
    pub(crate) id: String,
    #[prost(map = "string, message", tag = "4")]
    pub(crate) parameters: HashMap<String, InferParameter>,
    #[prost(message, repeated, tag = "5")]
    pub(crate) inputs: Vec<InferInputTensor>,
    #[prost(message, repeated, tag = "6")]
    pub(crate) outputs: Vec<InferRequestedOutputTensor>,
    #[prost(bytes = "bytes", repeated, tag = "7")]
    pub(crate) raw_input_contents: Vec<Bytes>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct InferOutputTensor {
    #[prost(string, tag = "1")]
    pub(crate) name: String,
    #[prost(string, tag = "2")]
    pub(crate) datatype: String,
    #[prost(int64, repeated, tag = "3")]
    pub(crate) shape: Vec<i64>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct ModelInferResponse {
    #[prost(string, tag = "1")]
    pub(crate) model_name: String,
    #[prost(string, tag = "2")]
    pub(crate) model_version: String,
    #[prost(string, tag = "3")]
    pub(crate) id: String,
    #[prost(message, repeated, tag = "5")]
    pub(crate) outputs: Vec<InferOutputTensor>,
    #[prost(bytes = "bytes", repeated, tag = "6")]
    pub(crate) raw_output_contents: Vec<Bytes>,
}

/// Element types in a model's configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Enumeration)]
#[repr(i32)]
pub(crate) enum DataType {
    Invalid = 0,
    Bool = 1,
    Uint8 = 2,
    Uint16 = 3,
    Uint32 = 4,
    Uint64 = 5,
    Int8 = 6,
    Int16 = 7,
    Int32 = 8,
    Int64 = 9,
    Fp16 = 10,
    Fp32 = 11,
    Fp64 = 12,
    Text = 13,
    Bf16 = 14,
}

/// `ModelInput`; `ModelOutput` differs in the number of `dims`.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct ModelInput {
    #[prost(string, tag = "1")]
    pub(crate) name: String,
    #[prost(enumeration = "DataType", tag = "2")]
    pub(crate) data_type: i32,
    #[prost(int64, repeated, tag = "4")]
    pub(crate) dims: Vec<i64>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct ModelOutput {
    #[prost(string, tag = "1")]
    pub(crate) name: String,
    #[prost(enumeration = "DataType", tag = "2")]
    pub(crate) data_type: i32,
    #[prost(int64, repeated, tag = "3")]
    pub(crate) dims: Vec<i64>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct ModelConfig {
    #[prost(string, tag = "1")]
    pub(crate) name: String,
    #[prost(string, tag = "2")]
    pub(crate) platform: String,
    #[prost(int32, tag = "4")]
    pub(crate) max_batch_size: i32,
    #[prost(message, repeated, tag = "5")]
    pub(crate) input: Vec<ModelInput>,
    #[prost(message, repeated, tag = "6")]
    pub(crate) output: Vec<ModelOutput>,
    #[prost(string, tag = "17")]
    pub(crate) backend: String,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct ModelConfigResponse {
    #[prost(message, optional, tag = "1")]
    pub(crate) config: Option<ModelConfig>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct StatisticDuration {
    #[prost(uint64, tag = "1")]
    pub(crate) count: u64,
    #[prost(uint64, tag = "2")]
    pub(crate) ns: u64,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct InferStatistics {
    #[prost(message, optional, tag = "1")]
    pub(crate) success: Option<StatisticDuration>,
    #[prost(message, optional, tag = "2")]
    pub(crate) fail: Option<StatisticDuration>,
    #[prost(message, optional, tag = "3")]
    pub(crate) queue: Option<StatisticDuration>,
    #[prost(message, optional, tag = "4")]
    pub(crate) compute_input: Option<StatisticDuration>,
    #[prost(message, optional, tag = "5")]
    pub(crate) compute_infer: Option<StatisticDuration>,
    #[prost(message, optional, tag = "6")]
    pub(crate) compute_output: Option<StatisticDuration>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct InferBatchStatistics {
    #[prost(uint64, tag = "1")]
    pub(crate) batch_size: u64,
    #[prost(message, optional, tag = "2")]
    pub(crate) compute_input: Option<StatisticDuration>,
    #[prost(message, optional, tag = "3")]
    pub(crate) compute_infer: Option<StatisticDuration>,
    #[prost(message, optional, tag = "4")]
    pub(crate) compute_output: Option<StatisticDuration>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct ModelStatistics {
    #[prost(string, tag = "1")]
    pub(crate) name: String,
    #[prost(string, tag = "2")]
    pub(crate) version: String,
    #[prost(uint64, tag = "3")]
    pub(crate) last_inference: u64,
    #[prost(uint64, tag = "4")]
    pub(crate) inference_count: u64,
    #[prost(uint64, tag = "5")]
    pub(crate) execution_count: u64,
    #[prost(message, optional, tag = "6")]
    pub(crate) inference_stats: Option<InferStatistics>,
    #[prost(message, repeated, tag = "7")]
    pub(crate) batch_stats: Vec<InferBatchStatistics>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct ModelStatisticsResponse {
    #[prost(message, repeated, tag = "1")]
    pub(crate) model_stats: Vec<ModelStatistics>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct RepositoryIndexRequest {
    #[prost(string, tag = "1")]
    pub(crate) repository_name: String,
    #[prost(bool, tag = "2")]
    pub(crate) ready: bool,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct ModelIndex {
    #[prost(string, tag = "1")]
    pub(crate) name: String,
    #[prost(string, tag = "2")]
    pub(crate) version: String,
    #[prost(string, tag = "3")]
    pub(crate) state: String,
    #[prost(string, tag = "4")]
    pub(crate) reason: String,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct RepositoryIndexResponse {
    #[prost(message, repeated, tag = "1")]
    pub(crate) models: Vec<ModelIndex>,
}

/// `RepositoryModelLoadRequest` and `RepositoryModelUnloadRequest` are alike.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct RepositoryModelRequest {
    #[prost(string, tag = "1")]
    pub(crate) repository_name: String,
    #[prost(string, tag = "2")]
    pub(crate) model_name: String,
    #[prost(map = "string, message", tag = "3")]
    pub(crate) parameters: HashMap<String, InferParameter>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct RepositoryModelResponse {}
