//! Work limits of a table: a total for proofs, and an allowance per fact for canonical forms.

use crate::{ContractFact, DimId, DimLimits, DimTable, FactOrigin, Predicate, Proof};

#[test]
fn mutually_rewriting_equalities_terminate() {
    let mut table = DimTable::new();
    let symbols = ["past", "seq", "total"].map(|name| table.symbol(name).unwrap());
    let [past, seq, total] = symbols;
    let (zero, minus_one) = (table.constant(0), table.constant(-1));
    // seq == max(total - max(max(-1, -seq) * total + seq, 0), 0), as in a cache's mask.
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
        // Whether it is learned or found to contradict the others, it terminates.
        let _ = table.assume(fact);
    }
    assert!(table.len() < 1 << 16, "{} expressions", table.len());
}

#[test]
fn evident_proofs_succeed_after_the_shared_fuel_is_spent() {
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

/// The size of a group norm's rows, as inferred for exported models, with the fact that it is a size.
#[test]
fn stated_facts_are_proved_without_search() {
    let limits = DimLimits {
        prover_fuel: 64,
        ..DimLimits::default()
    };
    let mut table = DimTable::with_limits(limits);
    let (h, w) = (table.symbol("H").unwrap(), table.symbol("W").unwrap());
    let (one, two, minus_one) = (table.constant(1), table.constant(2), table.constant(-1));
    let mut rounded = Vec::new();
    for size in [h, w] {
        let more = table.add(size, one).unwrap();
        let rest = table.modulo(more, two).unwrap();
        let rest = table.mul(rest, minus_one).unwrap();
        rounded.push(table.add(more, rest).unwrap());
    }
    let area = table.product(&rounded).unwrap();
    let (zero, less) = (table.constant(0), table.sub(area, one).unwrap());
    let is_size = Predicate::LessEqual(zero, less);
    assert_eq!(table.prove(&is_size), Proof::Unknown);
    table
        .assume(ContractFact {
            predicate: is_size.clone(),
            origin: FactOrigin::Declared,
        })
        .unwrap();
    assert_eq!(table.prove(&is_size), Proof::Proved);
    assert_eq!(
        table.prove(&Predicate::LessEqual(zero, area)),
        Proof::Proved
    );
}

/// Most failing proofs are refuted at sample sizes, before any search.
#[test]
fn refutable_claims_take_few_steps() {
    let mut table = DimTable::new();
    let sizes: Vec<DimId> = (0..40)
        .map(|n| table.symbol(&format!("N{n}")).unwrap())
        .collect();
    let all = table.bcast_of(&sizes).unwrap();
    let before = table.prover_steps();
    for &size in &sizes {
        assert_eq!(table.prove(&Predicate::Equal(size, all)), Proof::Unknown);
        assert!(table.is_told_apart(size, all));
    }
    let each = (table.prover_steps() - before) / 40;
    assert!(each < 100, "{each} steps");
    let fewer = table.bcast_of(&sizes[1..]).unwrap();
    assert!(table.is_told_apart(fewer, all));
    assert!(table.is_equal_somewhere(fewer, all));
}

/// Facts also hold at the samples, so that nothing provable is lost.
#[test]
fn facts_that_exclude_samples_do_not_change_proofs() {
    let mut table = DimTable::new();
    let [a, b, c] = ["A", "B", "C"].map(|name| table.symbol(name).unwrap());
    let (five, seven) = (table.constant(5), table.constant(7));
    let sum = table.add(b, c).unwrap();
    let facts = [
        Predicate::LessEqual(five, a),
        Predicate::LessEqual(a, seven),
        Predicate::Divides { divisor: 3, dim: b },
        Predicate::Equal(a, sum),
    ];
    for predicate in facts {
        let origin = FactOrigin::Declared;
        table.assume(ContractFact { predicate, origin }).unwrap();
    }
    assert_eq!(table.prove(&Predicate::LessEqual(b, a)), Proof::Proved);
    assert_eq!(table.prove(&Predicate::Equal(sum, a)), Proof::Proved);
    assert_eq!(table.prove(&Predicate::LessEqual(b, seven)), Proof::Proved);
    assert!(!table.is_told_apart(sum, a));
}
