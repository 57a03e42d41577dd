//! Limits of reading a graph's text.
//!
//! The length is checked before a token is read; the sizes of the resulting graph have separate limits, those of its table
//! ([`DimLimits`]).

use kiln_symbolic_shape::DimLimits;
use kiln_symbolic_shape::text::{Diagnostic, Diagnostics};

/// Limits of reading a graph's text. Build one with [`TextLimits::default`] and change fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TextLimits {
    /// Bytes of the text; 256 MiB.
    pub bytes: u64,
    /// Bytes of the constants in the archive next to a text; 64 GiB. The reader of the archive checks them.
    pub constant_bytes: u64,
}

impl Default for TextLimits {
    fn default() -> Self {
        Self {
            bytes: 256 << 20,
            constant_bytes: 64 << 30,
        }
    }
}

/// All limits of a reader of texts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ReadLimits {
    /// Limits of the text.
    pub text: TextLimits,
    /// Limits of the graph's size table.
    pub dims: DimLimits,
}

impl ReadLimits {
    /// These limits.
    pub fn new(text: TextLimits, dims: DimLimits) -> Self {
        Self { text, dims }
    }
}

impl TextLimits {
    /// The code of a text that is longer than [`bytes`](Self::bytes).
    pub const TOO_LONG: &str = "E0134";

    /// Checks the length of a text.
    ///
    /// # Errors
    /// E0134 when `given` bytes are more than [`bytes`](Self::bytes).
    pub fn check_bytes(&self, given: u64) -> Result<(), Diagnostics> {
        if given <= self.bytes {
            return Ok(());
        }
        let limit = self.bytes;
        let message = format!(
            "expected a text of at most {limit} bytes, found {given}; raise the limit `text.bytes` if the source is trusted"
        );
        Err(Diagnostic::new(Self::TOO_LONG, message, None).into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::BlobMap;
    use crate::text::{AnnotatedTypes, read_within};

    const TEXT: &str = "graph @id(%x: f32[A, B, A * B + A]) -> f32[A, B, A * B + A] { return %x }";

    #[test]
    fn a_text_longer_than_its_limit_is_refused_with_both_numbers() {
        let mut limits = ReadLimits::default();
        limits.text.bytes = TEXT.len() as u64;
        read_within(TEXT, &BlobMap::new(), &mut AnnotatedTypes, &limits).unwrap();
        limits.text.bytes -= 1;
        let errors = read_within(TEXT, &BlobMap::new(), &mut AnnotatedTypes, &limits).unwrap_err();
        let error = errors.iter().next().unwrap();
        assert_eq!(error.code, "E0134");
        let (given, limit) = (TEXT.len(), TEXT.len() - 1);
        assert_eq!(
            error.message,
            format!(
                "expected a text of at most {limit} bytes, found {given}; raise the limit `text.bytes` if the source is trusted"
            )
        );
    }

    #[test]
    fn the_graph_of_a_text_has_a_table_with_the_limits_of_the_reader() {
        let mut limits = ReadLimits::default();
        limits.dims.prover_fuel = 7;
        let graph = read_within(TEXT, &BlobMap::new(), &mut AnnotatedTypes, &limits).unwrap();
        assert_eq!(graph.dims().limits().prover_fuel, 7);
        limits.dims.max_nodes = 2;
        read_within(TEXT, &BlobMap::new(), &mut AnnotatedTypes, &limits).unwrap_err();
    }
}
