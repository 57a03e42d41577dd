//! Polynomials with integer coefficients over atoms: the normal form of dimension expressions.
//!
//! Terms are sorted by their factors and no coefficient is zero, so equal polynomials are equal values. Arithmetic is
//! checked; a product that would have too many terms is rejected before it is built.

use smallvec::SmallVec;

use crate::ids::AtomId;

/// A product of atoms, sorted; a repeated atom is a power.
pub(crate) type Factors = SmallVec<[AtomId; 2]>;

/// A coefficient times a product of at least one atom.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Term {
    pub(crate) factors: Factors,
    pub(crate) coefficient: i64,
}

/// A sum of terms and a constant.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Polynomial {
    pub(crate) constant: i64,
    pub(crate) terms: SmallVec<[Term; 1]>,
}

/// Why an operation on polynomials was abandoned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ArithmeticFault {
    /// A coefficient does not fit.
    Overflow,
    /// The result has too many terms or factors.
    TooLarge,
}

impl Polynomial {
    pub(crate) fn constant(constant: i64) -> Self {
        Polynomial {
            constant,
            terms: SmallVec::new(),
        }
    }

    pub(crate) fn atom(atom: AtomId) -> Self {
        let mut factors = Factors::new();
        factors.push(atom);
        Self::term(factors, 1)
    }

    pub(crate) fn term(factors: Factors, coefficient: i64) -> Self {
        let mut result = Self::default();
        if factors.is_empty() {
            result.constant = coefficient;
        } else if coefficient != 0 {
            result.terms.push(Term {
                factors,
                coefficient,
            });
        }
        result
    }

    pub(crate) fn as_constant(&self) -> Option<i64> {
        self.terms.is_empty().then_some(self.constant)
    }

    /// The atom, when the polynomial consists only of that atom.
    pub(crate) fn as_atom(&self) -> Option<AtomId> {
        match (self.constant, self.terms.as_slice()) {
            (
                0,
                [
                    Term {
                        factors,
                        coefficient: 1,
                    },
                ],
            ) if factors.len() == 1 => factors.first().copied(),
            _ => None,
        }
    }

    pub(crate) fn is_zero(&self) -> bool {
        self.as_constant() == Some(0)
    }

    pub(crate) fn degree(&self) -> usize {
        self.terms
            .iter()
            .map(|term| term.factors.len())
            .max()
            .unwrap_or(0)
    }

    /// `self + other * factor`.
    pub(crate) fn add_scaled(
        &self,
        other: &Polynomial,
        factor: i64,
    ) -> Result<Polynomial, ArithmeticFault> {
        let sum = |a: i64, b: i64| {
            // A product of two 64-bit integers and one more fit into 128 bits.
            i64::try_from(i128::from(a) + i128::from(b) * i128::from(factor))
                .map_err(|_| ArithmeticFault::Overflow)
        };
        let mut result = Polynomial::constant(sum(self.constant, other.constant)?);
        let (mut left, mut right) = (self.terms.iter().peekable(), other.terms.iter().peekable());
        loop {
            let order = match (left.peek(), right.peek()) {
                (None, None) => return Ok(result),
                (Some(_), None) => std::cmp::Ordering::Less,
                (None, Some(_)) => std::cmp::Ordering::Greater,
                (Some(a), Some(b)) => a.factors.cmp(&b.factors),
            };
            let mut coefficient = 0;
            let mut factors = None;
            if order.is_le()
                && let Some(term) = left.next()
            {
                coefficient = term.coefficient;
                factors = Some(&term.factors);
            }
            if order.is_ge()
                && let Some(term) = right.next()
            {
                coefficient = sum(coefficient, term.coefficient)?;
                factors = Some(&term.factors);
            }
            if let Some(factors) = factors.filter(|_| coefficient != 0) {
                result.terms.push(Term {
                    factors: factors.clone(),
                    coefficient,
                });
            }
        }
    }

    pub(crate) fn add(&self, other: &Polynomial) -> Result<Polynomial, ArithmeticFault> {
        self.add_scaled(other, 1)
    }

