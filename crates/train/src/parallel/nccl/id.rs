//! The id of a group of ranks: bytes that NCCL makes, and their text.

use super::super::CollectiveError;
use std::fmt;
use std::str::FromStr;

/// The number of bytes of an id.
pub(super) const BYTES: usize = 128;

/// What the ranks of one group have in common, as bytes, or as text: hexadecimal, for a variable or a file.
///
/// It contains an address of rank 0, which the other ranks connect to. Anyone who has it can join.
///
/// ```
/// use kiln_train::parallel::nccl::UniqueId;
///
/// let id = UniqueId::from_bytes([7; 128]);
/// assert_eq!(id.to_string().parse(), Ok(id));
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct UniqueId([u8; BYTES]);

impl UniqueId {
    /// The id with these bytes.
    pub const fn from_bytes(bytes: [u8; BYTES]) -> Self {
        Self(bytes)
    }

    /// The bytes.
    pub const fn as_bytes(&self) -> &[u8; BYTES] {
        &self.0
    }
}

impl fmt::Display for UniqueId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for UniqueId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("UniqueId(..)")
    }
}

impl FromStr for UniqueId {
    type Err = CollectiveError;

    fn from_str(text: &str) -> Result<Self, CollectiveError> {
        let digits: Option<Vec<u8>> = text
            .chars()
            .map(|digit| u8::try_from(digit.to_digit(16)?).ok())
            .collect();
        let digits = digits.filter(|digits| digits.len() == 2 * BYTES);
        let Some(digits) = digits else {
            return Err(CollectiveError::new(format!(
                "expected an id of {} hexadecimal digits, found {} characters",
                2 * BYTES,
                text.chars().count()
            )));
        };
        let mut bytes = [0; BYTES];
        for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
            *byte = pair.iter().fold(0, |byte, digit| byte << 4 | digit);
        }
        Ok(Self(bytes))
    }
}
