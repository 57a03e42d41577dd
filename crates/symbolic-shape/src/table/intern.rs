//! Interning: maps a polynomial or an atom to its id, and records what is known about its values.
//!
//! Nothing here simplifies; callers pass normal forms.

use std::sync::Arc;

use cranelift_entity::packed_option::ReservedValue;

use super::{Atom, AtomInfo, DimInfo, DimTable, Measure, Values};
use crate::DimError;
use crate::congruence::Congruence;
use crate::ids::{AtomId, DimId};
use crate::polynomial::{ArithmeticFault, Polynomial};
use crate::range::DimRange;

/// Why an expression was not built.
#[derive(Debug)]
pub(super) enum BuildError {
    /// It would exceed a size limit; wrapping operands in derived symbols helps.
    TooLarge,
    /// A coefficient does not fit into an `i64`.
    Overflow,
    /// An error.
    Dim(DimError),
}

impl From<DimError> for BuildError {
    fn from(error: DimError) -> Self {
        BuildError::Dim(error)
    }
}

impl From<ArithmeticFault> for BuildError {
    fn from(fault: ArithmeticFault) -> Self {
        match fault {
            ArithmeticFault::Overflow => BuildError::Overflow,
            ArithmeticFault::TooLarge => BuildError::TooLarge,
        }
    }
}

impl DimTable {
    /// The id of a polynomial in normal form, if it is within the limits.
    pub(super) fn intern(&mut self, polynomial: Polynomial) -> Result<DimId, BuildError> {
        if let Some(&dim) = self.dim_ids.get(&polynomial) {
            return Ok(dim);
        }
        let measure = self.measure(&polynomial);
        if polynomial.terms.len() > self.limits.max_terms
            || measure.size > self.limits.max_size
            || measure.depth > self.limits.max_depth
            || polynomial.degree() > self.limits.max_degree
        {
            return Err(BuildError::TooLarge);
        }
        self.check_node_limit()?;
        Ok(self.intern_unchecked(polynomial, measure))
    }

    /// The id of a constant or a single symbol, which exceed no limit.
    pub(super) fn intern_small(&mut self, polynomial: Polynomial) -> DimId {
        if let Some(&dim) = self.dim_ids.get(&polynomial) {
            return dim;
        }
        let measure = self.measure(&polynomial);
        self.intern_unchecked(polynomial, measure)
    }

    /// The expression that consists only of this atom. The atom is in normal form.
    pub(super) fn intern_atom(&mut self, atom: Atom) -> Result<DimId, BuildError> {
        if let Some(&id) = self.atom_ids.get(&atom) {
            return Ok(self.atoms[id].dim);
        }
        let measure = self.measure_atom(&atom);
        if measure.size > self.limits.max_size || measure.depth > self.limits.max_depth {
            return Err(BuildError::TooLarge);
        }
        self.check_node_limit()?;
        let values = self.values_of_atom(&atom).unwrap_or(Values::ANY);
        Ok(self.push_atom(atom, measure, values))
    }

    /// Adds an atom that is not interned yet, and the expression that consists only of this atom.
    pub(super) fn push_atom(&mut self, atom: Atom, measure: Measure, values: Values) -> DimId {
        let unset = DimId::reserved_value();
        let info = AtomInfo {
            atom: atom.clone(),
            measure,
            values,
            assumed: Values::ANY,
            dim: unset,
            canonical: unset,
        };
        let id = self.atoms.push(info);
        self.atom_ids.insert(atom, id);
        let alone = Polynomial::atom(id);
        let measure = self.measure(&alone);
        let dim = self.dims.push(DimInfo {
            polynomial: Arc::new(alone),
            measure,
            values,
            canonical: DimId::reserved_value(),
        });
        self.dim_ids.insert(self.dims[dim].polynomial.clone(), dim);
        self.atoms[id].dim = dim;
        self.atoms[id].canonical = dim;
        self.dims[dim].canonical = dim;
        self.sample_atom(id);
        self.canonicalize_atom(id, false);
        self.canonicalize_dim(dim);
        dim
    }

    fn intern_unchecked(&mut self, polynomial: Polynomial, measure: Measure) -> DimId {
        let values = self.values_of(&polynomial).unwrap_or(Values::ANY);
        let polynomial = Arc::new(polynomial);
        let dim = self.dims.next_key();
        self.dims.push(DimInfo {
            polynomial: polynomial.clone(),
            measure,
            values,
            canonical: dim,
        });
        self.dim_ids.insert(polynomial, dim);
        self.canonicalize_dim(dim);
        dim
    }

