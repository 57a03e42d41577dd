//! Sums and products, and the use of derived symbols when an expression would grow too large.
//!
//! Normalising keeps values: where an expression has a value, its normal form has the same one. It may lose an error: an
//! operand that cancels (`x - x`, `0 * x`) removes its division by zero or its failed broadcast.

use super::intern::BuildError;
use super::{Atom, DimTable};
use crate::DimError;
use crate::ids::{AtomId, DimId};
use crate::polynomial::{Polynomial, Term};

impl DimTable {
    /// `a + b`.
    pub fn add(&mut self, a: DimId, b: DimId) -> Result<DimId, DimError> {
        self.build(&[a, b], " + ", |table, args| {
            table.combine(args, |table, a, b| {
                Ok(table.polynomial(a).add(table.polynomial(b))?)
            })
        })
    }

    /// `a - b`.
    pub fn sub(&mut self, a: DimId, b: DimId) -> Result<DimId, DimError> {
        self.build(&[a, b], " - ", |table, args| {
            table.combine(args, |table, a, b| {
                Ok(table.polynomial(a).sub(table.polynomial(b))?)
            })
        })
    }

    /// `-a`.
    pub fn neg(&mut self, a: DimId) -> Result<DimId, DimError> {
        let zero = self.constant(0);
        self.sub(zero, a)
    }

    /// `a * b`.
    pub fn mul(&mut self, a: DimId, b: DimId) -> Result<DimId, DimError> {
        self.build(&[a, b], " * ", |table, args| {
            table.combine(args, |table, a, b| {
                Ok(table.multiply(table.polynomial(a), table.polynomial(b))?)
            })
        })
    }

    /// The product of all of `dims`; 1 for none.
    pub fn product(&mut self, dims: &[DimId]) -> Result<DimId, DimError> {
        let one = self.constant(1);
        dims.iter().try_fold(one, |acc, &dim| self.mul(acc, dim))
    }

    /// The number of sizes that [`DimTable::sum`] adds up at once.
    pub const SUMMED_AT_ONCE: usize = 32;

    /// The sum of all of `dims`; 0 for none.
    ///
    /// Longer lists are summed in parts of [`DimTable::SUMMED_AT_ONCE`], in order, and then the partial sums: a sum that is
    /// too large for one expression is the same whether it is taken of all or of the partial sums.
    pub fn sum(&mut self, dims: &[DimId]) -> Result<DimId, DimError> {
        let mut sums = dims.to_vec();
        while sums.len() > Self::SUMMED_AT_ONCE {
            let parts = sums.chunks(Self::SUMMED_AT_ONCE);
            sums = parts
                .map(|part| self.sum_in_turn(part))
                .collect::<Result<_, _>>()?;
        }
        self.sum_in_turn(&sums)
    }

    fn sum_in_turn(&mut self, dims: &[DimId]) -> Result<DimId, DimError> {
        let zero = self.constant(0);
        dims.iter().try_fold(zero, |acc, &dim| self.add(acc, dim))
    }

    /// The expression of a polynomial over atoms of this table, in normal form.
    ///
    /// A multiple of a division by the same number is rewritten: `c * (r / c)` is `r - r % c`.
    pub(super) fn finish(&mut self, mut polynomial: Polynomial) -> Result<DimId, BuildError> {
        while let Some((term, replacement)) = self.find_undone_division(&polynomial)? {
            polynomial = polynomial
                .add_scaled(&Polynomial::term(term.factors, term.coefficient), -1)?
                .add(&replacement)?;
            if polynomial.terms.len() > self.limits.max_terms {
                return Err(BuildError::TooLarge);
            }
        }
        self.intern(polynomial)
    }

    pub(crate) fn multiply(
        &self,
        a: &Polynomial,
        b: &Polynomial,
    ) -> Result<Polynomial, crate::polynomial::ArithmeticFault> {
        a.mul(b, self.limits.max_terms, self.limits.max_degree)
    }

    /// Runs `f`; if the result is too large, retries with symbols in place of the operands.
    pub(super) fn build(
        &mut self,
        operands: &[DimId],
        separator: &str,
        f: impl Fn(&mut Self, &[DimId]) -> Result<DimId, BuildError>,
    ) -> Result<DimId, DimError> {
        let mut result = f(self, operands);
        if matches!(result, Err(BuildError::TooLarge)) {
            let small: Vec<DimId> = operands.iter().map(|&dim| self.shorten(dim)).collect();
            result = f(self, &small);
        }
        result.map_err(|error| match error {
            BuildError::Dim(error) => error,
            BuildError::Overflow => DimError::Overflow {
                expression: self.join(operands, separator),
            },
            BuildError::TooLarge => DimError::Limit {
                what: "operands of one expression",
                given: operands.len() as u64,
                limit: self.limits.max_terms as u64,
            },
        })
    }

    /// `dim` itself when it is a constant or a symbol, otherwise a symbol that represents it.
    fn shorten(&mut self, dim: DimId) -> DimId {
        if self.as_constant(dim).is_some() || self.as_symbol(dim).is_some() {
            dim
        } else {
            self.wrap(dim)
        }
    }

    fn combine(
        &mut self,
        args: &[DimId],
        f: impl Fn(&Self, DimId, DimId) -> Result<Polynomial, BuildError>,
    ) -> Result<DimId, BuildError> {
        let &[a, b] = args else {
            unreachable!("called with two operands")
        };
        let polynomial = f(self, a, b)?;
        self.finish(polynomial)
    }

    fn find_undone_division(
        &mut self,
        polynomial: &Polynomial,
    ) -> Result<Option<(Term, Polynomial)>, BuildError> {
        for term in &polynomial.terms {
            let Some((place, dividend, divisor)) = self.undone_division(term) else {
                continue;
            };
            let rest = self.modulo_by_constant(dividend, divisor)?;
            let exact = self.polynomial(dividend).sub(self.polynomial(rest))?;
            let mut others = term.factors.clone();
            others.remove(place);
            return Ok(Some((
                term.clone(),
                exact.times_term(&others, term.coefficient / divisor)?,
            )));
        }
        Ok(None)
    }

    /// The division in a term that the term's coefficient cancels, by position, with its operands. If there are
    /// several, the first by text, so that the normal form does not depend on the order in which divisions were added
    /// to the table.
    fn undone_division(&self, term: &Term) -> Option<(usize, DimId, i64)> {
        let division = |(place, &factor): (usize, &AtomId)| {
            let Atom::FloorDiv(dividend, divisor) = self.atom(factor).atom else {
                return None;
            };
            let divisor = self.as_constant(divisor)?;
            (term.coefficient % divisor == 0).then_some((place, dividend, divisor))
        };
        let mut divisions = term.factors.iter().enumerate().filter_map(division);
        let first = divisions.next()?;
        let rest: Vec<_> = divisions.collect();
        if rest.is_empty() {
            return Some(first);
        }
        let text = |&(place, ..): &(usize, DimId, i64)| {
            let atom = term.factors.get(place).map(|&atom| self.atom(atom).dim);
            atom.map(|dim| self.display(dim).to_string())
        };
        std::iter::once(first).chain(rest).min_by_key(text)
    }
}