    /// The sum of all, in a number of steps about linear in the number of their terms.
    pub(crate) fn sum<'a>(
        all: impl Iterator<Item = &'a Polynomial>,
    ) -> Result<Polynomial, ArithmeticFault> {
        let mut constant: i64 = 0;
        let mut terms: Vec<Term> = Vec::new();
        for polynomial in all {
            constant = constant
                .checked_add(polynomial.constant)
                .ok_or(ArithmeticFault::Overflow)?;
            terms.extend(polynomial.terms.iter().cloned());
        }
        terms.sort_unstable_by(|a, b| a.factors.cmp(&b.factors));
        let mut result = Polynomial::constant(constant);
        for equal in terms.chunk_by(|a, b| a.factors == b.factors) {
            let coefficient = equal
                .iter()
                .try_fold(0_i64, |sum, term| sum.checked_add(term.coefficient))
                .ok_or(ArithmeticFault::Overflow)?;
            if let Some(term) = equal.first().filter(|_| coefficient != 0) {
                result.terms.push(Term {
                    factors: term.factors.clone(),
                    coefficient,
                });
            }
        }
        Ok(result)
    }

    pub(crate) fn sub(&self, other: &Polynomial) -> Result<Polynomial, ArithmeticFault> {
        self.add_scaled(other, -1)
    }

    pub(crate) fn scale(&self, factor: i64) -> Result<Polynomial, ArithmeticFault> {
        Polynomial::default().add_scaled(self, factor)
    }

    /// The product; an error when it could have more than `max_terms` terms, or more than `max_degree` factors in one
    /// term.
    pub(crate) fn mul(
        &self,
        other: &Polynomial,
        max_terms: usize,
        max_degree: usize,
    ) -> Result<Polynomial, ArithmeticFault> {
        let count = |p: &Polynomial| p.terms.len() + usize::from(p.constant != 0);
        // Cancellation might bring it below the limit, but bounding the work matters more. A single term never grows the
        // other side.
        if count(self).min(count(other)) > 1 && count(self).saturating_mul(count(other)) > max_terms
        {
            return Err(ArithmeticFault::TooLarge);
        }
        if !self.terms.is_empty()
            && !other.terms.is_empty()
            && self.degree() + other.degree() > max_degree
        {
            return Err(ArithmeticFault::TooLarge);
        }
        let mut result = other.scale(self.constant)?;
        for term in &self.terms {
            result = result.add(&other.times_term(&term.factors, term.coefficient)?)?;
        }
        Ok(result)
    }

    /// The product with one term.
    pub(crate) fn times_term(
        &self,
        factors: &Factors,
        coefficient: i64,
    ) -> Result<Polynomial, ArithmeticFault> {
        let times = |value: i64| {
            value
                .checked_mul(coefficient)
                .ok_or(ArithmeticFault::Overflow)
        };
        let mut result = Polynomial::term(factors.clone(), times(self.constant)?);
        let mut terms = Vec::with_capacity(self.terms.len());
        for term in &self.terms {
            terms.push(Term {
                factors: merge(&term.factors, factors),
                coefficient: times(term.coefficient)?,
            });
        }
        // Multiplying keeps terms distinct, but may change their order.
        terms.sort_unstable_by(|a, b| a.factors.cmp(&b.factors));
        let product = Polynomial {
            constant: 0,
            terms: terms.into_iter().filter(|t| t.coefficient != 0).collect(),
        };
        result = result.add(&product)?;
        Ok(result)
    }

    /// The greatest common divisor of the coefficients of the terms (not of the constant); 0 without terms.
    pub(crate) fn content(&self) -> i64 {
        self.terms
            .iter()
            .fold(0, |acc, term| crate::congruence::gcd(acc, term.coefficient))
    }

    /// The factors common to all parts; empty when the constant is not zero.
    pub(crate) fn common_factors(&self) -> Factors {
        if self.constant != 0 {
            return Factors::new();
        }
        let mut terms = self.terms.iter();
        let Some(first) = terms.next() else {
            return Factors::new();
        };
        terms.fold(first.factors.clone(), |common, term| {
            intersection(&common, &term.factors)
        })
    }

    /// The quotient by `divisor` when it is exact, by division of leading terms.
    pub(crate) fn divide_exactly(&self, divisor: &Polynomial) -> Option<Polynomial> {
        let mut rest = self.clone();
        let mut quotient = Polynomial::default();
        // Each step removes the leading term of the remainder; more steps than that many terms means it does not divide.
        for _ in 0..=4 * (self.terms.len() + 1) {
            if rest.is_zero() {
                return Some(quotient);
            }
            let (factors, coefficient) = rest.leading();
            let (by, by_coefficient) = divisor.leading();
            if by_coefficient == 0 || coefficient.checked_rem(by_coefficient)? != 0 {
                return None;
            }
            let factors = difference(&factors, &by)?;
            let coefficient = coefficient / by_coefficient;
            rest = rest
                .sub(&divisor.times_term(&factors, coefficient).ok()?)
                .ok()?;
            quotient = quotient.add(&Polynomial::term(factors, coefficient)).ok()?;
        }
        None
    }

    /// The term that leads in the order by degree, then by atoms; it is compatible with multiplication.
    pub(crate) fn leading(&self) -> (Factors, i64) {
        let key = |term: &&Term| (term.factors.len(), exponents(&term.factors));
        match self.terms.iter().max_by(|a, b| key(a).cmp(&key(b))) {
            Some(term) => (term.factors.clone(), term.coefficient),
            None => (Factors::new(), self.constant),
        }
    }
}

