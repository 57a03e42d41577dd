//! The three kinds of knowledge about sizes, as three types, and the predicates they are made of.
//!
//! A contract fact holds or the call fails with a typed error; a plan fact selects between plans; a hint affects speed
//! alone.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::{DimId, DimTable, SymbolId};

/// A statement about expressions of one table.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Predicate {
    /// Both are equal.
    Equal(DimId, DimId),
    /// They differ.
    NotEqual(DimId, DimId),
    /// The first is at most the second.
    LessEqual(DimId, DimId),
    /// The first is less than the second.
    Less(DimId, DimId),
    /// `dim` is a multiple of `divisor`, which is positive.
    Divides {
        /// The divisor.
        divisor: i64,
        /// The expression that it divides.
        dim: DimId,
    },
    /// Both lists have the same product: the two sides of a reshape.
    ProductEqual(Vec<DimId>, Vec<DimId>),
}

impl Predicate {
    /// Every expression in the predicate, left to right.
    pub fn dims(&self) -> Vec<DimId> {
        match self {
            Predicate::Equal(a, b)
            | Predicate::NotEqual(a, b)
            | Predicate::LessEqual(a, b)
            | Predicate::Less(a, b) => vec![*a, *b],
            Predicate::Divides { dim, .. } => vec![*dim],
            Predicate::ProductEqual(a, b) => a.iter().chain(b).copied().collect(),
        }
    }

    /// The same predicate over other expressions, each mapped by `map`.
    ///
    /// # Errors
    /// The first error of `map`.
    pub fn try_map_dims<E>(
        &self,
        map: &mut dyn FnMut(DimId) -> Result<DimId, E>,
    ) -> Result<Self, E> {
        Ok(match self {
            Predicate::Equal(a, b) => Predicate::Equal(map(*a)?, map(*b)?),
            Predicate::NotEqual(a, b) => Predicate::NotEqual(map(*a)?, map(*b)?),
            Predicate::LessEqual(a, b) => Predicate::LessEqual(map(*a)?, map(*b)?),
            Predicate::Less(a, b) => Predicate::Less(map(*a)?, map(*b)?),
            Predicate::Divides { divisor, dim } => Predicate::Divides {
                divisor: *divisor,
                dim: map(*dim)?,
            },
            Predicate::ProductEqual(a, b) => {
                let mut all = |dims: &[DimId]| {
                    let mapped = dims.iter().map(|&dim| map(dim));
                    mapped.collect::<Result<Vec<DimId>, E>>()
                };
                Predicate::ProductEqual(all(a)?, all(b)?)
            }
        })
    }
}

/// A condition that holds for every call; sizes that violate it are rejected.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ContractFact {
    /// The predicate that holds.
    pub predicate: Predicate,
    /// Its origin.
    pub origin: FactOrigin,
}

/// The origin of a contract fact.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum FactOrigin {
    /// The user or the model declared it.
    Declared,
    /// An operator requires it; the text names the operator, such as `reshape %5`.
    Required(String),
}

impl std::fmt::Display for FactOrigin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            FactOrigin::Declared => f.write_str("declared"),
            FactOrigin::Required(by) => write!(f, "required by {by}"),
        }
    }
}

/// Two sizes expected to be equal. Fusion may use the fact; when it is false, another plan is used.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PlanFact {
    /// One size.
    pub left: DimId,
    /// The other.
    pub right: DimId,
    /// The op that expects it, such as `add %7`.
    pub origin: String,
}

impl PlanFact {
    /// The predicate as text: `A == B`. Two tables of the same graph give the same fact the same name.
    pub fn name(&self, table: &DimTable) -> String {
        let (left, right) = (table.display(self.left), table.display(self.right));
        format!("{left} == {right}")
    }
}

/// The plan facts of a graph on which a plan may depend.
///
/// Facts are identified by their [names](PlanFact::name), so that a selection is the same for a graph that was stored and
/// read back.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum FactSelection {
    /// All facts.
    #[default]
    All,
    /// All facts except these.
    Without(BTreeSet<String>),
    /// No facts: the plan serves all sizes that the graph allows.
    None,
}

impl FactSelection {
    /// Whether a plan may depend on a fact of `table`.
    pub fn allows(&self, fact: &PlanFact, table: &DimTable) -> bool {
        match self {
            FactSelection::All => true,
            FactSelection::Without(names) => !names.contains(&fact.name(table)),
            FactSelection::None => false,
        }
    }
}

impl std::fmt::Display for FactSelection {
    /// The facts that a plan made with this selection omits.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            FactSelection::All => f.write_str("with all facts"),
            FactSelection::Without(names) => {
                let names: Vec<&str> = names.iter().map(String::as_str).collect();
                write!(f, "without {}", names.join(", "))
            }
            FactSelection::None => f.write_str("without any fact"),
        }
    }
}

/// A likely value of a symbol.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Hint {
    /// The symbol.
    pub symbol: SymbolId,
    /// Its likely value.
    pub likely: i64,
}
