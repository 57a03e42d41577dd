//! The head of an entry as bytes: kind, compile time, fields. Each length precedes its content.

use std::time::Duration;

use crate::key::{CacheKey, FieldValue, KeyDigest, KeyField};

const TEXT: u8 = 0;
const DIGEST: u8 = 1;

/// The parsed head: kind, compile time, fields.
pub(super) type Parts = (String, Duration, Vec<KeyField>);

/// The bytes of a head.
pub(super) fn write(key: &CacheKey, compile_time: Duration) -> Vec<u8> {
    let mut head = Vec::new();
    let nanoseconds = u64::try_from(compile_time.as_nanos()).unwrap_or(u64::MAX);
    put_text(&mut head, key.kind().name());
    head.extend(nanoseconds.to_le_bytes());
    for KeyField { name, value } in key.fields() {
        put_text(&mut head, name);
        match value {
            FieldValue::Text(text) => {
                head.push(TEXT);
                put_text(&mut head, text);
            }
            FieldValue::Digest { bytes, digest } => {
                head.push(DIGEST);
                head.extend(bytes.to_le_bytes());
                head.extend(digest.as_bytes());
            }
        }
    }
    head
}

/// Parses the bytes of a head.
pub(super) fn read(head: &[u8]) -> Result<Parts, &'static str> {
    let mut reader = Reader(head);
    let kind = reader.text().ok_or("kind")?;
    let nanoseconds = reader.array().ok_or("compile time")?;
    let mut fields = Vec::new();
    while !reader.0.is_empty() {
        fields.push(reader.field().ok_or("field")?);
    }
    let compile_time = Duration::from_nanos(u64::from_le_bytes(nanoseconds));
    Ok((kind, compile_time, fields))
}

/// A text that is too long gets a length that no head can hold; the limit on heads then rejects the entry.
fn put_text(head: &mut Vec<u8>, text: &str) {
    let length = u32::try_from(text.len()).unwrap_or(u32::MAX);
    head.extend(length.to_le_bytes());
    head.extend(text.as_bytes());
}

/// Takes bytes off the front.
pub(super) struct Reader<'a>(pub(super) &'a [u8]);

impl Reader<'_> {
    pub(super) fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (array, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*array)
    }

    pub(super) fn number(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    fn text(&mut self) -> Option<String> {
        let length = usize::try_from(self.number()?).ok()?;
        let (text, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        std::str::from_utf8(text).ok().map(str::to_owned)
    }

    fn field(&mut self) -> Option<KeyField> {
        let name = self.text()?;
        let value = match self.array()? {
            [TEXT] => FieldValue::Text(self.text()?),
            [DIGEST] => FieldValue::Digest {
                bytes: u64::from_le_bytes(self.array()?),
                digest: KeyDigest::from(self.array::<32>()?),
            },
            _ => return None,
        };
        Some(KeyField { name, value })
    }
}
