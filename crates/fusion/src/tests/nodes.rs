//! The named parts: nodes by themselves, analyzer, benefit, kernel generator.

use super::{op, planned, read};
use crate::{
    FusionBenefit, FusionCandidateAnalyzer, FusionError, FusionKernelGenerator, FusionNode,
    FusionOptions, Refusal,
};
use kiln_kernel::Class;
use kiln_symbolic_shape::{Binding, FactSelection};

const LAYER: &str = "graph @main(%x: f32[M, K], %w: f32[K, N], %b: f32[N]) {
    %1 = matmul %x, %w
    %2 = add %1, %b
    %3 = relu %2
    return %3
}";

#[test]
fn nodes_are_made_extended_and_validated() {
    let graph = read(LAYER);
    let options = FusionOptions::new();
    let [matmul, add, relu] = ["%1", "%2", "%3"].map(|name| op(&graph, name));
    let mut node = FusionNode::of_ops(&graph, &[matmul], &options).unwrap();
    assert_eq!(node.class, Some(Class::Contraction));
    let next = FusionNode::of_ops(&graph, &[add], &options).unwrap();
    let between = graph.tensor_ty(node.outputs[0]).unwrap().clone();
    node.can_fuse_with(&graph, &next, std::slice::from_ref(&between), &options)
        .unwrap();
    // A shape that is not the graph's.
    let mut other = between;
    other.dims.reverse();
    let refusal = node
        .can_fuse_with(&graph, &next, &[other], &options)
        .unwrap_err();
    assert!(matches!(refusal, Refusal::Sizes { .. }));

    let alone = node.fused_signature(&graph);
    node.add_operation(&graph, add, &options).unwrap();
    node.add_operation(&graph, relu, &options).unwrap();
    assert_eq!(node.name, "matmul_add_relu");
    assert_eq!((node.ops.len(), node.outputs.len()), (3, 1));
    assert_ne!(node.fused_signature(&graph), alone);
    node.validate_fusion(&graph).unwrap();
    // Both sides of product and activation have one shape.
    let dims = |op| &graph.tensor_ty(graph.op(op).results[0]).unwrap().dims;
    assert_eq!(dims(matmul), dims(relu));
}

#[test]
fn a_signature_is_of_the_structure_and_not_of_the_graph() {
    let first = read(LAYER);
    let second = read(
        "graph @other(%b: f32[N], %y: f32[M, K], %u: f32[K, N]) {
        %1 = matmul %y, %u
        %2 = add %1, %b
        %3 = relu %2
        return %3
    }",
    );
    let signature = |graph: &kiln_ir::Graph| {
        let ops: Vec<_> = graph.ops().map(|(op, _)| op).collect();
        FusionNode::of_ops(graph, &ops, &FusionOptions::new())
            .unwrap()
            .fused_signature(graph)
    };
    assert_eq!(signature(&first), signature(&second));
}

#[test]
fn what_is_no_kernel_is_refused_and_the_node_stays() {
    let graph = read(
        "graph @main(%x: f32[M, K], %w: f32[K, N]) {
        %1 = matmul %x, %w
        %2 = reduce %1 {function = sum, axes = [1]}
        return %2
    }",
    );
    let options = FusionOptions::new();
    let (matmul, reduce) = (op(&graph, "%1"), op(&graph, "%2"));
    let mut node = FusionNode::of_ops(&graph, &[matmul], &options).unwrap();
    let error = node.add_operation(&graph, reduce, &options).unwrap_err();
    assert_eq!(error.code(), "E0424");
    assert_eq!(node.ops, [matmul]);
    assert!(matches!(
        FusionNode::of_ops(&graph, &[kiln_ir::OpId::from_u32(99)], &options),
        Err(FusionError::Unknown { .. })
    ));
    assert_eq!(
        FusionNode::of_ops(&graph, &[], &options)
            .unwrap_err()
            .code(),
        "E0425"
    );
}

#[test]
fn a_wrong_shape_inside_a_node_is_found() {
    let mut graph = read(LAYER);
    let ops: Vec<_> = graph.ops().map(|(op, _)| op).collect();
    let node = FusionNode::of_ops(&graph, &ops, &FusionOptions::new()).unwrap();
    let relu = op(&graph, "%3");
    let value = graph.op(relu).results[0];
    let one = graph.dims_mut().constant(1);
    graph.set_ty(
        value,
        kiln_ir::Type::tensor(kiln_tensor::DType::F32, [one, one]),
    );
    let error = node.validate_fusion(&graph).unwrap_err();
    assert_eq!(error.code(), "E0421");
    insta::assert_snapshot!(error, @"expected f32[1, 1] for %5 in matmul_add_relu, found f32[M, N] by inference; infer the graph's types again");
}

#[test]
fn the_analyzer_finds_candidates_and_says_what_they_are_worth() {
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
    assert_eq!(analyzer.find_fusible_operations(), vec![ops.clone()]);
    let benefit = analyzer.analyze_benefit(&ops).unwrap();
    assert_eq!(benefit.kernels_removed, 3);
    assert!(benefit.estimated_speedup > 1.0 && benefit.should_fuse(1.0));
    assert!(!benefit.should_fuse(1e9));
    assert!(!FusionBenefit::default().should_fuse(0.0));
    assert!(analyzer.is_shape_preserving(ops[0]));
    assert!(analyzer.is_shape_preserving(ops[1]));
    assert!(!analyzer.is_shape_preserving(ops[2]));
    // `A` and `C` are not known to be equal.
    assert!(!analyzer.is_shape_preserving(ops[3]));
    assert!(!analyzer.requires_runtime_shape_check(&ops[..3]));
    assert!(analyzer.requires_runtime_shape_check(&ops));
    assert_eq!(analyzer.required_facts(&ops).unwrap().len(), 1);
    let strict =
        FusionCandidateAnalyzer::new(&graph, FusionOptions::new().with_facts(FactSelection::None));
    assert!(strict.requires_runtime_shape_check(&ops));
    assert!(strict.analyze_benefit(&ops).is_err());
}

#[test]
fn kernels_are_made_generic_and_for_known_sizes() {
    let (graph, plan) = planned(LAYER);
    let node = plan.nodes().next().unwrap();
    let mut generator = FusionKernelGenerator::new(&graph);
    let generic = generator.generate_generic_kernel(node).unwrap();
    assert_eq!(generic.symbols.len(), 3);
    let symbol = |name| graph.dims().symbol_named(name).unwrap();
    let all: Binding = [(symbol("M"), 4), (symbol("K"), 8), (symbol("N"), 16)]
        .into_iter()
        .collect();
    assert!(generator.can_generate_specialized(node, &all));
    let special = generator.generate_fused_kernel(node, &all).unwrap();
    assert_eq!(special.symbols.len(), 0);
    assert_eq!(special.operands, generic.operands);
    assert!(kiln_kernel::verify(special.kernel).is_ok());
    // The same again is the same kernel.
    generator.generate_fused_kernel(node, &all).unwrap();
    assert_eq!(generator.n_kernels(), 2);
    // Not every size, or one that cannot be.
    let some: Binding = [(symbol("M"), 4)].into_iter().collect();
    assert!(!generator.can_generate_specialized(node, &some));
    assert_eq!(
        generator
            .generate_fused_kernel(node, &some)
            .unwrap_err()
            .code(),
        "E0425"
    );
    let negative: Binding = [(symbol("M"), -1), (symbol("K"), 8), (symbol("N"), 1)]
        .into_iter()
        .collect();
    assert!(!generator.can_generate_specialized(node, &negative));
}
