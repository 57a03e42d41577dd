//! Nodes listed in an order in which they cannot run.

use kiln_tensor::{DType, Tensor};

use super::net::*;
use crate::proto::NodeProto;

fn scalar_condition(name: &str) -> crate::proto::ValueInfoProto {
    input(name, DType::Bool, &[])
}

#[test]
fn nodes_out_of_order_are_sorted() {
    let nodes = vec![
        node("Neg", "b", "y", vec![]),
        node("Add", "a x", "b", vec![]),
        node("Relu", "x", "a", vec![]),
    ];
    let net = graph(vec![input("x", DType::F32, &["N"])], vec![], nodes, &["y"]);
    let given = outputs(net, &[f32s(&[2], &[3.0, -1.0])]);
    assert_eq!(given[0].to_vec::<f32>().unwrap(), [-6.0, 1.0]);
}

#[test]
fn body_nodes_and_their_captures_are_sorted() {
    let branch = |op: &str| {
        let nodes = vec![
            node(op, "inner h", "given", vec![]),
            node("Neg", "h", "inner", vec![]),
        ];
        graph(vec![], vec![], nodes, &["given"])
    };
    let branches = vec![
        body("then_branch", branch("Add")),
        body("else_branch", branch("Mul")),
    ];
    let nodes = vec![
        node("If", "c", "y", branches),
        node("Exp", "x", "h", vec![]),
    ];
    let inputs = vec![scalar_condition("c"), input("x", DType::F32, &["N"])];
    let net = graph(inputs, vec![], nodes, &["y"]);
    for (condition, expected) in [(true, 0.0), (false, -1.0)] {
        let given = outputs(
            net.clone(),
            &[Tensor::scalar(condition), f32s(&[1], &[0.0])],
        );
        assert_eq!(given[0].to_vec::<f32>().unwrap(), [expected]);
    }
}

/// Linear in the number of nodes: a chain that is listed from its end.
#[test]
fn a_long_chain_in_reverse_order_is_sorted() {
    const LENGTH: usize = 50_000;
    let name = |index: usize| match index {
        0 => "x".to_owned(),
        LENGTH => "y".to_owned(),
        index => format!("v{index}"),
    };
    let step = |index: usize| node("Neg", &name(index), &name(index + 1), vec![]);
    let nodes: Vec<NodeProto> = (0..LENGTH).rev().map(step).collect();
    let net = graph(vec![input("x", DType::F32, &["N"])], vec![], nodes, &["y"]);
    let imported = imported(&of_version(net, 17), &crate::ImportOptions::new());
    assert_eq!(imported.unwrap().n_ops(), LENGTH);
}
