//! Recognises a kernel that is one product: its factors, and the axes of its rows, columns, batches and depth.

use kiln_kernel::analysis::{Dependence, must_run_in_order};
use kiln_kernel::{
    AxisId, Extent, Item, Node, NodeId, Reduction, StageId, StageOperation, VerifiedKernel,
};
use kiln_scalar::ScalarOp;

use crate::generate::tile::{Operand, steps_by_one, unit_of};
use crate::generate::unit::Unit;

/// The parts of a product.
#[derive(Clone, Debug)]
pub(in crate::generate) struct Product {
    pub(super) stage: StageId,
    pub(in crate::generate) unit: Unit,
    pub(super) left: Operand,
    pub(super) right: Operand,
    pub(super) batch: Vec<AxisId>,
    pub(super) depth: Vec<AxisId>,
    /// Whether results are consecutive along rows, rather than columns.
    pub(super) rows_fastest: bool,
    /// The number of consecutive results of a thread.
    pub(super) lanes: u32,
}

impl Product {
    /// The product that a kernel computes, if it is one.
    pub(in crate::generate) fn of(
        kernel: &VerifiedKernel,
        dependence: &Dependence,
    ) -> Option<Self> {
        let (stage, depth, [left, right]) = summed(kernel)?;
        let (unit, left, right) = unit_of(kernel, kernel.stage_dtype(stage), left, right)?;
        let (mut rows, mut columns, mut batch) = (Vec::new(), Vec::new(), Vec::new());
        for &axis in kernel.outer() {
            let depends = |node| dependence.depends(node, axis);
            match (depends(left), depends(right)) {
                (true, false) => rows.push(axis),
                (false, true) => columns.push(axis),
                _ => batch.push(axis),
            }
        }
        if rows.is_empty() || columns.is_empty() {
            return None;
        }
        let stored = |axes: &[AxisId]| {
            let last = axes.last();
            last.is_some_and(|&axis| stores_along(kernel, dependence, axis))
        };
        let rows_fastest = stored(&rows) && !stored(&columns);
        let fastest = if rows_fastest { &rows } else { &columns };
        let lanes = if fastest.len() == 1 && stored(fastest) {
            4
        } else {
            1
        };
        let facts = (kernel, dependence);
        Some(Self {
            stage,
            unit,
            left: Operand::new(facts, unit, left, (rows, depth)),
            right: Operand::new(facts, unit, right, (columns, depth)),
            batch,
            depth: depth.to_vec(),
            rows_fastest,
            lanes,
        })
    }
}

impl Product {
    /// Whether one instruction reads several elements of each factor.
    pub(in crate::generate) fn reads_vectors(&self) -> bool {
        self.left.reads_vectors && self.right.reads_vectors
    }
}

/// A product of two plain loads.
pub(in crate::generate) struct PlainProduct<'p> {
    pub(in crate::generate) unit: Unit,
    /// The loads of the left and the right factor.
    pub(in crate::generate) factors: [NodeId; 2],
    /// The axes of rows, columns, depth and batches.
    pub(in crate::generate) axes: [&'p [AxisId]; 4],
}

impl Product {
    /// The same as a product of plain loads, if both factors are.
    pub(in crate::generate) fn as_plain(&self) -> Option<PlainProduct<'_>> {
        let axes = [&self.left.axes, &self.right.axes, &self.depth, &self.batch];
        (self.left.is_plain && self.right.is_plain).then_some(PlainProduct {
            unit: self.unit,
            factors: [self.left.node, self.right.node],
            axes: axes.map(Vec::as_slice),
        })
    }
}

/// The first stage of a kernel, if it sums products in the type of their factors and is followed only by items at the
/// outer points: the stage, its summed axes, the factors.
fn summed(kernel: &VerifiedKernel) -> Option<(StageId, &[AxisId], [NodeId; 2])> {
    let (first, rest) = kernel.items().split_first()?;
    let Item::Stage(id) = *first else { return None };
    let stage = kernel.stage(id);
    let StageOperation::Reduce {
        reduction: Reduction::Add,
        axes: depth,
        accumulator,
    } = &stage.operation
    else {
        return None;
    };
    let Node::Apply {
        op: ScalarOp::Mul,
        operands,
    } = kernel.node(stage.value)
    else {
        return None;
    };
    let &[left, right] = operands.as_slice() else {
        return None;
    };
    let is_sized = |&axis: &AxisId| matches!(kernel.axis(axis).extent, Extent::Size(_));
    let is_free = |&axis: &AxisId| !must_run_in_order(kernel, axis);
    let is_simple = |item: &Item| match item {
        Item::Stage(id) => {
            let stage = kernel.stage(*id);
            stage.axes.is_empty() && stage.operation == StageOperation::Map
        }
        Item::Store(store) => store.axes.is_empty() && store.combine.is_none(),
        Item::Carry(_) => false,
    };
    let fits = stage.axes.is_empty()
        && depth.iter().all(is_sized)
        && kernel.outer().iter().all(is_free)
        && rest.iter().all(is_simple)
        && kernel.dtype(stage.value) == *accumulator;
    fits.then_some((id, depth, [left, right]))
}

fn stores_along(kernel: &VerifiedKernel, dependence: &Dependence, axis: AxisId) -> bool {
    kernel.items().iter().any(|item| match item {
        Item::Store(store) => steps_by_one(kernel, dependence, store.buffer, &store.indices, axis),
        _ => false,
    })
}
