//! Names and scopes: which axes and stages may be used where.
//!
//! The outer axes are in scope everywhere; the axes of a block within it; those of a stage or a store in its own
//! expressions. An `init` can use the outer axes and the stage's own. The value of a clamped extent can use the axes in
//! scope before its own axis. A stage can be read after its definition, by `prev` within its block, and by `last` after
//! the block.

use std::collections::{BTreeMap, BTreeSet};

use cranelift_entity::SecondaryMap;

use super::Report;
use crate::error::KernelError;
use crate::form::{
    AxisId, Carry, Extent, Item, Kernel, Node, NodeId, Stage, StageId, StageOperation, Store,
    reachable,
};

pub(super) fn check(kernel: &Kernel, report: &mut Report) {
    names(kernel, report);
    binders(kernel, report);
    places(kernel, report);
    if !report.is_clean() {
        return;
    }
    let mut scopes = Scopes {
        kernel,
        report,
        axes: Vec::new(),
        states: SecondaryMap::with_default(State::Later),
        block: BTreeSet::new(),
    };
    for &axis in kernel.outer() {
        scopes.size_only(axis);
        scopes.enter(axis);
    }
    for item in kernel.items() {
        match item {
            Item::Carry(carry) => scopes.carry(carry),
            item => scopes.item(item),
        }
    }
}

fn names(kernel: &Kernel, report: &mut Report) {
    let mut twice = |kind: &'static str, names: Vec<&str>| {
        let mut seen = BTreeSet::new();
        for name in names {
            if !seen.insert(name) {
                report.push(KernelError::Name {
                    kind,
                    name: name.to_string(),
                });
            }
        }
    };
    let buffers = kernel.buffers().values();
    twice(
        "buffer",
        buffers.map(|buffer| buffer.name.as_str()).collect(),
    );
    let stages = kernel.stages().values();
    twice("stage", stages.map(|stage| stage.name.as_str()).collect());
    let outer = kernel.outer().iter();
    twice(
        "axis",
        outer.map(|&axis| kernel.axis(axis).name.as_str()).collect(),
    );
}

/// Checks that every axis is run over at one place.
fn binders(kernel: &Kernel, report: &mut Report) {
    let mut found: SecondaryMap<AxisId, usize> = SecondaryMap::new();
    let mut bind = |axes: &[AxisId]| axes.iter().for_each(|&axis| found[axis] += 1);
    bind(kernel.outer());
    for stage in kernel.stages().values() {
        bind(&stage.axes);
        bind(reduced(stage));
    }
    for item in kernel.items() {
        match item {
            Item::Store(store) => bind(&store.axes),
            Item::Carry(carry) => {
                bind(&[carry.axis]);
                for item in &carry.items {
                    if let Item::Store(store) = item {
                        bind(&store.axes);
                    }
                }
            }
            Item::Stage(_) => {}
        }
    }
    for (id, axis) in kernel.axes() {
        // An unused axis without a loop is a leftover from building, and harmless.
        if found[id] > 1 {
            report.push(KernelError::AxisBinders {
                axis: axis.name.clone(),
                found: found[id],
            });
        }
    }
}

/// Checks that every stage is computed at one place.
fn places(kernel: &Kernel, report: &mut Report) {
    let mut found: SecondaryMap<StageId, usize> = SecondaryMap::new();
    for item in kernel.items() {
        match item {
            Item::Stage(stage) => found[*stage] += 1,
            Item::Carry(carry) => {
                for item in &carry.items {
                    if let Item::Stage(stage) = item {
                        found[*stage] += 1;
                    }
                }
            }
            Item::Store(_) => {}
        }
    }
    for (id, stage) in kernel.stages() {
        if found[id] != 1 {
            report.push(KernelError::StagePlaces {
                stage: stage.name.clone(),
                found: found[id],
            });
        }
    }
}

/// The axes over which a stage reduces.
fn reduced(stage: &Stage) -> &[AxisId] {
    match &stage.operation {
        StageOperation::Map => &[],
        StageOperation::Reduce { axes, .. } => axes,
    }
}

/// How a stage can be read at the walk's position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Its place comes later.
    Later,
    /// Its place came before, in the same list or around it.
    Computed,
    /// It belongs to a block that has ended.
    Ended,
}

struct Scopes<'a> {
    kernel: &'a Kernel,
    report: &'a mut Report,
    /// The axes in scope, outermost first.
    axes: Vec<AxisId>,
    states: SecondaryMap<StageId, State>,
    /// The stages of the block that the walk is in.
    block: BTreeSet<StageId>,
}

