//! Normal forms preserve values: every rule, by enumeration over small sizes, with and without facts.

use super::{Expr, NAMES, all_sizes, binding, broadcasts, config, expr, facts};
use crate::text::{Cursor, parse_dim, parse_where};
use crate::{DimTable, SymbolicDimension};
use proptest::prelude::*;

/// A table with the symbols, and with those of `facts` that do not contradict each other.
fn table_with(facts: &[&str]) -> DimTable {
    let mut table = DimTable::new();
    for name in NAMES {
        table.declare(SymbolicDimension::named(name)).unwrap();
    }
    for fact in facts {
        let before = table.clone();
        if parse_where(&mut Cursor::new(fact), &mut table).is_err() {
            table = before;
        }
    }
    table
}

/// Whether `dim` has the value of `expr` for all sizes that the facts allow, and stays within its range.
fn agrees(expr: &Expr, table: &mut DimTable) -> Result<(), TestCaseError> {
    let dim = match expr.build(table) {
        Ok(dim) => dim,
        Err(error) => {
            for sizes in all_sizes().filter(|sizes| table.check(&binding(table, sizes)).is_ok()) {
                prop_assert_eq!(expr.value(&sizes), None, "{} at {:?}", error, sizes);
            }
            return Ok(());
        }
    };
    let simple = table.simplify(dim).unwrap();
    let text = table.display(dim).to_string();
    for sizes in all_sizes() {
        let binding = binding(table, &sizes);
        if table.check(&binding).is_err() {
            continue;
        }
        let Some(value) = expr.value(&sizes) else {
            continue;
        };
        prop_assert_eq!(
            table.evaluate(dim, &binding),
            Ok(value),
            "{} at {:?}",
            text,
            sizes
        );
        prop_assert_eq!(
            table.evaluate(simple, &binding),
            Ok(value),
            "{} at {:?}",
            table.display(simple),
            sizes
        );
        for dim in [dim, simple] {
            prop_assert!(
                table.range(dim).contains(value),
                "{} in {} at {:?}",
                table.display(dim),
                table.range(dim),
                sizes
            );
            let (modulus, residue) = table.congruence(dim);
            let same = if modulus == 0 {
                value == residue
            } else {
                value.rem_euclid(modulus) == residue
            };
            prop_assert!(
                same,
                "{} = {residue} mod {modulus} at {:?}",
                table.display(dim),
                sizes
            );
        }
    }
    let read = parse_dim(&mut Cursor::new(&text), table);
    prop_assert_eq!(read, Ok(dim), "{}", text);
    Ok(())
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn normal_forms_agree_without_facts(expr in expr()) {
        agrees(&expr, &mut table_with(&[]))?;
    }

    #[test]
    fn normal_forms_agree_with_facts(expr in expr(), facts in facts()) {
        agrees(&expr, &mut table_with(&facts))?;
    }

    #[test]
    fn normal_forms_agree_after_later_facts(expr in expr(), facts in facts()) {
        let mut table = table_with(&[]);
        if let Ok(dim) = expr.build(&mut table) {
            for fact in facts {
                let before = table.clone();
                if parse_where(&mut Cursor::new(fact), &mut table).is_err() {
                    table = before;
                }
            }
            let simple = table.simplify(dim);
            for sizes in all_sizes() {
                let binding = binding(&table, &sizes);
                if let (Ok(()), Some(value)) = (table.check(&binding), expr.value(&sizes)) {
                    prop_assert_eq!(table.evaluate(dim, &binding), Ok(value));
                    prop_assert_eq!(table.evaluate(simple.clone().unwrap(), &binding), Ok(value));
                    prop_assert!(table.range(dim).contains(value));
                }
            }
        }
    }

    #[test]
    fn broadcasts_keep_errors(expr in broadcasts()) {
        let mut table = table_with(&[]);
        let dim = expr.build(&mut table);
        for sizes in all_sizes() {
            let value = dim.as_ref().ok().and_then(|&dim| table.evaluate(dim, &binding(&table, &sizes)).ok());
            prop_assert_eq!(value, expr.value(&sizes));
        }
    }
}
