//! Is a polynomial non-negative everywhere, or nowhere?
//!
//! Tries, in this order: the range of its terms; factoring out a common factor that is never negative; replacing every
//! atom by its minimum plus a non-negative rest; subtracting a positive multiple of a known inequality to cancel a
//! harmful term (Fourier-Motzkin elimination), to a small depth. A polynomial that is negative at a sample is not
//! searched.

use super::{Fuel, Proof, bounds, equal};
use crate::congruence::gcd;
use crate::ids::AtomId;
use crate::polynomial::{ArithmeticFault, Factors, Polynomial, Term, difference};
use crate::table::DimTable;

/// The maximum number of inequalities that are combined.
const MAX_ELIMINATIONS: usize = 4;

/// Whether `polynomial >= 0` for all allowed sizes, or for none.
pub(super) fn is_non_negative(
    table: &DimTable,
    polynomial: Polynomial,
    fuel: &mut Fuel,
) -> Option<Proof> {
    if holds(table, &polynomial, fuel)? {
        return Some(Proof::Proved);
    }
    let below = Polynomial::constant(-1).sub(&polynomial).ok()?;
    Some(if holds(table, &below, fuel)? {
        Proof::Disproved
    } else {
        Proof::Unknown
    })
}

/// Whether `polynomial >= 0` was shown for all allowed sizes. `None` when the fuel ran out.
pub(super) fn holds(table: &DimTable, polynomial: &Polynomial, fuel: &mut Fuel) -> Option<bool> {
    if is_known(table, polynomial, fuel)? {
        return Some(true);
    }
    let reduced = equal::reduce(table, polynomial.clone(), fuel)?;
    search(table, &reduced, MAX_ELIMINATIONS, fuel)
}

/// Whether a fact states it, or a stronger inequality. The search would find it too, but only after everything that it
/// tries first.
fn is_known(table: &DimTable, polynomial: &Polynomial, fuel: &mut Fuel) -> Option<bool> {
    let known = &table.knowledge().non_negative;
    fuel.spend(known.len() as u64 / bounds::SCANNED)?;
    Some(
        known
            .iter()
            .any(|fact| fact.constant <= polynomial.constant && fact.terms == polynomial.terms),
    )
}

/// Recurses at most `MAX_ELIMINATIONS` deep.
fn search(
    table: &DimTable,
    polynomial: &Polynomial,
    depth: usize,
    fuel: &mut Fuel,
) -> Option<bool> {
    fuel.take(polynomial)?;
    if table.is_negative_somewhere(polynomial) {
        return Some(false);
    }
    if directly(table, polynomial, fuel)? {
        return Some(true);
    }
    let common = polynomial.common_factors();
    let simple = if !common.is_empty() && common.iter().all(|&atom| at_least_zero(table, atom)) {
        let simple = without_common(polynomial, &common);
        if directly(table, &simple, fuel)? {
            return Some(true);
        }
        simple
    } else {
        polynomial.clone()
    };
    if depth == 0 {
        return Some(false);
    }
    let harmful = harmful_terms(table, &simple);
    if harmful.is_empty() {
        return Some(false);
    }
    let facts = bounds::relevant(table, &simple, fuel)?;
    for target in harmful {
        for fact in &facts {
            fuel.take(fact)?;
            let Some(rest) = eliminate(table, &simple, &target, fact) else {
                continue;
            };
            if search(table, &rest, depth - 1, fuel)? {
                return Some(true);
            }
        }
    }
    Some(false)
}

/// By the range of the terms, or with every atom measured from its minimum.
fn directly(table: &DimTable, polynomial: &Polynomial, fuel: &mut Fuel) -> Option<bool> {
    fuel.take(polynomial)?;
    if table
        .values_of(polynomial)
        .is_some_and(|values| values.range.at_least(0))
    {
        return Some(true);
    }
    let Ok(shifted) = shift(table, polynomial, fuel) else {
        return Some(false);
    };
    Some(shifted.constant >= 0 && shifted.terms.iter().all(|term| term.coefficient >= 0))
}

/// `polynomial` with `least + x` in place of each atom `x`, where `x >= 0`; every atom must have a minimum.
fn shift(
    table: &DimTable,
    polynomial: &Polynomial,
    fuel: &mut Fuel,
) -> Result<Polynomial, ArithmeticFault> {
    let mut result = Polynomial::constant(polynomial.constant);
    for term in &polynomial.terms {
        let mut product = Polynomial::constant(term.coefficient);
        for &atom in &term.factors {
            let least = table
                .atom(atom)
                .values
                .range
                .min
                .ok_or(ArithmeticFault::TooLarge)?;
            let factor = Polynomial::atom(atom).add(&Polynomial::constant(least))?;
            fuel.take(&product).ok_or(ArithmeticFault::TooLarge)?;
            product = table.multiply(&product, &factor)?;
        }
        result = result.add(&product)?;
    }
    Ok(result)
}

/// The terms that can be negative.
fn harmful_terms(table: &DimTable, polynomial: &Polynomial) -> Vec<Term> {
    let is_harmful = |term: &&Term| {
        let alone = Polynomial::term(term.factors.clone(), term.coefficient);
        !table
            .values_of(&alone)
            .is_some_and(|values| values.range.at_least(0))
    };
    polynomial
        .terms
        .iter()
        .filter(is_harmful)
        .cloned()
        .collect()
}

/// `k * polynomial - m * fact` without the term `target`, for positive `k` and `m`, where `fact >= 0`.
///
/// `m` may have factors that are never negative. If the result is non-negative, so is `polynomial`.
fn eliminate(
    table: &DimTable,
    polynomial: &Polynomial,
    target: &Term,
    fact: &Polynomial,
) -> Option<Polynomial> {
    for term in &fact.terms {
        if (term.coefficient < 0) != (target.coefficient < 0) {
            continue;
        }
        let Some(extra) = difference(&target.factors, &term.factors) else {
            continue;
        };
        if !extra.iter().all(|&atom| at_least_zero(table, atom)) {
            continue;
        }
        let common = gcd(term.coefficient, target.coefficient);
        let (k, m) = (
            term.coefficient.checked_abs()? / common,
            target.coefficient.checked_abs()? / common,
        );
        let result = polynomial
            .scale(k)
            .ok()?
            .sub(&fact.times_term(&extra, m).ok()?)
            .ok()?;
        return Some(result);
    }
    None
}

fn without_common(polynomial: &Polynomial, common: &Factors) -> Polynomial {
    let mut result = Polynomial::default();
    for term in &polynomial.terms {
        let factors = difference(&term.factors, common).unwrap_or_default();
        match result.add(&Polynomial::term(factors, term.coefficient)) {
            Ok(sum) => result = sum,
            Err(_) => return polynomial.clone(),
        }
    }
    result
}

pub(super) fn at_least_zero(table: &DimTable, atom: AtomId) -> bool {
    table.atom(atom).values.range.at_least(0)
}
