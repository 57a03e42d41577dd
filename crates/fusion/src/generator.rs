//! Kernels for nodes: the generic one, right for all sizes, and ones that know some sizes.
//!
//! A specialised kernel is the generic one with more facts (`design`: there is no other mechanism):
//! the sizes are stated as contract facts and the node is lowered again over what is known then.
//! Kernels are remembered by the node's signature and the sizes.

use std::collections::{BTreeMap, BTreeSet};

use kiln_ir::{Graph, OpId};
use kiln_symbolic_shape::{Binding, ContractFact, DimTable, FactOrigin, Predicate, SymbolId};

use crate::error::FusionError;
use crate::lower::{LoweredKernel, Region, lower};
use crate::plan::FusionNode;
use crate::subgraph;

/// A kernel and what it was made for: the node's signature, and the sizes it knows, by name.
type Key = (String, Vec<(String, i64)>);

/// Makes and remembers the kernels of nodes of one graph.
#[derive(Debug)]
pub struct FusionKernelGenerator<'a> {
    graph: &'a Graph,
    made: BTreeMap<Key, LoweredKernel>,
}

impl<'a> FusionKernelGenerator<'a> {
    /// A generator for nodes of a graph.
    pub fn new(graph: &'a Graph) -> Self {
        Self {
            graph,
            made: BTreeMap::new(),
        }
    }

    /// How many kernels were made so far.
    pub fn n_kernels(&self) -> usize {
        self.made.len()
    }

    /// The node's kernel for all sizes.
    ///
    /// # Errors
    /// When the node is no kernel.
    pub fn generate_generic_kernel(
        &mut self,
        node: &FusionNode,
    ) -> Result<LoweredKernel, FusionError> {
        self.generate(node, &Binding::new())
    }

    /// The node's kernel for the given sizes of some of its symbols; right for no others.
    ///
    /// # Errors
    /// When the node is no kernel, when a fact it rests on is false for these sizes, or when they break
    /// the graph's contract.
    pub fn generate_fused_kernel(
        &mut self,
        node: &FusionNode,
        shapes: &Binding,
    ) -> Result<LoweredKernel, FusionError> {
        if !self.can_generate_specialized(node, shapes) {
            node.check_facts(self.graph.dims(), shapes)?;
            return Err(FusionError::NoKernel {
                node: node.name.clone(),
                reason: "the sizes are not all given, or break the graph's contract".to_owned(),
            });
        }
        self.generate(node, shapes)
    }

    /// Whether a kernel for exactly these sizes can be made: every symbol of the node's shapes has a value,
    /// the graph's contract holds, and so do the facts that the node rests on.
    pub fn can_generate_specialized(&self, node: &FusionNode, shapes: &Binding) -> bool {
        let dims = self.graph.dims();
        let bound = self
            .symbols(node)
            .into_iter()
            .all(|symbol| dims.evaluate(dims.dim(symbol), shapes).is_ok());
        let in_range = shapes.iter().all(|(symbol, size)| {
            dims.contains(dims.dim(symbol)) && dims.range(dims.dim(symbol)).contains(size)
        });
        let contract = dims.contract_facts().iter().all(|fact| {
            // A fact about sizes that are not given is not broken by those that are.
            dims.holds(&fact.predicate, shapes).unwrap_or(true)
        });
        bound && in_range && contract && node.check_facts(dims, shapes).is_ok()
    }

    fn generate(
        &mut self,
        node: &FusionNode,
        shapes: &Binding,
    ) -> Result<LoweredKernel, FusionError> {
        let key = (node.fused_signature(self.graph), self.named(node, shapes));
        if let Some(known) = self.made.get(&key) {
            return Ok(known.clone());
        }
        let kernel = match &node.kernel {
            Some(kernel) if key.1.is_empty() => kernel.clone(),
            _ => self.lower(node, shapes)?,
        };
        self.made.insert(key, kernel.clone());
        Ok(kernel)
    }

    fn lower(&self, node: &FusionNode, shapes: &Binding) -> Result<LoweredKernel, FusionError> {
        let refuse = |reason: String| FusionError::NoKernel {
            node: node.name.clone(),
            reason,
        };
        let mut dims = self.graph.dims().clone();
        for (symbol, size) in shapes.iter() {
            let (left, right) = (dims.dim(symbol), dims.constant(size));
            let fact = ContractFact {
                predicate: Predicate::Equal(left, right),
                origin: FactOrigin::Required("specialisation".to_owned()),
            };
            dims.assume(fact)
                .map_err(|error| refuse(error.to_string()))?;
        }
        let ops: BTreeSet<OpId> = node.all_ops().into_iter().collect();
        let simplify = &mut |dims: &mut DimTable, dim| dims.simplify(dim).unwrap_or(dim);
        let part = subgraph::extract(self.graph, &node.name, &ops, &node.outputs, dims, simplify);
        let all: Vec<OpId> = part.graph.region(part.graph.body()).ops.clone();
        let outputs = part.graph.outputs().to_vec();
        let region = Region {
            ops: &all,
            outputs: &outputs,
            facts: &node.facts,
            name: &node.name,
        };
        let mut lowered = lower(&part.graph, &region).map_err(|source| FusionError::Lower {
            node: node.name.clone(),
            source: Box::new(source),
        })?;
        for operand in &mut lowered.operands {
            if let Some(&value) = part.origin.get(operand) {
                *operand = value;
            }
        }
        let initialised = lowered.initialise.as_mut();
        if let Some((value, &origin)) =
            initialised.and_then(|(_, value)| part.origin.get(value).map(|origin| (value, origin)))
        {
            *value = origin;
        }
        Ok(lowered)
    }

    /// The sizes that are given, by name, those that the node does not use left out.
    fn named(&self, node: &FusionNode, shapes: &Binding) -> Vec<(String, i64)> {
        let dims = self.graph.dims();
        let used = self.symbols(node);
        let given = shapes.iter().filter(|(symbol, _)| used.contains(symbol));
        given
            .map(|(symbol, size)| (dims.symbol_name(symbol).to_owned(), size))
            .collect()
    }

    /// The symbols in the node's shapes.
    fn symbols(&self, node: &FusionNode) -> BTreeSet<SymbolId> {
        let dims = self.graph.dims();
        let values = node.inputs.iter().chain(&node.outputs);
        let shapes = values.flat_map(|&value| &self.graph.ty(value).innermost().dims);
        shapes.flat_map(|&dim| dims.symbols_in(dim)).collect()
    }
}
