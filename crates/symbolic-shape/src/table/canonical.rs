//! Canonical forms: expressions with the equalities among the contract facts applied.
//!
//! The prover compares canonical forms; nothing else changes when an equality is learned, so ids stay valid. A form that
//! cannot be built within the limits is the expression itself, which is sound and proves less.

use std::collections::{BTreeSet, HashMap};

use cranelift_entity::EntityRef;

use super::intern::BuildError;
use super::{Atom, DimTable};
use crate::DimError;
use crate::ids::{AtomId, DimId};
use crate::polynomial::Polynomial;

/// The maximum number of walks over the table until canonical forms stop changing.
const MAX_PASSES: usize = 4;
/// The maximum nesting of canonical forms under construction; equalities that rewrite each other end here.
const MAX_NESTED: usize = 64;

impl DimTable {
    /// The same size in its simplest known form: rebuilt with all current knowledge, with equalities applied.
    pub fn simplify(&mut self, dim: DimId) -> Result<DimId, DimError> {
        let rebuilt = self.substitute(dim, &std::collections::BTreeMap::new())?;
        Ok(self.canonical(rebuilt))
    }

    /// Sets the canonical form of an atom from those of its operands and from the rules.
    ///
    /// `rebuild` means that values inside were narrowed, so that rebuilding may simplify it.
    pub(super) fn canonicalize_atom(&mut self, id: AtomId, rebuild: bool) {
        if self.canonicalizing >= MAX_NESTED {
            return;
        }
        if self.canonicalizing == 0 && !self.assuming {
            self.rebuilt = 0;
        }
        self.canonicalizing += 1;
        self.renew_atom(id, rebuild);
        self.canonicalizing -= 1;
    }

    /// Takes one rebuild from the allowance of the current operation; false when none is left.
    ///
    /// This is what makes canonicalization terminate: an equality such as `n == max(f(n), 0)` makes each rewritten
    /// expression contain another one that can be rewritten, so no order on terms decreases, but the allowance does.
    fn take_rebuild(&mut self) -> bool {
        let left = self.rebuilt < self.limits.max_rebuilds;
        self.rebuilt = self.rebuilt.saturating_add(1);
        left
    }

    fn renew_atom(&mut self, id: AtomId, rebuild: bool) {
        let info = &self.atoms[id];
        let (own, value) = (info.dim, info.values.range.as_point());
        if let Some(value) = value {
            self.atoms[id].canonical = self.constant(value);
            return;
        }
        let atom = info.atom.clone();
        let operands = atom.operands();
        let renewed: Vec<DimId> = operands.iter().map(|&dim| self.canonical(dim)).collect();
        let mut result = own;
        let changed = renewed != operands || (rebuild && !operands.is_empty());
        if changed && self.take_rebuild() {
            result = match self.apply(&atom, &renewed) {
                Ok(dim) => self.canonical(dim),
                Err(_) => own,
            };
        }
        if let Some(rule) = self
            .polynomial(result)
            .as_atom()
            .and_then(|atom| self.knowledge.rules.get(&atom))
        {
            result = self.canonical(*rule);
        }
        self.atoms[id].canonical = result;
    }

    /// Sets the canonical form of an expression from those of its atoms.
    pub(super) fn canonicalize_dim(&mut self, dim: DimId) {
        let polynomial = self.shared_polynomial(dim);
        let is_canonical =
            |table: &Self, atom: &AtomId| table.atoms[*atom].canonical == table.atoms[*atom].dim;
        if polynomial
            .terms
            .iter()
            .flat_map(|term| &term.factors)
            .all(|atom| is_canonical(self, atom))
        {
            self.dims[dim].canonical = dim;
            return;
        }
        if let Some(atom) = polynomial.as_atom() {
            self.dims[dim].canonical = self.atoms[atom].canonical;
            return;
        }
        if self.canonicalizing == 0 && !self.assuming {
            self.rebuilt = 0;
        }
        if self.canonicalizing < MAX_NESTED && self.take_rebuild() {
            self.canonicalizing += 1;
            let renewed = self.assemble(&polynomial, |table, atom| table.atoms[atom].canonical);
            self.dims[dim].canonical = renewed.and_then(|p| self.finish(p)).unwrap_or(dim);
            self.canonicalizing -= 1;
        }
    }

