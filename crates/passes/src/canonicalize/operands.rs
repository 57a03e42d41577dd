//! Operands of element-wise functions: their order, and constants without idle axes.

use crate::peephole::{Rewrite, Site};
use kiln_ir::{Op, ValueId};
use smallvec::SmallVec;

/// Functions of two operands whose order makes no difference to any bit of a result that is no NaN.
const COMMUTATIVE: &[&str] = &[
    "add", "mul", "min", "max", "eq", "ne", "and", "or", "xor", "bit_and", "bit_or", "bit_xor",
];

/// Constants last, otherwise the value defined first comes first.
pub(super) fn order_operands(site: &mut Site<'_>) -> Option<Rewrite> {
    let (Op::Map { function, .. }, &[left, right]) = (site.op(), site.operands()) else {
        return None;
    };
    if !COMMUTATIVE.contains(&function.name()) {
        return None;
    }
    let rank = |value| (site.constant(value).is_some(), value);
    (rank(left) > rank(right)).then(|| Rewrite::op(site.op().clone(), [right, left]))
}

/// A constant without the axes of size 1 in front, which broadcasting puts there anyway.
pub(super) fn trim_constant(site: &mut Site<'_>) -> Option<Rewrite> {
    let operands = site.operands();
    if !matches!(site.op(), Op::Map { .. }) || operands.len() < 2 {
        return None;
    }
    operands.iter().enumerate().find_map(|(index, &operand)| {
        let tensor = site.constant(operand)?.tensor().clone();
        let shape: Vec<usize> = tensor
            .shape()
            .iter()
            .copied()
            .skip_while(|&size| size == 1)
            .collect();
        if shape.len() == tensor.rank() {
            return None;
        }
        let trimmed = site.emit_constant(tensor.reshape(&shape).ok()?)?;
        let mut tried: SmallVec<[ValueId; 4]> = operands.into();
        tried[index] = trimmed;
        site.broadcasts_to_result(&tried)
            .then(|| Rewrite::op(site.op().clone(), tried))
    })
}
