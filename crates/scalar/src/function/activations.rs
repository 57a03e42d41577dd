//! The composite functions: the one table to extend.
//!
//! Conventions: the derivative at a kink is stated in the row's text. `min` and `max` pass their whole derivative at a tie
//! to their first operand, so a constant bound comes first where the slope at the bound is to be 0. Parameters have ONNX's
//! names and defaults.

use std::f64::consts::{FRAC_1_SQRT_2, PI};

use super::{DefineMany, DefineUnary, Definition, Derivative, NamedFunction, Parameter};
use crate::{ExprBuilder, NodeId};

/// One row per function.
pub(super) fn table() -> Vec<NamedFunction> {
    vec![
        row("identity", "`x`.", |_, x, _| x),
        row(
            "stop_gradient",
            "`x`, as a constant: its gradient is zero.",
            |_, x, _| x,
        )
        .without_slope(),
        row_of(
            2,
            "mul_no_nan",
            "`x0 * x1`, but 0 where x0 is 0, even if x1 is infinite or NaN; slopes x1 and x0, as of the product.",
            |b, x, _| {
                let zero = b.literal(0.0, x[0]);
                let is_zero = b.eq(x[0], zero);
                let product = b.mul(x[0], x[1]);
                b.select(is_zero, zero, product)
            },
        )
        .slope_for(|_, x, operand| x[1 - operand]),
        row("square", "`x * x`.", |b, x, _| b.mul(x, x)),
        row("reciprocal", "`1 / x`.", |b, x, _| {
            let one = b.literal(1.0, x);
            b.div(one, x)
        }),
        row("relu", "`max(0, x)`; slope 0 at 0.", |b, x, _| {
            let zero = b.literal(0.0, x);
            b.max(zero, x)
        }),
        row(
            "leaky_relu",
            "`x` above 0, else `alpha * x`; slope alpha at 0.",
            |b, x, p| {
                let alpha = b.literal(p[0], x);
                leaky(b, x, alpha)
            },
        )
        .with([parameter("alpha", 0.01)]),
        row_of(
            2,
            "prelu",
            "`x0` above 0, else `x1 * x0`; slope x1 at 0.",
            |b, x, _| leaky(b, x[0], x[1]),
        ),
        row(
            "thresholded_relu",
            "`x` above `alpha`, else 0; slope 0 at alpha.",
            |b, x, p| {
                let (alpha, zero) = (b.literal(p[0], x), b.literal(0.0, x));
                let below = b.le(x, alpha);
                b.select(below, zero, x)
            },
        )
        .with([parameter("alpha", 1.0)]),
        row(
            "elu",
            "`x` above 0, else `alpha * expm1(x)`; slope alpha at 0.",
            |b, x, p| {
                let curve = b.expm1(x);
                bent_at_zero(b, x, 1.0, curve, p[0])
            },
        )
        .with([parameter("alpha", 1.0)]),
        row(
            "celu",
            "`x` above 0, else `alpha * expm1(x / alpha)`; slope 1 at 0.",
            |b, x, p| {
                let alpha = b.literal(p[0], x);
                let scaled = b.div(x, alpha);
                let curve = b.expm1(scaled);
                bent_at_zero(b, x, 1.0, curve, p[0])
            },
        )
        .with([parameter("alpha", 1.0)]),
        row(
            "selu",
            "`gamma * x` above 0, else `gamma * alpha * expm1(x)`; slope gamma * alpha at 0.",
            |b, x, p| {
                let curve = b.expm1(x);
                bent_at_zero(b, x, p[1], curve, p[1] * p[0])
            },
        )
        // Klambauer et al., "Self-Normalizing Neural Networks" (2017), as rounded by ONNX.
        .with([
            parameter("alpha", 1.673_263_192_176_818_8),
            parameter("gamma", 1.050_701_022_148_132_3),
        ]),
        row("gelu", "`x / 2 * (1 + erf(x / sqrt(2)))`.", |b, x, _| {
            let scale = b.literal(FRAC_1_SQRT_2, x);
            let scaled = b.mul(x, scale);
            let curve = b.erf(scaled);
            half_of_one_plus(b, x, curve)
        }),
        row(
            "gelu_tanh",
            "`x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x^3)))`.",
            |b, x, _| {
                // Hendrycks and Gimpel, "Gaussian Error Linear Units" (2016), section 2.
                let (scale, cubic) = (b.literal((2.0 / PI).sqrt(), x), b.literal(0.044715, x));
                let one = b.literal(1.0, x);
                let square = b.mul(x, x);
                let cubed = b.mul(cubic, square);
                let factor = b.add(one, cubed);
                let inner = b.mul(x, factor);
                let scaled = b.mul(scale, inner);
                let curve = b.tanh(scaled);
                half_of_one_plus(b, x, curve)
            },
        ),
        row("quick_gelu", "`x * sigmoid(alpha * x)`.", |b, x, p| {
            let alpha = b.literal(p[0], x);
            let scaled = b.mul(alpha, x);
            let gate = b.sigmoid(scaled);
            b.mul(x, gate)
        })
        .with([parameter("alpha", 1.702)]),
        row("silu", "`x * sigmoid(x)`.", |b, x, _| {
            let gate = b.sigmoid(x);
            b.mul(x, gate)
        })
        .also(&["swish"]),
        row(
            "softplus",
            "`log(1 + exp(x))`, without overflow inside.",
            |b, x, _| softplus(b, x),
        )
        .slope(|b, x, _| b.sigmoid(x)),
        row(
            "log_sigmoid",
            "`log(sigmoid(x))`, without overflow inside.",
            |b, x, _| {
                let negative = b.neg(x);
                let curve = softplus(b, negative);
                b.neg(curve)
            },
        )
        .slope(|b, x, _| {
            let negative = b.neg(x);
            b.sigmoid(negative)
        }),
        row("mish", "`x * tanh(softplus(x))`.", |b, x, _| {
            let gate = tanh_of_softplus(b, x);
            b.mul(x, gate)
        })
        .slope(|b, x, _| {
            // tanh(s) + x * sigmoid(x) * (1 - tanh(s)^2), with s = softplus(x).
            let one = b.literal(1.0, x);
            let gate = tanh_of_softplus(b, x);
            let squared = b.mul(gate, gate);
            let rest = b.sub(one, squared);
            let sigmoid = b.sigmoid(x);
            let steep = b.mul(sigmoid, rest);
            let product = b.mul(x, steep);
            b.add(gate, product)
        }),
        row("softsign", "`x / (1 + |x|)`; slope 1 at 0.", |b, x, _| {
            let one = b.literal(1.0, x);
            let size = b.abs(x);
            let sum = b.add(one, size);
            b.div(x, sum)
        })
        .slope(|b, x, _| {
            // 1 / (1 + |x|)^2; the rules' form is infinity over infinity for large x.
            let one = b.literal(1.0, x);
            let size = b.abs(x);
            let sum = b.add(one, size);
            let root = b.div(one, sum);
            b.mul(root, root)
        }),
        row(
            "hard_sigmoid",
            "`max(0, min(1, alpha * x + beta))`; slope 0 at both ends.",
            |b, x, p| hard_sigmoid(b, x, p[0], p[1]),
        )
        .with([parameter("alpha", 0.2), parameter("beta", 0.5)]),
        row(
            "hard_swish",
            "`x * max(0, min(1, x / 6 + 1/2))`; slope 0 at -3, 1 at 3.",
            |b, x, _| {
                let gate = hard_sigmoid(b, x, 1.0 / 6.0, 0.5);
                b.mul(x, gate)
            },
        ),
        row(
            "hard_tanh",
            "`max(min, min(max, x))`; slope 0 at both ends.",
            |b, x, p| {
                let (low, high) = (b.literal(p[0], x), b.literal(p[1], x));
                let lowered = b.min(high, x);
                b.max(low, lowered)
            },
        )
        .with([parameter("min", -1.0), parameter("max", 1.0)]),
        row_of(
            3,
            "clip",
            "`min(max(x0, x1), x2)`: bound x2 wins over bound x1; at a bound the slope is x0's.",
            |b, x, _| {
                let raised = b.max(x[0], x[1]);
                b.min(raised, x[2])
            },
        ),
    ]
}

