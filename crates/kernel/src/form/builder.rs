//! Builds kernels: nodes are typed and shared as they are added.
//!
//! A mistake (operands of the wrong dtype, an id of another kernel) does not interrupt the caller: the first one is kept
//! and returned by [`KernelBuilder::finish`]. The kernel as a whole is not checked here.

use std::collections::HashMap;

use cranelift_entity::{EntityRef, PrimaryMap};
use kiln_scalar::{Function, ScalarOp, ScalarValue};
use kiln_symbolic_shape::{DimId, DimTable};
use kiln_tensor::DType;
use smallvec::SmallVec;

use super::buffer::{Buffer, Dims, Role};
use super::ids::{AxisId, BufferId, NodeId, StageId};
use super::item::{
    Axes, Axis, Carry, Combine, Extent, Item, Reduction, Stage, StageOperation, Store,
};
use super::kernel::{Kernel, NodeData};
use super::node::{Load, LoadGuard, Node, Nodes};
use crate::error::KernelError;

/// Builds one kernel.
///
/// Axes are made first ([`outer`](Self::outer), [`axis`](Self::axis)), then nodes over them, then the items in
/// order. Stages are declared when their value is known, or, inside a carry block where `prev` refers to a stage
/// that comes later, ahead of it ([`declare_stage`](Self::declare_stage)).
#[derive(Debug)]
pub struct KernelBuilder {
    kernel: Kernel,
    interned: HashMap<Interned, NodeId>,
    /// The open `carry` block.
    carry: Option<Carry>,
    error: Option<KernelError>,
}

/// A node by its bits, so that equal nodes are shared.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) enum Interned {
    Literal(ScalarValue),
    Size(DimId),
    Axis(AxisId),
    Load(Load),
    Local(StageId, Nodes),
    Previous(StageId, Nodes),
    Last(StageId, Nodes),
    Apply(ScalarOp, Nodes),
    Call(Function, SmallVec<[u64; 2]>, Nodes),
}

impl Interned {
    pub(crate) fn of(node: &Node) -> Self {
        match node.clone() {
            Node::Literal(value) => Self::Literal(value),
            Node::Size(dim) => Self::Size(dim),
            Node::Axis(axis) => Self::Axis(axis),
            Node::Load(load) => Self::Load(load),
            Node::Local { stage, indices } => Self::Local(stage, indices),
            Node::Previous { stage, indices } => Self::Previous(stage, indices),
            Node::Last { stage, indices } => Self::Last(stage, indices),
            Node::Apply { op, operands } => Self::Apply(op, operands),
            Node::Call {
                function,
                parameters,
                operands,
            } => Self::Call(
                function,
                parameters.iter().map(|value| value.to_bits()).collect(),
                operands,
            ),
        }
    }
}

impl KernelBuilder {
    /// An empty kernel. The table holds its symbols and what is known of them; sizes passed to the builder are ids of it.
    pub fn new(name: impl Into<String>, dims: DimTable) -> Self {
        Self {
            kernel: Kernel {
                name: name.into(),
                dims,
                buffers: PrimaryMap::new(),
                axes: PrimaryMap::new(),
                nodes: PrimaryMap::new(),
                stages: PrimaryMap::new(),
                outer: Axes::new(),
                items: Vec::new(),
            },
            interned: HashMap::new(),
            carry: None,
            error: None,
        }
    }

    /// The sizes.
    pub fn dims(&self) -> &DimTable {
        &self.kernel.dims
    }

    /// The sizes, to add to.
    pub fn dims_mut(&mut self) -> &mut DimTable {
        &mut self.kernel.dims
    }

    /// The kernel under construction.
    pub fn kernel(&self) -> &Kernel {
        &self.kernel
    }

    /// Keeps the first error.
    pub(crate) fn fail(&mut self, error: KernelError) {
        self.error.get_or_insert(error);
    }

    /// Takes the first error so far.
    pub(crate) fn take_error(&mut self) -> Option<KernelError> {
        self.error.take()
    }

    // Buffers and axes

