//! Reads a [`Model`](crate::Model) from bytes: census, decoding, then one reader per kind of message.
//!
//! Readers consume the decoded messages, so names are moved, not copied. They recurse only over nested graphs and
//! types, whose depth the census bounds.

mod attribute;
mod dense;
mod external;
mod graph;
mod narrow;
mod sparse;
mod tensor;
mod types;

use std::sync::Arc;

use prost::Message;
use prost::bytes::Bytes;

use self::graph::read_nodes;
use self::tensor::TensorReader;
use crate::model::{Function, Model, ModelTensor, Opsets, Scope, canonical_domain};
use crate::proto::census::{Kind, take_census};
use crate::proto::{FunctionProto, ModelProto, OperatorSetIdProto, TensorProto};
use crate::{Error, Fs, Limits, Name, NoFiles};

/// Reads a model file's bytes, and the files it names.
///
/// # Errors
/// Every error of a model file; see [`Error`].
pub(crate) fn read_model(bytes: Bytes, files: &dyn Fs, limits: &Limits) -> Result<Model, Error> {
    let span = tracing::info_span!("onnx.read", bytes = bytes.len());
    let _entered = span.enter();
    if let Some(reason) = something_else(&bytes) {
        let reason = reason.to_owned();
        return Err(Error::NotAModel { reason });
    }
    take_census(&bytes, Kind::Model, limits)?;
    let proto = ModelProto::decode(bytes.clone()).map_err(undecodable)?;
    let graph = proto.graph.ok_or_else(|| Error::NotAModel {
        reason: "it has no graph".to_owned(),
    })?;
    if proto.opset_import.is_empty() {
        let reason = "it imports no operator set; expected IR version 3 or later".to_owned();
        return Err(Error::Structure { reason });
    }
    let mut tensors = TensorReader::new(files, limits).within(&bytes);
    let model = Model {
        ir_version: proto.ir_version,
        producer: proto.producer_name,
        producer_version: proto.producer_version,
        opsets: read_opsets(proto.opset_import)?,
        metadata: proto
            .metadata_props
            .into_iter()
            .map(|entry| (entry.key, entry.value))
            .collect(),
        graph: graph::read_graph(graph, &Scope::top(""), &mut tensors)?,
        functions: proto
            .functions
            .into_iter()
            .map(|function| read_function(function, &mut tensors))
            .collect::<Result<_, _>>()?,
    };
    tracing::debug!(
        nodes = model.graph().nodes().len(),
        functions = model.functions().len(),
        "model read"
    );
    Ok(model)
}

/// Common files given in place of a model.
fn something_else(bytes: &[u8]) -> Option<&'static str> {
    let first_line = bytes.get(..bytes.len().min(64)).unwrap_or_default();
    let begins = |with: &str| {
        let start = first_line.get(..with.len());
        start.is_some_and(|start| start.eq_ignore_ascii_case(with.as_bytes()))
    };
    if bytes.is_empty() {
        Some("the file is empty")
    } else if begins("version https://git-lfs") {
        Some("it is a Git LFS pointer; fetch the file with `git lfs pull`")
    } else if begins("<!DOCTYPE") || begins("<html") {
        Some("it is a web page, perhaps from a failed download")
    } else {
        None
    }
}

/// Reads a single tensor in the format of ONNX's test data: a file of one `TensorProto`.
///
/// # Errors
/// As for the tensors of a [`Model`], with the default [`Limits`]; an external one is rejected.
pub fn read_tensor(bytes: &[u8]) -> Result<ModelTensor, Error> {
    let limits = Limits::default();
    take_census(bytes, Kind::Tensor, &limits)?;
    let mut proto = TensorProto::decode(Bytes::copy_from_slice(bytes)).map_err(undecodable)?;
    let name = Name::new(std::mem::take(&mut proto.name));
    TensorReader::new(&NoFiles, &limits).read(proto, name)
}

fn undecodable(error: prost::DecodeError) -> Error {
    Error::NotAModel {
        reason: error.to_string(),
    }
}

fn read_opsets(imports: Vec<OperatorSetIdProto>) -> Result<Opsets, Error> {
    Opsets::collect(
        imports
            .into_iter()
            .map(|import| (import.domain, import.version)),
    )
}

fn read_function(proto: FunctionProto, tensors: &mut TensorReader<'_>) -> Result<Function, Error> {
    let label = format!("function {}", Name::from(proto.name.as_str()));
    let scope: Arc<Scope> = Scope::top(label.as_str());
    Ok(Function {
        domain: canonical_domain(proto.domain),
        opsets: read_opsets(proto.opset_import)?,
        inputs: proto.input,
        outputs: proto.output,
        required_attributes: proto.attribute,
        optional_attributes: attribute::read_attributes(
            proto.attribute_proto,
            &proto.name,
            &scope,
            &label,
            tensors,
        )?,
        nodes: read_nodes(proto.node, &scope, tensors)?,
        name: proto.name,
        overload: proto.overload,
    })
}
