//! Recognising a kernel that is one product: its factors, and the axes of its rows, columns, batches and depth.

use kiln_kernel::analysis::{Dependence, expression_nodes, must_run_in_order};
use kiln_kernel::{
    AxisId, BufferId, Extent, IndexClass, Item, Node, NodeId, Reduction, StageId, StageOperation,
    VerifiedKernel,
};
use kiln_scalar::ScalarOp;
use kiln_tensor::DType;

use crate::generate::plan::Unit;

/// A factor of the products.
#[derive(Clone, Debug)]
pub(super) struct Operand {
    /// Its value, in the type of the tile's elements.
    pub(super) node: NodeId,
    /// Its rows or columns.
    pub(super) axes: Vec<AxisId>,
    /// Whether its elements are consecutive along the depth, rather than its rows or columns.
    pub(super) along_depth: bool,
    /// Consecutive elements that a thread reads at once.
    pub(super) lanes: u32,
    /// Whether it is a load without conditions, which can be copied as it is.
    pub(super) is_plain: bool,
}

/// A product.
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
    /// Consecutive results of a thread.
    pub(super) lanes: u32,
}

impl Product {
    /// The product that a kernel is, if it is one.
    pub(in crate::generate) fn of(
        kernel: &VerifiedKernel,
        dependence: &Dependence,
    ) -> Option<Self> {
        let (stage, depth, [left, right]) = summed(kernel)?;
        let (unit, left, right) = unit_of(kernel, left, right);
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

impl Operand {
    fn new(
        (kernel, dependence): (&VerifiedKernel, &Dependence),
        unit: Unit,
        node: NodeId,
        (axes, depth): (Vec<AxisId>, &[AxisId]),
    ) -> Self {
        let width = if unit == Unit::Registers { 4 } else { 8 };
        let along = |axes: &[AxisId]| {
            let last = axes.last();
            last.is_some_and(|&axis| is_consecutive(kernel, dependence, node, axis))
        };
        let along_depth = along(depth) || !along(&axes);
        let fastest = if along_depth { depth } else { &axes };
        let lanes = match fastest {
            [_] if along(fastest) => width,
            _ => 1,
        };
        let is_plain = match kernel.node(node) {
            Node::Load(load) => {
                let classes = &kernel.info().loads[node];
                let is_proved = classes.iter().all(|class| *class == IndexClass::Proved);
                let moves = |&axis: &AxisId| {
                    steps_by_one(kernel, dependence, load.buffer, &load.indices, axis)
                };
                load.guard.is_none() && is_proved && lanes > 1 && fastest.last().is_some_and(moves)
            }
            _ => false,
        };
        Self {
            node,
            axes,
            along_depth,
            lanes,
            is_plain,
        }
    }
}

/// The stage with which a kernel begins, if it sums products in f32 and only what is at the outer points follows: the
/// stage, its summed axes, the factors.
fn summed(kernel: &VerifiedKernel) -> Option<(StageId, &[AxisId], [NodeId; 2])> {
    let (first, rest) = kernel.items().split_first()?;
    let Item::Stage(id) = *first else { return None };
    let stage = kernel.stage(id);
    let StageOperation::Reduce {
        reduction: Reduction::Add,
        axes: depth,
        accumulator: DType::F32,
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
        && kernel.dtype(stage.value) == DType::F32;
    fits.then_some((id, depth, [left, right]))
}

/// The unit that multiplies two factors exactly, and the factors in its type.
fn unit_of(kernel: &VerifiedKernel, left: NodeId, right: NodeId) -> (Unit, NodeId, NodeId) {
    let narrow = |node: NodeId, dtype: DType| match kernel.node(node) {
        Node::Apply {
            op: ScalarOp::Cast(DType::F32),
            operands,
        } => operands
            .first()
            .copied()
            .filter(|&inner| kernel.dtype(inner) == dtype),
        _ => None,
    };
    for (dtype, unit) in [(DType::BF16, Unit::Bf16), (DType::F16, Unit::F16)] {
        if let (Some(left), Some(right)) = (narrow(left, dtype), narrow(right, dtype)) {
            return (unit, left, right);
        }
    }
    (Unit::Registers, left, right)
}

/// Whether a value is read from consecutive elements along an axis.
fn is_consecutive(
    kernel: &VerifiedKernel,
    dependence: &Dependence,
    node: NodeId,
    axis: AxisId,
) -> bool {
    let nodes = expression_nodes(kernel, &[node]);
    let mut loads = nodes.iter().filter_map(|&node| match kernel.node(node) {
        Node::Load(load) => Some(load),
        _ => None,
    });
    loads.any(|load| steps_by_one(kernel, dependence, load.buffer, &load.indices, axis))
}

fn stores_along(kernel: &VerifiedKernel, dependence: &Dependence, axis: AxisId) -> bool {
    kernel.items().iter().any(|item| match item {
        Item::Store(store) => steps_by_one(kernel, dependence, store.buffer, &store.indices, axis),
        _ => false,
    })
}

/// Whether an access moves by one element along an axis.
fn steps_by_one(
    kernel: &VerifiedKernel,
    dependence: &Dependence,
    buffer: BufferId,
    indices: &[NodeId],
    axis: AxisId,
) -> bool {
    let strides = crate::generate::strides(kernel, buffer);
    let mut steps = 0;
    for (&index, stride) in indices.iter().zip(strides) {
        match dependence.step_along(kernel, index, axis) {
            Some(0) => {}
            Some(1) if stride.as_constant() == Some(1) => steps += 1,
            _ => return false,
        }
    }
    steps == 1
}
