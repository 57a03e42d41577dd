//! Bad requests, slow and disconnecting clients, overload, shutdown.

use super::support::{FOR_EVER, Fixture, SCALED, SLOW, response, send};
use crate::Token;
use std::io::Write;
use std::net::TcpStream;
use std::time::{Duration, Instant};

const GOOD: &str = r#"{"inputs": [
  {"name": "x", "shape": [1, 3], "datatype": "FP32", "data": [1, 2, 3]},
  {"name": "scale", "shape": [1, 3], "datatype": "FP32", "data": [1, 10, 100]}]}"#;

/// A request that runs until it is stopped.
fn endless(timeout_ms: u64) -> String {
    format!(
        r#"{{"parameters": {{"timeout": {}}}, "inputs": [
          {{"name": "x", "shape": [1], "datatype": "FP32", "data": [1]}},
          {{"name": "trips", "shape": [], "datatype": "INT64", "data": [{}]}}]}}"#,
        timeout_ms * 1000,
        FOR_EVER
    )
}

/// Waits until a condition is true; fails if that takes too long.
fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < Duration::from_secs(30), "{what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

#[test]
fn malformed_requests_are_typed_errors() {
    let fixture = Fixture::new(&[("scaled", SCALED, None)]);
    let replaced = |from: &str, to: &str| {
        assert!(GOOD.contains(from), "{from}");
        GOOD.replacen(from, to, 1)
    };
    for (body, status, code) in [
        (String::new(), 400, "E1501"),
        ("{".to_owned(), 400, "E1501"),
        ("[]".to_owned(), 400, "E1501"),
        ("{}".to_owned(), 400, "E1501"),
        (format!("{GOOD} {{}}"), 400, "E1501"),
        (
            replaced("\"shape\": [1, 3]", "\"shape\": [-1, 3]"),
            400,
            "E1501",
        ),
        (
            replaced("\"shape\": [1, 3]", "\"shape\": [1.5, 3]"),
            400,
            "E1501",
        ),
        (
            replaced("\"shape\": [1, 3]", "\"shape\": [18446744073709551615, 3]"),
            400,
            "E1502",
        ),
        (replaced("FP32", "BYTES"), 400, "E1502"),
        (replaced("FP32", "INT32"), 400, "E0811"),
        (replaced("[1, 2, 3]", "[1, 2]"), 400, "E1502"),
        (replaced("[1, 2, 3]", "[1, 2, \"\\u001b\"]"), 400, "E1502"),
        (
            replaced(
                "\"data\": [1, 2, 3]",
                "\"parameters\": {\"binary_data_size\": 12}",
            ),
            400,
            "E1502",
        ),
        (
            replaced(
                "\"data\": [1, 2, 3]",
                "\"parameters\": {\"shared_memory_region\": \"r\"}",
            ),
            400,
            "E1512",
        ),
        (replaced("\"x\"", "\"z\""), 400, "E1502"),
        (replaced("\"scale\"", "\"x\""), 400, "E1502"),
        (
            replaced(
                "\"inputs\"",
                "\"parameters\": {\"timeout\": \"soon\"}, \"inputs\"",
            ),
            400,
            "E1501",
        ),
        (
            replaced("\"inputs\"", "\"outputs\": [{\"name\": \"w\"}], \"inputs\""),
            400,
            "E1502",
        ),
        (
            replaced(
                "\"inputs\"",
                "\"outputs\": [{\"name\": \"y\"}, {\"name\": \"y\"}], \"inputs\"",
            ),
            400,
            "E1502",
        ),
        (
            replaced(
                "\"inputs\"",
                "\"outputs\": [{\"name\": \"y\", \"parameters\": {\"classification\": 3}}], \"inputs\"",
            ),
            400,
            "E1512",
        ),
    ] {
        let response = fixture.post("/v2/models/scaled/infer", &body);
        assert_eq!(
            (response.status, response.code().as_str()),
            (status, code),
            "{body}: {}",
            response.text()
        );
        assert!(!response.body.contains(&0x1b));
    }
    // If the sizes of a symbol disagree, the call finds out, and only that request fails.
    let body = replaced(
        "\"shape\": [1, 3], \"datatype\": \"FP32\", \"data\": [1, 2, 3]",
        "\"shape\": [2, 3], \"datatype\": \"FP32\", \"data\": [1, 2, 3, 4, 5, 6]",
    );
    let response = fixture.post("/v2/models/scaled/infer", &body);
    assert_eq!(response.status, 400);
    assert!(response.code().starts_with("E0"), "{}", response.text());
    for (method, path, status, code) in [
        ("GET", "/v3", 404, "E1513"),
        ("DELETE", "/v2/models/scaled", 404, "E1513"),
        ("GET", "/v2/models/nothing", 404, "E1503"),
        ("GET", "/v2/models/scaled/versions/2", 404, "E1503"),
        ("GET", "/v2/models/scaled/versions/x", 404, "E1503"),
        ("POST", "/v2/models/nothing/infer", 404, "E1503"),
        (
            "POST",
            "/v2/repository/models/..%2f..%2fetc/load",
            404,
            "E1503",
        ),
        ("POST", "/v2/repository/models/nothing/unload", 404, "E1503"),
    ] {
        let response = send(fixture.http(), method, path, &[], b"");
        assert_eq!(
            (response.status, response.code().as_str()),
            (status, code),
            "{path}"
        );
    }
    let length = [("Inference-Header-Content-Length", "999999")];
    let response = send(
        fixture.http(),
        "POST",
        "/v2/models/scaled/infer",
        &length,
        GOOD.as_bytes(),
    );
    assert_eq!((response.status, response.code().as_str()), (400, "E1501"));
    let name = "content-encoding";
    for encodings in [
        vec![(name, "br")],
        vec![(name, "é")],
        vec![(name, "identity"), (name, "gzip")],
    ] {
        let path = "/v2/models/scaled/infer";
        let response = send(fixture.http(), "POST", path, &encodings, GOOD.as_bytes());
        let code = response.code();
        assert_eq!((response.status, code.as_str()), (400, "E1512"));
    }
    // The server responds as before.
    assert_eq!(fixture.post("/v2/models/scaled/infer", GOOD).status, 200);
}

