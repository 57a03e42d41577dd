//! Is a polynomial a multiple of a number everywhere, or nowhere?

use super::{Fuel, Proof, equal};
use crate::polynomial::{Polynomial, Term, difference};
use crate::table::DimTable;

/// Whether `polynomial` is a multiple of `divisor` for all allowed sizes, or for none.
pub(super) fn is_multiple(
    table: &DimTable,
    polynomial: Polynomial,
    divisor: i64,
    fuel: &mut Fuel,
) -> Option<Proof> {
    if divisor < 1 {
        return None;
    }
    let decided = by_congruence(table, &polynomial, divisor, fuel)?;
    if decided != Proof::Unknown {
        return Some(decided);
    }
    let mut rest = equal::reduce(table, polynomial, fuel)?;
    while let Some(smaller) = subtract_multiple(table, &rest, divisor, fuel)? {
        rest = smaller;
    }
    by_congruence(table, &rest, divisor, fuel)
}

fn by_congruence(
    table: &DimTable,
    polynomial: &Polynomial,
    divisor: i64,
    fuel: &mut Fuel,
) -> Option<Proof> {
    fuel.take(polynomial)?;
    let (step, residue) = table.values_of(polynomial)?.congruence.common(divisor);
    Some(match (step == divisor, residue == 0) {
        (true, true) => Proof::Proved,
        (_, false) => Proof::Disproved,
        (false, true) => Proof::Unknown,
    })
}

/// Subtracts a known multiple of `divisor` that removes a term: the same residue with one term less.
fn subtract_multiple(
    table: &DimTable,
    polynomial: &Polynomial,
    divisor: i64,
    fuel: &mut Fuel,
) -> Option<Option<Polynomial>> {
    for (fact, by) in &table.knowledge().multiples {
        fuel.take(fact)?;
        let (factors, coefficient) = fact.leading();
        let fits = |term: &&Term| {
            let quotient = term.coefficient.checked_div(coefficient).unwrap_or(0);
            quotient.checked_mul(coefficient) == Some(term.coefficient)
                && quotient
                    .checked_mul(*by)
                    .is_some_and(|multiple| multiple % divisor == 0)
                && difference(&term.factors, &factors).is_some()
        };
        if let Some(term) = polynomial.terms.iter().find(fits) {
            let extra = difference(&term.factors, &factors)?;
            let multiple = fact
                .times_term(&extra, term.coefficient / coefficient)
                .ok()?;
            return Some(Some(polynomial.sub(&multiple).ok()?));
        }
    }
    Some(None)
}
