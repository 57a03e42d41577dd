//! A server with models in a temporary folder, and clients with full control over the bytes they send.

use crate::{Models, Repository, RepositoryOptions, Server, ServerOptions, ServingDefaults};
use kiln::{Cache, Device, Options, OutputPlacement};
use serde_json::Value;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::time::Duration;
use tempfile::TempDir;

/// Samples of a batch are independent along `N`.
pub(super) const SCALED: &str =
    "graph @scaled(%x: f32[N, 3], %scale: f32[N, 3]) -> (f32[N, 3], f32[N]) {
  %y = mul %x, %scale
  %total = reduce %y {function = sum, axes = [1]}
  return \"y\" = %y, \"total\" = %total
}";

/// A loop with as many iterations as the second input says, for requests that run for a long time until they are
/// stopped.
pub(super) const SLOW: &str = "graph @slow(%x: f32[N], %trips: i64[]) -> f32[N] {
  %t: bool[] = constant [true]
  %h = loop %trips, %t, %x {carried = 1}
    region(%i: i64[], %g: f32[N]) {
      %q = tanh %g
      %c: bool[] = constant [true]
      yield %c, %q
    }
  return \"h\" = %h
}";

/// More iterations than any test waits for, and fewer than the limit of a call.
pub(super) const FOR_EVER: i64 = 4_000_000_000;

/// An index that may be out of bounds, for a request that fails in the middle of a call.
pub(super) const PICKED: &str = "graph @picked(%rows: f32[N, 4], %index: i64[N, 1]) -> f32[N, 1] {
  %y = gather_elements %rows, %index {axis = 1}
  return \"y\" = %y
}";

/// The folder with the models, the server, and the runtime it uses.
pub(super) struct Fixture {
    pub(super) folder: TempDir,
    pub(super) runtime: tokio::runtime::Runtime,
    server: Option<Server>,
}

/// A runtime like a server's.
pub(super) fn runtime() -> tokio::runtime::Runtime {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    builder.worker_threads(2).enable_all().build().unwrap()
}

/// Options for the models in a folder, interpreted, so that no test waits for a compiler.
pub(super) fn repository_options(folder: PathBuf) -> RepositoryOptions {
    let mut options = RepositoryOptions::new(Models::Folder(folder));
    options.loading = Options::new()
        .device(Device::interpreter())
        .cache(Cache::off())
        .outputs(OutputPlacement::Host);
    options.serving = ServingDefaults {
        // With a single call at a time, a thread that is not released is noticed.
        calls: 1,
        max_delay: Duration::ZERO,
        ..ServingDefaults::default()
    };
    options
}

impl Fixture {
    /// A server for models by name, each with the text of version 1, and with its configuration, if it has one.
    pub(super) fn new(models: &[(&str, &str, Option<&str>)]) -> Self {
        Self::with(models, |_, _| {})
    }

    /// Like [`new`](Self::new), with other options.
    pub(super) fn with(
        models: &[(&str, &str, Option<&str>)],
        change: impl FnOnce(&mut RepositoryOptions, &mut ServerOptions),
    ) -> Self {
        let folder = TempDir::new().unwrap();
        for (name, text, config) in models {
            write(&folder, &format!("{name}/1/model.kiln"), text);
            if let Some(config) = config {
                write(&folder, &format!("{name}/config.json"), config);
            }
        }
        let mut options = repository_options(folder.path().to_owned());
        let mut server_options = ServerOptions {
            http: Some(SocketAddr::from(([127, 0, 0, 1], 0))),
            grpc: Some(SocketAddr::from(([127, 0, 0, 1], 0))),
            drain: Duration::from_secs(10),
            ..ServerOptions::default()
        };
        change(&mut options, &mut server_options);
        let runtime = runtime();
        let server = runtime.block_on(async {
            let repository = Repository::open(options).unwrap();
            let started = Server::start(repository.clone(), server_options).await;
            repository.loaded().await;
            started.unwrap()
        });
        Self {
            folder,
            runtime,
            server: Some(server),
        }
    }

    pub(super) fn http(&self) -> SocketAddr {
        self.server.as_ref().unwrap().http_address().unwrap()
    }

    pub(super) fn grpc(&self) -> SocketAddr {
        self.server.as_ref().unwrap().grpc_address().unwrap()
    }

    pub(super) fn write(&self, path: &str, text: &str) {
        write(&self.folder, path, text);
    }

    /// Shuts the server down; returns whether all requests were answered.
    pub(super) fn shutdown(&mut self) -> bool {
        let server = self.server.take().unwrap();
        self.runtime.block_on(server.shutdown())
    }

    pub(super) fn get(&self, path: &str) -> Response {
        send(self.http(), "GET", path, &[], b"")
    }

    pub(super) fn post(&self, path: &str, body: &str) -> Response {
        send(self.http(), "POST", path, &[], body.as_bytes())
    }
}

fn write(folder: &TempDir, path: &str, text: &str) {
    let path = folder.path().join(path);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
}

/// A response over HTTP.
#[derive(Debug)]
pub(super) struct Response {
    pub(super) status: u16,
    pub(super) headers: Vec<(String, String)>,
    pub(super) body: Vec<u8>,
}

impl Response {
    pub(super) fn json(&self) -> Value {
        serde_json::from_slice(&self.body)
            .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&self.body)))
    }

    pub(super) fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }

    pub(super) fn header(&self, name: &str) -> Option<&str> {
        let mut headers = self.headers.iter();
        headers
            .find(|(known, _)| known == name)
            .map(|(_, value)| value.as_str())
    }

    /// The code of an error.
    pub(super) fn code(&self) -> String {
        let document = self.json();
        let code = document["code"].as_str().unwrap().to_owned();
        let message = document["error"].as_str().unwrap();
        assert!(message.starts_with(&format!("[{code}] ")), "{message}");
        code
    }
}

/// Sends a request on a separate connection, and reads the whole response.
pub(super) fn send(
    address: SocketAddr,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: &[u8],
) -> Response {
    let mut head = format!("{method} {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n");
    for (name, value) in headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    head.push_str(&format!("content-length: {}\r\n\r\n", body.len()));
    let mut bytes = head.into_bytes();
    bytes.extend_from_slice(body);
    let mut stream = TcpStream::connect(address).unwrap();
    // A server that rejects a request may close the connection before all of it has been sent.
    let _refused_early = stream.write_all(&bytes);
    response(&mut stream)
}

/// Reads a response until the connection ends.
pub(super) fn response(stream: &mut TcpStream) -> Response {
    stream
        .set_read_timeout(Some(Duration::from_secs(60)))
        .unwrap();
    let mut bytes = Vec::new();
    let mut piece = [0; 4096];
    // A connection that is reset has delivered the data sent before.
    while let Ok(length @ 1..) = stream.read(&mut piece) {
        bytes.extend_from_slice(&piece[..length]);
    }
    let end = bytes.windows(4).position(|four| four == b"\r\n\r\n");
    let end = end.unwrap_or_else(|| panic!("{:?}", String::from_utf8_lossy(&bytes)));
    let head = String::from_utf8(bytes[..end].to_vec()).unwrap();
    let mut lines = head.split("\r\n");
    let status = lines
        .next()
        .unwrap()
        .split(' ')
        .nth(1)
        .unwrap()
        .parse()
        .unwrap();
    let headers = lines.map(|line| {
        let (name, value) = line.split_once(": ").unwrap();
        (name.to_ascii_lowercase(), value.to_owned())
    });
    Response {
        status,
        headers: headers.collect(),
        body: bytes[end + 4..].to_vec(),
    }
}
