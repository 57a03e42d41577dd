//! Sequences, optionals and narrow types: their import, the operators that accept them, and those that reject them.

use insta::assert_snapshot;
use kiln_ir::Graph;
use kiln_tensor::{DType, Tensor, f16};

use super::net::*;
use crate::proto::{GraphProto, NodeProto, TypeProto, TypeValue, ValueInfoProto, WrapperType};
use crate::tests::build::{tensor_type, value};
use crate::{Error, ImportOptions};

fn at(version: i64, net: GraphProto, options: &ImportOptions) -> Result<Graph, Error> {
    imported(&of_version(net, version), options)
}

fn two_inputs(nodes: Vec<NodeProto>, constants: &[(&str, Tensor)], outputs: &[&str]) -> GraphProto {
    let constants = constants
        .iter()
        .map(|(name, tensor)| initializer(name, tensor));
    graph(
        vec![
            input("x", DType::F32, &["N"]),
            input("z", DType::F32, &["N"]),
        ],
        constants.collect(),
        nodes,
        outputs,
    )
}

fn wrapped(name: &str, wrap: fn(Box<WrapperType>) -> TypeValue) -> ValueInfoProto {
    let wrapper = WrapperType {
        elem_type: Some(Box::new(tensor_type(1, vec![]))),
    };
    ValueInfoProto {
        name: name.to_owned(),
        r#type: Some(TypeProto {
            value: Some(wrap(Box::new(wrapper))),
        }),
    }
}

#[test]
fn sequence_ops_are_compiled_away() {
    let nodes = vec![
        node("SequenceConstruct", "x z", "pair", vec![]),
        node("Neg", "x", "n", vec![]),
        node("SequenceInsert", "pair n first", "three", vec![]),
        node("SequenceErase", "three last", "two", vec![]),
        node("SequenceLength", "two", "count", vec![]),
        node("SequenceAt", "two last", "y", vec![]),
        node("ConcatFromSequence", "two", "c", vec![int("axis", 0)]),
        node(
            "ConcatFromSequence",
            "two",
            "s",
            vec![int("axis", 0), int("new_axis", 1)],
        ),
    ];
    let constants = [
        ("first", Tensor::scalar(0_i64)),
        ("last", Tensor::scalar(-1_i64)),
    ];
    let net = two_inputs(nodes, &constants, &["count", "y", "c", "s"]);
    let graph = at(17, net, &ImportOptions::new()).unwrap();
    let given = run(&graph, &[f32s(&[2], &[1.0, 2.0]), f32s(&[2], &[3.0, 4.0])]);
    assert_eq!(given[0].item::<i64>().unwrap(), 2);
    assert_eq!(given[1].to_vec::<f32>().unwrap(), [1.0, 2.0]);
    assert_eq!(given[2].to_vec::<f32>().unwrap(), [-1.0, -2.0, 1.0, 2.0]);
    assert_eq!(given[3].shape(), [2, 2]);
}

