//! Large and hostile inputs: everything stays within limits on steps, terms and nodes, which are counted rather than
//! timed.

use crate::text::{Cursor, parse_dim, parse_predicate};
use crate::{
    Binding, ContractFact, DimId, DimLimits, DimTable, FactOrigin, Fuel, Predicate, Proof,
};

fn symbols(table: &mut DimTable, count: usize) -> Vec<DimId> {
    (0..count)
        .map(|n| table.symbol(&format!("x{n}")).unwrap())
        .collect()
}

fn all(table: &DimTable, size: i64) -> Binding {
    table
        .symbols()
        .filter(|&symbol| table.definition(symbol).is_none())
        .map(|symbol| (symbol, size))
        .collect()
}

#[test]
fn products_of_sums_wrap_instead_of_exploding() {
    let mut table = DimTable::new();
    let x = symbols(&mut table, 64);
    let mut product = table.constant(1);
    let mut expected = 1_i64;
    for pair in x.chunks(2) {
        let sum = table.sum(pair).unwrap();
        product = table.mul(product, sum).unwrap();
        expected = expected.saturating_mul(2);
    }
    assert!(table.symbols_in(product).len() <= 64);
    assert!(table.len() < 2_000, "{}", table.len());
    assert_eq!(table.evaluate(product, &all(&table, 1)), Ok(expected));
    let text = table.display(product).to_string();
    assert!(text.len() < 8_000, "{}", text.len());
    assert_eq!(parse_dim(&mut Cursor::new(&text), &mut table), Ok(product));
}

#[test]
fn deep_nesting_wraps() {
    let mut table = DimTable::new();
    let mut dim = table.symbol("x").unwrap();
    let three = table.constant(3);
    for n in 0..10_000 {
        let other = table.constant(n % 7 + 1);
        let sum = table.add(dim, other).unwrap();
        let square = table.mul(sum, dim).unwrap();
        let quotient = table.modulo(square, three).unwrap();
        let joined = table.max(quotient, other).unwrap();
        dim = table.min(joined, sum).unwrap();
    }
    assert!(table.display(dim).to_string().len() < 20_000);
    assert!(table.evaluate(dim, &all(&table, 5)).is_ok());
    assert!(table.range(dim).max.is_some());
    assert_eq!(
        table.substitute(dim, &Default::default()).map(|_| ()),
        Ok(())
    );
    assert!(
        table
            .import(&table.clone(), dim, &mut Default::default())
            .is_ok()
    );
}

#[test]
fn nesting_needs_little_stack() {
    let work = || {
        deep_nesting_wraps();
        sharing_does_not_multiply_the_text();
        let mut table = DimTable::new();
        let deep = format!("{}N{}", "min(9, 2*(1 + ".repeat(50), ") / 3)".repeat(50));
        let dim = parse_dim(&mut Cursor::new(&deep), &mut table).unwrap();
        let fact = parse_predicate(&mut Cursor::new("N % 6 == 0"), &mut table).unwrap();
        table
            .assume(ContractFact {
                predicate: fact,
                origin: FactOrigin::Declared,
            })
            .unwrap();
        table.evaluate(dim, &all(&table, 6)).unwrap()
    };
    let thread = std::thread::Builder::new()
        .stack_size(128 << 10)
        .spawn(work)
        .unwrap();
    assert_eq!(thread.join().unwrap(), 2);
}

#[test]
fn sharing_does_not_multiply_the_text() {
    let mut table = DimTable::new();
    let x = symbols(&mut table, 2);
    let (mut a, mut b) = (x[0], x[1]);
    for _ in 0..200 {
        (a, b) = (table.max(a, b).unwrap(), table.floor_div(a, b).unwrap());
        let sum = table.add(a, b).unwrap();
        a = table.min(sum, a).unwrap();
    }
    assert!(table.display(a).to_string().len() < 20_000);
    assert!(table.evaluate(a, &all(&table, 1)).is_ok());
}

