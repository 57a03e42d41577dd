//! Frames: a length, a digest, then the payload. Neither side allocates for a length beyond its limit.
//!
//! ```text
//! 4 length of the payload, little-endian; 32 BLAKE3 of the payload; payload: 4 length of the head; head (JSON); body
//! ```

use std::io::{self, Read, Write};

use serde::Serialize;
use serde::de::DeserializeOwned;

const HEADER: usize = 4 + 32;

/// Why there is no frame.
#[derive(Debug)]
pub(crate) enum FrameError {
    /// The stream ended, failed, or a read took too long.
    Io(io::Error),
    /// Longer than the limit.
    TooLong { given: usize, limit: usize },
    /// Bytes that are not a frame.
    Damaged(String),
}

/// A message as bytes.
pub(crate) fn encode(
    head: &impl Serialize,
    body: &[u8],
    limit: usize,
) -> Result<Vec<u8>, FrameError> {
    let head = serde_json::to_vec(head).map_err(|error| FrameError::Damaged(error.to_string()))?;
    let len = 4_usize
        .saturating_add(head.len())
        .saturating_add(body.len());
    let too_long = || FrameError::TooLong { given: len, limit };
    if len > limit {
        return Err(too_long());
    }
    let head_len = u32::try_from(head.len()).map_err(|_| too_long())?;
    let whole_len = u32::try_from(len).map_err(|_| too_long())?;
    let mut hasher = blake3::Hasher::new();
    let head_len = head_len.to_le_bytes();
    for part in [&head_len, &*head, body] {
        hasher.update(part);
    }
    let mut bytes = Vec::with_capacity(HEADER + len);
    bytes.extend_from_slice(&whole_len.to_le_bytes());
    bytes.extend_from_slice(hasher.finalize().as_bytes());
    bytes.extend_from_slice(&head_len);
    bytes.extend_from_slice(&head);
    bytes.extend_from_slice(body);
    Ok(bytes)
}

/// Writes a message.
pub(crate) fn write(
    stream: &mut impl Write,
    head: &impl Serialize,
    body: &[u8],
    limit: usize,
) -> Result<(), FrameError> {
    let bytes = encode(head, body, limit)?;
    stream.write_all(&bytes).map_err(FrameError::Io)
}

/// Reads a message: its head and its body.
pub(crate) fn read<T: DeserializeOwned>(
    stream: &mut impl Read,
    limit: usize,
) -> Result<(T, Vec<u8>), FrameError> {
    let mut len = [0; 4];
    let mut digest = [0; 32];
    stream.read_exact(&mut len).map_err(FrameError::Io)?;
    stream.read_exact(&mut digest).map_err(FrameError::Io)?;
    let given = u32::from_le_bytes(len) as usize;
    if given > limit {
        return Err(FrameError::TooLong { given, limit });
    }
    let damaged = |problem: &str| FrameError::Damaged(problem.to_owned());
    let mut payload = Vec::new();
    payload
        .try_reserve_exact(given)
        .map_err(|error| FrameError::Damaged(error.to_string()))?;
    payload.resize(given, 0);
    stream.read_exact(&mut payload).map_err(FrameError::Io)?;
    if blake3::hash(&payload).as_bytes() != &digest {
        return Err(damaged("its digest does not match"));
    }
    let short = || damaged("it is truncated");
    let (head_len, rest) = payload.split_first_chunk::<4>().ok_or_else(short)?;
    let head_len = u32::from_le_bytes(*head_len) as usize;
    let (head, body) = rest.split_at_checked(head_len).ok_or_else(short)?;
    let head =
        serde_json::from_slice(head).map_err(|error| FrameError::Damaged(error.to_string()))?;
    Ok((head, body.to_vec()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes() -> Vec<u8> {
        encode(&"head", b"body", 1024).expect("a short message")
    }

    #[test]
    fn messages_round_trip() {
        let (head, body): (String, _) = read(&mut &*bytes(), 1024).expect("a whole message");
        assert_eq!((&*head, &*body), ("head", &b"body"[..]));
    }

    #[test]
    fn every_truncation_and_every_flipped_bit_is_an_error() {
        let whole = bytes();
        for len in 0..whole.len() {
            assert!(read::<String>(&mut &whole[..len], 1024).is_err(), "{len}");
        }
        for bit in 0..whole.len() * 8 {
            let mut flipped = whole.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert!(read::<String>(&mut &*flipped, 1024).is_err(), "{bit}");
        }
    }

    #[test]
    fn a_message_over_the_limit_is_refused_before_allocation() {
        let mut header = u32::MAX.to_le_bytes().to_vec();
        header.extend([0; 32]);
        let read = read::<String>(&mut &*header, 1024);
        assert!(matches!(read, Err(FrameError::TooLong { limit: 1024, .. })));
        let encoded = encode(&"head", &[0; 100], 64);
        assert!(matches!(
            encoded,
            Err(FrameError::TooLong { limit: 64, .. })
        ));
    }
}
