//! The body of a request: read within the limits of size and time, and decompressed.

use crate::error::{ServeError, excerpt};
use crate::gate::{Permit, too_large};
use bytes::Bytes;
use flate2::read::{GzDecoder, ZlibDecoder};
use http::header::{CONTENT_ENCODING, CONTENT_LENGTH};
use http::{HeaderMap, HeaderValue};
use http_body::Body;
use http_body_util::BodyExt;
use std::io::Read;

/// Reads and decompresses a body.
///
/// # Errors
/// E1501 when it ends early, or cannot be decompressed; E1506 and E1509 beyond the limits; E1507 when it takes too
/// long; E1512 for an unknown compression.
pub(super) async fn read<B>(
    body: B,
    headers: &HeaderMap,
    permit: &Permit,
) -> Result<Vec<u8>, ServeError>
where
    B: Body<Data = Bytes> + Send + Unpin,
    B::Error: std::fmt::Display,
{
    let limit = permit.limits().body_time;
    let read = tokio::time::timeout(limit, collect(body, headers, permit)).await;
    let bytes = read.unwrap_or(Err(ServeError::Deadline { limit }))?;
    let encodings: Vec<&[u8]> = headers
        .get_all(CONTENT_ENCODING)
        .iter()
        .map(HeaderValue::as_bytes)
        .collect();
    // Header lines of the same name are one list.
    let encoding = encodings.join(&b", "[..]).to_ascii_lowercase();
    match encoding.trim_ascii() {
        b"" | b"identity" => Ok(bytes),
        b"gzip" | b"x-gzip" => decompress(GzDecoder::new(bytes.as_slice()), permit),
        b"deflate" => decompress(ZlibDecoder::new(bytes.as_slice()), permit),
        other => Err(ServeError::Unsupported {
            what: format!(
                "content-encoding `{}`",
                excerpt(&String::from_utf8_lossy(other))
            ),
            next: "use gzip, deflate or none",
        }),
    }
}

async fn collect<B>(
    mut body: B,
    headers: &HeaderMap,
    permit: &Permit,
) -> Result<Vec<u8>, ServeError>
where
    B: Body<Data = Bytes> + Send + Unpin,
    B::Error: std::fmt::Display,
{
    let limit = permit.limits().body_bytes;
    let stated = headers.get(CONTENT_LENGTH);
    let stated = stated.and_then(|length| length.to_str().ok()?.parse::<usize>().ok());
    if let Some(length) = stated.filter(|&length| length > limit) {
        return Err(too_large(limit, length.to_string()));
    }
    let mut bytes = Vec::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| {
            let problem = format!("expected all of it, found its end: {error}");
            ServeError::malformed("the request's body", problem.escape_debug().to_string())
        })?;
        if let Ok(data) = frame.into_data() {
            permit.hold(data.len())?;
            bytes.extend_from_slice(&data);
        }
    }
    Ok(bytes)
}

fn decompress(mut reader: impl Read, permit: &Permit) -> Result<Vec<u8>, ServeError> {
    let mut bytes = Vec::new();
    let mut piece = vec![0; 64 << 10];
    loop {
        let length = reader.read(&mut piece).map_err(|error| {
            let problem = format!("expected compressed bytes, found others: {error}");
            ServeError::malformed("the request's body", problem.escape_debug().to_string())
        })?;
        if length == 0 {
            return Ok(bytes);
        }
        permit.hold(length)?;
        bytes.extend_from_slice(piece.get(..length).unwrap_or_default());
    }
}
