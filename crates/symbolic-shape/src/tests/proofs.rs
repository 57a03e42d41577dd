//! Proofs are sound: what is proved is true for all allowed sizes, and what is disproved for none.

use super::{NAMES, all_sizes, binding, config, expr, facts};
use crate::text::{Cursor, parse_predicate, parse_where};
use crate::{ContractFact, DimId, DimTable, FactOrigin, Predicate, Proof, SymbolicDimension};
use proptest::prelude::*;

fn predicate(kind: usize, dims: [DimId; 4]) -> Predicate {
    let [a, b, c, d] = dims;
    match kind {
        0 => Predicate::Equal(a, b),
        1 => Predicate::NotEqual(a, b),
        2 => Predicate::LessEqual(a, b),
        3 => Predicate::Less(a, b),
        4 => Predicate::Divides { divisor: 2, dim: a },
        5 => Predicate::Divides { divisor: 8, dim: a },
        _ => Predicate::ProductEqual(vec![a, b], vec![c, d]),
    }
}

fn sound(table: &DimTable, predicate: &Predicate) -> Result<(), TestCaseError> {
    let proof = table.prove(predicate);
    for sizes in all_sizes() {
        let binding = binding(table, &sizes);
        if table.check(&binding).is_err() {
            continue;
        }
        if let Ok(holds) = table.holds(predicate, &binding) {
            let text = table.display_predicate(predicate);
            prop_assert!(
                proof != Proof::Proved || holds,
                "proved {} but not at {:?}",
                text,
                sizes
            );
            prop_assert!(
                proof != Proof::Disproved || !holds,
                "disproved {} but not at {:?}",
                text,
                sizes
            );
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn answers_are_sound(exprs in [expr(), expr(), expr(), expr()], facts in facts(), kind in 0..7_usize, early in any::<bool>()) {
        let mut table = DimTable::new();
        for name in NAMES {
            table.declare(SymbolicDimension::named(name)).unwrap();
        }
        let mut dims = None;
        for round in 0..2 {
            if (round == 0) == early {
                let built: Result<Vec<DimId>, _> = exprs.iter().map(|expr| expr.build(&mut table)).collect();
                dims = built.ok();
                continue;
            }
            for fact in &facts {
                let before = table.clone();
                if parse_where(&mut Cursor::new(fact), &mut table).is_err() {
                    table = before;
                }
            }
        }
        if let Some(&[a, b, c, d]) = dims.as_deref() {
            sound(&table, &predicate(kind, [a, b, c, d]))?;
            let text = table.display_predicate(&predicate(kind, [a, b, c, d])).to_string();
            let read = parse_predicate(&mut Cursor::new(&text), &mut table);
            if !early {
                prop_assert_eq!(read, Ok(predicate(kind, [a, b, c, d])), "{}", text);
            }
        }
    }
}

#[test]
fn products_with_a_common_zero_are_equal_and_imply_nothing() {
    let mut table = DimTable::new();
    let (zero, n) = (table.constant(0), table.symbol("n").unwrap());
    let predicate = Predicate::ProductEqual(vec![zero, n], vec![zero]);
    assert_eq!(table.prove(&predicate), Proof::Proved);
    let origin = FactOrigin::Declared;
    table.assume(ContractFact { predicate, origin }).unwrap();
    assert!(table.contract_facts().is_empty());
    let m = table.symbol("m").unwrap();
    assert_eq!(table.equal(n, m), Proof::Unknown);
}
