//! Residue classes: what is known about a value modulo some number.
//!
//! `modulus == 0` means the value is exactly `residue`; `modulus == 1` means nothing is known. Otherwise the residue lies
//! in `0..modulus`. A class that does not fit becomes "nothing known".

use crate::DimRange;

/// The values congruent to `residue` modulo `modulus`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Congruence {
    pub(crate) modulus: i64,
    pub(crate) residue: i64,
}

impl Congruence {
    /// Every integer.
    pub(crate) const ANY: Congruence = Congruence {
        modulus: 1,
        residue: 0,
    };

    /// Exactly `value`.
    pub(crate) fn exactly(value: i64) -> Self {
        Congruence {
            modulus: 0,
            residue: value,
        }
    }

    /// Congruent to `residue` modulo `modulus`, which is positive.
    pub(crate) fn new(modulus: i64, residue: i64) -> Self {
        Congruence {
            modulus,
            residue: residue.rem_euclid(modulus.max(1)),
        }
    }

    /// Whether `value` is in the class.
    pub(crate) fn contains(&self, value: i64) -> bool {
        match self.modulus {
            0 => value == self.residue,
            m => value.rem_euclid(m) == self.residue,
        }
    }

    /// The largest divisor of `divisor` modulo which the residue is known, and that residue.
    pub(crate) fn common(&self, divisor: i64) -> (i64, i64) {
        let step = gcd(self.modulus, divisor).max(1);
        (step, self.residue.rem_euclid(step))
    }

    pub(crate) fn add(&self, other: &Congruence) -> Congruence {
        Self::reduced(
            i128::from(gcd(self.modulus, other.modulus)),
            i128::from(self.residue) + i128::from(other.residue),
        )
    }

    pub(crate) fn mul(&self, other: &Congruence) -> Congruence {
        let wide = |a: i64, b: i64| i128::from(a) * i128::from(b);
        let modulus = gcd_wide(
            wide(self.modulus, other.modulus),
            gcd_wide(
                wide(self.modulus, other.residue),
                wide(other.modulus, self.residue),
            ),
        );
        Self::reduced(modulus, wide(self.residue, other.residue))
    }

    /// The smallest class that contains both.
    pub(crate) fn join(&self, other: &Congruence) -> Congruence {
        let apart = i128::from(self.residue) - i128::from(other.residue);
        let modulus = gcd_wide(i128::from(gcd(self.modulus, other.modulus)), apart);
        Self::reduced(modulus, i128::from(self.residue))
    }

    /// The intersection of both; `None` when it is empty. Keeps the first when the exact one is too large.
    pub(crate) fn intersect(&self, other: &Congruence) -> Option<Congruence> {
        if self.modulus == 0 {
            return other.contains(self.residue).then_some(*self);
        }
        if other.modulus == 0 {
            return self.contains(other.residue).then_some(*other);
        }
        // The usual case, in which nothing is known about one of them, avoids 128-bit arithmetic.
        if other.modulus == 1 {
            return Some(*self);
        }
        if self.modulus == 1 {
            return Some(*other);
        }
        let step = gcd(self.modulus, other.modulus);
        if self.residue.rem_euclid(step) != other.residue.rem_euclid(step) {
            return None;
        }
        // The Chinese remainder theorem: residue + modulus * k, with k found by the inverse modulo other.modulus / step.
        let reduced = i128::from(other.modulus / step);
        let inverse = inverse_modulo(i128::from(self.modulus / step), reduced);
        let apart = (i128::from(other.residue) - i128::from(self.residue)) / i128::from(step);
        let k = (apart.rem_euclid(reduced) * inverse).rem_euclid(reduced);
        let modulus = i128::from(self.modulus) * reduced;
        let residue = i128::from(self.residue) + i128::from(self.modulus) * k;
        let exact = i64::try_from(modulus).ok().zip(i64::try_from(residue).ok());
        Some(exact.map_or(*self, |(modulus, residue)| {
            Congruence::new(modulus, residue)
        }))
    }

