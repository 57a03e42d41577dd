//! The protocol over HTTP.

use super::support::{Fixture, SCALED, send};
use flate2::Compression;
use flate2::write::{GzEncoder, ZlibEncoder};
use serde_json::json;
use std::io::Write;

fn scaled() -> Fixture {
    Fixture::new(&[("scaled", SCALED, None)])
}

const REQUEST: &str = r#"{"id": "seven", "inputs": [
  {"name": "x", "shape": [2, 3], "datatype": "FP32", "data": [[1, 2, 3], [4, 5, 6.5]]},
  {"name": "scale", "shape": [2, 3], "datatype": "FP32", "data": [1, 10, 100, 1, 10, 100]}]}"#;

#[test]
fn the_server_and_its_models_describe_themselves() {
    let fixture = scaled();
    assert_eq!(fixture.get("/v2/health/live").status, 200);
    assert_eq!(fixture.get("/v2/health/ready").status, 200);
    let server = fixture.get("/v2").json();
    assert_eq!(server["name"], "kiln");
    assert!(
        server["extensions"]
            .as_array()
            .unwrap()
            .contains(&json!("binary_tensor_data"))
    );
    let expected = json!({
        "name": "scaled",
        "versions": ["1"],
        "platform": "kiln",
        "inputs": [
            {"name": "x", "datatype": "FP32", "shape": [-1, 3]},
            {"name": "scale", "datatype": "FP32", "shape": [-1, 3]},
        ],
        "outputs": [
            {"name": "y", "datatype": "FP32", "shape": [-1, 3]},
            {"name": "total", "datatype": "FP32", "shape": [-1]},
        ],
    });
    assert_eq!(fixture.get("/v2/models/scaled").json(), expected);
    assert_eq!(fixture.get("/v2/models/scaled/versions/1").json(), expected);
    assert_eq!(
        fixture.get("/v2/models/scaled/versions/1/ready").status,
        200
    );
    let config = fixture.get("/v2/models/scaled/config").json();
    assert_eq!(config["input"][0]["data_type"], "TYPE_FP32");
    let index = fixture.post("/v2/repository/index", "").json();
    assert_eq!(
        index,
        json!([{"name": "scaled", "version": "1", "state": "READY", "reason": ""}])
    );
}

#[test]
fn json_tensors_are_computed() {
    let fixture = scaled();
    let response = fixture.post("/v2/models/scaled/infer", REQUEST);
    assert_eq!(response.status, 200, "{}", response.text());
    assert_eq!(
        response.json(),
        json!({
            "model_name": "scaled",
            "model_version": "1",
            "id": "seven",
            "outputs": [
                {"name": "y", "datatype": "FP32", "shape": [2, 3], "data": [1.0, 20.0, 300.0, 4.0, 50.0, 650.0]},
                {"name": "total", "datatype": "FP32", "shape": [2], "data": [321.0, 704.0]},
            ],
        })
    );
    // Only the requested outputs, in that order.
    let mut request: serde_json::Value = serde_json::from_str(REQUEST).unwrap();
    request["outputs"] = json!([{"name": "total"}]);
    let response = fixture.post("/v2/models/scaled/versions/1/infer", &request.to_string());
    let outputs = &response.json()["outputs"];
    assert_eq!(outputs.as_array().unwrap().len(), 1);
    assert_eq!(outputs[0]["name"], "total");
}

