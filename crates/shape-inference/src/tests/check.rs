//! Types of whole graphs: checked and recomputed.

use super::describe;
use crate::{check_types, infer_types, read_graph};
use insta::assert_snapshot;
use kiln_ir::text::read;
use kiln_ir::{BlobMap, Graph};
use kiln_symbolic_shape::{ContractFact, FactOrigin, Predicate};

/// Reads without inference, trusting the declared types.
fn trusted(text: &str) -> Graph {
    read(text, &BlobMap::new()).unwrap()
}

#[test]
fn every_wrong_type_is_reported() {
    let graph = trusted(
        "graph @t(%x: f32[A, B]) -> () {
  %a: f32[A, B] = transpose %x {permutation = [1, 0]}
  %b: f32[A, B] = relu %x from \"Relu_7\"
  %c: f32[A] = reduce %x {function = sum, axes = [0]}
  %d: f32[3] = reshape %x {dims = [3]}
  %e: f32[4] = slice %d {starts = [0], sizes = [4], steps = [1]}
  return
}",
    );
    let errors = check_types(&graph).unwrap_err();
    assert_snapshot!(errors.to_string(), @"
    [E0336] transpose (%1): type of result 0: expected f32[B, A], found f32[A, B] (not proved equal; state the equality as a fact)
    [E0336] reduce (%3): type of result 0: expected f32[B], found f32[A] (not proved equal; state the equality as a fact)
    [E0339] slice (%5): the last index on axis 0 of %d: f32[3] is out of bounds: expected an index in [0, 3), found 3
    ");
    assert_eq!((errors.errors().len(), errors.code()), (3, "E0336"));
}

#[test]
fn reporting_stops_at_a_limit() {
    let wrong = "  %y: f32[A] = relu %x\n".replace("%y", "%Y");
    let ops: String = (0..150)
        .map(|index| wrong.replace("%Y", &format!("%y{index}")))
        .collect();
    let graph = trusted(&format!(
        "graph @t(%x: f32[B], %a: f32[A]) -> () {{\n{ops}  return\n}}"
    ));
    assert_eq!(check_types(&graph).unwrap_err().errors().len(), 100);
}

#[test]
fn checking_does_not_change_the_graph() {
    let graph = trusted(
        "graph @t(%x: f32[A, K], %y: f32[L, B]) -> () {\n  %z: f32[A, B] = matmul %x, %y\n  return\n}",
    );
    check_types(&graph).unwrap();
    assert!(graph.dims().contract_facts().is_empty());
}

#[test]
fn types_follow_new_facts() {
    let mut graph = read_graph(
        "graph @t(%x: f32[A], %y: f32[B]) -> () {
  %z = add %x, %y
  %w = exp %z
  return
}",
        &BlobMap::new(),
    )
    .unwrap();
    assert_snapshot!(describe(&graph), @"
    z: f32[bcast(A, B)]
    w: f32[bcast(A, B)]
    plan A == B by add (%2)
    ");
    let dims = graph.dims_mut();
    let (a, b) = (dims.symbol("A").unwrap(), dims.symbol("B").unwrap());
    let predicate = Predicate::Equal(a, b);
    dims.assume(ContractFact {
        predicate,
        origin: FactOrigin::Declared,
    })
    .unwrap();
    assert_snapshot!(describe(&infer_types(graph).unwrap()), @"
    z: f32[A]
    w: f32[A]
    plan A == B by add (%2)
    ");
}

#[test]
fn earlier_types_remain_as_checks() {
    let graph =
        trusted("graph @t(%x: f32[A], %y: f32[B]) -> () {\n  %z: f32[B] = relu %x\n  return\n}");
    assert_snapshot!(describe(&infer_types(graph).unwrap()), @"
    z: f32[A]
    requires A == B by relu (%2): stated type
    ");
    let graph =
        trusted("graph @t(%x: f32[A]) -> () where A >= 3 {\n  %z: f32[2] = relu %x\n  return\n}");
    assert_snapshot!(infer_types(graph).unwrap_err().to_string(), @"[E0336] relu (%1): type of result 0: expected f32[A], found f32[2]");
    let graph = trusted("graph @t(%x: f32[A, A]) -> () {\n  %z: f32[A] = relu %x\n  return\n}");
    assert_snapshot!(infer_types(graph).unwrap_err().to_string(), @"[E0336] relu (%1): type of result 0: expected f32[A, A], found f32[A]");
}
