//! Closed integer intervals, possibly unbounded, and interval arithmetic on them.
//!
//! Every operation is sound: the result contains every value that operands inside their ranges can produce. A bound that
//! does not fit into an `i64` becomes an open end.

use std::fmt;

/// The values a size can take: from `min` to `max`, inclusive; `None` is an open end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct DimRange {
    /// The minimum, or `None`.
    pub min: Option<i64>,
    /// The maximum, or `None`.
    pub max: Option<i64>,
}

impl DimRange {
    /// Every integer.
    pub const FULL: DimRange = DimRange {
        min: None,
        max: None,
    };
    /// Every size: 0 and above.
    pub const SIZE: DimRange = DimRange {
        min: Some(0),
        max: None,
    };

    /// Exactly `value`.
    pub fn point(value: i64) -> Self {
        DimRange {
            min: Some(value),
            max: Some(value),
        }
    }

    /// From `min` to `max`, inclusive.
    pub fn new(min: i64, max: i64) -> Self {
        DimRange {
            min: Some(min),
            max: Some(max),
        }
    }

    /// The only value, when there is exactly one.
    pub fn as_point(&self) -> Option<i64> {
        self.min.filter(|_| self.min == self.max)
    }

    /// Whether `value` is in the range.
    pub fn contains(&self, value: i64) -> bool {
        self.min.is_none_or(|min| min <= value) && self.max.is_none_or(|max| value <= max)
    }

    /// Whether the range is empty.
    pub fn is_empty(&self) -> bool {
        matches!((self.min, self.max), (Some(min), Some(max)) if min > max)
    }

    /// Whether every value is at least `bound`.
    pub fn at_least(&self, bound: i64) -> bool {
        self.min.is_some_and(|min| min >= bound)
    }

    /// Whether every value is at most `bound`.
    pub fn at_most(&self, bound: i64) -> bool {
        self.max.is_some_and(|max| max <= bound)
    }

    /// The intersection of both.
    pub fn intersect(&self, other: &DimRange) -> DimRange {
        DimRange {
            min: self.min.max(other.min),
            max: match (self.max, other.max) {
                (Some(a), Some(b)) => Some(a.min(b)),
                (a, b) => a.or(b),
            },
        }
    }

    /// The smallest range that contains both.
    pub fn hull(&self, other: &DimRange) -> DimRange {
        let ends = |a: Option<i64>, b: Option<i64>, pick: fn(i64, i64) -> i64| Some(pick(a?, b?));
        DimRange {
            min: ends(self.min, other.min, i64::min),
            max: ends(self.max, other.max, i64::max),
        }
    }

    /// The range of the smaller of two values.
    pub(crate) fn min(&self, other: &DimRange) -> DimRange {
        DimRange {
            min: self.min.zip(other.min).map(|(a, b)| a.min(b)),
            max: match (self.max, other.max) {
                (Some(a), Some(b)) => Some(a.min(b)),
                (a, b) => a.or(b),
            },
        }
    }

    /// The range of the larger of two values.
    pub(crate) fn max(&self, other: &DimRange) -> DimRange {
        DimRange {
            min: self.min.max(other.min),
            max: self.max.zip(other.max).map(|(a, b)| a.max(b)),
        }
    }

    /// The range of a sum.
    pub(crate) fn add(&self, other: &DimRange) -> DimRange {
        DimRange {
            min: self.min.zip(other.min).and_then(|(a, b)| a.checked_add(b)),
            max: self.max.zip(other.max).and_then(|(a, b)| a.checked_add(b)),
        }
    }

    /// The range of a product.
    pub(crate) fn mul(&self, other: &DimRange) -> DimRange {
        let (a, b) = (self.ends(), other.ends());
        let corners = [
            a.0.times(b.0),
            a.0.times(b.1),
            a.1.times(b.0),
            a.1.times(b.1),
        ];
        let low = corners.iter().min().copied().unwrap_or(End::Below);
        let high = corners.iter().max().copied().unwrap_or(End::Above);
        DimRange {
            min: low.finite(),
            max: high.finite(),
        }
    }

    /// The range of the `n`-th power.
    pub(crate) fn power(&self, n: usize) -> DimRange {
        let result = (1..n).fold(*self, |acc, _| acc.mul(self));
        if n.is_multiple_of(2) {
            result.intersect(&DimRange::SIZE)
        } else {
            result
        }
    }