/// A unary function, differentiated by the rules.
fn row(name: &'static str, doc: &'static str, define: DefineUnary) -> NamedFunction {
    NamedFunction {
        name,
        aliases: &[],
        arity: 1,
        parameters: Vec::new(),
        doc,
        definition: Definition::Unary(define),
        derivative: Derivative::Rules,
    }
}

/// A function of several operands, differentiated by the rules.
pub(super) fn row_of(
    arity: usize,
    name: &'static str,
    doc: &'static str,
    define: DefineMany,
) -> NamedFunction {
    NamedFunction {
        arity,
        definition: Definition::Many(define),
        ..row(name, doc, |_, x, _| x)
    }
}

impl NamedFunction {
    fn with<const N: usize>(self, parameters: [Parameter; N]) -> NamedFunction {
        NamedFunction {
            parameters: parameters.to_vec(),
            ..self
        }
    }

    fn also(self, aliases: &'static [&'static str]) -> NamedFunction {
        NamedFunction { aliases, ..self }
    }

    /// Not differentiable.
    pub(super) fn without_slope(self) -> NamedFunction {
        NamedFunction {
            derivative: Derivative::None,
            ..self
        }
    }

    fn slope_for(self, define: fn(&mut ExprBuilder, &[NodeId], usize) -> NodeId) -> NamedFunction {
        NamedFunction {
            derivative: Derivative::WrittenFor(define),
            ..self
        }
    }

    fn slope(self, define: DefineUnary) -> NamedFunction {
        NamedFunction {
            derivative: Derivative::Written(define),
            ..self
        }
    }
}

