//! The content of an entry: [`Payload`] owns it, [`Content`] borrows it.
//!
//! Code and data are different types. Invariants: only `unsafe` turns bytes into code, and code stays code on its way
//! through tiers; so content given to a codec as code came from an encoder that vouched for it, even through stores
//! written in safe Rust.
#![allow(
    unsafe_code,
    reason = "the constructors of code are unsafe: their callers promise what the bytes are"
)]

use std::ops::{Deref, Range};

use crate::key::CacheKey;
use crate::miss::NotStored;

/// The content of an entry, owned.
///
/// Safe code can make data from bytes, but not code:
///
/// ```compile_fail,E0133
/// fn plant(bytes: Vec<u8>) -> kiln_kernel_cache::Payload {
///     kiln_kernel_cache::Payload::code(bytes)
/// }
/// ```
#[derive(Clone, Debug)]
pub struct Payload {
    buffer: Vec<u8>,
    range: Range<usize>,
    is_code: bool,
}

/// The content of an entry, borrowed.
#[derive(Clone, Copy, Debug)]
pub struct Content<'a> {
    bytes: &'a [u8],
    is_code: bool,
}

impl Payload {
    /// Bytes that are parsed with checks and never run.
    pub fn data(bytes: impl Into<Vec<u8>>) -> Self {
        let buffer = bytes.into();
        let range = 0..buffer.len();
        Self::of_range(buffer, range)
    }

    /// Bytes that become code.
    ///
    /// # Safety
    /// The bytes are the unchanged output of the codec for a compiled artifact.
    pub unsafe fn code(bytes: impl Into<Vec<u8>>) -> Self {
        Self {
            is_code: true,
            ..Self::data(bytes)
        }
    }

    /// The bytes of a buffer within a range, as data.
    pub(crate) fn of_range(buffer: Vec<u8>, range: Range<usize>) -> Self {
        Self {
            buffer,
            range,
            is_code: false,
        }
    }

    /// The same bytes as code.
    ///
    /// # Safety
    /// As [`code`](Self::code).
    pub(crate) unsafe fn into_code(self) -> Self {
        Self {
            is_code: true,
            ..self
        }
    }

    /// The same, borrowed.
    pub fn content(&self) -> Content<'_> {
        Content {
            bytes: self,
            is_code: self.is_code,
        }
    }
}

impl Deref for Payload {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.buffer.get(self.range.clone()).unwrap_or_default()
    }
}

impl<'a> Content<'a> {
    /// Bytes that are parsed with checks and never run.
    pub fn data(bytes: &'a [u8]) -> Self {
        Self {
            bytes,
            is_code: false,
        }
    }

    /// The bytes.
    pub fn bytes(self) -> &'a [u8] {
        self.bytes
    }

    /// Whether an encoder vouched for the bytes as compiled code.
    pub fn is_code(self) -> bool {
        self.is_code
    }

    /// The bytes, to be stored such that they can be found again by a key: content under a key of code is read as code.
    pub(crate) fn for_key(self, key: &CacheKey) -> Result<&'a [u8], NotStored> {
        match key.kind().is_code() && !self.is_code {
            true => Err(NotStored::NotCode),
            false => Ok(self.bytes),
        }
    }

    /// The same, owned.
    pub fn to_payload(self) -> Payload {
        Payload {
            is_code: self.is_code,
            ..Payload::data(self.bytes)
        }
    }
}

impl Deref for Content<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.bytes
    }
}
