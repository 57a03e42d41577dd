//! Recognises differences that are never positive: an element minus the maximum of a set that contains it.
//!
//! The argument of every exponential in a softmax is such a difference. Half of the work of `exp` is for positive
//! arguments.

use kiln_scalar::ScalarOp;
use kiln_tensor::DType;

use super::Dependence;
use crate::form::{AxisId, Kernel, Node, NodeId, Reduction, StageOperation};

/// Whether a float is an element minus the maximum over an axis, so at most 0, or NaN; false if this form is not
/// recognised.
///
/// Only elements read from memory count: a recomputed one could be rounded differently from the one in the comparison.
pub fn is_never_positive(kernel: &Kernel, dependence: &Dependence, node: NodeId) -> bool {
    let Node::Apply {
        op: ScalarOp::Sub,
        operands,
    } = kernel.node(node)
    else {
        return false;
    };
    let &[element, largest] = operands.as_slice() else {
        return false;
    };
    let Node::Local { stage, .. } = *kernel.node(largest) else {
        return false;
    };
    let stage = kernel.stage(stage);
    let StageOperation::Reduce {
        reduction: Reduction::Max,
        axes,
        accumulator: DType::F32 | DType::F64,
    } = &stage.operation
    else {
        return false;
    };
    let is_whole = kernel.dtype(node) == kernel.dtype(stage.value);
    stage.axes.is_empty() && is_whole && is_one_of((kernel, dependence), element, stage.value, axes)
}

/// Whether `element` is read from the same place as `any`, at some index of the axes that it runs along.
fn is_one_of(
    (kernel, dependence): (&Kernel, &Dependence),
    element: NodeId,
    any: NodeId,
    axes: &[AxisId],
) -> bool {
    let (of_element, of_any) = match (kernel.node(element), kernel.node(any)) {
        (Node::Load(left), Node::Load(right)) => {
            let is_plain = left.buffer == right.buffer
                && left.guard.is_none()
                && right.guard.is_none()
                && !kernel.buffer(left.buffer).role.is_written();
            if !is_plain {
                return false;
            }
            (&left.indices, &right.indices)
        }
        (
            Node::Local { stage, indices },
            Node::Local {
                stage: other,
                indices: of_any,
            },
        ) if stage == other && !indices.is_empty() => (indices, of_any),
        _ => return false,
    };
    let runs = |index: NodeId| axes.iter().any(|&axis| dependence.depends(index, axis));
    let is_within = |(&index, &other): (&NodeId, &NodeId)| {
        if !runs(other) {
            return index == other;
        }
        match (kernel.node(index), kernel.node(other)) {
            (&Node::Axis(axis), &Node::Axis(reduced)) => {
                kernel.axis(axis).extent == kernel.axis(reduced).extent
            }
            _ => false,
        }
    };
    of_element.len() == of_any.len() && of_element.iter().zip(of_any).all(is_within)
}

#[cfg(test)]
mod tests {
    use super::super::testing::{kernel, stored};
    use super::*;

    fn is_seen(largest: &str, difference: &str) -> bool {
        let kernel = kernel(&format!(
            "kernel @k(%x: in f32[M, N], %y: out f32[M, N]) {{
               outer m < M
               t = reduce {largest}
               store %y[m, j < N] = {difference}
             }}"
        ));
        is_never_positive(&kernel, &Dependence::of(&kernel), stored(&kernel))
    }

    #[test]
    fn softmax_shift_by_the_row_maximum_is_recognized() {
        assert!(is_seen("max[r < N] %x[m, r]", "%x[m, j] - t"));
    }

    #[test]
    fn other_row_shifts_are_not_recognized() {
        for (largest, difference) in [
            ("min[r < N] %x[m, r]", "%x[m, j] - t"),
            ("max[r < N] %x[M - 1 - m, r]", "%x[m, j] - t"),
            ("max[r < N] %x[m, r]", "t - %x[m, j]"),
            ("max[r < N] %x[m, r] * 0.5", "%x[m, j] - t"),
            ("max[r < N] %x[m, r]", "%x[m, j] * 2.0 - t"),
        ] {
            assert!(!is_seen(largest, difference), "{largest}, {difference}");
        }
    }
}
