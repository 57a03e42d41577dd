//! The value of an expression: for one element, or for many in blocks.
//!
//! Both apply the same definitions of the primitives (`primitive`). For one element the nodes are evaluated one by one; for
//! many they are first compiled to a list of steps over a few buffers.

mod compile;
mod run;

use kiln_tensor::DType;
use serde::{Deserialize, Serialize};
use smallvec::SmallVec;

use crate::expr::{Expr, ExprNode, literal};
use crate::primitive::apply;
use crate::{ScalarError, ScalarOp, ScalarValue};

pub use compile::BlockEvaluator;

/// The type in which floats are computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Mode {
    /// Every operation rounds its result to the declared dtype.
    Declared,
    /// Every float is an f64, whatever its declared dtype: conversions between floats do nothing,
    /// and no result is rounded further. Integers and truth values are as declared.
    Promoted,
}

impl Mode {
    /// The storage type of elements of a declared dtype.
    pub fn stored(self, declared: DType) -> DType {
        match self {
            Mode::Promoted if declared.is_float() => DType::F64,
            _ => declared,
        }
    }

    /// The operation on stored values that implements one on declared values.
    fn stored_op(self, op: ScalarOp) -> ScalarOp {
        match op {
            ScalarOp::Cast(to) => ScalarOp::Cast(self.stored(to)),
            other => other,
        }
    }

    fn stored_value(self, value: ScalarValue) -> ScalarValue {
        match self {
            Mode::Promoted if value.dtype().is_float() => ScalarValue::F64(value.to_f64()),
            _ => value,
        }
    }
}

/// The value of an expression for one element.
///
/// The dtypes of the inputs are those of the values. In [`Mode::Promoted`], floats of any dtype are read as f64 of the
/// same value, and a float result is an f64.
pub fn evaluate(
    expr: &Expr,
    inputs: &[ScalarValue],
    mode: Mode,
) -> Result<ScalarValue, ScalarError> {
    let inputs: Vec<ScalarValue> = inputs
        .iter()
        .map(|&input| mode.stored_value(input))
        .collect();
    let dtypes: Vec<DType> = inputs.iter().map(|input| input.dtype()).collect();
    let types = stored_types(expr, &dtypes, mode)?;
    let needed = expr.needed();
    let mut values: Vec<ScalarValue> = Vec::with_capacity(types.len());
    for ((node, &dtype), needed) in expr.nodes().iter().zip(&types).zip(needed) {
        let mut value = ScalarValue::zero(dtype);
        match node {
            _ if !needed => {}
            ExprNode::Input(input) => value = inputs.get(*input).copied().unwrap_or(value),
            ExprNode::Constant(constant) => value = mode.stored_value(*constant),
            ExprNode::Literal { number, .. } => value = literal(*number, dtype)?,
            ExprNode::Apply { op, operands } => {
                let operands: SmallVec<[_; 3]> = operands
                    .iter()
                    .filter_map(|id| values.get(id.index()))
                    .map(ScalarValue::as_block)
                    .collect();
                apply(mode.stored_op(*op), &operands, value.as_block_mut())?;
            }
        }
        values.push(value);
    }
    let result = values.get(expr.result().index()).copied();
    Ok(result.unwrap_or_else(|| unreachable!("an expression's result is one of its nodes")))
}

/// The maximum number of operands of a scalar operation.
const MOST_OPERANDS: usize = 3;

/// The value of one operation.
///
/// In [`Mode::Promoted`], floats of any dtype are read as f64 of the same value, and a float result is an f64.
///
/// # Errors
/// Operands that the operation does not accept; a fault.
pub fn evaluate_op(
    op: ScalarOp,
    operands: &[ScalarValue],
    mode: Mode,
) -> Result<ScalarValue, ScalarError> {
    // No vectors: kernels are evaluated element by element here.
    let mut stored = [ScalarValue::Bool(false); MOST_OPERANDS];
    let mut dtypes = [DType::Bool; MOST_OPERANDS];
    for ((&operand, stored), dtype) in operands.iter().zip(&mut stored).zip(&mut dtypes) {
        *stored = mode.stored_value(operand);
        *dtype = stored.dtype();
    }
    let op = mode.stored_op(op);
    let typed = dtypes
        .get(..operands.len())
        .and_then(|dtypes| op.signature().result_type(dtypes));
    let Some(dtype) = typed else {
        return Err(ScalarError::OperandTypes {
            name: op.name(),
            expected: op.signature().expectation(),
            found: operands
                .iter()
                .map(|&operand| mode.stored_value(operand).dtype())
                .collect(),
        });
    };
    let mut value = ScalarValue::zero(dtype);
    let out = value.as_block_mut();
    let [a, b, c] = &stored;
    match operands.len() {
        1 => apply(op, &[a.as_block()], out)?,
        2 => apply(op, &[a.as_block(), b.as_block()], out)?,
        _ => apply(op, &[a.as_block(), b.as_block(), c.as_block()], out)?,
    }
    Ok(value)
}

/// The storage dtype of each node's values, for inputs of these dtypes, declared or stored.
fn stored_types(expr: &Expr, inputs: &[DType], mode: Mode) -> Result<Vec<DType>, ScalarError> {
    expr.node_types_with(inputs, |dtype| mode.stored(dtype))
}

#[cfg(test)]
mod tests;
