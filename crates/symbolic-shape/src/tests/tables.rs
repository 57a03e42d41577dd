//! Symbols, facts, substitution, import and evaluation of a table.

use std::collections::BTreeMap;

use super::display_where;
use crate::text::{Cursor, parse_dim, parse_predicate, parse_shape, parse_where};
use crate::{
    Binding, ContractFact, DimId, DimImport, DimRange, DimTable, FactOrigin, Hint, Predicate,
    Proof, SymbolicDimension,
};

fn read(table: &mut DimTable, text: &str) -> DimId {
    parse_dim(&mut Cursor::new(text), table).unwrap()
}

fn bind(table: &DimTable, sizes: &[(&str, i64)]) -> Binding {
    sizes
        .iter()
        .map(|(name, size)| (table.symbol_named(name).unwrap(), *size))
        .collect()
}

#[test]
fn symbols_have_unique_names() {
    let mut table = DimTable::new();
    let b = table.symbol("B").unwrap();
    assert_eq!(table.symbol("B"), Ok(b));
    assert_eq!(
        table
            .declare(SymbolicDimension::named("B"))
            .unwrap_err()
            .code(),
        "E0306"
    );
    let error = table.declare(SymbolicDimension::named("a\nb")).unwrap_err();
    assert!(error.to_string().ends_with("found \"a\\nb\""), "{error}");
    let names: Vec<String> = ["B", "B", "B_1", "a b", "", "7"]
        .map(|stem| {
            let symbol = table.fresh(stem);
            table.symbol_name(symbol).to_string()
        })
        .to_vec();
    assert_eq!(names, ["B_1", "B_2", "B_1_1", "a_b", "_", "_7"]);
    assert_eq!(table.symbols().count(), 7);
    assert!(table.contains(b) && !table.contains(DimId::from_u32(1000)));
}

#[test]
fn declared_bounds_are_facts() {
    let mut table = DimTable::new();
    let n = SymbolicDimension::range("N", 1..=64)
        .unwrap()
        .multiple_of(8)
        .unwrap()
        .likely(16);
    let symbol = table.declare(n.clone()).unwrap();
    assert_eq!(table.symbol_info(symbol), &n);
    assert_eq!(table.range(table.dim(symbol)), DimRange::new(8, 64));
    assert_eq!(table.congruence(table.dim(symbol)), (8, 0));
    assert_eq!(table.hints(), [Hint { symbol, likely: 16 }]);
    let start = table
        .declare(SymbolicDimension::range("start", -4..).unwrap())
        .unwrap();
    assert_eq!(table.range(table.dim(start)).min, Some(-4));
    assert_eq!(table.declared_min(start), -4);
    insta::assert_snapshot!(display_where(&table), @"start >= -4, N >= 8, N <= 64, N % 8 == 0");
    let mut again = DimTable::new();
    parse_where(&mut Cursor::new(&display_where(&table)), &mut again).unwrap();
    assert_eq!(display_where(&again), display_where(&table));
    assert_eq!(
        again
            .symbol_info(again.symbol_named("start").unwrap())
            .min(),
        -4
    );
}

#[test]
fn constraints_narrow_later() {
    let mut table = DimTable::new();
    let dim = read(&mut table, "max(S, 4) + (S + 7) / 8");
    let symbol = table.symbol_named("S").unwrap();
    table
        .constrain(
            symbol,
            SymbolicDimension::range("", 4..)
                .unwrap()
                .multiple_of(8)
                .unwrap(),
        )
        .unwrap();
    let simple = table.simplify(dim).unwrap();
    assert_eq!(table.display(simple).to_string(), "S + S / 8");
    assert_eq!(table.range(dim).min, Some(9));
    assert_eq!(table.equal(dim, simple), Proof::Proved);
    table
        .constrain(symbol, SymbolicDimension::known(16))
        .unwrap();
    let value = table.simplify(dim).unwrap();
    assert_eq!(table.as_constant(value), Some(18));
    assert_eq!(
        table
            .constrain(symbol, SymbolicDimension::known(24))
            .unwrap_err()
            .code(),
        "E0307"
    );
    assert!(table.symbol_info(symbol).is_known());
}

#[test]
fn facts_are_kept_once() {
    let mut table = DimTable::new();
    parse_where(
        &mut Cursor::new("B >= 1, B >= 1, B >= 0, B == S, S == B, B*S % 6 == 0, B*S % 6 == 0"),
        &mut table,
    )
    .unwrap();
    insta::assert_snapshot!(display_where(&table), @"B >= 1, B == S, (B*S) % 6 == 0");
    let fact = ContractFact {
        predicate: parse_predicate(&mut Cursor::new("B <= 9"), &mut table).unwrap(),
        origin: FactOrigin::Required("reshape %5".to_string()),
    };
    table.assume(fact.clone()).unwrap();
    table.assume(fact).unwrap();
    assert_eq!(table.contract_facts().len(), 4);
    assert_eq!(
        table.contract_facts()[3].origin.to_string(),
        "required by reshape %5"
    );
    assert_eq!(
        table.range(table.dim(table.symbol_named("S").unwrap())),
        DimRange::new(1, 9)
    );
    let dim = table.constant(2);
    let error = table.assume(ContractFact {
        predicate: Predicate::Divides { divisor: 0, dim },
        origin: FactOrigin::Declared,
    });
    assert_eq!(error.unwrap_err().code(), "E0303");
}

