//! `Einsum`: products of tensors summed over labels, built by the graph builder.

use super::support::{Imported, one, operator};
use crate::NodeContext;
use crate::import::Operator;

pub(super) const OPERATORS: &[Operator] = &[operator("Einsum", &[12], einsum)];

fn einsum(ctx: &mut NodeContext<'_>) -> Imported {
    let equation = ctx.attributes().require::<&str>("equation")?;
    let mut operands = Vec::with_capacity(ctx.n_inputs());
    for index in 0..ctx.n_inputs() {
        operands.push(ctx.input(index)?);
    }
    one(ctx.build(|builder| builder.einsum(equation, &operands))?)
}
