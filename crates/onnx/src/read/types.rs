//! Reads declared types and sizes.

use crate::model::{Dim, ElementType, ValueType};
use crate::proto::{Dimension, DimensionValue, TypeProto, TypeValue, WrapperType};
use crate::{Error, LimitKind, Limits};

/// Reads a type.
///
/// # Errors
/// [`Error::Limit`] for too many axes, [`Error::Structure`] for a size beyond any address space.
pub(crate) fn read_type(proto: TypeProto, limits: &Limits) -> Result<ValueType, Error> {
    let wrapped = |wrapper: Box<WrapperType>| match wrapper.elem_type {
        Some(element) => read_type(*element, limits).map(Box::new),
        None => Ok(Box::new(ValueType::Unsupported("undefined"))),
    };
    Ok(match proto.value {
        Some(TypeValue::Tensor(tensor)) => ValueType::Tensor {
            element: ElementType::from_number(tensor.elem_type),
            shape: tensor
                .shape
                .map(|shape| read_dims(shape.dim, limits))
                .transpose()?,
        },
        Some(TypeValue::Sequence(wrapper)) => ValueType::Sequence(wrapped(wrapper)?),
        Some(TypeValue::Optional(wrapper)) => ValueType::Optional(wrapped(wrapper)?),
        Some(TypeValue::Map(_)) => ValueType::Unsupported("map"),
        Some(TypeValue::SparseTensor(_)) => ValueType::Unsupported("sparse_tensor"),
        Some(TypeValue::Opaque(_)) => ValueType::Unsupported("opaque"),
        None => ValueType::Unsupported("undefined"),
    })
}

fn read_dims(dims: Vec<Dimension>, limits: &Limits) -> Result<Vec<Dim>, Error> {
    limits.check(LimitKind::Rank, dims.len() as u64)?;
    dims.into_iter().map(read_dim).collect()
}

fn read_dim(dim: Dimension) -> Result<Dim, Error> {
    match dim.value {
        Some(DimensionValue::Value(size)) if size >= 0 => usize::try_from(size)
            .map(Dim::Known)
            .map_err(|_| Error::Structure {
                reason: format!("size {size} does not fit the address space"),
            }),
        Some(DimensionValue::Param(name)) if !is_anonymous(&name) => Ok(Dim::Named(name)),
        _ => Ok(Dim::Anonymous),
    }
}

/// Names that exporters write for "some size": nothing, a question mark, a negative number.
fn is_anonymous(name: &str) -> bool {
    let name = name.trim();
    name.is_empty() || name == "?" || name.parse::<i64>().is_ok_and(|number| number < 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unnamed_sizes_are_anonymous_and_named_ones_keep_their_names() {
        let value = |size| {
            read_dim(Dimension {
                value: Some(DimensionValue::Value(size)),
            })
        };
        let param = |name: &str| {
            read_dim(Dimension {
                value: Some(DimensionValue::Param(name.to_owned())),
            })
            .unwrap()
        };
        assert_eq!(value(0).unwrap(), Dim::Known(0));
        assert_eq!(value(i64::MAX).unwrap(), Dim::Known(usize::MAX >> 1));
        for size in [-1, i64::MIN] {
            assert_eq!(value(size).unwrap(), Dim::Anonymous);
        }
        for name in ["", " ", "?", "-1", " -17"] {
            assert_eq!(param(name), Dim::Anonymous, "{name:?}");
        }
        for name in [
            "batch",
            "past + 1",
            "p2o.DynamicDimension.0",
            "unk__7",
            "-x",
        ] {
            assert_eq!(param(name), Dim::Named(name.to_owned()));
        }
        assert_eq!(read_dim(Dimension::default()).unwrap(), Dim::Anonymous);
    }
}
