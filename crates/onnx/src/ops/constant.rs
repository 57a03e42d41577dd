//! Constants of the model, and tensors filled with one value.

use kiln_tensor::Tensor;
use smallvec::smallvec;

use super::support::{Imported, one, operator};
use crate::import::{Item, Operator, typed};
use crate::{AttributeValue, NodeContext};

pub(super) const OPERATORS: &[Operator] = &[
    operator("Constant", &[1], constant),
    operator("ConstantOfShape", &[9], constant_of_shape),
];

/// The node has one attribute with the value, under one of several names.
fn constant(ctx: &mut NodeContext<'_>) -> Imported {
    let mut values = ctx.attributes().iter().filter(|attribute| {
        attribute.name.starts_with("value") || attribute.name == "sparse_value"
    });
    let Some(attribute) = values.next() else {
        return Err(ctx.attribute_error("value", "a tensor", "none"));
    };
    let mut element = None;
    let tensor = match &attribute.value {
        AttributeValue::Tensor(tensor) => {
            element = Some(tensor.element());
            tensor.tensor()?.clone()
        }
        AttributeValue::Float(value) => Tensor::scalar(*value),
        AttributeValue::Int(value) => Tensor::scalar(*value),
        AttributeValue::Floats(values) => {
            ctx.tensor_at(Tensor::from_slice(&[values.len()], values))?
        }
        AttributeValue::Ints(values) => {
            ctx.tensor_at(Tensor::from_slice(&[values.len()], values))?
        }
        other => return Err(ctx.unsupported(format!("a constant from {}", other.kind()))),
    };
    let value = ctx.add_constant(tensor)?;
    Ok(smallvec![match element {
        Some(element) => typed(value, element),
        None => Item::Tensor(value),
    }])
}

/// The value is broadcast, not stored once per element of the shape.
fn constant_of_shape(ctx: &mut NodeContext<'_>) -> Imported {
    let dims = ctx.sizes_of(0)?;
    let value = match ctx.attributes().get::<&Tensor>("value")? {
        Some(tensor) => tensor.clone(),
        None => Tensor::scalar(0.0_f32),
    };
    let value = ctx.add_constant(value)?;
    let value = ctx.as_scalar(value)?;
    one(ctx.build(|builder| builder.broadcast_to(value, &dims))?)
}
