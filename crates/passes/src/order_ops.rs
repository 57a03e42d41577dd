//! `order_ops`: sorts the ops of each region by their results, whatever order they were written in.
//!
//! The post-order of a depth-first walk from a region's results: operands first, in order; then the ops that bind the
//! sizes. A model's nodes may be written in many orders, and exporters change theirs; later passes and fusion number
//! ops, and break ties by number. With this pass, their decisions are the same for all these orders.
//!
//! Ops that no result needs come last, in their original order. Custom ops keep their relative order, since their effects
//! are unknown.

use std::collections::{BTreeSet, HashMap};
use std::convert::Infallible;

use cranelift_entity::packed_option::PackedOption;
use cranelift_entity::{EntityRef, SecondaryMap};
use kiln_ir::{Definition, Graph, Op, OpId, Rebuild, RegionId, ValueId, Visit};
use kiln_symbolic_shape::{DimId, SymbolId};

/// The ops of every region in the order of a walk from its results.
pub(crate) fn order_ops(graph: Graph) -> Graph {
    let orders = Walk::over(&graph);
    let is_ordered = |region: RegionId| graph.region(region).ops == orders[region];
    if (0..graph.n_regions()).map(RegionId::new).all(is_ordered) {
        return graph;
    }
    let Ok(ordered) = Rebuild::new(&graph)
        .in_order(orders)
        .run::<Infallible>(&mut |_, _, _| Ok(Visit::Copy));
    ordered
}

/// The work to do for an op.
enum Task {
    Visit(OpId),
    Leave(OpId),
}

struct Walk<'a> {
    graph: &'a Graph,
    /// The region that holds an op.
    region_of: SecondaryMap<OpId, PackedOption<RegionId>>,
    /// The op that binds a symbol.
    definers: SecondaryMap<SymbolId, PackedOption<OpId>>,
    /// The previous custom op.
    earlier: SecondaryMap<OpId, PackedOption<OpId>>,
    visited: SecondaryMap<OpId, bool>,
    has_definers: bool,
    /// The dependencies found for sizes.
    of_dim: HashMap<DimId, Vec<OpId>>,
    orders: SecondaryMap<RegionId, Vec<OpId>>,
}

impl<'a> Walk<'a> {
    fn over(graph: &'a Graph) -> SecondaryMap<RegionId, Vec<OpId>> {
        let mut walk = Self {
            graph,
            region_of: SecondaryMap::with_capacity(graph.n_ops()),
            definers: SecondaryMap::new(),
            earlier: SecondaryMap::new(),
            visited: SecondaryMap::with_capacity(graph.n_ops()),
            has_definers: false,
            of_dim: HashMap::new(),
            orders: SecondaryMap::new(),
        };
        for (id, data) in graph.ops() {
            for &symbol in &data.symbols {
                walk.definers[symbol] = id.into();
                walk.has_definers = true;
            }
        }
        for region in (0..graph.n_regions()).map(RegionId::new) {
            let mut custom = PackedOption::default();
            for &op in &graph.region(region).ops {
                walk.region_of[op] = region.into();
                if matches!(graph.op(op).op, Op::Custom { .. }) {
                    walk.earlier[op] = std::mem::replace(&mut custom, op.into());
                }
            }
        }
        // Inner orders are ready when an outer op needs them.
        for region in walk.innermost_first() {
            walk.order(region);
        }
        walk.orders
    }

    /// Every region after those of its ops.
    fn innermost_first(&self) -> Vec<RegionId> {
        let mut outermost_first = vec![self.graph.body()];
        let mut next = 0;
        while let Some(&region) = outermost_first.get(next) {
            next += 1;
            for &op in &self.graph.region(region).ops {
                outermost_first.extend(self.graph.op(op).regions.iter().copied());
            }
        }
        outermost_first.reverse();
        outermost_first
    }

    fn order(&mut self, region: RegionId) {
        let data = self.graph.region(region);
        let results = data.results.iter().filter_map(|&value| self.giver(value));
        let mut roots: Vec<OpId> = results.collect();
        roots.extend(data.ops.iter().copied());
        let mut pending: Vec<Task> = Vec::new();
        for root in roots {
            pending.push(Task::Visit(root));
            while let Some(task) = pending.pop() {
                match task {
                    Task::Leave(op) => self.orders[region].push(op),
                    Task::Visit(op) => {
                        if self.region_of[op].expand() != Some(region) || self.visited[op] {
                            continue;
                        }
                        self.visited[op] = true;
                        pending.push(Task::Leave(op));
                        let before = self.before(op, region);
                        pending.extend(before.into_iter().rev().map(Task::Visit));
                    }
                }
            }
        }
    }

    /// The ops of a region that have to come before one of its ops, in the order of its references.
    fn before(&mut self, op: OpId, region: RegionId) -> Vec<OpId> {
        let mut before = Vec::new();
        before.extend(self.earlier[op].expand());
        // Ops of inner regions may read values of this region.
        let mut ops = vec![op];
        let mut next = 0;
        while let Some(&inner) = ops.get(next) {
            next += 1;
            let data = self.graph.op(inner);
            before.extend(data.operands.iter().filter_map(|&value| self.giver(value)));
            for &region in &data.regions {
                ops.extend(self.orders[region].iter().copied());
                let results = self.graph.region(region).results.iter();
                before.extend(results.filter_map(|&value| self.giver(value)));
            }
        }
        for inner in ops {
            before.extend(self.sized_by(inner));
        }
        before.retain(|&other| other != op && self.region_of[other].expand() == Some(region));
        before
    }

    /// The ops that bind the symbols in an op's sizes.
    fn sized_by(&mut self, op: OpId) -> Vec<OpId> {
        if !self.has_definers {
            return Vec::new();
        }
        let data = self.graph.op(op);
        let mut dims: Vec<DimId> = Vec::new();
        data.op.for_each_dim(&mut |dim| dims.push(dim));
        let regions = data.regions.iter().map(|&region| self.graph.region(region));
        let parameters = regions.flat_map(|region| &region.parameters);
        for &value in data.results.iter().chain(parameters) {
            dims.extend(&self.graph.ty(value).innermost().dims);
        }
        let mut definers = Vec::new();
        for dim in dims {
            if !self.of_dim.contains_key(&dim) {
                let found = self.definers_below(dim);
                self.of_dim.insert(dim, found);
            }
            definers.extend(self.of_dim.get(&dim).into_iter().flatten().copied());
        }
        definers
    }

    /// The ops that bind a size's symbols, following definitions of derived symbols.
    fn definers_below(&self, dim: DimId) -> Vec<OpId> {
        let table = self.graph.dims();
        let mut pending = table.symbols_in(dim);
        let mut seen = BTreeSet::new();
        let mut found = Vec::new();
        while let Some(symbol) = pending.pop() {
            if seen.insert(symbol) {
                found.extend(self.definers[symbol].expand());
                let definition = table.definition(symbol).into_iter();
                pending.extend(definition.flat_map(|definition| table.symbols_in(definition)));
            }
        }
        found
    }

    fn giver(&self, value: ValueId) -> Option<OpId> {
        match self.graph.value(value).definition {
            Definition::Result { op, .. } => Some(op),
            Definition::Parameter { .. } => None,
        }
    }
}
