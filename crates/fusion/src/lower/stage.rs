//! Stages: values computed once and read by several consumers.
//!
//! A reduction demanded at indices of outer axes alone is a scalar. If an index runs along an inner axis of the
//! demanding stage, the reduction becomes an array over its own axis, which that index reads; all consumers along
//! different axes read one array. Any other index (computed from inner axes) is rejected.

use std::collections::BTreeSet;

use kiln_ir::ValueId;
use kiln_kernel::{Axes, AxisId, Extent, Node, NodeId, Nodes, Stage, StageId, StageOperation};
use kiln_scalar::{ScalarOp, ScalarValue, Signature};
use kiln_symbolic_shape::DimId;
use smallvec::SmallVec;

use super::LowerError;
use super::context::{Demand, RegionLowering, Step};
use super::guard::GuardId;
use super::index::Parts;

/// The part number that denotes the value itself, kept in an array, as opposed to the stages with which it is computed.
pub(super) const WHOLE: usize = usize::MAX;

/// The key by which two demands share a stage.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct StageKey {
    value: ValueId,
    /// The index among the value's stages.
    part: usize,
    parts: SmallVec<[(usize, Place); 6]>,
    guard: GuardId,
}

/// One part of an index of a stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Place {
    /// A position that is known when the stage is computed.
    Outer(NodeId, DimId),
    /// An axis of the stage itself.
    Own(DimId),
}

/// The operation of a stage and its value.
pub(super) type StageBody = Step<(StageOperation, NodeId)>;

/// A stage about to be created.
pub(super) struct NewStage {
    key: StageKey,
    /// The indices at which the value is demanded.
    pub(super) indices: Nodes,
    /// The guard.
    pub(super) guard: GuardId,
    /// The axes of the local.
    pub(super) own: Axes,
}

