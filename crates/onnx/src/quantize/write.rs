//! Messages of a rewritten model: nodes, constants, fresh names.

use std::collections::{BTreeMap, BTreeSet};

use prost::bytes::Bytes;

use crate::Error;
use crate::model::Model;
use crate::proto::{
    AttributeProto, GraphProto, ModelProto, NodeProto, OperatorSetIdProto, TensorProto,
    ValueInfoProto,
};

/// Numbers of element types.
const F32: i32 = 1;
const U8: i32 = 2;
const I8: i32 = 3;
/// The number of the kind of an attribute that is an integer.
const INT: i32 = 2;
/// The number of the data location for elements in another file.
const EXTERNAL: i32 = 1;

/// The replacement of a node.
#[derive(Debug)]
pub(super) struct Rewritten {
    pub(super) nodes: Vec<NodeProto>,
    pub(super) constants: Vec<TensorProto>,
    pub(super) error: f64,
}

/// The names of a model's values.
#[derive(Debug)]
pub(super) struct Names(BTreeSet<String>);

impl Names {
    pub(super) fn of(proto: &ModelProto) -> Self {
        let mut names = BTreeSet::new();
        let mut graphs: Vec<&GraphProto> = proto.graph.iter().collect();
        while let Some(graph) = graphs.pop() {
            names.extend(graph.initializer.iter().map(|tensor| tensor.name.clone()));
            names.extend(graph.input.iter().map(|input| input.name.clone()));
            for node in &graph.node {
                names.extend(node.input.iter().chain(&node.output).cloned());
                for attribute in &node.attribute {
                    graphs.extend(attribute.g.as_deref());
                    graphs.extend(&attribute.graphs);
                }
            }
        }
        Self(names)
    }

    /// A name like `stem` that is not used yet.
    pub(super) fn fresh(&mut self, stem: &str) -> String {
        let mut name = stem.to_owned();
        let mut count = 1_usize;
        while !self.0.insert(name.clone()) {
            count += 1;
            name = format!("{stem}_{count}");
        }
        name
    }
}

pub(super) fn node(
    domain: &str,
    op_type: &str,
    inputs: &[&str],
    outputs: &[&str],
    attribute: Vec<AttributeProto>,
) -> NodeProto {
    let owned = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
    NodeProto {
        input: owned(inputs),
        output: owned(outputs),
        op_type: op_type.to_owned(),
        domain: domain.to_owned(),
        attribute,
        ..NodeProto::default()
    }
}

pub(super) fn int(name: &str, value: usize) -> AttributeProto {
    AttributeProto {
        name: name.to_owned(),
        kind: INT,
        i: i64::try_from(value).unwrap_or(i64::MAX),
        ..AttributeProto::default()
    }
}

/// An output whose type is inferred.
pub(super) fn output(name: &str) -> ValueInfoProto {
    ValueInfoProto {
        name: name.to_owned(),
        ..ValueInfoProto::default()
    }
}

fn constant(name: &str, shape: &[usize], data_type: i32, raw_data: Vec<u8>) -> TensorProto {
    TensorProto {
        name: name.to_owned(),
        dims: shape
            .iter()
            .map(|&size| i64::try_from(size).unwrap_or(i64::MAX))
            .collect(),
        data_type,
        raw_data: Bytes::from(raw_data),
        ..TensorProto::default()
    }
}

pub(super) fn bytes(name: &str, shape: &[usize], elements: Vec<u8>) -> TensorProto {
    constant(name, shape, U8, elements)
}

pub(super) fn signed_bytes(name: &str, shape: &[usize], elements: &[i8]) -> TensorProto {
    let elements = elements.iter().map(|&element| element as u8).collect();
    constant(name, shape, I8, elements)
}

pub(super) fn floats(name: &str, shape: &[usize], elements: &[f32]) -> TensorProto {
    let elements = elements
        .iter()
        .flat_map(|element| element.to_le_bytes())
        .collect();
    constant(name, shape, F32, elements)
}

/// Replaces some nodes by others.
pub(super) fn replace_nodes(proto: &mut ModelProto, mut replaced: BTreeMap<usize, Rewritten>) {
    let graph = proto.graph.get_or_insert_default();
    let nodes = std::mem::take(&mut graph.node);
    for (index, node) in nodes.into_iter().enumerate() {
        match replaced.remove(&index) {
            None => graph.node.push(node),
            Some(rewritten) => {
                graph.node.extend(rewritten.nodes);
                graph.initializer.extend(rewritten.constants);
            }
        }
    }
}

/// Drops constants that are no longer read.
pub(super) fn drop_unread(proto: &mut ModelProto) {
    let mut read: BTreeSet<String> = BTreeSet::new();
    let mut graphs: Vec<&GraphProto> = proto.graph.iter().collect();
    while let Some(graph) = graphs.pop() {
        read.extend(graph.output.iter().map(|output| output.name.clone()));
        for node in &graph.node {
            read.extend(node.input.iter().cloned());
            for attribute in &node.attribute {
                graphs.extend(attribute.g.as_deref());
                graphs.extend(&attribute.graphs);
            }
        }
    }
    if let Some(graph) = &mut proto.graph {
        let mut dropped = BTreeSet::new();
        graph.initializer.retain(|tensor| {
            let is_read = read.contains(&tensor.name);
            if !is_read {
                dropped.insert(tensor.name.clone());
            }
            is_read
        });
        // Old models list their constants among the inputs, too.
        graph.input.retain(|input| !dropped.contains(&input.name));
        graph
            .value_info
            .retain(|info| !dropped.contains(&info.name));
    }
}

/// Adds an import of an operator set, unless the model has one.
pub(super) fn import_domain(proto: &mut ModelProto, domain: &str, version: i64) {
    if proto
        .opset_import
        .iter()
        .all(|import| import.domain != domain)
    {
        proto.opset_import.push(OperatorSetIdProto {
            domain: domain.to_owned(),
            version,
        });
    }
}

/// Moves the elements of constants in other files into the model.
///
/// # Errors
/// When a constant's type has no dtype.
pub(super) fn inline_external(proto: &mut ModelProto, model: &Model) -> Result<(), Error> {
    let constants = proto
        .graph
        .iter_mut()
        .flat_map(|graph| &mut graph.initializer);
    for constant in constants.filter(|constant| constant.data_location == EXTERNAL) {
        let Some(read) = model.graph().initializers().get(&constant.name) else {
            continue;
        };
        let tensor = read.tensor()?;
        if matches!(read.element(), crate::ElementType::Narrow(_)) {
            return Err(Error::NotQuantized {
                reason: format!(
                    "the constant {} has an element type that is stored otherwise here",
                    read.name()
                ),
            });
        }
        let placed = |source| Error::Tensor {
            tensor: read.name().clone(),
            source,
        };
        let dense = tensor.contiguous().map_err(placed)?;
        constant.raw_data = Bytes::copy_from_slice(dense.as_bytes().map_err(placed)?);
        constant.external_data.clear();
        constant.data_location = 0;
    }
    Ok(())
}