#[test]
fn sequence_inputs_and_outputs_are_split_into_entries() {
    let mut net = two_inputs(vec![node("Identity", "s", "y", vec![])], &[], &["y"]);
    net.input = vec![wrapped("s", TypeValue::Sequence)];
    let missing = at(17, net.clone(), &ImportOptions::new()).unwrap_err();
    assert_snapshot!(missing, @r#"input "s": expected a known number of entries, found none; give one with the option `length` (`--length` on the command line)"#);
    let graph = at(17, net.clone(), &ImportOptions::new().length("s", 2)).unwrap();
    assert_eq!(graph.inputs().len(), 2);
    assert_eq!(graph.outputs().len(), 2);
    let fixed = ImportOptions::new()
        .length("s", 2)
        .fix("s.1", Tensor::scalar(1.0_f32));
    assert_eq!(at(17, net.clone(), &fixed).unwrap().inputs().len(), 1);
    let unknown = at(17, net, &ImportOptions::new().length("t", 2)).unwrap_err();
    assert_eq!(unknown.code(), "E0926");
}

#[test]
fn optionals_resolve_at_import() {
    let has = vec![
        node("OptionalHasElement", "o", "h", vec![]),
        node("Identity", "h", "y", vec![]),
    ];
    let mut net = two_inputs(has, &[], &["y"]);
    net.input = vec![wrapped("o", TypeValue::Optional)];
    for (options, there) in [
        (ImportOptions::new(), true),
        (ImportOptions::new().absent("o"), false),
    ] {
        let graph = at(18, net.clone(), &options).unwrap();
        let inputs = vec![Tensor::scalar(1.0_f32); graph.inputs().len()];
        assert_eq!(run(&graph, &inputs)[0].item::<bool>().unwrap(), there);
    }
    net.node = vec![node("OptionalGetElement", "o", "y", vec![])];
    let empty = at(18, net, &ImportOptions::new().absent("o")).unwrap_err();
    assert_eq!(empty.code(), "E0920");
}

/// Adds the iteration number times `x` to a sequence.
fn round() -> GraphProto {
    let inputs = vec![output("i"), output("c"), output("s")];
    let nodes = vec![
        node("Cast", "i", "f", vec![int("to", 1)]),
        node("Mul", "x f", "m", vec![]),
        node("SequenceInsert", "s m", "t", vec![]),
        node("Identity", "c", "d", vec![]),
    ];
    graph(inputs, vec![], nodes, &["d", "t", "f"])
}

#[test]
fn a_loop_over_a_sequence_is_written_out() {
    let nodes = vec![
        node("SequenceEmpty", "", "empty", vec![]),
        node("Loop", "trips - empty", "s f", vec![body("body", round())]),
        node("ConcatFromSequence", "s", "y", vec![int("axis", 0)]),
    ];
    let trips = [("trips", Tensor::scalar(3_i64))];
    let net = two_inputs(nodes.clone(), &trips, &["y", "f"]);
    let graph = at(17, net, &ImportOptions::new()).unwrap();
    let given = run(&graph, &[f32s(&[1], &[2.0]), f32s(&[1], &[0.0])]);
    assert_eq!(given[0].to_vec::<f32>().unwrap(), [0.0, 2.0, 4.0]);
    assert_eq!(given[1].to_vec::<f32>().unwrap(), [0.0, 1.0, 2.0]);
    // A loop that only appends entries of one size stays a loop, whatever its trip count.
    let mut open = two_inputs(nodes.clone(), &[], &["y", "f"]);
    open.input.push(input("trips", DType::I64, &[]));
    let graph = at(17, open, &ImportOptions::new()).unwrap();
    for trips in [0_i64, 1, 3] {
        let mut inputs = vec![f32s(&[1], &[2.0]), f32s(&[1], &[0.0])];
        inputs.push(Tensor::scalar(trips));
        let expected: Vec<f32> = (0..trips).map(|trip| 2.0 * trip as f32).collect();
        assert_eq!(run(&graph, &inputs)[0].to_vec::<f32>().unwrap(), expected);
    }
}

#[test]
fn a_loop_that_reads_its_sequence_is_written_out_within_a_limit() {
    let mut reading = round();
    reading.node = vec![
        node("SequenceInsert", "s x", "t", vec![]),
        node("ConcatFromSequence", "t", "all", vec![int("axis", 0)]),
        node("ReduceSum", "all", "f", vec![int("keepdims", 0)]),
        node("Identity", "c", "d", vec![]),
    ];
    let nodes = vec![
        node("SequenceEmpty", "", "empty", vec![]),
        node("Loop", "trips - empty", "s f", vec![body("body", reading)]),
        node("ConcatFromSequence", "s", "y", vec![int("axis", 0)]),
    ];
    let trips = [("trips", Tensor::scalar(3_i64))];
    let net = two_inputs(nodes.clone(), &trips, &["y", "f"]);
    let graph = at(17, net, &ImportOptions::new()).unwrap();
    let given = run(&graph, &[f32s(&[1], &[2.0]), f32s(&[1], &[0.0])]);
    assert_eq!(given[1].to_vec::<f32>().unwrap(), [2.0, 4.0, 6.0]);
    let endless = [("trips", Tensor::scalar(i64::MAX))];
    let net = two_inputs(nodes, &endless, &["y", "f"]);
    let limits = crate::Limits {
        inlined_nodes: 1000,
        ..crate::Limits::default()
    };
    let bounded = ImportOptions::new().limits(limits);
    assert_eq!(at(17, net, &bounded).unwrap_err().code(), "E0902");
}

#[test]
fn branches_give_sequences_of_one_form() {
    let branch = |nodes: Vec<NodeProto>| graph(vec![], vec![], nodes, &["s"]);
    let choose = |then: &str, otherwise: &str| {
        let attributes = vec![
            body(
                "then_branch",
                branch(vec![node("SequenceConstruct", then, "s", vec![])]),
            ),
            body(
                "else_branch",
                branch(vec![node("SequenceConstruct", otherwise, "s", vec![])]),
            ),
        ];
        let nodes = vec![
            node("If", "c", "s", attributes),
            node("ConcatFromSequence", "s", "y", vec![int("axis", 0)]),
        ];
        let mut net = two_inputs(nodes, &[], &["y"]);
        net.input.push(input("c", DType::Bool, &[]));
        net
    };
    let graph = at(17, choose("x z", "z x"), &ImportOptions::new()).unwrap();
    let inputs = [
        f32s(&[1], &[1.0]),
        f32s(&[1], &[2.0]),
        Tensor::scalar(false),
    ];
    assert_eq!(run(&graph, &inputs)[0].to_vec::<f32>().unwrap(), [2.0, 1.0]);
    let unlike = at(17, choose("x z", "x"), &ImportOptions::new()).unwrap_err();
    assert_eq!(unlike.code(), "E0917");
    // The import asks which branch is taken, if the caller supports questions.
    let answered = |answer| ImportOptions::new().answer(0, answer);
    for (answer, expected) in [(1, vec![1.0, 2.0]), (0, vec![1.0])] {
        let graph = at(17, choose("x z", "x"), &answered(answer)).unwrap();
        assert_eq!(run(&graph, &inputs)[0].to_vec::<f32>().unwrap(), expected);
    }
    let known = ImportOptions::new().fix("c", Tensor::scalar(true));
    assert!(at(17, choose("x z", "x"), &known).is_ok());
}

#[test]
fn narrow_elements_move_and_are_cast_but_not_computed_with() {
    let nodes = |last: NodeProto| {
        vec![
            node("Reshape", "w shape", "r", vec![]),
            node("Transpose", "r", "t", vec![]),
            last,
        ]
    };
    let net = |last: NodeProto| {
        let mut net = graph(
            vec![value("w", tensor_type(17, vec![]))],
            vec![initializer(
                "shape",
                &Tensor::from_slice(&[2], &[1_i64, 1]).unwrap(),
            )],
            nodes(last),
            &["y"],
        );
        net.output = vec![output("y")];
        net
    };
    let cast = net(node("Cast", "t", "y", vec![int("to", 1)]));
    let graph = at(21, cast, &ImportOptions::new()).unwrap();
    let w = Tensor::scalar(f16::from_f32(0.5));
    assert_eq!(run(&graph, &[w])[0].to_vec::<f32>().unwrap(), [0.5]);
    let sum = at(
        21,
        net(node("Add", "t t", "y", vec![])),
        &ImportOptions::new(),
    )
    .unwrap_err();
    assert_snapshot!(sum, @r#"node 2 giving "y" (Add): not supported: operand 0: expected a tensor of a type that Kiln computes with; cast it before, or dequantise it, found a tensor of f8e4m3fn"#);
}

#[test]
fn a_sequence_is_refused_where_a_tensor_is_read() {
    let nodes = vec![
        node("SequenceConstruct", "x z", "s", vec![]),
        node("Neg", "s", "y", vec![]),
    ];
    let error = at(17, two_inputs(nodes, &[], &["y"]), &ImportOptions::new()).unwrap_err();
    assert_snapshot!(error, @r#"node 1 giving "y" (Neg): not supported: operand 0: expected a tensor, found a sequence of 2 entries"#);
}
