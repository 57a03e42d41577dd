//! Samples: sizes allowed by the facts, which the prover tries before it searches.
//!
//! A predicate that is false at allowed sizes cannot be proved, and most failing proofs are refuted at one of a few
//! points. So each atom has a value at each of [`SAMPLES`] points, computed when the atom is created. A point that a
//! new fact excludes is redrawn, a few times; if no allowed point is found it is dropped. Samples never prove anything:
//! a table without them proves the same facts, but failing proofs take longer.

use std::collections::BTreeSet;

use cranelift_entity::{EntityRef, SecondaryMap};

use super::{Atom, DimTable, Values};
use crate::binding::Binding;
use crate::fact::Predicate;
use crate::ids::{AtomId, DimId, SymbolId};
use crate::polynomial::Polynomial;
use crate::range::DimRange;

/// The number of points.
const SAMPLES: usize = 16;
/// The number of times a point is redrawn for one fact.
const MAX_DRAWS: u64 = 3;
/// The number of values that one table redraws for facts; afterwards a point that a fact excludes is dropped.
const MAX_DRAWN: u64 = 1 << 20;
/// With more facts than this, no further point is drawn.
const MAX_CHECKED: usize = 64;
/// The number of symbols that are tried as the only large one.
const MAX_ALONE: usize = 2;
/// The large value, in steps as below.
const ALONE: i64 = 42;
/// The difference of the two values at a point, in steps of the symbol's divisor.
const FAR: [i64; 6] = [6, 12, 30, 36, 63, 96];

/// The values of the atoms of a table at each point.
#[derive(Clone, Debug, Default)]
pub(super) struct Samples {
    values: SecondaryMap<AtomId, Sampled>,
    /// The points for which redrawing failed to satisfy the facts, by bit.
    dropped: u16,
    drawn: u64,
}

/// An atom's values; undefined where a divisor is not positive, sizes do not broadcast, or a value overflows.
#[derive(Clone, Debug, Default)]
struct Sampled {
    known: u16,
    values: [i64; SAMPLES],
}

impl Sampled {
    fn get(&self, point: usize) -> Option<i64> {
        let known = self.known & (1 << point) != 0;
        self.values.get(point).copied().filter(|_| known)
    }

    fn set(&mut self, point: usize, value: Option<i64>) {
        match (self.values.get_mut(point), value) {
            (Some(slot), Some(value)) => {
                *slot = value;
                self.known |= 1 << point;
            }
            _ => self.known &= !(1 << point),
        }
    }
}

impl DimTable {
    /// Whether the polynomial is below zero at a point that the facts allow.
    pub(crate) fn is_negative_somewhere(&self, polynomial: &Polynomial) -> bool {
        self.points().any(|point| {
            self.sampled(polynomial, point)
                .is_some_and(|value| value < 0)
        })
    }

    /// Whether two sizes differ at a point that the facts allow, so that no proof can show them equal.
    pub fn is_told_apart(&self, a: DimId, b: DimId) -> bool {
        self.points().any(|point| {
            let value = |dim| self.sampled(self.polynomial(dim), point);
            matches!((value(a), value(b)), (Some(a), Some(b)) if a != b)
        }) || self.is_told_apart_by_a_symbol(a, b)
    }

    /// Whether two sizes are equal at a point that the facts allow, so that no proof can show them different.
    pub fn is_equal_somewhere(&self, a: DimId, b: DimId) -> bool {
        self.points().any(|point| {
            let value = |dim| self.sampled(self.polynomial(dim), point);
            value(a).zip(value(b)).is_some_and(|(a, b)| a == b)
        })
    }

    /// Whether two sizes differ when a symbol of one, and not of the other, is the only large one: the points do not
    /// distinguish broadcasts of many sizes that differ in one additional size.
    fn is_told_apart_by_a_symbol(&self, a: DimId, b: DimId) -> bool {
        if self.facts.len() > MAX_CHECKED {
            return false;
        }
        let (of_a, of_b) = (self.free_symbols(&[a]), self.free_symbols(&[b]));
        let mut alone: Vec<SymbolId> = of_a.symmetric_difference(&of_b).copied().collect();
        alone.truncate(MAX_ALONE);
        if alone.is_empty() {
            return false;
        }
        let in_facts = self.facts.iter().flat_map(|fact| fact.predicate.dims());
        let in_facts: Vec<DimId> = in_facts.collect();
        let mut all = self.free_symbols(&in_facts);
        all.extend(of_a.union(&of_b));
        alone.into_iter().any(|large| {
            let bound = all.iter().filter_map(|&symbol| {
                let values = self.values(self.dim(symbol));
                let wanted = near(&values, if symbol == large { ALONE } else { 0 });
                Some((symbol, fit(&values, wanted)?))
            });
            let binding: Binding = bound.collect();
            let value = |dim| self.evaluate(dim, &binding);
            self.check(&binding).is_ok() && matches!((value(a), value(b)), (Ok(a), Ok(b)) if a != b)
        })
    }

