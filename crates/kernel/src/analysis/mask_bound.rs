//! Masks by position: the positions at which a value is minus infinity whatever its operands are, such as scores under
//! a causal or sliding-window mask.
//!
//! Such an element has no weight in a softmax, so a backend need not compute it.

use kiln_scalar::{ScalarOp, ScalarValue};
use kiln_tensor::DType;

use super::{Dependence, expression_nodes};
use crate::form::{AxisId, Kernel, Node, NodeId, StageOperation};

/// A bound on the elements along an axis that are not minus infinity: a value is minus infinity where `left < right`, or
/// where `left <= right` if the comparison is not strict.
///
/// Both sides are `i64`. Each changes by at most [`MaskBound::MAX_STEP`] from an index of the axis to the next, `left - right`
/// by `step`, and neither reads a local, so they can be computed wherever the other axes are in scope.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MaskBound {
    /// The axis that the condition names. It has the extent of the requested axis.
    pub axis: AxisId,
    /// The left side of the comparison.
    pub left: NodeId,
    /// The right side of the comparison.
    pub right: NodeId,
    /// Whether equal sides leave the value unchanged.
    pub is_strict: bool,
    /// How much `left - right` changes along the axis: 1 or -1.
    pub step: i64,
}

/// The maximum number of values and conditions that are visited.
const FUEL: usize = 256;

/// A value or condition to be visited, with the index that is the axis there.
#[derive(Clone, Copy)]
enum Visit {
    /// A value: where it is minus infinity, the whole value is too.
    Value(NodeId, AxisId),
    /// A condition: where it has this value, the whole value is minus infinity.
    Condition(NodeId, AxisId, bool),
}

impl MaskBound {
    /// The largest change of a side along the axis, up or down.
    pub const MAX_STEP: i64 = 1 << 10;

    /// The bounds of a value along an axis. Each bound holds on its own: elements outside any of them are minus
    /// infinity.
    ///
    /// Selections are recognised, also through casts, positive factors, and maps over the axis. Sums are not: minus infinity
    /// plus another value may be NaN.
    pub fn all(kernel: &Kernel, dependence: &Dependence, value: NodeId, axis: AxisId) -> Vec<Self> {
        let mut bounds = Vec::new();
        let mut pending = vec![Visit::Value(value, axis)];
        for _ in 0..FUEL {
            match pending.pop() {
                None => break,
                Some(Visit::Value(node, axis)) => visit_value(kernel, (node, axis), &mut pending),
                Some(Visit::Condition(node, axis, holds)) => {
                    let bound = Self::of(kernel, dependence, (node, axis), holds);
                    bounds.extend(bound.filter(|bound| !bounds.contains(bound)));
                    visit_condition(kernel, (node, axis), holds, &mut pending);
                }
            }
        }
        bounds
    }

    /// The bound of a comparison that holds, or does not hold, where the value is minus infinity.
    fn of(
        kernel: &Kernel,
        dependence: &Dependence,
        (node, axis): (NodeId, AxisId),
        holds: bool,
    ) -> Option<Self> {
        let Node::Apply { op, operands } = kernel.node(node) else {
            return None;
        };
        let &[a, b] = operands.as_slice() else {
            return None;
        };
        // `!(a < b)` is `b <= a`.
        let (left, right, is_strict) = match (op, holds) {
            (ScalarOp::Lt, true) | (ScalarOp::Ge, false) => (a, b, true),
            (ScalarOp::Le, true) | (ScalarOp::Gt, false) => (a, b, false),
            (ScalarOp::Gt, true) | (ScalarOp::Le, false) => (b, a, true),
            (ScalarOp::Ge, true) | (ScalarOp::Lt, false) => (b, a, false),
            _ => return None,
        };
        let is_integer = [left, right]
            .iter()
            .all(|&side| kernel.dtype(side) == DType::I64);
        let step = |side| {
            let step = dependence.step_along(kernel, side, axis)?;
            (-Self::MAX_STEP..=Self::MAX_STEP)
                .contains(&step)
                .then_some(step)
        };
        let step = step(left)? - step(right)?;
        let nodes = expression_nodes(kernel, &[left, right]);
        let reads_local = nodes.iter().any(|&node| is_local(kernel.node(node)));
        let is_bound = is_integer && step.abs() == 1 && !reads_local;
        is_bound.then_some(Self {
            axis,
            left,
            right,
            is_strict,
            step,
        })
    }
}

fn is_local(node: &Node) -> bool {
    matches!(
        node,
        Node::Local { .. } | Node::Previous { .. } | Node::Last { .. }
    )
}

/// The value of a map over one axis where it is read at an index that is an axis of the same extent: its node and its axis.
fn through_map(kernel: &Kernel, (node, axis): (NodeId, AxisId)) -> Option<(NodeId, AxisId)> {
    let Node::Local { stage, indices } = kernel.node(node) else {
        return None;
    };
    let stage = kernel.stage(*stage);
    match (&stage.operation, stage.axes.as_slice(), indices.as_slice()) {
        (StageOperation::Map, &[own], &[index])
            if *kernel.node(index) == Node::Axis(axis)
                && kernel.axis(own).extent.bound() == kernel.axis(axis).extent.bound() =>
        {
            Some((stage.value, own))
        }
        _ => None,
    }
}

