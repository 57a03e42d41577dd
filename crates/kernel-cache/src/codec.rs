//! Conversion between values and bytes, between the in-memory cache and its tiers.

use crate::payload::{Content, Payload};

/// Encodes and decodes the values of a cache.
pub trait Codec<V>: Send + Sync {
    /// The bytes of a value.
    ///
    /// # Errors
    /// The reason; the value is then kept only in memory, and counted.
    fn encode(&self, value: &V) -> Result<Payload, String>;

    /// The value of checked content that `encode` once returned. If safety depends on that, check that it [is
    /// code](Content::is_code): any safe type may implement a tier.
    ///
    /// # Errors
    /// The reason; the entry is removed, and the value compiled.
    fn decode(&self, content: Content<'_>) -> Result<V, String>;

    /// The memory that a value takes.
    fn bytes(&self, value: &V) -> usize;
}

/// Values that are bytes: data, never code.
#[derive(Clone, Copy, Debug, Default)]
pub struct BytesCodec;

impl Codec<Vec<u8>> for BytesCodec {
    fn encode(&self, value: &Vec<u8>) -> Result<Payload, String> {
        Ok(Payload::data(value.clone()))
    }

    fn decode(&self, content: Content<'_>) -> Result<Vec<u8>, String> {
        Ok(content.to_vec())
    }

    fn bytes(&self, value: &Vec<u8>) -> usize {
        value.len()
    }
}