#[test]
fn checks_name_symbol_expected_and_given() {
    let mut table = DimTable::new();
    parse_where(&mut Cursor::new("N % 8 == 0, A*B == N"), &mut table).unwrap();
    assert_eq!(
        table.check(&bind(&table, &[("A", 4), ("B", 6), ("N", 24)])),
        Ok(())
    );
    let failure =
        |sizes: &[(&str, i64)]| table.check(&bind(&table, sizes)).unwrap_err().to_string();
    insta::assert_snapshot!(failure(&[("A", -1), ("B", 2), ("N", 8)]), @"expected 0.. for A, found -1 (declared)");
    insta::assert_snapshot!(failure(&[("A", 1), ("B", 2), ("N", 12)]), @"expected 0.. in multiples of 8 for N, found 12 (declared)");
    insta::assert_snapshot!(failure(&[("A", 1), ("B", 2), ("N", 8)]), @"expected A*B == N for A, B, N, found A*B = 2, N = 8 (declared)");
    insta::assert_snapshot!(failure(&[("A", 1), ("N", 8)]), @"symbol B has no value; bind it before evaluating");
}

#[test]
fn broadcast_dims_record_their_expectations() {
    let mut table = DimTable::new();
    parse_where(&mut Cursor::new("B == C, E >= 2"), &mut table).unwrap();
    let dims: BTreeMap<&str, DimId> = ["A", "B", "C", "D", "E", "5", "1", "D + 2", "D + 3"]
        .map(|text| (text, read(&mut table, text)))
        .into();
    let mut meet = |a: &str, b: &str| {
        let before = table.plan_facts().len();
        let result = table
            .broadcast_dim(dims[a], dims[b], "add %7")
            .map(|dim| table.display(dim).to_string());
        let recorded = &table.plan_facts()[before..];
        let recorded: Vec<String> = recorded
            .iter()
            .map(|fact| {
                format!(
                    "{} ~ {}",
                    table.display(fact.left),
                    table.display(fact.right)
                )
            })
            .collect();
        (
            result.unwrap_or_else(|error| error.code().to_string()),
            recorded.join(", "),
        )
    };
    let expect = |result: &str, recorded: &str| (result.to_string(), recorded.to_string());
    assert_eq!(meet("A", "1"), expect("A", ""));
    assert_eq!(meet("B", "C"), expect("B", ""));
    assert_eq!(meet("A", "D"), expect("bcast(A, D)", "A ~ D"));
    assert_eq!(meet("D", "A"), expect("bcast(A, D)", ""));
    assert_eq!(meet("A", "5"), expect("5", "A ~ 5"));
    assert_eq!(meet("5", "A"), expect("5", ""));
    assert_eq!(meet("A", "E"), expect("E", "A ~ E"));
    assert_eq!(meet("E", "5"), expect("5", "E ~ 5"));
    assert_eq!(meet("D + 2", "D + 3"), expect("E0302", ""));
    assert_eq!(table.plan_facts()[0].origin, "add %7");
}

#[test]
fn evaluation_reports_what_failed() {
    let mut table = DimTable::new();
    let failure = |table: &mut DimTable, text: &str, sizes: &[(&str, i64)]| {
        let dim = read(table, text);
        table
            .evaluate(dim, &bind(table, sizes))
            .unwrap_err()
            .to_string()
    };
    insta::assert_snapshot!(failure(&mut table, "A + B", &[("A", 1)]), @"symbol B has no value; bind it before evaluating");
    insta::assert_snapshot!(failure(&mut table, "bcast(A, B + 1)", &[("A", 4), ("B", 1)]), @"cannot broadcast A = 4 with B + 1 = 2");
    insta::assert_snapshot!(failure(&mut table, "A / B", &[("A", 4), ("B", 0)]), @"expected a positive divisor, found B = 0");
    insta::assert_snapshot!(failure(&mut table, "A*A*A", &[("A", i64::MAX)]), @"size overflows a signed 64-bit integer in A*A*A");
    let shape = parse_shape(&mut Cursor::new("[A, B, A*B - B, 7]"), &mut table).unwrap();
    assert_eq!(
        table.display_shape(&shape).to_string(),
        "[A, B, A*B - B, 7]"
    );
    assert_eq!(
        table.evaluate_all(&shape, &bind(&table, &[("A", 3), ("B", 5)])),
        Ok(vec![3, 5, 10, 7])
    );
    // Only the result must fit; intermediate values may exceed 64 bits.
    let wide = read(&mut table, "A*B - A*C");
    let sizes = bind(&table, &[("A", i64::MAX), ("B", 3)]);
    let c = table.symbol_named("C").unwrap();
    let sizes: Binding = sizes.iter().chain([(c, 3)]).collect();
    assert_eq!(table.evaluate(wide, &sizes), Ok(0));
}

