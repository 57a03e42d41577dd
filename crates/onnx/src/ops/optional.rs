//! Optionals: a value or nothing; which of them is known when the model is imported.

use kiln_tensor::Tensor;
use smallvec::smallvec;

use super::support::{Imported, one, operator};
use crate::NodeContext;
use crate::import::{Item, Operator, Takes};

pub(super) const OPERATORS: &[Operator] = &[
    operator("Optional", &[15], optional).taking(Takes::Items),
    operator("OptionalGetElement", &[15], get_element).taking(Takes::Items),
    operator("OptionalHasElement", &[15], has_element).taking(Takes::Items),
];

fn optional(ctx: &mut NodeContext<'_>) -> Imported {
    Ok(smallvec![ctx.item(0).cloned().unwrap_or(Item::Nothing)])
}

/// A tensor or a sequence is its own content.
fn get_element(ctx: &mut NodeContext<'_>) -> Imported {
    match ctx.item(0) {
        None | Some(Item::Nothing) => {
            let found = "an empty one";
            Err(ctx.operand_error(0, "a non-empty optional", found))
        }
        Some(item) => Ok(smallvec![item.clone()]),
    }
}

fn has_element(ctx: &mut NodeContext<'_>) -> Imported {
    let has = !matches!(ctx.item(0), None | Some(Item::Nothing));
    one(ctx.add_constant(Tensor::scalar(has))?)
}
