//! The size conditions that a kernel assumes, as data: checked whenever the numbers of a launch are evaluated.

use kiln_symbolic_shape::{DimId, DimTable, Predicate};
use serde::{Deserialize, Serialize};

use crate::quantity::Quantity;

/// A condition on the sizes of a launch, in terms of one number.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Condition {
    /// The number is 0.
    Zero(Quantity),
    /// The number is not 0.
    NotZero(Quantity),
    /// The number is at least 0.
    NotNegative(Quantity),
}

impl Condition {
    /// The contract of a table of sizes: bounds and multiples of its symbols, and its contract facts.
    pub fn contract(dims: &DimTable) -> Vec<Self> {
        let mut conditions = Vec::new();
        for symbol in dims.symbols() {
            // A derived symbol has the value of its definition, which a caller cannot choose.
            if dims.definition(symbol).is_some() {
                continue;
            }
            let value = || Quantity::symbol(symbol.as_u32());
            let info = dims.symbol_info(symbol);
            let bounds = info.bounds();
            if let Some(min) = bounds.min {
                conditions.push(Self::NotNegative(value() - Quantity::constant(min)));
            }
            if let Some(max) = bounds.max {
                conditions.push(Self::NotNegative(Quantity::constant(max) - value()));
            }
            if info.multiple() > 1 {
                let rest = value().modulo(Quantity::constant(info.multiple()));
                conditions.push(Self::Zero(rest));
            }
        }
        let facts = dims.contract_facts().iter();
        conditions.extend(facts.map(|fact| Self::of(dims, &fact.predicate)));
        conditions
    }

    /// A predicate about sizes of a table.
    fn of(dims: &DimTable, predicate: &Predicate) -> Self {
        let size = |dim: &DimId| Quantity::of(dims, *dim);
        let product = |of: &[DimId]| {
            let sizes = of.iter().map(size);
            sizes.fold(Quantity::constant(1), |product, size| product * size)
        };
        match predicate {
            Predicate::Equal(a, b) => Self::Zero(size(a) - size(b)),
            Predicate::NotEqual(a, b) => Self::NotZero(size(a) - size(b)),
            Predicate::LessEqual(a, b) => Self::NotNegative(size(b) - size(a)),
            Predicate::Less(a, b) => Self::NotNegative(size(b) - size(a) - Quantity::constant(1)),
            Predicate::Divides { divisor, dim } => {
                Self::Zero(size(dim).modulo(Quantity::constant(*divisor)))
            }
            Predicate::ProductEqual(a, b) => Self::Zero(product(a) - product(b)),
        }
    }

    /// The number to which the condition applies.
    pub(crate) fn quantity(&self) -> &Quantity {
        match self {
            Self::Zero(quantity) | Self::NotZero(quantity) | Self::NotNegative(quantity) => {
                quantity
            }
        }
    }

    /// Whether it holds for this value of its number.
    pub(crate) fn holds(&self, value: i64) -> bool {
        match self {
            Self::Zero(_) => value == 0,
            Self::NotZero(_) => value != 0,
            Self::NotNegative(_) => value >= 0,
        }
    }
}

impl std::fmt::Display for Condition {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (quantity, relation) = match self {
            Self::Zero(quantity) => (quantity, "=="),
            Self::NotZero(quantity) => (quantity, "!="),
            Self::NotNegative(quantity) => (quantity, ">="),
        };
        write!(f, "{quantity} {relation} 0")
    }
}