    /// The symbols without a definition in sizes, including those of definitions.
    pub fn free_symbols(&self, dims: &[DimId]) -> BTreeSet<SymbolId> {
        let parts = self.parts_of(dims, &|_| true).into_iter();
        let atoms = parts.flat_map(|part| self.polynomial(part).terms.iter());
        atoms
            .flat_map(|term| &term.factors)
            .filter_map(|&atom| match self.atoms[atom].atom {
                Atom::Symbol(symbol) => Some(symbol),
                _ => None,
            })
            .filter(|&symbol| self.definition(symbol).is_none())
            .collect()
    }

    /// Gives a new atom, whose operands have values, its values.
    pub(super) fn sample_atom(&mut self, id: AtomId) {
        for point in 0..SAMPLES {
            let value = self.value_at(id, point, 0);
            self.samples.values[id].set(point, value);
        }
    }

    /// Redraws the points that a new fact excludes.
    pub(super) fn resample(&mut self, predicate: &Predicate) {
        let excluded: Vec<usize> = self
            .points()
            .filter(|&point| !self.holds_at(predicate, point))
            .collect();
        for point in excluded {
            if !(1..=MAX_DRAWS).any(|attempt| self.redraw(point, attempt)) {
                self.samples.dropped |= 1 << point;
            }
        }
    }

    /// Redraws all points, after ranges were narrowed other than by facts.
    pub(super) fn resample_all(&mut self) {
        for point in 0..SAMPLES {
            self.samples.dropped &= !(1 << point);
            if !self.redraw(point, 0) {
                self.samples.dropped |= 1 << point;
            }
        }
    }

    /// Redraws a point; returns whether all facts hold there.
    fn redraw(&mut self, point: usize, attempt: u64) -> bool {
        let atoms = self.atoms.len();
        let steps = 2 * atoms as u64 + self.facts.len() as u64;
        self.samples.drawn = self.samples.drawn.saturating_add(steps);
        if self.samples.drawn > MAX_DRAWN {
            return false;
        }
        // This is done twice, because an equality may give a symbol the value of an atom that was made after it.
        for round in 0..2 {
            for id in (0..atoms).map(AtomId::new) {
                let ruled = match (&self.atoms[id].atom, self.knowledge.rules.get(&id)) {
                    (Atom::Symbol(symbol), Some(&value)) if self.definition(*symbol).is_none() => {
                        self.sampled(self.polynomial(value), point)
                    }
                    _ => None,
                };
                let value = ruled
                    .filter(|_| round > 0)
                    .or_else(|| self.value_at(id, point, attempt));
                self.samples.values[id].set(point, value);
            }
        }
        // An equality may have given a symbol a value that it cannot have.
        let is_allowed = (0..atoms).map(AtomId::new).all(|id| {
            let values = &self.atoms[id].values;
            self.samples.values[id].get(point).is_none_or(|value| {
                values.range.contains(value) && values.congruence.contains(value)
            })
        });
        let mut facts = self.facts.iter();
        is_allowed && facts.all(|fact| self.holds_at(&fact.predicate, point))
    }

    fn points(&self) -> impl Iterator<Item = usize> + use<> {
        let dropped = self.samples.dropped;
        (0..SAMPLES).filter(move |point| dropped & (1 << point) == 0)
    }

    /// The value of a polynomial at a point.
    fn sampled(&self, polynomial: &Polynomial, point: usize) -> Option<i64> {
        let terms = polynomial.terms.iter();
        let total = terms.map(|term| {
            let factors = term.factors.iter();
            factors
                .map(|&atom| self.samples.values[atom].get(point))
                .try_fold(term.coefficient, |product, value| {
                    product.checked_mul(value?)
                })
        });
        let mut total = total;
        total.try_fold(polynomial.constant, |sum, term| sum.checked_add(term?))
    }

