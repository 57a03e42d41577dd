//! Polynomials that are known to be non-negative: contract facts, and consequences of divisions and extrema.

use super::Fuel;
use crate::ids::DimId;
use crate::polynomial::Polynomial;
use crate::table::{Atom, DimTable};

/// The maximum number of known inequalities examined for one step.
pub(super) const SCANNED: u64 = 16;

/// The inequalities that share a factor with `polynomial`; `None` when the fuel runs out.
///
/// Finding them takes fuel just as using them does: a single broadcast of many sizes implies as many polynomials.
pub(super) fn relevant(
    table: &DimTable,
    polynomial: &Polynomial,
    fuel: &mut Fuel,
) -> Option<Vec<Polynomial>> {
    let mut facts = Vec::new();
    let mut seen = Vec::new();
    for &atom in polynomial.terms.iter().flat_map(|term| &term.factors) {
        if !seen.contains(&atom) {
            seen.push(atom);
            let before = facts.len();
            of_atom(table, atom, &mut facts);
            let found = facts.get(before..).unwrap_or_default().iter();
            fuel.spend(found.map(|fact| fact.terms.len() as u64).sum())?;
        }
    }
    let shares = |fact: &&Polynomial| {
        fact.terms
            .iter()
            .flat_map(|term| &term.factors)
            .any(|atom| seen.contains(atom))
    };
    let known = &table.knowledge().non_negative;
    fuel.spend(known.len() as u64 / SCANNED)?;
    facts.extend(known.iter().filter(shares).cloned());
    Some(facts)
}

/// The non-negative polynomials that follow from an atom's definition.
fn of_atom(table: &DimTable, id: crate::ids::AtomId, facts: &mut Vec<Polynomial>) {
    let own = Polynomial::atom(id);
    let of = |dim: DimId| table.polynomial(table.canonical(dim));
    let mut at_most = |small: &Polynomial, large: &Polynomial| facts.extend(large.sub(small));
    match &table.atom(id).atom {
        Atom::Symbol(symbol) => {
            if let Some(definition) = table.definition(*symbol) {
                at_most(&own, of(definition));
                at_most(of(definition), &own);
            }
        }
        // b * (a / b) <= a <= b * (a / b) + b - 1
        Atom::FloorDiv(a, b) => {
            if let Ok(whole) = table.multiply(of(*b), &own) {
                at_most(&whole, of(*a));
                if let Ok(end) = whole
                    .add(of(*b))
                    .and_then(|end| end.add(&Polynomial::constant(-1)))
                {
                    at_most(of(*a), &end);
                }
            }
        }
        Atom::Mod(a, b) => {
            if table.range(*a).at_least(0) {
                at_most(&own, of(*a));
            }
            if let Ok(last) = of(*b).add(&Polynomial::constant(-1)) {
                at_most(&own, &last);
            }
        }
        Atom::Min(args) => args.iter().for_each(|&dim| at_most(&own, of(dim))),
        Atom::Max(args) => {
            args.iter().for_each(|&dim| at_most(of(dim), &own));
            at_most_sum(table, &own, args, facts);
        }
        Atom::Bcast(args) => {
            if let Some(&rigid) = args.iter().find(|&&dim| table.cannot_be_one(dim)) {
                at_most(of(rigid), &own);
                at_most(&own, of(rigid));
            } else if args.iter().all(|&dim| table.range(dim).at_least(1)) {
                args.iter().for_each(|&dim| at_most(of(dim), &own));
            }
            at_most_sum(table, &own, args, facts);
        }
    }
}

/// One of several sizes that are all zero or more is at most their sum.
fn at_most_sum(table: &DimTable, own: &Polynomial, args: &[DimId], facts: &mut Vec<Polynomial>) {
    if args.iter().all(|&dim| table.range(dim).at_least(0)) {
        let canonical = args
            .iter()
            .map(|&dim| table.polynomial(table.canonical(dim)));
        facts.extend(Polynomial::sum(canonical).and_then(|sum| sum.sub(own)));
    }
}
