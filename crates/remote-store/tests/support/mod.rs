//! A plain HTTP server that keeps objects in memory, and misbehaves on request.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

/// How the server treats requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Manner {
    /// As it should.
    Good,
    /// Answers after this time.
    Late(Duration),
    /// Sends a tenth of the content at once, then nothing more.
    Stalling,
    /// Closes the connection in the middle of the content.
    Cut,
    /// Changes one byte in the middle of the content.
    Lying,
    /// Announces a content of 2^62 bytes.
    Boasting,
    /// Says that it is overloaded.
    Overloaded,
    /// Closes every connection at once.
    Down,
    /// Sends what is not HTTP.
    Garbled,
}

pub(crate) struct Server {
    address: SocketAddr,
    state: Arc<Mutex<State>>,
}

struct State {
    objects: HashMap<String, Vec<u8>>,
    manner: Manner,
    requests: u64,
}

impl Server {
    pub(crate) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let state = Arc::new(Mutex::new(State {
            objects: HashMap::new(),
            manner: Manner::Good,
            requests: 0,
        }));
        let shared = Arc::clone(&state);
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let shared = Arc::clone(&shared);
                // A client that goes away ends its own connection's thread alone.
                thread::spawn(move || serve(&stream, &shared));
            }
        });
        Self { address, state }
    }

    pub(crate) fn address(&self) -> String {
        format!("http://{}/fleet", self.address)
    }

    pub(crate) fn behave(&self, manner: Manner) {
        self.state.lock().unwrap().manner = manner;
    }

    pub(crate) fn requests(&self) -> u64 {
        self.state.lock().unwrap().requests
    }

    pub(crate) fn names(&self) -> Vec<String> {
        let state = self.state.lock().unwrap();
        let mut names: Vec<String> = state.objects.keys().cloned().collect();
        names.sort();
        names
    }

    /// Replaces the content of every object.
    pub(crate) fn rewrite(&self, change: impl Fn(&mut Vec<u8>)) {
        self.state
            .lock()
            .unwrap()
            .objects
            .values_mut()
            .for_each(change);
    }
}

fn serve(stream: &TcpStream, state: &Mutex<State>) -> Option<()> {
    let mut reader = BufReader::new(stream);
    loop {
        let (method, name, body) = request(&mut reader)?;
        let (manner, content) = {
            let mut state = state.lock().unwrap();
            state.requests += 1;
            let manner = state.manner;
            if manner == Manner::Good && method == "PUT" {
                state.objects.insert(name.clone(), body);
            }
            if manner == Manner::Good && method == "DELETE" {
                state.objects.remove(&name);
            }
            (manner, state.objects.get(&name).cloned())
        };
        answer(stream, &method, manner, content)?;
    }
}

/// Method, path and body.
fn request(reader: &mut BufReader<&TcpStream>) -> Option<(String, String, Vec<u8>)> {
    let mut line = String::new();
    reader
        .read_line(&mut line)
        .ok()
        .filter(|bytes| *bytes > 0)?;
    let mut words = line.split_whitespace().map(str::to_owned);
    let (method, name) = (words.next()?, words.next()?);
    let mut length = 0;
    loop {
        let mut header = String::new();
        reader.read_line(&mut header).ok()?;
        let header = header.trim().to_ascii_lowercase();
        if header.is_empty() {
            break;
        }
        if let Some(value) = header.strip_prefix("content-length:") {
            length = value.trim().parse().ok()?;
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    Some((method, name, body))
}

/// Sends an answer; `None` to close the connection.
fn answer(
    mut stream: &TcpStream,
    method: &str,
    manner: Manner,
    content: Option<Vec<u8>>,
) -> Option<()> {
    let mut send = |status: &str, length: u64, content: &[u8]| {
        let head = format!(
            "HTTP/1.1 {status}\r\nContent-Length: {length}\r\nLast-Modified: Thu, 26 Nov 2026 10:00:00 GMT\r\nETag: \"1\"\r\n\r\n"
        );
        stream.write_all(head.as_bytes()).ok()?;
        stream.write_all(content).ok()
    };
    match manner {
        Manner::Down => return None,
        Manner::Overloaded => return send("503 Service Unavailable", 0, b""),
        Manner::Garbled => {
            stream.write_all(b"\x00\x01not http at all\r\n\r\n").ok()?;
            return None;
        }
        Manner::Late(time) => thread::sleep(time),
        _ => {}
    }
    let (content, length) = match (method, content) {
        ("PUT", _) => return send("201 Created", 0, b""),
        ("DELETE", _) => return send("204 No Content", 0, b""),
        (_, None) => return send("404 Not Found", 0, b""),
        ("HEAD", Some(content)) => (Vec::new(), content.len() as u64),
        (_, Some(content)) => {
            let length = content.len() as u64;
            (content, length)
        }
    };
    match manner {
        Manner::Boasting => send("200 OK", 1 << 62, &content),
        Manner::Lying => {
            let mut wrong = content;
            let middle = wrong.len() / 2;
            if let Some(byte) = wrong.get_mut(middle) {
                *byte ^= 1;
            }
            send("200 OK", length, &wrong)
        }
        Manner::Cut => {
            send("200 OK", length, &content[..content.len() / 2])?;
            None
        }
        Manner::Stalling => {
            send("200 OK", length, &content[..content.len() / 10])?;
            thread::sleep(Duration::from_secs(5));
            None
        }
        _ => send("200 OK", length, &content),
    }
}