#[test]
fn bodies_and_headers_over_their_limits_are_refused() {
    let fixture = Fixture::with(&[("scaled", SCALED, None)], |_, options| {
        options.limits.body_bytes = 1000;
    });
    let large = format!("{GOOD}{}", " ".repeat(2000));
    let response = fixture.post("/v2/models/scaled/infer", &large);
    assert_eq!((response.status, response.code().as_str()), (413, "E1509"));
    // A body without a stated length.
    let mut stream = TcpStream::connect(fixture.http()).unwrap();
    stream
        .write_all(b"POST /v2/models/scaled/infer HTTP/1.1\r\nhost: x\r\nconnection: close\r\ntransfer-encoding: chunked\r\n\r\n")
        .unwrap();
    for _ in 0..10 {
        let chunk = format!("c8\r\n{}\r\n", " ".repeat(200));
        if stream.write_all(chunk.as_bytes()).is_err() {
            break;
        }
    }
    let _refused_early = stream.write_all(b"0\r\n\r\n");
    let refused = response_of(&mut stream);
    assert_eq!((refused.status, refused.code().as_str()), (413, "E1509"));
    // A small body that decompresses to a large one.
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    gzip.write_all(&vec![b' '; 1 << 20]).unwrap();
    let bomb = gzip.finish().unwrap();
    assert!(bomb.len() < 1200);
    let headers = [("content-encoding", "gzip")];
    let response = send(
        fixture.http(),
        "POST",
        "/v2/models/scaled/infer",
        &headers,
        &bomb,
    );
    assert_eq!(response.status, 413);
    let header = "x".repeat(100_000);
    let response = send(fixture.http(), "GET", "/v2", &[("x-large", &header)], b"");
    assert_eq!(response.status, 431);
    assert_eq!(fixture.post("/v2/models/scaled/infer", GOOD).status, 200);
}

fn response_of(stream: &mut TcpStream) -> super::support::Response {
    response(stream)
}

