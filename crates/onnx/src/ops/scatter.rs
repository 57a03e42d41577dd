//! Writing at indices.

use kiln_ir::{Combine, Op};

use super::support::{Imported, one, operator};
use crate::import::Operator;
use crate::{Error, NodeContext};

pub(super) const OPERATORS: &[Operator] = &[
    operator("Scatter", &[9], scatter_elements),
    operator("ScatterElements", &[11], scatter_elements),
    operator("ScatterND", &[11], scatter_nd),
];

fn scatter_elements(ctx: &mut NodeContext<'_>) -> Imported {
    let (x, indices, updates) = (ctx.input(0)?, ctx.input(1)?, ctx.input(2)?);
    let rank = ctx.rank(x)?;
    let axis = ctx.axis_attribute(0, rank)?;
    let combine = combine(ctx)?;
    let op = Op::ScatterElements { axis, combine };
    one(ctx.op(op, &[x, indices, updates])?)
}

fn scatter_nd(ctx: &mut NodeContext<'_>) -> Imported {
    let (x, indices, updates) = (ctx.input(0)?, ctx.input(1)?, ctx.input(2)?);
    let combine = combine(ctx)?;
    one(ctx.op(Op::ScatterNd { combine }, &[x, indices, updates])?)
}

fn combine(ctx: &NodeContext<'_>) -> Result<Combine, Error> {
    Ok(match ctx.attributes().get_or("reduction", "none")? {
        "none" => Combine::Set,
        "add" => Combine::Add,
        "mul" => Combine::Mul,
        "min" => Combine::Min,
        "max" => Combine::Max,
        other => {
            let expected = "\"none\", \"add\", \"mul\", \"min\" or \"max\"";
            return Err(ctx.attribute_error("reduction", expected, other));
        }
    })
}
