//! Rebuilding: copies a graph op by op, which is how passes change a graph.
//!
//! A [`Rebuild`] starts as an empty graph over the old graph's dimension table (so every
//! [`DimId`](kiln_symbolic_shape::DimId) stays valid) with the old inputs. A pass then walks the old
//! ops in order and, for each, copies it, appends others, or maps its results to values that already
//! exist in the new graph. Invariant: when an op is visited, its operands are mapped.

use crate::graph::{Graph, NewOp};
use crate::ids::{OpId, RegionId, ValueId};
use cranelift_entity::SecondaryMap;
use cranelift_entity::packed_option::PackedOption;
use kiln_symbolic_shape::SymbolId;
use std::convert::Infallible;

/// How a pass handled an op that it visited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Visit {
    /// It did not replace it: copy the op, with its regions.
    Copy,
    /// Its results were mapped (or have no reader): do not copy it.
    Done,
}

/// A graph being copied.
#[derive(Debug)]
pub struct Rebuild<'a> {
    old: &'a Graph,
    new: Graph,
    values: SecondaryMap<ValueId, PackedOption<ValueId>>,
    /// The ops of each region of the old graph, if they are copied in a different order.
    orders: Option<SecondaryMap<RegionId, Vec<OpId>>>,
}

impl<'a> Rebuild<'a> {
    /// Starts a copy with the inputs and metadata of `old`.
    pub fn new(old: &'a Graph) -> Self {
        Self::with_inputs(old, |_| true)
    }

    /// Starts a copy with some of the inputs of `old`, chosen by position. Ops that read the others cannot be copied
    /// until these are mapped.
    pub fn with_inputs(old: &'a Graph, keep: impl Fn(usize) -> bool) -> Self {
        let mut new = Graph::with_dims(old.name(), old.dims().clone());
        new.metadata_mut().clone_from(old.metadata());
        let mut rebuild = Self {
            old,
            new,
            values: SecondaryMap::with_capacity(old.n_values()),
            orders: None,
        };
        let body = rebuild.new.body();
        rebuild.open_region(old.body(), body, keep, |_| true);
        rebuild
    }

    /// Copies the ops of each region in an order in which each comes after its operands.
    #[must_use]
    pub fn in_order(mut self, orders: SecondaryMap<RegionId, Vec<OpId>>) -> Self {
        self.orders = Some(orders);
        self
    }

    /// Copies every op, after calling `visit` for each; returns the finished graph.
    ///
    /// `visit` gets the copy, the region of the new graph that is being filled, and the old op.
    ///
    /// # Errors
    /// The first error of `visit`.
    pub fn run<E>(
        mut self,
        visit: &mut dyn FnMut(&mut Self, RegionId, OpId) -> Result<Visit, E>,
    ) -> Result<Graph, E> {
        let body = self.new.body();
        self.fill_region(self.old.body(), body, visit)?;
        let names = self.old.output_names().to_vec();
        let outputs = self.new.outputs().to_vec();
        self.new.set_outputs(names.into_iter().zip(outputs));
        Ok(self.new)
    }

