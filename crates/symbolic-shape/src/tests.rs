//! Expressions as plain trees with the obvious meaning, with which the table is compared.

mod budgets;
mod hostile;
mod normal_form;
mod proofs;
mod prover;
mod simplifier;
mod tables;

use crate::{Binding, DimError, DimId, DimTable};
use proptest::prelude::*;

/// The symbols of every generated expression.
pub(crate) const NAMES: [&str; 3] = ["A", "B", "C"];
/// The values that symbols take: 0 and 1, adjacent values, multiples and others.
pub(crate) const VALUES: [i64; 6] = [0, 1, 2, 3, 4, 8];

/// The default number of cases, which the environment may raise; no files are written next to the tests.
pub(crate) fn config() -> ProptestConfig {
    ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

#[derive(Clone, Debug)]
pub(crate) enum Expr {
    Constant(i64),
    Symbol(usize),
    Add(Box<Expr>, Box<Expr>),
    Sub(Box<Expr>, Box<Expr>),
    Mul(Box<Expr>, Box<Expr>),
    FloorDiv(Box<Expr>, Box<Expr>),
    CeilDiv(Box<Expr>, Box<Expr>),
    Mod(Box<Expr>, Box<Expr>),
    Min(Box<Expr>, Box<Expr>),
    Max(Box<Expr>, Box<Expr>),
    Bcast(Box<Expr>, Box<Expr>),
}

impl Expr {
    /// The value, or `None` if a divisor is not positive or a broadcast fails.
    pub(crate) fn value(&self, sizes: &[i64; 3]) -> Option<i64> {
        let both = |a: &Expr, b: &Expr| Some((a.value(sizes)?, b.value(sizes)?));
        let divided = |a: &Expr, b: &Expr| both(a, b).filter(|(_, divisor)| *divisor > 0);
        match self {
            Expr::Constant(value) => Some(*value),
            Expr::Symbol(symbol) => Some(sizes[*symbol]),
            Expr::Add(a, b) => both(a, b).map(|(a, b)| a + b),
            Expr::Sub(a, b) => both(a, b).map(|(a, b)| a - b),
            Expr::Mul(a, b) => both(a, b).map(|(a, b)| a * b),
            Expr::FloorDiv(a, b) => divided(a, b).map(|(a, b)| a.div_euclid(b)),
            Expr::CeilDiv(a, b) => divided(a, b).map(|(a, b)| -(-a).div_euclid(b)),
            Expr::Mod(a, b) => divided(a, b).map(|(a, b)| a.rem_euclid(b)),
            Expr::Min(a, b) => both(a, b).map(|(a, b)| a.min(b)),
            Expr::Max(a, b) => both(a, b).map(|(a, b)| a.max(b)),
            Expr::Bcast(a, b) => match both(a, b)? {
                (a, 1) => Some(a),
                (1, b) => Some(b),
                (a, b) => (a == b).then_some(a),
            },
        }
    }

    pub(crate) fn build(&self, table: &mut DimTable) -> Result<DimId, DimError> {
        let mut both = |a: &Expr, b: &Expr| Ok((a.build(table)?, b.build(table)?));
        match self {
            Expr::Constant(value) => Ok(table.constant(*value)),
            Expr::Symbol(symbol) => table.symbol(NAMES[*symbol]),
            Expr::Add(a, b) => both(a, b).and_then(|(a, b)| table.add(a, b)),
            Expr::Sub(a, b) => both(a, b).and_then(|(a, b)| table.sub(a, b)),
            Expr::Mul(a, b) => both(a, b).and_then(|(a, b)| table.mul(a, b)),
            Expr::FloorDiv(a, b) => both(a, b).and_then(|(a, b)| table.floor_div(a, b)),
            Expr::CeilDiv(a, b) => both(a, b).and_then(|(a, b)| table.ceil_div(a, b)),
            Expr::Mod(a, b) => both(a, b).and_then(|(a, b)| table.modulo(a, b)),
            Expr::Min(a, b) => both(a, b).and_then(|(a, b)| table.min(a, b)),
            Expr::Max(a, b) => both(a, b).and_then(|(a, b)| table.max(a, b)),
            Expr::Bcast(a, b) => both(a, b).and_then(|(a, b)| table.bcast(a, b)),
        }
    }
}

fn leaf() -> impl Strategy<Value = Expr> {
    let constant = prop::sample::select(vec![-8, -3, -1, 0, 1, 2, 3, 4, 6, 7, 8, 16, 31, 32]);
    prop_oneof![
        constant.prop_map(Expr::Constant),
        (0..3_usize).prop_map(Expr::Symbol),
        (0..3_usize).prop_map(Expr::Symbol)
    ]
}

fn divisor() -> impl Strategy<Value = Expr> + Clone {
    let constant = prop::sample::select(vec![1, 2, 3, 4, 6, 8, 32]).prop_map(Expr::Constant);
    prop_oneof![6 => constant, 1 => (0..3_usize).prop_map(Expr::Symbol)]
}

/// Any expression.
pub(crate) fn expr() -> impl Strategy<Value = Expr> {
    leaf().prop_recursive(4, 24, 2, |inner| {
        let pair = (inner.clone(), inner.clone()).prop_map(|(a, b)| (Box::new(a), Box::new(b)));
        let division = (inner, divisor()).prop_map(|(a, b)| (Box::new(a), Box::new(b)));
        prop_oneof![
            2 => pair.clone().prop_map(|(a, b)| Expr::Add(a, b)),
            1 => pair.clone().prop_map(|(a, b)| Expr::Sub(a, b)),
            2 => pair.clone().prop_map(|(a, b)| Expr::Mul(a, b)),
            2 => division.clone().prop_map(|(a, b)| Expr::FloorDiv(a, b)),
            1 => division.clone().prop_map(|(a, b)| Expr::CeilDiv(a, b)),
            2 => division.prop_map(|(a, b)| Expr::Mod(a, b)),
            1 => pair.clone().prop_map(|(a, b)| Expr::Min(a, b)),
            1 => pair.clone().prop_map(|(a, b)| Expr::Max(a, b)),
            1 => pair.prop_map(|(a, b)| Expr::Bcast(a, b)),
        ]
    })
}

/// An expression that consists only of broadcasts over symbols and constants, and loses no error.
pub(crate) fn broadcasts() -> impl Strategy<Value = Expr> {
    leaf().prop_recursive(4, 16, 2, |inner| {
        (inner.clone(), inner).prop_map(|(a, b)| Expr::Bcast(Box::new(a), Box::new(b)))
    })
}

/// Every combination of values.
pub(crate) fn all_sizes() -> impl Iterator<Item = [i64; 3]> {
    VALUES.into_iter().flat_map(|a| {
        VALUES
            .into_iter()
            .flat_map(move |b| VALUES.into_iter().map(move |c| [a, b, c]))
    })
}

/// The binding of the table's symbols to sizes; symbols that are not in the table are omitted.
pub(crate) fn binding(table: &DimTable, sizes: &[i64; 3]) -> Binding {
    NAMES
        .iter()
        .zip(sizes)
        .filter_map(|(name, size)| Some((table.symbol_named(name)?, *size)))
        .collect()
}

/// Facts to assume about the symbols of a table, as text.
pub(crate) fn facts() -> impl Strategy<Value = Vec<&'static str>> {
    let all = vec![
        "A >= 1",
        "B >= 2",
        "C <= 4",
        "A % 4 == 0",
        "B % 2 == 0",
        "C == 3",
        "A == B",
        "A <= B",
        "B < C",
        "A != 0",
        "A*B == C",
        "A + B == 2*C",
        "A == 4*C",
        "A*B % 8 == 0",
        "A / 2 == B",
        "product(A, B) == product(C, 4)",
        "A % 3 == 1",
        "max(A, B) == C",
        "bcast(A, B) == B",
        "A - B >= 2",
        "(A + 7) / 8 == (B + 3) / 4",
        "(C + 1) % 4 == 0",
    ];
    prop::collection::vec(prop::sample::select(all), 0..4)
}

/// The predicates that `parse_where` needs to restore bounds and contract facts, separated by commas; empty if there
/// are none.
pub(crate) fn display_where(table: &DimTable) -> String {
    let declared = table
        .symbols()
        .filter(|&symbol| table.definition(symbol).is_none() && table.declared_min(symbol) < 0);
    let below_zero = declared.map(|symbol| {
        format!(
            "{} >= {}",
            table.symbol_name(symbol),
            table.declared_min(symbol)
        )
    });
    let facts = table
        .contract_facts()
        .iter()
        .map(|fact| table.display_predicate(&fact.predicate).to_string());
    below_zero.chain(facts).collect::<Vec<_>>().join(", ")
}