impl Scopes<'_> {
    fn name(&self, axis: AxisId) -> String {
        self.kernel.axis(axis).name.clone()
    }

    /// Brings an axis into scope.
    fn enter(&mut self, axis: AxisId) {
        let name = &self.kernel.axis(axis).name;
        let is_taken = |&other: &AxisId| &self.kernel.axis(other).name == name;
        if self.axes.iter().any(is_taken) {
            self.report.push(KernelError::Name {
                kind: "axis",
                name: name.clone(),
            });
        }
        self.axes.push(axis);
    }

    fn size_only(&mut self, axis: AxisId) {
        if let Extent::Clamped { .. } = self.kernel.axis(axis).extent {
            let axis = self.name(axis);
            self.report.push(KernelError::ClampedExtent { axis });
        }
    }

    /// Brings an axis into scope whose extent may be clamped by something already in scope.
    fn enter_clamped(&mut self, axis: AxisId, place: &str) {
        if let Extent::Clamped { value, .. } = self.kernel.axis(axis).extent {
            self.expressions(place, &[value]);
        }
        self.enter(axis);
    }

    fn carry(&mut self, carry: &Carry) {
        let depth = self.axes.len();
        let place = format!("the block over {}", self.name(carry.axis));
        self.enter_clamped(carry.axis, &place);
        self.block = carry
            .items
            .iter()
            .filter_map(|item| match item {
                Item::Stage(stage) => Some(*stage),
                _ => None,
            })
            .collect();
        for item in &carry.items {
            self.item(item);
        }
        for &stage in &std::mem::take(&mut self.block) {
            self.states[stage] = State::Ended;
        }
        self.axes.truncate(depth);
    }

    fn item(&mut self, item: &Item) {
        match item {
            Item::Stage(id) => self.stage(*id),
            Item::Store(store) => self.store(store),
            Item::Carry(_) => {}
        }
    }

    fn stage(&mut self, id: StageId) {
        let kernel = self.kernel;
        let stage = kernel.stage(id);
        let place = format!("stage {}", stage.name);
        let depth = self.axes.len();
        for &axis in &stage.axes {
            self.size_only(axis);
            self.enter(axis);
        }
        if let Some(init) = stage.init {
            if !self.block.contains(&id) {
                self.report.push(KernelError::Init {
                    stage: stage.name.clone(),
                    expected: "a carry block around it, since it has an init,",
                });
            }
            self.init(&place, init, &stage.axes);
        }
        for &axis in reduced(stage) {
            self.enter_clamped(axis, &place);
        }
        self.expressions(&place, &[stage.value]);
        self.axes.truncate(depth);
        self.states[id] = State::Computed;
    }

    /// Checks an `init`, which is computed before the block begins: it may not use the step, or values computed in the
    /// block.
    fn init(&mut self, place: &str, init: NodeId, own: &[AxisId]) {
        let kernel = self.kernel;
        let place = format!("the init of {place}");
        let block = std::mem::take(&mut self.block);
        let states = self.states.clone();
        for &stage in &block {
            self.states[stage] = State::Later;
        }
        let inside = std::mem::take(&mut self.axes);
        self.axes = kernel.outer().iter().chain(own).copied().collect();
        self.expressions(&place, &[init]);
        self.axes = inside;
        self.states = states;
        self.block = block;
    }

    fn store(&mut self, store: &Store) {
        let kernel = self.kernel;
        let place = format!("the store to %{}", kernel.buffer(store.buffer).name);
        let depth = self.axes.len();
        for &axis in &store.axes {
            self.size_only(axis);
            self.enter(axis);
        }
        let roots: Vec<NodeId> = store
            .indices
            .iter()
            .chain([&store.value])
            .copied()
            .collect();
        self.expressions(&place, &roots);
        self.axes.truncate(depth);
    }

    /// Checks that every node of `roots` refers only to entities in scope here.
    fn expressions(&mut self, place: &str, roots: &[NodeId]) {
        let kernel = self.kernel;
        let mut missing: BTreeMap<AxisId, ()> = BTreeMap::new();
        for node in reachable(kernel, roots) {
            match kernel.node(node) {
                Node::Axis(axis) if !self.axes.contains(axis) => {
                    missing.insert(*axis, ());
                }
                Node::Local { stage, .. } => {
                    let problem = match self.states[*stage] {
                        State::Computed => None,
                        State::Later => Some("it is computed later"),
                        State::Ended => {
                            Some("it belongs to a block that has ended; `last` reads it")
                        }
                    };
                    self.stage_read(place, "local", *stage, problem);
                }
                Node::Previous { stage, .. } => {
                    let problem = if !self.block.contains(stage) {
                        Some("it does not belong to this block")
                    } else if kernel.stage(*stage).init.is_none() {
                        Some("it has no init")
                    } else {
                        None
                    };
                    self.stage_read(place, "prev", *stage, problem);
                }
                Node::Last { stage, .. } => {
                    let problem = if self.states[*stage] != State::Ended {
                        Some("it does not belong to a block that has ended")
                    } else if kernel.stage(*stage).init.is_none() {
                        Some("it has no init")
                    } else {
                        None
                    };
                    self.stage_read(place, "last", *stage, problem);
                }
                _ => {}
            }
        }
        for axis in missing.into_keys() {
            self.report.push(KernelError::AxisScope {
                place: place.to_string(),
                axis: self.name(axis),
            });
        }
    }

    fn stage_read(
        &mut self,
        place: &str,
        access: &'static str,
        stage: StageId,
        problem: Option<&'static str>,
    ) {
        if let Some(reason) = problem {
            self.report.push(KernelError::StageScope {
                place: place.to_string(),
                access,
                stage: self.kernel.stage(stage).name.clone(),
                reason,
            });
        }
    }
}
