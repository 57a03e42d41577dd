//! Quantities: conversion compared with the table's own evaluation, folding, printing, malformed programs.

use kiln_symbolic_shape::{Binding, DimId, DimTable};
use proptest::prelude::*;

use super::*;

fn context(symbols: &[i64]) -> LaunchContext<'_> {
    LaunchContext {
        symbols,
        threads: 3,
        caches: [32 << 10, 1 << 20, 8 << 20],
    }
}

fn value(quantity: &Quantity, symbols: &[i64]) -> Result<i64, QuantityError> {
    quantity.evaluate(&context(symbols))
}

#[test]
fn constants_fold_while_composing() {
    let c = Quantity::constant;
    let folded = (c(7) + c(3)).ceil_div(c(4)).max(c(1)).min(c(9)) * c(5) - c(1);
    assert_eq!(folded.as_constant(), Some(14));
    assert_eq!(c(-7).floor_div(c(2)).as_constant(), Some(-4));
    assert_eq!(c(-7).modulo(c(2)).as_constant(), Some(1));
    assert_eq!(c(5).round_up(c(8)).as_constant(), Some(8));
    let n = Quantity::symbol(0);
    assert_eq!((n.clone() + c(0)) * c(1), n);
    assert_eq!((c(0) + c(1) * n.clone()).floor_div(c(1)) - c(0), n);
    assert_eq!(n.clone().min(n.clone()).max(n.clone()), n);
    assert_eq!(Quantity::from(4), c(4));
    // An operation that cannot be folded is an error when evaluated.
    let quotient = c(1).floor_div(c(0));
    assert_eq!(value(&quotient, &[]), Err(QuantityError::Divisor(0)));
    let large = c(i64::MAX) + c(1);
    assert_eq!(value(&large, &[]), Err(QuantityError::Overflow));
    assert_eq!(value(&(large - c(1)), &[]), Ok(i64::MAX));
}

#[test]
fn quantities_print_in_infix() {
    let (n, m) = (Quantity::symbol(0), Quantity::symbol(1));
    let text = (n.clone() - (m.clone() - Quantity::constant(-2)))
        .floor_div(m.clone() * Quantity::cache(2))
        .modulo(Quantity::threads().max(n));
    assert_eq!(
        text.to_string(),
        "(n0 - (n1 - (-2))) / (n1 * cache2) % max(threads, n0)"
    );
}

#[test]
fn damaged_programs_are_errors() {
    for text in [
        "[]",
        "[\"add\"]",
        "[{\"constant\":1},{\"constant\":2}]",
        "[\"keep\"]",
        "[{\"kept\":0}]",
        "[{\"cache\":0}]",
        "[{\"cache\":4}]",
        "[{\"symbol\":9}]",
    ] {
        let quantity: Quantity = serde_json::from_str(text).unwrap();
        assert_eq!(
            value(&quantity, &[1]),
            Err(QuantityError::Malformed),
            "{text}"
        );
        let _ = quantity.to_string();
    }
    let deep = Quantity(vec![
        Step::Constant(i64::MAX),
        Step::Constant(i64::MAX),
        Step::Mul,
        Step::Constant(i64::MAX),
        Step::Mul,
    ]);
    assert_eq!(value(&deep, &[]), Err(QuantityError::Overflow));
    assert_eq!(QuantityError::Malformed.code(), "E0226");
}

#[test]
fn quantities_round_trip_through_json() {
    let quantity = Quantity::symbol(1)
        .ceil_div(Quantity::cache(1))
        .min(Quantity::threads());
    let text = serde_json::to_string(&quantity).unwrap();
    assert_eq!(serde_json::from_str::<Quantity>(&text).unwrap(), quantity);
}

#[test]
fn broadcast_sizes_evaluate_or_report_the_mismatch() {
    let mut dims = DimTable::new();
    let (a, b) = (dims.symbol("A").unwrap(), dims.symbol("B").unwrap());
    let both = dims.bcast(a, b).unwrap();
    let quantity = Quantity::of(&dims, both);
    assert_eq!(value(&quantity, &[1, 5]), Ok(5));
    assert_eq!(value(&quantity, &[5, 1]), Ok(5));
    assert_eq!(value(&quantity, &[5, 5]), Ok(5));
    assert_eq!(value(&quantity, &[0, 1]), Ok(0));
    let error = value(&quantity, &[5, 4]).unwrap_err();
    assert_eq!(error, QuantityError::Broadcast(5, 4));
    assert_eq!(error.code(), "E0227");
    assert_eq!(quantity.to_string(), "bcast(n0, n1)");
}

#[test]
fn derived_symbols_expand_to_one_shared_definition() {
    let mut dims = DimTable::new();
    let n = dims.symbol("N").unwrap();
    let mut dim = n;
    for _ in 0..40 {
        let double = dims.add(dim, n).unwrap();
        let derived = dims.define("t", double);
        let derived = dims.dim(derived);
        let product = dims.mul(derived, derived).unwrap();
        let seven = dims.constant(7);
        dim = dims.modulo(product, seven).unwrap();
    }
    let quantity = Quantity::of(&dims, dim);
    assert!(quantity.0.len() < 1000, "{}", quantity.0.len());
    let mut binding = Binding::new();
    binding.set(dims.symbol_named("N").unwrap(), 12).unwrap();
    assert_eq!(
        value(&quantity, &[12]),
        Ok(dims.evaluate(dim, &binding).unwrap())
    );
    // Two programs that each have shared values do not mix them up.
    let twice = quantity.clone() + quantity.clone();
    let single = value(&quantity, &[5]).unwrap();
    assert_eq!(value(&twice, &[5]), Ok(2 * single));
    assert!(twice.to_string().starts_with("k0 = "), "{twice}");
}

/// A random expression over two symbols.
fn expression(dims: &mut DimTable, choices: &[(u8, u8, u8)]) -> DimId {
    let mut made = vec![dims.symbol("A").unwrap(), dims.symbol("B").unwrap()];
    made.extend([-3, 0, 1, 2, 5].map(|value| dims.constant(value)));
    for &(operation, left, right) in choices {
        let a = made[usize::from(left) % made.len()];
        let b = made[usize::from(right) % made.len()];
        let result = match operation % 7 {
            0 => dims.add(a, b),
            1 => dims.sub(a, b),
            2 => dims.mul(a, b),
            3 => dims.floor_div(a, b),
            4 => dims.modulo(a, b),
            5 => dims.min(a, b),
            _ => dims.max(a, b),
        };
        made.extend(result);
    }
    made[made.len() - 1]
}

proptest! {
    #[test]
    fn conversion_keeps_values(
        choices in proptest::collection::vec(any::<(u8, u8, u8)>(), 1..14),
        a in 0_i64..40,
        b in 0_i64..40,
    ) {
        let mut dims = DimTable::new();
        let dim = expression(&mut dims, &choices);
        let mut binding = Binding::new();
        for (name, value) in [("A", a), ("B", b)] {
            binding.set(dims.symbol_named(name).unwrap(), value).unwrap();
        }
        let quantity = Quantity::of(&dims, dim);
        match dims.evaluate(dim, &binding) {
            Ok(expected) => prop_assert_eq!(value(&quantity, &[a, b]), Ok(expected), "{}", quantity),
            Err(_) => prop_assert!(value(&quantity, &[a, b]).is_err()),
        }
    }
}
