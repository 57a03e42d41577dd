//! Batched requests, end to end: the responses are the same as for single requests.

use super::support::{Fixture, PICKED, SCALED, send};
use serde_json::{Value, json};
use std::sync::{Arc, Barrier};
use std::time::Duration;

/// A configuration that batches up to this many rows, and waits long enough for every request of a test.
pub(super) fn joining(max_batch: usize) -> String {
    format!(r#"{{"batching": {{"enabled": true, "max_batch": {max_batch}, "max_delay_ms": 400}}}}"#)
}

pub(super) fn scaled(rows: usize, seed: usize) -> Value {
    let data: Vec<f32> = (0..rows * 3)
        .map(|index| (index * 7 + seed) as f32 / 4.0)
        .collect();
    json!({"id": seed.to_string(), "inputs": [
        {"name": "x", "shape": [rows, 3], "datatype": "FP32", "data": data},
        {"name": "scale", "shape": [rows, 3], "datatype": "FP32", "data": data},
    ]})
}

/// Sends requests at the same time; returns their responses in the same order.
pub(super) fn at_once(fixture: &Fixture, model: &str, requests: &[Value]) -> Vec<Value> {
    let start = Arc::new(Barrier::new(requests.len()));
    let http = fixture.http();
    let path = format!("/v2/models/{model}/infer");
    let asking: Vec<_> = requests
        .iter()
        .map(|request| {
            let (start, path, body) = (Arc::clone(&start), path.clone(), request.to_string());
            std::thread::spawn(move || {
                start.wait();
                send(http, "POST", &path, &[], body.as_bytes()).json()
            })
        })
        .collect();
    asking
        .into_iter()
        .map(|asking| asking.join().unwrap())
        .collect()
}

fn stats(fixture: &Fixture, model: &str) -> Value {
    fixture.get(&format!("/v2/models/{model}/stats")).json()["model_stats"][0].clone()
}

#[test]
fn requests_of_different_lengths_are_joined_and_get_their_own_answers() {
    let alone = Fixture::new(&[(
        "scaled",
        SCALED,
        Some(r#"{"batching": {"enabled": false}}"#),
    )]);
    let joined = Fixture::new(&[("scaled", SCALED, Some(&joining(10)))]);
    // Ten rows: the batch is full when the last request arrives.
    let requests: Vec<Value> = [1, 4, 2, 0, 3]
        .iter()
        .enumerate()
        .map(|(seed, &rows)| scaled(rows, seed))
        .collect();
    let answers = at_once(&joined, "scaled", &requests);
    for (request, answer) in requests.iter().zip(&answers) {
        let expected = at_once(&alone, "scaled", std::slice::from_ref(request));
        assert_eq!(answer, &expected[0]);
    }
    let stats = stats(&joined, "scaled");
    assert_eq!(stats["inference_count"], 10);
    assert!(stats["execution_count"].as_u64().unwrap() < 5, "{stats}");
    assert_eq!(stats["inference_stats"]["success"]["count"], 5);
    let metrics = joined.get("/metrics");
    assert!(!metrics.text().contains("kiln_serve_separated_calls_total{"));
    assert!(
        joined.get("/").text().contains("<td>N"),
        "the page names the symbol"
    );
}

#[test]
fn a_request_that_fails_fails_alone() {
    let fixture = Fixture::new(&[("picked", PICKED, Some(&joining(3)))]);
    let request = |index: i64| {
        json!({"inputs": [
            {"name": "rows", "shape": [1, 4], "datatype": "FP32", "data": [0, 1, 2, 3]},
            {"name": "index", "shape": [1, 1], "datatype": "INT64", "data": [index]},
        ]})
    };
    let answers = at_once(&fixture, "picked", &[request(1), request(99), request(3)]);
    assert_eq!(answers[0]["outputs"][0]["data"], json!([1.0]));
    assert_eq!(answers[2]["outputs"][0]["data"], json!([3.0]));
    assert!(
        answers[1]["code"].as_str().unwrap().starts_with("E08"),
        "{}",
        answers[1]
    );
    let line = "kiln_serve_separated_calls_total{model=\"picked\",version=\"1\"} 1";
    assert!(
        fixture
            .get("/metrics")
            .text()
            .lines()
            .any(|found| found == line)
    );
}

#[test]
fn requests_with_other_sizes_that_differ_are_computed_apart() {
    let text = "graph @mapped(%x: f32[N, M]) -> f32[N, M] { %y = neg %x return \"y\" = %y }";
    let fixture = Fixture::new(&[("mapped", text, Some(&joining(2)))]);
    let request = |columns: usize| json!({"inputs": [{"name": "x", "shape": [1, columns], "datatype": "FP32", "data": vec![1.0; columns]}]});
    let answers = at_once(
        &fixture,
        "mapped",
        &[request(2), request(3), request(2), request(3)],
    );
    for (answer, columns) in answers.iter().zip([2, 3, 2, 3]) {
        assert_eq!(answer["outputs"][0]["shape"], json!([1, columns]));
    }
    assert_eq!(stats(&fixture, "mapped")["execution_count"], 2);
}

const NORMALISED: &str = "graph @normalised(%x: f32[N, 2]) -> f32[N, 2] {
  %m = reduce %x {function = mean, axes = [0], keep_dims}
  %y = sub %x, %m
  return \"y\" = %y
}";

#[test]
fn a_model_that_mixes_its_batch_is_never_joined_silently() {
    let fixture = Fixture::with(&[("normalised", NORMALISED, None)], |options, _| {
        options.serving.max_delay = Duration::from_millis(400);
    });
    let request = |value: f32| json!({"inputs": [{"name": "x", "shape": [1, 2], "datatype": "FP32", "data": [value, value]}]});
    // In one batch, the mean would be over both.
    for answer in at_once(&fixture, "normalised", &[request(1.0), request(5.0)]) {
        assert_eq!(answer["outputs"][0]["data"], json!([0.0, 0.0]));
    }
    assert_eq!(stats(&fixture, "normalised")["execution_count"], 2);
    let page = fixture.get("/");
    assert!(
        page.text().contains("not joined: reduce"),
        "{}",
        page.text()
    );
}

#[test]
fn asking_to_join_what_cannot_be_is_an_error_that_names_the_configuration() {
    let fixture = Fixture::new(&[("normalised", NORMALISED, Some(&joining(4)))]);
    let index = fixture.post("/v2/repository/index", "").json();
    assert_eq!(index[0]["state"], "UNAVAILABLE");
    let reason = index[0]["reason"].as_str().unwrap();
    assert!(
        reason.starts_with("[E1523]")
            && reason.contains("config.json")
            && reason.contains("reduce"),
        "{reason}"
    );
    // The operator may assert that the model is independent.
    let vouched = r#"{"batching": {"enabled": true, "assume_independent": true}}"#;
    fixture.write("normalised/config.json", vouched);
    assert_eq!(
        fixture
            .post("/v2/repository/models/normalised/load", "")
            .status,
        200
    );
}
