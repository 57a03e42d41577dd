//! Activations. Those that `scalar` names keep their name in the graph.

use kiln_ir::ValueId;

use super::elementwise::{binary, unary};
use super::support::{Imported, one, operator};
use crate::import::Operator;
use crate::{Error, NodeContext};

pub(super) const OPERATORS: &[Operator] = &[
    operator("Celu", &[12], |ctx| with(ctx, "celu", &[("alpha", 1.0)])),
    operator("Clip", &[6, 11], clip),
    operator("Elu", &[6], |ctx| with(ctx, "elu", &[("alpha", 1.0)])),
    operator("Gelu", &[20], gelu),
    operator("HardSigmoid", &[6], |ctx| {
        with(ctx, "hard_sigmoid", &[("alpha", 0.2), ("beta", 0.5)])
    }),
    operator("HardSwish", &[14], |ctx| unary(ctx, "hard_swish")),
    operator("LeakyRelu", &[6], |ctx| {
        with(ctx, "leaky_relu", &[("alpha", 0.01)])
    }),
    operator("Mish", &[18], |ctx| unary(ctx, "mish")),
    operator("PRelu", &[6, 7], prelu),
    operator("Relu", &[6], |ctx| unary(ctx, "relu")),
    operator("Selu", &[6], |ctx| {
        with(ctx, "selu", &[("alpha", SELU_ALPHA), ("gamma", SELU_GAMMA)])
    }),
    operator("Shrink", &[9], shrink),
    operator("Sigmoid", &[6], |ctx| unary(ctx, "sigmoid")),
    operator("Softplus", &[1], |ctx| unary(ctx, "softplus")),
    operator("Softsign", &[1], |ctx| unary(ctx, "softsign")),
    operator("SwiGLU", &[28], swiglu),
    operator("Swish", &[24], |ctx| {
        let x = ctx.input(0)?;
        one(swish(ctx, x)?)
    }),
    operator("Tanh", &[6], |ctx| unary(ctx, "tanh")),
    operator("ThresholdedRelu", &[10], |ctx| {
        with(ctx, "thresholded_relu", &[("alpha", 1.0)])
    }),
];

/// Before version 7 a slope per channel is given as a vector.
fn prelu(ctx: &mut NodeContext<'_>) -> Imported {
    let (x, slope) = (ctx.input(0)?, ctx.input(1)?);
    let (rank, own) = (ctx.rank(x)?, ctx.rank(slope)?);
    if ctx.version() >= 7 || own != 1 || rank < 3 {
        return binary(ctx, "prelu");
    }
    let after: Vec<usize> = (1..rank - 1).collect();
    let slope = ctx.build(|builder| builder.unsqueeze(slope, &after))?;
    one(ctx.map("prelu", &[x, slope])?)
}

/// The defaults of ONNX, which are f32.
const SELU_ALPHA: f32 = 1.673_263_2;
const SELU_GAMMA: f32 = 1.050_701;

/// A function whose parameters are float attributes with these defaults.
fn with(ctx: &mut NodeContext<'_>, function: &str, parameters: &[(&str, f32)]) -> Imported {
    let x = ctx.input(0)?;
    let mut values = Vec::with_capacity(parameters.len());
    for &(name, default) in parameters {
        values.push(f64::from(ctx.attributes().get_or(name, default)?));
    }
    one(ctx.map_with(function, &values, &[x])?)
}

/// Bounds are attributes before version 11 and operands from then on; either may be missing.
fn clip(ctx: &mut NodeContext<'_>) -> Imported {
    let x = ctx.input(0)?;
    let (low, high) = if ctx.version() < 11 {
        let low = ctx.attributes().get::<f32>("min")?;
        let high = ctx.attributes().get::<f32>("max")?;
        let mut bound = |bound: Option<f32>| {
            bound
                .map(|bound| ctx.scalar_like(x, f64::from(bound)))
                .transpose()
        };
        (bound(low)?, bound(high)?)
    } else {
        let mut bound = |index| ctx.optional(index).map(|value| ctx.as_scalar(value));
        (bound(1).transpose()?, bound(2).transpose()?)
    };
    one(match (low, high) {
        (Some(low), Some(high)) => ctx.map("clip", &[x, low, high])?,
        (Some(low), None) => ctx.map("max", &[x, low])?,
        (None, Some(high)) => ctx.map("min", &[x, high])?,
        (None, None) => x,
    })
}

fn gelu(ctx: &mut NodeContext<'_>) -> Imported {
    match ctx.attributes().get_or("approximate", "none")? {
        "none" => unary(ctx, "gelu"),
        "tanh" => unary(ctx, "gelu_tanh"),
        other => Err(ctx.attribute_error("approximate", "\"none\" or \"tanh\"", other)),
    }
}

/// `x + bias` below `-lambd`, `x - bias` above `lambd`, 0 between.
fn shrink(ctx: &mut NodeContext<'_>) -> Imported {
    let x = ctx.input(0)?;
    let bias = f64::from(ctx.attributes().get_or("bias", 0.0_f32)?);
    let threshold = f64::from(ctx.attributes().get_or("lambd", 0.5_f32)?);
    let (low, high) = (
        ctx.scalar_like(x, -threshold)?,
        ctx.scalar_like(x, threshold)?,
    );
    let (bias, zero) = (ctx.scalar_like(x, bias)?, ctx.scalar_like(x, 0.0)?);
    let (below, above) = (ctx.map("lt", &[x, low])?, ctx.map("gt", &[x, high])?);
    let (raised, lowered) = (ctx.add(x, bias)?, ctx.sub(x, bias)?);
    let upper = ctx.map("select", &[above, lowered, zero])?;
    one(ctx.map("select", &[below, raised, upper])?)
}

/// `x * sigmoid(alpha * x)`.
fn swish(ctx: &mut NodeContext<'_>, x: ValueId) -> Result<ValueId, Error> {
    let alpha = ctx.attributes().get_or("alpha", 1.0_f32)?;
    if alpha == 1.0 {
        return ctx.map("silu", &[x]);
    }
    ctx.map_with("quick_gelu", &[f64::from(alpha)], &[x])
}

fn swiglu(ctx: &mut NodeContext<'_>) -> Imported {
    let (gate, x) = (ctx.input(0)?, ctx.input(1)?);
    let gate = swish(ctx, gate)?;
    one(ctx.mul(gate, x)?)
}
