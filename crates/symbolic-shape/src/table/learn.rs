//! Learning from a new contract fact: bounds and residues of atoms, rewrite rules for atoms, or a polynomial to keep.
//!
//! Facts are taken in canonical form. Each case that narrows checks for contradiction before it changes anything.

use super::intern::BuildError;
use super::{Atom, DimTable, Values};
use crate::DimError;
use crate::congruence::{Congruence, gcd};
use crate::fact::Predicate;
use crate::ids::{AtomId, DimId};
use crate::polynomial::{ArithmeticFault, Polynomial};
use crate::range::DimRange;

impl DimTable {
    /// Draws the consequences of a predicate that is neither proved nor disproved.
    pub(super) fn learn(&mut self, predicate: &Predicate) -> Result<(), DimError> {
        match self.try_learn(predicate) {
            Ok(()) => Ok(()),
            // Too large to reason about: it is recorded and checked at run time, but proves nothing.
            Err(BuildError::TooLarge | BuildError::Overflow) => Ok(()),
            Err(BuildError::Dim(DimError::EmptyRange { .. })) => Err(self.contradiction(predicate)),
            Err(BuildError::Dim(error)) => Err(error),
        }
    }

    fn try_learn(&mut self, predicate: &Predicate) -> Result<(), BuildError> {
        match predicate {
            Predicate::Equal(a, b) => {
                let difference = self.canonical_difference(*a, *b)?;
                self.learn_zero(difference, predicate)
            }
            Predicate::NotEqual(a, b) => {
                let difference = self.canonical_difference(*a, *b)?;
                self.learn_non_zero(difference, predicate)
            }
            Predicate::LessEqual(a, b) => {
                let difference = self.canonical_difference(*b, *a)?;
                self.learn_non_negative(difference, predicate)
            }
            Predicate::Less(a, b) => {
                let difference = self
                    .canonical_difference(*b, *a)?
                    .add(&Polynomial::constant(-1))?;
                self.learn_non_negative(difference, predicate)
            }
            Predicate::Divides { divisor, dim } => self.learn_multiple(*dim, *divisor, predicate),
            Predicate::ProductEqual(a, b) => {
                let left = self.canonical_product(a)?;
                let right = self.canonical_product(b)?;
                self.learn_zero(left.sub(&right)?, predicate)
            }
        }
    }

    /// `a - b` in canonical form.
    pub(crate) fn canonical_difference(
        &self,
        a: DimId,
        b: DimId,
    ) -> Result<Polynomial, ArithmeticFault> {
        self.polynomial(self.canonical(a))
            .sub(self.polynomial(self.canonical(b)))
    }

    /// The product of `dims` in canonical form.
    pub(crate) fn canonical_product(&self, dims: &[DimId]) -> Result<Polynomial, ArithmeticFault> {
        dims.iter().try_fold(Polynomial::constant(1), |acc, &dim| {
            self.multiply(&acc, self.polynomial(self.canonical(dim)))
        })
    }

    pub(super) fn learn_non_negative(
        &mut self,
        polynomial: Polynomial,
        predicate: &Predicate,
    ) -> Result<(), BuildError> {
        let Some((atom, coefficient)) = sole_atom(&polynomial) else {
            self.knowledge.non_negative.push(polynomial);
            return Ok(());
        };
        // coefficient * atom + constant >= 0
        let negated = polynomial
            .constant
            .checked_neg()
            .ok_or(BuildError::Overflow)?;
        let range = if coefficient > 0 {
            DimRange {
                min: Some(
                    negated.div_euclid(coefficient)
                        + i64::from(negated.rem_euclid(coefficient) != 0),
                ),
                max: None,
            }
        } else {
            let magnitude = coefficient.checked_neg().ok_or(BuildError::Overflow)?;
            DimRange {
                min: None,
                max: Some(polynomial.constant.div_euclid(magnitude)),
            }
        };
        self.narrow_atom(
            atom,
            Values {
                range,
                congruence: Congruence::ANY,
            },
            predicate,
        )
    }

