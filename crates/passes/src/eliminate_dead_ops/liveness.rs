//! Liveness: values, ops and symbols on which some output, or some effect, depends.
//!
//! There is one worklist for the whole graph, so that the cost is linear, however regions nest and loops carry values.
//! A symbol is live when it is in a size of anything live; then the op that binds it is live too: a `bind`, the results
//! of a control op, the parameters of a region.
//!
//! The following are kept although they have no reader: custom ops, whose effects are unknown; a `bind` whose symbols a
//! contract fact relates to others, because proofs may depend on that fact; and everything that determines whether
//! sizes are rejected: control flow whose regions have requirements, bindings of the symbols in requirements, and
//! stacks whose layers may differ in size.

use cranelift_entity::{EntityRef, SecondaryMap};
use kiln_ir::{Definition, Graph, Op, OpData, OpId, RegionId, ValueId};
use kiln_symbolic_shape::{DimId, SymbolId};

/// The live parts of a graph.
pub(super) struct Liveness {
    /// Live values.
    pub(super) values: SecondaryMap<ValueId, bool>,
    /// Live ops.
    pub(super) ops: SecondaryMap<OpId, bool>,
    /// Symbols in the sizes of anything live.
    pub(super) symbols: SecondaryMap<SymbolId, bool>,
}

impl Liveness {
    /// Computes the live parts of a graph.
    pub(super) fn of(graph: &Graph) -> Self {
        let mut walk = Walk::new(graph);
        walk.roots();
        walk.finish();
        Self {
            values: walk.values,
            ops: walk.ops,
            symbols: walk.symbols,
        }
    }
}

/// An unprocessed worklist item.
enum Item {
    Value(ValueId),
    Op(OpId),
    Symbol(SymbolId),
}

/// Where a symbol is bound.
#[derive(Clone, Copy)]
enum Giver {
    Op(OpId),
    Region(RegionId),
}

struct Walk<'a> {
    graph: &'a Graph,
    values: SecondaryMap<ValueId, bool>,
    ops: SecondaryMap<OpId, bool>,
    symbols: SecondaryMap<SymbolId, bool>,
    dims: SecondaryMap<DimId, bool>,
    /// The control op that has a region.
    owners: SecondaryMap<RegionId, Option<OpId>>,
    /// The control op around an op.
    around: SecondaryMap<OpId, Option<OpId>>,
    givers: SecondaryMap<SymbolId, Option<Giver>>,
    pending: Vec<Item>,
}

impl<'a> Walk<'a> {
    fn new(graph: &'a Graph) -> Self {
        let mut owners = SecondaryMap::new();
        let mut givers = SecondaryMap::new();
        for (id, data) in graph.ops() {
            for &region in &data.regions {
                owners[region] = Some(id);
            }
            for &symbol in &data.symbols {
                givers[symbol] = Some(Giver::Op(id));
            }
        }
        let mut around = SecondaryMap::with_capacity(graph.n_ops());
        for region in (0..graph.n_regions()).map(RegionId::new) {
            for &op in &graph.region(region).ops {
                around[op] = owners[region];
            }
            for &symbol in &graph.region(region).symbols {
                givers[symbol] = Some(Giver::Region(region));
            }
        }
        Self {
            graph,
            values: SecondaryMap::with_capacity(graph.n_values()),
            ops: SecondaryMap::with_capacity(graph.n_ops()),
            symbols: SecondaryMap::new(),
            dims: SecondaryMap::new(),
            owners,
            around,
            givers,
            pending: Vec::new(),
        }
    }

    fn roots(&mut self) {
        let graph = self.graph;
        for &value in graph.inputs().iter().chain(graph.outputs()) {
            self.need_value(value);
        }
        for (id, data) in graph.ops() {
            match data.op {
                Op::Custom { .. } => self.need_op(id),
                Op::Loop { carried } => {
                    let stacked = data.results.iter().skip(carried).copied();
                    let ragged = stacked.filter(|&value| may_be_ragged(graph, data, value));
                    ragged.for_each(|value| self.need_value(value));
                }
                _ => {}
            }
        }
        for region in (0..graph.n_regions()).map(RegionId::new) {
            let owner = self.owners[region];
            // Regions of ops that an earlier pass dropped have no owner.
            if owner.is_none() && region != graph.body() {
                continue;
            }
            for asked in &graph.region(region).requirements {
                owner.into_iter().for_each(|op| self.need_op(op));
                let sizes = asked.left.iter().chain(&asked.right);
                sizes.for_each(|&dim| self.need_dim(dim));
            }
        }
        for fact in graph.dims().contract_facts() {
            let mut symbols = Vec::new();
            fact.predicate
                .dims()
                .into_iter()
                .for_each(|dim| symbols.extend(graph.dims().symbols_in(dim)));
            symbols.sort_unstable();
            symbols.dedup();
            if symbols.len() > 1 {
                symbols
                    .into_iter()
                    .for_each(|symbol| self.need_symbol(symbol));
            }
        }
    }

    fn finish(&mut self) {
        while let Some(item) = self.pending.pop() {
            match item {
                Item::Value(value) => self.value(value),
                Item::Op(op) => self.op(op),
                Item::Symbol(symbol) => self.symbol(symbol),
            }
        }
    }

