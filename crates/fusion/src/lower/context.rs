//! The state of a lowering, and the driver that lowers demands.
//!
//! An op's lowering demands its operands; if one is not available yet it stops with [`Halt::Pending`] and runs again
//! later. So the driver keeps an explicit stack, and nothing recurses over the region. An op's lowering must therefore
//! produce the same result each time it runs: nodes are shared, and axes are kept by the stage that they belong to.

use std::collections::{BTreeSet, HashMap, HashSet};

use kiln_ir::{Definition, Graph, Op, OpData, OpId, TensorType, ValueId};
use kiln_kernel::{AxisId, BufferId, KernelBuilder, NodeId, Nodes, StageId};
use kiln_symbolic_shape::{DimError, DimId, Predicate, Proof};
use kiln_tensor::DType;
use smallvec::SmallVec;

use super::LowerError;
use super::guard::{GuardId, Guards};
use super::index::Indices;
use super::prepare::KernelSizes;
use super::producers::Producers;
use super::recurrence::Body;
use super::stage::StageKey;

/// The maximum number of nodes in a kernel.
const NODE_LIMIT: usize = 1 << 14;
/// The maximum number of demands in a lowering.
const STEP_LIMIT: usize = 1 << 18;

/// Sizes of axes.
pub(super) type Dims = SmallVec<[DimId; 4]>;

/// Why an op's lowering stopped.
#[derive(Debug)]
pub(super) enum Halt {
    /// An operand is not available yet.
    Pending,
    /// It is impossible.
    Error(LowerError),
}

impl From<LowerError> for Halt {
    fn from(error: LowerError) -> Self {
        Self::Error(error)
    }
}

impl From<DimError> for Halt {
    fn from(error: DimError) -> Self {
        Self::Error(error.into())
    }
}

/// The result of a step of a lowering.
pub(super) type Step<T> = Result<T, Halt>;

/// One demanded element.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Demand {
    /// The value.
    pub(super) value: ValueId,
    /// The indices.
    pub(super) indices: Nodes,
    /// The guard.
    pub(super) guard: GuardId,
}

/// Decisions for this attempt, made by the previous one.
#[derive(Clone, Debug, Default)]
pub(super) struct Revision {
    /// Sizes in place of the axis that a reduction creates, by the reduction's result and axis: requested by the lowering
    /// of reshapes.
    pub(super) splits: HashMap<(ValueId, usize), Dims>,
    /// Values to be computed into arrays.
    pub(super) arrays: BTreeSet<ValueId>,
}

/// What a lowering learned for the next attempt.
#[derive(Clone, Debug, Default)]
pub(super) struct Findings {
    /// An outer axis that should be split into several.
    pub(super) outer_split: Option<(AxisId, Dims)>,
    /// An axis of a reduction that should be split into several.
    pub(super) inner_split: Option<((ValueId, usize), Dims)>,
    /// An outer axis that should be the steps of a carry block, and whether backwards.
    pub(super) clock: Option<(AxisId, bool)>,
    /// The outer axes that each stage depends on, with the stage's value.
    pub(super) stages: Vec<(ValueId, BTreeSet<AxisId>)>,
}

/// A kernel under construction for a region.
pub(super) struct RegionLowering<'a> {
    pub(super) graph: &'a Graph,
    pub(super) b: KernelBuilder,
    pub(super) sizes: KernelSizes,
    pub(super) guards: Guards,
    pub(super) index: Indices,
    pub(super) revision: &'a Revision,
    pub(super) findings: Findings,
    /// The outer axes, and the steps of the open carry block.
    pub(super) ambient: BTreeSet<AxisId>,
    /// The axis of the open carry block, and whether it runs backwards.
    pub(super) clock: Option<(AxisId, bool)>,
    /// The loop from which the kernel is made.
    pub(super) body: Option<Body>,
    pub(super) stages: HashMap<StageKey, StageId>,
    /// Stages of the carry block that are not defined yet.
    pub(super) declared: HashMap<StageKey, StageId>,
    pub(super) stage_axes: HashMap<(StageKey, usize), AxisId>,
    /// The reduction and axis number that an axis was made for.
    pub(super) axis_owners: HashMap<AxisId, (ValueId, usize)>,
    pub(super) buffers: HashMap<ValueId, BufferId>,
    pub(super) operands: Vec<ValueId>,
    pub(super) requirements: Vec<(Predicate, String)>,
    /// The divisors of sums of shares.
    pub(super) wholes: HashMap<StageId, NodeId>,
    /// The demands that fill arrays.
    pub(super) fills: HashSet<Demand>,
    producers: &'a Producers,
    pub(super) memo: HashMap<Demand, NodeId>,
    wanted: Option<Demand>,
    steps: usize,
}

/// The dtype that values of a dtype are computed in.
pub(super) fn compute_dtype(dtype: DType) -> DType {
    match dtype {
        DType::F16 | DType::BF16 => DType::F32,
        other => other,
    }
}

impl<'a> RegionLowering<'a> {
    pub(super) fn new(
        graph: &'a Graph,
        name: &str,
        producers: &'a Producers,
        sizes: KernelSizes,
        revision: &'a Revision,
    ) -> Self {
        Self {
            graph,
            b: KernelBuilder::new(name, sizes.table.clone()),
            guards: Guards::default(),
            index: Indices::default(),
            revision,
            findings: Findings::default(),
            ambient: BTreeSet::new(),
            clock: None,
            body: None,
            stages: HashMap::new(),
            declared: HashMap::new(),
            wholes: HashMap::new(),
            stage_axes: HashMap::new(),
            axis_owners: HashMap::new(),
            buffers: HashMap::new(),
            operands: Vec::new(),
            requirements: sizes.requirements.clone(),
            sizes,
            fills: HashSet::new(),
            producers,
            memo: HashMap::new(),
            wanted: None,
            steps: 0,
        }
    }