    fn learn_non_zero(
        &mut self,
        polynomial: Polynomial,
        predicate: &Predicate,
    ) -> Result<(), BuildError> {
        // An excluded value at an end of the range moves that end.
        if let Some((atom, coefficient)) = sole_atom(&polynomial) {
            let range = self.atoms[atom].values.range;
            let excluded = polynomial
                .constant
                .checked_neg()
                .filter(|value| value.checked_rem(coefficient) == Some(0))
                .and_then(|value| value.checked_div(coefficient));
            let narrowed = match excluded {
                Some(value) if range.min == Some(value) => DimRange {
                    min: value.checked_add(1),
                    max: None,
                },
                Some(value) if range.max == Some(value) => DimRange {
                    min: None,
                    max: value.checked_sub(1),
                },
                _ => DimRange::FULL,
            };
            if narrowed != DimRange::FULL {
                return self.narrow_atom(
                    atom,
                    Values {
                        range: narrowed,
                        congruence: Congruence::ANY,
                    },
                    predicate,
                );
            }
        }
        self.knowledge.non_zero.push(polynomial);
        Ok(())
    }

    pub(super) fn learn_multiple(
        &mut self,
        dim: DimId,
        divisor: i64,
        predicate: &Predicate,
    ) -> Result<(), BuildError> {
        let canonical = self.canonical(dim);
        let polynomial = self.polynomial(canonical).clone();
        if let Some((atom, coefficient)) = sole_atom(&polynomial) {
            // coefficient * x + constant = 0 modulo divisor; a common factor must divide the constant, or nothing is learned.
            let common = gcd(coefficient, divisor);
            let modulus = divisor / common;
            let negated = polynomial
                .constant
                .checked_neg()
                .ok_or(BuildError::Overflow)?;
            if negated % common == 0
                && let Some(residue) = solve_linear(coefficient / common, negated / common, modulus)
            {
                let congruence = Congruence::new(modulus, residue);
                return self.narrow_atom(
                    atom,
                    Values {
                        range: DimRange::FULL,
                        congruence,
                    },
                    predicate,
                );
            }
        }
        let remainder = self.modulo_by_constant(canonical, divisor)?;
        if let Some(atom) = self.polynomial(remainder).as_atom() {
            self.narrow_atom(
                atom,
                Values {
                    range: DimRange::point(0),
                    congruence: Congruence::ANY,
                },
                predicate,
            )?;
        }
        self.knowledge.multiples.push((polynomial, divisor));
        Ok(())
    }

    fn learn_zero(
        &mut self,
        polynomial: Polynomial,
        predicate: &Predicate,
    ) -> Result<(), BuildError> {
        if polynomial.terms.is_empty() && polynomial.constant == 0 {
            return Ok(());
        }
        let step = gcd(polynomial.content(), polynomial.constant).max(1);
        let mut reduced = polynomial;
        reduced.constant /= step;
        for term in &mut reduced.terms {
            term.coefficient /= step;
        }
        if let Some((atom, coefficient)) = sole_atom(&reduced) {
            let value = reduced.constant.checked_neg().ok_or(BuildError::Overflow)?;
            if value.checked_rem(coefficient).is_some_and(|rest| rest != 0) {
                return Err(self.contradiction(predicate).into());
            }
            let value = value.checked_div(coefficient).ok_or(BuildError::Overflow)?;
            let values = Values {
                range: DimRange::point(value),
                congruence: Congruence::ANY,
            };
            return self.narrow_atom(atom, values, predicate);
        }
        if let Some((atom, value)) = self.solve_for_atom(&reduced)? {
            return self.add_rule(atom, value, predicate);
        }
        self.knowledge.zero.push(reduced);
        Ok(())
    }

