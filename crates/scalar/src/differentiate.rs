//! Derivatives of expressions, as expressions: forward substitution of the rules for primitives.
//!
//! One pass over the nodes; each gets its slope with respect to the chosen input, which is absent where the node does not
//! depend on it, or only through something that is constant almost everywhere (a comparison, `floor`, `sign`, a conversion
//! to an integer). The steps of the value are shared with the steps of the slope.
//!
//! At kinks: `abs` has slope 0 at 0; at a tie `min` and `max` pass their whole slope to their first operand; `select`
//! passes the slope of the selected operand; a power of 0 has slope 0 with respect to its exponent.

use std::f64::consts::{FRAC_2_SQRT_PI, LN_2};

use crate::expr::{Expr, ExprBuilder, ExprNode, NodeId};
use crate::{ScalarError, ScalarOp};

/// The derivative of an expression with respect to one of its inputs, as an expression of the same inputs; the number 0
/// in the input's dtype if it does not depend on it.
///
/// ```
/// use kiln_scalar::{ExprBuilder, differentiate};
///
/// let mut b = ExprBuilder::new(2);
/// let (x, y) = (b.input(0), b.input(1));
/// let product = b.mul(x, y);
/// let sine = b.sin(product);
/// let slope = differentiate(&b.finish(sine)?, 0)?;
/// assert_eq!(slope.to_string(), "mul(x1, cos(mul(x0, x1)))");
/// # Ok::<(), kiln_scalar::ScalarError>(())
/// ```
pub fn differentiate(expr: &Expr, input: usize) -> Result<Expr, ScalarError> {
    let n_inputs = expr.n_inputs();
    if input >= n_inputs {
        return Err(ScalarError::InputOutOfRange { input, n_inputs });
    }
    let mut b = ExprBuilder::new(n_inputs);
    let inputs = b.inputs();
    let slope = match derivative_nodes(&mut b, expr, &inputs, input) {
        Some(slope) => slope,
        None => {
            let like = b.input(input);
            b.literal(0.0, like)
        }
    };
    b.finish(slope)
}

/// Adds an expression and its slope with respect to an input to a builder; `None` if there is no
/// slope.
pub(crate) fn derivative_nodes(
    b: &mut ExprBuilder,
    expr: &Expr,
    inputs: &[NodeId],
    input: usize,
) -> Option<NodeId> {
    let needed = expr.needed();
    let values = b.inline_nodes(expr, inputs);
    let mut slopes: Vec<Slope> = Vec::with_capacity(expr.nodes().len());
    for (position, node) in expr.nodes().iter().enumerate() {
        let slope = match node {
            _ if needed.get(position) != Some(&true) => Slope::Zero,
            ExprNode::Input(other) if *other == input => Slope::One,
            ExprNode::Input(_) | ExprNode::Constant(_) | ExprNode::Literal { .. } => Slope::Zero,
            ExprNode::Apply { op, operands } => {
                let operand = |i: usize| {
                    let id = operands.get(i)?;
                    Some((*values.get(id.index())?, *slopes.get(id.index())?))
                };
                let value = values.get(position).copied()?;
                match operands.len() {
                    1 => unary(b, *op, operand(0)?, value),
                    2 => binary(b, *op, operand(0)?, operand(1)?, value),
                    _ => select(b, operand(0)?.0, operand(1)?, operand(2)?),
                }
            }
        };
        slopes.push(slope);
    }
    match *slopes.get(expr.result().index())? {
        Slope::Zero => None,
        Slope::One => Some(b.literal(1.0, *values.get(expr.result().index())?)),
        Slope::Is(node) => Some(node),
    }
}

/// A slope; the values 0 and 1 are represented without a step.
#[derive(Clone, Copy)]
enum Slope {
    Zero,
    One,
    Is(NodeId),
}

impl Slope {
    /// This slope times a factor.
    fn times(self, b: &mut ExprBuilder, factor: NodeId) -> Slope {
        match self {
            Slope::Zero => Slope::Zero,
            Slope::One => Slope::Is(factor),
            Slope::Is(slope) => Slope::Is(b.mul(slope, factor)),
        }
    }

    fn over(self, b: &mut ExprBuilder, divisor: NodeId) -> Slope {
        match self {
            Slope::Zero => Slope::Zero,
            Slope::One => {
                let one = b.literal(1.0, divisor);
                Slope::Is(b.div(one, divisor))
            }
            Slope::Is(slope) => Slope::Is(b.div(slope, divisor)),
        }
    }

