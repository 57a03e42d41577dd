//! The table of dimension expressions of one graph: hash-consed normal forms, symbols, and facts.
//!
//! Invariants:
//! - An expression is a polynomial over atoms; an atom's operands were interned before it, and it before every expression
//!   that uses it. So ascending ids are a topological order, and equal ids are equal expressions.
//! - Ranges and congruences stored with a node are sound under the facts assumed so far, and never widen.
//! - `canonical` of a node has the same value wherever the facts hold; it is what the prover compares.
//! - Depth and size of an expression written as a tree are limited, so recursion over one expression is too.

mod arithmetic;
mod assume;
mod broadcast;
mod canonical;
mod check;
mod display;
mod divide;
mod evaluate;
mod expression;
mod extremum;
mod import;
mod intern;
mod learn;
mod narrow;
mod positive;
mod samples;
mod substitute;
mod symbols;

pub use display::{DimDisplay, PredicateDisplay, ShapeDisplay};
pub use expression::{DimExpression, DimFactor, DimTerm};
pub use import::DimImport;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use cranelift_entity::{EntityRef, PrimaryMap};

use crate::congruence::Congruence;
use crate::dimension::SymbolicDimension;
use crate::fact::{ContractFact, Hint, PlanFact, Predicate};
use crate::ids::{AtomId, DimId, SymbolId};
use crate::limits::DimLimits;
use crate::polynomial::Polynomial;
use crate::range::DimRange;
use crate::work::Work;

/// Dimension expressions of one graph, with their symbols, facts and hints.
///
/// Methods that take a [`DimId`] or a [`SymbolId`] panic when it is not of this table; see [`DimTable::contains`].
#[derive(Clone, Debug, Default)]
pub struct DimTable {
    limits: DimLimits,
    dims: PrimaryMap<DimId, DimInfo>,
    dim_ids: HashMap<Arc<Polynomial>, DimId>,
    atoms: PrimaryMap<AtomId, AtomInfo>,
    atom_ids: HashMap<Atom, AtomId>,
    symbols: PrimaryMap<SymbolId, SymbolInfo>,
    names: HashMap<Arc<str>, SymbolId>,
    /// The number at which the search for a free name with this stem continues.
    stems: HashMap<String, u64>,
    /// The first symbol that represents an expression.
    wrapped: HashMap<DimId, SymbolId>,
    knowledge: Knowledge,
    /// The nesting depth of canonical forms under construction.
    canonicalizing: usize,
    /// The number of canonical forms rebuilt since the outermost operation began; see `DimLimits::max_rebuilds`.
    rebuilt: u64,
    /// Whether a fact is being learned: all its consequences share one allowance of rebuilds.
    assuming: bool,
    samples: samples::Samples,
    /// The steps of all proofs.
    proved: Work,
    /// The current nesting depth of consequences of a fact.
    learning: usize,
    facts: Vec<ContractFact>,
    known_facts: HashSet<Predicate>,
    plan_facts: Vec<PlanFact>,
    known_plan_facts: HashSet<(DimId, DimId)>,
    hints: Vec<Hint>,
}

/// An indivisible factor.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Atom {
    Symbol(SymbolId),
    FloorDiv(DimId, DimId),
    Mod(DimId, DimId),
    Min(Box<[DimId]>),
    Max(Box<[DimId]>),
    Bcast(Box<[DimId]>),
}

impl Atom {
    /// The operands, left to right.
    pub(crate) fn operands(&self) -> Vec<DimId> {
        match self {
            Atom::Symbol(_) => Vec::new(),
            Atom::FloorDiv(a, b) | Atom::Mod(a, b) => vec![*a, *b],
            Atom::Min(args) | Atom::Max(args) | Atom::Bcast(args) => args.to_vec(),
        }
    }
}

/// The data stored with an expression.
#[derive(Clone, Debug)]
pub(crate) struct DimInfo {
    pub(crate) polynomial: Arc<Polynomial>,
    pub(crate) measure: Measure,
    pub(crate) values: Values,
    pub(crate) canonical: DimId,
}

/// The data stored with an atom.
#[derive(Clone, Debug)]
pub(crate) struct AtomInfo {
    pub(crate) atom: Atom,
    pub(crate) measure: Measure,
    pub(crate) values: Values,
    /// What facts imply beyond what follows from the operands.
    pub(crate) assumed: Values,
    /// The atom as an expression.
    pub(crate) dim: DimId,
    pub(crate) canonical: DimId,
}

/// The data stored with a symbol.
#[derive(Clone, Debug)]
struct SymbolInfo {
    dimension: SymbolicDimension,
    declared_min: i64,
    definition: Option<DimId>,
    dim: DimId,
}

