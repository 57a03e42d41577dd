//! Values to bytes and back: what stands between the memory of a cache and its tiers.

use crate::payload::{Content, Payload};

/// How values of a cache become bytes that outlive the process.
pub trait Codec<V>: Send + Sync {
    /// The bytes of a value.
    ///
    /// # Errors
    /// Why it has none; it is then kept in memory alone, and counted.
    fn encode(&self, value: &V) -> Result<Payload, String>;

    /// A value of a content that a tier has checked: it is what `encode` gave once. Where that matters for safety, ask whether
    /// it [is code](Content::is_code): a tier is any implementation of a safe trait.
    ///
    /// # Errors
    /// Why they give none; the entry is removed, and the value compiled.
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