    /// Updates everything that contains all of `symbols` after something about it was learned.
    pub(super) fn refresh(&mut self, symbols: u64) {
        let rules: Vec<DimId> = self.knowledge.rules.values().copied().collect();
        for _ in 0..MAX_PASSES {
            let mut changed = false;
            let mut done = BTreeSet::new();
            for dim in rules
                .iter()
                .copied()
                .chain((0..self.dims.len()).map(DimId::new))
            {
                if self.dims[dim].measure.symbols & symbols != symbols {
                    continue;
                }
                let before = (self.dims[dim].canonical, self.dims[dim].values.range);
                let polynomial = self.shared_polynomial(dim);
                for &atom in polynomial.terms.iter().flat_map(|term| &term.factors) {
                    if self.atoms[atom].measure.symbols & symbols == symbols && done.insert(atom) {
                        self.refresh_atom(atom);
                        self.canonicalize_atom(atom, true);
                    }
                }
                self.refresh_dim(dim);
                self.canonicalize_dim(dim);
                changed |= before != (self.dims[dim].canonical, self.dims[dim].values.range);
            }
            if !changed {
                return;
            }
        }
    }

    /// The operation of `atom` on other operands.
    pub(super) fn apply(&mut self, atom: &Atom, operands: &[DimId]) -> Result<DimId, DimError> {
        match (atom, operands) {
            (Atom::Symbol(symbol), _) => Ok(self.dim(*symbol)),
            (Atom::FloorDiv(..), &[a, b]) => self.floor_div(a, b),
            (Atom::Mod(..), &[a, b]) => self.modulo(a, b),
            (Atom::Min(_), args) => self.min_of(args),
            (Atom::Max(_), args) => self.max_of(args),
            (Atom::Bcast(_), args) => self.bcast_of(args),
            (Atom::FloorDiv(..) | Atom::Mod(..), _) => unreachable!("a division has two operands"),
        }
    }

    /// `polynomial` with an expression in place of each atom.
    pub(super) fn assemble(
        &self,
        polynomial: &Polynomial,
        replace: impl Fn(&Self, AtomId) -> DimId,
    ) -> Result<Polynomial, BuildError> {
        let mut result = Polynomial::constant(polynomial.constant);
        for term in &polynomial.terms {
            let mut product = Polynomial::constant(term.coefficient);
            for &atom in &term.factors {
                product = self.multiply(&product, self.polynomial(replace(self, atom)))?;
            }
            result = result.add(&product)?;
        }
        Ok(result)
    }

    /// Like [`DimTable::assemble`], but uses derived symbols if the result would be too large.
    ///
    /// `polynomial` may be of another table; `atoms` maps each of its atoms to this one.
    pub(super) fn rebuild(
        &mut self,
        polynomial: &Polynomial,
        atoms: &HashMap<AtomId, DimId>,
    ) -> Result<DimId, DimError> {
        let replace = |_: &Self, atom: AtomId| match atoms.get(&atom) {
            Some(&dim) => dim,
            None => unreachable!("every atom was rebuilt before"),
        };
        if let Ok(dim) = self
            .assemble(polynomial, replace)
            .and_then(|renewed| self.finish(renewed))
        {
            return Ok(dim);
        }
        let mut result = self.constant(polynomial.constant);
        for term in &polynomial.terms {
            let mut product = self.constant(term.coefficient);
            for atom in &term.factors {
                let Some(&factor) = atoms.get(atom) else {
                    unreachable!("every atom was rebuilt before")
                };
                product = self.mul(product, factor)?;
            }
            result = self.add(result, product)?;
        }
        Ok(result)
    }
}