#[test]
fn an_expression_that_grows_too_large_takes_the_symbol_that_was_defined_for_its_operand() {
    let mut table = DimTable::new();
    let value = read(&mut table, &["A"; 16].join("*"));
    let symbol = table.define("n", value);
    let square = table.mul(value, value).unwrap();
    assert_eq!(table.display(square).to_string(), "n*n");
    assert_eq!(table.symbol_named("t"), None);
    assert!(table.symbols_in(square).contains(&symbol));
}

#[test]
fn derived_symbols_evaluate_but_do_not_simplify() {
    let mut table = DimTable::new();
    let value = read(&mut table, "A + 1");
    let symbol = table.define("n", value);
    let n = table.dim(symbol);
    assert_eq!(
        (table.definition(symbol), table.as_symbol(n)),
        (Some(value), Some(symbol))
    );
    let apart = table.sub(n, value).unwrap();
    assert_eq!(table.as_constant(apart), None);
    assert_eq!(table.equal(n, value), Proof::Proved);
    assert_eq!(
        table.range(n),
        DimRange {
            min: Some(1),
            max: None
        }
    );
    assert_eq!(table.evaluate(apart, &bind(&table, &[("A", 3)])), Ok(0));
    assert_eq!(table.symbols_in(apart).len(), 2);
    // Substituting inside the definition gives another symbol.
    let a = table.symbol_named("A").unwrap();
    let five = table.constant(5);
    let replaced = table.substitute(n, &BTreeMap::from([(a, five)])).unwrap();
    assert_ne!(replaced, n);
    assert_eq!(table.evaluate(replaced, &Binding::new()), Ok(6));
}

#[test]
fn substitution_and_exact_quotients() {
    let mut table = DimTable::new();
    let dim = read(&mut table, "bcast(A, B) + A*B / 4 + min(A, 3)");
    let (a, b) = (
        table.symbol_named("A").unwrap(),
        table.symbol_named("B").unwrap(),
    );
    let (four, s) = (table.constant(4), read(&mut table, "4*S"));
    let replaced = table
        .substitute(dim, &BTreeMap::from([(a, four), (b, s)]))
        .unwrap();
    assert_eq!(
        table.display(replaced).to_string(),
        "4*S + bcast(4, 4*S) + 3"
    );
    let swapped = table
        .substitute(dim, &BTreeMap::from([(a, table.dim(b)), (b, table.dim(a))]))
        .unwrap();
    assert_eq!(
        table.display(swapped).to_string(),
        "(A*B) / 4 + bcast(A, B) + min(3, B)"
    );
    let (dividend, divisor) = (
        read(&mut table, "A*B*384 + 384*A"),
        read(&mut table, "32*A"),
    );
    let quotient = table.exact_quotient(dividend, divisor).unwrap();
    assert_eq!(table.display(quotient).to_string(), "12*B + 12");
    assert_eq!(table.exact_quotient(divisor, dividend), None);
}

#[test]
fn imports_copy_symbols_facts_and_definitions() {
    let mut from = DimTable::new();
    parse_where(&mut Cursor::new("S >= 1, S % 8 == 0, B <= 4"), &mut from).unwrap();
    let value = read(&mut from, "S + 1");
    let derived = from.define("n", value);
    let n = from.dim(derived);
    let dim = read(&mut from, "B*n + bcast(S, B)");
    assert_eq!(from.symbols_in(dim).len(), 3);

    let mut into = DimTable::new();
    let (taken, c) = (into.symbol("S").unwrap(), into.symbol("C").unwrap());
    let mut import = DimImport::new();
    import.map(from.symbol_named("B").unwrap(), c);
    let copy = into.import(&from, dim, &mut import).unwrap();
    assert_eq!(into.display(copy).to_string(), "C*n + bcast(C, S_1)");
    assert_eq!(into.import(&from, dim, &mut import), Ok(copy));
    let s = import.get(from.symbol_named("S").unwrap()).unwrap();
    assert_ne!(s, taken);
    assert_eq!(into.congruence(s), (8, 0));
    into.import_facts(&from, &mut import).unwrap();
    assert_eq!(into.range(c), DimRange::new(0, 4));
    assert_eq!(
        into.evaluate(copy, &bind(&into, &[("C", 1), ("S_1", 8)])),
        Ok(17)
    );
    assert_eq!(
        into.import(&from, n, &mut import)
            .map(|dim| into.display(dim).to_string()),
        Ok("n".to_string())
    );
}

#[test]
fn huge_sizes_are_an_error_not_a_wrap() {
    let mut table = DimTable::new();
    parse_where(
        &mut Cursor::new("product(A, A, A) == product(A)"),
        &mut table,
    )
    .unwrap();
    let check = |size| table.check(&bind(&table, &[("A", size)]));
    assert_eq!(check(i64::MAX).unwrap_err().code(), "E0323");
    assert_eq!(check(0), Ok(()));
    assert_eq!(check(2).unwrap_err().code(), "E0324");
}
