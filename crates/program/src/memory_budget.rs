//! The limit on the memory of the values between steps.

use bytesize::ByteSize;
use std::str::FromStr;

/// How much memory the values between the steps of a program may take at a time, as far as they can be rematerialised
/// instead of being kept.
///
/// Budgets are compared with the bytes of live values at the likely values of sizes; the chosen rematerialisation is
/// correct for all sizes. A budget that cannot be met is approached as closely as possible.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[non_exhaustive]
pub enum MemoryBudget {
    /// As much as they need: nothing is rematerialised.
    #[default]
    Unlimited,
    /// This fraction of what they need without rematerialisation, from 0 to 1.
    Fraction(f64),
    /// This many bytes.
    Bytes(u64),
}

/// A text that is not a [`MemoryBudget`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected a part from 0% to 100%, or bytes such as 512MiB")]
pub struct UnknownMemoryBudget;

/// `50%` of what is needed without rematerialisation, or bytes: `512MiB`, `2 GB`, `65536`.
impl FromStr for MemoryBudget {
    type Err = UnknownMemoryBudget;

    fn from_str(text: &str) -> Result<Self, UnknownMemoryBudget> {
        let budget = match text.trim().strip_suffix('%') {
            Some(percent) => percent
                .trim()
                .parse()
                .ok()
                .map(|it: f64| Self::Fraction(it / 100.0)),
            None => text.parse().ok().map(|ByteSize(bytes)| Self::Bytes(bytes)),
        };
        budget
            .filter(|budget| budget.is_valid())
            .ok_or(UnknownMemoryBudget)
    }
}

impl MemoryBudget {
    /// The budget in bytes, for values that need `peak` without rematerialisation; `None` if that is within the budget.
    pub(crate) fn below(self, peak: u64) -> Option<u64> {
        let bytes = match self {
            Self::Unlimited => return None,
            Self::Bytes(bytes) => bytes,
            Self::Fraction(part) => (part.clamp(0.0, 1.0) * peak as f64) as u64,
        };
        (bytes < peak).then_some(bytes)
    }

    /// Whether it is a valid budget: a fraction from 0 to 1, or bytes.
    pub fn is_valid(self) -> bool {
        match self {
            Self::Fraction(part) => (0.0..=1.0).contains(&part),
            Self::Unlimited | Self::Bytes(_) => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn budgets_are_parts_or_bytes() {
        let read = |text: &str| text.parse::<MemoryBudget>();
        assert_eq!(read("50%"), Ok(MemoryBudget::Fraction(0.5)));
        assert_eq!(read(" 12.5 %"), Ok(MemoryBudget::Fraction(0.125)));
        assert_eq!(read("512MiB"), Ok(MemoryBudget::Bytes(512 << 20)));
        assert_eq!(read("65536"), Ok(MemoryBudget::Bytes(1 << 16)));
        for wrong in ["", "%", "101%", "-1%", "NaN%", "-5", "1 parsec"] {
            assert_eq!(read(wrong), Err(UnknownMemoryBudget), "{wrong}");
        }
    }
}
