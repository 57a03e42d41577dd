//! Activations that models spell out as several ops, if the named function is cheaper.

use super::identities::map;
use crate::peephole::{Rewrite, Site};
use kiln_ir::Op;
use kiln_tensor::DType;

/// `x * tanh(softplus(x))` is `mish(x)`. This does not apply to 16-bit floats, for which each step rounds.
pub(super) fn join_mish(site: &mut Site<'_>) -> Option<Rewrite> {
    let (Op::Map { function, .. }, &[a, b]) = (site.op(), site.operands()) else {
        return None;
    };
    if function.name() != "mul" || !matches!(site.ty().dtype, DType::F32 | DType::F64) {
        return None;
    }
    let is_gate = |gate, x| {
        let Some(("tanh", &[curve])) = site.map_behind(gate) else {
            return false;
        };
        matches!(site.map_behind(curve), Some(("softplus", &[operand])) if operand == x)
    };
    if is_gate(a, b) {
        map("mish", [b])
    } else if is_gate(b, a) {
        map("mish", [a])
    } else {
        None
    }
}