    /// The range of `self / divisor` rounded down, where the divisor is positive.
    pub(crate) fn floor_div(&self, divisor: &DimRange) -> DimRange {
        let least = divisor.min.unwrap_or(1).max(1);
        let quotient = |value: i64, outward: bool| match (outward, divisor.max) {
            (true, _) => value.div_euclid(least),
            (false, Some(most)) => value.div_euclid(most.max(1)),
            (false, None) => {
                if value < 0 {
                    -1
                } else {
                    0
                }
            }
        };
        DimRange {
            min: self.min.map(|v| quotient(v, v < 0)),
            max: self.max.map(|v| quotient(v, v >= 0)),
        }
    }

    /// The range of `self mod divisor`, where the divisor is positive.
    pub(crate) fn modulo(&self, divisor: &DimRange) -> DimRange {
        let below = DimRange {
            min: Some(0),
            max: divisor.max.map(|d| d.max(1) - 1),
        };
        if self.at_least(0) {
            let unchanged = self.max.zip(divisor.min).is_some_and(|(a, d)| a < d);
            if unchanged {
                *self
            } else {
                below.intersect(&DimRange {
                    min: None,
                    max: self.max,
                })
            }
        } else {
            below
        }
    }

    fn ends(&self) -> (End, End) {
        (
            self.min.map_or(End::Below, |v| End::Finite(i128::from(v))),
            self.max.map_or(End::Above, |v| End::Finite(i128::from(v))),
        )
    }
}

impl fmt::Display for DimRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.min, self.max) {
            (Some(min), Some(max)) if min == max => write!(f, "{min}"),
            (Some(min), Some(max)) => write!(f, "{min}..={max}"),
            (Some(min), None) => write!(f, "{min}.."),
            (None, Some(max)) => write!(f, "..={max}"),
            (None, None) => f.write_str(".."),
        }
    }
}

/// An end of a range on the extended number line.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum End {
    Below,
    Finite(i128),
    Above,
}

impl End {
    fn times(self, other: End) -> End {
        match (self, other) {
            (End::Finite(0), _) | (_, End::Finite(0)) => End::Finite(0),
            // Both come from `i64`, so the product fits.
            (End::Finite(a), End::Finite(b)) => End::Finite(a * b),
            _ if self.is_negative() == other.is_negative() => End::Above,
            _ => End::Below,
        }
    }

    fn is_negative(self) -> bool {
        self < End::Finite(0)
    }

    fn finite(self) -> Option<i64> {
        match self {
            End::Finite(value) => i64::try_from(value).ok(),
            End::Below | End::Above => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all_ranges() -> Vec<DimRange> {
        let ends: Vec<Option<i64>> = [None].into_iter().chain((-3..=3).map(Some)).collect();
        let mut ranges = Vec::new();
        for &min in &ends {
            for &max in &ends {
                let range = DimRange { min, max };
                if !range.is_empty() {
                    ranges.push(range);
                }
            }
        }
        ranges
    }

    #[test]
    fn arithmetic_is_sound() {
        for a in all_ranges() {
            for b in all_ranges() {
                for x in (-5..=5).filter(|&x| a.contains(x)) {
                    for y in (-5..=5).filter(|&y| b.contains(y)) {
                        assert!(a.add(&b).contains(x + y), "{a} + {b}");
                        assert!(a.mul(&b).contains(x * y), "{a} * {b}");
                        assert!(a.min(&b).contains(x.min(y)), "min {a} {b}");
                        assert!(a.max(&b).contains(x.max(y)), "max {a} {b}");
                        assert!(a.hull(&b).contains(x) && a.hull(&b).contains(y));
                        assert!(a.power(2).contains(x * x) && a.power(3).contains(x * x * x));
                        assert_eq!(a.intersect(&b).contains(x), b.contains(x));
                        if y > 0 {
                            assert!(
                                a.floor_div(&b).contains(x.div_euclid(y)),
                                "{a} / {b}: {x} {y}"
                            );
                            assert!(a.modulo(&b).contains(x.rem_euclid(y)), "{a} % {b}: {x} {y}");
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn overflow_opens_the_end() {
        let huge = DimRange::point(i64::MAX);
        assert_eq!(huge.add(&huge), DimRange::FULL);
        assert_eq!(huge.mul(&huge).max, None);
        assert_eq!(
            DimRange::new(0, i64::MAX).mul(&DimRange::point(4)),
            DimRange::SIZE
        );
    }

    #[test]
    fn prints_like_a_rust_range() {
        let text: Vec<String> = [
            DimRange::FULL,
            DimRange::SIZE,
            DimRange::point(3),
            DimRange::new(1, 4),
            DimRange {
                min: None,
                max: Some(2),
            },
        ]
        .iter()
        .map(ToString::to_string)
        .collect();
        assert_eq!(text, ["..", "0..", "3", "1..=4", "..=2"]);
    }
}