    /// A row-major buffer.
    pub fn buffer(
        &mut self,
        name: impl Into<String>,
        role: Role,
        dtype: DType,
        shape: impl IntoIterator<Item = DimId>,
    ) -> BufferId {
        self.push_buffer(Buffer {
            name: name.into(),
            role,
            dtype,
            shape: shape.into_iter().collect(),
            strides: None,
        })
    }

    /// A buffer with strides, in elements.
    pub fn strided_buffer(
        &mut self,
        name: impl Into<String>,
        role: Role,
        dtype: DType,
        shape: impl IntoIterator<Item = DimId>,
        strides: impl IntoIterator<Item = DimId>,
    ) -> BufferId {
        let strides: Dims = strides.into_iter().collect();
        self.push_buffer(Buffer {
            name: name.into(),
            role,
            dtype,
            shape: shape.into_iter().collect(),
            strides: Some(strides),
        })
    }

    /// Any buffer.
    pub fn push_buffer(&mut self, buffer: Buffer) -> BufferId {
        self.kernel.buffers.push(buffer)
    }

    /// An outer axis over a size, inside those made before.
    pub fn outer(&mut self, name: impl Into<String>, size: DimId) -> AxisId {
        let axis = self.axis(name, size);
        self.kernel.outer.push(axis);
        axis
    }

    /// An inner axis over a size, for one stage, store or carry block.
    pub fn axis(&mut self, name: impl Into<String>, size: DimId) -> AxisId {
        self.push_axis(name, Extent::Size(size))
    }

    /// An inner axis of any extent.
    pub fn push_axis(&mut self, name: impl Into<String>, extent: Extent) -> AxisId {
        self.kernel.axes.push(Axis {
            name: name.into(),
            extent,
        })
    }

    // Nodes

    /// A literal.
    pub fn literal(&mut self, value: ScalarValue) -> NodeId {
        self.push(Node::Literal(value), value.dtype())
    }

    /// An `i64` literal.
    pub fn integer(&mut self, value: i64) -> NodeId {
        self.literal(ScalarValue::I64(value))
    }

    /// A number in a dtype; an error if an integer dtype cannot represent it.
    pub fn number(&mut self, value: f64, dtype: DType) -> NodeId {
        match ScalarValue::from_number(value, dtype) {
            Some(value) => self.literal(value),
            None => {
                self.fail(KernelError::Literal { value, dtype });
                self.integer(0)
            }
        }
    }

    /// A size as a scalar.
    pub fn size(&mut self, dim: DimId) -> NodeId {
        match self.kernel.dims.as_constant(dim) {
            Some(value) => self.integer(value),
            None => self.push(Node::Size(dim), DType::I64),
        }
    }

    /// The index along an axis.
    pub fn index(&mut self, axis: AxisId) -> NodeId {
        self.push(Node::Axis(axis), DType::I64)
    }

    /// A load that is always performed.
    pub fn load(&mut self, buffer: BufferId, indices: impl IntoIterator<Item = NodeId>) -> NodeId {
        self.push_load(Load {
            buffer,
            indices: indices.into_iter().collect(),
            guard: None,
        })
    }

    /// A load if the indices are in bounds, `otherwise` elsewhere: `%x[i] if inside else v`.
    pub fn load_inside(
        &mut self,
        buffer: BufferId,
        indices: impl IntoIterator<Item = NodeId>,
        otherwise: NodeId,
    ) -> NodeId {
        self.push_load(Load {
            buffer,
            indices: indices.into_iter().collect(),
            guard: Some(LoadGuard {
                inside: true,
                when: None,
                otherwise,
            }),
        })
    }

    /// A load performed where a `bool` is true: `%x[i] if c else v`.
    pub fn load_when(
        &mut self,
        buffer: BufferId,
        indices: impl IntoIterator<Item = NodeId>,
        when: NodeId,
        otherwise: NodeId,
    ) -> NodeId {
        self.push_load(Load {
            buffer,
            indices: indices.into_iter().collect(),
            guard: Some(LoadGuard {
                inside: false,
                when: Some(when),
                otherwise,
            }),
        })
    }

