//! Recognises contractions: sums of products of two factors.

use kiln_scalar::ScalarOp;

use super::dependence::{Dependence, reduced};
use super::{AxisRole, Contraction, Roles};
use crate::form::{AxisId, Kernel, Node, NodeId, Reduction, Stage, StageId, StageOperation};

/// Every stage that sums products, in order: both factors depend on a summed axis, and one of them on an axis that the
/// other does not.
pub(super) fn find(kernel: &Kernel, dependence: &Dependence) -> Vec<Contraction> {
    let stages = kernel.stages().iter();
    stages
        .filter_map(|(id, stage)| of_stage(kernel, dependence, id, stage))
        .collect()
}

fn of_stage(
    kernel: &Kernel,
    dependence: &Dependence,
    id: StageId,
    stage: &Stage,
) -> Option<Contraction> {
    let StageOperation::Reduce {
        reduction: Reduction::Add,
        ..
    } = stage.operation
    else {
        return None;
    };
    let depth = reduced(stage);
    let is_summed = |node: NodeId| {
        let axes = dependence.axes(kernel, node);
        depth.iter().any(|axis| axes.contains(axis))
    };
    let mut node = stage.value;
    let (left, right) = loop {
        let Node::Apply { op, operands } = kernel.node(node) else {
            return None;
        };
        node = match (op, operands.as_slice()) {
            (ScalarOp::Cast(_) | ScalarOp::Neg, &[inner]) => inner,
            (ScalarOp::Div, &[inner, by]) if !is_summed(by) => inner,
            (ScalarOp::Mul, &[a, b]) => match (is_summed(a), is_summed(b)) {
                (true, true) => break (a, b),
                (true, false) => a,
                (false, true) => b,
                (false, false) => return None,
            },
            _ => return None,
        };
    };
    let (of_left, of_right) = (
        dependence.axes(kernel, left),
        dependence.axes(kernel, right),
    );
    let mut apart = of_left.symmetric_difference(&of_right);
    apart
        .any(|axis| !depth.contains(axis))
        .then_some(Contraction {
            stage: id,
            left,
            right,
        })
}

/// Assigns the axes of a contraction their roles.
pub(super) fn roles(
    kernel: &Kernel,
    dependence: &Dependence,
    contraction: &Contraction,
    roles: &mut Roles,
) {
    let stage = kernel.stage(contraction.stage);
    let left = dependence.axes(kernel, contraction.left);
    let right = dependence.axes(kernel, contraction.right);
    roles.give(reduced(stage).iter().copied(), AxisRole::Depth);
    for &axis in left.union(&right) {
        let role = match (left.contains(&axis), right.contains(&axis)) {
            (true, true) => AxisRole::Batch,
            (true, false) => AxisRole::Rows,
            _ => AxisRole::Columns,
        };
        roles.give([axis], role);
    }
}

/// The reason, as printed.
pub(super) fn why(kernel: &Kernel, dependence: &Dependence, contraction: &Contraction) -> String {
    let stage = kernel.stage(contraction.stage);
    let mut roles_of = Roles::default();
    roles(kernel, dependence, contraction, &mut roles_of);
    let names = |role: AxisRole| -> String {
        let with_role = |axis: &AxisId| roles_of.0[*axis] == role;
        let axes = kernel.axes().keys().filter(with_role);
        let names: Vec<&str> = axes.map(|axis| kernel.axis(axis).name.as_str()).collect();
        match names.is_empty() {
            true => "none".to_string(),
            false => names.join(", "),
        }
    };
    format!(
        "{} sums products over {}: rows {}, columns {}, in both {}",
        stage.name,
        names(AxisRole::Depth),
        names(AxisRole::Rows),
        names(AxisRole::Columns),
        names(AxisRole::Batch)
    )
}