#[test]
fn slow_and_vanishing_clients_do_not_hold_the_server() {
    let fixture = Fixture::with(&[("scaled", SCALED, None)], |_, options| {
        options.limits.header_time = Duration::from_millis(200);
        options.limits.body_time = Duration::from_millis(200);
        options.limits.connections = 4;
    });
    let http = fixture.http();
    // Headers that never end, and a connection that sends nothing.
    let mut slow: Vec<TcpStream> = (0..2).map(|_| TcpStream::connect(http).unwrap()).collect();
    slow[0].write_all(b"GET /v2 HTTP/1.1\r\nhost:").unwrap();
    // An HTTP/2 preface that never ends.
    let mut preface = TcpStream::connect(fixture.grpc()).unwrap();
    preface.write_all(b"PRI * HTTP").unwrap();
    // A body that never ends: its client gets an error.
    let mut stream = TcpStream::connect(http).unwrap();
    stream
        .write_all(b"POST /v2/models/scaled/infer HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: 100\r\n\r\n{")
        .unwrap();
    let late = response(&mut stream);
    assert_eq!((late.status, late.code().as_str()), (504, "E1507"));
    // A truncated body.
    let mut stream = TcpStream::connect(http).unwrap();
    stream
        .write_all(
            b"POST /v2/models/scaled/infer HTTP/1.1\r\nhost: x\r\ncontent-length: 100\r\n\r\n{",
        )
        .unwrap();
    drop(stream);
    until("connections end", || {
        let page = send_if_open(http);
        page.is_some_and(|text| text.contains("kiln_serve_connections_now 1"))
    });
    assert_eq!(fixture.post("/v2/models/scaled/infer", GOOD).status, 200);
    drop((slow, preface));
}

#[test]
fn a_client_that_does_not_read_its_answer_is_cut_off() {
    let fixture = Fixture::with(&[("scaled", SCALED, None)], |_, options| {
        options.limits.body_time = Duration::from_millis(300);
    });
    let http = fixture.http();
    // Far more than the system buffers for a client that does not read.
    let rows = 600_000;
    let json = format!(
        r#"{{"parameters": {{"binary_data_output": true}}, "inputs": [
          {{"name": "x", "shape": [{rows}, 3], "datatype": "FP32", "parameters": {{"binary_data_size": {0}}}}},
          {{"name": "scale", "shape": [{rows}, 3], "datatype": "FP32", "parameters": {{"binary_data_size": {0}}}}}]}}"#,
        rows * 12
    );
    let mut stream = TcpStream::connect(http).unwrap();
    let head = format!(
        "POST /v2/models/scaled/infer HTTP/1.1\r\nhost: x\r\ninference-header-content-length: {}\r\ncontent-length: {}\r\n\r\n",
        json.len(),
        json.len() + 2 * rows * 12
    );
    stream.write_all(head.as_bytes()).unwrap();
    stream.write_all(json.as_bytes()).unwrap();
    stream.write_all(&vec![0; 2 * rows * 12]).unwrap();
    let answered = "kiln_serve_requests_total{model=\"scaled\",version=\"1\",outcome=\"ok\"} 1";
    until("the request is answered", || {
        fixture.get("/metrics").text().contains(answered)
    });
    until("the connection ends", || {
        fixture
            .get("/metrics")
            .text()
            .contains("kiln_serve_connections_now 1\n")
    });
    drop(stream);
}

/// The metrics, if the server accepts another connection.
fn send_if_open(address: std::net::SocketAddr) -> Option<String> {
    use std::io::Read;
    let mut stream = TcpStream::connect(address).ok()?;
    stream
        .write_all(b"GET /metrics HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")
        .ok()?;
    let mut text = String::new();
    stream.read_to_string(&mut text).ok()?;
    Some(text)
}

#[test]
fn a_request_ends_at_its_deadline_and_frees_its_thread() {
    let fixture = Fixture::new(&[("slow", SLOW, None)]);
    let response = fixture.post("/v2/models/slow/infer", &endless(100));
    assert_eq!((response.status, response.code().as_str()), (504, "E1507"));
    let short = endless(20_000).replace(&FOR_EVER.to_string(), "2");
    assert_eq!(fixture.post("/v2/models/slow/infer", &short).status, 200);
}

#[test]
fn the_configuration_bounds_how_long_a_request_may_take() {
    let config = r#"{"timeout_ms": 100}"#;
    let fixture = Fixture::new(&[("slow", SLOW, Some(config))]);
    let response = fixture.post("/v2/models/slow/infer", &endless(60_000));
    assert_eq!((response.status, response.code().as_str()), (504, "E1507"));
}

