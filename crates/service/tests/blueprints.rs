//! Blueprints: reading with positions, validation, conversion both ways, order, builder code, the published schema.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

#[path = "generated/attention_block.rs"]
mod generated_attention_block;

use kiln::Tensor;
use kiln::internals::interpreter::{InterpretOptions, interpret};
use kiln::internals::ir::{Graph, text};
use kiln_service::ServiceError;
use kiln_service::blueprint::{Blueprint, BlueprintLimits, STANDARD, json_schema};
use kiln_service::convert::{GraphConverter, OrderingMethod, kinds};
use std::path::Path;

fn limits() -> BlueprintLimits {
    BlueprintLimits::default()
}

fn standard(name: &str) -> Blueprint {
    let found = STANDARD.iter().find(|standard| standard.name == name);
    Blueprint::from_json(found.unwrap().json, &limits()).unwrap()
}

/// Tensors for a graph's inputs, with every symbol at `size`, or at the nearest size that it allows.
fn inputs(graph: &Graph, size: i64) -> Vec<Tensor> {
    let dims = graph.dims();
    let tensors = graph.inputs().iter().map(|&input| {
        let ty = graph.tensor_ty(input).unwrap();
        let sizes = ty.dims.iter().map(|&dim| match dims.as_constant(dim) {
            Some(size) => size as usize,
            None => {
                let info = dims.symbol_info(dims.as_symbol(dim).unwrap());
                let multiple = info.multiple().max(1);
                (size.max(info.min()) as usize).next_multiple_of(multiple as usize)
            }
        });
        let shape: Vec<usize> = sizes.collect();
        let count = shape.iter().product::<usize>();
        let numbers: Vec<f64> = (0..count)
            .map(|at| ((at * 7 + 3) % 11) as f64 / 11.0)
            .collect();
        Tensor::from_f64_slice(ty.dtype, &shape, &numbers).unwrap()
    });
    tensors.collect()
}

fn without_origins(graph: &Graph) -> String {
    let text = text::print(graph);
    let lines = text
        .lines()
        .map(|line| line.split(" from \"").next().unwrap_or_default());
    lines.collect::<Vec<_>>().join("\n")
}

fn run(graph: &Graph, inputs: &[Tensor]) -> Vec<Tensor> {
    interpret(graph, inputs, &InterpretOptions::default()).unwrap()
}

#[test]
fn the_standard_set_converts_and_survives_the_way_back() {
    for standard in STANDARD {
        let blueprint = Blueprint::from_json(standard.json, &limits()).unwrap();
        assert_eq!(blueprint.name, standard.name);
        let graph = GraphConverter::default().convert(&blueprint).unwrap();
        let back = Blueprint::from_graph(&graph).unwrap();
        let again = GraphConverter::default().convert(&back).unwrap();
        for size in [1, 2] {
            let inputs = inputs(&graph, size);
            let (first, second) = (run(&graph, &inputs), run(&again, &inputs));
            assert!(
                first[0].bit_equal(&second[0]),
                "{} at {size}",
                standard.name
            );
        }
        // Written and read back it is the same, and the blueprint of its own graph is a fixed point.
        let read = Blueprint::from_json(&back.to_json(), &limits()).unwrap();
        assert_eq!(read, back);
        let fixed = Blueprint::from_graph(&again).unwrap();
        let third = GraphConverter::default().convert(&fixed).unwrap();
        // Origins are the positions of nodes in the document, which may have moved.
        assert_eq!(
            without_origins(&third),
            without_origins(&again),
            "{}",
            standard.name
        );
    }
}

#[test]
fn a_dense_layer_computes_what_it_says() {
    let graph = GraphConverter::default()
        .convert(&standard("dense"))
        .unwrap();
    let x = Tensor::full(&[3, 256], 1.0f32).unwrap();
    let w = Tensor::full(&[256, 128], 0.5f32).unwrap();
    let bias = Tensor::full(&[128], 2.0f32).unwrap();
    let y = run(&graph, &[x, w, bias]);
    assert_eq!(y[0].shape(), [3, 128]);
    assert_eq!(y[0].to_vec::<f32>().unwrap(), vec![130.0; 3 * 128]);
}