    /// Any load.
    pub fn push_load(&mut self, load: Load) -> NodeId {
        let Some(buffer) = self.kernel.buffers.get(load.buffer) else {
            self.fail(KernelError::unknown("buffer", load.buffer.index()));
            return self.integer(0);
        };
        let dtype = buffer.dtype;
        let rank = buffer.rank();
        if rank != load.indices.len() {
            self.fail(KernelError::IndexCount {
                what: format!("%{}", self.kernel.buffers[load.buffer].name),
                expected: rank,
                found: load.indices.len(),
            });
        }
        if let Some(guard) = &load.guard {
            let (otherwise, when) = (guard.otherwise, guard.when);
            self.expect_dtype(
                otherwise,
                dtype,
                "the value of a load that is not performed",
            );
            if let Some(when) = when {
                self.expect_dtype(when, DType::Bool, "the condition of a load");
            }
        }
        self.expect_indices(&load.indices.clone());
        self.push(Node::Load(load), dtype)
    }

    /// The result of a stage.
    pub fn local(&mut self, stage: StageId, indices: impl IntoIterator<Item = NodeId>) -> NodeId {
        let indices: Nodes = indices.into_iter().collect();
        let dtype = self.stage_dtype(stage, &indices);
        self.push(Node::Local { stage, indices }, dtype)
    }

    /// The value of a stage of the open block after the previous step.
    pub fn previous(
        &mut self,
        stage: StageId,
        indices: impl IntoIterator<Item = NodeId>,
    ) -> NodeId {
        let indices: Nodes = indices.into_iter().collect();
        let dtype = self.stage_dtype(stage, &indices);
        self.push(Node::Previous { stage, indices }, dtype)
    }

    /// The final value of a stage of a closed block.
    pub fn last(&mut self, stage: StageId, indices: impl IntoIterator<Item = NodeId>) -> NodeId {
        let indices: Nodes = indices.into_iter().collect();
        let dtype = self.stage_dtype(stage, &indices);
        self.push(Node::Last { stage, indices }, dtype)
    }

    /// A primitive operation.
    pub fn apply(&mut self, op: ScalarOp, operands: impl IntoIterator<Item = NodeId>) -> NodeId {
        let operands: Nodes = operands.into_iter().collect();
        let Some(dtypes) = self.dtypes(&operands) else {
            return self.integer(0);
        };
        match op.signature().result_type(&dtypes) {
            Some(dtype) => self.push(Node::Apply { op, operands }, dtype),
            None => {
                self.fail(KernelError::OperandTypes {
                    op: op.name(),
                    found: dtypes.to_vec(),
                });
                self.integer(0)
            }
        }
    }

    /// A named function with its parameters; omitted ones have their defaults.
    pub fn call(
        &mut self,
        function: Function,
        parameters: &[f64],
        operands: impl IntoIterator<Item = NodeId>,
    ) -> NodeId {
        if let Some(op) = function.primitive() {
            return self.apply(op, operands);
        }
        let operands: Nodes = operands.into_iter().collect();
        let Some(dtypes) = self.dtypes(&operands) else {
            return self.integer(0);
        };
        // Equal calls are one node, whether or not the defaults were given explicitly.
        let defaults = function.parameters().iter().skip(parameters.len());
        let filled = parameters
            .iter()
            .copied()
            .chain(defaults.map(|parameter| parameter.default))
            .collect();
        let typed = function
            .expression(parameters)
            .and_then(|expression| expression.result_type(&dtypes));
        match typed {
            Ok(dtype) => self.push(
                Node::Call {
                    function,
                    parameters: filled,
                    operands,
                },
                dtype,
            ),
            Err(source) => {
                self.fail(KernelError::Scalar {
                    function: function.name(),
                    source,
                });
                self.integer(0)
            }
        }
    }

