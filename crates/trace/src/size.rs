//! Sizes of variables: known sizes, or symbols that support arithmetic.

use crate::error::{CallSite, TraceError};
use crate::recorder::Recorder;
use kiln_symbolic_shape::{DimError, DimId, DimTable};
use std::ops::{Add, Div, Mul, Rem, Sub};
use std::panic::Location;

/// A size: a number, or an expression of the sizes of arguments, for reshapes, slices and
/// broadcasts.
///
/// ```
/// # use kiln_tensor::DType;
/// # use kiln_trace::{ArgumentType, Size, Var, trace};
/// let halves = |x: Var| {
///     let half = x.size(0) / 2;
///     x.slice(0, 0, half.clone()) + x.slice(0, half.clone(), half * 2)
/// };
/// let graph = trace("halves", &halves, &[ArgumentType::new(DType::F32, 1)])?;
/// assert_eq!(graph.ops().count(), 3);
/// # Ok::<(), kiln_trace::TraceError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Size(Kind);

#[derive(Clone, Debug)]
enum Kind {
    Known(i64),
    Infer,
    Symbolic(Recorder, DimId),
    /// Not a size: an error wherever it is used.
    Invalid(DimError),
    /// A size of a recording that failed.
    Nothing,
}

impl Size {
    /// In a reshape, the size that is inferred from the number of elements.
    pub const INFER: Size = Size(Kind::Infer);

    pub(crate) fn symbolic(recorder: &Recorder, dim: Option<DimId>) -> Self {
        Self(match dim {
            Some(dim) => Kind::Symbolic(recorder.clone(), dim),
            None => Kind::Nothing,
        })
    }

    /// The smaller of this and another size.
    #[must_use]
    #[track_caller]
    pub fn min(&self, other: impl Into<Size>) -> Size {
        let (size, other) = (self.clone(), other.into());
        size.combine(other, |a, b| Ok(a.min(b)), DimTable::min)
    }

    /// The larger of this and another size.
    #[must_use]
    #[track_caller]
    pub fn max(&self, other: impl Into<Size>) -> Size {
        let (size, other) = (self.clone(), other.into());
        size.combine(other, |a, b| Ok(a.max(b)), DimTable::max)
    }

    /// The number, if it is one.
    pub(crate) fn known(&self) -> Option<i64> {
        match self.0 {
            Kind::Known(size) => Some(size),
            _ => None,
        }
    }

    /// Its expression in a recording; `None` if it is to be inferred.
    #[track_caller]
    pub(crate) fn in_reshape(&self, recorder: &Recorder) -> Option<Option<DimId>> {
        match self.0 {
            Kind::Infer => Some(None),
            _ => self.dim(recorder).map(Some),
        }
    }

    /// Its expression in a recording.
    #[track_caller]
    pub(crate) fn dim(&self, recorder: &Recorder) -> Option<DimId> {
        let at = CallSite(Location::caller());
        match &self.0 {
            Kind::Known(size) => recorder.compute(|dims| Ok(dims.constant(*size))),
            Kind::Invalid(error) => recorder.compute(|_| Err(error.clone())),
            Kind::Symbolic(of, dim) if of.is(recorder) => Some(*dim),
            Kind::Symbolic(..) => {
                recorder.fail(TraceError::Foreign { at });
                None
            }
            Kind::Infer => {
                recorder.fail(TraceError::Inferred { at });
                None
            }
            Kind::Nothing => None,
        }
    }

    /// A size computed from two. Two numbers belong to no recording; their result is a number.
    #[track_caller]
    fn combine(
        self,
        other: Self,
        known: impl FnOnce(i64, i64) -> Result<i64, DimError>,
        symbolic: impl FnOnce(&mut DimTable, DimId, DimId) -> Result<DimId, DimError>,
    ) -> Self {
        let recorder = match (&self.0, &other.0) {
            (&Kind::Known(left), &Kind::Known(right)) => {
                return Self(known(left, right).map_or_else(Kind::Invalid, Kind::Known));
            }
            (Kind::Symbolic(recorder, _), _) | (_, Kind::Symbolic(recorder, _)) => recorder.clone(),
            (Kind::Invalid(error), Kind::Known(_) | Kind::Invalid(_))
            | (Kind::Known(_), Kind::Invalid(error)) => return Self(Kind::Invalid(error.clone())),
            _ => return Self(Kind::Nothing),
        };
        let dim = match (self.dim(&recorder), other.dim(&recorder)) {
            (Some(left), Some(right)) => recorder.compute(|dims| symbolic(dims, left, right)),
            _ => None,
        };
        Self::symbolic(&recorder, dim)
    }
}

impl From<i64> for Size {
    fn from(size: i64) -> Self {
        Self(Kind::Known(size))
    }
}

impl From<i32> for Size {
    fn from(size: i32) -> Self {
        Self(Kind::Known(size.into()))
    }
}

impl From<usize> for Size {
    /// A size beyond `i64` is invalid: using it is an error.
    fn from(size: usize) -> Self {
        Self(
            i64::try_from(size)
                .map_or_else(|_| Kind::Invalid(overflow(size.to_string())), Kind::Known),
        )
    }
}

impl From<&Size> for Size {
    fn from(size: &Size) -> Self {
        size.clone()
    }
}

macro_rules! arithmetic {
    ($($(#[$doc:meta])* $operator:ident, $method:ident, $known:expr, $symbolic:expr;)*) => {$(
        $(#[$doc])*
        impl<S: Into<Size>> $operator<S> for Size {
            type Output = Size;

            #[track_caller]
            fn $method(self, other: S) -> Size {
                self.combine(other.into(), $known, $symbolic)
            }
        }

        $(#[$doc])*
        impl<S: Into<Size>> $operator<S> for &Size {
            type Output = Size;

            #[track_caller]
            fn $method(self, other: S) -> Size {
                self.clone().combine(other.into(), $known, $symbolic)
            }
        }
    )*};
}

arithmetic! {
    /// The sum.
    Add, add, |a, b| fits(a, "+", b, a.checked_add(b)), DimTable::add;
    /// The difference.
    Sub, sub, |a, b| fits(a, "-", b, a.checked_sub(b)), DimTable::sub;
    /// The product.
    Mul, mul, |a, b| fits(a, "*", b, a.checked_mul(b)), DimTable::mul;
    /// The quotient, rounded down. The divisor must be positive.
    Div, div, quotient, DimTable::floor_div;
    /// The remainder of the quotient, at least 0. The divisor must be positive.
    Rem, rem, remainder, DimTable::modulo;
}

fn overflow(expression: String) -> DimError {
    DimError::Overflow { expression }
}

/// The result of an operation on numbers, or the error that it overflows.
fn fits(left: i64, operator: &str, right: i64, result: Option<i64>) -> Result<i64, DimError> {
    result.ok_or_else(|| overflow(format!("{left} {operator} {right}")))
}

fn quotient(dividend: i64, divisor: i64) -> Result<i64, DimError> {
    positive(divisor).map(|divisor| dividend.div_euclid(divisor))
}

fn remainder(dividend: i64, divisor: i64) -> Result<i64, DimError> {
    positive(divisor).map(|divisor| dividend.rem_euclid(divisor))
}

fn positive(divisor: i64) -> Result<i64, DimError> {
    match divisor > 0 {
        true => Ok(divisor),
        false => Err(DimError::DivisorNotPositive {
            divisor: divisor.to_string(),
        }),
    }
}