fn visit_value(kernel: &Kernel, (node, axis): (NodeId, AxisId), pending: &mut Vec<Visit>) {
    if let Some((value, own)) = through_map(kernel, (node, axis)) {
        pending.push(Visit::Value(value, own));
        return;
    }
    let Node::Apply { op, operands } = kernel.node(node) else {
        return;
    };
    match (op, operands.as_slice()) {
        (ScalarOp::Select, &[condition, then, otherwise]) => {
            if is_minus_infinity(kernel, then) {
                pending.push(Visit::Value(otherwise, axis));
                pending.push(Visit::Condition(condition, axis, true));
            } else if is_minus_infinity(kernel, otherwise) {
                pending.push(Visit::Value(then, axis));
                pending.push(Visit::Condition(condition, axis, false));
            }
        }
        (ScalarOp::Cast(to), &[inner]) if to.is_float() && kernel.dtype(inner).is_float() => {
            pending.push(Visit::Value(inner, axis));
        }
        (ScalarOp::Mul, &[a, b]) if is_positive(kernel, b) => pending.push(Visit::Value(a, axis)),
        (ScalarOp::Mul, &[a, b]) if is_positive(kernel, a) => pending.push(Visit::Value(b, axis)),
        (ScalarOp::Div, &[a, b]) if is_positive(kernel, b) => pending.push(Visit::Value(a, axis)),
        _ => {}
    }
}

fn visit_condition(
    kernel: &Kernel,
    (node, axis): (NodeId, AxisId),
    holds: bool,
    pending: &mut Vec<Visit>,
) {
    if let Some((value, own)) = through_map(kernel, (node, axis)) {
        pending.push(Visit::Condition(value, own, holds));
        return;
    }
    let Node::Apply { op, operands } = kernel.node(node) else {
        return;
    };
    match (op, operands.as_slice(), holds) {
        (ScalarOp::Not, &[inner], _) => pending.push(Visit::Condition(inner, axis, !holds)),
        (ScalarOp::Or, &[a, b], true) | (ScalarOp::And, &[a, b], false) => {
            pending.push(Visit::Condition(b, axis, holds));
            pending.push(Visit::Condition(a, axis, holds));
        }
        _ => {}
    }
}

/// The value of a float literal.
fn float_literal(kernel: &Kernel, node: NodeId) -> Option<f64> {
    match kernel.node(node) {
        Node::Literal(
            value @ (ScalarValue::F64(_)
            | ScalarValue::F32(_)
            | ScalarValue::F16(_)
            | ScalarValue::BF16(_)),
        ) => Some(value.to_f64()),
        _ => None,
    }
}

/// Whether a value is the literal, perhaps cast.
fn is_minus_infinity(kernel: &Kernel, mut node: NodeId) -> bool {
    while let Node::Apply {
        op: ScalarOp::Cast(to),
        operands,
    } = kernel.node(node)
        && let &[inner] = operands.as_slice()
        && to.is_float()
    {
        node = inner;
    }
    float_literal(kernel, node) == Some(f64::NEG_INFINITY)
}

/// Whether a value is a finite literal above zero.
fn is_positive(kernel: &Kernel, node: NodeId) -> bool {
    float_literal(kernel, node).is_some_and(|value| value > 0.0 && value.is_finite())
}

#[cfg(test)]
mod tests {
    use super::super::testing::{axis, kernel, stage_value};
    use super::*;

    /// The step and strictness of each bound of a score along its keys `j`, in the order of the text of their left sides.
    fn bounds(score: &str) -> Vec<(i64, bool)> {
        let kernel = kernel(&format!(
            "kernel @k(%x: in f32[M, N], %p: in i64[M], %n: in i64[N], %y: out f32[M]) {{
               outer i < M
               h[j < N] = {score}
               t = reduce max[k < N] h[k] * 0.5
               store %y[i] = t
             }}"
        ));
        let dependence = Dependence::of(&kernel);
        let value = stage_value(&kernel, "t");
        let found = MaskBound::all(&kernel, &dependence, value, axis(&kernel, "k"));
        let own = axis(&kernel, "j");
        assert!(
            found.iter().all(|bound| bound.axis == own),
            "through the map"
        );
        let of = |bound: &MaskBound| (bound.step, bound.is_strict);
        found.iter().map(of).collect()
    }

    #[test]
    fn causal_masks_have_a_bound() {
        // Hidden where the query's position is less than the key's.
        assert_eq!(bounds("select(j <= i, %x[i, j], -inf)"), [(-1, true)]);
        assert_eq!(bounds("select(%p[i] < j, -inf, %x[i, j])"), [(-1, true)]);
        assert_eq!(
            bounds("select(i + %p[i] - j >= 0, %x[i, j], -inf)"),
            [(-1, true)]
        );
        assert_eq!(
            bounds("select(not j < %p[i], -inf, %x[i, j])"),
            [(-1, false)]
        );
    }

    #[test]
    fn windows_have_a_bound_on_each_side() {
        let window = "select(i - j >= 0 and i - j < 16, %x[i, j], -inf)";
        assert_eq!(bounds(window), [(-1, true), (1, false)]);
        let nested = "select(i < j, -inf, select(i - 16 >= j, -inf, %x[i, j]))";
        assert_eq!(bounds(nested), [(-1, true), (1, false)]);
        assert_eq!(
            bounds("select(j > i or j < i - 16, -inf, %x[i, j])"),
            [(-1, true), (1, true)]
        );
    }

    #[test]
    fn other_values_have_no_bound() {
        for score in [
            "select(j <= i, %x[i, j], -1e30)",
            "%x[i, j] + select(j <= i, 0.0, -inf)",
            "select(j <= i, -inf, -inf) * -1.0",
            "select(j <= i or j < %p[i], %x[i, j], -inf)",
            "select(%n[j] <= i, %x[i, j], -inf)",
            "select(2 * j <= i, %x[i, j], -inf)",
            "select(j == i, -inf, %x[i, j])",
            "select(%x[i, j] < 0.0, -inf, %x[i, j])",
        ] {
            assert_eq!(bounds(score), [], "{score}");
        }
    }
}
