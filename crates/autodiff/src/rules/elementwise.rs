//! Scalar functions, using the derivatives defined in `kiln_scalar`, and casts.

use super::{Cotangents, GradientContext};
use crate::Result;
use crate::edges::slope;
use crate::emit::{stopped, sum_to, times};
use kiln_ir::ValueId;
use kiln_scalar::{Expr, ExprNode, Function, NodeId, ScalarOp};
use kiln_shape_inference::GraphBuilder;

impl GradientContext<'_, '_> {
    /// Each operand's cotangent times its derivative, summed over the axes along which the operand was broadcast.
    pub(super) fn map(&mut self, function: Function, parameters: &[f64]) -> Result<Cotangents> {
        let upstream = self.cotangent(0)?;
        let guard = self.is_masked();
        let mut cotangents = vec![None; self.operands().len()];
        for (index, cotangent) in cotangents.iter_mut().enumerate() {
            if !self.is_wanted(index) {
                continue;
            }
            let Some(expr) = slope(function, parameters, index) else {
                continue;
            };
            let mut inputs = self.operands().to_vec();
            inputs.push(upstream);
            let product = Emission::new(self.builder, &expr, &inputs).product(guard)?;
            let dims = self.dims(self.operand(index))?;
            *cotangent = Some(sum_to(self.builder, product, &dims)?);
        }
        Ok(cotangents)
    }

    pub(super) fn cast(&mut self) -> Result<Cotangents> {
        let upstream = self.cotangent(0)?;
        let from = self.builder.dtype(self.operand(0))?;
        Ok(vec![Some(self.builder.cast(upstream, from)?)])
    }
}

/// A scalar expression being emitted as graph ops, step by step.
struct Emission<'a> {
    b: &'a mut GraphBuilder,
    expr: &'a Expr,
    inputs: &'a [ValueId],
    values: Vec<Option<ValueId>>,
}

impl<'a> Emission<'a> {
    fn new(b: &'a mut GraphBuilder, expr: &'a Expr, inputs: &'a [ValueId]) -> Self {
        let values = vec![None; expr.nodes().len()];
        Self {
            b,
            expr,
            inputs,
            values,
        }
    }

    /// The value of a derivative, which is its last input times a slope; `guard` keeps a zero of that input zero where the slope
    /// may be infinite.
    fn product(mut self, guard: bool) -> Result<ValueId> {
        let expr = self.expr;
        let result = expr.result();
        let upstream = self.inputs.len() - 1;
        let node = &expr.nodes()[result.index()];
        let ExprNode::Apply {
            op: ScalarOp::Mul,
            operands,
        } = node
        else {
            return self.value(result);
        };
        let is_upstream = |node: NodeId| matches!(expr.nodes()[node.index()], ExprNode::Input(input) if input == upstream);
        let (&[left, right], true) = (operands.as_slice(), operands.len() == 2) else {
            return self.value(result);
        };
        let slope = match (is_upstream(left), is_upstream(right)) {
            (true, _) => right,
            (_, true) => left,
            _ => return self.value(result),
        };
        let upstream = self.inputs[upstream];
        match expr.nodes()[slope.index()] {
            ExprNode::Literal { number: 1.0, .. } => return Ok(upstream),
            ExprNode::Literal { number: -1.0, .. } => {
                return Ok(self.b.neg(upstream)?);
            }
            _ => {}
        }
        let is_bounded = is_bounded(expr, slope);
        let slope = self.value(slope)?;
        Ok(times(self.b, upstream, slope, guard && !is_bounded)?)
    }

    /// The value of a node: the nodes it needs are emitted first, in the order of the expression.
    fn value(&mut self, node: NodeId) -> Result<ValueId> {
        let expr = self.expr;
        let mut needed = vec![false; node.index() + 1];
        needed[node.index()] = true;
        for position in (0..=node.index()).rev() {
            if !needed[position] {
                continue;
            }
            match &expr.nodes()[position] {
                ExprNode::Literal { like, .. } => needed[like.index()] = true,
                ExprNode::Apply { operands, .. } => {
                    for operand in operands {
                        needed[operand.index()] = true;
                    }
                }
                _ => {}
            }
        }
        for position in (0..=node.index()).filter(|&position| needed[position]) {
            if self.values[position].is_none() {
                self.values[position] = Some(self.emit(&expr.nodes()[position])?);
            }
        }
        Ok(self.emitted(node))
    }

    fn emit(&mut self, node: &ExprNode) -> Result<ValueId> {
        Ok(match node {
            ExprNode::Input(input) => self.inputs[*input],
            ExprNode::Constant(value) => self.b.scalar_nearest(value.dtype(), value.to_f64())?,
            ExprNode::Literal { number, like } => {
                let dtype = self.b.dtype(self.emitted(*like))?;
                self.b.scalar_nearest(dtype, *number)?
            }
            ExprNode::Apply { op, operands } => {
                let mut operands: Vec<ValueId> =
                    operands.iter().map(|&node| self.emitted(node)).collect();
                if is_step(*op) {
                    for operand in &mut operands {
                        *operand = stopped(self.b, *operand)?;
                    }
                }
                match op {
                    ScalarOp::Cast(to) => self.b.cast(operands[0], *to)?,
                    op => self.b.map(op.name(), &operands)?,
                }
            }
            other => unreachable!("{other:?} is no step of a derivative"),
        })
    }

    fn emitted(&self, node: NodeId) -> ValueId {
        match self.values[node.index()] {
            Some(value) => value,
            None => unreachable!("steps are emitted in order"),
        }
    }
}

/// Whether an operation is constant almost everywhere, so that its own derivative is zero.
fn is_step(op: ScalarOp) -> bool {
    let Some(function) = Function::by_name(op.name()) else {
        return false;
    };
    (0..op.arity()).all(|operand| slope(function, &[], operand).is_none())
}

/// Whether a slope is finite for all operands other than NaN: it consists only of bounded functions.
fn is_bounded(expr: &Expr, slope: NodeId) -> bool {
    match &expr.nodes()[slope.index()] {
        ExprNode::Literal { .. } | ExprNode::Constant(_) => true,
        ExprNode::Apply { op, operands } => match op {
            ScalarOp::Sign
            | ScalarOp::Sin
            | ScalarOp::Cos
            | ScalarOp::Tanh
            | ScalarOp::Erf
            | ScalarOp::Sigmoid => true,
            // A choice between constants, as in the derivative of relu.
            ScalarOp::Select => operands
                .iter()
                .skip(1)
                .all(|&operand| matches!(expr.nodes()[operand.index()], ExprNode::Literal { .. })),
            _ => false,
        },
        _ => false,
    }
}
