//! A server that keeps objects in memory, or passes requests on to another server, and misbehaves on request.
//!
//! It understands as much of HTTP as plain HTTP servers and S3 have in common: `GET`, `HEAD`, `PUT` with conditions,
//! `DELETE`. It checks no signatures.

mod manner;
mod wire;

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hasher};
use std::io::BufReader;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

pub(crate) use manner::Manner;
use manner::answer;
use wire::{Answer, Request};

pub(crate) struct Server {
    address: SocketAddr,
    state: Arc<Mutex<State>>,
}

struct State {
    objects: HashMap<String, Vec<u8>>,
    /// Where requests are passed on to.
    upstream: Option<SocketAddr>,
    manner: Manner,
    requests: u64,
}

#[allow(dead_code, reason = "no test program uses all of it")]
impl Server {
    /// A server that keeps objects itself.
    pub(crate) fn start() -> Self {
        Self::with(None)
    }

    /// A server that passes requests on.
    pub(crate) fn in_front_of(upstream: SocketAddr) -> Self {
        Self::with(Some(upstream))
    }

    fn with(upstream: Option<SocketAddr>) -> Self {
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
                // A client that goes away ends its own connection's thread alone.
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
            (Some(upstream), true) => request.pass_on(upstream)?,
            (None, true) => state.lock().unwrap().answer(&request),
        };
        answer(stream, &request.method, manner, given)?;
    }
}

impl State {
    fn answer(&mut self, request: &Request) -> Answer {
        let Request { name, body, .. } = request;
        let found = self.objects.get(name);
        // As in S3, the tag is that of the content, not of the write.
        let tag = |content: &[u8]| {
            let mut hasher = DefaultHasher::new();
            hasher.write(content);
            format!("\"{:016x}\"", hasher.finish())
        };
        match request.method.as_str() {
            "PUT" => {
                let now = found.map(|content| tag(content));
                let is_stale =
                    (request.header("if-match")).is_some_and(|tag| now.as_deref() != Some(tag));
                if is_stale || (request.header("if-none-match") == Some("*") && now.is_some()) {
                    return Answer::new("412 Precondition Failed");
                }
                self.objects.insert(name.clone(), body.clone());
                Answer::new("200 OK").with("ETag", &tag(body))
            }
            "DELETE" => {
                self.objects.remove(name);
                Answer::new("204 No Content")
            }
            _ => match found {
                None => Answer::new("404 Not Found"),
                Some(content) => Answer::new("200 OK")
                    .with("ETag", &tag(content))
                    .with("Last-Modified", "Thu, 26 Nov 2026 10:00:00 GMT")
                    .of(content.clone()),
            },
        }
    }
}
