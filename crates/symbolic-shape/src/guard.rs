//! Guards: constraints that are checked against the concrete sizes of a call.
//!
//! A guard that fails says which symbol, what was expected, and what was given.

use std::fmt;

use crate::constraint::{Constraint, ConstraintSet, Extent};
use crate::error::EvaluateError;

/// A constraint to check at run time, and where it comes from.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Guard {
    /// What must hold.
    pub constraint: Constraint,
    /// What needs it, such as `reshape %5`.
    pub origin: String,
}

impl Guard {
    /// Whether the constraint holds for sizes that `size_of` gives by name.
    pub fn check(&self, size_of: &dyn Fn(&str) -> Option<i64>) -> Result<(), EvaluateError> {
        let size = |name: &str| {
            size_of(name).ok_or_else(|| EvaluateError::Unbound {
                symbol: name.escape_debug().to_string(),
            })
        };
        let value = |extent: &Extent| match extent {
            Extent::Symbol(name) => size(name),
            Extent::Size(size) => Ok(*size),
        };
        match &self.constraint {
            Constraint::Equal(a, b) => {
                let (left, right) = (value(a)?, value(b)?);
                let (symbol, expected, given) = match b {
                    Extent::Symbol(_) if matches!(a, Extent::Size(_)) => (b, left, right),
                    _ => (a, right, left),
                };
                self.require(left == right, symbol, expected, given)
            }
            Constraint::Range { symbol, min, max } => {
                let given = size(symbol)?;
                let range = crate::DimRange {
                    min: Some(*min),
                    max: *max,
                };
                self.require(range.contains(given), symbol.escape_debug(), range, given)
            }
            Constraint::Divisible { symbol, divisor } => {
                let given = size(symbol)?;
                let holds = given
                    .checked_rem(*divisor)
                    .map_or(*divisor == -1, |rest| rest == 0);
                self.require(
                    holds,
                    symbol.escape_debug(),
                    format!("a multiple of {divisor}"),
                    given,
                )
            }
            Constraint::ProductEqual(a, b) => {
                let product = |extents: &[Extent]| {
                    let sizes = extents.iter().map(value).collect::<Result<Vec<i64>, _>>()?;
                    if sizes.contains(&0) {
                        return Ok(0);
                    }
                    let product = sizes
                        .iter()
                        .try_fold(1_i128, |acc, &size| acc.checked_mul(i128::from(size)));
                    product.ok_or_else(|| EvaluateError::Overflow {
                        expression: self.constraint.to_string(),
                    })
                };
                let (left, right) = (product(a)?, product(b)?);
                let names: Vec<String> = self
                    .constraint
                    .symbols()
                    .iter()
                    .map(|name| name.escape_debug().to_string())
                    .collect();
                self.require(
                    left == right,
                    names.join(", "),
                    &self.constraint,
                    format!("{left} and {right}"),
                )
            }
        }
    }

    fn require(
        &self,
        holds: bool,
        symbol: impl fmt::Display,
        expected: impl fmt::Display,
        given: impl fmt::Display,
    ) -> Result<(), EvaluateError> {
        if holds {
            return Ok(());
        }
        Err(EvaluateError::GuardFailed {
            symbol: symbol.to_string(),
            expected: expected.to_string(),
            given: given.to_string(),
            origin: self.origin.clone(),
        })
    }
}

/// Guards that are checked together, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GuardSet {
    guards: Vec<Guard>,
}

impl GuardSet {
    /// No guards.
    pub fn new() -> Self {
        Self::default()
    }

    /// A guard for each constraint, all with the same origin.
    pub fn from_constraints(constraints: ConstraintSet, origin: &str) -> Self {
        let guard = |constraint| Guard {
            constraint,
            origin: origin.to_string(),
        };
        GuardSet {
            guards: constraints.into_iter().map(guard).collect(),
        }
    }

    /// Adds a guard, unless its constraint is guarded already.
    pub fn push(&mut self, guard: Guard) {
        if !self
            .guards
            .iter()
            .any(|other| other.constraint == guard.constraint)
        {
            self.guards.push(guard);
        }
    }

    /// The guards.
    pub fn iter(&self) -> std::slice::Iter<'_, Guard> {
        self.guards.iter()
    }

    /// Checks all guards against sizes by name; the first failure is the error.
    pub fn check(&self, size_of: &dyn Fn(&str) -> Option<i64>) -> Result<(), EvaluateError> {
        self.guards
            .iter()
            .try_for_each(|guard| guard.check(size_of))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(constraint: Constraint, sizes: &[(&str, i64)]) -> String {
        let mut guards = GuardSet::new();
        let guard = Guard {
            constraint,
            origin: "reshape %5".to_string(),
        };
        guards.push(guard.clone());
        guards.push(guard);
        assert_eq!(guards.iter().count(), 1);
        let size_of = |name: &str| {
            sizes
                .iter()
                .find(|(other, _)| *other == name)
                .map(|(_, size)| *size)
        };
        guards
            .check(&size_of)
            .map_or_else(|error| error.to_string(), |()| "holds".to_string())
    }

    #[test]
    fn failures_name_symbol_expected_and_given() {
        let symbol = |name: &str| Extent::Symbol(name.into());
        let equal = Constraint::Equal(symbol("A"), symbol("B"));
        assert_eq!(check(equal.clone(), &[("A", 3), ("B", 3)]), "holds");
        insta::assert_snapshot!(check(equal.clone(), &[("A", 3), ("B", 4)]), @"expected 4 for A, found 3 (reshape %5)");
        insta::assert_snapshot!(check(equal, &[("A", 3)]), @"symbol B has no value; bind it before evaluating");
        let known = Constraint::Equal(Extent::Size(8), symbol("N"));
        insta::assert_snapshot!(check(known, &[("N", 7)]), @"expected 8 for N, found 7 (reshape %5)");
        let range = Constraint::Range {
            symbol: "S".into(),
            min: 1,
            max: Some(64),
        };
        insta::assert_snapshot!(check(range, &[("S", 65)]), @"expected 1..=64 for S, found 65 (reshape %5)");
        let multiple = Constraint::Divisible {
            symbol: "N".into(),
            divisor: 8,
        };
        insta::assert_snapshot!(check(multiple, &[("N", 12)]), @"expected a multiple of 8 for N, found 12 (reshape %5)");
        let products =
            Constraint::ProductEqual(vec![symbol("A"), symbol("B")], vec![Extent::Size(12)]);
        assert_eq!(check(products.clone(), &[("A", 3), ("B", 4)]), "holds");
        insta::assert_snapshot!(check(products, &[("A", 3), ("B", 5)]), @"expected product(A, B) == product(12) for A, B, found 15 and 12 (reshape %5)");
    }

    #[test]
    fn huge_sizes_are_an_error_not_a_wrap() {
        let symbol = |name: &str| Extent::Symbol(name.into());
        let products = Constraint::ProductEqual(vec![symbol("A"); 3], vec![symbol("A")]);
        assert!(check(products.clone(), &[("A", i64::MAX)]).starts_with("size overflows"));
        assert_eq!(check(products, &[("A", 0)]), "holds");
    }
}
