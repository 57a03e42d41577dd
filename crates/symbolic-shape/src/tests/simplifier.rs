//! Simplified forms of expressions, as text, with and without facts.

use crate::DimTable;
use crate::text::{Cursor, parse_dim, parse_where};

/// The normal form of `dim` in a table with the facts of a `where` clause.
fn normal(dim: &str, facts: &str) -> String {
    let mut table = DimTable::new();
    if !facts.is_empty() {
        parse_where(&mut Cursor::new(facts), &mut table).unwrap();
    }
    match parse_dim(&mut Cursor::new(dim), &mut table) {
        Ok(dim) => table.display(dim).to_string(),
        Err(diagnostic) => diagnostic.to_string(),
    }
}

#[track_caller]
fn check(dim: &str, facts: &str, expected: &str) {
    assert_eq!(normal(dim, facts), expected, "{dim} where {facts}");
}

#[test]
fn sums_and_products_cancel_and_sort() {
    check("S*B + 1 + B*S - 2", "", "2*B*S - 1");
    check("(B + 1)*(B - 1)", "", "B*B - 1");
    check("B - B", "", "0");
    check("-(B - S)", "", "-B + S");
    check("3*(B + 2) - 3*B", "", "6");
    check("-9223372036854775808", "", "-9223372036854775808");
    check("-(B / 2) + 1", "", "-(B / 2) + 1");
    check("2*(B / 3)*S", "", "2*(B / 3)*S");
}

#[test]
fn divisions_pull_out_multiples() {
    check("(8*A + B) / 8", "", "A + B / 8");
    check("(8*A + 6) / 4", "", "2*A + 1");
    check("(6*A + 4) / 4", "", "A + A / 2 + 1");
    check("(6*A + 3) / 9", "", "(2*A + 1) / 3");
    check("A / 2 / 3", "", "A / 6");
    check("((A + 1) / 2 + 1) / 2", "", "(A + 3) / 4");
    check("(A - 3) / 2 + 1", "", "(A + 1) / 2 - 1");
    check("ceil(A / 8)", "", "(A + 7) / 8");
    check("A / 1 + A % 1", "", "A");
    check("8*(A / 8)", "", "A - A % 8");
    check("8*(A / 8) + A % 8", "", "A");
    check("8*(A / 8) / 8", "", "A / 8");
    check("(A % 8) / 8", "", "0");
}

#[test]
fn divisions_use_what_is_known() {
    check("ceil(N / 8)", "N % 8 == 0", "N / 8");
    check("8*(N / 8)", "N % 8 == 0", "N");
    check("H / 16 - 2*(H / 32)", "H % 32 == 0", "0");
    check("(H + 31) / 32", "H % 16 == 0", "(H + 16) / 32");
    check("ceil(6*A / 8)", "A % 4 == 0", "3*(A / 4)");
    check("N % 8", "N % 8 == 3", "3");
    check("N / 8", "N <= 7", "0");
    check("N % 8", "N <= 7", "N");
    check("(N + 16) % 8", "", "N % 8");
    check("6*N % 8", "", "2*((3*N) % 4)");
    check("N % 16 % 8", "", "N % 8");
    check("N % 8 / 4", "", "(N % 8) / 4");
}

#[test]
fn symbolic_divisors_need_proof() {
    check("A*B / A", "", "(A*B) / A");
    check("A*B / A", "A >= 1", "B");
    check("(A*B + A*C) / A", "A >= 1", "B + C");
    check("A*B % A", "A >= 1", "0");
    check("A / (A + 1)", "", "0");
    check("A % (A + 1)", "", "A");
    check("A / 0", "", "[E0303] expected a positive divisor, found 0");
    check(
        "A % (0 - B)",
        "",
        "[E0303] expected a positive divisor, found -B",
    );
}

#[test]
fn min_max_drop_dominated_operands() {
    check("max(A, A + 1)", "", "A + 1");
    check("min(A, min(B, A), 7)", "", "min(7, A, B)");
    check("max(A, 0)", "", "A");
    check("max(A, 1)", "", "max(1, A)");
    check("max(A, 1)", "A >= 1", "A");
    check("min(A, 512)", "A <= 512", "A");
    check("max(A, B)", "A == B", "A");
}

#[test]
fn broadcasts_keep_their_errors() {
    check("bcast(A, 1)", "", "A");
    check("bcast(A, A)", "", "A");
    check("bcast(bcast(A, B), bcast(B, C))", "", "bcast(A, B, C)");
    check("bcast(A, 5)", "", "bcast(5, A)");
    check("bcast(A, 5)", "A == 5", "5");
    check("bcast(A, 5)", "A == 1", "5");
    check("bcast(A, B)", "A == B", "A");
    check("bcast(5, 1, 5)", "", "5");
    check(
        "bcast(5, 3)",
        "",
        "[E0302] expected sizes that are equal or 1 to broadcast, found 5 and 3",
    );
    check(
        "bcast(A + 2, A + 3)",
        "",
        "[E0302] expected sizes that are equal or 1 to broadcast, found A + 2 and A + 3",
    );
}

#[test]
fn overflow_is_an_error() {
    check(
        "9223372036854775807 + 1",
        "",
        "[E0301] size overflows a signed 64-bit integer in 9223372036854775807 + 1",
    );
    check(
        "4611686018427387904*A*2",
        "",
        "[E0301] size overflows a signed 64-bit integer in (4611686018427387904*A) * 2",
    );
    check(
        "-(-9223372036854775808)",
        "",
        "[E0301] size overflows a signed 64-bit integer in 0 - (-9223372036854775808)",
    );
}

/// Independent of which division the table got first.
#[test]
fn twice_a_product_of_two_divisions_has_one_normal_form() {
    let form = |first: &str, second: &str| {
        let mut table = DimTable::new();
        let mut parse = |text: &str| {
            let dim = parse_dim(&mut Cursor::new(text), &mut table);
            dim.unwrap_or_else(|error| panic!("{error}"))
        };
        let (a, b) = (parse(first), parse(second));
        let product = table.mul(a, b).unwrap();
        let twice = table.add(product, product).unwrap();
        table.display(twice).to_string()
    };
    let (a, b) = ("(A + 1) / 2", "(B + 1) / 2");
    assert_eq!(form(a, b), form(b, a));
}

#[test]
fn a_dividend_whose_divisions_are_undone_has_small_coefficients() {
    for text in [
        "(772*((H + 1) / 2) + 1094) / 1319",
        "(772*((H + 1) / 2) + 1094) % 1319",
        "(4*((H + 1) / 2) + 6*((W + 1) / 3) + 6) / 7",
    ] {
        let form = |text: &str| {
            let mut table = DimTable::new();
            let dim = parse_dim(&mut Cursor::new(text), &mut table);
            let dim = dim.unwrap_or_else(|error| panic!("{error}"));
            table.display(dim).to_string()
        };
        let once = form(text);
        assert_eq!(form(&once), once, "{text}");
    }
}
