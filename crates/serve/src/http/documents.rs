//! The JSON documents of the protocol.

use super::elements::Elements;
use crate::error::ServeError;
use crate::parameters;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use std::collections::BTreeMap;

/// Parameters of a request or a tensor, by name.
pub(super) type Parameters = BTreeMap<String, serde_json::Value>;

#[derive(Serialize)]
pub(super) struct ServerMetadata {
    name: &'static str,
    version: &'static str,
    extensions: &'static [&'static str],
}

/// The protocol extensions that both front ends support.
pub(crate) const EXTENSIONS: [&str; 5] = [
    "binary_tensor_data",
    "model_configuration",
    "model_repository",
    "model_repository(unload_dependents)",
    "statistics",
];

impl ServerMetadata {
    pub(super) fn new() -> Self {
        Self {
            name: "kiln",
            version: env!("CARGO_PKG_VERSION"),
            extensions: &EXTENSIONS,
        }
    }
}

#[derive(Serialize)]
pub(super) struct ModelMetadata {
    pub(super) name: String,
    pub(super) versions: Vec<String>,
    pub(super) platform: &'static str,
    pub(super) inputs: Vec<TensorMetadata>,
    pub(super) outputs: Vec<TensorMetadata>,
}

#[derive(Serialize)]
pub(super) struct TensorMetadata {
    pub(super) name: String,
    pub(super) datatype: &'static str,
    pub(super) shape: Vec<i64>,
}

#[derive(Serialize)]
pub(super) struct IndexEntry<'a> {
    pub(super) name: &'a str,
    pub(super) version: &'a str,
    pub(super) state: String,
    pub(super) reason: &'a str,
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct IndexRequest {
    pub(super) ready: bool,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ControlRequest {
    parameters: Parameters,
}

/// A request for inference; data are read once the datatype and the shape are known.
#[derive(Deserialize)]
pub(super) struct InferDocument<'a> {
    pub(super) id: Option<String>,
    #[serde(default)]
    pub(super) parameters: Parameters,
    #[serde(borrow)]
    pub(super) inputs: Vec<InputDocument<'a>>,
    #[serde(default)]
    pub(super) outputs: Vec<OutputDocument>,
}

#[derive(Deserialize)]
pub(super) struct InputDocument<'a> {
    pub(super) name: String,
    pub(super) shape: Vec<usize>,
    pub(super) datatype: String,
    #[serde(default)]
    pub(super) parameters: Parameters,
    #[serde(borrow, default)]
    pub(super) data: Option<&'a RawValue>,
}

#[derive(Deserialize)]
pub(super) struct OutputDocument {
    pub(super) name: String,
    #[serde(default)]
    pub(super) parameters: Parameters,
}

#[derive(Serialize)]
pub(super) struct AnswerDocument<'a> {
    pub(super) model_name: &'a str,
    pub(super) model_version: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) id: Option<&'a str>,
    pub(super) outputs: Vec<AnswerTensor<'a>>,
}

#[derive(Serialize)]
pub(super) struct AnswerTensor<'a> {
    pub(super) name: &'a str,
    pub(super) datatype: &'static str,
    pub(super) shape: &'a [usize],
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) parameters: Option<BinarySize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) data: Option<Elements>,
}

#[derive(Serialize)]
pub(super) struct BinarySize {
    pub(super) binary_data_size: usize,
}

/// Reads a document.
///
/// # Errors
/// E1501, with the place in the document.
pub(super) fn read<'a, T: Deserialize<'a>>(bytes: &'a [u8]) -> Result<T, ServeError> {
    let mut reader = serde_json::Deserializer::from_slice(bytes);
    let read: Result<T, _> = serde_path_to_error::deserialize(&mut reader);
    let malformed = |problem: String| {
        ServeError::malformed("the request's JSON", problem.escape_debug().to_string())
    };
    let document = read.map_err(|error| {
        let path = error.path().to_string();
        malformed(format!("{path}: {}", error.inner()))
    })?;
    reader.end().map_err(|error| malformed(error.to_string()))?;
    Ok(document)
}

/// Reads a document that may be missing.
///
/// # Errors
/// As [`read`].
pub(super) fn read_or_default<T: for<'a> Deserialize<'a> + Default>(
    bytes: &[u8],
) -> Result<T, ServeError> {
    match bytes.iter().all(u8::is_ascii_whitespace) {
        true => Ok(T::default()),
        false => read(bytes),
    }
}

/// Rejects a request to load or unload with parameters other than these; these have no effect.
///
/// # Errors
/// E1512 for another parameter; as [`read`].
pub(super) fn refuse_parameters(bytes: &[u8], allowed: &[&str]) -> Result<(), ServeError> {
    let request: ControlRequest = read_or_default(bytes)?;
    parameters::refuse_control(request.parameters.keys().map(String::as_str), allowed)
}
