//! A user's constraint on one of a model's dimensions.
//!
//! A [`Dim`] has no name: it is checked when it is applied to a symbol of the model. It becomes a [`SymbolicDimension`],
//! which holds the arithmetic.

use crate::error::{Error, Failure};
use kiln_symbolic_shape::{DimError, SymbolicDimension};
use std::ops::{Bound, RangeBounds};
use std::str::FromStr;

/// A constraint on a dimension: a range, a multiple, a fixed value, a likely value.
///
/// A range, a multiple and a fixed value are part of the contract: a call that violates them is an
/// error. A likely value only helps speed.
///
/// The text form, for command lines, includes both ends of a range: `1..512`, `8`, `%8`, `1..512 % 8`, `1..`, and
/// `~128` at the end for a likely value.
///
/// ```
/// use kiln::Dim;
///
/// let seq = Dim::range(1..=512).multiple_of(8).likely(128);
/// assert_eq!("1..512 % 8 ~ 128".parse::<Dim>()?, seq);
/// assert_eq!("3".parse::<Dim>()?, Dim::fixed(3));
/// # Ok::<(), kiln::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Dim {
    min: i64,
    max: Option<i64>,
    multiple: i64,
    likely: Option<i64>,
}

impl Dim {
    /// Any size.
    pub fn any() -> Self {
        Self {
            min: 0,
            max: None,
            multiple: 1,
            likely: None,
        }
    }

    /// A size in `sizes`.
    pub fn range(sizes: impl RangeBounds<i64>) -> Self {
        let min = match sizes.start_bound() {
            Bound::Included(&min) => min,
            Bound::Excluded(&below) => below.saturating_add(1),
            Bound::Unbounded => 0,
        };
        let max = match sizes.end_bound() {
            Bound::Included(&max) => Some(max),
            Bound::Excluded(&above) => Some(above.saturating_sub(1)),
            Bound::Unbounded => None,
        };
        Self {
            min,
            max,
            ..Self::any()
        }
    }

    /// This size and no other.
    pub fn fixed(size: i64) -> Self {
        Self::range(size..=size)
    }

    /// Only multiples of `divisor`.
    #[must_use]
    pub fn multiple_of(self, divisor: i64) -> Self {
        Self {
            multiple: divisor,
            ..self
        }
    }

    /// A size that is frequent; it may affect speed but never results.
    #[must_use]
    pub fn likely(self, size: i64) -> Self {
        Self {
            likely: Some(size),
            ..self
        }
    }

    /// The dimension with this constraint and name.
    ///
    /// # Errors
    /// When no size satisfies it.
    pub(crate) fn symbolic(self, name: &str) -> Result<SymbolicDimension, DimError> {
        let dimension = SymbolicDimension::named(name)
            .with_constraints(self.min, self.max)?
            .multiple_of(self.multiple)?;
        Ok(match self.likely {
            Some(size) => dimension.likely(size),
            None => dimension,
        })
    }
}

impl FromStr for Dim {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        parse(text).ok_or_else(|| {
            Failure::DimText {
                text: text.escape_debug().to_string(),
            }
            .into()
        })
    }
}

fn parse(text: &str) -> Option<Dim> {
    let (text, likely) = split_number(text, '~')?;
    let (range, multiple) = split_number(text, '%')?;
    let range = range.trim();
    let dim = match range.split_once("..") {
        None if range.is_empty() && (multiple.is_some() || likely.is_some()) => Dim::any(),
        None => Dim::fixed(range.parse().ok()?),
        Some((min, max)) => {
            let end = |text: &str| match text.trim() {
                "" => Some(None),
                number => number.parse().ok().map(Some),
            };
            Dim {
                min: end(min)?.unwrap_or(0),
                max: end(max)?,
                ..Dim::any()
            }
        }
    };
    Some(Dim {
        multiple: multiple.unwrap_or(1),
        likely,
        ..dim
    })
}

/// The text before `mark`, and the number after it, if any.
fn split_number(text: &str, mark: char) -> Option<(&str, Option<i64>)> {
    match text.split_once(mark) {
        None => Some((text, None)),
        Some((before, number)) => Some((before, Some(number.trim().parse().ok()?))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_parse_to_what_the_builder_makes() {
        let cases = [
            ("8", Dim::fixed(8)),
            ("1..512", Dim::range(1..=512)),
            ("..512", Dim::range(..=512)),
            ("2..", Dim::range(2..)),
            ("%8", Dim::any().multiple_of(8)),
            ("~7", Dim::any().likely(7)),
            (
                " 1 .. 9 % 3 ~ 6 ",
                Dim::range(1..10).multiple_of(3).likely(6),
            ),
        ];
        for (text, expected) in cases {
            assert_eq!(text.parse::<Dim>().unwrap(), expected, "{text}");
        }
    }

    #[test]
    fn malformed_texts_are_errors_that_show_the_form() {
        for text in [
            "",
            "x",
            "1...3",
            "8%",
            "1..2..3",
            "99999999999999999999",
            "\u{1b}",
        ] {
            assert_eq!(text.parse::<Dim>().unwrap_err().code(), "E0975", "{text}");
        }
    }

    #[test]
    fn an_impossible_dimension_is_refused_when_it_is_named() {
        assert!(Dim::range(1..=7).multiple_of(8).symbolic("N").is_err());
        assert!(Dim::any().multiple_of(0).symbolic("N").is_err());
        assert_eq!(
            Dim::range(1..=9)
                .multiple_of(4)
                .symbolic("N")
                .unwrap()
                .max(),
            Some(8)
        );
    }
}