#[test]
fn a_full_queue_refuses_and_a_client_that_leaves_ends_its_call() {
    let config = r#"{"queue": 1, "calls": 1}"#;
    let fixture = Fixture::new(&[("slow", SLOW, Some(config)), ("scaled", SCALED, None)]);
    let http = fixture.http();
    let ask = || {
        let body = endless(60_000);
        let mut stream = TcpStream::connect(http).unwrap();
        let head = format!(
            "POST /v2/models/slow/infer HTTP/1.1\r\nhost: x\r\ncontent-length: {}\r\n\r\n",
            body.len()
        );
        stream.write_all(head.as_bytes()).unwrap();
        stream.write_all(body.as_bytes()).unwrap();
        stream
    };
    let metric = |line: &str| {
        fixture
            .get("/metrics")
            .text()
            .lines()
            .any(|found| found == line)
    };
    let running = ask();
    until("the first request runs", || {
        metric("kiln_serve_queue_seconds_count{model=\"slow\",version=\"1\"} 1")
    });
    let waiting = ask();
    until("the second waits", || {
        metric("kiln_serve_queue_length{model=\"slow\",version=\"1\"} 1")
    });
    let refused = fixture.post("/v2/models/slow/infer", &endless(1000));
    assert_eq!((refused.status, refused.code().as_str()), (429, "E1505"));
    assert_eq!(refused.header("retry-after"), Some("1"));
    // Another model is unaffected.
    assert_eq!(fixture.post("/v2/models/scaled/infer", GOOD).status, 200);
    drop((running, waiting));
    let short = endless(20_000).replace(&FOR_EVER.to_string(), "2");
    until("the thread is free", || {
        fixture.post("/v2/models/slow/infer", &short).status == 200
    });
}

#[test]
fn requests_beyond_the_limit_of_the_server_are_refused() {
    let fixture = Fixture::with(&[("slow", SLOW, None)], |_, options| {
        options.limits.requests = 1
    });
    let http = fixture.http();
    let body = endless(3_000);
    // A request below may have taken the only slot, so the call is repeated until it gets the slot itself.
    let asking = std::thread::spawn(move || {
        loop {
            let path = "/v2/models/slow/infer";
            let response = send(http, "POST", path, &[], body.as_bytes());
            if response.status != 429 {
                break response;
            }
        }
    });
    until("a request is refused", || {
        let response = fixture.get("/v2");
        response.status == 429 && response.code() == "E1506"
    });
    assert_eq!(asking.join().unwrap().status, 504);
    assert_eq!(fixture.get("/v2").status, 200);
}

#[test]
fn only_holders_of_the_token_are_served() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("token");
    std::fs::write(&path, "short\n").unwrap();
    assert_eq!(Token::read(&path).unwrap_err().code(), "E1532");
    std::fs::write(&path, "a-token-of-enough-letters\n").unwrap();
    let token = Token::read(&path).unwrap();
    assert!(!format!("{token:?}").contains("letters"));
    let fixture = Fixture::with(&[("scaled", SCALED, None)], |_, options| {
        options.token = Some(token)
    });
    for header in [
        None,
        Some("Bearer another-token-of-letters-1"),
        Some("Bearer a-token-of-enough-letter"),
        Some("Basic a-token-of-enough-letters"),
        Some("a-token-of-enough-letters"),
    ] {
        let headers: Vec<(&str, &str)> = header
            .map(|value| ("authorization", value))
            .into_iter()
            .collect();
        let response = send(fixture.http(), "GET", "/v2/models/scaled", &headers, b"");
        assert_eq!(
            (response.status, response.code().as_str()),
            (401, "E1510"),
            "{header:?}"
        );
    }
    let headers = [("authorization", "bearer a-token-of-enough-letters")];
    assert_eq!(
        send(fixture.http(), "GET", "/v2/models/scaled", &headers, b"").status,
        200
    );
    // Load balancers have no token.
    assert_eq!(fixture.get("/v2/health/ready").status, 200);
    let status = fixture.runtime.block_on(async {
        let mut client = super::grpc::Client::connect(fixture.grpc()).await;
        let request = tonic::Request::new(super::grpc::infer("scaled"));
        client
            .call::<_, crate::grpc::messages::ModelInferResponse>("ModelInfer", request)
            .await
            .unwrap_err()
    });
    assert_eq!(status.code(), tonic::Code::Unauthenticated);
}

#[test]
fn web_pages_and_clients_without_control_are_refused() {
    let fixture = Fixture::with(&[("scaled", SCALED, None)], |_, options| {
        options.model_control = false
    });
    let response = fixture.post("/v2/repository/models/scaled/unload", "");
    assert_eq!((response.status, response.code().as_str()), (403, "E1511"));
    let headers = [("origin", "http://example.invalid")];
    let response = send(
        fixture.http(),
        "POST",
        "/v2/models/scaled/infer",
        &headers,
        GOOD.as_bytes(),
    );
    assert_eq!((response.status, response.code().as_str()), (403, "E1511"));
    assert_eq!(fixture.post("/v2/models/scaled/infer", GOOD).status, 200);
}

