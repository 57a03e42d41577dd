//! Converts between messages and the requests, responses and statistics shared by both front ends.

use super::messages::*;
use crate::datatype;
use crate::error::{ServeError, excerpt};
use crate::http::PLATFORM;
use crate::model::ServedModel;
use crate::parameters::{self, Parameter};
use crate::request::{InferAnswer, InferRequest};
use crate::stats::Total;
use crate::tensors;
use bytes::Bytes;
use kiln::internals::tensor::Element;
use kiln::{DType, Tensor, ValueDescription};
use std::time::Duration;

/// Reads a request. `deadline` is the client's own.
pub(super) fn request(
    message: ModelInferRequest,
    deadline: Option<Duration>,
) -> Result<InferRequest, ServeError> {
    let mut timeout = deadline;
    for (name, value) in &message.parameters {
        let value = parameter(value);
        parameters::refuse(name, &value)?;
        if name == "timeout"
            && let Some(asked) = parameters::timeout(&value)?
        {
            timeout = Some(timeout.map_or(asked, |timeout| timeout.min(asked)));
        }
    }
    let raw = &message.raw_input_contents;
    if !raw.is_empty() && raw.len() != message.inputs.len() {
        let (inputs, found) = (message.inputs.len(), raw.len());
        let problem = format!("expected one for each of {inputs} inputs, found {found}");
        return Err(ServeError::malformed("raw_input_contents", problem));
    }
    let mut inputs = Vec::with_capacity(message.inputs.len());
    for (index, input) in message.inputs.into_iter().enumerate() {
        let tensor = tensor(&input, raw.get(index))?;
        inputs.push((input.name, tensor));
    }
    for output in &message.outputs {
        for (name, value) in &output.parameters {
            parameters::refuse(name, &parameter(value))?;
        }
    }
    let some = |text: String| (!text.is_empty()).then_some(text);
    Ok(InferRequest {
        model: message.model_name,
        version: some(message.model_version),
        id: some(message.id),
        inputs,
        outputs: message
            .outputs
            .into_iter()
            .map(|output| output.name)
            .collect(),
        timeout,
    })
}

fn parameter(value: &InferParameter) -> Parameter<'_> {
    match &value.choice {
        Some(ParameterChoice::Bool(value)) => Parameter::Bool(*value),
        Some(ParameterChoice::Int64(value)) => Parameter::Number(*value),
        Some(ParameterChoice::Uint64(value)) => {
            i64::try_from(*value).map_or(Parameter::Other, Parameter::Number)
        }
        Some(ParameterChoice::Text(text)) => Parameter::Text(text),
        Some(ParameterChoice::Double(_)) | None => Parameter::Other,
    }
}

/// An input's tensor: from its raw contents, or from those by datatype.
fn tensor(input: &InferInputTensor, raw: Option<&Bytes>) -> Result<Tensor, ServeError> {
    for (name, value) in &input.parameters {
        parameters::refuse(name, &parameter(value))?;
    }
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
    let sizes = input.shape.iter().map(|&size| usize::try_from(size));
    let shape: Vec<usize> = sizes.collect::<Result<_, _>>().map_err(|_| {
        misfit(
            "sizes that are not negative".to_owned(),
            format!("{:?}", input.shape),
        )
    })?;
    match (raw, &input.contents) {
        (Some(bytes), None) => tensors::of_bytes(&input.name, dtype, &shape, bytes),
        (Some(_), Some(_)) => Err(misfit(
            "contents in one place".to_owned(),
            "both raw and typed contents".to_owned(),
        )),
        (None, Some(contents)) => typed(input, dtype, &shape, contents),
        // A tensor without elements needs no contents.
        (None, None) => tensors::of_bytes(&input.name, dtype, &shape, &[]),
    }
}

/// The tensor of the contents for its datatype.
fn typed(
    input: &InferInputTensor,
    dtype: DType,
    shape: &[usize],
    contents: &InferTensorContents,
) -> Result<Tensor, ServeError> {
    let name = &input.name;
    match dtype {
        DType::Bool => elements(name, shape, &contents.bool_contents, Some),
        DType::I8 => elements(name, shape, &contents.int_contents, |value| {
            i8::try_from(value).ok()
        }),
        DType::I16 => elements(name, shape, &contents.int_contents, |value| {
            i16::try_from(value).ok()
        }),
        DType::I32 => elements(name, shape, &contents.int_contents, Some),
        DType::I64 => elements(name, shape, &contents.int64_contents, Some),
        DType::U8 => elements(name, shape, &contents.uint_contents, |value| {
            u8::try_from(value).ok()
        }),
        DType::U16 => elements(name, shape, &contents.uint_contents, |value| {
            u16::try_from(value).ok()
        }),
        DType::U32 => elements(name, shape, &contents.uint_contents, Some),
        DType::U64 => elements(name, shape, &contents.uint64_contents, Some),
        DType::F32 => elements(name, shape, &contents.fp32_contents, Some),
        DType::F64 => elements(name, shape, &contents.fp64_contents, Some),
        other => Err(ServeError::Unsupported {
            what: format!("{} as typed contents", datatype::name_of(other)),
            next: "send it in raw_input_contents",
        }),
    }
}

