//! Scatters: writes at indices.

use kiln_ir::{Combine, Op};
use kiln_tensor::DType;

use super::gather::addresses;
use super::support::{Imported, one, operator};
use crate::import::Operator;
use crate::{Error, NodeContext};

pub(super) const OPERATORS: &[Operator] = &[
    operator("Scatter", &[9], scatter_elements),
    operator("ScatterElements", &[11], scatter_elements),
    operator("ScatterND", &[11], scatter_nd),
    operator("TensorScatter", &[24], tensor_scatter),
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
    let (x, updates) = (ctx.input(0)?, ctx.input(2)?);
    let indices = addresses(ctx, 1)?;
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

/// Entries of an axis, beginning at a start per sample, wrapping around if circular.
fn tensor_scatter(ctx: &mut NodeContext<'_>) -> Imported {
    let (x, updates) = (ctx.input(0)?, ctx.input(1)?);
    let dims = ctx.shape(updates)?;
    let axis = ctx.axis_attribute(-2, dims.len())?;
    let circular = match ctx.attributes().get_or("mode", "linear")? {
        "linear" => false,
        "circular" => true,
        other => return Err(ctx.attribute_error("mode", "\"linear\" or \"circular\"", other)),
    };
    let unit = ctx.size(1);
    let (mut along, mut per_sample) = (vec![unit; dims.len()], vec![unit; dims.len()]);
    along[axis] = dims[axis];
    per_sample[0] = dims[0];
    let Some(&length) = ctx.shape(x)?.get(axis) else {
        let found = ctx.builder().describe(x);
        return Err(ctx.operand_error(0, format!("a tensor of rank {}", dims.len()), found));
    };
    let length = ctx.dim_as_data(length)?;
    let starts = ctx.optional(2);
    let indices = ctx.build(|builder| {
        let mut position = builder.iota(DType::I64, &along, axis)?;
        if let Some(starts) = starts {
            let starts = builder.cast(starts, DType::I64)?;
            let starts = builder.reshape(starts, &per_sample)?;
            position = builder.add(starts, position)?;
        }
        if circular {
            position = builder.map("floor_mod", &[position, length])?;
        }
        builder.broadcast_to(position, &dims)
    })?;
    let combine = Combine::Set;
    one(ctx.op(
        Op::ScatterElements { axis, combine },
        &[x, indices, updates],
    )?)
}
