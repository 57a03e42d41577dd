//! A server under mixed traffic for a long time: responses stay correct, and memory, descriptors and threads do not
//! grow.
//!
//! `KILN_SOAK_MINUTES` sets how long the ignored test runs; `cargo xtask soak --serve` runs it. The other takes seconds.

use super::served::Served;
use super::support::Workshop;
use std::fs;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// The number of concurrent clients. Each waits for its response, which bounds the traffic.
const CLIENTS: u64 = 4;

/// The resources of a process.
#[derive(Clone, Copy, Debug)]
struct Held {
    resident: u64,
    descriptors: usize,
    threads: usize,
}

impl Held {
    fn by(process: u32) -> Self {
        let folder = format!("/proc/{process}");
        let status = fs::read_to_string(format!("{folder}/status")).unwrap();
        let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let resident = resident
            .unwrap()
            .trim()
            .trim_end_matches(" kB")
            .parse::<u64>();
        let count = |name: &str| fs::read_dir(format!("{folder}/{name}")).unwrap().count();
        Self {
            resident: resident.unwrap() << 10,
            descriptors: count("fd"),
            threads: count("task"),
        }
    }

    /// The same while no client is connected.
    fn at_rest(process: u32) -> Self {
        thread::sleep(Duration::from_millis(500));
        Self::by(process)
    }
}

struct Server(Served);

impl Server {
    fn start(workshop: &Workshop) -> Self {
        let options = [
            "--device",
            "cpu",
            "--grpc",
            "off",
            "--max-connections",
            "64",
        ];
        Self(Served::start(workshop, &options))
    }

    /// Sends a request; returns the status and the body of the response, if there is one.
    fn ask(&self, method: &str, path: &str, body: &str) -> Option<(u16, String)> {
        let mut stream = TcpStream::connect(&self.0.http).ok()?;
        let head = format!(
            "{method} {path} HTTP/1.1\r\nhost: {}\r\nconnection: close\r\ncontent-length: {}\r\n\r\n",
            self.0.http,
            body.len()
        );
        stream.write_all(head.as_bytes()).ok()?;
        stream.write_all(body.as_bytes()).ok()?;
        let mut text = String::new();
        stream.read_to_string(&mut text).ok()?;
        let (head, body) = text.split_once("\r\n\r\n")?;
        let status = head.split(' ').nth(1)?.parse().ok()?;
        Some((status, body.to_owned()))
    }

    /// Sends a valid request, and checks the response.
    fn infer(&self, rows: u64) {
        let values: Vec<String> = (0..rows * 3).map(|value| value.to_string()).collect();
        let body = format!(
            r#"{{"inputs": [{{"name": "x", "shape": [{rows}, 3], "datatype": "FP32", "data": [{}]}},
                {{"name": "scale", "shape": [3], "datatype": "FP32", "data": [1, 10, 100]}}]}}"#,
            values.join(",")
        );
        let (status, answer) = self.ask("POST", "/v2/models/scaled/infer", &body).unwrap();
        assert_eq!(status, 200, "{answer}");
        let answer: serde_json::Value = serde_json::from_str(&answer).unwrap();
        let outputs = answer["outputs"].as_array().unwrap();
        let found: Vec<f64> = outputs[0]["data"]
            .as_array()
            .unwrap()
            .iter()
            .map(|value| value.as_f64().unwrap())
            .collect();
        let expected: Vec<f64> = (0..rows * 3)
            .map(|value| (value * [1, 10, 100][(value % 3) as usize]) as f64)
            .collect();
        assert_eq!(found, expected);
    }

    /// The next piece of a client's traffic.
    fn provoke(&self, number: u64) {
        match number % 16 {
            0 => drop(TcpStream::connect(&self.0.http)),
            1 => {
                // A client that disconnects in the middle of its body.
                let mut stream = TcpStream::connect(&self.0.http).unwrap();
                let _ = stream.write_all(b"POST /v2/models/scaled/infer HTTP/1.1\r\nhost: a\r\ncontent-length: 1000\r\n\r\n{");
                let _ = stream.shutdown(Shutdown::Both);
            }
            2 => {
                let mut stream = TcpStream::connect(&self.0.http).unwrap();
                let _ = stream.write_all(b"\x16\x03\x01 this is not HTTP\r\n\r\n");
            }
            3 => assert_eq!(
                self.ask("POST", "/v2/models/scaled/infer", "{").unwrap().0,
                400
            ),
            4 => assert_eq!(
                self.ask("POST", "/v2/models/nothing/infer", "{}")
                    .unwrap()
                    .0,
                404
            ),
            5 => assert_eq!(self.ask("GET", "/metrics", "").unwrap().0, 200),
            6 if number % 800 == 6 => {
                assert_eq!(
                    self.ask("POST", "/v2/repository/models/scaled/load", "{}")
                        .unwrap()
                        .0,
                    200
                );
            }
            _ => self.infer(1 + number % 7),
        }
    }
}

/// Runs traffic for a while; compares the server's resources after a quarter of the time and at the end.
fn soak(time: Duration) {
    let workshop = Workshop::new();
    let server = Server::start(&workshop);
    let id = server.0.id();
    let sent = AtomicU64::new(0);
    let run = |time: Duration| {
        let (is_over, end) = (AtomicBool::new(false), Instant::now() + time);
        thread::scope(|scope| {
            for client in 0..CLIENTS {
                let (server, sent, is_over) = (&server, &sent, &is_over);
                scope.spawn(move || {
                    for number in client * 5.. {
                        if is_over.load(Ordering::Relaxed) {
                            break;
                        }
                        server.provoke(number);
                        sent.fetch_add(1, Ordering::Relaxed);
                    }
                });
            }
            thread::sleep(end.saturating_duration_since(Instant::now()));
            is_over.store(true, Ordering::Relaxed);
        });
    };
    run(time / 4);
    let before = Held::at_rest(id);
    run(time * 3 / 4);
    let after = Held::at_rest(id);
    println!(
        "{} pieces of traffic: {before:?}, then {after:?}",
        sent.load(Ordering::Relaxed)
    );
    assert!(sent.into_inner() > 100);
    assert!(
        after.descriptors <= before.descriptors + 2,
        "{before:?} {after:?}"
    );
    assert!(after.threads <= before.threads + 2, "{before:?} {after:?}");
    let most = before.resident + before.resident / 10 + (16 << 20);
    assert!(after.resident <= most, "{before:?} {after:?}");
    server.0.end();
}

#[test]
fn mixed_traffic_leaves_nothing_behind() {
    soak(Duration::from_secs(8));
}

#[test]
#[ignore = "takes minutes: `cargo xtask soak --serve`"]
fn a_long_soak_of_a_server() {
    let minutes = std::env::var("KILN_SOAK_MINUTES")
        .ok()
        .and_then(|text| text.parse().ok());
    soak(Duration::from_secs(60 * minutes.unwrap_or(10)));
}
