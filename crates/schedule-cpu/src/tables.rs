//! Tables of values that vary along the vectorised axis of a map alone, such as the source of each element of a resize or a
//! reflecting pad. A phase before the computation fills them once per launch, instead of once per point of all other axes.
//!
//! If such a value is the index of a load, a table of *windows* is added: the lowest index of each vector, and the
//! distances of its lanes from it. Elements within the length of one or two vectors are then read by as many loads and
//! a permutation instead of a gather.

use std::collections::BTreeSet;

use kiln_backend::{IsaLevel, Quantity};
use kiln_kernel::analysis::{Dependence, expression_nodes, may_fault};
use kiln_kernel::{AxisId, IndexClass, Item, Load, Node, NodeId, VerifiedKernel};
use kiln_scalar::ScalarOp;
use kiln_symbolic_shape::DimId;
use kiln_tensor::DType;

use crate::loops::LoopNest;
use crate::strides::{bound, buffer_strides};
use crate::tile::{Tile, VectorAxis};

/// The maximum number of tables of a nest.
pub(crate) const MAX_TABLES: u32 = 16;

/// Alignment of a table, in bytes.
const LINE: i64 = 64;

/// The tables of a nest, in the scratch that tasks share.
#[derive(Clone, Debug)]
pub struct Tables {
    /// The vectorised axis.
    pub axis: AxisId,
    /// Points of a table: those of the axis, and the last one again up to a whole set of vectors.
    pub points: Quantity,
    /// The values.
    pub values: Vec<Table>,
    /// The windows of the values that are indices; empty if no load uses them.
    pub windows: Vec<Window>,
    /// Their size in bytes.
    pub bytes: Quantity,
}

/// The values of a node, by point of the axis.
#[derive(Clone, Debug)]
pub struct Table {
    /// The node.
    pub node: NodeId,
    /// The offset of its values in the scratch, in bytes.
    pub offset: Quantity,
}

/// The data with which the vectors of an index load windows.
#[derive(Clone, Debug)]
pub struct Window {
    /// The index, which has a table.
    pub index: NodeId,
    /// The size of the buffer along that index.
    pub size: DimId,
    /// The offset of the distance of each lane's index from the first of its vector, `i32` per point.
    pub relative: Quantity,
    /// The offset of the lowest index of each vector, `i64` per vector.
    pub first: Quantity,
    /// The offset of the distance between the lowest and the highest index of each vector, `i64` per vector; -1 if the
    /// vectors of a window cannot hold all of them, or one of them is not in the buffer.
    pub span: Quantity,
}

impl Tables {
    /// The tables of a nest, if it has any.
    pub(crate) fn of(kernel: &VerifiedKernel, nest: &LoopNest) -> Option<Self> {
        let VectorAxis::Outer(axis) = nest.tile.vector else {
            return None;
        };
        let dependence = Dependence::of(kernel);
        let mut nodes = tabulated(kernel, &dependence, &nest.tile);
        nodes.truncate(nest.tables as usize);
        if nodes.is_empty() {
            return None;
        }
        let set = Quantity::constant(i64::from(nest.tile.lanes * nest.tile.vectors));
        let points = bound(kernel, axis).round_up(set);
        let mut bytes = Quantity::constant(0);
        let mut place = |elements: &Quantity, size: usize| {
            let offset = bytes.clone();
            let length = elements.clone() * Quantity::constant(size as i64);
            bytes = offset.clone() + length.round_up(Quantity::constant(LINE));
            offset
        };
        let values = nodes.iter().map(|&node| Table {
            node,
            offset: place(&points, kernel.dtype(node).size_in_bytes()),
        });
        let values = values.collect();
        let indices = match nest.windows {
            true => window_indices(kernel, &dependence, axis, &nodes),
            false => BTreeSet::new(),
        };
        let n_vectors = points
            .clone()
            .floor_div(Quantity::constant(i64::from(nest.tile.lanes)));
        let windows = indices.into_iter().map(|(index, size)| Window {
            index,
            size,
            relative: place(&points, DType::I32.size_in_bytes()),
            first: place(&n_vectors, DType::I64.size_in_bytes()),
            span: place(&n_vectors, DType::I64.size_in_bytes()),
        });
        let windows = windows.collect();
        Some(Self {
            axis,
            points,
            values,
            windows,
            bytes,
        })
    }

    /// The table of a node.
    pub fn of_node(&self, node: NodeId) -> Option<&Table> {
        self.values.iter().find(|table| table.node == node)
    }

    /// The window that a load reads, and the position of its index.
    pub fn window(
        &self,
        kernel: &VerifiedKernel,
        dependence: &Dependence,
        (node, load): (NodeId, &Load),
    ) -> Option<(usize, &Window)> {
        let (position, size) = windowed(kernel, dependence, self.axis, (node, load))?;
        let index = load.indices.get(position)?;
        let mut windows = self.windows.iter();
        let window = windows.find(|window| window.index == *index && window.size == size)?;
        Some((position, window))
    }
}

