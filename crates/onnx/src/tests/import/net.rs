//! Small models of a few nodes, imported and run.

use kiln_interpreter::{InterpretOptions, interpret};
use kiln_ir::Graph;
use kiln_tensor::{DType, Tensor};
use prost::Message;

use crate::proto::{
    AttributeProto, Bytes, DimensionValue, GraphProto, ModelProto, NodeProto, TensorProto,
    ValueInfoProto,
};
use crate::tests::build::{attribute, model, opset, raw, tensor_type, value};
use crate::{Error, ImportOptions, Model, NoFiles, import};

/// The ONNX number of a dtype.
pub(super) fn number_of(dtype: DType) -> i32 {
    (0..=28)
        .find(|&number| crate::ElementType::from_number(number).dtype() == Some(dtype))
        .unwrap()
}

/// A node. Names are separated by spaces; `-` is an omitted operand or result.
pub(super) fn node(
    op_type: &str,
    inputs: &str,
    outputs: &str,
    attributes: Vec<AttributeProto>,
) -> NodeProto {
    let names = |text: &str| {
        let name = |name: &str| {
            if name == "-" {
                String::new()
            } else {
                name.to_owned()
            }
        };
        text.split_whitespace().map(name).collect()
    };
    NodeProto {
        op_type: op_type.to_owned(),
        input: names(inputs),
        output: names(outputs),
        attribute: attributes,
        ..NodeProto::default()
    }
}

/// An f32 input with the given sizes: numbers, or names (`?` for an unnamed size).
pub(super) fn input(name: &str, dtype: DType, dims: &[&str]) -> ValueInfoProto {
    let dims = dims.iter().map(|dim| match dim.parse() {
        Ok(size) => DimensionValue::Value(size),
        Err(_) => DimensionValue::Param((*dim).to_owned()),
    });
    value(name, tensor_type(number_of(dtype), dims.collect()))
}

/// An output without a declared type.
pub(super) fn output(name: &str) -> ValueInfoProto {
    ValueInfoProto {
        name: name.to_owned(),
        r#type: None,
    }
}

/// An initializer.
pub(super) fn initializer(name: &str, tensor: &Tensor) -> TensorProto {
    let dims: Vec<i64> = tensor.shape().iter().map(|&size| size as i64).collect();
    raw(
        name,
        number_of(tensor.dtype()),
        &dims,
        tensor.as_bytes().unwrap(),
    )
}

pub(super) fn int(name: &str, i: i64) -> AttributeProto {
    AttributeProto {
        i,
        ..attribute(name, 2)
    }
}

pub(super) fn float(name: &str, f: f32) -> AttributeProto {
    AttributeProto {
        f,
        ..attribute(name, 1)
    }
}

pub(super) fn text(name: &str, s: &str) -> AttributeProto {
    let s = Bytes::copy_from_slice(s.as_bytes());
    AttributeProto {
        s,
        ..attribute(name, 3)
    }
}

pub(super) fn ints(name: &str, ints: &[i64]) -> AttributeProto {
    AttributeProto {
        ints: ints.to_vec(),
        ..attribute(name, 7)
    }
}

pub(super) fn floats(name: &str, floats: &[f32]) -> AttributeProto {
    AttributeProto {
        floats: floats.to_vec(),
        ..attribute(name, 6)
    }
}

pub(super) fn body(name: &str, graph: GraphProto) -> AttributeProto {
    AttributeProto {
        g: Some(Box::new(graph)),
        ..attribute(name, 5)
    }
}

/// A graph from its parts.
pub(super) fn graph(
    inputs: Vec<ValueInfoProto>,
    initializers: Vec<TensorProto>,
    nodes: Vec<NodeProto>,
    outputs: &[&str],
) -> GraphProto {
    GraphProto {
        name: "net".to_owned(),
        input: inputs,
        initializer: initializers,
        node: nodes,
        output: outputs.iter().map(|name| output(name)).collect(),
        ..GraphProto::default()
    }
}

/// A model of the graph for standard operators of this version.
pub(super) fn of_version(graph: GraphProto, version: i64) -> ModelProto {
    ModelProto {
        opset_import: vec![opset("", version)],
        ..model(graph)
    }
}

/// Encodes, reads and imports a model; the graph must pass both verifiers.
pub(super) fn imported(model: &ModelProto, options: &ImportOptions) -> Result<Graph, Error> {
    let model = Model::from_bytes(&model.encode_to_vec(), &NoFiles)?;
    let graph = import(&model, options)?;
    kiln_ir::verify(&graph).unwrap();
    kiln_shape_inference::check_types(&graph).unwrap();
    Ok(graph)
}

/// Runs a graph.
pub(super) fn run(graph: &Graph, inputs: &[Tensor]) -> Vec<Tensor> {
    interpret(graph, inputs, &InterpretOptions::default()).unwrap()
}

/// Imports a model of version 17 with default options and runs it.
pub(super) fn outputs(graph: GraphProto, inputs: &[Tensor]) -> Vec<Tensor> {
    let graph = imported(&of_version(graph, 17), &ImportOptions::new()).unwrap();
    run(&graph, inputs)
}

/// A tensor of f32.
pub(super) fn f32s(shape: &[usize], elements: &[f32]) -> Tensor {
    Tensor::from_slice(shape, elements).unwrap()
}

/// A tensor of i64.
pub(super) fn i64s(shape: &[usize], elements: &[i64]) -> Tensor {
    Tensor::from_slice(shape, elements).unwrap()
}

/// The type of the first output, in the text form.
pub(super) fn output_type(graph: &Graph) -> String {
    graph
        .ty(graph.outputs()[0])
        .display(graph.dims())
        .to_string()
}
