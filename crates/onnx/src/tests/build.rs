//! A small model writer: the same messages, encoded.

use prost::Message;

use crate::proto::{
    AttributeProto, Bytes, Dimension, DimensionValue, GraphProto, ModelProto, NodeProto,
    OperatorSetIdProto, StringStringEntryProto, TensorProto, TensorShapeProto, TensorType,
    TypeProto, TypeValue, ValueInfoProto,
};
use crate::{Error, Model, NoFiles};

/// A model of the given graph for standard operators of version 17.
pub(crate) fn model(graph: GraphProto) -> ModelProto {
    ModelProto {
        ir_version: 8,
        opset_import: vec![opset("", 17)],
        graph: Some(graph),
        ..ModelProto::default()
    }
}

/// A model whose main graph has one initializer.
pub(crate) fn model_of(initializer: TensorProto) -> ModelProto {
    model(GraphProto {
        initializer: vec![initializer],
        ..GraphProto::default()
    })
}

/// A model whose main graph has one node.
pub(crate) fn model_with(node: NodeProto) -> ModelProto {
    model(GraphProto {
        node: vec![node],
        ..GraphProto::default()
    })
}

/// Encodes and reads a model that has no data files.
pub(crate) fn read(model: &ModelProto) -> Result<Model, Error> {
    Model::from_bytes(&model.encode_to_vec(), &NoFiles)
}

pub(crate) fn opset(domain: &str, version: i64) -> OperatorSetIdProto {
    OperatorSetIdProto {
        domain: domain.to_owned(),
        version,
    }
}

pub(crate) fn entry(key: &str, value: impl ToString) -> StringStringEntryProto {
    StringStringEntryProto {
        key: key.to_owned(),
        value: value.to_string(),
    }
}

/// A tensor without elements. `data_type` is ONNX's number: 1 is f32, 7 is i64.
pub(crate) fn tensor(name: &str, data_type: i32, dims: &[i64]) -> TensorProto {
    TensorProto {
        name: name.to_owned(),
        data_type,
        dims: dims.to_vec(),
        ..TensorProto::default()
    }
}

/// A tensor with its elements as bytes.
pub(crate) fn raw(name: &str, data_type: i32, dims: &[i64], bytes: &[u8]) -> TensorProto {
    TensorProto {
        raw_data: Bytes::copy_from_slice(bytes),
        ..tensor(name, data_type, dims)
    }
}

/// A tensor with its elements in another file.
pub(crate) fn external(
    name: &str,
    data_type: i32,
    dims: &[i64],
    entries: &[StringStringEntryProto],
) -> TensorProto {
    TensorProto {
        external_data: entries.to_vec(),
        data_location: 1,
        ..tensor(name, data_type, dims)
    }
}

pub(crate) fn node(op_type: &str, attribute: Vec<AttributeProto>) -> NodeProto {
    NodeProto {
        op_type: op_type.to_owned(),
        input: vec!["x".to_owned()],
        output: vec!["y".to_owned()],
        attribute,
        ..NodeProto::default()
    }
}

/// An attribute of the given ONNX type number: 1 float, 2 int, 3 string, 4 tensor, 5 graph, …
pub(crate) fn attribute(name: &str, kind: i32) -> AttributeProto {
    AttributeProto {
        name: name.to_owned(),
        kind,
        ..AttributeProto::default()
    }
}

pub(crate) fn value(name: &str, ty: TypeProto) -> ValueInfoProto {
    ValueInfoProto {
        name: name.to_owned(),
        r#type: Some(ty),
    }
}

pub(crate) fn tensor_type(elem_type: i32, dims: Vec<DimensionValue>) -> TypeProto {
    let dim = dims
        .into_iter()
        .map(|value| Dimension { value: Some(value) })
        .collect();
    let shape = Some(TensorShapeProto { dim });
    TypeProto {
        value: Some(TypeValue::Tensor(TensorType { elem_type, shape })),
    }
}
