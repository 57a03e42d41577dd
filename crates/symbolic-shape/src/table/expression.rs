//! Access to the structure of an expression, a [`DimId`], one level at a time.
//!
//! Used to convert sizes to a different form. Operands come before the expressions that use them, so a walk needs no
//! recursion: ascending ids are a topological order.

use super::{Atom, DimTable};
use crate::ids::{DimId, SymbolId};

/// An expression: a constant and a sum of products.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DimExpression {
    /// The constant.
    pub constant: i64,
    /// The terms, in the table's order.
    pub terms: Vec<DimTerm>,
}

/// A number times a product of at least one factor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DimTerm {
    /// The number, not zero.
    pub coefficient: i64,
    /// The factors; a repeated one is a power.
    pub factors: Vec<DimFactor>,
}

/// An indivisible factor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DimFactor {
    /// A symbol.
    Symbol(SymbolId),
    /// The first divided by the second, which is positive, rounded down.
    FloorDiv(DimId, DimId),
    /// The remainder of that division.
    Mod(DimId, DimId),
    /// The minimum.
    Min(Vec<DimId>),
    /// The maximum.
    Max(Vec<DimId>),
    /// A broadcast: the operand that is not 1; all operands that are not 1 are equal.
    Bcast(Vec<DimId>),
}

impl DimFactor {
    /// The expressions inside, left to right.
    pub fn operands(&self) -> Vec<DimId> {
        match self {
            DimFactor::Symbol(_) => Vec::new(),
            DimFactor::FloorDiv(a, b) | DimFactor::Mod(a, b) => vec![*a, *b],
            DimFactor::Min(args) | DimFactor::Max(args) | DimFactor::Bcast(args) => args.clone(),
        }
    }
}

impl DimTable {
    /// The structure of an expression.
    pub fn expression(&self, dim: DimId) -> DimExpression {
        let polynomial = self.polynomial(dim);
        let factor = |&atom: &crate::ids::AtomId| match &self.atom(atom).atom {
            Atom::Symbol(symbol) => DimFactor::Symbol(*symbol),
            Atom::FloorDiv(a, b) => DimFactor::FloorDiv(*a, *b),
            Atom::Mod(a, b) => DimFactor::Mod(*a, *b),
            Atom::Min(args) => DimFactor::Min(args.to_vec()),
            Atom::Max(args) => DimFactor::Max(args.to_vec()),
            Atom::Bcast(args) => DimFactor::Bcast(args.to_vec()),
        };
        DimExpression {
            constant: polynomial.constant,
            terms: polynomial
                .terms
                .iter()
                .map(|term| DimTerm {
                    coefficient: term.coefficient,
                    factors: term.factors.iter().map(factor).collect(),
                })
                .collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_expression_shows_its_terms() {
        let mut table = DimTable::new();
        let (a, b) = (table.symbol("A").unwrap(), table.symbol("B").unwrap());
        let four = table.constant(4);
        let quotient = table.floor_div(a, four).unwrap();
        let least = table.min(a, b).unwrap();
        let product = table.mul(quotient, least).unwrap();
        let (three, seven) = (table.constant(3), table.constant(7));
        let tripled = table.mul(three, product).unwrap();
        let dim = table.add(tripled, seven).unwrap();
        let expression = table.expression(dim);
        assert_eq!((expression.constant, expression.terms.len()), (7, 1));
        let term = &expression.terms[0];
        assert_eq!(term.coefficient, 3);
        assert!(term.factors.contains(&DimFactor::FloorDiv(a, four)));
        assert!(term.factors.contains(&DimFactor::Min(vec![a, b])));
        assert_eq!(DimFactor::Mod(a, four).operands(), [a, four]);
        assert_eq!(DimFactor::Max(vec![a, b]).operands(), [a, b]);
        let symbol = table.expression(a).terms[0].factors[0].clone();
        assert_eq!(symbol, DimFactor::Symbol(table.as_symbol(a).unwrap()));
        assert!(symbol.operands().is_empty());
    }
}
