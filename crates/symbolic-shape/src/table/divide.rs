//! Division rounded down and remainder.
//!
//! Constant divisors: multiples are pulled out, common factors cancelled, nested divisions merged, and constants
//! reduced by known residues modulo the divisor, so that `(8*a + b) / 8` is `a + b / 8` and `(N + 7) / 8` is `N / 8`
//! for `N % 8 == 0`. An exact division uses the largest number known to divide. Other divisors stay unless the quotient
//! is exact and the divisor is known to be positive.

use super::intern::BuildError;
use super::{Atom, DimTable};
use crate::DimError;
use crate::congruence::{Congruence, gcd};
use crate::ids::DimId;
use crate::polynomial::{Polynomial, Term};

/// The maximum nesting of divisions that a dividend's normal form cancels one after another; each round cancels one
/// level.
const NESTED_DIVISIONS: usize = 16;

impl DimTable {
    /// `a / b` rounded down. The divisor must be positive when evaluated.
    pub fn floor_div(&mut self, a: DimId, b: DimId) -> Result<DimId, DimError> {
        self.check_divisor(b)?;
        self.build(&[a, b], " / ", |table, args| {
            let &[a, b] = args else {
                unreachable!("called with two operands")
            };
            match table.as_constant(b) {
                Some(divisor) => table.floor_div_by_constant(a, divisor),
                None => table.floor_div_by_expression(a, b),
            }
        })
    }

    /// `a / b` rounded up. The divisor must be positive when evaluated.
    pub fn ceil_div(&mut self, a: DimId, b: DimId) -> Result<DimId, DimError> {
        let one = self.constant(1);
        let sum = self.add(a, b)?;
        let padded = self.sub(sum, one)?;
        self.floor_div(padded, b)
    }

    /// `a - b * (a / b)`, which is never negative. The divisor must be positive when evaluated.
    pub fn modulo(&mut self, a: DimId, b: DimId) -> Result<DimId, DimError> {
        self.check_divisor(b)?;
        self.build(&[a, b], " % ", |table, args| {
            let &[a, b] = args else {
                unreachable!("called with two operands")
            };
            match table.as_constant(b) {
                Some(divisor) => table.modulo_by_constant(a, divisor),
                None => table.modulo_by_expression(a, b),
            }
        })
    }

    /// The expression whose product with `divisor` is `dividend` for all sizes, if there is one.
    ///
    /// Unlike [`DimTable::floor_div`], it does not need a positive divisor: if the divisor is 0, so is the dividend.
    pub fn exact_quotient(&mut self, dividend: DimId, divisor: DimId) -> Option<DimId> {
        let quotient = self
            .polynomial(dividend)
            .divide_exactly(self.polynomial(divisor))?;
        self.finish(quotient).ok()
    }

    fn check_divisor(&self, divisor: DimId) -> Result<(), DimError> {
        if self.range(divisor).at_most(0) {
            return Err(DimError::DivisorNotPositive {
                divisor: self.display(divisor).to_string(),
            });
        }
        Ok(())
    }

    pub(super) fn floor_div_by_constant(
        &mut self,
        a: DimId,
        divisor: i64,
    ) -> Result<DimId, BuildError> {
        let (mut rest, mut divisor) = (self.reduce_remainders(a, divisor)?, divisor);
        let mut quotient = rest.1;
        loop {
            if divisor == 1 {
                return self.finish(quotient.add(&rest.0)?);
            }
            let (whole, part) = split(&rest.0, divisor)?;
            quotient = quotient.add(&whole)?;
            rest.0 = self.align_constant(&part, divisor)?;
            let (whole, part) = split(&rest.0, divisor)?;
            quotient = quotient.add(&whole)?;
            rest.0 = part;
            if let Some(constant) = self.constant_quotient(&rest.0, divisor) {
                return self.finish(quotient.add(&Polynomial::constant(constant))?);
            }
            let step = gcd(rest.0.content(), divisor);
            if step > 1 {
                rest.0 = divide_through(&rest.0, step);
                divisor /= step;
                continue;
            }
            match self.merged_division(&rest.0, divisor) {
                Some((inner, product)) => (rest.0, divisor) = (inner, product),
                None => break,
            }
        }
        // An exact division is a multiple of the coarsest one: H / 16 is 2*(H / 32) for H % 32 == 0, as in an upsampled
        // size.
        let known = self
            .values_of(&rest.0)
            .map_or(Congruence::ANY, |values| values.congruence);
        let exact = gcd(known.modulus, known.residue);
        let coarse = if exact % divisor == 0 {
            exact.max(divisor)
        } else {
            divisor
        };
        let (dividend, whole) = self.finish_dividend(rest.0, divisor)?;
        quotient = quotient.add(&whole)?;
        let division = if coarse == divisor {
            let divisor = self.constant(divisor);
            self.intern_atom(Atom::FloorDiv(dividend, divisor))?
        } else {
            // Known multiples of `coarse` stay multiples, so this recurses at most once.
            self.floor_div_by_constant(dividend, coarse)?
        };
        let scaled = quotient.add_scaled(self.polynomial(division), coarse / divisor)?;
        self.finish(scaled)
    }

