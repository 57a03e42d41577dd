//! Each limit on reading and importing, set low: the error names the limit and has both numbers.

use prost::Message;

use kiln_tensor::{DType, Tensor};

use super::net::{graph, initializer, input, node, of_version};
use crate::proto::{FunctionProto, GraphProto, ModelProto, SparseTensorProto};
use crate::tests::build::{model, opset, raw, tensor};
use crate::{Error, ImportOptions, LimitKind, Limits, Model, NoFiles, import};

fn relu() -> ModelProto {
    let inputs = vec![input("x", DType::F32, &["N"])];
    let nodes = vec![node("Relu", "x", "y", vec![])];
    of_version(graph(inputs, vec![], nodes, &["y"]), 17)
}

/// `levels` functions, each of which calls the previous one twice.
fn doubling(levels: usize) -> ModelProto {
    let call = |level: usize, from: &str, to: &str| match level {
        0 => node("Relu", from, to, vec![]),
        _ => {
            let mut call = node(&format!("L{level}"), from, to, vec![]);
            call.domain = "local".to_owned();
            call
        }
    };
    let function = |level: usize| FunctionProto {
        name: format!("L{level}"),
        domain: "local".to_owned(),
        input: vec!["a".to_owned()],
        output: vec!["c".to_owned()],
        node: vec![call(level - 1, "a", "b"), call(level - 1, "b", "c")],
        opset_import: vec![opset("", 17), opset("local", 1)],
        ..FunctionProto::default()
    };
    let inputs = vec![input("x", DType::F32, &["N"])];
    let net = graph(inputs, vec![], vec![call(levels, "x", "y")], &["y"]);
    ModelProto {
        functions: (1..=levels).map(function).collect(),
        opset_import: vec![opset("", 17), opset("local", 1)],
        ..of_version(net, 17)
    }
}

/// A vector of `length` elements, split into a sequence of single elements; the result is the first one.
fn split(length: i64) -> ModelProto {
    let inputs = vec![input("x", DType::F32, &[&length.to_string()])];
    let nodes = vec![
        node("SplitToSequence", "x", "s", vec![]),
        node("SequenceAt", "s i", "y", vec![]),
    ];
    let first = initializer("i", &Tensor::scalar(0_i64));
    of_version(graph(inputs, vec![first], nodes, &["y"]), 17)
}

/// A reshape by an operand that declares `length` elements.
fn reshape(length: i64) -> ModelProto {
    let inputs = vec![
        input("x", DType::F32, &["N"]),
        input("s", DType::I64, &[&length.to_string()]),
    ];
    let nodes = vec![node("Reshape", "x s", "y", vec![])];
    of_version(graph(inputs, vec![], nodes, &["y"]), 17)
}

/// The rejection of a model under these limits: the kind, the given number, and the limit.
fn refused(model: &ModelProto, limits: &Limits) -> (LimitKind, u64, u64) {
    let bytes = model.encode_to_vec();
    let imported = Model::from_bytes_with(&bytes, &NoFiles, limits)
        .and_then(|model| import(&model, &ImportOptions::new().limits(limits.clone())));
    match imported {
        Err(Error::Limit { kind, given, limit }) => (kind, given, limit),
        other => panic!("expected a limit, found {other:?}"),
    }
}

/// Checks that `model` is rejected for `kind` once `set` has lowered that limit to `limit`.
fn assert_limits(model: &ModelProto, kind: LimitKind, limit: u64, set: fn(&mut Limits, u64)) {
    let mut limits = Limits::default();
    set(&mut limits, limit);
    let (found, given, at) = refused(model, &limits);
    assert_eq!((found, at), (kind, limit));
    assert!(given > limit, "{kind}: {given} is not above {limit}");
    let error = Error::Limit { kind, given, limit };
    assert_eq!(error.code(), "E0902");
    let message = error.to_string();
    assert!(message.contains(&kind.to_string()), "{message}");
}

#[test]
fn each_limit_of_a_model_is_named_in_its_error() {
    let plain = relu();
    assert_limits(&plain, LimitKind::ModelBytes, 10, |limits, to| {
        limits.model_bytes = to
    });
    assert_limits(&plain, LimitKind::Messages, 2, |limits, to| {
        limits.messages = to
    });
    assert_limits(&plain, LimitKind::StructureBytes, 64, |limits, to| {
        limits.structure_bytes = to;
    });
    assert_limits(&plain, LimitKind::Nesting, 1, |limits, to| {
        limits.nesting = to
    });
    let constants = model(GraphProto {
        initializer: vec![raw("w", 2, &[1, 1, 8], &[0; 8])],
        ..GraphProto::default()
    });
    assert_limits(&constants, LimitKind::Rank, 2, |limits, to| {
        limits.rank = to
    });
    assert_limits(&constants, LimitKind::TensorBytes, 7, |limits, to| {
        limits.tensor_bytes = to
    });
    let indices = tensor("", 7, &[0]);
    let sparse = model(GraphProto {
        sparse_initializer: vec![SparseTensorProto {
            values: Some(raw("w", 2, &[0], &[])),
            indices: Some(indices),
            dims: vec![1 << 20],
        }],
        ..GraphProto::default()
    });
    assert_limits(&sparse, LimitKind::DenseBytes, 1 << 10, |limits, to| {
        limits.dense_bytes = to;
    });
    let calls = doubling(4);
    assert_limits(&calls, LimitKind::CallDepth, 2, |limits, to| {
        limits.call_depth = to
    });
    assert_limits(&calls, LimitKind::InlinedNodes, 5, |limits, to| {
        limits.inlined_nodes = to
    });
    let parts = split(100);
    assert_limits(&parts, LimitKind::OperatorParts, 99, |limits, to| {
        limits.operator_parts = to;
    });
    assert_limits(&parts, LimitKind::SequenceEntries, 99, |limits, to| {
        limits.sequence_entries = to;
    });
    assert_limits(&reshape(4), LimitKind::ShapeElements, 3, |limits, to| {
        limits.shape_elements = to;
    });
}

#[test]
fn a_shape_that_declares_more_elements_than_memory_has_is_refused() {
    for length in [257, 1 << 31, 1 << 40, 1 << 62, i64::MAX] {
        let (kind, given, limit) = refused(&reshape(length), &Limits::default());
        assert_eq!(
            (kind, given, limit),
            (LimitKind::ShapeElements, length as u64, 256)
        );
    }
}

#[test]
fn exponentially_growing_functions_are_refused_early() {
    let (kind, given, limit) = refused(&doubling(20), &Limits::default());
    assert_eq!(
        (kind, given, limit),
        (LimitKind::InlinedNodes, (128 << 10) + 1, 128 << 10)
    );
}
