//! A dimension at the API boundary: a name, bounds, a multiple, a likely value, or a known size.
//!
//! Immutable and cheap to clone. It belongs to no table; [`DimTable::declare`](crate::DimTable::declare) turns it into a symbol.
//! A dimension that [`SymbolicDimension`]'s factories return always allows at least one size.

use std::fmt;
use std::ops::{Bound, RangeBounds};
use std::sync::Arc;

use crate::DimError;
use crate::congruence::{Congruence, gcd};
use crate::range::DimRange;

/// One dimension of a [`SymbolicShape`](crate::SymbolicShape): a known size, or a name for a size that varies.
///
/// ```
/// # fn main() -> Result<(), kiln_symbolic_shape::DimError> {
/// use kiln_symbolic_shape::SymbolicDimension;
/// let seq = SymbolicDimension::range("seq", 1..=512)?.multiple_of(8)?.likely(128);
/// assert_eq!((seq.min(), seq.max()), (8, Some(512)));
/// assert_eq!(SymbolicDimension::known(384).to_string(), "384");
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SymbolicDimension {
    name: Arc<str>,
    min: i64,
    max: Option<i64>,
    multiple: i64,
    likely: Option<i64>,
}

impl SymbolicDimension {
    /// A size that is 0 or more.
    pub fn named(name: impl Into<Arc<str>>) -> Self {
        SymbolicDimension {
            name: name.into(),
            min: 0,
            max: None,
            multiple: 1,
            likely: None,
        }
    }

    /// A size from 0 to `max`, inclusive.
    pub fn bounded(name: impl Into<Arc<str>>, max: i64) -> Result<Self, DimError> {
        Self::named(name).with_constraints(0, Some(max))
    }

    /// A size in `range`; a missing lower end is 0. A negative lower end makes a symbol that carries data, not a size.
    pub fn range(
        name: impl Into<Arc<str>>,
        range: impl RangeBounds<i64>,
    ) -> Result<Self, DimError> {
        let min = match range.start_bound() {
            Bound::Included(&min) => min,
            Bound::Excluded(&below) => below.saturating_add(1),
            Bound::Unbounded => 0,
        };
        let max = match range.end_bound() {
            Bound::Included(&max) => Some(max),
            Bound::Excluded(&above) => Some(above.saturating_sub(1)),
            Bound::Unbounded => None,
        };
        Self::named(name).with_constraints(min, max)
    }

    /// Any integer: a symbol that carries data, such as the start of a slice.
    pub fn integer(name: impl Into<Arc<str>>) -> Self {
        SymbolicDimension {
            min: i64::MIN,
            ..Self::named(name)
        }
    }

    /// A size known to be `value`; it has no name.
    pub fn known(value: i64) -> Self {
        SymbolicDimension {
            min: value,
            max: Some(value),
            ..Self::named("")
        }
    }

    /// This dimension with other bounds, inclusive.
    pub fn with_constraints(self, min: i64, max: Option<i64>) -> Result<Self, DimError> {
        SymbolicDimension { min, max, ..self }.tightened()
    }

    /// This dimension restricted to multiples of `divisor`, which is positive.
    pub fn multiple_of(self, divisor: i64) -> Result<Self, DimError> {
        if divisor < 1 {
            return Err(DimError::DivisorNotPositive {
                divisor: divisor.to_string(),
            });
        }
        let multiple = (self.multiple / gcd(self.multiple, divisor).max(1)).checked_mul(divisor);
        let multiple = multiple.ok_or_else(|| DimError::Overflow {
            expression: format!("lcm({}, {divisor})", self.multiple),
        })?;
        SymbolicDimension { multiple, ..self }.tightened()
    }

    /// This dimension with a likely value. It may affect speed, never meaning.
    pub fn likely(self, value: i64) -> Self {
        SymbolicDimension {
            likely: Some(value),
            ..self
        }
    }

    /// This dimension with the name `name`.
    pub fn renamed(self, name: impl Into<Arc<str>>) -> Self {
        SymbolicDimension {
            name: name.into(),
            ..self
        }
    }

    /// This dimension narrowed to the sizes that `other` allows too. Name and likely value are kept, unless only `other`
    /// has one.
    pub fn narrowed_by(self, other: &SymbolicDimension) -> Result<Self, DimError> {
        let bounds = self.bounds().intersect(&other.bounds());
        let likely = self.likely.or(other.likely);
        let name = if self.name.is_empty() {
            other.name.clone()
        } else {
            self.name.clone()
        };
        let narrowed = SymbolicDimension {
            name,
            min: bounds.min.unwrap_or(i64::MIN),
            max: bounds.max,
            likely,
            ..self
        };
        narrowed.multiple_of(other.multiple)
    }

    /// The name; empty for a known size without one.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The name, shared.
    pub(crate) fn shared_name(&self) -> &Arc<str> {
        &self.name
    }