fn elements<V: Copy + std::fmt::Display, T: Element>(
    name: &str,
    shape: &[usize],
    values: &[V],
    convert: impl Fn(V) -> Option<T>,
) -> Result<Tensor, ServeError> {
    let misfit = |expected: String, found: String| ServeError::Tensor {
        what: "input",
        name: excerpt(name),
        expected,
        found,
    };
    let count = shape
        .iter()
        .try_fold(1usize, |count, &size| count.checked_mul(size));
    if count != Some(values.len()) {
        let expected = format!("the elements of {}{shape:?}", datatype::name_of(T::DTYPE));
        return Err(misfit(expected, format!("{}", values.len())));
    }
    let mut elements: Vec<T> = Vec::with_capacity(values.len());
    for &value in values {
        let element = convert(value).ok_or_else(|| {
            misfit(
                format!("elements of {}", datatype::name_of(T::DTYPE)),
                value.to_string(),
            )
        })?;
        elements.push(element);
    }
    Ok(Tensor::from_vec(shape, elements).map_err(kiln::Error::from)?)
}

/// Writes a response, with raw contents.
pub(super) fn answer(answer: InferAnswer) -> Result<ModelInferResponse, ServeError> {
    let mut outputs = Vec::with_capacity(answer.outputs.len());
    let mut raw = Vec::with_capacity(answer.outputs.len());
    for (name, tensor) in answer.outputs {
        let mut bytes = Vec::with_capacity(tensor.byte_len());
        tensors::append_bytes(&mut bytes, &tensor)?;
        raw.push(Bytes::from(bytes));
        let sizes = tensor.shape().iter();
        outputs.push(InferOutputTensor {
            name,
            datatype: datatype::name_of(tensor.dtype()).to_owned(),
            shape: sizes
                .map(|&size| i64::try_from(size).unwrap_or(i64::MAX))
                .collect(),
        });
    }
    Ok(ModelInferResponse {
        model_name: answer.model,
        model_version: answer.version,
        id: answer.id.unwrap_or_default(),
        outputs,
        raw_output_contents: raw,
    })
}

/// The metadata of inputs or outputs.
pub(super) fn metadata(values: &[ValueDescription]) -> Vec<TensorMetadata> {
    let values = values.iter().map(|value| TensorMetadata {
        name: value.name().to_owned(),
        datatype: value.dtype().map_or("", datatype::name_of).to_owned(),
        shape: datatype::shape_of(value),
    });
    values.collect()
}

/// The configuration of a model, as far as the protocol can represent it.
pub(super) fn config(served: &ServedModel) -> ModelConfig {
    let inputs = served.inputs().iter().map(|value| ModelInput {
        name: value.name().to_owned(),
        data_type: data_type(value.dtype()) as i32,
        dims: datatype::shape_of(value),
    });
    let outputs = served.outputs().iter().map(|value| ModelOutput {
        name: value.name().to_owned(),
        data_type: data_type(value.dtype()) as i32,
        dims: datatype::shape_of(value),
    });
    ModelConfig {
        name: served.labels.model.clone(),
        platform: PLATFORM.to_owned(),
        backend: PLATFORM.to_owned(),
        // Sizes of the batch are part of `dims`.
        max_batch_size: 0,
        input: inputs.collect(),
        output: outputs.collect(),
    }
}

fn data_type(dtype: Option<DType>) -> DataType {
    match dtype {
        Some(DType::Bool) => DataType::Bool,
        Some(DType::U8) => DataType::Uint8,
        Some(DType::U16) => DataType::Uint16,
        Some(DType::U32) => DataType::Uint32,
        Some(DType::U64) => DataType::Uint64,
        Some(DType::I8) => DataType::Int8,
        Some(DType::I16) => DataType::Int16,
        Some(DType::I32) => DataType::Int32,
        Some(DType::I64) => DataType::Int64,
        Some(DType::F16) => DataType::Fp16,
        Some(DType::BF16) => DataType::Bf16,
        Some(DType::F32) => DataType::Fp32,
        Some(DType::F64) => DataType::Fp64,
        Some(_) | None => DataType::Invalid,
    }
}

/// The statistics of a model.
pub(super) fn statistics(served: &ServedModel) -> ModelStatistics {
    let stats = served.stats.snapshot();
    let total = |total: Total| {
        Some(StatisticDuration {
            count: total.count,
            ns: total.ns(),
        })
    };
    let batches = stats
        .batches
        .iter()
        .map(|(&size, batch)| InferBatchStatistics {
            batch_size: size,
            compute_input: total(batch.compute_input),
            compute_infer: total(batch.compute_infer),
            compute_output: total(batch.compute_output),
        });
    ModelStatistics {
        name: served.labels.model.clone(),
        version: served.labels.version.clone(),
        last_inference: stats.last_inference_ms,
        inference_count: stats.inferences,
        execution_count: stats.executions,
        batch_stats: batches.collect(),
        inference_stats: Some(InferStatistics {
            success: total(stats.success),
            fail: total(stats.fail),
            queue: total(stats.queue),
            compute_input: total(stats.compute_input),
            compute_infer: total(stats.compute_infer),
            compute_output: total(stats.compute_output),
        }),
    }
}