    /// The value of an atom at a point at which its operands have values.
    fn value_at(&self, id: AtomId, point: usize, attempt: u64) -> Option<i64> {
        let value = |dim: &DimId| self.sampled(self.polynomial(*dim), point);
        match &self.atoms[id].atom {
            Atom::Symbol(symbol) => match self.definition(*symbol) {
                Some(definition) => value(&definition),
                None => draw(&self.atoms[id].values, symbol.index(), point, attempt),
            },
            Atom::FloorDiv(a, b) => Some(value(a)?.div_euclid(value(b).filter(|&by| by >= 1)?)),
            Atom::Mod(a, b) => Some(value(a)?.rem_euclid(value(b).filter(|&by| by >= 1)?)),
            Atom::Min(args) => of_all(args.iter().map(value), i64::min),
            Atom::Max(args) => of_all(args.iter().map(value), i64::max),
            Atom::Bcast(args) => args.iter().map(value).try_fold(1, |size, value| {
                let value = value?;
                match (size, value) {
                    (size, 1) => Some(size),
                    (1, value) => Some(value),
                    (size, value) => (size == value).then_some(value),
                }
            }),
        }
    }

    /// Whether a predicate is defined at a point, and true there.
    fn holds_at(&self, predicate: &Predicate, point: usize) -> bool {
        let value = |dim: &DimId| self.sampled(self.polynomial(*dim), point);
        let both = |a, b| value(a).zip(value(b));
        let product = |dims: &[DimId]| {
            let mut values = dims.iter().map(value);
            values.try_fold(1_i64, |product, value| product.checked_mul(value?))
        };
        match predicate {
            Predicate::Equal(a, b) => both(a, b).is_some_and(|(a, b)| a == b),
            Predicate::NotEqual(a, b) => both(a, b).is_some_and(|(a, b)| a != b),
            Predicate::LessEqual(a, b) => both(a, b).is_some_and(|(a, b)| a <= b),
            Predicate::Less(a, b) => both(a, b).is_some_and(|(a, b)| a < b),
            Predicate::Divides { divisor, dim } => {
                value(dim).and_then(|value| value.checked_rem(*divisor)) == Some(0)
            }
            Predicate::ProductEqual(a, b) => {
                product(a).zip(product(b)).is_some_and(|(a, b)| a == b)
            }
        }
    }
}

fn of_all(mut values: impl Iterator<Item = Option<i64>>, pick: fn(i64, i64) -> i64) -> Option<i64> {
    let first = values.next()??;
    values.try_fold(first, |so_far, value| Some(pick(so_far, value?)))
}

/// A value for a symbol that may have any value in `values`.
///
/// At most points a symbol is one of two values: 1 (or the minimum) and one larger, the same for all, so that most
/// broadcasts are defined. A bit of the symbol's number selects which, at some points inverted, so that each of two symbols
/// is the larger one somewhere. At two points the values are 0 and 1, at two they differ for all symbols.
fn draw(values: &Values, symbol: usize, point: usize, attempt: u64) -> Option<i64> {
    let step = values.congruence.modulus.max(1);
    let number = symbol as u64;
    let mixed = (number + 1 + (attempt << 32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mixed = mixed ^ (mixed >> 29);
    let code = if attempt == 0 { number } else { mixed };
    let wanted = match (point, FAR.get(point % FAR.len())) {
        (0..12, Some(far)) => {
            let is_far = (code >> (point % FAR.len())) & 1 == u64::from(point < FAR.len());
            near(values, if is_far { *far } else { 0 })
        }
        (12 | 13, _) => {
            let is_more = (mixed >> 7) & 1 == point as u64 & 1;
            least(values).saturating_add(if is_more { step } else { 0 })
        }
        _ => {
            let some = (mixed >> point) % 1021;
            least(values).saturating_add(i64::try_from(some).unwrap_or(0).saturating_mul(step))
        }
    };
    fit(values, wanted)
}

/// The minimum, or a value at least as odd.
fn least(values: &Values) -> i64 {
    let DimRange { min, max } = values.range;
    min.unwrap_or_else(|| max.map_or(0, |max| max.min(0)))
}

/// 1, or the minimum above it, plus this many steps.
fn near(values: &Values, steps: i64) -> i64 {
    let step = values.congruence.modulus.max(1);
    least(values)
        .max(1)
        .saturating_add(steps.saturating_mul(step))
}

/// The allowed value closest to a wanted one.
fn fit(values: &Values, wanted: i64) -> Option<i64> {
    if let Some(value) = values.range.as_point() {
        return Some(value);
    }
    let DimRange { min, max } = values.range;
    let (step, residue) = (values.congruence.modulus.max(1), values.congruence.residue);
    let wanted = max.map_or(wanted, |max| wanted.min(max));
    let below = wanted.checked_sub(wanted.checked_sub(residue)?.rem_euclid(step))?;
    let value = match min {
        Some(min) if below < min => below.checked_add(step)?,
        _ => below,
    };
    let allowed = values.range.contains(value) && values.congruence.contains(value);
    allowed.then_some(value)
}
