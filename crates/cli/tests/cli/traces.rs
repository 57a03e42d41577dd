//! Spans of a server, as an OpenTelemetry collector receives them: a request, its wait, its call, a batch, a compile.

use super::served::Served;
use super::support::Workshop;
use prost::Message;
use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

/// The parts of an export request that the test reads.
#[derive(Clone, PartialEq, Message)]
struct Export {
    #[prost(message, repeated, tag = "1")]
    resources: Vec<Resource>,
}

#[derive(Clone, PartialEq, Message)]
struct Resource {
    #[prost(message, repeated, tag = "2")]
    scopes: Vec<Scope>,
}

#[derive(Clone, PartialEq, Message)]
struct Scope {
    #[prost(message, repeated, tag = "2")]
    spans: Vec<Span>,
}

#[derive(Clone, PartialEq, Message)]
struct Span {
    #[prost(bytes = "vec", tag = "1")]
    trace: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    id: Vec<u8>,
    #[prost(bytes = "vec", tag = "4")]
    parent: Vec<u8>,
    #[prost(string, tag = "5")]
    name: String,
    #[prost(fixed64, tag = "7")]
    start: u64,
    #[prost(fixed64, tag = "8")]
    end: u64,
    #[prost(message, repeated, tag = "13")]
    links: Vec<Link>,
}

#[derive(Clone, PartialEq, Message)]
struct Link {
    #[prost(bytes = "vec", tag = "2")]
    span: Vec<u8>,
}

/// A collector that keeps every span.
struct Collector {
    url: String,
    spans: Arc<Mutex<Vec<Span>>>,
}

impl Collector {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/v1/traces", listener.local_addr().unwrap());
        let spans = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&spans);
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let kept = Arc::clone(&kept);
                thread::spawn(move || while receive(&stream, &kept).is_some() {});
            }
        });
        Self { url, spans }
    }
}

/// Receives one request.
fn receive(mut stream: &TcpStream, kept: &Mutex<Vec<Span>>) -> Option<()> {
    let mut reader = BufReader::new(stream);
    let mut length = 0;
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).ok()? == 0 {
            return None;
        }
        let line = line.trim().to_ascii_lowercase();
        if line.is_empty() {
            break;
        }
        if let Some(value) = line.strip_prefix("content-length:") {
            length = value.trim().parse().ok()?;
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    let export = Export::decode(body.as_slice()).unwrap();
    let scopes = export
        .resources
        .into_iter()
        .flat_map(|resource| resource.scopes);
    kept.lock()
        .unwrap()
        .extend(scopes.flat_map(|scope| scope.spans));
    stream
        .write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")
        .ok()
}

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const PARENT: &str = "00f067aa0ba902b7";

/// Requests a batch of rows, as part of a trace.
fn infer(address: &str, trace: &str) {
    let body = r#"{"inputs": [
        {"name": "x", "shape": [1, 3], "datatype": "FP32", "data": [1, 2, 3]},
        {"name": "scale", "shape": [3], "datatype": "FP32", "data": [1, 2, 3]}]}"#;
    let mut stream = TcpStream::connect(address).unwrap();
    let head = format!(
        "POST /v2/models/scaled/infer HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\
        traceparent: 00-{trace}-{PARENT}-01\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).unwrap();
    stream.write_all(body.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn a_collector_receives_the_spans_of_requests_under_the_callers_trace() {
    let collector = Collector::start();
    let workshop = Workshop::new();
    let options = [
        "--device",
        "cpu",
        "--grpc",
        "off",
        "--traces",
        &collector.url,
    ];
    let server = Served::start(&workshop, &options);
    infer(&server.http, TRACE);
    // A second request, whose code is already compiled.
    let other = TRACE.replace('4', "5");
    infer(&server.http, &other);
    // The last spans are sent before the server exits.
    server.end();

    let spans = collector.spans.lock().unwrap().clone();
    let names: Vec<&str> = spans.iter().map(|span| span.name.as_str()).collect();
    let of_trace = |trace: &str| -> HashMap<String, Span> {
        let spans = spans.iter().filter(|span| hex(&span.trace) == trace);
        spans
            .map(|span| (span.name.clone(), span.clone()))
            .collect()
    };
    for trace in [TRACE, &other] {
        let own = of_trace(trace);
        let get = |name: &str| {
            own.get(name)
                .unwrap_or_else(|| panic!("{name} in {trace}: {names:?}"))
        };
        assert_eq!(hex(&get("serve.http").parent), PARENT);
        for (child, parent) in [
            ("serve.request", "serve.http"),
            ("serve.queue", "serve.request"),
            ("serve.call", "serve.request"),
        ] {
            let (child, parent) = (get(child), get(parent));
            assert_eq!(child.parent, parent.id, "{}", child.name);
            assert!(
                parent.start <= child.start && child.start <= child.end,
                "{}",
                child.name
            );
        }
        assert!(get("serve.queue").end <= get("serve.call").end);
    }
    // The compile has its own trace, with a link to the call that first needed it.
    let compile = spans.iter().find(|span| span.name == "runtime.compile");
    let compile = compile.unwrap_or_else(|| panic!("no compile: {names:?}"));
    let job = spans.iter().find(|span| span.id == compile.parent).unwrap();
    assert_eq!(job.name, "runtime.compile_job");
    let call = &of_trace(TRACE)["serve.call"];
    assert!(job.links.iter().any(|link| link.span == call.id), "{job:?}");
    // No span contains any data of a request.
    assert!(!names.iter().any(|name| name.contains("data")));
}

#[test]
fn a_collector_that_is_not_there_costs_no_request() {
    let workshop = Workshop::new();
    let gone = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let url = format!("http://{gone}/v1/traces");
    let options = ["--device", "interpreter", "--grpc", "off", "--traces", &url];
    let server = Served::start(&workshop, &options);
    for _ in 0..100 {
        infer(&server.http, TRACE);
    }
    server.end();
}

#[test]
fn a_url_that_is_none_is_an_error() {
    let workshop = Workshop::new();
    for arguments in [
        ["--traces", "localhost"],
        ["--traces", "ftp://host/v1/traces"],
    ] {
        let output = workshop.kiln(
            &[
                &["serve", "model.kiln", "--http", "127.0.0.1:0"],
                &arguments[..],
            ]
            .concat(),
        );
        assert!(!output.status.success());
        let notes = String::from_utf8_lossy(&output.stderr);
        assert!(
            notes.contains("error[E1530]") && notes.contains("/v1/traces"),
            "{notes}"
        );
    }
}
