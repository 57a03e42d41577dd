//! Copying expressions from one table into another.
//!
//! Symbols that the caller did not map become new symbols with the same description; they are never identified by name,
//! since equal names in two tables need not mean the same size.

use std::collections::{BTreeMap, HashMap};

use super::{Atom, DimTable};
use crate::DimError;
use crate::fact::ContractFact;
use crate::ids::{AtomId, DimId, SymbolId};

/// The state of copying from one particular table into another. Map symbols first with [`DimImport::map`].
#[derive(Clone, Debug, Default)]
pub struct DimImport {
    symbols: BTreeMap<SymbolId, DimId>,
    dims: HashMap<DimId, DimId>,
    atoms: HashMap<AtomId, DimId>,
}

impl DimImport {
    /// Nothing copied, nothing mapped.
    pub fn new() -> Self {
        Self::default()
    }

    /// Maps the source's `symbol` to `dim` in the target.
    pub fn map(&mut self, symbol: SymbolId, dim: DimId) {
        self.symbols.insert(symbol, dim);
    }

    /// The symbol of the source in the target, if it was mapped or copied.
    pub fn get(&self, symbol: SymbolId) -> Option<DimId> {
        self.symbols.get(&symbol).copied()
    }
}

impl DimTable {
    /// Copies the expression `dim` of `from` into this table.
    pub fn import(
        &mut self,
        from: &DimTable,
        dim: DimId,
        import: &mut DimImport,
    ) -> Result<DimId, DimError> {
        if let Some(&done) = import.dims.get(&dim) {
            return Ok(done);
        }
        let mapped: Vec<SymbolId> = import.symbols.keys().copied().collect();
        for part in from.parts_of(&[dim], &|symbol| mapped.binary_search(&symbol).is_err()) {
            if import.dims.contains_key(&part) {
                continue;
            }
            let polynomial = from.polynomial(part);
            for &id in polynomial.terms.iter().flat_map(|term| &term.factors) {
                if import.atoms.contains_key(&id) {
                    continue;
                }
                let renewed = match &from.atoms[id].atom {
                    Atom::Symbol(symbol) => self.import_symbol(from, *symbol, import)?,
                    compound => {
                        let operands: Option<Vec<DimId>> = compound
                            .operands()
                            .iter()
                            .map(|dim| import.dims.get(dim).copied())
                            .collect();
                        let Some(operands) = operands else {
                            unreachable!("operands come before what uses them")
                        };
                        self.apply(compound, &operands)?
                    }
                };
                import.atoms.insert(id, renewed);
            }
            let renewed = self.rebuild(polynomial, &import.atoms)?;
            import.dims.insert(part, renewed);
        }
        import
            .dims
            .get(&dim)
            .copied()
            .map_or_else(|| unreachable!("the root is one of its parts"), Ok)
    }

    /// Copies the contract facts of `from` into this table.
    pub fn import_facts(
        &mut self,
        from: &DimTable,
        import: &mut DimImport,
    ) -> Result<(), DimError> {
        for fact in from.contract_facts() {
            let predicate = fact
                .predicate
                .try_map_dims(&mut |dim| self.import(from, dim, import))?;
            self.assume(ContractFact {
                predicate,
                origin: fact.origin.clone(),
            })?;
        }
        Ok(())
    }

    fn import_symbol(
        &mut self,
        from: &DimTable,
        symbol: SymbolId,
        import: &mut DimImport,
    ) -> Result<DimId, DimError> {
        if let Some(&dim) = import.symbols.get(&symbol) {
            return Ok(dim);
        }
        let info = from.symbol_info(symbol);
        let copy = match from.definition(symbol) {
            Some(definition) => {
                let Some(&value) = import.dims.get(&definition) else {
                    unreachable!("definitions come before their symbols")
                };
                self.define(info.name(), value)
            }
            None => {
                let name = self.free_name(info.name());
                self.declare(info.clone().renamed(name))?
            }
        };
        let dim = self.dim(copy);
        import.symbols.insert(symbol, dim);
        Ok(dim)
    }
}
