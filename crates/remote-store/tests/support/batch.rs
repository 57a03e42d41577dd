//! Azure's batch deletions: a multipart request that contains requests, and a multipart response that contains
//! responses.

use super::wire::Answer;

/// The names that a batch deletes.
pub(crate) fn deleted(body: &[u8]) -> Vec<String> {
    let text = String::from_utf8_lossy(body);
    let lines = text.lines().filter_map(|line| line.strip_prefix("DELETE "));
    lines
        .filter_map(|line| Some(line.split_once(' ')?.0.to_owned()))
        .collect()
}

/// The response to a batch of `count` deletions, all successful.
pub(crate) fn accepted(count: usize) -> Answer {
    let part = |id: usize| {
        format!(
            "--batch\r\nContent-Type: application/http\r\nContent-ID: {id}\r\n\r\nHTTP/1.1 202 Accepted\r\n\r\n"
        )
    };
    let parts: String = (0..count).map(part).collect();
    Answer::new("202 Accepted")
        .with("Content-Type", "multipart/mixed; boundary=batch")
        .of(format!("{parts}--batch--\r\n").into_bytes())
}
