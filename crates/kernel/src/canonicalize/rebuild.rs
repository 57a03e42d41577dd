//! Rebuilds a kernel from the parts that are used, in the order in which they are used, with names assigned by that
//! order.

use std::collections::{BTreeMap, BTreeSet};

use cranelift_entity::SecondaryMap;
use kiln_symbolic_shape::{
    ContractFact, DimId, DimImport, DimTable, FactOrigin, Hint, Predicate, SymbolId,
    SymbolicDimension,
};

use super::slots::slots;
use crate::form::reachable;
use crate::form::{
    Axes, AxisId, Buffer, Carry, Extent, Item, Kernel, KernelBuilder, Node, NodeId, Stage, StageId,
    StageOperation, Store,
};

/// Which facts about sizes are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Facts {
    /// The divisors of sizes.
    Multiples,
    /// All about symbols in use.
    All,
}

/// The rebuilt kernel, and the old symbol for each new one. `None` if a size cannot be rewritten.
pub(super) fn rebuild(kernel: &Kernel, facts: Facts) -> Option<(Kernel, Vec<SymbolId>)> {
    let live = live_stages(kernel);
    let (dims, import, symbols) = renamed_dims(kernel, facts)?;
    let mut rebuild = Rebuild {
        kernel,
        live,
        builder: KernelBuilder::new("kernel", dims),
        import,
        axes: SecondaryMap::new(),
        nodes: BTreeMap::new(),
        stages: SecondaryMap::new(),
        n_axes: 0,
        n_stages: 0,
    };
    rebuild.run()?;
    let rebuilt = rebuild.builder.finish().ok()?;
    Some((rebuilt, symbols))
}

/// The stages that stores need.
fn live_stages(kernel: &Kernel) -> BTreeSet<StageId> {
    let mut live = BTreeSet::new();
    let mut pending: Vec<NodeId> = Vec::new();
    for store in crate::form::stores(kernel) {
        pending.extend(store.indices.iter().chain([&store.value]));
    }
    for axis in kernel.axes().values() {
        if let Extent::Clamped { value, .. } = axis.extent {
            pending.push(value);
        }
    }
    let mut seen = BTreeSet::new();
    while let Some(root) = pending.pop() {
        if !seen.insert(root) {
            continue;
        }
        for node in reachable(kernel, &[root]) {
            if let Node::Local { stage, .. }
            | Node::Previous { stage, .. }
            | Node::Last { stage, .. } = kernel.node(node)
                && live.insert(*stage)
            {
                let stage = kernel.stage(*stage);
                pending.push(stage.value);
                pending.extend(stage.init);
            }
        }
    }
    live
}

/// A table of the symbols in use, named `s0`, `s1` and so on: first those that occur alone somewhere.
fn renamed_dims(kernel: &Kernel, facts: Facts) -> Option<(DimTable, DimImport, Vec<SymbolId>)> {
    let old = kernel.dims();
    let slots = slots(kernel);
    let alone = slots.iter().filter_map(|&(_, dim)| old.as_symbol(dim));
    let inside = slots.iter().flat_map(|&(_, dim)| old.symbols_in(dim));
    let mut order: Vec<SymbolId> = Vec::new();
    let mut seen = BTreeSet::new();
    let mut pending: Vec<SymbolId> = alone.chain(inside).collect();
    pending.reverse();
    while let Some(symbol) = pending.pop() {
        if !seen.insert(symbol) {
            continue;
        }
        order.push(symbol);
        if let Some(definition) = old.definition(symbol) {
            pending.extend(old.symbols_in(definition));
        }
    }
    // Definitions come before the symbols they define.
    order.sort_by_key(|&symbol| old.definition(symbol).map(|_| symbol));
    let mut dims = DimTable::with_limits(old.limits().clone());
    let mut import = DimImport::new();
    for (number, &symbol) in order.iter().enumerate() {
        let name = format!("s{number}");
        let new = match old.definition(symbol) {
            Some(definition) => {
                let value = dims.import(old, definition, &mut import).ok()?;
                dims.define(&name, value)
            }
            None if old.declared_min(symbol) < 0 => {
                dims.declare(SymbolicDimension::integer(name)).ok()?
            }
            None => dims.declare(SymbolicDimension::named(name)).ok()?,
        };
        import.map(symbol, dims.dim(new));
    }
    keep_facts(old, &mut dims, &mut import, &seen, facts)?;
    for hint in old.hints() {
        if let Some(symbol) = import.get(hint.symbol).and_then(|dim| dims.as_symbol(dim)) {
            dims.hint(Hint { symbol, ..*hint });
        }
    }
    Some((dims, import, order))
}

