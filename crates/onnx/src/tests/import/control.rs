//! `If`, `Loop` and `Scan`: captures, carried values, stacked values, nesting.

use kiln_tensor::{DType, Tensor};

use super::net::*;
use crate::ImportOptions;
use crate::proto::{AttributeProto, GraphProto, NodeProto};

fn branches(then: GraphProto, otherwise: GraphProto) -> Vec<AttributeProto> {
    vec![body("then_branch", then), body("else_branch", otherwise)]
}

fn plain(nodes: Vec<NodeProto>, outputs: &[&str]) -> GraphProto {
    graph(vec![], vec![], nodes, outputs)
}

/// `if c { x + x } else { relu(x) * two }`, with `two` a constant of the outer graph.
fn choice() -> GraphProto {
    let then = plain(vec![node("Add", "x x", "t", vec![])], &["t"]);
    let otherwise = plain(
        vec![
            node("Relu", "x", "r", vec![]),
            node("Mul", "r two", "e", vec![]),
        ],
        &["e"],
    );
    graph(
        vec![input("c", DType::Bool, &[]), input("x", DType::F32, &["N"])],
        vec![initializer("two", &Tensor::scalar(2.0_f32))],
        vec![node("If", "c", "y", branches(then, otherwise))],
        &["y"],
    )
}

#[test]
fn a_condition_takes_a_branch_that_captures_from_outside() {
    let x = f32s(&[2], &[-3.0, 4.0]);
    let yes = outputs(choice(), &[Tensor::scalar(true), x.clone()]);
    assert_eq!(yes[0].to_vec::<f32>().unwrap(), [-6.0, 8.0]);
    let no = outputs(choice(), &[Tensor::scalar(false), x]);
    assert_eq!(no[0].to_vec::<f32>().unwrap(), [0.0, 8.0]);
}

#[test]
fn a_known_condition_leaves_one_branch_and_no_control_flow() {
    let options = ImportOptions::new().fix("c", Tensor::scalar(true));
    let graph = imported(&of_version(choice(), 17), &options).unwrap();
    assert!(graph.ops().all(|(_, op)| op.regions.is_empty()));
    let y = run(&graph, &[f32s(&[1], &[2.5])]);
    assert_eq!(y[0].to_vec::<f32>().unwrap(), [5.0]);
}

#[test]
fn branches_may_differ_in_size() {
    let then = plain(
        vec![node("Concat", "x x", "t", vec![int("axis", 0)])],
        &["t"],
    );
    let otherwise = plain(vec![node("Identity", "x", "e", vec![])], &["e"]);
    let net = graph(
        vec![input("c", DType::Bool, &[]), input("x", DType::F32, &["N"])],
        vec![],
        vec![node("If", "c", "y", branches(then, otherwise))],
        &["y"],
    );
    let y = outputs(net, &[Tensor::scalar(true), f32s(&[1], &[7.0])]);
    assert_eq!(y[0].to_vec::<f32>().unwrap(), [7.0, 7.0]);
}

#[test]
fn an_inner_body_captures_through_the_outer_body() {
    let inner = |name: &str, op| plain(vec![node(op, "x k", name, vec![])], &[name]);
    let choice = branches(inner("p", "Add"), inner("q", "Sub"));
    let then = plain(vec![node("If", "d", "t", choice)], &["t"]);
    let otherwise = plain(vec![node("Identity", "x", "e", vec![])], &["e"]);
    let net = graph(
        vec![
            input("c", DType::Bool, &[]),
            input("d", DType::Bool, &["1"]),
            input("x", DType::F32, &["N"]),
            input("k", DType::F32, &[]),
        ],
        vec![],
        vec![node("If", "c", "y", branches(then, otherwise))],
        &["y"],
    );
    let inputs = [
        Tensor::scalar(true),
        Tensor::from_slice(&[1], &[false]).unwrap(),
        f32s(&[2], &[1.0, 2.0]),
        Tensor::scalar(10.0_f32),
    ];
    assert_eq!(
        outputs(net, &inputs)[0].to_vec::<f32>().unwrap(),
        [-9.0, -8.0]
    );
}