#[test]
fn proofs_take_no_more_than_their_fuel() {
    let mut table = DimTable::new();
    let x = symbols(&mut table, 64);
    for pair in x.windows(2) {
        let predicate = Predicate::LessEqual(pair[0], pair[1]);
        table
            .assume(ContractFact {
                predicate,
                origin: FactOrigin::Declared,
            })
            .unwrap();
    }
    let (left, right) = (table.sum(&x[..32]).unwrap(), table.sum(&x[32..]).unwrap());
    for steps in [0, 1, 10, 1_000, 4_096, 100_000] {
        let mut fuel = Fuel::new(steps);
        let proof = table.prove_with_fuel(&Predicate::LessEqual(right, left), &mut fuel);
        assert_ne!(proof, Proof::Proved);
        assert!(fuel.spent() <= steps);
    }
    assert_eq!(
        table.prove_with_fuel(&Predicate::Equal(left, right), &mut Fuel::new(0)),
        Proof::Unknown
    );
}

#[test]
fn equality_of_64_symbol_sums_is_cheap() {
    let mut spent = Vec::new();
    for count in [16, 32, 64] {
        let mut table = DimTable::new();
        let x = symbols(&mut table, count);
        let doubled: Vec<DimId> = x.iter().map(|&dim| table.add(dim, dim).unwrap()).collect();
        let (left, right) = (table.sum(&doubled).unwrap(), table.sum(&x).unwrap());
        let mut fuel = Fuel::new(1_000_000);
        assert_eq!(
            table.prove_with_fuel(&Predicate::Less(left, right), &mut fuel),
            Proof::Disproved
        );
        assert_eq!(
            table.prove_with_fuel(&Predicate::Equal(left, right), &mut fuel),
            Proof::Unknown
        );
        spent.push(fuel.spent());
    }
    assert!(
        spent[2] < 3 * spent[1] && spent[1] < 3 * spent[0],
        "steps grow with the number of symbols: {spent:?}"
    );
}

#[test]
fn chains_of_equalities_resolve() {
    let mut table = DimTable::new();
    let x = symbols(&mut table, 200);
    for pair in x.windows(2) {
        table
            .assume(ContractFact {
                predicate: Predicate::Equal(pair[0], pair[1]),
                origin: FactOrigin::Declared,
            })
            .unwrap();
    }
    assert_eq!(table.equal(x[0], x[199]), Proof::Proved);
    let mut fuel = Fuel::new(1_000);
    assert_eq!(
        table.prove_with_fuel(&Predicate::Equal(x[3], x[150]), &mut fuel),
        Proof::Proved
    );
    assert!(fuel.spent() < 10, "{}", fuel.spent());
}

#[test]
fn limits_are_typed_errors() {
    let mut table = DimTable::with_limits(DimLimits {
        max_nodes: 10,
        ..DimLimits::default()
    });
    let x = table.symbol("x").unwrap();
    let mut dim = x;
    let error = (0..100)
        .find_map(|n| {
            let step = table.constant(n);
            match table.add(dim, step).and_then(|sum| table.mul(sum, x)) {
                Ok(next) => {
                    dim = next;
                    None
                }
                Err(error) => Some(error),
            }
        })
        .unwrap();
    insta::assert_snapshot!(error, @"expected at most 10 dimension expressions, found 11; raise the limit or simplify the shapes");
    let mut table = DimTable::with_limits(DimLimits {
        max_facts: 1,
        ..DimLimits::default()
    });
    let first = parse_predicate(&mut Cursor::new("A*B <= C"), &mut table).unwrap();
    let second = parse_predicate(&mut Cursor::new("A*B <= D"), &mut table).unwrap();
    assert!(
        table
            .assume(ContractFact {
                predicate: first,
                origin: FactOrigin::Declared
            })
            .is_ok()
    );
    let error = table
        .assume(ContractFact {
            predicate: second,
            origin: FactOrigin::Declared,
        })
        .unwrap_err();
    assert_eq!(error.code(), "E0308");
}