    /// A conversion; the node itself if it has the dtype already, and what a 16-bit float was before it was widened.
    pub fn cast(&mut self, node: NodeId, to: DType) -> NodeId {
        let Some(data) = self.kernel.nodes.get(node) else {
            return self.apply(ScalarOp::Cast(to), [node]);
        };
        if data.dtype == to {
            return node;
        }
        if let Node::Apply {
            op: ScalarOp::Cast(DType::F32),
            operands,
        } = &data.node
            && matches!(to, DType::F16 | DType::BF16)
            && let [narrow] = *operands.as_slice()
            && self.kernel.dtype(narrow) == to
        {
            return narrow;
        }
        self.apply(ScalarOp::Cast(to), [node])
    }

    /// Any node, for rewriting kernels: its operands are nodes of this builder.
    pub fn push_node(&mut self, node: Node) -> NodeId {
        match node {
            Node::Literal(value) => self.literal(value),
            Node::Size(dim) => self.size(dim),
            Node::Axis(axis) => self.index(axis),
            Node::Load(load) => self.push_load(load),
            Node::Local { stage, indices } => self.local(stage, indices),
            Node::Previous { stage, indices } => self.previous(stage, indices),
            Node::Last { stage, indices } => self.last(stage, indices),
            Node::Apply { op, operands } => self.apply(op, operands),
            Node::Call {
                function,
                parameters,
                operands,
            } => self.call(function, &parameters, operands),
        }
    }

    // Items

    /// A stage that maps: a local array over `axes`.
    pub fn map(
        &mut self,
        name: impl Into<String>,
        axes: impl IntoIterator<Item = AxisId>,
        value: NodeId,
    ) -> StageId {
        self.push_stage(Stage {
            name: name.into(),
            axes: axes.into_iter().collect(),
            operation: StageOperation::Map,
            value,
            init: None,
        })
    }

    /// A stage that reduces `value` over `reduced`, accumulated in the value's dtype: a local array over `axes`.
    pub fn reduce(
        &mut self,
        name: impl Into<String>,
        axes: impl IntoIterator<Item = AxisId>,
        reduction: Reduction,
        reduced: impl IntoIterator<Item = AxisId>,
        value: NodeId,
    ) -> StageId {
        let accumulator = self.node_dtype(value).unwrap_or(DType::F32);
        self.push_stage(Stage {
            name: name.into(),
            axes: axes.into_iter().collect(),
            operation: StageOperation::Reduce {
                reduction,
                axes: reduced.into_iter().collect(),
                accumulator,
            },
            value,
            init: None,
        })
    }

    /// Any stage, after the items so far.
    pub fn push_stage(&mut self, stage: Stage) -> StageId {
        let id = self.kernel.stages.push(stage);
        self.push_item(Item::Stage(id));
        id
    }

    /// A stage of the open block before its value is known, so that nodes may refer to it. Its dtype is that of
    /// `init`; [`define_stage`](Self::define_stage) places it.
    pub fn declare_stage(
        &mut self,
        name: impl Into<String>,
        axes: impl IntoIterator<Item = AxisId>,
        init: NodeId,
    ) -> StageId {
        self.kernel.stages.push(Stage {
            name: name.into(),
            axes: axes.into_iter().collect(),
            operation: StageOperation::Map,
            value: init,
            init: Some(init),
        })
    }

    /// Sets the operation and value of a declared stage, and places it after the items so far.
    pub fn define_stage(&mut self, id: StageId, operation: StageOperation, value: NodeId) {
        match self.kernel.stages.get_mut(id) {
            Some(stage) => {
                stage.operation = operation;
                stage.value = value;
                self.push_item(Item::Stage(id));
            }
            None => self.fail(KernelError::unknown("stage", id.index())),
        }
    }

    /// Writes `value` at `indices` for every point of `axes`.
    pub fn store(
        &mut self,
        axes: impl IntoIterator<Item = AxisId>,
        buffer: BufferId,
        indices: impl IntoIterator<Item = NodeId>,
        value: NodeId,
    ) {
        self.push_store(Store {
            axes: axes.into_iter().collect(),
            buffer,
            indices: indices.into_iter().collect(),
            value,
            combine: None,
        });
    }

