//! Constraints on named sizes, at the API's edge: they belong to no table and name symbols by text.

use std::fmt;
use std::sync::Arc;

use crate::dimension::SymbolicDimension;
use crate::error::DimError;
use crate::fact::{ContractFact, FactOrigin, Predicate};
use crate::ids::DimId;
use crate::table::DimTable;

/// A size: a named one or a known one.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Extent {
    /// The size of that name.
    Symbol(Arc<str>),
    /// This size.
    Size(i64),
}

impl Extent {
    /// The extent of a dimension.
    pub fn of(dimension: &SymbolicDimension) -> Self {
        dimension.value().map_or_else(
            || Extent::Symbol(dimension.shared_name().clone()),
            Extent::Size,
        )
    }

    fn dim(&self, table: &mut DimTable) -> Result<DimId, DimError> {
        match self {
            Extent::Symbol(name) => table.symbol(name),
            Extent::Size(size) => Ok(table.constant(*size)),
        }
    }
}

/// One condition on sizes.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Constraint {
    /// Both are the same.
    Equal(Extent, Extent),
    /// The size of that name lies between bounds, both included.
    Range {
        /// The name.
        symbol: Arc<str>,
        /// The least size.
        min: i64,
        /// The greatest size, or none.
        max: Option<i64>,
    },
    /// The size of that name is a multiple of the divisor.
    Divisible {
        /// The name.
        symbol: Arc<str>,
        /// The divisor, positive.
        divisor: i64,
    },
    /// Both products are the same.
    ProductEqual(Vec<Extent>, Vec<Extent>),
}

impl Constraint {
    /// Every name in it, left to right.
    pub fn symbols(&self) -> Vec<&Arc<str>> {
        let extents: Vec<&Extent> = match self {
            Constraint::Equal(a, b) => vec![a, b],
            Constraint::Range { symbol, .. } | Constraint::Divisible { symbol, .. } => {
                return vec![symbol];
            }
            Constraint::ProductEqual(a, b) => a.iter().chain(b).collect(),
        };
        let names = extents.into_iter().filter_map(|extent| match extent {
            Extent::Symbol(name) => Some(name),
            Extent::Size(_) => None,
        });
        names.collect()
    }
}

/// Conditions on sizes, each once, in the order they were added.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConstraintSet {
    constraints: Vec<Constraint>,
}

impl ConstraintSet {
    /// No conditions.
    pub fn new() -> Self {
        Self::default()
    }

    /// The bounds and the multiple of a dimension; none for a known one or one that may be any size.
    pub fn of_dimension(dimension: &SymbolicDimension) -> Self {
        let mut set = Self::new();
        let symbol = dimension.shared_name().clone();
        if dimension.is_known() || symbol.is_empty() {
            return set;
        }
        if dimension.min() != 0 || dimension.max().is_some() {
            set.insert(Constraint::Range {
                symbol: symbol.clone(),
                min: dimension.min(),
                max: dimension.max(),
            });
        }
        if dimension.multiple() > 1 {
            set.insert(Constraint::Divisible {
                symbol,
                divisor: dimension.multiple(),
            });
        }
        set
    }

    /// Adds a condition, unless it is there.
    pub fn insert(&mut self, constraint: Constraint) {
        if !self.constraints.contains(&constraint) {
            self.constraints.push(constraint);
        }
    }

    /// The conditions.
    pub fn iter(&self) -> std::slice::Iter<'_, Constraint> {
        self.constraints.iter()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.constraints.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.constraints.is_empty()
    }

    /// Assumes every condition in `table`, as declared. New names are declared as sizes, 0 or more.
    pub fn assume_in(&self, table: &mut DimTable) -> Result<(), DimError> {
        let assume = |table: &mut DimTable, predicate| {
            table.assume(ContractFact {
                predicate,
                origin: FactOrigin::Declared,
            })
        };
        for constraint in &self.constraints {
            match constraint {
                Constraint::Equal(a, b) => {
                    let predicate = Predicate::Equal(a.dim(table)?, b.dim(table)?);
                    assume(table, predicate)?;
                }
                Constraint::Range { symbol, min, max } => {
                    let dim = table.symbol(symbol)?;
                    let least = table.constant(*min);
                    assume(table, Predicate::LessEqual(least, dim))?;
                    if let Some(max) = max {
                        let most = table.constant(*max);
                        assume(table, Predicate::LessEqual(dim, most))?;
                    }
                }
                Constraint::Divisible { symbol, divisor } => {
                    let dim = table.symbol(symbol)?;
                    assume(
                        table,
                        Predicate::Divides {
                            divisor: *divisor,
                            dim,
                        },
                    )?;
                }
                Constraint::ProductEqual(a, b) => {
                    let mut dims = |extents: &[Extent]| {
                        extents
                            .iter()
                            .map(|extent| extent.dim(table))
                            .collect::<Result<_, _>>()
                    };
                    let predicate = Predicate::ProductEqual(dims(a)?, dims(b)?);
                    assume(table, predicate)?;
                }
            }
        }
        Ok(())
    }
}

