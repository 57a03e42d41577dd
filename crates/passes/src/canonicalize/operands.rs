//! The order of operands of commutative functions.

use crate::peephole::{Rewrite, Site};
use kiln_ir::Op;

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
