//! Errors for inputs that do not match a graph.

use crate::support::{error, graph, run, tensor, zeros};
use insta::assert_snapshot;
use kiln_interpreter::{bind_symbols, plan_facts_hold};
use kiln_tensor::{DType, Tensor};

const TWO: &str = "graph @two(%ids: i64[B, seq], %mask: i64[B, seq]) -> i64[B, seq] { %y = mul %ids, %mask return %y }";

fn ids(shape: &[usize]) -> Tensor {
    Tensor::zeros(DType::I64, shape).unwrap()
}

#[test]
fn axes_that_disagree_are_both_named() {
    assert_snapshot!(error(TWO, &[ids(&[1, 12]), ids(&[1, 13])]), @"E0814: seq is 12 from input ids axis 1, 13 from input mask axis 1: expected equal sizes");
}

#[test]
fn number_dtype_and_rank_are_checked() {
    assert_snapshot!(error(TWO, &[ids(&[1, 12])]), @"E0810: expected 2 inputs, found 1");
    assert_snapshot!(error(TWO, &[ids(&[1, 12]), zeros(&[1, 12])]), @"E0811: input mask: expected i64[B, seq], found elements of f32");
    assert_snapshot!(error(TWO, &[ids(&[1, 12]), ids(&[12])]), @"E0812: input mask: expected i64[B, seq], found shape [12]");
}

#[test]
fn bounds_multiples_and_known_values_are_checked() {
    let text = "graph @g(%x: f32[N, 4]) -> f32[N, 4] where N >= 1, N <= 64, N % 8 == 0 { %y = neg %x return %y }";
    assert!(run(text, &[zeros(&[16, 4])]).is_ok());
    assert_snapshot!(error(text, &[zeros(&[12, 4])]), @"E0815: expected N to be a multiple of 8, found 12 from input x axis 0");
    assert_snapshot!(error(text, &[zeros(&[72, 4])]), @"E0815: expected N in 8..=64, found 72 from input x axis 0");
    assert_snapshot!(error(text, &[zeros(&[0, 4])]), @"E0815: expected N in 8..=64, found 0 from input x axis 0");
    assert_snapshot!(error(text, &[zeros(&[8, 5])]), @"E0813: input x axis 1: expected size 4, found 5");
}

#[test]
fn facts_between_symbols_are_checked() {
    let text = "graph @g(%x: f32[A], %y: f32[B]) -> f32[A + B] where A < B { %z = concat %x, %y {axis = 0} return %z }";
    assert!(run(text, &[zeros(&[1]), zeros(&[2])]).is_ok());
    assert_snapshot!(error(text, &[zeros(&[2]), zeros(&[2])]), @"E0816: expected A < B (declared), found A = 2 from input x axis 0, B = 2 from input y axis 0");
}

#[test]
fn sizes_that_follow_from_symbols_are_checked() {
    let text = "graph @g(%x: f32[A], %y: f32[2 * A + 1]) -> f32[3 * A + 1] { %z = concat %x, %y {axis = 0} return %z }";
    assert!(run(text, &[zeros(&[2]), zeros(&[5])]).is_ok());
    assert_snapshot!(error(text, &[zeros(&[2]), zeros(&[4])]), @"E0813: input y axis 0: expected size 2*A + 1 = 5, found 4");
}

#[test]
fn symbols_are_bound_without_running() {
    let graph = graph(TWO);
    let binding = bind_symbols(&graph, &[[2, 5], [2, 5]]).unwrap();
    let seq = graph.dims().symbol_named("seq").unwrap();
    assert_eq!(binding.get(seq), Some(5));
    assert_eq!(
        bind_symbols(&graph, &[[2, 5], [3, 5]]).unwrap_err().code(),
        "E0814"
    );
    assert_eq!(
        bind_symbols(&graph, &[vec![2, 5]]).unwrap_err().code(),
        "E0810"
    );
}

#[test]
fn plan_facts_are_valued() {
    let graph =
        graph("graph @g(%x: f32[A], %y: f32[B]) -> f32[bcast(A, B)] { %z = add %x, %y return %z }");
    let check = |a: usize, b: usize| {
        let binding = bind_symbols(&graph, &[[a], [b]]).unwrap();
        let facts = plan_facts_hold(&graph, &binding);
        assert_eq!(facts.len(), 1);
        (facts[0].sizes, facts[0].holds())
    };
    assert_eq!(check(3, 3), (Some((3, 3)), Some(true)));
    let (sizes, holds) = check(1, 3);
    assert_eq!((sizes.map(|(a, b)| a + b), holds), (Some(4), Some(false)));
    let unbound = plan_facts_hold(&graph, &kiln_symbolic_shape::Binding::new());
    assert_eq!(unbound[0].holds(), None);
}

#[test]
fn unaligned_foreign_inputs_are_copied() {
    let x = tensor(&[4], &[1.0f32, 2.0, 3.0, 4.0]);
    let reversed = x.reverse(0).unwrap();
    let outputs = run(
        "graph @g(%x: f32[N]) -> f32[N] { %y = neg %x return %y }",
        &[reversed],
    )
    .unwrap();
    assert_eq!(
        outputs[0].as_slice::<f32>().unwrap(),
        [-4.0, -3.0, -2.0, -1.0]
    );
}
