//! Propagates read indices through a candidate, from the results to the inputs.
//!
//! The walk is demand-driven, in the same order as lowering, with indices reduced to the axes they use; demands for a
//! value at equal indices are merged. Only ops that no kernel can compute are rejected here.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

use kiln_ir::{Definition, Graph, OpId, ValueId};
use kiln_symbolic_shape::{DimId, Predicate};

use super::access;
use super::index::{AXIS_LIMIT, AxisInfo, AxisSet, Index, Indices, axes_of, is_plain};
use super::refusal::Refusal;
use crate::op_kind::OpKind;
use crate::sizes::{Answer, SizeQueries};

/// The maximum number of different places at which one value may be read.
const DEMAND_LIMIT: usize = 16;

/// The maximum number of ops between constants and a value that is treated as constant.
const CONSTANT_OPS_LIMIT: usize = 32;

/// A value demanded at some indices.
#[derive(Clone, Debug)]
pub(crate) struct Demand {
    pub(crate) indices: Indices,
    /// The axes in scope where it is demanded.
    pub(crate) scope: AxisSet,
    /// The stages that demand it; empty for a store.
    pub(crate) stages: BTreeSet<usize>,
    /// Whether a store demands it too.
    pub(crate) stored: bool,
    /// Whether one of its elements is demanded at several points, regardless of axes.
    pub(crate) repeated: bool,
}

/// A reduction or heavy op at one position.
#[derive(Clone, Debug)]
pub(crate) struct Stage {
    pub(crate) op: OpId,
    pub(crate) kind: OpKind,
    pub(crate) indices: Indices,
    /// The axes it reduces.
    pub(crate) reduced: AxisSet,
}

impl Stage {
    /// The axes its value depends on.
    pub(crate) fn axes(&self) -> AxisSet {
        axes_of(&self.indices)
    }
}

/// A result of the candidate and where each of its elements is stored.
#[derive(Clone, Debug)]
pub(crate) struct Store {
    pub(crate) value: ValueId,
    pub(crate) indices: Indices,
}

/// The result of a walk over a candidate.
#[derive(Debug)]
pub(crate) struct Walk<'a> {
    pub(crate) graph: &'a Graph,
    pub(crate) sizes: &'a SizeQueries<'a>,
    pub(crate) ops: &'a BTreeSet<OpId>,
    pub(crate) axes: Vec<AxisInfo>,
    pub(crate) demands: BTreeMap<ValueId, Vec<Demand>>,
    pub(crate) stages: Vec<Stage>,
    pub(crate) stores: Vec<Store>,
    /// The numbers of the required plan facts.
    pub(crate) facts: RefCell<BTreeSet<usize>>,
}

/// Walks over a candidate.
pub(crate) fn walk<'a>(
    graph: &'a Graph,
    sizes: &'a SizeQueries<'a>,
    ops: &'a BTreeSet<OpId>,
    outputs: &[ValueId],
) -> Result<Walk<'a>, Refusal> {
    let mut walk = Walk {
        graph,
        sizes,
        ops,
        axes: Vec::new(),
        demands: BTreeMap::new(),
        stages: Vec::new(),
        stores: Vec::new(),
        facts: RefCell::default(),
    };
    for &op in ops.iter().rev() {
        let data = graph.op(op);
        if OpKind::of(&data.op) == OpKind::Apart || data.results.len() != 1 {
            return Err(Refusal::Apart { op });
        }
        for &result in &data.results {
            if outputs.contains(&result) {
                walk.store(result)?;
            }
            for demand in walk.demands.get(&result).cloned().unwrap_or_default() {
                access::visit(&mut walk, op, &demand)?;
            }
        }
    }
    Ok(walk)
}

