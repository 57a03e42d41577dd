//! A factor of a product, read in tiles: the order in which its elements are read, and whether they can be copied
//! unchanged.

use kiln_backend::Quantity;
use kiln_kernel::analysis::{Dependence, expression_nodes};
use kiln_kernel::{AxisId, BufferId, IndexClass, Load, Node, NodeId, VerifiedKernel};
use kiln_scalar::ScalarOp;
use kiln_tensor::DType;

use crate::generate::unit::Unit;

/// A factor of the products.
#[derive(Clone, Debug)]
pub(in crate::generate) struct Operand {
    /// Its value, in the type of the tile's elements.
    pub(in crate::generate) node: NodeId,
    /// Its rows or columns.
    pub(in crate::generate) axes: Vec<AxisId>,
    /// Whether its elements are consecutive along the depth, rather than its rows or columns.
    pub(in crate::generate) along_depth: bool,
    /// The number of consecutive elements that a thread reads at once.
    pub(in crate::generate) lanes: u32,
    /// Whether these are along one axis, so that one instruction reads them. Otherwise each is read separately, unless
    /// all are copied asynchronously.
    pub(in crate::generate) reads_vectors: bool,
    /// Whether it loads consecutive elements along all its fastest axes, as if they were one axis. Otherwise it does so
    /// only along the last of them.
    pub(in crate::generate) is_line: bool,
    /// Whether it is a load without conditions, which can be copied unchanged.
    pub(in crate::generate) is_plain: bool,
}

impl Operand {
    /// The factor with a value, whose rows (columns) and depth are these axes.
    pub(in crate::generate) fn new(
        (kernel, dependence): (&VerifiedKernel, &Dependence),
        unit: Unit,
        node: NodeId,
        (axes, depth): (Vec<AxisId>, &[AxisId]),
    ) -> Self {
        let width = unit.lanes();
        let along = |axes: &[AxisId]| {
            let last = axes.last();
            last.is_some_and(|&axis| is_consecutive(kernel, dependence, node, axis))
        };
        let along_depth = along(depth) || !along(&axes);
        let fastest = if along_depth { depth } else { &axes };
        let plain = match kernel.node(node) {
            Node::Load(load) if load.guard.is_none() => {
                let classes = &kernel.info().loads[node];
                let is_proved = classes.iter().all(|class| *class == IndexClass::Proved);
                is_proved.then_some(load)
            }
            _ => None,
        };
        let moves = |load: &Load| {
            let steps =
                |&axis: &AxisId| steps_by_one(kernel, dependence, load.buffer, &load.indices, axis);
            fastest.last().is_some_and(steps)
        };
        let plain = plain.filter(|load| moves(load));
        let is_line = plain.is_some_and(|load| is_line(kernel, dependence, load, fastest));
        let lanes = match fastest {
            [_] if along(fastest) => width,
            // Otherwise neighbouring threads of a warp read neighbouring elements.
            [_, .., last] if unit.has_tensor_cores() && plain.is_some() => {
                let extent = crate::generate::points(kernel, &[*last]).as_constant();
                let is_even = extent.is_none_or(|extent| extent % i64::from(width) == 0);
                if is_line || is_even { width } else { 1 }
            }
            _ => 1,
        };
        let reads_vectors = lanes > 1 && fastest.len() == 1;
        Self {
            node,
            axes,
            along_depth,
            lanes,
            reads_vectors,
            is_line,
            is_plain: lanes > 1 && plain.is_some(),
        }
    }
}

/// The unit that multiplies two factors exactly and sums in a type, and the factors in its type.
pub(in crate::generate) fn unit_of(
    kernel: &VerifiedKernel,
    sum: DType,
    left: NodeId,
    right: NodeId,
) -> Option<(Unit, NodeId, NodeId)> {
    let narrow = |node: NodeId, dtype: DType| match kernel.node(node) {
        Node::Apply {
            op: ScalarOp::Cast(wide),
            operands,
        } if *wide == sum => operands
            .first()
            .copied()
            .filter(|&inner| kernel.dtype(inner) == dtype),
        _ => None,
    };
    let mut units = Unit::ALL.into_iter().filter(|unit| unit.sum() == sum);
    let narrowed = units.clone().find_map(|unit| {
        let (left, right) = (narrow(left, unit.dtype())?, narrow(right, unit.dtype())?);
        Some((unit, left, right))
    });
    narrowed.or_else(|| {
        let unit = units.find(|unit| unit.dtype() == sum)?;
        Some((unit, left, right))
    })
}

/// Whether a value is loaded from consecutive elements along an axis.
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

/// Whether a load reads consecutive elements along several axes as if they were one: each axis is an index by itself,
/// and a step along it is as long as the whole next axis.
fn is_line(kernel: &VerifiedKernel, dependence: &Dependence, load: &Load, axes: &[AxisId]) -> bool {
    let strides = crate::generate::strides(kernel, load.buffer);
    let mut wanted = Quantity::constant(1);
    for &axis in axes.iter().rev() {
        let moved = load.indices.iter().zip(&strides);
        let mut moved = moved.filter(|(index, _)| dependence.depends(**index, axis));
        let (Some((&index, stride)), None) = (moved.next(), moved.next()) else {
            return false;
        };
        if *kernel.node(index) != Node::Axis(axis) || *stride != wanted {
            return false;
        }
        wanted = wanted * Quantity::of(kernel.dims(), kernel.axis(axis).extent.bound());
    }
    true
}

/// Whether an access moves by one element along an axis.
pub(in crate::generate) fn steps_by_one(
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