#[test]
fn padding_same_keeps_the_size_rounded_up() {
    let json = r#"{"blueprint": 1, "name": "same",
      "inputs": [{"name": "x", "dtype": "f32", "shape": [1, 1, "H", 5]},
                 {"name": "w", "dtype": "f32", "shape": [1, 1, 3, 3]}],
      "nodes": [{"kind": "conv2d", "operands": ["x", "w"], "results": ["y"],
                 "attributes": {"padding": "same", "stride": [1, 2]}}],
      "outputs": [{"name": "y", "value": "y"}]}"#;
    let blueprint = Blueprint::from_json(json, &limits()).unwrap();
    let graph = GraphConverter::default().convert(&blueprint).unwrap();
    let y = run(&graph, &inputs(&graph, 4));
    assert_eq!(y[0].shape(), [1, 1, 4, 3]);
}

/// A document with these nodes over `x: f32[N, 4]`.
fn document(nodes: &str) -> String {
    format!(
        "{{\n  \"blueprint\": 1,\n  \"name\": \"f\",\n  \"inputs\": [{{\"name\": \"x\", \"dtype\": \"f32\", \"shape\": [\"N\", 4]}}],\n  \
         \"nodes\": [\n    {nodes}\n  ],\n  \"outputs\": [{{\"name\": \"y\", \"value\": \"y\"}}]\n}}"
    )
}

fn refusal(json: &str) -> ServiceError {
    let read = Blueprint::from_json(json, &limits());
    read.and_then(|blueprint| GraphConverter::default().convert(&blueprint))
        .unwrap_err()
}