impl RegionLowering<'_> {
    /// Reads a stage that computes `demand`; `body` creates it if it does not exist.
    pub(super) fn read_stage(
        &mut self,
        demand: &Demand,
        body: &mut dyn FnMut(&mut Self, &NewStage) -> StageBody,
    ) -> Step<NodeId> {
        self.read_stage_part(demand, 0, body)
    }

    /// The same for one of several stages that compute one value.
    pub(super) fn read_stage_part(
        &mut self,
        demand: &Demand,
        part: usize,
        body: &mut dyn FnMut(&mut Self, &NewStage) -> StageBody,
    ) -> Step<NodeId> {
        let (key, reads) = self.stage_key(demand, part)?;
        let stage = match self.stages.get(&key) {
            Some(&stage) => stage,
            None => {
                let new = self.new_stage(key);
                let (operation, value) = body(self, &new)?;
                let mut axes = self.axes_of(value).clone();
                for &axis in reduced_axes(&operation) {
                    if let Extent::Clamped { value, .. } = self.b.kernel().axis(axis).extent {
                        axes.extend(self.axes_of(value).clone());
                    }
                }
                for axis in reduced_axes(&operation).iter().chain(&new.own) {
                    axes.remove(axis);
                }
                let name = format!("s{}", self.b.kernel().stages().len());
                let stage = self.b.push_stage(Stage {
                    name,
                    axes: new.own,
                    operation,
                    value,
                    init: None,
                });
                let outer: BTreeSet<AxisId> = axes.intersection(&self.ambient).copied().collect();
                // Further stages of a value are small compared with the first.
                if part == 0 {
                    self.findings.stages.push((demand.value, outer));
                }
                self.index.of_stages.insert(stage, axes);
                self.stages.insert(new.key, stage);
                stage
            }
        };
        Ok(self.b.local(stage, reads))
    }

    /// A stage of the open carry block that continues from its value at the previous step, initially `start`. Also how it
    /// is read.
    pub(super) fn read_carried(
        &mut self,
        demand: &Demand,
        start: ScalarValue,
        body: &mut dyn FnMut(&mut Self, &NewStage, NodeId) -> Step<NodeId>,
    ) -> Step<(StageId, Nodes)> {
        let (key, reads) = self.stage_key(demand, 0)?;
        if let Some(&stage) = self.stages.get(&key) {
            return Ok((stage, reads));
        }
        let new = self.new_stage(key);
        let stage = match self.declared.get(&new.key) {
            Some(&stage) => stage,
            None => {
                let start = self.b.literal(start);
                let name = format!("s{}", self.b.kernel().stages().len());
                let stage = self.b.declare_stage(name, new.own.iter().copied(), start);
                self.declared.insert(new.key.clone(), stage);
                stage
            }
        };
        let own: Nodes = new.own.iter().map(|&axis| self.b.index(axis)).collect();
        let before = self.b.previous(stage, own);
        // Its value depends on the step, and on everything its expression depends on.
        self.index
            .of_stages
            .insert(stage, self.ambient.iter().copied().collect());
        let value = body(self, &new, before)?;
        self.b.define_stage(stage, StageOperation::Map, value);
        self.stages.insert(new.key, stage);
        Ok((stage, reads))
    }

    /// A factor of a product that a stage sums.
    ///
    /// Where the stage is an array, and the factor is costly and does not run along it, the factor becomes its own array
    /// first: the probabilities of an attention are computed once, not once per column.
    pub(super) fn factor(
        &mut self,
        value: ValueId,
        indices: Nodes,
        stage: &NewStage,
        reduced: &Axes,
    ) -> Step<NodeId> {
        let demand = Demand {
            value,
            indices,
            guard: stage.guard,
        };
        let plain = self.get(value, demand.indices.clone(), demand.guard)?;
        let axes = self.axes_of(plain).clone();
        let runs = reduced.iter().any(|axis| axes.contains(axis));
        let repeats = stage.own.iter().any(|axis| !axes.contains(axis));
        if !runs || !repeats || !self.is_costly(plain) || self.stage_key(&demand, WHOLE).is_err() {
            return Ok(plain);
        }
        self.read_stage_part(&demand, WHOLE, &mut |this, array| {
            let element = this.get(value, array.indices.clone(), array.guard)?;
            Ok((StageOperation::Map, element))
        })
    }

    /// Whether a node computes more at each point of inner axes, above its loads and locals, than a few sums and products.
    pub(super) fn is_costly(&mut self, node: NodeId) -> bool {
        let mut pending = vec![node];
        let mut seen = BTreeSet::new();
        while let Some(node) = pending.pop() {
            if !seen.insert(node) || self.is_ambient(node) {
                continue;
            }
            let kernel = self.b.kernel();
            match kernel.node(node) {
                Node::Call { .. } => return true,
                Node::Apply { op, operands } => {
                    let float = kernel.dtype(node).is_float();
                    let cheap = matches!(
                        op.signature(),
                        Signature::Cast(_) | Signature::Compare | Signature::Select
                    ) || matches!(
                        op,
                        ScalarOp::Add | ScalarOp::Sub | ScalarOp::Mul | ScalarOp::Neg
                    );
                    if float && !cheap {
                        return true;
                    }
                    pending.extend(operands.iter().copied());
                }
                _ => {}
            }
        }
        false
    }

    /// An axis that a stage reduces over, as an index: `slot` counts the stage's axes.
    ///
    /// If a reshape below prefers several axes, those are created, and the index is merged from them.
    pub(super) fn reduced_axis(
        &mut self,
        stage: &NewStage,
        slot: usize,
        size: DimId,
        axes: &mut Axes,
    ) -> NodeId {
        if self.fixed(size) == Some(1) {
            return self.integer(0);
        }
        let owner = (stage.key.value, slot);
        let sizes = match self.revision.splits.get(&owner) {
            Some(sizes) => sizes.clone(),
            None => SmallVec::from_slice(&[size]),
        };
        let splits = sizes.len() > 1;
        let mut parts = Parts::new();
        for (nth, size) in sizes.into_iter().enumerate() {
            // Its own axes come first, then space for each slot's parts.
            let place = (slot + 1) * 64 + nth;
            let axis = self.stage_axis(&stage.key, place, "r", size);
            if !splits {
                self.axis_owners.insert(axis, owner);
            }
            axes.push(axis);
            parts.push((self.b.index(axis), size));
        }
        self.merge(&parts)
    }

    /// An axis that a stage reduces over and that must stay one.
    pub(super) fn whole_axis(&mut self, stage: &NewStage, slot: usize, size: DimId) -> AxisId {
        self.stage_axis(&stage.key, (slot + 1) * 64, "r", size)
    }

    /// An axis with a computed extent.
    pub(super) fn clamped_axis(
        &mut self,
        stage: &NewStage,
        slot: usize,
        value: NodeId,
        bound: DimId,
    ) -> AxisId {
        let key = (stage.key.clone(), (slot + 1) * 64);
        match self.stage_axes.get(&key) {
            Some(&axis) => axis,
            None => {
                let name = format!("r{}", self.b.kernel().axes().len());
                let axis = self.b.push_axis(name, Extent::Clamped { value, bound });
                self.stage_axes.insert(key, axis);
                axis
            }
        }
    }

    fn stage_axis(&mut self, stage: &StageKey, place: usize, stem: &str, size: DimId) -> AxisId {
        let key = (stage.clone(), place);
        if let Some(&axis) = self.stage_axes.get(&key) {
            return axis;
        }
        let axis = self.new_axis(stem, size);
        self.stage_axes.insert(key, axis);
        axis
    }

    /// An inner axis with a unique name.
    pub(super) fn new_axis(&mut self, stem: &str, size: DimId) -> AxisId {
        let name = format!("{stem}{}", self.b.kernel().axes().len());
        self.b.axis(name, size)
    }

    /// The stage that provides a demanded value, and how it is read.
    pub(super) fn stage_key(
        &mut self,
        demand: &Demand,
        part: usize,
    ) -> Result<(StageKey, Nodes), LowerError> {
        let shape = self.shape(demand.value)?;
        let mut parts = SmallVec::new();
        let mut reads = Nodes::new();
        for (axis, (&index, &size)) in demand.indices.iter().zip(&shape).enumerate() {
            for (index, size) in self.parts_of(index, size) {
                if self.is_ambient(index) {
                    parts.push((axis, Place::Outer(index, size)));
                    continue;
                }
                let runs_along = self.as_axis(index).is_some_and(|axis| {
                    let extent = self.b.kernel().axis(axis).extent;
                    self.equal(extent.bound(), size)
                });
                if !runs_along || reads.contains(&index) {
                    return Err(LowerError::Recompute {
                        value: demand.value,
                        axis,
                    });
                }
                parts.push((axis, Place::Own(size)));
                reads.push(index);
            }
        }
        let guard = self.ambient_guard(demand.guard);
        let value = demand.value;
        Ok((
            StageKey {
                value,
                part,
                parts,
                guard,
            },
            reads,
        ))
    }

    fn new_stage(&mut self, key: StageKey) -> NewStage {
        let mut indices = Nodes::new();
        let mut own = Axes::new();
        let rank = key.parts.last().map_or(0, |&(axis, _)| axis + 1);
        for at in 0..rank {
            let mut parts = Parts::new();
            for (place, &(axis, part)) in key.parts.iter().enumerate() {
                if axis != at {
                    continue;
                }
                parts.push(match part {
                    Place::Outer(index, size) => (index, size),
                    Place::Own(size) => {
                        let axis = self.stage_axis(&key, place, "j", size);
                        own.push(axis);
                        (self.b.index(axis), size)
                    }
                });
            }
            indices.push(match parts.as_slice() {
                &[(index, _)] => index,
                _ => self.merge(&parts),
            });
        }
        NewStage {
            guard: key.guard,
            key,
            indices,
            own,
        }
    }
}

fn reduced_axes(operation: &StageOperation) -> &[AxisId] {
    match operation {
        StageOperation::Map => &[],
        StageOperation::Reduce { axes, .. } => axes,
    }
}
