//! An inference request over HTTP (JSON, followed by binary tensors if there are any) and its response.

use super::documents::{
    self, AnswerDocument, AnswerTensor, BinarySize, InferDocument, InputDocument, Parameters,
};
use super::elements::{self, Elements};
use super::route::Target;
use super::{Answer, answer};
use crate::core::Core;
use crate::datatype;
use crate::error::{ServeError, excerpt, excerpt_of_header};
use crate::offload::offload;
use crate::parameters::{self, Parameter};
use crate::request::{InferAnswer, InferRequest};
use bytes::Bytes;
use http::header::HeaderValue;
use http::{HeaderMap, Response, StatusCode};
use http_body_util::Full;
use kiln::Tensor;
use serde_json::Value;
use std::collections::BTreeSet;

/// The length of the JSON, if binary tensors follow it.
const HEADER_LENGTH: &str = "inference-header-content-length";

/// Answers a request.
pub(super) async fn infer(
    core: &Core,
    target: Target,
    headers: &HeaderMap,
    body: Vec<u8>,
) -> Answer {
    let refused = |error: &ServeError| core.refused("http", error.code());
    // If the model does not exist, the request is not decoded.
    let served = core
        .repository
        .served(&target.name, target.version.as_deref());
    served.inspect_err(refused)?;
    let json_length = json_length(headers, body.len()).inspect_err(refused)?;
    let decoded = offload(body.len(), move || decode(target, &body, json_length)).await;
    let (request, binary) = decoded.inspect_err(refused)?;
    let answer = core.repository.infer(request).await?;
    let bytes = answer.outputs.iter().map(|(_, tensor)| tensor.byte_len());
    let bytes = bytes.fold(0, usize::saturating_add);
    offload(bytes, move || encode(&answer, &binary)).await
}

/// Which outputs are returned as binary data.
struct Binary {
    by_default: bool,
    /// The outputs that differ from the default.
    others: BTreeSet<String>,
}

impl Binary {
    fn is(&self, name: &str) -> bool {
        self.by_default != self.others.contains(name)
    }
}

fn json_length(headers: &HeaderMap, body: usize) -> Result<usize, ServeError> {
    let Some(length) = headers.get(HEADER_LENGTH) else {
        return Ok(body);
    };
    let number = length
        .to_str()
        .ok()
        .and_then(|text| text.trim().parse::<usize>().ok());
    number.filter(|&length| length <= body).ok_or_else(|| {
        let found = excerpt_of_header(length);
        let problem = format!("expected a length of at most {body}, found `{found}`");
        ServeError::malformed("the header Inference-Header-Content-Length", problem)
    })
}

/// Reads a request.
fn decode(
    target: Target,
    body: &[u8],
    json_length: usize,
) -> Result<(InferRequest, Binary), ServeError> {
    let (json, mut binary) = body.split_at_checked(json_length).unwrap_or((body, &[]));
    let document: InferDocument<'_> = documents::read(json)?;
    let mut timeout = None;
    for (name, value) in &document.parameters {
        let value = parameter(value);
        parameters::refuse(name, &value)?;
        if name == "timeout" {
            timeout = parameters::timeout(&value)?;
        }
    }
    let mut inputs = Vec::with_capacity(document.inputs.len());
    for input in &document.inputs {
        inputs.push((input.name.clone(), tensor(input, &mut binary)?));
    }
    if !binary.is_empty() {
        let problem = format!(
            "expected the inputs' data, found {} bytes after them",
            binary.len()
        );
        return Err(ServeError::malformed("the request's body", problem));
    }
    let by_default = flag(&document.parameters, "binary_data_output")?.unwrap_or(false);
    let mut others = BTreeSet::new();
    let mut outputs = Vec::with_capacity(document.outputs.len());
    for output in document.outputs {
        for (name, value) in &output.parameters {
            parameters::refuse(name, &parameter(value))?;
        }
        if flag(&output.parameters, "binary_data")?.is_some_and(|is| is != by_default) {
            others.insert(output.name.clone());
        }
        outputs.push(output.name);
    }
    let request = InferRequest {
        model: target.name,
        version: target.version,
        id: document.id,
        inputs,
        outputs,
        timeout,
    };
    Ok((request, Binary { by_default, others }))
}

