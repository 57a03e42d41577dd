//! Floats that are clamped to the range of an integer, as quantisation does before it converts them.

use kiln_scalar::ScalarOp;
use kiln_tensor::DType;

use crate::form::{Kernel, Node, NodeId};

/// Whether a float is not NaN and in the range of an integer dtype of at most 16 bits, because it is `select(x > low,
/// min(x, high), low)` with two constants in that range; false if this form is not recognised.
pub fn is_clamped_to(kernel: &Kernel, node: NodeId, dtype: DType) -> bool {
    let bits = dtype.bits();
    if !dtype.is_integer() || bits > 16 {
        return false;
    }
    let span = f64::from(1_u32 << bits);
    let (least, greatest) = match dtype.is_signed() {
        true => (-span / 2.0, span / 2.0 - 1.0),
        false => (0.0, span - 1.0),
    };
    let is_in_range = |node: NodeId| match kernel.node(node) {
        Node::Literal(value) => (least..=greatest).contains(&value.to_f64()),
        _ => false,
    };
    let operands = |node: NodeId, expected: ScalarOp| match kernel.node(node) {
        Node::Apply { op, operands } if *op == expected => Some(operands.as_slice()),
        _ => None,
    };
    let Some(&[is_above, capped, low]) = operands(node, ScalarOp::Select) else {
        return false;
    };
    let (Some(&[x, limit]), Some(&[same, high])) = (
        operands(is_above, ScalarOp::Gt),
        operands(capped, ScalarOp::Min),
    ) else {
        return false;
    };
    x == same && limit == low && is_in_range(low) && is_in_range(high)
}

#[cfg(test)]
mod tests {
    use super::super::testing::{kernel, stored};
    use super::*;

    fn is_seen(clamped: &str, dtype: DType) -> bool {
        let kernel = kernel(&format!(
            "kernel @k(%x: in f32[N], %y: out f32[N]) {{
               outer i < N
               store %y[i] = {clamped}
             }}"
        ));
        is_clamped_to(&kernel, stored(&kernel), dtype)
    }

    #[test]
    fn a_clamp_to_the_range_of_the_integer_is_recognized() {
        let bytes = "select(%x[i] > 0.0, min(%x[i], 255.0), 0.0)";
        let signed = "select(%x[i] > -128.0, min(%x[i], 127.0), -128.0)";
        assert!(is_seen(bytes, DType::U8) && is_seen(bytes, DType::I16));
        assert!(is_seen(signed, DType::I8) && !is_seen(signed, DType::U8));
    }

    #[test]
    fn other_clamps_are_not_recognized() {
        for clamped in [
            "%x[i]",
            "select(%x[i] > 0.0, min(%x[i], 256.0), 0.0)",
            "select(%x[i] > 1.0, min(%x[i], 255.0), 0.0)",
            "select(%x[i] < 0.0, min(%x[i], 255.0), 0.0)",
            "select(%x[i] > 0.0, min(%x[i] + 1.0, 255.0), 0.0)",
            "select(%x[i] > 0.0, min(%x[i], %x[0]), 0.0)",
            "min(max(%x[i], 0.0), 255.0)",
        ] {
            assert!(!is_seen(clamped, DType::U8), "{clamped}");
        }
        // An i32 has more digits than an f32.
        assert!(!is_seen(
            "select(%x[i] > 0.0, min(%x[i], 255.0), 0.0)",
            DType::I32
        ));
    }
}