    /// The expression of a dividend, and the quotient that was pulled out of it: its normal form may have larger coefficients,
    /// since `c * (r / c)` becomes `r - r % c`.
    fn finish_dividend(
        &mut self,
        polynomial: Polynomial,
        divisor: i64,
    ) -> Result<(DimId, Polynomial), BuildError> {
        let mut quotient = Polynomial::default();
        let mut dividend = self.finish(polynomial)?;
        for _ in 0..NESTED_DIVISIONS {
            let (whole, part) = split(self.polynomial(dividend), divisor)?;
            if whole == Polynomial::default() {
                break;
            }
            quotient = quotient.add(&whole)?;
            dividend = self.finish(part)?;
        }
        Ok((dividend, quotient))
    }

    pub(super) fn modulo_by_constant(
        &mut self,
        a: DimId,
        divisor: i64,
    ) -> Result<DimId, BuildError> {
        let (_, rest) = split(self.polynomial(a), divisor)?;
        let (_, mut rest) = split(&self.strip_remainders(&rest, divisor)?, divisor)?;
        let (step, residue) = self.known_residue(&rest, divisor);
        if step == divisor {
            return Ok(self.constant(residue));
        }
        // Lowering the constant within a block of the known step lowers the remainder by the same amount.
        let lowered = self.align_constant(&rest, divisor)?;
        let offset = rest.constant - lowered.constant;
        (_, rest) = split(&lowered, divisor)?;
        if let Some(quotient) = self.constant_quotient(&rest, divisor) {
            let whole = quotient.checked_mul(divisor).ok_or(BuildError::Overflow)?;
            let offset = offset.checked_sub(whole).ok_or(BuildError::Overflow)?;
            return self.finish(rest.add(&Polynomial::constant(offset))?);
        }
        // (g*x + k) mod g*c is g * (x mod c) when g divides k too, which the step above made likely.
        let common = gcd(gcd(rest.content(), rest.constant), divisor);
        let small = divisor / common;
        let (dividend, _) = self.finish_dividend(divide_through(&rest, common), small)?;
        let remainder = if common > 1 {
            self.modulo_by_constant(dividend, small)?
        } else {
            let small = self.constant(small);
            self.intern_atom(Atom::Mod(dividend, small))?
        };
        let scaled = self
            .polynomial(remainder)
            .scale(common)?
            .add(&Polynomial::constant(offset))?;
        self.finish(scaled)
    }

    fn floor_div_by_expression(&mut self, a: DimId, b: DimId) -> Result<DimId, BuildError> {
        if self.range(b).at_least(1) {
            if let Some(quotient) = self.polynomial(a).divide_exactly(self.polynomial(b)) {
                return self.finish(quotient);
            }
            if self.lies_below(a, b) {
                return Ok(self.constant(0));
            }
        }
        self.intern_atom(Atom::FloorDiv(a, b))
    }

    fn modulo_by_expression(&mut self, a: DimId, b: DimId) -> Result<DimId, BuildError> {
        if self.range(b).at_least(1) {
            if self
                .polynomial(a)
                .divide_exactly(self.polynomial(b))
                .is_some()
            {
                return Ok(self.constant(0));
            }
            if self.lies_below(a, b) {
                return Ok(a);
            }
        }
        self.intern_atom(Atom::Mod(a, b))
    }

    /// Whether `0 <= a < b` follows from ranges.
    fn lies_below(&self, a: DimId, b: DimId) -> bool {
        let gap = self
            .polynomial(b)
            .sub(self.polynomial(a))
            .ok()
            .and_then(|gap| self.values_of(&gap));
        self.range(a).at_least(0) && gap.is_some_and(|values| values.range.at_least(1))
    }

    /// Rewrites `k * (e % d)` to `k*e - k*d * (e / d)` where `divisor` divides `k*d` and something cancels.
    ///
    /// Returns the remaining polynomial, and the part moved out of it already divided by `divisor`.
    fn reduce_remainders(
        &mut self,
        a: DimId,
        divisor: i64,
    ) -> Result<(Polynomial, Polynomial), BuildError> {
        let mut rest = self.polynomial(a).clone();
        let mut quotient = Polynomial::default();
        for term in &self.shared_polynomial(a).terms {
            let Some(Remainder {
                inner,
                modulus,
                whole,
            }) = self.as_remainder(term, divisor)
            else {
                continue;
            };
            let reduced = self.without_remainder(&rest, term, inner)?;
            if split(&reduced, divisor)?.1.terms.len() < split(&rest, divisor)?.1.terms.len() {
                let division = self.floor_div_by_constant(inner, modulus)?;
                quotient = quotient.add_scaled(
                    self.polynomial(division),
                    (whole / divisor)
                        .checked_neg()
                        .ok_or(BuildError::Overflow)?,
                )?;
                rest = reduced;
            }
        }
        Ok((rest, quotient))
    }