    fn negated(self, b: &mut ExprBuilder, like: NodeId) -> Slope {
        match self {
            Slope::Zero => Slope::Zero,
            Slope::One => Slope::Is(b.literal(-1.0, like)),
            Slope::Is(slope) => Slope::Is(b.neg(slope)),
        }
    }

    fn plus(self, b: &mut ExprBuilder, other: Slope, like: NodeId) -> Slope {
        match (self, other) {
            (Slope::Zero, slope) | (slope, Slope::Zero) => slope,
            _ => {
                let (left, right) = (self.node(b, like), other.node(b, like));
                Slope::Is(b.add(left, right))
            }
        }
    }

    /// The slope as a node, in the dtype of another.
    fn node(self, b: &mut ExprBuilder, like: NodeId) -> NodeId {
        match self {
            Slope::Zero => b.literal(0.0, like),
            Slope::One => b.literal(1.0, like),
            Slope::Is(node) => node,
        }
    }
}

/// The slope of `y = op(x)`.
fn unary(b: &mut ExprBuilder, op: ScalarOp, (x, dx): (NodeId, Slope), y: NodeId) -> Slope {
    if matches!(dx, Slope::Zero) {
        return Slope::Zero;
    }
    let one = b.literal(1.0, x);
    let factor = match op {
        ScalarOp::Neg => return dx.negated(b, x),
        ScalarOp::Cast(to) if to.is_float() => {
            let slope = dx.node(b, x);
            return Slope::Is(b.cast(to, slope));
        }
        ScalarOp::Abs => b.sign(x),
        ScalarOp::Sqrt => {
            let two = b.literal(2.0, x);
            let divisor = b.mul(two, y);
            return dx.over(b, divisor);
        }
        ScalarOp::Rsqrt => {
            // -1/2 * x^(-3/2), as -y / (2 x).
            let minus_half = b.literal(-0.5, x);
            let quotient = b.div(y, x);
            b.mul(minus_half, quotient)
        }
        ScalarOp::Exp => y,
        ScalarOp::Exp2 => {
            let ln_2 = b.literal(LN_2, x);
            b.mul(y, ln_2)
        }
        ScalarOp::Expm1 => b.exp(x),
        ScalarOp::Log => return dx.over(b, x),
        ScalarOp::Log2 => {
            let ln_2 = b.literal(LN_2, x);
            let divisor = b.mul(x, ln_2);
            return dx.over(b, divisor);
        }
        ScalarOp::Log1p => {
            let divisor = b.add(one, x);
            return dx.over(b, divisor);
        }
        ScalarOp::Sin => b.cos(x),
        ScalarOp::Cos => {
            let sine = b.sin(x);
            b.neg(sine)
        }
        ScalarOp::Tan => {
            let square = b.mul(y, y);
            b.add(one, square)
        }
        ScalarOp::Asin => {
            let divisor = one_minus_square(b, x);
            b.rsqrt(divisor)
        }
        ScalarOp::Acos => {
            let divisor = one_minus_square(b, x);
            let root = b.rsqrt(divisor);
            b.neg(root)
        }
        ScalarOp::Atan => {
            let square = b.mul(x, x);
            let divisor = b.add(one, square);
            return dx.over(b, divisor);
        }
        ScalarOp::Sinh => b.cosh(x),
        ScalarOp::Cosh => b.sinh(x),
        ScalarOp::Tanh => one_minus_square(b, y),
        ScalarOp::Asinh => {
            let square = b.mul(x, x);
            let sum = b.add(one, square);
            b.rsqrt(sum)
        }
        ScalarOp::Acosh => {
            let (below, above) = (b.sub(x, one), b.add(x, one));
            let product = b.mul(below, above);
            b.rsqrt(product)
        }
        ScalarOp::Atanh => {
            let divisor = one_minus_square(b, x);
            return dx.over(b, divisor);
        }
        ScalarOp::Erf => {
            let scale = b.literal(FRAC_2_SQRT_PI, x);
            let square = b.mul(x, x);
            let negative = b.neg(square);
            let bell = b.exp(negative);
            b.mul(scale, bell)
        }
        ScalarOp::Sigmoid => {
            // y * sigmoid(-x): 1 - y would lose all precision for large x.
            let negative = b.neg(x);
            let other = b.sigmoid(negative);
            b.mul(y, other)
        }
        // Steps, truth values, integers: constant almost everywhere.
        _ => return Slope::Zero,
    };
    dx.times(b, factor)
}

