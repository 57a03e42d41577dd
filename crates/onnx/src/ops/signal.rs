//! Window functions: weights that fall off towards both ends.

use kiln_ir::ValueId;
use kiln_tensor::DType;

use super::cast::dtype_attribute;
use super::support::{Imported, one, operator};
use crate::import::Operator;
use crate::{Error, NodeContext};

pub(super) const OPERATORS: &[Operator] = &[
    operator("BlackmanWindow", &[17], |ctx| {
        cosines(ctx, &[0.42, -0.5, 0.08])
    }),
    // The coefficients of ONNX's definition: 25/46 and 21/46.
    operator("HammingWindow", &[17], |ctx| {
        cosines(ctx, &[25.0 / 46.0, -21.0 / 46.0])
    }),
    operator("HannWindow", &[17], |ctx| cosines(ctx, &[0.5, -0.5])),
];

/// The sum over `k` of `coefficients[k] * cos(2 * pi * k * i / length)`, in f64 and rounded once.
fn cosines(ctx: &mut NodeContext<'_>, coefficients: &[f64]) -> Imported {
    let dtype = dtype_attribute(ctx, "output_datatype", DType::F32)?;
    let periodic = ctx.flag("periodic", true)?;
    let size = ctx.input(0)?;
    let size = ctx.as_scalar(size)?;
    let size = match ctx.sizes_in(size)?.as_slice() {
        &[size] => size,
        _ => unreachable!("a scalar gives one size"),
    };
    let length = if periodic {
        size
    } else {
        let one = ctx.size(1);
        ctx.sizes(|table| table.sub(size, one))?
    };
    let length = ctx.dim_as_data(length)?;
    let index = ctx.build(|builder| builder.iota(DType::F64, &[size], 0))?;
    let turn = ctx.build(|builder| {
        let length = builder.cast(length, DType::F64)?;
        builder.div(index, length)
    })?;
    let mut sum: Option<ValueId> = None;
    for (harmonic, &coefficient) in coefficients.iter().enumerate() {
        let angle = ctx.scaled(turn, std::f64::consts::TAU * harmonic as f64)?;
        let term: Result<ValueId, Error> = ctx.map("cos", &[angle]);
        let term = ctx.scaled(term?, coefficient)?;
        sum = Some(match sum {
            Some(sum) => ctx.add(sum, term)?,
            None => term,
        });
    }
    match sum {
        Some(sum) => one(ctx.cast(sum, dtype)?),
        None => unreachable!("each window has coefficients"),
    }
}