    /// Combines `value` with the element at `indices`, for every point of `axes`.
    pub fn combine(
        &mut self,
        combine: Combine,
        axes: impl IntoIterator<Item = AxisId>,
        buffer: BufferId,
        indices: impl IntoIterator<Item = NodeId>,
        value: NodeId,
    ) {
        self.push_store(Store {
            axes: axes.into_iter().collect(),
            buffer,
            indices: indices.into_iter().collect(),
            value,
            combine: Some(combine),
        });
    }

    /// Any store, after the items so far.
    pub fn push_store(&mut self, store: Store) {
        match self.kernel.buffers.get(store.buffer) {
            Some(buffer) => {
                let (dtype, rank) = (buffer.dtype, buffer.rank());
                if rank != store.indices.len() {
                    self.fail(KernelError::IndexCount {
                        what: format!("%{}", self.kernel.buffers[store.buffer].name),
                        expected: rank,
                        found: store.indices.len(),
                    });
                }
                self.expect_dtype(store.value, dtype, "a stored value");
                self.expect_indices(&store.indices);
            }
            None => self.fail(KernelError::unknown("buffer", store.buffer.index())),
        }
        self.push_item(Item::Store(store));
    }

    /// Opens a `carry` block: items added until [`end_carry`](Self::end_carry) run at each of its steps.
    pub fn begin_carry(&mut self, axis: AxisId, reverse: bool) {
        if self.carry.is_some() {
            self.fail(KernelError::NestedCarry);
            return;
        }
        self.carry = Some(Carry {
            axis,
            reverse,
            items: Vec::new(),
        });
    }

    /// Closes the block.
    pub fn end_carry(&mut self) {
        match self.carry.take() {
            Some(carry) => self.kernel.items.push(Item::Carry(carry)),
            None => self.fail(KernelError::NoCarry),
        }
    }

    /// The kernel.
    ///
    /// # Errors
    /// The first mistake made while building; an unclosed block.
    pub fn finish(mut self) -> Result<Kernel, KernelError> {
        if self.carry.is_some() {
            self.fail(KernelError::OpenCarry);
        }
        match self.error {
            Some(error) => Err(error),
            None => Ok(self.kernel),
        }
    }

    fn push_item(&mut self, item: Item) {
        match &mut self.carry {
            Some(carry) => carry.items.push(item),
            None => self.kernel.items.push(item),
        }
    }

    fn push(&mut self, node: Node, dtype: DType) -> NodeId {
        let nodes = &mut self.kernel.nodes;
        *self
            .interned
            .entry(Interned::of(&node))
            .or_insert_with(|| nodes.push(NodeData { node, dtype }))
    }

    fn node_dtype(&self, node: NodeId) -> Option<DType> {
        self.kernel.nodes.get(node).map(|data| data.dtype)
    }

    fn dtypes(&mut self, nodes: &[NodeId]) -> Option<SmallVec<[DType; 4]>> {
        let dtypes: Option<SmallVec<[DType; 4]>> =
            nodes.iter().map(|&node| self.node_dtype(node)).collect();
        if dtypes.is_none() {
            self.fail(KernelError::unknown("node", self.kernel.nodes.len()));
        }
        dtypes
    }

    fn stage_dtype(&mut self, stage: StageId, indices: &[NodeId]) -> DType {
        let Some(data) = self.kernel.stages.get(stage) else {
            self.fail(KernelError::unknown("stage", stage.index()));
            return DType::I64;
        };
        let (name, rank) = (data.name.clone(), data.axes.len());
        if rank != indices.len() {
            self.fail(KernelError::IndexCount {
                what: name,
                expected: rank,
                found: indices.len(),
            });
        }
        self.expect_indices(indices);
        self.kernel.stage_dtype(stage)
    }

    fn expect_indices(&mut self, indices: &[NodeId]) {
        for &index in indices {
            self.expect_dtype(index, DType::I64, "an index");
        }
    }

    fn expect_dtype(&mut self, node: NodeId, expected: DType, what: &'static str) {
        match self.node_dtype(node) {
            Some(found) if found == expected => {}
            Some(found) => self.fail(KernelError::DType {
                what,
                expected,
                found,
            }),
            None => self.fail(KernelError::unknown("node", node.index())),
        }
    }
}