    /// The size, when only one is possible.
    pub fn value(&self) -> Option<i64> {
        self.max.filter(|&max| max == self.min)
    }

    /// The minimum size.
    pub fn min(&self) -> i64 {
        self.min
    }

    /// The maximum size, or `None`.
    pub fn max(&self) -> Option<i64> {
        self.max
    }

    /// Every size is a multiple of this; 1 when nothing is known.
    pub fn multiple(&self) -> i64 {
        self.multiple
    }

    /// The likely value, if one was given.
    pub fn likely_value(&self) -> Option<i64> {
        self.likely
    }

    /// Whether only one size is possible.
    pub fn is_known(&self) -> bool {
        self.value().is_some()
    }

    /// Whether there is a maximum size.
    pub fn is_bounded(&self) -> bool {
        self.max.is_some()
    }

    /// Whether `size` satisfies the bounds and the multiple.
    pub fn allows(&self, size: i64) -> bool {
        self.bounds().contains(size) && self.residues().contains(size)
    }

    /// The bounds as a range; open below when every negative number is allowed.
    pub fn bounds(&self) -> DimRange {
        DimRange {
            min: (self.min != i64::MIN).then_some(self.min),
            max: self.max,
        }
    }

    /// The bounds and the multiple in words, for messages.
    pub(crate) fn requirement(&self) -> String {
        match self.multiple {
            1 => self.bounds().to_string(),
            multiple => format!("{} in multiples of {multiple}", self.bounds()),
        }
    }

    pub(crate) fn residues(&self) -> Congruence {
        self.value()
            .map_or(Congruence::new(self.multiple, 0), Congruence::exactly)
    }

    fn tightened(self) -> Result<Self, DimError> {
        let bounds = Congruence::new(self.multiple, 0).tighten(&self.bounds());
        if bounds.is_empty() {
            let name = if self.name.is_empty() {
                "a size".to_string()
            } else {
                self.name.escape_debug().to_string()
            };
            return Err(DimError::EmptyRange {
                name,
                found: format!("{} in multiples of {}", self.bounds(), self.multiple),
            });
        }
        Ok(SymbolicDimension {
            min: bounds.min.unwrap_or(i64::MIN),
            max: bounds.max,
            ..self
        })
    }
}

impl fmt::Display for SymbolicDimension {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.value() {
            Some(value) => write!(f, "{value}"),
            None => write!(f, "{}", self.name.escape_debug()),
        }
    }
}

impl From<i64> for SymbolicDimension {
    fn from(value: i64) -> Self {
        SymbolicDimension::known(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dimension_constructors_state_what_they_allow() {
        let named = SymbolicDimension::named("B");
        assert!(!named.is_known() && !named.is_bounded() && named.allows(0) && !named.allows(-1));
        let bounded = SymbolicDimension::bounded("B", 4).unwrap();
        assert!(bounded.is_bounded() && bounded.allows(4) && !bounded.allows(5));
        let range = SymbolicDimension::range("B", 2..5).unwrap();
        assert_eq!((range.min(), range.max()), (2, Some(4)));
        assert!(SymbolicDimension::integer("start").allows(i64::MIN));
        assert_eq!(SymbolicDimension::known(7).value(), Some(7));
    }

    #[test]
    fn impossible_constraints_are_rejected() {
        assert_eq!(
            SymbolicDimension::range("B", 5..5).unwrap_err().code(),
            "E0307"
        );
        assert_eq!(
            SymbolicDimension::range("B", 1..=7)
                .unwrap()
                .multiple_of(8)
                .unwrap_err()
                .code(),
            "E0307"
        );
        assert_eq!(
            SymbolicDimension::named("B")
                .multiple_of(0)
                .unwrap_err()
                .code(),
            "E0303"
        );
        let huge = SymbolicDimension::named("B").multiple_of(i64::MAX).unwrap();
        assert_eq!(huge.multiple_of(i64::MAX - 1).unwrap_err().code(), "E0301");
    }

    #[test]
    fn narrowing_intersects_both_dimensions() {
        let a = SymbolicDimension::range("a", 1..=100)
            .unwrap()
            .multiple_of(4)
            .unwrap();
        let b = SymbolicDimension::range("b", 10..)
            .unwrap()
            .multiple_of(6)
            .unwrap()
            .likely(24);
        let both = a.clone().narrowed_by(&b).unwrap();
        assert_eq!(
            (
                both.name(),
                both.min(),
                both.max(),
                both.multiple(),
                both.likely_value()
            ),
            ("a", 12, Some(96), 12, Some(24))
        );
        assert!(a.narrowed_by(&SymbolicDimension::known(6)).is_err());
    }

    #[test]
    fn names_are_escaped_when_printed() {
        assert_eq!(
            SymbolicDimension::named("a\u{1b}[2J").to_string(),
            "a\\u{1b}[2J"
        );
    }
}
