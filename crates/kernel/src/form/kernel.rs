//! A kernel: symbols, buffers, axes, and the items run at each point of the outer axes.
//!
//! Plain data, built by [`KernelBuilder`](super::KernelBuilder) and immutable afterwards. Ids are in range and operands
//! come before their users; everything else is checked by the verifier.

use std::collections::BTreeSet;

use cranelift_entity::PrimaryMap;
use kiln_symbolic_shape::DimTable;
use kiln_tensor::DType;

use super::buffer::{Buffer, Dims, Role};
use super::ids::{AxisId, BufferId, NodeId, StageId};
use super::item::{Axes, Axis, Item, Stage};
use super::node::{Node, Nodes};

/// A kernel in the form between fusion and the backends.
#[derive(Clone, Debug)]
pub struct Kernel {
    pub(crate) name: String,
    pub(crate) dims: DimTable,
    pub(crate) buffers: PrimaryMap<BufferId, Buffer>,
    pub(crate) axes: PrimaryMap<AxisId, Axis>,
    pub(crate) nodes: PrimaryMap<NodeId, NodeData>,
    pub(crate) stages: PrimaryMap<StageId, Stage>,
    pub(crate) outer: Axes,
    pub(crate) items: Vec<Item>,
}

/// A node with its dtype.
#[derive(Clone, Debug, PartialEq)]
pub struct NodeData {
    /// The node.
    pub node: Node,
    /// The dtype of its value.
    pub dtype: DType,
}

impl Kernel {
    /// Its name, without the `@`. It is for human readers, and not part of the key.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The same kernel under another name.
    #[must_use]
    pub fn renamed(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// Changes a buffer's layout: strides in elements, or row-major. They are sizes of the kernel's table, to which `make`
    /// may add symbols.
    #[must_use]
    pub fn with_strides(
        mut self,
        buffer: BufferId,
        make: impl FnOnce(&mut DimTable) -> Option<Dims>,
    ) -> Self {
        let strides = make(&mut self.dims);
        if let Some(buffer) = self.buffers.get_mut(buffer) {
            buffer.strides = strides;
        }
        self
    }

    /// Its sizes: the symbols, in the order in which their values are passed, and the facts about them.
    pub fn dims(&self) -> &DimTable {
        &self.dims
    }

    /// The buffers, in the order in which they are passed.
    pub fn buffers(&self) -> &PrimaryMap<BufferId, Buffer> {
        &self.buffers
    }

    /// A buffer.
    pub fn buffer(&self, id: BufferId) -> &Buffer {
        &self.buffers[id]
    }

    /// The axes, outer and inner.
    pub fn axes(&self) -> &PrimaryMap<AxisId, Axis> {
        &self.axes
    }

    /// An axis.
    pub fn axis(&self, id: AxisId) -> &Axis {
        &self.axes[id]
    }

    /// The nodes, each after those it uses.
    pub fn nodes(&self) -> &PrimaryMap<NodeId, NodeData> {
        &self.nodes
    }

    /// A node.
    pub fn node(&self, id: NodeId) -> &Node {
        &self.nodes[id].node
    }

    /// The dtype of a node's value.
    pub fn dtype(&self, id: NodeId) -> DType {
        self.nodes[id].dtype
    }

    /// The stages.
    pub fn stages(&self) -> &PrimaryMap<StageId, Stage> {
        &self.stages
    }

    /// A stage.
    pub fn stage(&self, id: StageId) -> &Stage {
        &self.stages[id]
    }

    /// The dtype of a stage's local.
    pub fn stage_dtype(&self, id: StageId) -> DType {
        use super::item::StageOperation;
        let stage = &self.stages[id];
        match &stage.operation {
            StageOperation::Map => self.dtype(stage.value),
            StageOperation::Reduce { reduction, .. } if reduction.is_arg() => DType::I64,
            StageOperation::Reduce { accumulator, .. } => *accumulator,
        }
    }

    /// The indices of each load and store of a buffer.
    pub fn accesses(&self, buffer: BufferId) -> impl Iterator<Item = &Nodes> {
        let loads = self
            .nodes
            .values()
            .filter_map(move |data| match &data.node {
                Node::Load(load) if load.buffer == buffer => Some(&load.indices),
                _ => None,
            });
        let items = self.items.iter().flat_map(Item::parts);
        let stores = items.filter_map(move |item| match item {
            Item::Store(store) if store.buffer == buffer => Some(&store.indices),
            _ => None,
        });
        loads.chain(stores)
    }

    /// The axis that every load and store of a buffer has as its index at a position, if there is one.
    pub fn axis_at(&self, buffer: BufferId, place: usize) -> Option<AxisId> {
        let mut axes = self.accesses(buffer).map(|indices| {
            let index = *indices.get(place)?;
            match self.node(index) {
                Node::Axis(axis) => Some(*axis),
                _ => None,
            }
        });
        let first = axes.next()??;
        axes.all(|axis| axis == Some(first)).then_some(first)
    }

    /// The axes that run through weights: indices of constants with several axes.
    pub fn axes_of_weights(&self) -> BTreeSet<AxisId> {
        let buffers = self.buffers.iter();
        let weights = buffers.filter(|(_, buffer)| buffer.role == Role::Const && buffer.rank() > 1);
        let indices = weights.flat_map(|(id, _)| self.accesses(id)).flatten();
        let axes = indices.filter_map(|&index| match self.node(index) {
            Node::Axis(axis) => Some(*axis),
            _ => None,
        });
        axes.collect()
    }

    /// The outer axes: independent points, outermost first.
    pub fn outer(&self) -> &[AxisId] {
        &self.outer
    }

    /// The items at each outer point, in order.
    pub fn items(&self) -> &[Item] {
        &self.items
    }
}