/// The sort key of a lexicographic order on exponent vectors: at the first atom that differs, the higher power of the
/// smaller atom is greater.
fn exponents(factors: &Factors) -> SmallVec<[std::cmp::Reverse<AtomId>; 4]> {
    factors
        .iter()
        .map(|&atom| std::cmp::Reverse(atom))
        .collect()
}

/// The product of two sorted products.
pub(crate) fn merge(a: &Factors, b: &Factors) -> Factors {
    let mut result: Factors = a.iter().chain(b).copied().collect();
    result.sort_unstable();
    result
}

/// `a` without the factors of `b`, or `None` if `b` does not divide `a`.
pub(crate) fn difference(a: &Factors, b: &Factors) -> Option<Factors> {
    let mut result = Factors::new();
    let mut wanted = b.iter().peekable();
    for &atom in a {
        if wanted.peek() == Some(&&atom) {
            wanted.next();
        } else {
            result.push(atom);
        }
    }
    wanted.peek().is_none().then_some(result)
}

/// The factors common to both.
fn intersection(a: &Factors, b: &Factors) -> Factors {
    let mut result = Factors::new();
    let mut right = b.iter().copied().peekable();
    for &atom in a {
        while right.next_if(|&other| other < atom).is_some() {}
        if right.next_if_eq(&atom).is_some() {
            result.push(atom);
        }
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;
    use cranelift_entity::EntityRef;

    fn atom(n: usize) -> Polynomial {
        Polynomial::atom(AtomId::new(n))
    }

    fn sum(parts: &[&Polynomial]) -> Polynomial {
        parts
            .iter()
            .fold(Polynomial::default(), |acc, p| acc.add(p).unwrap())
    }

    #[test]
    fn products_expand_and_divide_back() {
        let (a, b, c) = (atom(0), atom(1), atom(2));
        let left = sum(&[&a, &b, &Polynomial::constant(-3)]);
        let right = sum(&[&a.scale(2).unwrap(), &c]);
        let product = left.mul(&right, 64, 8).unwrap();
        assert_eq!(product, right.mul(&left, 64, 8).unwrap());
        assert_eq!(product.divide_exactly(&left), Some(right.clone()));
        assert_eq!(product.divide_exactly(&right), Some(left.clone()));
        assert_eq!(sum(&[&product, &a]).divide_exactly(&left), None);
        assert_eq!(product.divide_exactly(&Polynomial::default()), None);
    }

    #[test]
    fn terms_cancel() {
        let a = atom(0);
        assert!(a.sub(&a).unwrap().is_zero());
        let square = a
            .add(&Polynomial::constant(1))
            .unwrap()
            .mul(&a.sub(&Polynomial::constant(1)).unwrap(), 8, 8)
            .unwrap();
        assert_eq!(
            square,
            a.mul(&a, 8, 8)
                .unwrap()
                .sub(&Polynomial::constant(1))
                .unwrap()
        );
    }

    #[test]
    fn limits_and_overflow_are_reported() {
        let wide = sum(&[&atom(0), &atom(1), &atom(2)]);
        assert_eq!(wide.mul(&wide, 8, 8), Err(ArithmeticFault::TooLarge));
        assert_eq!(wide.mul(&wide, 9, 1), Err(ArithmeticFault::TooLarge));
        assert_eq!(
            atom(0).scale(i64::MAX).unwrap().scale(2),
            Err(ArithmeticFault::Overflow)
        );
        let (min, max) = (
            Polynomial::constant(i64::MIN),
            Polynomial::constant(i64::MAX),
        );
        assert_eq!(min.sub(&max), Err(ArithmeticFault::Overflow));
    }

    #[test]
    fn common_content_and_factors_of_a_polynomial() {
        let (a, b) = (atom(0), atom(1));
        let p = sum(&[
            &a.mul(&b, 8, 8).unwrap().scale(6).unwrap(),
            &a.scale(-4).unwrap(),
        ]);
        assert_eq!(p.content(), 2);
        assert_eq!(p.common_factors().as_slice(), [AtomId::new(0)]);
        assert!(
            p.add(&Polynomial::constant(1))
                .unwrap()
                .common_factors()
                .is_empty()
        );
    }
}