/// The slope of `z = op(x, y)`.
fn binary(
    b: &mut ExprBuilder,
    op: ScalarOp,
    (x, dx): (NodeId, Slope),
    (y, dy): (NodeId, Slope),
    z: NodeId,
) -> Slope {
    if let (Slope::Zero, Slope::Zero) = (dx, dy) {
        return Slope::Zero;
    }
    match op {
        ScalarOp::Add => dx.plus(b, dy, z),
        ScalarOp::Sub => {
            let minus_dy = dy.negated(b, z);
            dx.plus(b, minus_dy, z)
        }
        ScalarOp::Mul => {
            let (left, right) = (dx.times(b, y), dy.times(b, x));
            left.plus(b, right, z)
        }
        ScalarOp::Div => {
            // (dx - z dy) / y
            let right = dy.times(b, z).negated(b, z);
            dx.plus(b, right, z).over(b, y)
        }
        ScalarOp::Rem | ScalarOp::FloorMod => {
            // z = x - y * round(x / y), where the rounding is constant almost everywhere.
            let right = if matches!(dy, Slope::Zero) {
                Slope::Zero
            } else {
                let quotient = b.div(x, y);
                let whole = if op == ScalarOp::Rem {
                    b.trunc(quotient)
                } else {
                    b.floor(quotient)
                };
                dy.times(b, whole).negated(b, z)
            };
            dx.plus(b, right, z)
        }
        ScalarOp::Pow => {
            let (left, right) = (power_base(b, dx, x, y), power_exponent(b, dy, x, z));
            left.plus(b, right, z)
        }
        ScalarOp::Min => {
            let first = b.le(x, y);
            choose(b, first, dx, dy, z)
        }
        ScalarOp::Max => {
            let first = b.ge(x, y);
            choose(b, first, dx, dy, z)
        }
        ScalarOp::Atan2 => {
            // z is the angle of the point (y, x): (y dx - x dy) / (x^2 + y^2).
            let (left, right) = (dx.times(b, y), dy.times(b, x).negated(b, z));
            let (xx, yy) = (b.mul(x, x), b.mul(y, y));
            let divisor = b.add(xx, yy);
            left.plus(b, right, z).over(b, divisor)
        }
        // Truth values and integers.
        _ => Slope::Zero,
    }
}

fn select(
    b: &mut ExprBuilder,
    condition: NodeId,
    (x, dx): (NodeId, Slope),
    (_, dy): (NodeId, Slope),
) -> Slope {
    choose(b, condition, dx, dy, x)
}

fn choose(b: &mut ExprBuilder, condition: NodeId, dx: Slope, dy: Slope, like: NodeId) -> Slope {
    match (dx, dy) {
        (Slope::Zero, Slope::Zero) => Slope::Zero,
        (Slope::One, Slope::One) => Slope::One,
        _ => {
            let (left, right) = (dx.node(b, like), dy.node(b, like));
            Slope::Is(b.select(condition, left, right))
        }
    }
}

/// `dx * y * x^(y - 1)`, and 0 where `y` is 0, for any `x`.
fn power_base(b: &mut ExprBuilder, dx: Slope, x: NodeId, y: NodeId) -> Slope {
    if matches!(dx, Slope::Zero) {
        return Slope::Zero;
    }
    let (zero, one) = (b.literal(0.0, y), b.literal(1.0, y));
    let less = b.sub(y, one);
    let power = b.pow(x, less);
    let product = b.mul(y, power);
    let constant = b.eq(y, zero);
    let factor = b.select(constant, zero, product);
    dx.times(b, factor)
}

/// `dy * z * log(x)`, and 0 where `x` is 0.
fn power_exponent(b: &mut ExprBuilder, dy: Slope, x: NodeId, z: NodeId) -> Slope {
    if matches!(dy, Slope::Zero) {
        return Slope::Zero;
    }
    let zero = b.literal(0.0, x);
    let logarithm = b.log(x);
    let product = b.mul(z, logarithm);
    let flat = b.eq(x, zero);
    let factor = b.select(flat, zero, product);
    dy.times(b, factor)
}

/// `1 - x^2` as `(1 - x) (1 + x)`, which is accurate near 1.
fn one_minus_square(b: &mut ExprBuilder, x: NodeId) -> NodeId {
    let one = b.literal(1.0, x);
    let (below, above) = (b.sub(one, x), b.add(one, x));
    b.mul(below, above)
}

#[cfg(test)]
mod tests;
