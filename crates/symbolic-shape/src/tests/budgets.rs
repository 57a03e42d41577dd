//! What bounds the work of a table: proofs have a total, and canonical forms an allowance per fact.

use crate::{ContractFact, DimLimits, DimTable, FactOrigin, Predicate, Proof};

#[test]
fn equalities_that_rewrite_each_other_for_ever_end() {
    let mut table = DimTable::new();
    let symbols = ["past", "seq", "total"].map(|name| table.symbol(name).unwrap());
    let [past, seq, total] = symbols;
    let (zero, minus_one) = (table.constant(0), table.constant(-1));
    // seq == max(total - max(max(-1, -seq) * total + seq, 0), 0), as a cache's mask has it.
    let negated = table.mul(seq, minus_one).unwrap();
    let capped = table.max(minus_one, negated).unwrap();
    let scaled = table.mul(capped, total).unwrap();
    let scaled = table.add(scaled, seq).unwrap();
    let scaled = table.mul(scaled, minus_one).unwrap();
    let inner = table.max(scaled, zero).unwrap();
    let rest = table.sub(total, inner).unwrap();
    let window = table.max(rest, zero).unwrap();
    let end = table.add(past, seq).unwrap();
    let joined = table.bcast(window, seq).unwrap();
    let left = table.add(joined, past).unwrap();
    let right = table.bcast(end, total).unwrap();
    for (a, b) in [(seq, window), (end, total), (left, right)] {
        let fact = ContractFact {
            predicate: Predicate::Equal(a, b),
            origin: FactOrigin::Declared,
        };
        // Whether it is learned or found to contradict the others, it ends.
        let _ = table.assume(fact);
    }
    assert!(table.len() < 1 << 16, "{} expressions", table.len());
}

#[test]
fn proofs_share_a_total_and_what_is_evident_is_proved_after_it() {
    let limits = DimLimits {
        prover_total: 1,
        ..DimLimits::default()
    };
    let mut table = DimTable::with_limits(limits);
    let n = table.symbol("n").unwrap();
    let (zero, one) = (table.constant(0), table.constant(1));
    let larger = table.add(n, one).unwrap();
    for _ in 0..4 {
        assert_eq!(table.prove(&Predicate::LessEqual(zero, n)), Proof::Proved);
        assert_eq!(table.prove(&Predicate::Equal(n, larger)), Proof::Disproved);
    }
    assert!(table.is_prover_spent());
}
