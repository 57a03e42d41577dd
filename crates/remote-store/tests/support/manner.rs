//! How a server handles requests: [`Manner`].

use std::io::Write;
use std::net::TcpStream;
use std::thread;
use std::time::Duration;

use super::wire::Answer;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(dead_code, reason = "no test program uses all of them")]
pub(crate) enum Manner {
    /// Correctly.
    Good,
    /// Responds after this time.
    Late(Duration),
    /// Sends a tenth of the content at once, then nothing more.
    Stalling,
    /// Closes the connection in the middle of the content.
    Cut,
    /// Changes one byte in the middle of the content.
    Lying,
    /// Announces 2^62 bytes of content.
    Boasting,
    /// Reports that it is overloaded.
    Overloaded,
    /// Closes every connection at once.
    Down,
    /// Sends something other than HTTP.
    Garbled,
    /// Its clock is a year ahead.
    Ahead,
    /// Rejects requests because the client's clock is wrong, as S3 does.
    Skewed,
}

impl Manner {
    /// Whether requests take effect.
    pub(crate) fn lets_through(self, method: &str) -> bool {
        let reads = ["GET", "HEAD"].contains(&method);
        reads || matches!(self, Self::Good | Self::Ahead)
    }
}

/// Sends a response in this manner; `None` to close the connection.
pub(crate) fn answer(
    mut stream: &TcpStream,
    method: &str,
    manner: Manner,
    given: Answer,
) -> Option<()> {
    let given = match manner {
        Manner::Down => return None,
        Manner::Overloaded => Answer::new("503 Service Unavailable"),
        Manner::Skewed => Answer::new("403 Forbidden").of(b"<?xml version=\"1.0\"?><Error><Code>RequestTimeTooSkewed\
            </Code><Message>The difference between the request time and the current time is too large.</Message>\
            </Error>".to_vec()),
        Manner::Garbled => {
            stream.write_all(b"\x00\x01not http at all\r\n\r\n").ok()?;
            return None;
        }
        Manner::Ahead if given.status.starts_with("200") => given
            .with("Date", "Sat, 27 Nov 2027 10:00:00 GMT")
            .with("Last-Modified", "Sat, 27 Nov 2027 10:00:00 GMT"),
        Manner::Late(time) => {
            thread::sleep(time);
            given
        }
        _ => given,
    };
    let (content, length) = (&given.content, given.length);
    if method == "HEAD" {
        return given.send(stream, length, b"");
    }
    match manner {
        Manner::Boasting => given.send(stream, 1 << 62, content),
        Manner::Lying => {
            let mut wrong = content.clone();
            let middle = wrong.len() / 2;
            if let Some(byte) = wrong.get_mut(middle) {
                *byte ^= 1;
            }
            given.send(stream, length, &wrong)
        }
        Manner::Cut => {
            given.send(stream, length, &content[..content.len() / 2])?;
            None
        }
        Manner::Stalling => {
            given.send(stream, length, &content[..content.len() / 10])?;
            thread::sleep(Duration::from_secs(30));
            None
        }
        _ => given.send(stream, length, content),
    }
}