#[test]
fn binary_tensors_follow_the_json() {
    let fixture = scaled();
    let json = json!({
        "inputs": [
            {"name": "x", "shape": [1, 3], "datatype": "FP32", "parameters": {"binary_data_size": 12}},
            {"name": "scale", "shape": [1, 3], "datatype": "FP32", "data": [1, 1, 2]},
        ],
        "outputs": [
            {"name": "y", "parameters": {"binary_data": true}},
            {"name": "total", "parameters": {"binary_data": false}},
        ],
    })
    .to_string();
    let mut body = json.clone().into_bytes();
    body.extend(
        [1.0f32, 2.0, 3.0]
            .iter()
            .flat_map(|value| value.to_le_bytes()),
    );
    let length = json.len().to_string();
    let headers = [("Inference-Header-Content-Length", length.as_str())];
    let response = send(
        fixture.http(),
        "POST",
        "/v2/models/scaled/infer",
        &headers,
        &body,
    );
    assert_eq!(response.status, 200, "{}", response.text());
    let length: usize = response
        .header("inference-header-content-length")
        .unwrap()
        .parse()
        .unwrap();
    let (json, binary) = response.body.split_at(length);
    let document: serde_json::Value = serde_json::from_slice(json).unwrap();
    assert_eq!(document["outputs"][0]["parameters"]["binary_data_size"], 12);
    assert!(document["outputs"][0].get("data").is_none());
    assert_eq!(document["outputs"][1]["data"], json!([9.0]));
    let values: Vec<f32> = binary
        .chunks(4)
        .map(|four| f32::from_le_bytes(four.try_into().unwrap()))
        .collect();
    assert_eq!(values, [1.0, 2.0, 6.0]);
    // All outputs, unless one is configured otherwise.
    let mut request: serde_json::Value = serde_json::from_str(REQUEST).unwrap();
    request["parameters"] = json!({"binary_data_output": true});
    let response = fixture.post("/v2/models/scaled/infer", &request.to_string());
    assert_eq!(
        response.header("content-type"),
        Some("application/octet-stream")
    );
    let length: usize = response
        .header("inference-header-content-length")
        .unwrap()
        .parse()
        .unwrap();
    assert_eq!(response.body.len() - length, 4 * (6 + 2));
}

#[test]
fn compressed_requests_are_read() {
    let fixture = scaled();
    let mut gzip = GzEncoder::new(Vec::new(), Compression::default());
    gzip.write_all(REQUEST.as_bytes()).unwrap();
    let mut deflate = ZlibEncoder::new(Vec::new(), Compression::default());
    deflate.write_all(REQUEST.as_bytes()).unwrap();
    for (encoding, body) in [
        ("GZIP", gzip.finish().unwrap()),
        ("deflate", deflate.finish().unwrap()),
    ] {
        let headers = [("content-encoding", encoding)];
        let response = send(
            fixture.http(),
            "POST",
            "/v2/models/scaled/infer",
            &headers,
            &body,
        );
        assert_eq!(response.status, 200, "{}", response.text());
        let headers = [("content-encoding", encoding)];
        let cut = &body[..body.len() / 2];
        let response = send(
            fixture.http(),
            "POST",
            "/v2/models/scaled/infer",
            &headers,
            cut,
        );
        assert_eq!((response.status, response.code().as_str()), (400, "E1501"));
    }
}

#[test]
fn statistics_metrics_and_the_status_page_show_what_was_done() {
    let fixture = scaled();
    fixture.post("/v2/models/scaled/infer", REQUEST);
    fixture.post("/v2/models/scaled/infer", r#"{"inputs": []}"#);
    fixture.post("/v2/models/nothing/infer", REQUEST);
    let stats = fixture.get("/v2/models/scaled/stats").json();
    let stats = &stats["model_stats"][0];
    assert_eq!(stats["inference_count"], 2);
    assert_eq!(stats["execution_count"], 1);
    assert_eq!(stats["inference_stats"]["success"]["count"], 1);
    assert_eq!(stats["inference_stats"]["fail"]["count"], 1);
    assert_eq!(stats["batch_stats"][0]["batch_size"], 2);
    assert_eq!(
        fixture.get("/v2/models/stats").json()["model_stats"]
            .as_array()
            .unwrap()
            .len(),
        1
    );
    let metrics = fixture.get("/metrics");
    assert!(
        metrics
            .header("content-type")
            .unwrap()
            .starts_with("application/openmetrics-text")
    );
    let text = metrics.text();
    for line in [
        "kiln_serve_requests_total{model=\"scaled\",version=\"1\",outcome=\"ok\"} 1",
        "kiln_serve_requests_total{model=\"scaled\",version=\"1\",outcome=\"E1502\"} 1",
        "kiln_serve_refused_total{protocol=\"http\",code=\"E1503\"} 1",
        "kiln_serve_model_ready{model=\"scaled\",version=\"1\"} 1",
        "kiln_serve_queue_length{model=\"scaled\",version=\"1\"} 0",
        "kiln_serve_batch_size_sum{model=\"scaled\",version=\"1\"} 2.0",
        "kiln_serve_compiles_total{model=\"scaled\",version=\"1\"} 0",
    ] {
        assert!(text.lines().any(|found| found == line), "{line} in\n{text}");
    }
    assert!(text.ends_with("# EOF\n"));
    let page = fixture.get("/");
    assert!(
        page.header("content-type")
            .unwrap()
            .starts_with("text/html")
    );
    assert!(
        page.text().contains("<td>scaled<td>1<td class=READY>READY"),
        "{}",
        page.text()
    );
}
