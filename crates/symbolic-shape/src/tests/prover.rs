//! Results of the prover, as text.

use crate::text::{Cursor, parse_predicate, parse_where};
use crate::{DimTable, Proof};

/// Proves `predicate` in a table with the facts of a `where` clause.
#[track_caller]
fn check(predicate: &str, facts: &str, expected: Proof) {
    let mut table = DimTable::new();
    // Asked before and after the facts are added, so that both early and late knowledge is used.
    let early = parse_predicate(&mut Cursor::new(predicate), &mut table).unwrap();
    if !facts.is_empty() {
        parse_where(&mut Cursor::new(facts), &mut table).unwrap();
    }
    assert_eq!(table.prove(&early), expected, "{predicate} where {facts}");
    let late = parse_predicate(&mut Cursor::new(predicate), &mut table).unwrap();
    assert_eq!(
        table.prove(&late),
        expected,
        "{predicate} where {facts}, read late"
    );
}

#[test]
fn equality_through_facts() {
    check("A == A", "", Proof::Proved);
    check("A == B", "", Proof::Unknown);
    check("A == A + 1", "", Proof::Disproved);
    check("A == B", "A == C, B == C", Proof::Proved);
    check("(A + 7) / 8 == (B + 7) / 8", "A == B", Proof::Proved);
    check("A*S == B*S", "A == B", Proof::Proved);
    check("A == C + 2", "A == B + 1, B == C + 1", Proof::Proved);
    check("A*B*S == C*D*S", "A*B == C*D", Proof::Proved);
    check("2*A == 3*B + C", "2*A == 3*B + C", Proof::Proved);
    check("4*A == 6*B", "2*A == 3*B", Proof::Proved);
    check("A == 5", "A >= 5, A <= 5", Proof::Proved);
    check("2*A == 2*B + 1", "", Proof::Disproved);
    check("A == 0", "A != 0", Proof::Disproved);
    check("A == B", "A - B != 0", Proof::Disproved);
    check("A == B", "A <= B, B <= A", Proof::Proved);
    check("A == B", "A < B", Proof::Disproved);
    check("A + 1 != A", "", Proof::Proved);
}

#[test]
fn halved_and_doubled_sizes_are_proved_equal() {
    check("2*ceil(H / 32) == ceil(H / 16)", "", Proof::Unknown);
    check(
        "2*ceil(H / 32) == ceil(H / 16)",
        "H % 32 == 0",
        Proof::Proved,
    );
    check(
        "2*ceil(H / 32) == ceil(H / 16)",
        "2*ceil(H / 32) == ceil(H / 16)",
        Proof::Proved,
    );
    check("((H + 1) / 2 + 1) / 2 == (H + 3) / 4", "", Proof::Proved);
}

#[test]
fn order_of_sizes() {
    check("0 <= A", "", Proof::Proved);
    check("A < 0", "", Proof::Disproved);
    check("A <= A + B", "", Proof::Proved);
    check("A + B < A", "", Proof::Disproved);
    check("A <= B", "", Proof::Unknown);
    check("A <= C", "A <= B, B <= C", Proof::Proved);
    check("A < C", "A <= B, B < C", Proof::Proved);
    check("8*(A / 8) <= A", "", Proof::Proved);
    check("A < 8*(A / 8) + 8", "", Proof::Proved);
    check("A % B < B", "", Proof::Proved);
    check("A / B * B <= A", "", Proof::Proved);
    check("min(A, B) <= A", "", Proof::Proved);
    check("min(A, B) <= max(A, B)", "", Proof::Proved);
    check("max(A, B) <= A + B", "", Proof::Proved);
    check("bcast(A, B) <= A + B", "", Proof::Proved);
    check("A <= bcast(A, B)", "A >= 1, B >= 1", Proof::Proved);
    check("B <= B*S", "S >= 1", Proof::Proved);
    check("B <= B*S", "", Proof::Unknown);
    check("B*S + S <= 2*B*S", "B >= 1", Proof::Proved);
    check("i*W + j < H*W", "i < H, j < W", Proof::Proved);
    check("A*B <= A*C", "B <= C", Proof::Proved);
    check("S <= 512", "S == T, T <= 512", Proof::Proved);
}

#[test]
fn divisibility() {
    check("N % 8 == 0", "", Proof::Unknown);
    check("16*N + 8 % 8 == 0", "", Proof::Unknown);
    check("(16*N + 8) % 8 == 0", "", Proof::Proved);
    check("(16*N + 3) % 8 == 0", "", Proof::Disproved);
    check("N % 4 == 0", "N % 8 == 0", Proof::Proved);
    check("N*M % 32 == 0", "N % 8 == 0, M % 4 == 0", Proof::Proved);
    check("N % 24 == 0", "N % 8 == 0, N % 3 == 0", Proof::Proved);
    check("A*B*C % 8 == 0", "A*B % 8 == 0", Proof::Proved);
    check("(A + B) % 4 == 0", "(A + B) % 8 == 0", Proof::Proved);
    check("N % 8 == 0", "N == 8*M", Proof::Proved);
    check("(N + 1) % 2 == 0", "N % 8 == 0", Proof::Disproved);
    check("3*N % 8 == 0", "N % 8 == 0", Proof::Proved);
}

#[test]
fn products_for_reshape() {
    check(
        "product(B, S, 384) == product(B, S, 12, 32)",
        "",
        Proof::Proved,
    );
    check("product(B, S) == product(S, C)", "", Proof::Unknown);
    check("product(B, S) == product(S, C)", "B == C", Proof::Proved);
    check("product(B, S) == product(S, B + 1)", "", Proof::Unknown);
    check(
        "product(B, S) == product(S, B + 1)",
        "S >= 1",
        Proof::Disproved,
    );
    check(
        "product(A, B) == product(C, D)",
        "product(A, B) == product(C, D)",
        Proof::Proved,
    );
    check(
        "product(A, B, E) == product(C, D, E)",
        "product(A, B) == product(C, D)",
        Proof::Proved,
    );
    check(
        "product(B, 64, H / 8, W / 8) == product(B, H, W)",
        "H % 8 == 0, W % 8 == 0",
        Proof::Proved,
    );
}

#[test]
fn contradictions_are_typed_errors() {
    let error = |facts: &str| {
        let mut table = DimTable::new();
        parse_where(&mut Cursor::new(facts), &mut table)
            .unwrap_err()
            .to_string()
    };
    insta::assert_snapshot!(error("B >= 4, B <= 3"), @"[E0304] B <= 3 contradicts what is known: B is in 4..");
    insta::assert_snapshot!(error("A == B, A == B + 1"), @"[E0304] A == B + 1 contradicts what is known: A is in 0.., B + 1 is in 1..");
    insta::assert_snapshot!(error("A <= 3, B >= 4, A == B"), @"[E0304] A == B contradicts what is known: A is in 0..=3, B is in 4..");
    insta::assert_snapshot!(error("N % 4 == 1, N % 8 == 2"), @"[E0304] N % 8 == 2 contradicts what is known: N % 8 is in 1..=5 and 1 modulo 4");
    insta::assert_snapshot!(error("2 == 3"), @"[E0304] 2 == 3 contradicts what is known: both sides are constant");
}