/// The outermost expressions in the stored values of a kernel that consists only of stores, which depend on no axis
/// other than the vectorised one, and are worth a table: index arithmetic whose steps are not constant, and floats.
/// Empty if there is no other axis.
pub(crate) fn tabulated(
    kernel: &VerifiedKernel,
    dependence: &Dependence,
    tile: &Tile,
) -> Vec<NodeId> {
    let VectorAxis::Outer(axis) = tile.vector else {
        return Vec::new();
    };
    let mut pending = Vec::new();
    for item in kernel.items() {
        match item {
            Item::Store(store) if store.axes.is_empty() => pending.push(store.value),
            _ => return Vec::new(),
        }
    }
    let mut others = kernel.axes().keys().filter(|&other| other != axis);
    if others.next().is_none() {
        return Vec::new();
    }
    let mut seen = BTreeSet::new();
    let mut found = BTreeSet::new();
    while let Some(node) = pending.pop() {
        if !seen.insert(node) {
            continue;
        }
        if is_worth_a_table(kernel, dependence, axis, node) {
            found.insert(node);
            continue;
        }
        kernel
            .node(node)
            .for_each_operand(&mut |operand| pending.push(operand));
    }
    found.into_iter().collect()
}

fn is_worth_a_table(
    kernel: &VerifiedKernel,
    dependence: &Dependence,
    axis: AxisId,
    node: NodeId,
) -> bool {
    let dtype = kernel.dtype(node);
    // Its loops are unswitched.
    let is_invariant = |condition: NodeId| !dependence.depends(condition, axis);
    if let Node::Apply {
        op: ScalarOp::Select,
        operands,
    } = kernel.node(node)
        && operands.first().copied().is_some_and(is_invariant)
    {
        return false;
    }
    let is_arithmetic = matches!(kernel.node(node), Node::Apply { .. } | Node::Call { .. });
    let is_costly = match dtype {
        DType::I64 => dependence.step_along(kernel, node, axis).is_none(),
        DType::F32 | DType::F64 => true,
        _ => false,
    };
    let mut others = kernel.axes().keys().filter(|&other| other != axis);
    is_arithmetic
        && is_costly
        && dependence.depends(node, axis)
        && others.all(|other| !dependence.depends(node, other))
        && expression_nodes(kernel, &[node])
            .into_iter()
            .all(|below| !may_fault(kernel, below) && !matches!(kernel.node(below), Node::Load(_)))
}

/// The tabulated indices at which loads read windows, with the sizes of the buffers along them.
fn window_indices(
    kernel: &VerifiedKernel,
    dependence: &Dependence,
    axis: AxisId,
    tabulated: &[NodeId],
) -> BTreeSet<(NodeId, DimId)> {
    let mut indices = BTreeSet::new();
    for (node, data) in kernel.nodes() {
        if let Node::Load(load) = &data.node
            && let Some((position, size)) = windowed(kernel, dependence, axis, (node, load))
            && let Some(index) = load.indices.get(position)
            && tabulated.contains(index)
        {
            indices.insert((*index, size));
        }
    }
    indices
}

/// The position of the only index of a load that varies along the vectors, at a stride of 1, and the size of the buffer
/// there; `None` for other loads, and for those whose indices are tested.
fn windowed(
    kernel: &VerifiedKernel,
    dependence: &Dependence,
    axis: AxisId,
    (node, load): (NodeId, &Load),
) -> Option<(usize, DimId)> {
    let buffer = kernel.buffer(load.buffer);
    let mut classes = kernel.info().loads[node].iter();
    let mut varying = (0..load.indices.len()).filter(|&position| {
        let index = load.indices.get(position);
        index.is_some_and(|&index| dependence.depends(index, axis))
    });
    let (position, None) = (varying.next()?, varying.next()) else {
        return None;
    };
    let strides = buffer_strides(kernel, load.buffer);
    let is_dense = strides.get(position)?.as_constant() == Some(1);
    let is_proved = classes.all(|class| *class == IndexClass::Proved);
    let is_narrow = buffer.dtype.size_in_bytes() <= 4;
    (is_dense && is_proved && is_narrow).then_some((position, *buffer.shape.get(position)?))
}

/// The number of vectors that the elements of a window may span.
pub fn vectors_of_window(level: IsaLevel) -> u32 {
    if level.has_avx512() { 2 } else { 1 }
}

/// Whether a level permutes the lanes of vectors of 32-bit elements by an index per lane.
pub fn permutes(level: IsaLevel, lanes: u32) -> bool {
    match level {
        IsaLevel::Avx2Fma => lanes == 8,
        _ => level.has_avx512() && matches!(lanes, 8 | 16),
    }
}