/// The tensor of an input: from its JSON, or the next bytes of the binary data.
fn tensor(input: &InputDocument<'_>, binary: &mut &[u8]) -> Result<Tensor, ServeError> {
    let misfit = |expected: String, found: String| ServeError::Tensor {
        what: "input",
        name: excerpt(&input.name),
        expected,
        found,
    };
    let Some(dtype) = datatype::of_name(&input.datatype) else {
        let found = format!("`{}`", excerpt(&input.datatype));
        return Err(misfit(
            format!("a datatype of {}", datatype::names()),
            found,
        ));
    };
    for (name, value) in &input.parameters {
        parameters::refuse(name, &parameter(value))?;
    }
    let size = match input.parameters.get("binary_data_size") {
        None => None,
        Some(size) => {
            let size = size.as_u64().and_then(|size| usize::try_from(size).ok());
            Some(size.ok_or_else(|| {
                misfit(
                    "binary_data_size to be a number".to_owned(),
                    "something else".to_owned(),
                )
            })?)
        }
    };
    match (size, input.data) {
        (None, Some(data)) => elements::read(&input.name, dtype, &input.shape, data.get()),
        (Some(size), None) => {
            let Some((bytes, rest)) = binary.split_at_checked(size) else {
                let expected = format!("{size} bytes after the JSON");
                return Err(misfit(expected, format!("{} bytes", binary.len())));
            };
            *binary = rest;
            crate::tensors::of_bytes(&input.name, dtype, &input.shape, bytes)
        }
        (Some(_), Some(_)) => Err(misfit(
            "data in one place".to_owned(),
            "both `data` and `binary_data_size`".to_owned(),
        )),
        (None, None) => Err(misfit(
            "`data` or `binary_data_size`".to_owned(),
            "neither".to_owned(),
        )),
    }
}

fn parameter(value: &Value) -> Parameter<'_> {
    match value {
        Value::Bool(value) => Parameter::Bool(*value),
        Value::Number(number) => number.as_i64().map_or(Parameter::Other, Parameter::Number),
        Value::String(text) => Parameter::Text(text),
        _ => Parameter::Other,
    }
}

fn flag(parameters: &Parameters, name: &'static str) -> Result<Option<bool>, ServeError> {
    match parameters.get(name) {
        None => Ok(None),
        Some(Value::Bool(value)) => Ok(Some(*value)),
        Some(_) => Err(ServeError::malformed(name, "expected true or false")),
    }
}

/// Writes a response.
fn encode(given: &InferAnswer, binary: &Binary) -> Result<Response<Full<Bytes>>, ServeError> {
    let mut tensors = Vec::with_capacity(given.outputs.len());
    let mut outputs = Vec::with_capacity(given.outputs.len());
    for (name, tensor) in &given.outputs {
        let is_binary = binary.is(name);
        let size = tensor.byte_len();
        outputs.push(AnswerTensor {
            name,
            datatype: datatype::name_of(tensor.dtype()),
            shape: tensor.shape(),
            parameters: is_binary.then_some(BinarySize {
                binary_data_size: size,
            }),
            data: match is_binary {
                true => None,
                false => Some(Elements::new(name, tensor)?),
            },
        });
        if is_binary {
            tensors.push(tensor);
        }
    }
    let document = AnswerDocument {
        model_name: &given.model,
        model_version: &given.version,
        id: given.id.as_deref(),
        outputs,
    };
    if tensors.is_empty() {
        return Ok(answer::json(&document));
    }
    let mut bytes = match serde_json::to_vec(&document) {
        Ok(bytes) => bytes,
        Err(_) => unreachable!("elements that JSON does not have were refused"),
    };
    let length = bytes.len();
    for tensor in tensors {
        crate::tensors::append_bytes(&mut bytes, tensor)?;
    }
    let mut response = answer::typed(StatusCode::OK, "application/octet-stream", bytes);
    response
        .headers_mut()
        .insert(HEADER_LENGTH, HeaderValue::from(length));
    Ok(response)
}