#[test]
fn a_server_that_shuts_down_answers_what_it_has_and_takes_no_more() {
    let mut fixture = Fixture::with(&[("slow", SLOW, None)], |_, options| {
        options.drain_delay = Duration::from_millis(500);
    });
    let http = fixture.http();
    let body = endless(1_500);
    let asking = std::thread::spawn(move || {
        send(http, "POST", "/v2/models/slow/infer", &[], body.as_bytes())
    });
    until("the request runs", || {
        fixture
            .get("/metrics")
            .text()
            .contains("kiln_serve_requests_now 2")
    });
    // For a while it is not ready, but still serves requests.
    let watching = std::thread::spawn(move || {
        until("the server is not ready", || {
            send(http, "GET", "/v2/health/ready", &[], b"").status == 503
        });
        send(http, "GET", "/v2", &[], b"").status
    });
    assert!(fixture.shutdown(), "every request is answered");
    assert_eq!(watching.join().unwrap(), 200);
    assert_eq!(asking.join().unwrap().status, 504);
    assert!(TcpStream::connect(http).is_err());
}

#[test]
fn connections_without_a_request_do_not_keep_a_server_from_ending() {
    let mut fixture = Fixture::with(&[("scaled", SCALED, None)], |_, options| {
        options.drain = Duration::from_secs(60);
    });
    let idle = [fixture.http(), fixture.grpc()].map(|address| TcpStream::connect(address).unwrap());
    // A connection that has been used, and is kept alive for another request.
    let mut used = TcpStream::connect(fixture.http()).unwrap();
    used.write_all(b"GET /v2 HTTP/1.1\r\nhost: x\r\n\r\n")
        .unwrap();
    until("all are accepted", || {
        fixture
            .get("/metrics")
            .text()
            .contains("kiln_serve_connections_now 4\n")
    });
    let start = Instant::now();
    assert!(fixture.shutdown());
    assert!(start.elapsed() < Duration::from_secs(20));
    drop((idle, used));
}

#[test]
fn requests_that_outlast_the_drain_are_cut_off() {
    let mut fixture = Fixture::with(&[("slow", SLOW, None)], |_, options| {
        options.drain = Duration::from_millis(100);
    });
    let http = fixture.http();
    let body = endless(60_000);
    let mut stream = TcpStream::connect(http).unwrap();
    let head = format!(
        "POST /v2/models/slow/infer HTTP/1.1\r\nhost: x\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).unwrap();
    stream.write_all(body.as_bytes()).unwrap();
    until("the request runs", || {
        fixture
            .get("/metrics")
            .text()
            .contains("kiln_serve_requests_now 2")
    });
    let start = Instant::now();
    assert!(!fixture.shutdown());
    assert!(start.elapsed() < Duration::from_secs(10));
}

#[test]
fn settings_and_addresses_that_make_no_sense_are_typed_errors() {
    use crate::{Models, Repository, RepositoryOptions, Server, ServerOptions};
    let folder = tempfile::tempdir().unwrap();
    super::support::runtime().block_on(async {
        let options = || RepositoryOptions::new(Models::Folder(folder.path().to_owned()));
        let none = Models::Folder(folder.path().join("nothing"));
        assert_eq!(
            Repository::open(RepositoryOptions::new(none))
                .unwrap_err()
                .code(),
            "E1521"
        );
        let mut no_loads = options();
        no_loads.loads = 0;
        assert_eq!(Repository::open(no_loads).unwrap_err().code(), "E1530");
        let name = Models::File {
            path: "m.onnx".into(),
            name: "a b".to_owned(),
            config: None,
        };
        assert_eq!(
            Repository::open(RepositoryOptions::new(name))
                .unwrap_err()
                .code(),
            "E1530"
        );
        let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let mut server = ServerOptions {
            http: Some(taken.local_addr().unwrap()),
            grpc: None,
            ..ServerOptions::default()
        };
        let start = |options: ServerOptions, repository| Server::start(repository, options);
        let repository = Repository::open(options()).unwrap();
        assert_eq!(
            start(server.clone(), repository.clone())
                .await
                .unwrap_err()
                .code(),
            "E1531"
        );
        server.limits.requests = 0;
        assert_eq!(
            start(server.clone(), repository.clone())
                .await
                .unwrap_err()
                .code(),
            "E1530"
        );
        server.http = None;
        assert_eq!(start(server, repository).await.unwrap_err().code(), "E1530");
    });
}