/// The body of a loop that adds the iteration to a sum, stacks the sums, and continues below `limit`.
fn summing() -> GraphProto {
    graph(
        vec![
            input("i", DType::I64, &[]),
            input("go", DType::Bool, &[]),
            input("s", DType::I64, &[]),
        ],
        vec![],
        vec![
            node("Add", "s i", "next", vec![]),
            node("Less", "next limit", "more", vec![]),
            node("Identity", "next", "each", vec![]),
        ],
        &["more", "next", "each"],
    )
}

fn summing_loop(operands: &str) -> GraphProto {
    graph(
        vec![input("m", DType::I64, &[]), input("limit", DType::I64, &[])],
        vec![
            initializer("start", &Tensor::scalar(1_i64)),
            initializer("yes", &Tensor::scalar(true)),
        ],
        vec![node(
            "Loop",
            operands,
            "last all",
            vec![body("body", summing())],
        )],
        &["last", "all"],
    )
}

#[test]
fn a_loop_ends_at_its_trip_count_or_when_its_condition_is_false() {
    let run = |operands: &str, trips: i64, limit: i64| {
        let results = outputs(
            summing_loop(operands),
            &[Tensor::scalar(trips), Tensor::scalar(limit)],
        );
        (
            results[0].item::<i64>().unwrap(),
            results[1].to_vec::<i64>().unwrap(),
        )
    };
    assert_eq!(run("m yes start", 4, 100), (7, vec![1, 2, 4, 7]));
    assert_eq!(run("m yes start", 100, 5), (7, vec![1, 2, 4, 7]));
    assert_eq!(run("- yes start", 0, 3), (4, vec![1, 2, 4]));
    // Without an input condition, the body's condition is ignored.
    assert_eq!(run("m - start", 3, 0), (4, vec![1, 2, 4]));
    assert_eq!(run("m yes start", 0, 9), (1, vec![]));
}

/// ONNX does not define the size of an empty stack; onnxruntime returns a vector if it does not know the rank of the
/// rows.
#[test]
fn a_loop_without_iterations_stacks_nothing() {
    let rows = graph(
        vec![input("i", DType::I64, &[]), input("c", DType::Bool, &[])],
        vec![],
        vec![
            node("Identity", "c", "on", vec![]),
            node("Concat", "x x", "row", vec![int("axis", 0)]),
        ],
        &["on", "row"],
    );
    let net = graph(
        vec![
            input("m", DType::I64, &[]),
            input("going", DType::Bool, &[]),
            input("x", DType::F32, &["K", "3"]),
        ],
        vec![],
        vec![node("Loop", "m going", "all", vec![body("body", rows)])],
        &["all"],
    );
    let x = Tensor::zeros(DType::F32, &[2, 3]).unwrap();
    for (trips, going, rounds) in [(0_i64, true, 0), (5, false, 0), (2, true, 2)] {
        let inputs = [Tensor::scalar(trips), Tensor::scalar(going), x.clone()];
        assert_eq!(outputs(net.clone(), &inputs)[0].shape(), [rounds, 4, 3]);
    }
}

#[test]
fn a_carried_value_may_grow() {
    let growing = graph(
        vec![
            input("i", DType::I64, &[]),
            input("go", DType::Bool, &[]),
            input("s", DType::F32, &["n"]),
        ],
        vec![],
        vec![node("Concat", "s x", "next", vec![int("axis", 0)])],
        &["go", "next"],
    );
    let net = graph(
        vec![
            input("m", DType::I64, &["1"]),
            input("x", DType::F32, &["K"]),
        ],
        vec![initializer("yes", &Tensor::scalar(true))],
        vec![node("Loop", "m yes x", "y", vec![body("body", growing)])],
        &["y"],
    );
    let y = outputs(net, &[i64s(&[1], &[2]), f32s(&[2], &[1.0, 2.0])]);
    assert_eq!(
        y[0].to_vec::<f32>().unwrap(),
        [1.0, 2.0, 1.0, 2.0, 1.0, 2.0]
    );
}