    /// `range` with its ends moved inwards to members of the class.
    pub(crate) fn tighten(&self, range: &DimRange) -> DimRange {
        match self.modulus {
            0 => range.intersect(&DimRange::point(self.residue)),
            1 => *range,
            m => {
                let gap = |value: i64| {
                    (i128::from(self.residue) - i128::from(value)).rem_euclid(i128::from(m))
                };
                let up = |v: i64| i64::try_from(i128::from(v) + gap(v)).unwrap_or(v);
                let down = |v: i64| match gap(v) {
                    0 => v,
                    gap => i64::try_from(i128::from(v) + gap - i128::from(m)).unwrap_or(v),
                };
                DimRange {
                    min: range.min.map(up),
                    max: range.max.map(down),
                }
            }
        }
    }

    /// The inverse of `value` modulo `modulus`, which is positive; `None` if they have a common factor.
    pub(crate) fn inverse(value: i64, modulus: i64) -> Option<i64> {
        if gcd(value, modulus) != 1 {
            return None;
        }
        let value = i128::from(value).rem_euclid(i128::from(modulus));
        i64::try_from(inverse_modulo(value, i128::from(modulus))).ok()
    }

    fn reduced(modulus: i128, residue: i128) -> Congruence {
        let residue = if modulus == 0 {
            residue
        } else {
            residue.rem_euclid(modulus)
        };
        match (i64::try_from(modulus), i64::try_from(residue)) {
            (Ok(modulus), Ok(residue)) => Congruence { modulus, residue },
            _ => Congruence::ANY,
        }
    }
}

/// The non-negative greatest common divisor; `gcd(0, a) == |a|` if that fits, otherwise 1.
pub(crate) fn gcd(a: i64, b: i64) -> i64 {
    i64::try_from(gcd_wide(i128::from(a), i128::from(b))).unwrap_or(1)
}

fn gcd_wide(mut a: i128, mut b: i128) -> i128 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a.abs()
}

/// The inverse of `value` modulo `modulus`; both are positive and have no common factor.
fn inverse_modulo(value: i128, modulus: i128) -> i128 {
    let (mut old_r, mut r) = (value, modulus);
    let (mut old_s, mut s) = (1_i128, 0_i128);
    while r != 0 {
        let quotient = old_r / r;
        (old_r, r) = (r, old_r - quotient * r);
        (old_s, s) = (s, old_s - quotient * s);
    }
    old_s.rem_euclid(modulus)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn classes() -> Vec<Congruence> {
        let exact = (-3..=3).map(Congruence::exactly);
        exact
            .chain((1..=6).flat_map(|m| (0..m).map(move |r| Congruence::new(m, r))))
            .collect()
    }

    #[test]
    fn operations_are_sound() {
        for a in classes() {
            for b in classes() {
                let both = a.intersect(&b);
                for x in -12..=12 {
                    let inside = a.contains(x) && b.contains(x);
                    assert_eq!(
                        both.is_some_and(|c| c.contains(x)),
                        inside,
                        "{a:?} {b:?} {x}"
                    );
                    if !a.contains(x) {
                        continue;
                    }
                    for y in (-12..=12).filter(|&y| b.contains(y)) {
                        assert!(a.add(&b).contains(x + y), "{a:?} + {b:?}");
                        assert!(a.mul(&b).contains(x * y), "{a:?} * {b:?}");
                        assert!(
                            a.join(&b).contains(x) && a.join(&b).contains(y),
                            "{a:?} | {b:?}"
                        );
                    }
                }
            }
        }
    }

    #[test]
    fn tighten_keeps_every_member() {
        for a in classes() {
            for min in -7..=7 {
                let range = DimRange::new(min, min + 9);
                let tight = a.tighten(&range);
                for x in -20..=20 {
                    assert_eq!(
                        tight.contains(x) && a.contains(x),
                        range.contains(x) && a.contains(x)
                    );
                }
            }
        }
    }

    #[test]
    fn large_classes_do_not_overflow() {
        let big = Congruence::new(i64::MAX, i64::MAX - 1);
        let other = Congruence::new(i64::MAX - 1, 3);
        assert!(big.mul(&other).modulus >= 1);
        assert!(big.add(&big).contains(-2));
        assert!(big.intersect(&other).is_some());
        assert!(
            Congruence::exactly(i64::MIN)
                .mul(&Congruence::exactly(-1))
                .modulus
                >= 0
        );
    }
}