const fn parameter(name: &'static str, default: f64) -> Parameter {
    Parameter { name, default }
}

/// `x` above 0, otherwise `slope * x`.
fn leaky(b: &mut ExprBuilder, x: NodeId, slope: NodeId) -> NodeId {
    let zero = b.literal(0.0, x);
    let above = b.gt(x, zero);
    let scaled = b.mul(slope, x);
    b.select(above, x, scaled)
}

/// `slope * x` above 0, otherwise `scale * curve`.
fn bent_at_zero(b: &mut ExprBuilder, x: NodeId, slope: f64, curve: NodeId, scale: f64) -> NodeId {
    let zero = b.literal(0.0, x);
    let above = b.gt(x, zero);
    let line = scaled(b, x, slope);
    let curve = scaled(b, curve, scale);
    b.select(above, line, curve)
}

fn scaled(b: &mut ExprBuilder, x: NodeId, factor: f64) -> NodeId {
    if factor == 1.0 {
        return x;
    }
    let factor = b.literal(factor, x);
    b.mul(factor, x)
}

/// `x / 2 * (1 + curve)`.
fn half_of_one_plus(b: &mut ExprBuilder, x: NodeId, curve: NodeId) -> NodeId {
    let (one, half) = (b.literal(1.0, x), b.literal(0.5, x));
    let sum = b.add(one, curve);
    let halved = b.mul(half, x);
    b.mul(halved, sum)
}

/// `max(0, x) + log1p(exp(-|x|))`.
fn softplus(b: &mut ExprBuilder, x: NodeId) -> NodeId {
    let zero = b.literal(0.0, x);
    let line = b.max(zero, x);
    let size = b.abs(x);
    let negative = b.neg(size);
    let small = b.exp(negative);
    let rest = b.log1p(small);
    b.add(line, rest)
}

/// `tanh(log(1 + e^x))` as a quotient of sums of positive terms: with `a = exp(-|x|)`, `(1 + 2a) / (1 + 2a + 2a^2)` for positive
/// `x`, else `(a^2 + 2a) / (a^2 + 2a + 2)`. One exponential, and nothing cancels.
fn tanh_of_softplus(b: &mut ExprBuilder, x: NodeId) -> NodeId {
    let (zero, one, two) = (b.literal(0.0, x), b.literal(1.0, x), b.literal(2.0, x));
    let size = b.abs(x);
    let negative = b.neg(size);
    let small = b.exp(negative);
    let square = b.mul(small, small);
    let is_positive = b.gt(x, zero);
    let (first, rest) = (
        b.select(is_positive, one, square),
        b.select(is_positive, square, one),
    );
    let doubled = b.mul(two, small);
    let numerator = b.add(first, doubled);
    let rest = b.mul(two, rest);
    let denominator = b.add(numerator, rest);
    b.div(numerator, denominator)
}

fn hard_sigmoid(b: &mut ExprBuilder, x: NodeId, alpha: f64, beta: f64) -> NodeId {
    let (alpha, beta) = (b.literal(alpha, x), b.literal(beta, x));
    let (zero, one) = (b.literal(0.0, x), b.literal(1.0, x));
    let scaled = b.mul(alpha, x);
    let line = b.add(scaled, beta);
    let lowered = b.min(one, line);
    b.max(zero, lowered)
}