fn keep_facts(
    old: &DimTable,
    dims: &mut DimTable,
    import: &mut DimImport,
    used: &BTreeSet<SymbolId>,
    facts: Facts,
) -> Option<()> {
    let mut kept = Vec::new();
    for fact in old.contract_facts() {
        let is_kept = facts == Facts::All || matches!(fact.predicate, Predicate::Divides { .. });
        let of = fact.predicate.dims();
        let is_known = of
            .iter()
            .flat_map(|&dim| old.symbols_in(dim))
            .all(|s| used.contains(&s));
        if !is_kept || !is_known {
            continue;
        }
        let mut copy = |dim: DimId| dims.import(old, dim, import).ok();
        let predicate = match &fact.predicate {
            Predicate::Equal(a, b) => Predicate::Equal(copy(*a)?, copy(*b)?),
            Predicate::NotEqual(a, b) => Predicate::NotEqual(copy(*a)?, copy(*b)?),
            Predicate::LessEqual(a, b) => Predicate::LessEqual(copy(*a)?, copy(*b)?),
            Predicate::Less(a, b) => Predicate::Less(copy(*a)?, copy(*b)?),
            Predicate::Divides { divisor, dim } => Predicate::Divides {
                divisor: *divisor,
                dim: copy(*dim)?,
            },
            Predicate::ProductEqual(a, b) => Predicate::ProductEqual(
                a.iter().map(|&dim| copy(dim)).collect::<Option<_>>()?,
                b.iter().map(|&dim| copy(dim)).collect::<Option<_>>()?,
            ),
        };
        kept.push((dims.display_predicate(&predicate).to_string(), predicate));
    }
    kept.sort_by(|a, b| a.0.cmp(&b.0));
    for (_, predicate) in kept {
        let fact = ContractFact {
            predicate,
            origin: FactOrigin::Declared,
        };
        dims.assume(fact).ok()?;
    }
    Some(())
}

struct Rebuild<'k> {
    kernel: &'k Kernel,
    live: BTreeSet<StageId>,
    builder: KernelBuilder,
    import: DimImport,
    axes: SecondaryMap<AxisId, Option<AxisId>>,
    nodes: BTreeMap<NodeId, NodeId>,
    stages: SecondaryMap<StageId, Option<StageId>>,
    n_axes: usize,
    n_stages: usize,
}

