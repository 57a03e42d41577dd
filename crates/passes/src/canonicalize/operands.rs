//! Operands of element-wise functions: their order, and removal of leading unit axes from constants.

use crate::peephole::{Rewrite, Site};
use kiln_ir::{Dims, Op, ValueId};
use smallvec::SmallVec;

/// Constants last; otherwise the value defined first comes first.
pub(super) fn order_operands(site: &mut Site<'_>) -> Option<Rewrite> {
    let (Op::Map { function, .. }, &[left, right]) = (site.op(), site.operands()) else {
        return None;
    };
    if !function.is_commutative() {
        return None;
    }
    let rank = |value| (site.constant(value).is_some(), value);
    (rank(left) > rank(right)).then(|| Rewrite::op(site.op().clone(), [right, left]))
}

/// A constant without leading axes of size 1, which broadcasting adds anyway.
pub(super) fn trim_constant(site: &mut Site<'_>) -> Option<Rewrite> {
    let operands = site.operands();
    if !matches!(site.op(), Op::Map { .. }) || operands.len() < 2 {
        return None;
    }
    let all: Vec<Dims> = operands
        .iter()
        .map(|&value| site.dims_of(value))
        .collect::<Option<_>>()?;
    operands.iter().enumerate().find_map(|(index, &operand)| {
        let tensor = site.constant(operand)?.tensor();
        let idle = tensor.shape().iter().take_while(|&&size| size == 1).count();
        let mut tried = all.clone();
        tried.get_mut(index)?.drain(..idle);
        if idle == 0 || !site.dims_broadcast_to_result(&tried) {
            return None;
        }
        let trimmed = site.emit_constant(tensor.reshape(tensor.shape().get(idle..)?).ok()?)?;
        let mut operands: SmallVec<[ValueId; 4]> = operands.into();
        operands[index] = trimmed;
        Some(Rewrite::op(site.op().clone(), operands))
    })
}