impl Extend<Constraint> for ConstraintSet {
    fn extend<I: IntoIterator<Item = Constraint>>(&mut self, constraints: I) {
        constraints
            .into_iter()
            .for_each(|constraint| self.insert(constraint));
    }
}

impl FromIterator<Constraint> for ConstraintSet {
    fn from_iter<I: IntoIterator<Item = Constraint>>(constraints: I) -> Self {
        let mut set = Self::new();
        set.extend(constraints);
        set
    }
}

impl IntoIterator for ConstraintSet {
    type Item = Constraint;
    type IntoIter = std::vec::IntoIter<Constraint>;

    fn into_iter(self) -> Self::IntoIter {
        self.constraints.into_iter()
    }
}

impl fmt::Display for Extent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Extent::Symbol(name) => write!(f, "{}", name.escape_debug()),
            Extent::Size(size) => write!(f, "{size}"),
        }
    }
}

impl fmt::Display for Constraint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |extents: &[Extent]| {
            extents
                .iter()
                .map(ToString::to_string)
                .collect::<Vec<_>>()
                .join(", ")
        };
        match self {
            Constraint::Equal(a, b) => write!(f, "{a} == {b}"),
            Constraint::Range {
                symbol,
                min,
                max: None,
            } => write!(f, "{} >= {min}", symbol.escape_debug()),
            Constraint::Range {
                symbol,
                min,
                max: Some(max),
            } => {
                let symbol = symbol.escape_debug();
                write!(f, "{symbol} >= {min}, {symbol} <= {max}")
            }
            Constraint::Divisible { symbol, divisor } => {
                write!(f, "{} % {divisor} == 0", symbol.escape_debug())
            }
            Constraint::ProductEqual(a, b) => {
                write!(f, "product({}) == product({})", list(a), list(b))
            }
        }
    }
}

impl fmt::Display for ConstraintSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let texts: Vec<String> = self.constraints.iter().map(ToString::to_string).collect();
        f.write_str(&texts.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::display_where;
    use crate::text::{Cursor, parse_where};

    fn all_kinds() -> ConstraintSet {
        let symbol = |name: &str| Extent::Symbol(name.into());
        let mut set: ConstraintSet = [
            Constraint::Equal(symbol("A"), symbol("B")),
            Constraint::Range {
                symbol: "C".into(),
                min: 1,
                max: Some(64),
            },
            Constraint::Divisible {
                symbol: "D".into(),
                divisor: 8,
            },
            Constraint::ProductEqual(
                vec![symbol("A"), symbol("C")],
                vec![Extent::Size(4), symbol("D")],
            ),
        ]
        .into_iter()
        .collect();
        set.insert(Constraint::Divisible {
            symbol: "D".into(),
            divisor: 8,
        });
        set
    }

    #[test]
    fn prints_as_a_where_clause_reads() {
        let set = all_kinds();
        assert_eq!(set.len(), 4);
        insta::assert_snapshot!(set, @"A == B, C >= 1, C <= 64, D % 8 == 0, product(A, C) == product(4, D)");
        let (mut read, mut assumed) = (DimTable::new(), DimTable::new());
        parse_where(&mut Cursor::new(&set.to_string()), &mut read).unwrap();
        set.assume_in(&mut assumed).unwrap();
        assert_eq!(display_where(&read), display_where(&assumed));
    }

    #[test]
    fn a_dimension_gives_its_constraints() {
        let dimension = SymbolicDimension::range("S", 2..=9)
            .unwrap()
            .multiple_of(2)
            .unwrap();
        assert_eq!(
            ConstraintSet::of_dimension(&dimension).to_string(),
            "S >= 2, S <= 8, S % 2 == 0"
        );
        assert!(ConstraintSet::of_dimension(&SymbolicDimension::named("S")).is_empty());
        assert!(ConstraintSet::of_dimension(&SymbolicDimension::known(4)).is_empty());
    }

    #[test]
    fn contradictions_are_found() {
        let mut table = DimTable::new();
        let set: ConstraintSet = [
            Constraint::Divisible {
                symbol: "N".into(),
                divisor: 8,
            },
            Constraint::Equal(Extent::Symbol("N".into()), Extent::Size(12)),
        ]
        .into_iter()
        .collect();
        let error = set.assume_in(&mut table).unwrap_err();
        insta::assert_snapshot!(error, @"N == 12 contradicts what is known: N is in 0.. and 0 modulo 8");
    }
}