    /// Makes `atom` equal to `value`, which does not contain it.
    fn add_rule(
        &mut self,
        atom: AtomId,
        value: DimId,
        predicate: &Predicate,
    ) -> Result<(), BuildError> {
        let of_atom = self.atoms[atom].values;
        let Some(both) = of_atom.meet(&self.values(value)) else {
            return Err(self.contradiction(predicate).into());
        };
        // What is known about one side holds for the other.
        match self.polynomial(value).as_atom() {
            Some(other) => self.narrow_atom(other, both, predicate)?,
            None => self.keep_values(value, &of_atom),
        }
        self.knowledge.rules.insert(atom, value);
        self.narrow_atom(atom, both, predicate)
    }

    /// Keeps what is known about the values of an expression that is not a single atom.
    fn keep_values(&mut self, dim: DimId, values: &Values) {
        let polynomial = self.polynomial(dim).clone();
        let known = self.values(dim);
        if let Some(min) = values.range.min.filter(|&min| !known.range.at_least(min)) {
            self.knowledge
                .non_negative
                .extend(polynomial.add_scaled(&Polynomial::constant(min), -1));
        }
        if let Some(max) = values.range.max.filter(|&max| !known.range.at_most(max)) {
            self.knowledge
                .non_negative
                .extend(Polynomial::constant(max).sub(&polynomial));
        }
        if values.congruence.modulus > 1 {
            let offset = Polynomial::constant(values.congruence.residue);
            self.knowledge.multiples.extend(
                polynomial
                    .sub(&offset)
                    .map(|p| (p, values.congruence.modulus)),
            );
        }
    }

    /// Whether `inner` is `outer` or a part of it, including definitions of derived symbols.
    fn occurs_in(&self, inner: AtomId, outer: AtomId) -> bool {
        let needle = &self.atoms[inner];
        let symbols = needle.measure.symbols;
        inner == outer
            || (self.atoms[outer].measure.symbols & symbols == symbols
                && self
                    .parts_of(&[self.atoms[outer].dim], &|_| true)
                    .contains(&needle.dim))
    }

    /// An atom that is a separate term with coefficient 1 or -1 and occurs nowhere else, and the expression it equals.
    ///
    /// Prefers the most recent symbol: older names stay, newer ones are replaced.
    fn solve_for_atom(&mut self, zero: &Polynomial) -> Result<Option<(AtomId, DimId)>, BuildError> {
        let mut best: Option<(bool, AtomId, i64)> = None;
        for (place, term) in zero.terms.iter().enumerate() {
            let (&[atom], 1 | -1) = (term.factors.as_slice(), term.coefficient) else {
                continue;
            };
            let is_symbol = matches!(self.atoms[atom].atom, Atom::Symbol(_));
            let others = zero
                .terms
                .iter()
                .enumerate()
                .filter(|(other, _)| *other != place);
            let occurs = others
                .flat_map(|(_, term)| &term.factors)
                .any(|&other| self.occurs_in(atom, other));
            if !occurs && best.is_none_or(|(symbol, id, _)| (is_symbol, atom) > (symbol, id)) {
                best = Some((is_symbol, atom, term.coefficient));
            }
        }
        let Some((_, atom, coefficient)) = best else {
            return Ok(None);
        };
        let rest = zero
            .add_scaled(&Polynomial::atom(atom), -coefficient)?
            .scale(-coefficient)?;
        Ok(Some((atom, self.finish(rest)?)))
    }
}

/// The atom and its coefficient, when the polynomial is linear in one atom.
fn sole_atom(polynomial: &Polynomial) -> Option<(AtomId, i64)> {
    match polynomial.terms.as_slice() {
        [term] => match term.factors.as_slice() {
            [atom] => Some((*atom, term.coefficient)),
            _ => None,
        },
        _ => None,
    }
}

/// The residue `x` with `coefficient * x = value` modulo `modulus`; coefficient and modulus have no common factor.
fn solve_linear(coefficient: i64, value: i64, modulus: i64) -> Option<i64> {
    // Of all classes modulo `modulus` this is the only one whose multiple equals the value.
    let inverse = Congruence::inverse(coefficient, modulus)?;
    let product = i128::from(value.rem_euclid(modulus)) * i128::from(inverse);
    i64::try_from(product.rem_euclid(i128::from(modulus))).ok()
}
