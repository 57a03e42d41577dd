//! Substitution of expressions for symbols, and rebuilding of an expression with the facts known now.
//!
//! Walks the expressions involved in the order of ids, so nothing recurses. Definitions of derived symbols are followed:
//! where one changes, the symbol is replaced by the symbol of the changed definition.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::{Atom, DimTable};
use crate::DimError;
use crate::ids::{AtomId, DimId, SymbolId};

impl DimTable {
    /// `dim` with an expression in place of each symbol that `replacements` names.
    pub fn substitute(
        &mut self,
        dim: DimId,
        replacements: &BTreeMap<SymbolId, DimId>,
    ) -> Result<DimId, DimError> {
        let mut dims: HashMap<DimId, DimId> = HashMap::new();
        let mut atoms: HashMap<AtomId, DimId> = HashMap::new();
        for part in self.parts_of(&[dim], &|symbol| !replacements.contains_key(&symbol)) {
            let polynomial = self.shared_polynomial(part);
            for &id in polynomial.terms.iter().flat_map(|term| &term.factors) {
                if atoms.contains_key(&id) {
                    continue;
                }
                let atom = self.atoms[id].atom.clone();
                let renewed = match atom {
                    Atom::Symbol(symbol) => self.substitute_symbol(symbol, replacements, &dims),
                    _ => {
                        let operands: Option<Vec<DimId>> = atom
                            .operands()
                            .iter()
                            .map(|dim| dims.get(dim).copied())
                            .collect();
                        let Some(operands) = operands else {
                            unreachable!("operands come before what uses them")
                        };
                        self.apply(&atom, &operands)?
                    }
                };
                atoms.insert(id, renewed);
            }
            let renewed = self.rebuild(&polynomial, &atoms)?;
            dims.insert(part, renewed);
        }
        Ok(dims.get(&dim).copied().unwrap_or(dim))
    }

    /// The symbols in `dim`, in the order of declaration. A derived symbol counts as itself.
    pub fn symbols_in(&self, dim: DimId) -> Vec<SymbolId> {
        let mut found = BTreeSet::new();
        for part in self.parts_of(&[dim], &|_| false) {
            for &atom in self
                .polynomial(part)
                .terms
                .iter()
                .flat_map(|term| &term.factors)
            {
                if let Atom::Symbol(symbol) = self.atoms[atom].atom {
                    found.insert(symbol);
                }
            }
        }
        found.into_iter().collect()
    }

    /// `roots` and every expression inside them, operands first. `follow` selects whose definitions count as inside.
    pub(super) fn parts_of(
        &self,
        roots: &[DimId],
        follow: &dyn Fn(SymbolId) -> bool,
    ) -> Vec<DimId> {
        let mut found: BTreeSet<DimId> = BTreeSet::new();
        let mut pending = roots.to_vec();
        while let Some(dim) = pending.pop() {
            if !found.insert(dim) {
                continue;
            }
            for &atom in self
                .polynomial(dim)
                .terms
                .iter()
                .flat_map(|term| &term.factors)
            {
                match &self.atoms[atom].atom {
                    Atom::Symbol(symbol) if follow(*symbol) => {
                        pending.extend(self.definition(*symbol))
                    }
                    Atom::Symbol(_) => {}
                    compound => pending.extend(compound.operands()),
                }
            }
        }
        found.into_iter().collect()
    }

    fn substitute_symbol(
        &mut self,
        symbol: SymbolId,
        replacements: &BTreeMap<SymbolId, DimId>,
        dims: &HashMap<DimId, DimId>,
    ) -> DimId {
        if let Some(&replacement) = replacements.get(&symbol) {
            return replacement;
        }
        match self.definition(symbol) {
            Some(definition) => match dims.get(&definition) {
                // Rebuilding alone changes no value, so the symbol may stay.
                Some(&renewed) if renewed != definition && !replacements.is_empty() => {
                    self.wrap(renewed)
                }
                _ => self.dim(symbol),
            },
            None => self.dim(symbol),
        }
    }
}