    /// The graph being copied.
    pub fn old(&self) -> &'a Graph {
        self.old
    }

    /// The graph under construction.
    pub fn new_graph(&self) -> &Graph {
        &self.new
    }

    /// The graph under construction, to append to or to compute sizes in.
    pub fn new_graph_mut(&mut self) -> &mut Graph {
        &mut self.new
    }

    /// The new value that replaces an old one.
    ///
    /// # Panics
    /// When the old value was neither copied nor mapped: the graph was not verified, or the pass
    /// dropped an op whose results are read.
    pub fn value(&self, old: ValueId) -> ValueId {
        match self.values[old].expand() {
            Some(value) => value,
            None => {
                unreachable!("{old} is read before it was copied; the graph passed no verifier")
            }
        }
    }

    /// Maps an old value to a new one. The new one takes the old one's name if it has none.
    pub fn map(&mut self, old: ValueId, new: ValueId) {
        if self.new.value(new).name.is_none() {
            let name = self.old.value(old).name.clone();
            self.new.set_value_name(new, name.as_deref());
        }
        self.values[old] = new.into();
    }

    /// Appends an op that is not a copy; its results are new.
    pub fn append(&mut self, region: RegionId, new: NewOp) -> OpId {
        self.new.append(region, new)
    }

    /// Appends an op whose results replace those old values, in order.
    pub fn append_mapped(&mut self, region: RegionId, new: NewOp, results: &[ValueId]) -> OpId {
        let id = self.new.append(region, new);
        let copies = self.new.op(id).results.clone();
        for (&from, &to) in results.iter().zip(&copies) {
            self.map(from, to);
        }
        id
    }

    /// An old op as it would be copied, but without its regions.
    pub fn like(&self, op: OpId) -> NewOp {
        let data = self.old.op(op);
        let mut new = NewOp::new(
            data.op.clone(),
            data.operands.iter().map(|&value| self.value(value)),
            data.results.iter().map(|&value| self.old.ty(value).clone()),
        );
        new.symbols.clone_from(&data.symbols);
        new.origin.clone_from(&data.origin);
        new
    }

    /// Copies an op with its regions.
    pub fn copy_op(&mut self, into: RegionId, op: OpId) {
        let Ok(()) = self.copy_visited::<Infallible>(into, op, &mut |_, _, _| Ok(Visit::Copy));
    }

    /// Copies every op of an old region whose parameters are mapped; returns its results.
    pub fn copy_ops(&mut self, from: RegionId, into: RegionId) -> Vec<ValueId> {
        let old = self.old;
        for &op in &old.region(from).ops {
            self.copy_op(into, op);
        }
        self.values_of(&old.region(from).results)
    }

    /// Gives a new region the requirements of an old one, its kept symbols, and copies of its kept parameters, by position.
    pub fn open_region(
        &mut self,
        from: RegionId,
        into: RegionId,
        keep_parameter: impl Fn(usize) -> bool,
        keep_symbol: impl Fn(SymbolId) -> bool,
    ) {
        let old = self.old;
        let region = old.region(from);
        let (requirements, position) = (region.requirements.clone(), region.position.clone());
        self.new.set_requirements(into, requirements, position);
        for &symbol in region.symbols.iter().filter(|&&symbol| keep_symbol(symbol)) {
            self.new.add_region_symbol(into, symbol);
        }
        for (index, &parameter) in region.parameters.iter().enumerate() {
            if keep_parameter(index) {
                let copy = self.new.add_parameter(into, old.ty(parameter).clone());
                self.map(parameter, copy);
            }
        }
    }

    fn values_of(&self, old: &[ValueId]) -> Vec<ValueId> {
        old.iter().map(|&value| self.value(value)).collect()
    }

    fn fill_region<E>(
        &mut self,
        from: RegionId,
        into: RegionId,
        visit: &mut dyn FnMut(&mut Self, RegionId, OpId) -> Result<Visit, E>,
    ) -> Result<(), E> {
        let old = self.old;
        let ordered = self.orders.as_ref().map(|orders| orders[from].clone());
        let ops = ordered.as_ref().unwrap_or(&old.region(from).ops);
        for &op in ops {
            if visit(self, into, op)? == Visit::Copy {
                self.copy_visited(into, op, visit)?;
            }
        }
        let results = self.values_of(&old.region(from).results);
        self.new.set_results(into, results);
        Ok(())
    }

    /// Recursion is bounded by the verifier's limit on nested regions.
    fn copy_visited<E>(
        &mut self,
        into: RegionId,
        op: OpId,
        visit: &mut dyn FnMut(&mut Self, RegionId, OpId) -> Result<Visit, E>,
    ) -> Result<(), E> {
        let old = self.old;
        let data = old.op(op);
        let mut new = self.like(op);
        for &region in &data.regions {
            let copy = self.new.add_region();
            self.open_region(region, copy, |_| true, |_| true);
            self.fill_region(region, copy, visit)?;
            new.regions.push(copy);
        }
        self.append_mapped(into, new, &data.results);
        Ok(())
    }
}
