//! A server that keeps objects in memory, or forwards requests to another server, and misbehaves on request.
//!
//! It understands as much of HTTP as a store of entries needs from plain HTTP servers, S3, Azure and Google: `GET`, `HEAD`,
//! `PUT` with conditions, `DELETE`, batches of deletions. It checks no signatures.

mod batch;
mod manner;
mod protocol;
mod wire;

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hasher};
use std::io::BufReader;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

pub(crate) use manner::Manner;
use manner::answer;
#[allow(unused_imports, reason = "no test program uses all of it")]
pub(crate) use protocol::Protocol;
use wire::{Answer, Request};

pub(crate) struct Server {
    address: SocketAddr,
    state: Arc<Mutex<State>>,
}

struct State {
    objects: HashMap<String, Vec<u8>>,
    /// Where requests are forwarded to.
    upstream: Option<Upstream>,
    manner: Manner,
    requests: u64,
}

/// Another server, and the `Host` header for requests to it, if it replaces the client's.
#[derive(Clone, Copy)]
struct Upstream {
    address: SocketAddr,
    host: Option<&'static str>,
}

#[allow(dead_code, reason = "no test program uses all of it")]
impl Server {
    /// A server that keeps objects itself.
    pub(crate) fn start() -> Self {
        Self::with(None)
    }

    /// A server that forwards requests, with another host if one is given.
    pub(crate) fn in_front_of(address: SocketAddr, host: Option<&'static str>) -> Self {
        Self::with(Some(Upstream { address, host }))
    }

    fn with(upstream: Option<Upstream>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let state = Arc::new(Mutex::new(State {
            objects: HashMap::new(),
            upstream,
            manner: Manner::Good,
            requests: 0,
        }));
        let shared = Arc::clone(&state);
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let shared = Arc::clone(&shared);
                // A client that disconnects ends only its own connection's thread.
                thread::spawn(move || serve(&stream, &shared));
            }
        });
        Self { address, state }
    }

    pub(crate) fn address(&self) -> String {
        format!("http://{}/fleet", self.address)
    }

    pub(crate) fn socket(&self) -> SocketAddr {
        self.address
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
        let objects = &mut self.state.lock().unwrap().objects;
        objects.values_mut().for_each(change);
    }
}

fn serve(stream: &TcpStream, state: &Mutex<State>) -> Option<()> {
    let mut reader = BufReader::new(stream);
    loop {
        let request = Request::read(&mut reader)?;
        let (manner, upstream) = {
            let mut state = state.lock().unwrap();
            state.requests += 1;
            (state.manner, state.upstream)
        };
        let given = match (upstream, manner.lets_through(&request.method)) {
            (_, false) => Answer::new("503 Service Unavailable"),
            (Some(upstream), true) => request.pass_on(upstream.address, upstream.host)?,
            (None, true) => state.lock().unwrap().answer(&request),
        };
        answer(stream, &request.method, manner, given)?;
    }
}

impl State {
    fn answer(&mut self, request: &Request) -> Answer {
        let Request { name, body, .. } = request;
        let found = self.objects.get(name);
        match request.method.as_str() {
            "PUT" => {
                let now = found.map(|content| version(content));
                // For Google, the generation of an absent object is 0.
                let generation = now.map_or_else(|| "0".to_owned(), |version| version.to_string());
                let is_another = |tag: &str| now.map(tag_of).as_deref() != Some(tag);
                let is_stale = request.header("if-match").is_some_and(is_another)
                    || (request.header("if-none-match") == Some("*") && now.is_some())
                    || (request.header("x-goog-if-generation-match"))
                        .is_some_and(|given| given != generation);
                if is_stale {
                    return Answer::new("412 Precondition Failed");
                }
                self.objects.insert(name.clone(), body.clone());
                versioned(Answer::new("200 OK"), body)
            }
            "POST" if name.ends_with("comp=batch") => {
                let deleted = batch::deleted(body);
                for name in &deleted {
                    self.objects.remove(name);
                }
                batch::accepted(deleted.len())
            }
            "DELETE" => {
                self.objects.remove(name);
                Answer::new("204 No Content")
            }
            _ => match found {
                None => Answer::new("404 Not Found"),
                Some(content) => versioned(Answer::new("200 OK"), content)
                    .with("Last-Modified", "Thu, 26 Nov 2026 10:00:00 GMT")
                    .of(content.clone()),
            },
        }
    }
}

/// The version of a content. As in S3, it depends on the content, not on the write.
fn version(content: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    hasher.write(content);
    hasher.finish() | 1
}

fn tag_of(version: u64) -> String {
    format!("\"{version:016x}\"")
}

/// A response with the version of a content, in the headers of each protocol.
fn versioned(answer: Answer, content: &[u8]) -> Answer {
    let version = version(content);
    answer
        .with("ETag", &tag_of(version))
        .with("x-goog-generation", &version.to_string())
}