    /// `polynomial` with `k * e` in place of `k * (e % d)` wherever `divisor` divides `k*d`: they are congruent modulo
    /// `divisor`.
    fn strip_remainders(
        &self,
        polynomial: &Polynomial,
        divisor: i64,
    ) -> Result<Polynomial, BuildError> {
        let mut rest = polynomial.clone();
        loop {
            let found = rest
                .terms
                .iter()
                .find_map(|term| Some((term.clone(), self.as_remainder(term, divisor)?.inner)));
            let Some((term, inner)) = found else {
                return Ok(rest);
            };
            rest = self.without_remainder(&rest, &term, inner)?;
        }
    }

    /// The parts of `k * (e % d)` when `divisor` divides `k*d`.
    fn as_remainder(&self, term: &Term, divisor: i64) -> Option<Remainder> {
        let &[factor] = term.factors.as_slice() else {
            return None;
        };
        let Atom::Mod(inner, modulus) = self.atom(factor).atom else {
            return None;
        };
        let modulus = self.as_constant(modulus)?;
        let whole = term
            .coefficient
            .checked_mul(modulus)
            .filter(|whole| whole % divisor == 0)?;
        Some(Remainder {
            inner,
            modulus,
            whole,
        })
    }

    /// `polynomial` with `k * inner` in place of its term `k * atom`.
    fn without_remainder(
        &self,
        polynomial: &Polynomial,
        term: &Term,
        inner: DimId,
    ) -> Result<Polynomial, BuildError> {
        let removed = Polynomial::term(term.factors.clone(), term.coefficient);
        Ok(polynomial
            .sub(&removed)?
            .add_scaled(self.polynomial(inner), term.coefficient)?)
    }

    /// The largest known step that divides `divisor`, and the residue modulo that step.
    fn known_residue(&self, polynomial: &Polynomial, divisor: i64) -> (i64, i64) {
        let congruence = self
            .values_of(polynomial)
            .map_or(Congruence::ANY, |values| values.congruence);
        congruence.common(divisor)
    }

    /// Moves the constant within the block in which the quotient is known not to change.
    ///
    /// With the remaining part `t` known to be `r` modulo a step that divides `divisor`, values of `t + k` jump from block
    /// to block of that length, so that `k` may become the multiple of the step that keeps `t + k` in its block.
    fn align_constant(
        &self,
        polynomial: &Polynomial,
        divisor: i64,
    ) -> Result<Polynomial, BuildError> {
        let (step, residue) = self.known_residue(polynomial, divisor);
        let of_rest = (residue - polynomial.constant.rem_euclid(step)).rem_euclid(step);
        Ok(polynomial.add(&Polynomial::constant(of_rest - residue))?)
    }

    /// The quotient, when it is the same for every value in range.
    fn constant_quotient(&self, polynomial: &Polynomial, divisor: i64) -> Option<i64> {
        let range = self.values_of(polynomial)?.range;
        let quotient = range.min?.div_euclid(divisor);
        (quotient == range.max?.div_euclid(divisor)).then_some(quotient)
    }

    /// `(e / d + k) / c` as the dividend and divisor of `(e + k*d) / (d*c)`.
    fn merged_division(&self, polynomial: &Polynomial, divisor: i64) -> Option<(Polynomial, i64)> {
        let alone = polynomial
            .add(&Polynomial::constant(polynomial.constant.checked_neg()?))
            .ok()?;
        let Atom::FloorDiv(inner, inner_divisor) = self.atom(alone.as_atom()?).atom else {
            return None;
        };
        let inner_divisor = self.as_constant(inner_divisor)?;
        let offset = Polynomial::constant(polynomial.constant.checked_mul(inner_divisor)?);
        Some((
            self.polynomial(inner).add(&offset).ok()?,
            inner_divisor.checked_mul(divisor)?,
        ))
    }
}

/// `inner % modulus` times a coefficient; `whole` is the modulus times the coefficient.
struct Remainder {
    inner: DimId,
    modulus: i64,
    whole: i64,
}

/// The whole multiples of `divisor` in `polynomial`, divided by it, and the remainder, whose constant is in `0..divisor`.
fn split(polynomial: &Polynomial, divisor: i64) -> Result<(Polynomial, Polynomial), BuildError> {
    let mut whole = Polynomial::constant(polynomial.constant.div_euclid(divisor));
    let mut rest = Polynomial::constant(polynomial.constant.rem_euclid(divisor));
    for term in &polynomial.terms {
        let push = |target: &mut Polynomial, coefficient: i64| {
            if coefficient != 0 {
                target.terms.push(Term {
                    factors: term.factors.clone(),
                    coefficient,
                });
            }
        };
        push(&mut whole, term.coefficient / divisor);
        push(&mut rest, term.coefficient % divisor);
    }
    Ok((whole, rest))
}

/// Each coefficient divided by `step`, which divides those of the terms; the constant is rounded down.
fn divide_through(polynomial: &Polynomial, step: i64) -> Polynomial {
    let mut result = polynomial.clone();
    result.constant = result.constant.div_euclid(step.max(1));
    for term in &mut result.terms {
        term.coefficient /= step.max(1);
    }
    result
}