impl Rebuild<'_> {
    fn run(&mut self) -> Option<()> {
        let kernel = self.kernel;
        for (number, buffer) in kernel.buffers().values().enumerate() {
            let shape = self.dims(&buffer.shape)?;
            let strides = match &buffer.strides {
                Some(strides) => Some(self.dims(strides)?.into_iter().collect()),
                None => None,
            };
            self.builder.push_buffer(Buffer {
                name: format!("b{number}"),
                shape: shape.into_iter().collect(),
                strides,
                ..buffer.clone()
            });
        }
        for &axis in kernel.outer() {
            let size = self.dim(kernel.axis(axis).extent.bound())?;
            let name = self.axis_name();
            self.axes[axis] = Some(self.builder.outer(name, size));
        }
        for item in kernel.items() {
            match item {
                Item::Carry(carry) => self.carry(carry)?,
                item => self.item(item)?,
            }
        }
        Some(())
    }

    fn dim(&mut self, dim: DimId) -> Option<DimId> {
        let old = self.kernel.dims();
        self.builder
            .dims_mut()
            .import(old, dim, &mut self.import)
            .ok()
    }

    fn dims(&mut self, dims: &[DimId]) -> Option<Vec<DimId>> {
        dims.iter().map(|&dim| self.dim(dim)).collect()
    }

    fn axis_name(&mut self) -> String {
        self.n_axes += 1;
        format!("a{}", self.n_axes - 1)
    }

    fn inner(&mut self, axes: &[AxisId]) -> Option<Axes> {
        let mut found = Axes::new();
        for &axis in axes {
            let extent = match self.kernel.axis(axis).extent {
                Extent::Size(size) => Extent::Size(self.dim(size)?),
                Extent::Clamped { value, bound } => Extent::Clamped {
                    value: self.node(value)?,
                    bound: self.dim(bound)?,
                },
            };
            let name = self.axis_name();
            let new = self.builder.push_axis(name, extent);
            self.axes[axis] = Some(new);
            found.push(new);
        }
        Some(found)
    }

    fn is_live(&self, item: &Item) -> bool {
        match item {
            Item::Stage(stage) => self.live.contains(stage),
            _ => true,
        }
    }

    fn carry(&mut self, carry: &Carry) -> Option<()> {
        if !carry.items.iter().any(|item| self.is_live(item)) {
            return Some(());
        }
        let axis = *self.inner(&[carry.axis])?.first()?;
        for item in &carry.items {
            if let Item::Stage(id) = item
                && self.live.contains(id)
                && let Some(init) = self.kernel.stage(*id).init
            {
                let own = self.kernel.stage(*id).axes.clone();
                let axes = self.inner(&own)?;
                let init = self.node(init)?;
                let name = self.stage_name();
                self.stages[*id] = Some(self.builder.declare_stage(name, axes, init));
            }
        }
        self.builder.begin_carry(axis, carry.reverse);
        for item in &carry.items {
            self.item(item)?;
        }
        self.builder.end_carry();
        Some(())
    }

    fn stage_name(&mut self) -> String {
        self.n_stages += 1;
        format!("v{}", self.n_stages - 1)
    }

    fn item(&mut self, item: &Item) -> Option<()> {
        match item {
            Item::Stage(id) if self.live.contains(id) => self.stage(*id),
            Item::Store(store) => self.store(store),
            _ => Some(()),
        }
    }

    fn stage(&mut self, id: StageId) -> Option<()> {
        let kernel = self.kernel;
        let stage = kernel.stage(id);
        let declared = self.stages[id];
        let axes = match declared {
            Some(_) => Axes::new(),
            None => self.inner(&stage.axes)?,
        };
        let operation = match &stage.operation {
            StageOperation::Map => StageOperation::Map,
            StageOperation::Reduce {
                reduction,
                axes,
                accumulator,
            } => StageOperation::Reduce {
                reduction: *reduction,
                axes: self.inner(axes)?,
                accumulator: *accumulator,
            },
        };
        let value = self.node(stage.value)?;
        match declared {
            Some(new) => self.builder.define_stage(new, operation, value),
            None => {
                let name = self.stage_name();
                self.stages[id] = Some(self.builder.push_stage(Stage {
                    name,
                    axes,
                    operation,
                    value,
                    init: None,
                }));
            }
        }
        Some(())
    }

    fn store(&mut self, store: &Store) -> Option<()> {
        let axes = self.inner(&store.axes)?;
        let mut indices = crate::form::Nodes::new();
        for &index in &store.indices {
            indices.push(self.node(index)?);
        }
        let value = self.node(store.value)?;
        self.builder.push_store(Store {
            axes,
            indices,
            value,
            ..store.clone()
        });
        Some(())
    }

    /// A rebuilt node, operands first.
    fn node(&mut self, root: NodeId) -> Option<NodeId> {
        let kernel = self.kernel;
        let mut pending = vec![(root, false)];
        while let Some((id, is_ready)) = pending.pop() {
            if self.nodes.contains_key(&id) {
                continue;
            }
            let node = kernel.node(id);
            if !is_ready {
                pending.push((id, true));
                let mut operands = Vec::new();
                node.for_each_operand(&mut |operand| operands.push((operand, false)));
                pending.extend(operands.into_iter().rev());
                continue;
            }
            let mut renewed = node.clone();
            let nodes = &self.nodes;
            renewed.map_operands(&mut |operand| nodes.get(&operand).copied().unwrap_or(operand));
            match &mut renewed {
                Node::Axis(axis) => *axis = self.axes[*axis]?,
                Node::Size(dim) => *dim = self.dim(*dim)?,
                Node::Local { stage, .. }
                | Node::Previous { stage, .. }
                | Node::Last { stage, .. } => {
                    *stage = self.stages[*stage]?;
                }
                _ => {}
            }
            let new = self.builder.push_node(renewed);
            self.nodes.insert(id, new);
        }
        self.nodes.get(&root).copied()
    }
}
