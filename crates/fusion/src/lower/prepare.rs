//! The kernel's table of sizes: the region's sizes copied out of the graph's, with the facts about them.
//!
//! Facts are copied when they refer only to the region's symbols. The region's plan facts are assumed here, so that all
//! later proofs use them.

use std::collections::{BTreeMap, HashMap};

use kiln_ir::Graph;
use kiln_symbolic_shape::{
    ContractFact, DimError, DimId, DimImport, DimTable, FactOrigin, Predicate, Proof, SymbolId,
};

use super::{LowerError, Region};

/// The sizes of a kernel under construction, and their correspondence to the graph's.
#[derive(Clone, Debug)]
pub(super) struct KernelSizes {
    /// The kernel's table.
    pub(super) table: DimTable,
    /// Assumed facts that are to be checked.
    pub(super) requirements: Vec<(Predicate, String)>,
    import: DimImport,
    copied: HashMap<DimId, DimId>,
}

impl KernelSizes {
    /// The sizes that a region names, and the facts about them.
    pub(super) fn of_region(graph: &Graph, region: &Region<'_>) -> Result<Self, LowerError> {
        let mut sizes = Self {
            table: DimTable::with_limits(graph.dims().limits().clone()),
            requirements: Vec::new(),
            import: DimImport::new(),
            copied: HashMap::new(),
        };
        for symbol in graph.dims().free_symbols(&named_sizes(graph, region)) {
            sizes.raw(graph, graph.dims().dim(symbol))?;
        }
        sizes.copy_facts(graph.dims())?;
        for fact in region.facts {
            // It is first simplified by the earlier facts, because learning from a long expression is slow.
            let left = sizes.raw(graph, fact.left)?;
            let left = sizes.table.simplify(left)?;
            let right = sizes.raw(graph, fact.right)?;
            let right = sizes.table.simplify(right)?;
            sizes.table.assume(ContractFact {
                predicate: Predicate::Equal(left, right),
                origin: FactOrigin::Required(fact.origin.clone()),
            })?;
        }
        // Facts first: sizes copied afterwards are as simple as the facts make them, and nothing is rebuilt for them.
        sizes.assume_sizes(graph, region)?;
        Ok(sizes)
    }

    /// Sizes of tensors are not negative. If nothing else implies this, sizes have to be checked when they are bound.
    fn assume_sizes(&mut self, graph: &Graph, region: &Region<'_>) -> Result<(), LowerError> {
        let zero = self.table.constant(0);
        for dim in sizes_of_values(graph, region) {
            let size = self.raw(graph, dim)?;
            let predicate = Predicate::LessEqual(zero, size);
            let what = "sizes that are not negative";
            match self.table.prove(&predicate) {
                Proof::Proved => continue,
                Proof::Disproved => {
                    return Err(LowerError::Impossible {
                        what: what.to_owned(),
                    });
                }
                Proof::Unknown => {}
            }
            self.requirements.push((predicate.clone(), what.to_owned()));
            self.table.assume(ContractFact {
                predicate,
                origin: FactOrigin::Required("a tensor's size".to_owned()),
            })?;
        }
        Ok(())
    }

    /// A size of the graph in the kernel's table, as simple as the facts allow.
    pub(super) fn copy(&mut self, graph: &Graph, dim: DimId) -> Result<DimId, DimError> {
        if let Some(&copied) = self.copied.get(&dim) {
            return Ok(copied);
        }
        let raw = self.raw(graph, dim)?;
        let copied = self.table.simplify(raw).unwrap_or(raw);
        self.copied.insert(dim, copied);
        Ok(copied)
    }

    /// The graph's size behind each of the kernel's symbols.
    pub(super) fn symbols(&self, graph: &Graph) -> Result<Vec<DimId>, LowerError> {
        let mut known: BTreeMap<DimId, SymbolId> = BTreeMap::new();
        for symbol in graph.dims().symbols() {
            if let Some(copy) = self.import.get(symbol) {
                known.entry(copy).or_insert(symbol);
            }
        }
        let source = |symbol| known.get(&self.table.dim(symbol));
        let symbols: Option<Vec<DimId>> = self
            .table
            .symbols()
            .map(|symbol| source(symbol).map(|&symbol| graph.dims().dim(symbol)))
            .collect();
        // Only an expression beyond the table's limits gets its own symbol.
        symbols.ok_or(LowerError::Limit {
            what: "terms of a size",
            given: self.table.limits().max_terms + 1,
            limit: self.table.limits().max_terms,
        })
    }

    fn raw(&mut self, graph: &Graph, dim: DimId) -> Result<DimId, DimError> {
        self.table.import(graph.dims(), dim, &mut self.import)
    }

    fn copy_facts(&mut self, from: &DimTable) -> Result<(), DimError> {
        for fact in from.contract_facts() {
            let known = |dim: &DimId| {
                let symbols = from.free_symbols(&[*dim]);
                symbols
                    .iter()
                    .all(|&symbol| self.import.get(symbol).is_some())
            };
            if !fact.predicate.dims().iter().all(known) {
                continue;
            }
            let predicate = fact
                .predicate
                .try_map_dims(&mut |dim| self.table.import(from, dim, &mut self.import))?;
            self.table.assume(ContractFact {
                predicate,
                origin: fact.origin.clone(),
            })?;
        }
        Ok(())
    }
}

/// Every size in the attributes of a region's ops and in the types of their operands and results.
fn named_sizes(graph: &Graph, region: &Region<'_>) -> Vec<DimId> {
    let mut named = sizes_of_values(graph, region);
    for &op in region.ops {
        graph.op(op).op.for_each_dim(&mut |dim| named.push(dim));
    }
    named
}

/// Every size in the types of the operands and results of a region's ops.
fn sizes_of_values(graph: &Graph, region: &Region<'_>) -> Vec<DimId> {
    let mut sizes = Vec::new();
    for &op in region.ops {
        let data = graph.op(op);
        for &value in data.operands.iter().chain(&data.results) {
            if let Some(ty) = graph.tensor_ty(value) {
                sizes.extend_from_slice(&ty.dims);
            }
        }
    }
    sizes
}
