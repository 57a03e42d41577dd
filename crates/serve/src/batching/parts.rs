//! How the values of a graph depend on the batch, as far as the analysis has found, and queries about sizes.

use kiln::internals::ir::{Graph, Op, RegionId, ValueId};
use kiln::internals::symbolic_shape::{DimId, DimTable, SymbolId};
use std::collections::HashMap;
use std::fmt;

/// Why requests of a model are not joined.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refusal(pub(crate) String);

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// How a value depends on the batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// Not at all.
    Same,
    /// `axis` has the size batch * `inner`, and part `i` is the `i`th block of `inner` along it.
    Split { axis: usize, inner: DimId },
    /// In some other way.
    Mixed,
}

/// The states found so far.
pub(super) struct Analysis<'g> {
    pub(super) graph: &'g Graph,
    /// The graph's table, to which quotients are added.
    pub(super) dims: DimTable,
    pub(super) symbol: SymbolId,
    batch: DimId,
    mentioned: HashMap<DimId, bool>,
    states: HashMap<ValueId, State>,
}

impl<'g> Analysis<'g> {
    /// The initial state: only the inputs are known, which have the symbol on `axes`.
    pub(super) fn new(graph: &'g Graph, symbol: SymbolId, axes: &[usize]) -> Result<Self, Refusal> {
        let mut dims = graph.dims().clone();
        let one = dims.constant(1);
        let batch = dims.symbol(graph.dims().symbol_name(symbol));
        let batch = batch.map_err(|error| Refusal(error.to_string()))?;
        let split = |&axis: &usize| State::Split { axis, inner: one };
        let inputs = graph.inputs().iter().copied();
        Ok(Self {
            graph,
            dims,
            symbol,
            batch,
            mentioned: HashMap::new(),
            states: inputs.zip(axes.iter().map(split)).collect(),
        })
    }

    /// Records the state of a value, if its type agrees with it; returns whether it is mixed.
    pub(super) fn note(&mut self, value: ValueId, state: State) -> bool {
        let state = self.checked(value, state);
        self.states.insert(value, state);
        state == State::Mixed
    }

    pub(super) fn state(&self, value: ValueId) -> State {
        self.states.get(&value).copied().unwrap_or(State::Mixed)
    }

    /// The sizes of a value; `None` if it is not a tensor.
    pub(super) fn sizes(&self, value: ValueId) -> Option<Vec<DimId>> {
        Some(self.graph.tensor_ty(value)?.dims.to_vec())
    }

    /// Whether the batch symbol occurs in a size.
    pub(super) fn mentions(&mut self, dim: DimId) -> bool {
        let (dims, symbol) = (&self.dims, self.symbol);
        let known = self.mentioned.entry(dim);
        *known.or_insert_with(|| mentions(dims, dim, symbol))
    }

    /// The size of a part, if `dim` is the batch times it.
    pub(super) fn inner(&mut self, dim: DimId) -> Option<DimId> {
        if !self.mentions(dim) {
            return None;
        }
        let inner = self.dims.exact_quotient(dim, self.batch)?;
        (!self.mentions(inner)).then_some(inner)
    }

    /// The only axis of `sizes` with the batch symbol, and the size of a part there.
    pub(super) fn only_axis(&mut self, sizes: &[DimId]) -> Option<(usize, DimId)> {
        let mut found = None;
        for (axis, &dim) in sizes.iter().enumerate() {
            if self.mentions(dim) {
                if found.is_some() {
                    return None;
                }
                found = Some((axis, self.inner(dim)?));
            }
        }
        found
    }

    /// Whether an attribute of the op has the batch symbol.
    pub(super) fn attributes_mention(&mut self, op: &Op) -> bool {
        let mut found = false;
        op.for_each_dim(&mut |dim| found |= self.mentions(dim));
        found
    }

    /// Whether an op in these regions, at any depth, has the batch symbol among its attributes.
    pub(super) fn regions_mention(&mut self, regions: &[RegionId]) -> bool {
        let graph = self.graph;
        let mut waiting = regions.to_vec();
        while let Some(region) = waiting.pop() {
            for &op in &graph.region(region).ops {
                let data = graph.op(op);
                if self.attributes_mention(&data.op) {
                    return true;
                }
                waiting.extend(&data.regions);
            }
        }
        false
    }

    /// The state if the value's type agrees with it.
    fn checked(&mut self, value: ValueId, state: State) -> State {
        let inner_type = self.graph.ty(value).innermost();
        let sizes = inner_type.dims.to_vec();
        let agrees = match state {
            State::Mixed => false,
            State::Same => !sizes.iter().any(|&dim| self.mentions(dim)),
            State::Split { axis, inner } => {
                self.graph.tensor_ty(value).is_some()
                    && self.only_axis(&sizes) == Some((axis, inner))
            }
        };
        if agrees { state } else { State::Mixed }
    }
}

/// Whether the symbol occurs in a size.
pub(super) fn mentions(dims: &DimTable, dim: DimId, symbol: SymbolId) -> bool {
    dims.free_symbols(&[dim]).contains(&symbol)
}