#[test]
fn tiny_limits_still_give_right_values() {
    let limits = DimLimits {
        max_terms: 0,
        max_degree: 0,
        max_size: 0,
        max_depth: 0,
        ..DimLimits::default()
    };
    let mut table = DimTable::with_limits(limits);
    let text = "((A + B)*(A - B + 3)*(C + 1) / 4 + min(A, B, C, A + B, 9) % 5)*bcast(A*B*C, 1) + max(A, B / 2 / 3 % 7)";
    let small = parse_dim(&mut Cursor::new(text), &mut table).unwrap();
    let mut roomy = DimTable::new();
    let large = parse_dim(&mut Cursor::new(text), &mut roomy).unwrap();
    for sizes in [[0, 0, 0], [1, 2, 3], [7, 7, 1], [12, 5, 40]] {
        let bind = |table: &DimTable| {
            ["A", "B", "C"]
                .iter()
                .zip(sizes)
                .map(|(name, size)| (table.symbol_named(name).unwrap(), size))
                .collect()
        };
        assert_eq!(
            table.evaluate(small, &bind(&table)),
            roomy.evaluate(large, &bind(&roomy))
        );
    }
}

/// Values at and near the limits of the integer types.
const EXTREMES: [i64; 8] = [i64::MIN, -(1 << 32), -1, 0, 1, 3, 1 << 62, i64::MAX];

#[test]
fn extreme_constants_never_overflow_unnoticed() {
    for a in EXTREMES {
        for b in EXTREMES {
            let mut table = DimTable::new();
            let n = table
                .declare(crate::SymbolicDimension::integer("N"))
                .unwrap();
            let n = table.dim(n);
            let (x, y) = (table.constant(a), table.constant(b));
            check_arithmetic(&mut table, (x, a), (y, b));
            // Linear expressions, facts about them, and proofs: correct or rejected, and never a panic.
            let built = table.mul(x, n).and_then(|scaled| table.add(scaled, y));
            let Ok(linear) = built else { continue };
            for divisor in EXTREMES {
                let constant = table.constant(divisor);
                let _ = table.floor_div(linear, constant);
                let _ = table.modulo(linear, constant);
                let _ = table
                    .max(linear, constant)
                    .and_then(|max| table.bcast(max, linear));
                for predicate in [
                    Predicate::Equal(linear, constant),
                    Predicate::NotEqual(linear, constant),
                    Predicate::LessEqual(linear, constant),
                    Predicate::Less(constant, linear),
                    Predicate::Divides {
                        divisor,
                        dim: linear,
                    },
                    Predicate::ProductEqual(vec![linear, linear], vec![constant, linear]),
                ] {
                    let mut copy = table.clone();
                    let _ = copy.prove(&predicate);
                    let _ = copy.assume(ContractFact {
                        predicate,
                        origin: FactOrigin::Declared,
                    });
                    let _ = copy.simplify(linear);
                }
            }
        }
    }
}

fn check_arithmetic(table: &mut DimTable, (x, a): (DimId, i64), (y, b): (DimId, i64)) {
    let (wide_a, wide_b) = (i128::from(a), i128::from(b));
    let results = [
        (table.add(x, y), wide_a + wide_b),
        (table.sub(x, y), wide_a - wide_b),
        (table.mul(x, y), wide_a * wide_b),
        (table.neg(x), -wide_a),
    ];
    for (result, exact) in results {
        let value = result.ok().and_then(|dim| table.as_constant(dim));
        assert!(
            value.is_none_or(|value| i128::from(value) == exact),
            "{a} {b}: {value:?} is not {exact}"
        );
        assert!(
            value.is_some() || exact.abs() >= 1 << 62,
            "{a} {b}: {exact} was refused"
        );
    }
    if b > 0 {
        let results = [
            (table.floor_div(x, y), a.div_euclid(b)),
            (table.modulo(x, y), a.rem_euclid(b)),
        ];
        for (result, exact) in results {
            assert_eq!(
                result.ok().and_then(|dim| table.as_constant(dim)),
                Some(exact),
                "{a} {b}"
            );
        }
    } else {
        assert_eq!(table.floor_div(x, y).unwrap_err().code(), "E0303");
        assert_eq!(table.modulo(x, y).unwrap_err().code(), "E0303");
    }
}
