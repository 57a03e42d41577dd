//! Reads graphs and their nodes.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::attribute::read_attributes;
use super::tensor::TensorReader;
use super::types::read_type;
use crate::model::{ModelGraph, ModelNode, ModelTensor, Scope, ValueInfo, canonical_domain};
use crate::proto::{GraphProto, NodeProto, ValueInfoProto};
use crate::{Error, Name};

/// Reads the graph at `scope`, and nested graphs.
pub(crate) fn read_graph(
    proto: GraphProto,
    scope: &Arc<Scope>,
    tensors: &mut TensorReader<'_>,
) -> Result<ModelGraph, Error> {
    let mut initializers = BTreeMap::new();
    for mut initializer in proto.initializer {
        let name = std::mem::take(&mut initializer.name);
        let tensor = tensors.read(initializer, Name::from(name.as_str()))?;
        add_initializer(&mut initializers, name, tensor, scope)?;
    }
    for initializer in proto.sparse_initializer {
        let name = initializer
            .values
            .as_ref()
            .map(|values| values.name.clone())
            .unwrap_or_default();
        let tensor = tensors.read_sparse(initializer, Name::from(name.as_str()))?;
        add_initializer(&mut initializers, name, tensor, scope)?;
    }
    Ok(ModelGraph {
        name: proto.name,
        inputs: read_values(proto.input, tensors)?,
        outputs: read_values(proto.output, tensors)?,
        annotations: read_values(proto.value_info, tensors)?,
        initializers,
        nodes: read_nodes(proto.node, scope, tensors)?,
    })
}

/// Reads the nodes of the graph or function at `scope`.
pub(crate) fn read_nodes(
    protos: Vec<NodeProto>,
    scope: &Arc<Scope>,
    tensors: &mut TensorReader<'_>,
) -> Result<Vec<ModelNode>, Error> {
    let mut nodes = Vec::new();
    for (index, proto) in protos.into_iter().enumerate() {
        let mut node = ModelNode {
            scope: Arc::clone(scope),
            index,
            name: proto.name,
            op_type: proto.op_type,
            domain: canonical_domain(proto.domain),
            overload: proto.overload,
            inputs: proto.input,
            outputs: proto.output,
            attributes: Vec::new(),
        };
        if node.op_type.is_empty() {
            return Err(Error::Structure {
                reason: format!("{}: it names no operator", node.path()),
            });
        }
        if !proto.attribute.is_empty() {
            let owner = if node.name.is_empty() {
                node.output(0).unwrap_or_default()
            } else {
                &node.name
            };
            node.attributes =
                read_attributes(proto.attribute, owner, scope, &node.label(), tensors)?;
        }
        nodes.push(node);
    }
    Ok(nodes)
}

fn add_initializer(
    initializers: &mut BTreeMap<String, ModelTensor>,
    name: String,
    tensor: ModelTensor,
    scope: &Scope,
) -> Result<(), Error> {
    if name.is_empty() {
        return Err(Error::Structure {
            reason: format!("{scope}an initializer has no name"),
        });
    }
    match initializers.insert(name, tensor) {
        None => Ok(()),
        Some(first) => Err(Error::Structure {
            reason: format!("{scope}two initializers have the name {}", first.name()),
        }),
    }
}

fn read_values(
    protos: Vec<ValueInfoProto>,
    tensors: &TensorReader<'_>,
) -> Result<Vec<ValueInfo>, Error> {
    let read = |proto: ValueInfoProto| {
        let ty = proto
            .r#type
            .map(|ty| read_type(ty, tensors.limits()))
            .transpose()?;
        Ok(ValueInfo {
            name: proto.name,
            ty,
        })
    };
    protos.into_iter().map(read).collect()
}
