//! Is a polynomial zero everywhere, or nowhere?

use super::{Fuel, Proof, order};
use crate::fact::Predicate;
use crate::ids::DimId;
use crate::polynomial::{Polynomial, difference};
use crate::table::{Atom, DimTable};

/// Whether `polynomial` is zero for all allowed sizes, or for none.
pub(super) fn is_zero(table: &DimTable, polynomial: Polynomial, fuel: &mut Fuel) -> Option<Proof> {
    if let Some(decided) = by_values(table, &polynomial, fuel)? {
        return Some(decided);
    }
    let reduced = reduce(table, polynomial, fuel)?;
    if let Some(decided) = by_values(table, &reduced, fuel)? {
        return Some(decided);
    }
    for fact in &table.knowledge().non_zero {
        fuel.take(fact)?;
        // A value with a nonzero multiple is nonzero, and multiplication by a nonzero factor preserves this.
        if fact.divide_exactly(&reduced).is_some() || is_constant_multiple(&reduced, fact) {
            return Some(Proof::Disproved);
        }
    }
    let negated = reduced.scale(-1).ok()?;
    let one = Polynomial::constant(1);
    let (at_least, at_most) = (
        order::holds(table, &reduced, fuel)?,
        order::holds(table, &negated, fuel)?,
    );
    if at_least && at_most {
        return Some(Proof::Proved);
    }
    if order::holds(table, &reduced.sub(&one).ok()?, fuel)?
        || order::holds(table, &negated.sub(&one).ok()?, fuel)?
    {
        return Some(Proof::Disproved);
    }
    Some(Proof::Unknown)
}

/// Whether two products are equal, after common factors are cancelled.
pub(super) fn products_equal(
    table: &DimTable,
    a: &[DimId],
    b: &[DimId],
    fuel: &mut Fuel,
) -> Option<Proof> {
    let mut left: Vec<DimId> = a.iter().map(|&dim| table.canonical(dim)).collect();
    let mut right = Vec::new();
    let mut cancelled = Vec::new();
    for &dim in b {
        let dim = table.canonical(dim);
        match left.iter().position(|&other| other == dim) {
            Some(place) => cancelled.push(left.swap_remove(place)),
            None => right.push(dim),
        }
    }
    if cancelled
        .iter()
        .any(|&dim| table.as_constant(dim) == Some(0))
    {
        return Some(Proof::Proved);
    }
    let known = table.contract_facts().iter().any(|fact| {
        matches!(&fact.predicate, Predicate::ProductEqual(x, y)
            if (x.as_slice(), y.as_slice()) == (a, b) || (x.as_slice(), y.as_slice()) == (b, a))
    });
    if known {
        return Some(Proof::Proved);
    }
    let apart = table
        .canonical_product(&left)
        .ok()?
        .sub(&table.canonical_product(&right).ok()?)
        .ok()?;
    let proof = is_zero(table, apart, fuel)?;
    // Different factors may still have equal products when a common factor is 0.
    let zero_possible = cancelled.iter().any(|&dim| table.range(dim).contains(0));
    Some(if proof == Proof::Disproved && zero_possible {
        Proof::Unknown
    } else {
        proof
    })
}

/// Subtracts multiples of the polynomials known to be zero while their leading term divides one of `polynomial`'s.
pub(super) fn reduce(
    table: &DimTable,
    mut polynomial: Polynomial,
    fuel: &mut Fuel,
) -> Option<Polynomial> {
    'again: loop {
        fuel.take(&polynomial)?;
        if let Some(simpler) = undo_exact_division(table, &polynomial) {
            polynomial = simpler;
            continue;
        }
        for zero in &table.knowledge().zero {
            fuel.take(&polynomial)?;
            let (factors, coefficient) = zero.leading();
            let divides = |term: &&crate::polynomial::Term| {
                term.coefficient.checked_rem(coefficient) == Some(0)
                    && difference(&term.factors, &factors).is_some()
            };
            if let Some(term) = polynomial.terms.iter().find(divides) {
                let rest = difference(&term.factors, &factors)?;
                let multiple = zero
                    .times_term(&rest, term.coefficient / coefficient)
                    .ok()?;
                polynomial = polynomial.sub(&multiple).ok()?;
                continue 'again;
            }
        }
        return Some(polynomial);
    }
}

/// Replaces `c * (e / c)` in one term by `e - r`, where `e` is known to be `r` modulo `c`.
fn undo_exact_division(table: &DimTable, polynomial: &Polynomial) -> Option<Polynomial> {
    for term in &polynomial.terms {
        for (place, &factor) in term.factors.iter().enumerate() {
            let Atom::FloorDiv(dividend, divisor) = table.atom(factor).atom else {
                continue;
            };
            let Some(divisor) = table
                .as_constant(divisor)
                .filter(|divisor| term.coefficient % divisor == 0)
            else {
                continue;
            };
            let (step, residue) = table.values(dividend).congruence.common(divisor);
            if step != divisor {
                continue;
            }
            let exact = table
                .polynomial(table.canonical(dividend))
                .sub(&Polynomial::constant(residue))
                .ok()?;
            let mut others = term.factors.clone();
            others.remove(place);
            let replacement = exact.times_term(&others, term.coefficient / divisor).ok()?;
            let removed = Polynomial::term(term.factors.clone(), term.coefficient);
            return polynomial.sub(&removed).ok()?.add(&replacement).ok();
        }
    }
    None
}

fn by_values(table: &DimTable, polynomial: &Polynomial, fuel: &mut Fuel) -> Option<Option<Proof>> {
    fuel.take(polynomial)?;
    let Some(values) = table.values_of(polynomial) else {
        return Some(None);
    };
    Some(if values.range.as_point() == Some(0) {
        Some(Proof::Proved)
    } else if !values.range.contains(0) || !values.congruence.contains(0) {
        Some(Proof::Disproved)
    } else {
        None
    })
}

/// Whether `polynomial` is `fact` times a constant other than 0.
fn is_constant_multiple(polynomial: &Polynomial, fact: &Polynomial) -> bool {
    polynomial
        .divide_exactly(fact)
        .and_then(|quotient| quotient.as_constant())
        .is_some_and(|constant| constant != 0)
}
