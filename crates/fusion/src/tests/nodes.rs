//! Single nodes of a plan, and the analyzer's queries about ops.

use super::{op, planned, read};
use crate::{
    FusionBenefit, FusionCandidateAnalyzer, FusionNode, FusionOptions, FusionPlan, Refusal, plan,
};
use kiln_ir::Graph;
use kiln_shape_inference::{ShapeInferenceEngine, TypeChecker};
use kiln_symbolic_shape::FactSelection;

const LAYER: &str = "graph @main(%x: f32[M, K], %w: f32[K, N], %b: f32[N]) {
    %1 = matmul %x, %w
    %2 = add %1, %b
    %3 = relu %2
    return %3
}";

fn node_of<'p>(plan: &'p FusionPlan, graph: &Graph, name: &str) -> &'p FusionNode {
    plan.node(plan.node_of(op(graph, name)).unwrap())
}

fn unfused(graph: &Graph) -> FusionPlan {
    plan(graph, &FusionOptions::new().with_fusion(false)).unwrap()
}

#[test]
fn a_node_reports_the_benefit_of_joining_its_reader() {
    let graph = read(LAYER);
    let plan = unfused(&graph);
    let analyzer = FusionCandidateAnalyzer::new(&graph, FusionOptions::new());
    let [matmul, add, relu] = ["%1", "%2", "%3"].map(|name| node_of(&plan, &graph, name));
    let benefit = matmul.can_fuse_with(add, &analyzer).unwrap();
    assert_eq!(benefit.kernels_removed, 1);
    assert!(benefit.bytes_saved > 0);
    assert!(add.can_fuse_with(relu, &analyzer).is_ok());
    // The product and the activation have the same shape.
    let dims = |node: &FusionNode| graph.tensor_ty(node.outputs[0]).unwrap().dims.clone();
    assert_eq!(dims(matmul), dims(relu));
}

#[test]
fn a_node_reports_the_rule_that_forbids_joining_its_reader() {
    let graph = read(
        "graph @main(%x: f32[M, K], %w: f32[K, N]) {
        %1 = matmul %x, %w
        %2 = reduce %1 {function = sum, axes = [1]}
        return %2
    }",
    );
    let plan = unfused(&graph);
    let analyzer = FusionCandidateAnalyzer::new(&graph, FusionOptions::new());
    let [matmul, reduce] = ["%1", "%2"].map(|name| node_of(&plan, &graph, name));
    let refusal = matmul.can_fuse_with(reduce, &analyzer).unwrap_err();
    assert!(matches!(refusal, Refusal::Reduced { .. }), "{refusal:?}");
}

#[test]
fn a_wrong_shape_inside_a_node_is_found() {
    let (mut graph, before) = planned(LAYER);
    let relu = op(&graph, "%3");
    let value = graph.op(relu).results[0];
    let one = graph.dims_mut().constant(1);
    graph.set_ty(
        value,
        kiln_ir::Type::tensor(kiln_tensor::DType::F32, [one, one]),
    );
    let mut checker = TypeChecker::new(&graph, &ShapeInferenceEngine::new());
    let error = node_of(&before, &graph, "%3")
        .validate_fusion(&graph, &mut checker)
        .unwrap_err();
    assert_eq!(error.code(), "E0421");
    insta::assert_snapshot!(error, @"expected f32[1, 1] for %5 in matmul_add_relu, found f32[M, N] by inference; infer the graph's types again");
    #[cfg(debug_assertions)]
    assert!(matches!(
        plan(&graph, &FusionOptions::new()),
        Err(crate::FusionError::Shape { .. })
    ));
}

#[test]
fn the_analyzer_reports_the_benefit_of_candidates() {
    let graph = read(
        "graph @main(%x: f32[A, B], %y: f32[C], %s: f32[1, B]) {
        %1 = exp %x
        %2 = add %1, %s
        %3 = reduce %2 {function = sum, axes = [1]}
        %4 = add %3, %y
        return %4
    }",
    );
    let analyzer = FusionCandidateAnalyzer::new(&graph, FusionOptions::new());
    let ops: Vec<_> = graph.ops().map(|(op, _)| op).collect();
    let benefit = analyzer.analyze_benefit(&ops[..3]).unwrap();
    assert_eq!(benefit.kernels_removed, 2);
    assert!(benefit.bytes_saved > 0 && benefit.estimated_speedup > 1.0);
    assert!(benefit.should_fuse(1.0));
    assert!(!FusionBenefit::default().should_fuse(0.0));
    // `A` and `C` are not known to be equal: with the last op, there is one kernel only under a fact.
    assert!(analyzer.analyze_benefit(&ops).is_ok());
    let strict =
        FusionCandidateAnalyzer::new(&graph, FusionOptions::new().with_facts(FactSelection::None));
    let refusal = strict.analyze_benefit(&ops).unwrap_err();
    assert!(refusal.fact().is_some(), "{refusal:?}");
}
