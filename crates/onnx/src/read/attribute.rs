//! Reads the attributes of a node or function.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::graph::read_graph;
use super::tensor::TensorReader;
use super::types::read_type;
use crate::model::{Attribute, AttributeValue, Scope};
use crate::proto::AttributeProto;
use crate::{Error, Name};

/// Reads attributes. `owner` names the tensors among them; `label` is the node's place within
/// `scope`, for messages.
pub(crate) fn read_attributes(
    protos: Vec<AttributeProto>,
    owner: &str,
    scope: &Arc<Scope>,
    label: &str,
    tensors: &mut TensorReader<'_>,
) -> Result<Vec<Attribute>, Error> {
    let place = Place {
        owner,
        scope,
        label,
    };
    let mut names = BTreeSet::new();
    let mut attributes = Vec::new();
    for mut proto in protos {
        let name = std::mem::take(&mut proto.name);
        if !names.insert(name.clone()) {
            return Err(place.malformed(&name, "comes twice"));
        }
        let value = read_value(proto, &name, &place, tensors)?;
        attributes.push(Attribute { name, value });
    }
    Ok(attributes)
}

/// The owner of the attributes.
struct Place<'a> {
    owner: &'a str,
    scope: &'a Arc<Scope>,
    label: &'a str,
}

impl Place<'_> {
    fn malformed(&self, attribute: &str, what: &str) -> Error {
        Error::Structure {
            reason: format!(
                "{}{}: attribute {} {what}",
                self.scope,
                self.label,
                Name::from(attribute)
            ),
        }
    }

    fn tensor_name(&self, attribute: &str) -> Name {
        Name::new(format!("{}.{attribute}", self.owner))
    }

    fn body(&self, attribute: &str) -> Arc<Scope> {
        Scope::inside(
            self.scope,
            format!("{}, {}", self.label, Name::from(attribute)),
        )
    }
}

fn read_value(
    proto: AttributeProto,
    name: &str,
    place: &Place<'_>,
    tensors: &mut TensorReader<'_>,
) -> Result<AttributeValue, Error> {
    if !proto.ref_attr_name.is_empty() {
        return Ok(AttributeValue::Reference(proto.ref_attr_name));
    }
    let empty = || place.malformed(name, "has a type but no value");
    Ok(match proto.kind {
        1 => AttributeValue::Float(proto.f),
        2 => AttributeValue::Int(proto.i),
        3 => AttributeValue::String(proto.s.to_vec()),
        4 => AttributeValue::Tensor(
            tensors.read(*proto.t.ok_or_else(empty)?, place.tensor_name(name))?,
        ),
        5 => AttributeValue::Graph(read_graph(
            *proto.g.ok_or_else(empty)?,
            &place.body(name),
            tensors,
        )?),
        6 => AttributeValue::Floats(proto.floats),
        7 => AttributeValue::Ints(proto.ints),
        8 => AttributeValue::Strings(proto.strings.iter().map(|text| text.to_vec()).collect()),
        9 => {
            let read = |tensor| tensors.read(tensor, place.tensor_name(name));
            AttributeValue::Tensors(
                proto
                    .tensors
                    .into_iter()
                    .map(read)
                    .collect::<Result<_, _>>()?,
            )
        }
        10 => {
            let body = place.body(name);
            let read = |graph| read_graph(graph, &body, tensors);
            AttributeValue::Graphs(
                proto
                    .graphs
                    .into_iter()
                    .map(read)
                    .collect::<Result<_, _>>()?,
            )
        }
        11 => {
            let sparse = *proto.sparse_tensor.ok_or_else(empty)?;
            AttributeValue::Tensor(tensors.read_sparse(sparse, place.tensor_name(name))?)
        }
        12 => {
            let read = |sparse| tensors.read_sparse(sparse, place.tensor_name(name));
            AttributeValue::Tensors(
                proto
                    .sparse_tensors
                    .into_iter()
                    .map(read)
                    .collect::<Result<_, _>>()?,
            )
        }
        13 => AttributeValue::Type(read_type(*proto.tp.ok_or_else(empty)?, tensors.limits())?),
        14 => {
            let read = |ty| read_type(ty, tensors.limits());
            AttributeValue::Types(
                proto
                    .type_protos
                    .into_iter()
                    .map(read)
                    .collect::<Result<_, _>>()?,
            )
        }
        _ => return Err(place.malformed(name, "has no type that ONNX defines")),
    })
}