impl Walk<'_> {
    /// The sizes of a value.
    pub(crate) fn dims(&self, value: ValueId) -> &[DimId] {
        self.graph
            .tensor_ty(value)
            .map_or(&[], |ty| ty.dims.as_slice())
    }

    /// Whether a value depends only on constants, through few ops.
    pub(crate) fn is_constant(&self, value: ValueId) -> bool {
        let mut open = vec![value];
        let mut seen = 0;
        while let Some(value) = open.pop() {
            let Definition::Result { op, .. } = self.graph.value(value).definition else {
                return false;
            };
            let data = self.graph.op(op);
            seen += 1;
            if seen > CONSTANT_OPS_LIMIT || !data.regions.is_empty() || !data.op.is_pure() {
                return false;
            }
            open.extend_from_slice(&data.operands);
        }
        true
    }

    /// A new axis.
    pub(crate) fn axis(&mut self, extent: DimId) -> Result<Index, Refusal> {
        if self.sizes.is_one(extent) {
            return Ok(Index::Unit);
        }
        let axis = self.axes.len();
        if axis == AXIS_LIMIT {
            return Err(Refusal::Limit {
                what: "axes",
                given: axis + 1,
                limit: AXIS_LIMIT,
            });
        }
        self.axes.push(AxisInfo { extent });
        Ok(Index::Axis(axis))
    }

    /// Requires that two sizes are equal, by proof or by a plan fact, which is recorded.
    pub(crate) fn require_equal(
        &mut self,
        value: ValueId,
        left: DimId,
        right: DimId,
    ) -> Result<(), Refusal> {
        match self.sizes.equal(left, right) {
            Answer::Proved => Ok(()),
            Answer::Under(facts) => {
                self.facts.borrow_mut().extend(facts);
                Ok(())
            }
            unequal => Err(Refusal::Sizes {
                value,
                left,
                right,
                possible: unequal == Answer::Unknown && self.sizes.may_be_equal(left, right),
            }),
        }
    }

    /// Whether a predicate holds, by proof or under plan facts, which are recorded.
    pub(crate) fn holds(&self, predicate: &Predicate) -> bool {
        match self.sizes.answer(predicate) {
            Answer::Proved => true,
            Answer::Under(facts) => {
                self.facts.borrow_mut().extend(facts);
                true
            }
            Answer::Unknown | Answer::Disproved => false,
        }
    }

    /// Whether the candidate computes a value.
    pub(crate) fn computes(&self, value: ValueId) -> bool {
        match self.graph.value(value).definition {
            Definition::Result { op, .. } => self.ops.contains(&op),
            Definition::Parameter { .. } => false,
        }
    }

    /// Records that a value is demanded.
    pub(crate) fn demand(&mut self, value: ValueId, demand: Demand) -> Result<(), Refusal> {
        let demands = self.demands.entry(value).or_default();
        if let Some(known) = demands
            .iter_mut()
            .find(|known| known.indices == demand.indices)
        {
            known.scope |= demand.scope;
            known.stages.extend(demand.stages);
            known.stored |= demand.stored;
            known.repeated |= demand.repeated;
            return Ok(());
        }
        if demands.len() == DEMAND_LIMIT {
            return Err(Refusal::Limit {
                what: "places where one value is read",
                given: DEMAND_LIMIT + 1,
                limit: DEMAND_LIMIT,
            });
        }
        demands.push(demand);
        Ok(())
    }

    /// Finds where the elements of a result are stored: at the positions at which it is read anyway, over the points of
    /// the earlier results, or over new points if it is the first.
    fn store(&mut self, value: ValueId) -> Result<(), Refusal> {
        let read_at = self.demands.get(&value).and_then(|demands| {
            let plain = demands.iter().filter(|demand| is_plain(&demand.indices));
            plain
                .min_by_key(|demand| !demand.stored)
                .map(|demand| demand.indices.clone())
        });
        let indices = match (read_at, self.stores.first().cloned()) {
            (Some(indices), _) => indices,
            (None, None) => {
                let dims = self.dims(value).to_vec();
                dims.into_iter()
                    .map(|dim| self.axis(dim))
                    .collect::<Result<_, _>>()?
            }
            (None, Some(_)) => self.align(value)?,
        };
        let demand = Demand {
            scope: axes_of(&indices),
            indices: indices.clone(),
            stages: BTreeSet::new(),
            stored: true,
            repeated: false,
        };
        self.demand(value, demand)?;
        self.stores.push(Store { value, indices });
        Ok(())
    }

    /// Indices for a result over the points of an earlier one: each size must equal its counterpart; if the earlier
    /// result has size 1, the axis is a new one.
    fn align(&mut self, value: ValueId) -> Result<Indices, Refusal> {
        let mut first_refusal = None;
        for store in self.stores.clone() {
            let facts = self.facts.borrow().clone();
            match self.align_with(value, &store) {
                Ok(indices) => return Ok(indices),
                Err(refusal) => {
                    self.facts = RefCell::new(facts);
                    first_refusal.get_or_insert(refusal);
                }
            }
        }
        Err(first_refusal.unwrap_or(Refusal::Unrelated))
    }

    fn align_with(&mut self, value: ValueId, store: &Store) -> Result<Indices, Refusal> {
        let (dims, others) = (self.dims(value).to_vec(), self.dims(store.value).to_vec());
        if dims.len() != others.len() || !is_plain(&store.indices) {
            return Err(Refusal::Domains {
                left: value,
                right: store.value,
            });
        }
        let mut indices = Indices::new();
        for ((&dim, &other), &index) in dims.iter().zip(&others).zip(&store.indices) {
            let one = self.sizes.is_one(dim);
            indices.push(match index {
                _ if one => Index::Unit,
                Index::Unit => self.axis(dim)?,
                index => {
                    self.require_equal(value, dim, other)?;
                    index
                }
            });
        }
        Ok(indices)
    }
}
