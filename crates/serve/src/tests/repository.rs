//! Loading and unloading models: versions, reloading, damaged files.

use super::support::Fixture;
use serde_json::json;

fn constant(value: i32) -> String {
    format!(
        "graph @m(%x: f32[N]) -> f32[N] {{
           %c: f32[] = constant [{value}]
           %y = add %x, %c
           return \"y\" = %y
         }}"
    )
}

const ZERO: &str = r#"{"inputs": [{"name": "x", "shape": [1], "datatype": "FP32", "data": [0]}]}"#;

fn value(fixture: &Fixture, path: &str) -> serde_json::Value {
    let response = fixture.post(path, ZERO);
    assert_eq!(response.status, 200, "{}", response.text());
    response.json()["outputs"][0]["data"][0].clone()
}

#[test]
fn the_latest_version_is_served_unless_the_configuration_says_otherwise() {
    let fixture = Fixture::new(&[("m", &constant(1), None)]);
    assert_eq!(value(&fixture, "/v2/models/m/infer"), json!(1.0));
    fixture.write("m/2/model.kiln", &constant(2));
    fixture.write("m/10/model.kiln", &constant(10));
    // Nothing changes until the model is loaded again.
    assert_eq!(value(&fixture, "/v2/models/m/infer"), json!(1.0));
    assert_eq!(
        fixture.post("/v2/repository/models/m/load", "{}").status,
        200
    );
    assert_eq!(value(&fixture, "/v2/models/m/infer"), json!(10.0));
    assert_eq!(
        fixture.post("/v2/models/m/versions/1/infer", ZERO).code(),
        "E1503"
    );
    fixture.write("m/config.json", r#"{"versions": "all"}"#);
    assert_eq!(fixture.post("/v2/repository/models/m/load", "").status, 200);
    assert_eq!(value(&fixture, "/v2/models/m/infer"), json!(10.0));
    assert_eq!(value(&fixture, "/v2/models/m/versions/2/infer"), json!(2.0));
    assert_eq!(
        fixture.get("/v2/models/m").json()["versions"],
        json!(["1", "2", "10"])
    );
    let unload = fixture.post(
        "/v2/repository/models/m/unload",
        r#"{"parameters": {"unload_dependents": false}}"#,
    );
    assert_eq!(unload.status, 200);
    assert_eq!(fixture.post("/v2/models/m/infer", ZERO).code(), "E1504");
    assert_eq!(fixture.get("/v2/models/m/ready").status, 503);
    let ready = fixture.post("/v2/repository/index", r#"{"ready": true}"#);
    assert_eq!(ready.json(), json!([]));
    assert_eq!(fixture.post("/v2/repository/models/m/load", "").status, 200);
    assert_eq!(value(&fixture, "/v2/models/m/infer"), json!(10.0));
}

#[test]
fn models_that_are_added_are_in_the_index_and_can_be_loaded() {
    let fixture = Fixture::new(&[("m", &constant(1), None)]);
    fixture.write("new/1/model.kiln", &constant(7));
    let index = fixture.post("/v2/repository/index", "").json();
    assert_eq!(index[1]["name"], "new");
    assert_eq!(index[1]["state"], "UNAVAILABLE");
    assert_eq!(
        fixture.post("/v2/repository/models/new/load", "").status,
        200
    );
    assert_eq!(value(&fixture, "/v2/models/new/infer"), json!(7.0));
}

#[test]
fn a_model_that_cannot_be_loaded_is_a_state_with_a_reason_and_affects_no_other() {
    let fixture = Fixture::new(&[
        ("good", &constant(1), None),
        ("broken", "graph @m(", None),
        (
            "misconfigured",
            &constant(1),
            Some(r#"{"dims": {"N": "many"}}"#),
        ),
        (
            "unknown-dim",
            &constant(1),
            Some(r#"{"dims": {"M": "1..4"}}"#),
        ),
        (
            "uncompilable",
            &constant(1),
            Some(r#"{"precompile": [{"x": [1, 2]}]}"#),
        ),
    ]);
    fixture.write("empty/readme", "no version");
    fixture.write("bundle/1/model.kiln-bundle", "code");
    fixture.write("both/1/model.kiln", &constant(1));
    fixture.write("both/1/model.onnx", "");
    fixture.write("onnx/1/model.onnx", "no model");
    // The server is ready: waiting will not load what could not be loaded.
    assert_eq!(fixture.get("/v2/health/ready").status, 200);
    for (name, code, part) in [
        ("broken", "E1520", "broken/1/model.kiln: [E01"),
        (
            "misconfigured",
            "E1522",
            "misconfigured/config.json: dims: ",
        ),
        ("unknown-dim", "E1520", "[E0972]"),
        ("empty", "E1521", "expected a folder for a version"),
        ("bundle", "E1521", "bundle_key"),
        ("both", "E1521", "found several"),
        ("onnx", "E1520", "[E09"),
    ] {
        let response = fixture.post(&format!("/v2/repository/models/{name}/load"), "");
        assert_eq!(
            (response.status, response.code().as_str()),
            (503, code),
            "{}",
            response.text()
        );
        assert!(response.text().contains(part), "{}", response.text());
        let index = fixture.post("/v2/repository/index", "").json();
        let entry = index
            .as_array()
            .unwrap()
            .iter()
            .find(|entry| entry["name"] == name)
            .unwrap();
        assert_eq!(entry["state"], "UNAVAILABLE");
        assert!(entry["reason"].as_str().unwrap().contains(part), "{entry}");
        let infer = fixture.post(&format!("/v2/models/{name}/infer"), ZERO);
        assert_eq!((infer.status, infer.code().as_str()), (503, "E1504"));
    }
    assert_eq!(value(&fixture, "/v2/models/good/infer"), json!(1.0));
}

#[test]
fn what_was_served_is_still_served_when_loading_it_again_fails() {
    let fixture = Fixture::new(&[("m", &constant(1), None)]);
    fixture.write("m/1/model.kiln", "graph @m(");
    let response = fixture.post("/v2/repository/models/m/load", "");
    assert_eq!((response.status, response.code().as_str()), (503, "E1520"));
    assert_eq!(value(&fixture, "/v2/models/m/infer"), json!(1.0));
    let index = fixture.post("/v2/repository/index", "").json();
    assert_eq!(index[0]["state"], "READY");
    assert!(
        index[0]["reason"]
            .as_str()
            .unwrap()
            .starts_with("loading it again failed")
    );
}

#[test]
fn parameters_of_loading_that_would_change_the_model_are_refused() {
    let fixture = Fixture::new(&[("m", &constant(1), None)]);
    let body = r#"{"parameters": {"config": "{}", "file:1/model.onnx": "AAAA"}}"#;
    let response = fixture.post("/v2/repository/models/m/load", body);
    assert_eq!((response.status, response.code().as_str()), (400, "E1512"));
}

#[cfg(feature = "blueprints")]
#[test]
fn a_blueprint_is_served() {
    let fixture = Fixture::new(&[("m", &constant(1), None)]);
    let blueprint = r#"{"blueprint": 1, "name": "b", "symbols": [{"name": "N"}],
      "inputs": [{"name": "x", "dtype": "f32", "shape": ["N", 4]}],
      "nodes": [{"kind": "relu", "operands": ["x"], "results": ["y"]}],
      "outputs": [{"name": "y", "value": "y"}]}"#;
    fixture.write("b/1/model.json", blueprint);
    assert_eq!(fixture.post("/v2/repository/models/b/load", "").status, 200);
    assert_eq!(
        fixture.get("/v2/models/b").json()["inputs"][0]["shape"],
        json!([-1, 4])
    );
    fixture.write("b/1/model.json", "{}");
    assert_eq!(
        fixture.post("/v2/repository/models/b/load", "").code(),
        "E1520"
    );
}
