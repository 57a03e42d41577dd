//! Products, convolutions and activations with their epilogues.

use kiln_ir::ValueId;

use super::super::conv::convolve;
use super::super::support::{Imported, one, operator};
use crate::import::Operator;
use crate::{Error, NodeContext};

pub(super) const OPERATORS: &[Operator] = &[
    operator("BiasGelu", &[1], |ctx| biased(ctx, "gelu")),
    operator("FastGelu", &[1], |ctx| biased(ctx, "gelu_tanh")),
    operator("FusedConv", &[1], fused_conv),
    operator("FusedGemm", &[1], fused_gemm),
    operator("FusedMatMul", &[1], fused_matmul),
    operator("Gelu", &[1], |ctx| biased(ctx, "gelu")),
    operator("QuickGelu", &[1], quick_gelu),
];

/// A function of the operand plus a bias, if there is one.
fn biased(ctx: &mut NodeContext<'_>, function: &str) -> Imported {
    let mut x = ctx.input(0)?;
    if let Some(bias) = ctx.optional(1) {
        x = ctx.add(x, bias)?;
    }
    one(ctx.map(function, &[x])?)
}

/// `x * sigmoid(alpha * x)`.
fn quick_gelu(ctx: &mut NodeContext<'_>) -> Imported {
    let x = ctx.input(0)?;
    let alpha = ctx.attributes().get_or("alpha", 1.702_f32)?;
    let scaled = ctx.scaled(x, f64::from(alpha))?;
    let gate = ctx.map("sigmoid", &[scaled])?;
    one(ctx.mul(x, gate)?)
}

/// Matrix products, with either operand transposed (including its batch axes on request), times a number.
fn fused_matmul(ctx: &mut NodeContext<'_>) -> Imported {
    let (mut left, mut right) = (ctx.input(0)?, ctx.input(1)?);
    for name in ["transBatchA", "transBatchB"] {
        if ctx.flag(name, false)? {
            return Err(ctx.unsupported("transposed batch axes"));
        }
    }
    let alpha = f64::from(ctx.attributes().get_or("alpha", 1.0_f32)?);
    if ctx.flag("transA", false)? {
        left = swapped(ctx, left)?;
    }
    if ctx.flag("transB", false)? {
        right = swapped(ctx, right)?;
    }
    let out = ctx.dtype(left)?;
    let product = super::super::matmul::product(ctx, left, right, out)?;
    one(ctx.scaled(product, alpha)?)
}

/// The last two axes swapped; a vector is unchanged.
fn swapped(ctx: &mut NodeContext<'_>, value: ValueId) -> Result<ValueId, Error> {
    let rank = ctx.rank(value)?;
    if rank < 2 {
        return Ok(value);
    }
    let mut order: Vec<usize> = (0..rank).collect();
    order.swap(rank - 2, rank - 1);
    ctx.transpose(value, &order)
}

fn fused_gemm(ctx: &mut NodeContext<'_>) -> Imported {
    let outputs = super::super::matmul::gemm(ctx)?;
    let Some(product) = outputs.first().and_then(crate::import::Item::value) else {
        unreachable!("a product is a tensor");
    };
    let alpha = ctx.attributes().get::<f32>("activation_alpha")?;
    let parameters: Vec<f32> = alpha.into_iter().collect();
    one(activated(ctx, product, &parameters)?)
}

/// A convolution, its bias, a sum and an activation.
fn fused_conv(ctx: &mut NodeContext<'_>) -> Imported {
    let (x, weights) = (ctx.input(0)?, ctx.input(1)?);
    let out = ctx.dtype(x)?;
    let mut y = convolve(ctx, x, weights, out)?;
    if let Some(bias) = ctx.optional(2) {
        y = ctx.build(|builder| builder.add_channel_bias(y, bias))?;
    }
    if let Some(sum) = ctx.optional(3) {
        y = ctx.add(y, sum)?;
    }
    let parameters = ctx
        .attributes()
        .get_or::<&[f32]>("activation_params", &[])?
        .to_vec();
    one(activated(ctx, y, &parameters)?)
}

/// The function named by the attribute `activation`.
fn activated(ctx: &mut NodeContext<'_>, x: ValueId, parameters: &[f32]) -> Result<ValueId, Error> {
    let parameter =
        |index: usize, default: f32| f64::from(parameters.get(index).copied().unwrap_or(default));
    match ctx.attributes().get_or("activation", "")? {
        "" => Ok(x),
        "Relu" => ctx.map("relu", &[x]),
        "Tanh" => ctx.map("tanh", &[x]),
        "Sigmoid" => ctx.map("sigmoid", &[x]),
        "Softplus" => ctx.map("softplus", &[x]),
        "LeakyRelu" => ctx.map_with("leaky_relu", &[parameter(0, 0.01)], &[x]),
        "HardSigmoid" => {
            let parameters = [parameter(0, 0.2), parameter(1, 0.5)];
            ctx.map_with("hard_sigmoid", &parameters, &[x])
        }
        "Clip" => {
            let low = ctx.scalar_like(x, parameter(0, f32::MIN))?;
            let high = ctx.scalar_like(x, parameter(1, f32::MAX))?;
            ctx.map("clip", &[x, low, high])
        }
        other => Err(ctx.unsupported(format!("the activation {other:?} after a product"))),
    }
}