    /// An element of a value, in the dtype in which its dtype is computed.
    pub(super) fn demand(&mut self, value: ValueId, indices: Nodes) -> Result<NodeId, LowerError> {
        self.drive(&mut |this| this.get(value, indices.clone(), GuardId::NONE))
    }

    /// Runs `root`, and all demands on which it waits, until it is done.
    pub(super) fn drive<T>(
        &mut self,
        root: &mut dyn FnMut(&mut Self) -> Step<T>,
    ) -> Result<T, LowerError> {
        let mut pending: Vec<Demand> = Vec::new();
        loop {
            self.check_limits()?;
            let halt = match pending.last().cloned() {
                None => match root(self) {
                    Ok(done) => return Ok(done),
                    Err(halt) => halt,
                },
                Some(demand) => match self.answer(&demand) {
                    Ok(node) => {
                        self.memo.insert(demand, node);
                        pending.pop();
                        continue;
                    }
                    Err(halt) => halt,
                },
            };
            match (halt, self.wanted.take()) {
                (Halt::Error(error), _) => return Err(error),
                (Halt::Pending, Some(wanted)) => pending.push(wanted),
                (Halt::Pending, None) => unreachable!("a lowering that waits says for what"),
            }
        }
    }

    /// An element of an operand, for the lowering of an op.
    pub(super) fn get(&mut self, value: ValueId, indices: Nodes, guard: GuardId) -> Step<NodeId> {
        let demand = Demand {
            value,
            indices,
            guard,
        };
        match self.memo.get(&demand) {
            Some(&node) => Ok(node),
            None => {
                self.wanted = Some(demand);
                Err(Halt::Pending)
            }
        }
    }

    /// The op of the region that produces a value.
    pub(super) fn producer(&self, value: ValueId) -> Option<(OpId, &'a OpData)> {
        let graph = self.graph;
        self.producers.get(value).map(|op| (op, graph.op(op)))
    }

    /// The length of the longest chain of ops of the region up to a value.
    pub(super) fn depth(&self, value: ValueId) -> usize {
        self.producers.depth(value)
    }

    /// The constant that defines a value.
    pub(super) fn constant(&self, value: ValueId) -> Option<&'a kiln_ir::Constant> {
        match self.graph.value(value).definition {
            Definition::Result { op, .. } => match &self.graph.op(op).op {
                Op::Constant(constant) => Some(constant),
                _ => None,
            },
            Definition::Parameter { .. } => None,
        }
    }

    /// A value's type.
    pub(super) fn ty(&self, value: ValueId) -> Result<&'a TensorType, LowerError> {
        self.graph
            .tensor_ty(value)
            .ok_or(LowerError::NotTensor { value })
    }

    /// A size of the graph in the kernel's table.
    pub(super) fn dim(&mut self, dim: DimId) -> Result<DimId, DimError> {
        // The builder's table grows; it starts as a copy of this one.
        std::mem::swap(self.b.dims_mut(), &mut self.sizes.table);
        let copied = self.sizes.copy(self.graph, dim);
        std::mem::swap(self.b.dims_mut(), &mut self.sizes.table);
        copied
    }

    /// Sizes of the graph in the kernel's table.
    pub(super) fn dims(&mut self, dims: &[DimId]) -> Result<Dims, DimError> {
        dims.iter().map(|&dim| self.dim(dim)).collect()
    }

    /// A value's sizes in the kernel's table.
    pub(super) fn shape(&mut self, value: ValueId) -> Result<Dims, LowerError> {
        let dims = &self.ty(value)?.dims;
        Ok(self.dims(dims)?)
    }

    /// Whether two sizes of the kernel are proved equal.
    pub(super) fn equal(&self, a: DimId, b: DimId) -> bool {
        self.b.dims().equal(a, b).is_proved()
    }

    /// The constant value of a size of the kernel.
    pub(super) fn fixed(&self, dim: DimId) -> Option<i64> {
        self.b.dims().range(dim).as_point()
    }

    /// Adds a requirement on the kernel's sizes, unless it is proved.
    pub(super) fn require(&mut self, predicate: Predicate, what: &str) -> Result<(), LowerError> {
        match self.b.dims().prove(&predicate) {
            Proof::Proved => Ok(()),
            Proof::Disproved => Err(LowerError::Impossible {
                what: what.to_owned(),
            }),
            Proof::Unknown => {
                if !self
                    .requirements
                    .iter()
                    .any(|(known, _)| *known == predicate)
                {
                    self.requirements.push((predicate, what.to_owned()));
                }
                Ok(())
            }
        }
    }

    /// Requires a size to be nonzero if a result has elements.
    pub(super) fn require_elements(
        &mut self,
        size: DimId,
        result: &[DimId],
        what: &str,
    ) -> Result<(), LowerError> {
        let table = self.b.dims_mut();
        let one = table.constant(1);
        let elements = table.product(result)?;
        let some = table.min(elements, one)?;
        self.require(Predicate::LessEqual(some, size), what)
    }

    fn check_limits(&mut self) -> Result<(), LowerError> {
        self.steps += 1;
        let nodes = self.b.kernel().nodes().len();
        let checks = [
            ("nodes", nodes, NODE_LIMIT),
            ("steps of lowering", self.steps, STEP_LIMIT),
        ];
        for (what, given, limit) in checks {
            if given > limit {
                return Err(LowerError::Limit { what, given, limit });
            }
        }
        Ok(())
    }
}