#[test]
fn every_defect_has_a_code_and_a_place() {
    let node = |text: &str| document(text);
    let cases = [
        ("{", "E1401", "line 1, column 1"),
        (r#"{"blueprint": 1, "name": 7}"#, "E1401", "name (line 1, column 26)"),
        (r#"{"blueprint": 9, "shape": []}"#, "E1402", "blueprint (line 1, column 15)"),
        (&node(r#"{"kind": "relu", "operands": ["x"], "results": ["x"]}"#), "E1404", "nodes[0].results[0] (line 6, column 53)"),
        (&node(r#"{"kind": "relu", "operands": ["z"], "results": ["y"]}"#), "E1405", "nodes[0].operands[0] (line 6, column 35)"),
        (&node(r#"{"kind": "relu", "operands": ["y"], "results": ["y"]}"#), "E1406", "nodes[0] (line 6, column 5)"),
        (&node(r#"{"kind": "frob", "operands": ["x"], "results": ["y"]}"#), "E1407", "nodes[0].kind (line 6, column 14)"),
        (&node(r#"{"kind": "add", "operands": ["x"], "results": ["y"]}"#), "E1408", "expected 2 operands, found 1"),
        (&node(r#"{"kind": "softmax", "operands": ["x"], "results": ["y"], "attributes": {"axis": 2}}"#), "E1409", "nodes[0].attributes.axis (line 6, column 85)"),
        (&node(r#"{"kind": "softmax", "operands": ["x"], "results": ["y"], "attributes": {"exis": 1}}"#), "E1409", "softmax has no attribute `exis`"),
        (&node(r#"{"kind": "concat", "operands": ["x"], "results": ["y"], "attributes": {"axis": "a"}}"#), "E1409", "expected an integer of 0 or more"),
        (&node(r#"{"kind": "reshape", "operands": ["x"], "results": ["y"], "attributes": {"dims": ["N*"]}}"#), "E1410", "nodes[0].attributes.dims (line 6, column 85)"),
        (&node(r#"{"kind": "matmul", "operands": ["x", "x"], "results": ["y"]}, {"kind": "cast", "operands": ["y"], "results": ["z"], "attributes": {"to": "i8"}}"#).replace("\"N\", 4", "3, 4"), "E1411", "nodes[0] (line 6, column 5)"),
    ];
    for (json, code, said) in cases {
        let error = refusal(json);
        assert_eq!(error.code(), code, "{json}\n{error}");
        assert!(error.to_string().contains(said), "{json}\n{error}");
    }
}

#[test]
fn limits_are_enforced_before_anything_is_built() {
    let json = document(r#"{"kind": "relu", "operands": ["x"], "results": ["y"]}"#);
    let small = BlueprintLimits {
        json_bytes: 64,
        ..limits()
    };
    assert_eq!(
        Blueprint::from_json(&json, &small).unwrap_err().code(),
        "E1403"
    );
    let blueprint = Blueprint::from_json(&json, &limits()).unwrap();
    let none = BlueprintLimits {
        nodes: 0,
        ..limits()
    };
    assert_eq!(blueprint.validate(&none).unwrap_err().code(), "E1403");
    let short = BlueprintLimits {
        list: 0,
        ..limits()
    };
    assert_eq!(blueprint.validate(&short).unwrap_err().code(), "E1403");
    let large = document(
        r#"{"kind": "constant", "results": ["y"], "attributes": {"value": {"dtype": "f64", "shape": [4000000000, 4000000000], "data": []}}}"#,
    );
    assert_eq!(refusal(&large).code(), "E1409");
}

#[test]
fn constants_keep_every_bit() {
    let bits = [f32::NAN, -0.0, f32::INFINITY, 1.0e-45, 0.1];
    let digits: String = bits
        .iter()
        .flat_map(|x| x.to_le_bytes())
        .map(|byte| format!("{byte:02x}"))
        .collect();
    let json = document(&format!(
        r#"{{"kind": "constant", "results": ["y"], "attributes": {{"value": {{"dtype": "f32", "shape": [5], "bytes": "{digits}"}}}}}}"#
    ));
    let blueprint = Blueprint::from_json(&json, &limits()).unwrap();
    let graph = GraphConverter::default().convert(&blueprint).unwrap();
    let expected = Tensor::from_slice(&[5], &bits).unwrap();
    assert!(run(&graph, &inputs(&graph, 2))[0].bit_equal(&expected));
    let again = GraphConverter::default()
        .convert(&Blueprint::from_graph(&graph).unwrap())
        .unwrap();
    assert!(run(&again, &inputs(&graph, 2))[0].bit_equal(&expected));
    let fraction = document(
        r#"{"kind": "constant", "results": ["y"], "attributes": {"value": {"dtype": "i32", "shape": [1], "data": [2.5]}}}"#,
    );
    assert_eq!(refusal(&fraction).code(), "E1409");
}

#[test]
fn the_order_has_the_fewest_live_bytes_of_all_orders() {
    // Two wide branches: if they run one after the other, only one wide value is live at a time.
    let wide = |name: &str| {
        format!(
            r#"{{"kind": "broadcast", "operands": ["s{name}"], "results": ["w{name}"], "attributes": {{"dims": ["N", 4, 1000]}}}},
               {{"kind": "reduce", "operands": ["w{name}"], "results": ["r{name}"], "attributes": {{"function": "sum", "axes": [2]}}}},
               {{"kind": "reshape", "operands": ["x"], "results": ["s{name}"], "attributes": {{"dims": ["N", 4, 1]}}}}"#
        )
    };
    let nodes = format!(
        r#"{{"kind": "add", "operands": ["ra", "rb"], "results": ["y"]}}, {}, {}"#,
        wide("a"),
        wide("b")
    );
    let blueprint = Blueprint::from_json(&document(&nodes), &limits()).unwrap();
    let order = GraphConverter::default().order(&blueprint).unwrap();
    assert_eq!(order.method, OrderingMethod::Exact);
    let row = 32 * 4 * 4;
    // A wide value, its operand, and one result of the other branch.
    assert_eq!(order.peak_bytes, 1000 * row + 2 * row);
    let at = |name: &str| {
        order
            .nodes
            .iter()
            .position(|&node| blueprint.nodes[node].results[0] == name)
            .unwrap()
    };
    assert!(at("ra") < at("wb") || at("rb") < at("wa"));
    assert!(at("sa") < at("wa") && at("wa") < at("ra") && at("ra") < at("y"));
}

#[test]
fn a_longer_blueprint_is_ordered_greedily_and_no_worse_than_given() {
    // Twenty branches: in the document, all are widened before any is reduced.
    let branch = |part: &str| {
        let nodes = (0..20).map(|n| match part {
            "wide" => format!(
                r#"{{"kind": "broadcast", "operands": ["x"], "results": ["w{n}"], "attributes": {{"dims": [100, "N", 4]}}}}"#
            ),
            _ => format!(
                r#"{{"kind": "reduce", "operands": ["w{n}"], "results": ["r{n}"], "attributes": {{"function": "sum", "axes": [0]}}}}"#
            ),
        });
        nodes.collect::<Vec<_>>().join(", ")
    };
    let names: Vec<String> = (0..20).map(|n| format!("\"r{n}\"")).collect();
    let join = format!(
        r#"{{"kind": "concat", "operands": [{}], "results": ["y"], "attributes": {{"axis": 0}}}}"#,
        names.join(", ")
    );
    let nodes = format!("{}, {}, {join}", branch("wide"), branch("narrow"));
    let blueprint = Blueprint::from_json(&document(&nodes), &limits()).unwrap();
    let order = GraphConverter::default().order(&blueprint).unwrap();
    assert_eq!(order.method, OrderingMethod::Greedy);
    let row = 32 * 4 * 4;
    // One wide value at a time; at the end, the 20 results and their concatenation.
    assert_eq!(order.peak_bytes, 100 * row + 20 * row);
}

#[test]
fn builder_code_compiles_and_builds_the_same_graph() {
    let blueprint = standard("attention_block");
    let converter = GraphConverter::default();
    let code = converter.builder_code(&blueprint).unwrap();
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/generated/attention_block.rs");
    let expected = format!(
        "//! What `GraphConverter::builder_code` writes for the blueprint `attention_block`.\n#![allow(unused_imports, unreachable_pub, missing_docs, reason = \"generated\")]\n#![cfg_attr(rustfmt, rustfmt_skip)]\n\n{code}"
    );
    if std::env::var_os("KILN_BLESS").is_some() {
        std::fs::write(&path, &expected).unwrap();
    }
    let written = std::fs::read_to_string(&path).unwrap();
    assert_eq!(written, expected, "run this test with KILN_BLESS=1");
    let built = generated_attention_block::attention_block().unwrap();
    let graph = converter.convert(&blueprint).unwrap();
    let inputs = inputs(&graph, 3);
    assert!(run(&built, &inputs)[0].bit_equal(&run(&graph, &inputs)[0]));
}

#[test]
fn the_published_schema_is_that_of_the_types() {
    let path =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/schemas/blueprint-1.schema.json");
    if std::env::var_os("KILN_BLESS").is_some() {
        std::fs::write(&path, json_schema()).unwrap();
    }
    assert_eq!(
        std::fs::read_to_string(path).unwrap(),
        json_schema(),
        "run this test with KILN_BLESS=1"
    );
}

#[test]
fn kinds_have_one_row_each_and_cover_the_graphs_ops() {
    let mut names: Vec<&str> = kinds().map(|kind| kind.name).collect();
    let count = names.len();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), count, "a kind has two rows");
    for name in [
        "dense", "conv2d", "relu", "matmul", "gather", "top_k", "suppress",
    ] {
        assert!(names.contains(&name), "{name}");
    }
}

#[test]
fn control_flow_has_no_blueprint() {
    let text = "graph @f(%x: f32[N], %n: i64[1]) -> f32[m] {
      bind %n -> (m)
      %s = slice %x {starts = [0], sizes = [m], steps = [1]}
      return %s
    }";
    let model = kiln::Model::load(kiln::Source::text(text)).unwrap();
    let graph = kiln::diagnose::graph(&model, kiln::diagnose::Stage::all()[0]).unwrap();
    assert_eq!(Blueprint::from_graph(&graph).unwrap_err().code(), "E1412");
}

#[test]
fn damaged_documents_are_refused_and_never_panic() {
    let mut state = 1u64;
    let mut random = |bound: usize| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % bound
    };
    let words = [
        "-1",
        "0",
        "9223372036854775807",
        "\"N\"",
        "\"\"",
        "[]",
        "{}",
        "null",
        "1e999",
        "\"N / 0\"",
        "\"x\"",
    ];
    let mut accepted = 0;
    for standard in STANDARD {
        for _ in 0..150 {
            let mut bytes = standard.json.as_bytes().to_vec();
            for _ in 0..=random(2) {
                let at = random(bytes.len());
                match random(3) {
                    0 => bytes[at] = b"\"{}[],:0-xN "[random(12)],
                    1 => drop(bytes.remove(at)),
                    _ => {
                        // A number or a name is replaced by another value.
                        let is_part = |byte: &u8| byte.is_ascii_digit();
                        let Some(start) =
                            bytes[at..].iter().position(is_part).map(|found| at + found)
                        else {
                            continue;
                        };
                        let length = bytes[start..]
                            .iter()
                            .take_while(|byte| is_part(byte))
                            .count();
                        let word = words[random(words.len())].bytes();
                        bytes.splice(start..start + length, word);
                    }
                }
            }
            let text = String::from_utf8_lossy(&bytes);
            let read = Blueprint::from_json(&text, &limits());
            match read.and_then(|blueprint| GraphConverter::default().convert(&blueprint)) {
                Ok(_) => accepted += 1,
                Err(error) => assert!(error.code().starts_with("E14"), "{error}"),
            }
        }
    }
    // Most damage is detected, and some is harmless.
    assert!((1..600).contains(&accepted), "{accepted}");
}
