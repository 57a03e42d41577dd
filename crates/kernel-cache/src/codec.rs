//! Values to bytes and back: what stands between the memory of a cache and its tiers.

/// How values of a cache become bytes that outlive the process.
pub trait Codec<V>: Send + Sync {
    /// The bytes of a value.
    ///
    /// # Errors
    /// Why it has none; it is then kept in memory alone, and counted.
    fn encode(&self, value: &V) -> Result<Vec<u8>, String>;

    /// A value of bytes that a tier has checked: they are what `encode` gave once.
    ///
    /// # Errors
    /// Why they give none; the entry is removed, and the value compiled.
    fn decode(&self, bytes: &[u8]) -> Result<V, String>;

    /// The memory that a value takes.
    fn bytes(&self, value: &V) -> usize;
}

/// Values that are bytes.
#[derive(Clone, Copy, Debug, Default)]
pub struct BytesCodec;

impl Codec<Vec<u8>> for BytesCodec {
    fn encode(&self, value: &Vec<u8>) -> Result<Vec<u8>, String> {
        Ok(value.clone())
    }

    fn decode(&self, bytes: &[u8]) -> Result<Vec<u8>, String> {
        Ok(bytes.to_vec())
    }

    fn bytes(&self, value: &Vec<u8>) -> usize {
        value.len()
    }
}