    fn check_node_limit(&self) -> Result<(), DimError> {
        if self.dims.len() >= self.limits.max_nodes {
            return Err(DimError::Limit {
                what: "dimension expressions",
                given: self.dims.len() as u64 + 1,
                limit: self.limits.max_nodes as u64,
            });
        }
        Ok(())
    }

    pub(super) fn measure(&self, polynomial: &Polynomial) -> Measure {
        let mut total = Measure {
            depth: 0,
            size: 1,
            symbols: 0,
        };
        for &atom in polynomial.terms.iter().flat_map(|term| &term.factors) {
            total.include(&self.atoms[atom].measure);
        }
        total
    }

    fn measure_atom(&self, atom: &Atom) -> Measure {
        let mut total = Measure {
            depth: 0,
            size: 1,
            symbols: 0,
        };
        for dim in atom.operands() {
            total.include(&self.dims[dim].measure);
        }
        total.depth += 1;
        total
    }

    /// What is known about a polynomial's values; `None` when the facts about its parts are contradictory.
    pub(crate) fn values_of(&self, polynomial: &Polynomial) -> Option<Values> {
        let mut range = DimRange::point(polynomial.constant);
        let mut congruence = Congruence::exactly(polynomial.constant);
        for term in &polynomial.terms {
            let mut product = DimRange::point(term.coefficient);
            let mut residues = Congruence::exactly(term.coefficient);
            for power in term.factors.chunk_by(|a, b| a == b) {
                let Some(&atom) = power.first() else { continue };
                let values = &self.atoms[atom].values;
                product = product.mul(&values.range.power(power.len()));
                for _ in power {
                    residues = residues.mul(&values.congruence);
                }
            }
            range = range.add(&product);
            congruence = congruence.add(&residues);
        }
        Values { range, congruence }.meet(&Values::ANY)
    }

    /// What follows about an atom's values from those of its operands.
    pub(super) fn values_of_atom(&self, atom: &Atom) -> Option<Values> {
        let range_of = |dim: &DimId| self.values(*dim).range;
        let positive = DimRange {
            min: Some(1),
            max: None,
        };
        let values = match atom {
            Atom::Symbol(symbol) => {
                let info = &self.symbols[*symbol];
                let own = Values {
                    range: info.dimension.bounds(),
                    congruence: info.dimension.residues(),
                };
                match info.definition {
                    Some(definition) => return own.meet(&self.values(definition)),
                    None => own,
                }
            }
            Atom::FloorDiv(a, b) => {
                let range = range_of(a).floor_div(&range_of(b).intersect(&positive));
                Values {
                    range,
                    congruence: Congruence::ANY,
                }
            }
            Atom::Mod(a, b) => {
                let range = range_of(a).modulo(&range_of(b).intersect(&positive));
                let congruence = match self.as_constant(*b) {
                    Some(divisor) => {
                        let (modulus, residue) = self.values(*a).congruence.common(divisor);
                        Congruence::new(modulus, residue)
                    }
                    None => Congruence::ANY,
                };
                Values { range, congruence }
            }
            Atom::Min(args) => self.values_of_choice(args, DimRange::min),
            Atom::Max(args) => self.values_of_choice(args, DimRange::max),
            Atom::Bcast(args) => return self.values_of_bcast(args),
        };
        values.meet(&Values::ANY)
    }

    /// The values of an expression that always equals one of `args`.
    pub(super) fn values_of_choice(
        &self,
        args: &[DimId],
        pick: fn(&DimRange, &DimRange) -> DimRange,
    ) -> Values {
        let all = args.iter().map(|&dim| self.values(dim));
        let joined = all.reduce(|a, b| Values {
            range: pick(&a.range, &b.range),
            congruence: a.congruence.join(&b.congruence),
        });
        joined.unwrap_or(Values::ANY)
    }

    /// Recomputes an atom's values after something inside was learned. Keeps the old ones on a contradiction.
    pub(super) fn refresh_atom(&mut self, id: AtomId) {
        let info = &self.atoms[id];
        let fresh = self
            .values_of_atom(&info.atom)
            .and_then(|values| values.meet(&info.assumed));
        if let Some(values) = fresh.and_then(|values| values.meet(&info.values)) {
            self.atoms[id].values = values;
        }
    }

    /// Recomputes an expression's values after something inside was learned.
    pub(super) fn refresh_dim(&mut self, dim: DimId) {
        let info = &self.dims[dim];
        let fresh = self
            .values_of(&info.polynomial)
            .and_then(|values| values.meet(&info.values));
        if let Some(values) = fresh {
            self.dims[dim].values = values;
        }
    }
}

impl Measure {
    fn include(&mut self, other: &Measure) {
        self.depth = self.depth.max(other.depth);
        self.size = self.size.saturating_add(other.size);
        self.symbols |= other.symbols;
    }
}