    fn need_value(&mut self, value: ValueId) {
        if !std::mem::replace(&mut self.values[value], true) {
            self.pending.push(Item::Value(value));
        }
    }

    fn need_op(&mut self, op: OpId) {
        if !std::mem::replace(&mut self.ops[op], true) {
            self.pending.push(Item::Op(op));
        }
    }

    fn need_symbol(&mut self, symbol: SymbolId) {
        if !std::mem::replace(&mut self.symbols[symbol], true) {
            self.pending.push(Item::Symbol(symbol));
        }
    }

    fn need_dim(&mut self, dim: DimId) {
        if !std::mem::replace(&mut self.dims[dim], true) {
            let symbols = self.graph.dims().symbols_in(dim);
            symbols
                .into_iter()
                .for_each(|symbol| self.need_symbol(symbol));
        }
    }

    fn value(&mut self, value: ValueId) {
        let graph = self.graph;
        graph
            .ty(value)
            .innermost()
            .dims
            .iter()
            .for_each(|&dim| self.need_dim(dim));
        match graph.value(value).definition {
            Definition::Result { op, index } => {
                self.need_op(op);
                self.result(graph.op(op), index);
            }
            Definition::Parameter { region, index } => {
                if let Some(owner) = self.owners[region] {
                    self.need_op(owner);
                    self.parameter(graph.op(owner), index);
                }
            }
        }
    }

    /// The operands of result `index` of a control op, in addition to those that the op always needs. A value that is
    /// carried out of a loop was carried in.
    fn result(&mut self, data: &OpData, index: usize) {
        let offset = usize::from(matches!(data.op, Op::Loop { .. }));
        for &region in &data.regions {
            if let Some(&value) = self.graph.region(region).results.get(index + offset) {
                self.need_value(value);
            }
        }
        if let Op::Loop { carried } = data.op
            && index < carried
        {
            let inside = data
                .regions
                .iter()
                .filter_map(|&region| self.graph.region(region).parameters.get(index + 1));
            let inside: Vec<ValueId> = inside
                .chain(data.operands.get(index + 2))
                .copied()
                .collect();
            inside.into_iter().for_each(|value| self.need_value(value));
        }
    }

    /// The origin of parameter `index` of a control op's regions. A value carried into a loop's region comes out of it
    /// again; the regions of an `if` share one list of parameters.
    fn parameter(&mut self, data: &OpData, index: usize) {
        let operand = match data.op {
            Op::Loop { carried } => {
                if let Some(position) = index.checked_sub(1).filter(|&position| position < carried)
                {
                    data.results
                        .get(position)
                        .into_iter()
                        .for_each(|&value| self.need_value(value));
                }
                // The iteration number has no operand.
                if index == 0 {
                    None
                } else {
                    data.operands.get(index + 1)
                }
            }
            _ => {
                for &region in &data.regions {
                    let parameter = self.graph.region(region).parameters.get(index);
                    parameter
                        .into_iter()
                        .for_each(|&value| self.need_value(value));
                }
                data.operands.get(index + 1)
            }
        };
        operand
            .into_iter()
            .for_each(|&value| self.need_value(value));
    }

    fn op(&mut self, op: OpId) {
        let graph = self.graph;
        let data = graph.op(op);
        // Ops in a region run only if the surrounding op runs.
        if let Some(outer) = self.around[op] {
            self.need_op(outer);
        }
        data.op.for_each_dim(&mut |dim| self.need_dim(dim));
        match data.op {
            Op::If => data
                .operands
                .first()
                .into_iter()
                .for_each(|&condition| self.need_value(condition)),
            Op::Loop { .. } => {
                data.operands
                    .iter()
                    .take(2)
                    .for_each(|&value| self.need_value(value));
                // Whether another iteration runs.
                for &region in &data.regions {
                    let going_on = graph.region(region).results.first().copied();
                    going_on
                        .into_iter()
                        .for_each(|value| self.need_value(value));
                }
            }
            _ => data
                .operands
                .iter()
                .for_each(|&value| self.need_value(value)),
        }
    }

    fn symbol(&mut self, symbol: SymbolId) {
        let graph = self.graph;
        if let Some(definition) = graph.dims().definition(symbol) {
            self.need_dim(definition);
        }
        let stands_in = |&value: &ValueId| {
            let dims = &graph.ty(value).innermost().dims;
            dims.iter()
                .any(|&dim| graph.dims().as_symbol(dim) == Some(symbol))
        };
        let (bearers, op): (&[ValueId], _) = match self.givers[symbol] {
            Some(Giver::Op(op)) => (&graph.op(op).results, Some(op)),
            Some(Giver::Region(region)) => (&graph.region(region).parameters, self.owners[region]),
            None => return,
        };
        op.into_iter().for_each(|op| self.need_op(op));
        bearers
            .iter()
            .copied()
            .filter(stands_in)
            .for_each(|value| self.need_value(value));
    }
}

/// Whether the stacked layers of a loop may differ in size, that is, whether their sizes are known only at run time.
fn may_be_ragged(graph: &Graph, of_loop: &OpData, stacked: ValueId) -> bool {
    let mut sizes = graph.ty(stacked).innermost().dims.iter().skip(1);
    sizes.any(|&dim| {
        let symbol = graph.dims().as_symbol(dim);
        symbol.is_some_and(|symbol| of_loop.symbols.contains(&symbol))
    })
}
