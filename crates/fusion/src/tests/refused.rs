//! Ops that must not be fused: sizes not known to be equal, kernels beyond the limits. Other cases are tested by files
//! (`testkit/testdata/fusion`).

use super::planned;
use crate::{FusionOptions, plan};
use kiln_symbolic_shape::FactSelection;

#[test]
fn unequal_symbols_fuse_under_a_recorded_fact_alone() {
    let source = "graph @main(%x: f32[A], %y: f32[B]) {
        %1 = neg %x
        %2 = add %1, %y
        %3 = exp %2
        return %3
    }";
    let (graph, with) = planned(source);
    assert_eq!(with.count("kernel"), 1);
    let node = with.nodes().next().unwrap();
    assert_eq!(node.facts.len(), 1);
    assert_eq!(node.facts[0].name(graph.dims()), "A == B");

    // Without the fact, the sum is a separate kernel at every size, including 1.
    let without = plan(
        &graph,
        &FusionOptions::new().with_facts(FactSelection::None),
    )
    .unwrap();
    assert!(without.facts().is_empty());
    assert!(without.count("kernel") > 1);
    assert!(!without.near_misses().is_empty());
}

#[test]
fn limits_hold() {
    let mut source = String::from("graph @main(%x: f32[A]) {\n");
    for step in 0..300 {
        let operand = if step == 0 {
            "%x".to_owned()
        } else {
            format!("%v{}", step - 1)
        };
        source.push_str(&format!("%v{step} = neg {operand}\n"));
    }
    source.push_str("return %v299 }");
    let (_, plan) = planned(&source);
    assert!(plan.count("kernel") >= 4 && plan.count("kernel") <= 8);
    assert!(plan.nodes().all(|node| node.ops.len() <= 96));
}