/// The size of an expression as a tree.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Measure {
    pub(crate) depth: usize,
    pub(crate) size: usize,
    /// The symbols inside, by id modulo 64; definitions of derived symbols count.
    pub(crate) symbols: u64,
}

/// What is known about the values of an expression.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Values {
    pub(crate) range: DimRange,
    pub(crate) congruence: Congruence,
}

impl Values {
    pub(crate) const ANY: Values = Values {
        range: DimRange::FULL,
        congruence: Congruence::ANY,
    };

    /// The intersection of both, tightened; `None` when it is empty.
    pub(crate) fn meet(&self, other: &Values) -> Option<Values> {
        let congruence = self.congruence.intersect(&other.congruence)?;
        let range = congruence.tighten(&self.range.intersect(&other.range));
        let congruence = range.as_point().map_or(congruence, Congruence::exactly);
        (!range.is_empty()).then_some(Values { range, congruence })
    }
}

/// What was learned from contract facts beyond ranges and congruences.
#[derive(Clone, Debug, Default)]
pub(crate) struct Knowledge {
    /// An atom and what it equals.
    pub(crate) rules: BTreeMap<AtomId, DimId>,
    /// Polynomials that are zero.
    pub(crate) zero: Vec<Polynomial>,
    /// Polynomials that are zero or more.
    pub(crate) non_negative: Vec<Polynomial>,
    /// Polynomials that are not zero.
    pub(crate) non_zero: Vec<Polynomial>,
    /// Polynomials with a number that divides them.
    pub(crate) multiples: Vec<(Polynomial, i64)>,
}

impl DimTable {
    /// An empty table with the default limits.
    pub fn new() -> Self {
        Self::default()
    }

    /// An empty table with other limits.
    pub fn with_limits(limits: DimLimits) -> Self {
        DimTable {
            limits: limits.clamped(),
            ..Self::default()
        }
    }

    /// The limits of this table.
    pub fn limits(&self) -> &DimLimits {
        &self.limits
    }

    /// The steps that the proofs of this table have taken so far; see [`DimLimits::prover_total`].
    pub fn prover_steps(&self) -> u64 {
        self.proved.spent()
    }

    /// Whether the proofs of this table have exhausted their common allowance.
    pub fn is_prover_spent(&self) -> bool {
        self.proved.spent() >= self.limits.prover_total
    }

    pub(crate) fn count_proof(&self, steps: u64) {
        self.proved.add(steps);
    }

    /// The number of distinct expressions.
    pub fn len(&self) -> usize {
        self.dims.len()
    }

    /// Whether there is no expression yet.
    pub fn is_empty(&self) -> bool {
        self.dims.is_empty()
    }

    /// Whether `dim` can be an expression of this table.
    pub fn contains(&self, dim: DimId) -> bool {
        dim.index() < self.dims.len()
    }

    /// Whether `symbol` can be a symbol of this table.
    pub fn contains_symbol(&self, symbol: SymbolId) -> bool {
        symbol.index() < self.symbols.len()
    }

    /// The value of a constant expression.
    pub fn as_constant(&self, dim: DimId) -> Option<i64> {
        self.polynomial(dim).as_constant()
    }

    /// The symbol, when the expression is one symbol.
    pub fn as_symbol(&self, dim: DimId) -> Option<SymbolId> {
        match self.atoms[self.polynomial(dim).as_atom()?].atom {
            Atom::Symbol(symbol) => Some(symbol),
            _ => None,
        }
    }

    /// Every value of the expression is in this range, whenever the contract facts hold and it has a value.
    pub fn range(&self, dim: DimId) -> DimRange {
        self.values(dim).range
    }

    /// `(modulus, residue)`: every value is congruent to the residue; modulus 0 is an exact value, modulus 1 carries no
    /// information.
    pub fn congruence(&self, dim: DimId) -> (i64, i64) {
        let congruence = self.values(dim).congruence;
        (congruence.modulus, congruence.residue)
    }

    pub(crate) fn polynomial(&self, dim: DimId) -> &Polynomial {
        &self.dims[dim].polynomial
    }

    pub(crate) fn shared_polynomial(&self, dim: DimId) -> Arc<Polynomial> {
        self.dims[dim].polynomial.clone()
    }

    /// What is known about the values, including from equalities.
    pub(crate) fn values(&self, dim: DimId) -> Values {
        let info = &self.dims[dim];
        if info.canonical == dim {
            return info.values;
        }
        info.values
            .meet(&self.dims[info.canonical].values)
            .unwrap_or(info.values)
    }

    pub(crate) fn canonical(&self, dim: DimId) -> DimId {
        self.dims[dim].canonical
    }

    pub(crate) fn atom(&self, atom: AtomId) -> &AtomInfo {
        &self.atoms[atom]
    }

    pub(crate) fn knowledge(&self) -> &Knowledge {
        &self.knowledge
    }
}