#[test]
fn a_scan_reads_and_writes_sequences_from_either_end() {
    let step = || {
        graph(
            vec![
                input("s", DType::F32, &["2"]),
                input("e", DType::F32, &["2"]),
            ],
            vec![],
            vec![
                node("Add", "s e", "next", vec![]),
                node("Identity", "next", "out", vec![]),
            ],
            &["next", "out"],
        )
    };
    let net = |attributes: Vec<AttributeProto>| {
        let mut all = vec![body("body", step()), int("num_scan_inputs", 1)];
        all.extend(attributes);
        graph(
            vec![
                input("s0", DType::F32, &["2"]),
                input("x", DType::F32, &["T", "2"]),
            ],
            vec![],
            vec![node("Scan", "s0 x", "last all", all)],
            &["last", "all"],
        )
    };
    let inputs = [
        f32s(&[2], &[0.0, 10.0]),
        f32s(&[3, 2], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]),
    ];
    let forwards = outputs(net(vec![]), &inputs);
    assert_eq!(forwards[0].to_vec::<f32>().unwrap(), [9.0, 22.0]);
    assert_eq!(
        forwards[1].to_vec::<f32>().unwrap(),
        [1.0, 12.0, 4.0, 16.0, 9.0, 22.0]
    );
    let backwards = outputs(
        net(vec![
            ints("scan_input_directions", &[1]),
            ints("scan_output_directions", &[1]),
            ints("scan_output_axes", &[1]),
        ]),
        &inputs,
    );
    assert_eq!(backwards[1].shape(), [2, 3]);
    assert_eq!(
        backwards[1].to_vec::<f32>().unwrap(),
        [9.0, 8.0, 5.0, 22.0, 20.0, 16.0]
    );
}

#[test]
fn a_scan_of_version_8_scans_each_batch_separately() {
    // `next = s + e * bias`, where `bias` is read from outside the body.
    let step = || {
        graph(
            vec![
                input("s", DType::F32, &["2"]),
                input("e", DType::F32, &["2"]),
            ],
            vec![],
            vec![
                node("Mul", "e bias", "t", vec![]),
                node("Add", "s t", "next", vec![]),
                node("Identity", "next", "out", vec![]),
            ],
            &["next", "out"],
        )
    };
    let net = |operands: &str, attributes: Vec<AttributeProto>| {
        let mut all = vec![body("body", step()), int("num_scan_inputs", 1)];
        all.extend(attributes);
        let net = graph(
            vec![
                input("s0", DType::F32, &["B", "2"]),
                input("x", DType::F32, &["B", "T", "2"]),
                input("bias", DType::F32, &[]),
            ],
            vec![initializer("lengths", &i64s(&[2], &[2, 2]))],
            vec![node("Scan", operands, "last all", all)],
            &["last", "all"],
        );
        imported(&of_version(net, 8), &ImportOptions::new())
    };
    let inputs = [
        f32s(&[2, 2], &[0.0, 10.0, 100.0, 200.0]),
        f32s(&[2, 2, 2], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]),
        Tensor::scalar(1.0_f32),
    ];
    let numbers = |tensor: &Tensor| tensor.to_vec::<f32>().unwrap();
    let forwards = run(&net("- s0 x", vec![]).unwrap(), &inputs);
    assert_eq!(numbers(&forwards[0]), [4.0, 16.0, 112.0, 214.0]);
    assert_eq!(forwards[1].shape(), [2, 2, 2]);
    assert_eq!(
        numbers(&forwards[1]),
        [1.0, 12.0, 4.0, 16.0, 105.0, 206.0, 112.0, 214.0]
    );
    let backwards = net("- s0 x", vec![ints("directions", &[1])]).unwrap();
    assert_eq!(
        numbers(&run(&backwards, &inputs)[1]),
        [3.0, 14.0, 4.0, 16.0, 107.0, 208.0, 112.0, 214.0]
    );
    let lengths = net("lengths s0 x", vec![]).unwrap_err();
    insta::assert_snapshot!(lengths, @r#"node 0 giving "last" (Scan): not supported: a scan over sequences of different lengths"#);
}

#[test]
fn a_body_that_does_not_fit_its_node_is_refused() {
    let error =
        |net: GraphProto| imported(&of_version(net, 17), &ImportOptions::new()).unwrap_err();
    let missing = error(summing_loop("m yes"));
    insta::assert_snapshot!(missing, @r#"node 0 giving "last" (Loop): attribute "body": expected a body of 2 inputs, as the node's operands require, found 3"#);
    let unknown = plain(vec![node("Add", "x nowhere", "t", vec![])], &["t"]);
    let mut net = choice();
    net.node[0].attribute[0].g = Some(Box::new(unknown));
    insta::assert_snapshot!(error(net), @r#"node 0 giving "y" (If), "then_branch" > node 0 giving "t" (Add): its operand "nowhere" is undefined"#);
}
