//! Other sizes for the same elements: reshape, flatten, squeeze, unsqueeze.

use kiln_ir::{ReduceFunction, ValueId};
use kiln_symbolic_shape::{ContractFact, DimId, FactOrigin, Predicate, Proof};
use kiln_tensor::DType;

use super::support::{Imported, one, operator};
use crate::import::{Operator, Takes};
use crate::{Error, NodeContext};

pub(super) const OPERATORS: &[Operator] = &[
    operator("Flatten", &[1], flatten).taking(Takes::Moved),
    operator("Reshape", &[5], reshape).taking(Takes::Moved),
    operator("Squeeze", &[1, 13], squeeze).taking(Takes::Moved),
    operator("Unsqueeze", &[1, 13], unsqueeze).taking(Takes::Moved),
];

/// 0 copies the operand's size (unless `allowzero`), -1 is inferred.
fn reshape(ctx: &mut NodeContext<'_>) -> Imported {
    let (x, shape) = (ctx.input(0)?, ctx.input(1)?);
    let own = ctx.shape(x)?;
    let zero_is_zero = ctx.flag("allowzero", false)?;
    let asked = match ctx.builder().known_values(shape) {
        Some(asked) => asked.to_vec(),
        None => return one(reshape_by_data(ctx, x, zero_is_zero)?),
    };
    if asked.iter().any(|&dim| may_be_special(ctx, dim)) {
        return one(reshape_by_data(ctx, x, zero_is_zero)?);
    }
    let mut dims = Vec::with_capacity(asked.len());
    for (axis, &dim) in asked.iter().enumerate() {
        dims.push(match ctx.known(dim) {
            Some(-1) => None,
            Some(0) if !zero_is_zero => match own.get(axis) {
                Some(&size) => Some(size),
                None => {
                    let found = format!("0 at position {axis}");
                    let expected = format!("sizes to copy only on the {} axes", own.len());
                    return Err(ctx.operand_error(1, expected, found));
                }
            },
            _ => Some(dim),
        });
    }
    one(ctx.build(|builder| builder.reshape_inferring(x, &dims))?)
}

/// Whether a non-constant size may be -1; one that may be 0 is used as a size.
fn may_be_special(ctx: &NodeContext<'_>, dim: DimId) -> bool {
    ctx.known(dim).is_none() && ctx.range(dim).min.is_none_or(|min| min < 0)
}

/// A shape from data: the meaning of 0 and -1 is computed as data, too.
fn reshape_by_data(
    ctx: &mut NodeContext<'_>,
    x: ValueId,
    zero_is_zero: bool,
) -> Result<ValueId, Error> {
    let own = ctx.shape(x)?;
    let (shape, length) = ctx.with_known_size(1, 0, "a vector of known length")?;
    let length = usize::try_from(length).unwrap_or(usize::MAX);
    if ctx.rank(shape)? != 1 {
        let found = ctx.builder().describe(shape);
        return Err(ctx.operand_error(1, "a vector", found));
    }
    ctx.check_shape_elements(length)?;
    let zero = ctx.size(0);
    let copied: Vec<DimId> = (0..length)
        .map(|axis| own.get(axis).copied().unwrap_or(zero))
        .collect();
    let total = ctx.product(&own)?;
    let dims = ctx.build(|builder| {
        let mut asked = builder.cast(shape, DType::I64)?;
        let zero = builder.scalar(DType::I64, 0.0)?;
        let one = builder.scalar(DType::I64, 1.0)?;
        if !zero_is_zero {
            let copied = builder.dims_tensor(&copied)?;
            let copies = builder.equal(asked, zero)?;
            asked = builder.select(copies, copied, asked)?;
        }
        let is_rest = builder.less(asked, zero)?;
        let given = builder.select(is_rest, one, asked)?;
        let given = builder.reduce(given, ReduceFunction::Product, &[0], true)?;
        let given = builder.max(given, one)?;
        let total = builder.dims_tensor(&[total])?;
        let rest = builder.div(total, given)?;
        let sizes = builder.select(is_rest, rest, asked)?;
        builder.bind_sizes(sizes)
    })?;
    ctx.reshape(x, &dims)
}

fn flatten(ctx: &mut NodeContext<'_>) -> Imported {
    let x = ctx.input(0)?;
    // `axis` may also be the rank.
    let rank = ctx.rank(x)?;
    let axis = ctx.attributes().get_or("axis", 1_i64)?;
    let axis = if axis < 0 {
        ctx.axis(axis, rank)?
    } else {
        ctx.axis(axis, rank + 1)?
    };
    one(ctx.build(|builder| builder.flatten(x, axis))?)
}

fn squeeze(ctx: &mut NodeContext<'_>) -> Imported {
    let x = ctx.input(0)?;
    let dims = ctx.shape(x)?;
    let axes = match ctx.axes(13)? {
        Some(axes) => ctx.ascending(&axes, dims.len())?.to_vec(),
        None => unit_axes(ctx, &dims)?,
    };
    one(ctx.build(|builder| builder.squeeze(x, &axes))?)
}

/// The axes of size 1. A result's rank must be known, so a size that could be 1 or more is required not to be 1: a call
/// with that size fails instead of returning a wrong result.
fn unit_axes(ctx: &mut NodeContext<'_>, dims: &[DimId]) -> Result<Vec<usize>, Error> {
    let mut axes = Vec::new();
    let unit = ctx.size(1);
    for (axis, &dim) in dims.iter().enumerate() {
        match ctx.builder().dims().equal(dim, unit) {
            Proof::Proved => axes.push(axis),
            Proof::Disproved => {}
            Proof::Unknown if ctx.is_nested() => {
                let what = format!("no axes, where axis {axis} may or may not be of size 1");
                return Err(ctx.unsupported(what));
            }
            Proof::Unknown => {
                let node = ctx.node().path();
                let origin =
                    format!("{node}: it has no axes, so axis {axis} must not be of size 1");
                let fact = ContractFact {
                    predicate: Predicate::NotEqual(dim, unit),
                    origin: FactOrigin::Required(origin),
                };
                ctx.sizes(|table| table.assume(fact))?;
            }
        }
    }
    Ok(axes)
}

fn unsqueeze(ctx: &mut NodeContext<'_>) -> Imported {
    let x = ctx.input(0)?;
    let axes = ctx.axes(13)?;
    let axes = axes.ok_or_else(|| ctx.attribute_error("axes", "axes", "none"))?;
    let rank = ctx.rank(x)? + axes.len();
    let axes = ctx.ascending(&axes, rank)?;
    one(ctx.build(|builder| builder.unsqueeze(x, &axes))?)
}
