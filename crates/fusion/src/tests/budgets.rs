//! Budgets: kernels stop growing at a number of nodes, and plans at an amount of work, which is counted rather than
//! timed.

use super::read;
use crate::{FusionLimits, FusionOptions, Refusal, plan};

/// `depth` nested concatenations, each of `width` copies of the previous one.
fn nested_concats(depth: usize, width: usize) -> String {
    let mut ops = String::new();
    for level in 1..=depth {
        let operand = format!("%{}", level - 1);
        let operands = vec![operand; width].join(", ");
        ops.push_str(&format!("%{level} = concat {operands} {{axis = 0}}\n"));
    }
    format!("graph @main(%x: f32[N]) {{\n%0 = neg %x\n{ops}return %{depth}\n}}")
}

fn work_of(source: &str) -> u64 {
    plan(&read(source), &FusionOptions::new()).unwrap().work()
}

#[test]
fn nested_concats_stop_growing_at_the_limit_of_nodes() {
    let graph = read(&nested_concats(6, 6));
    let plan = plan(&graph, &FusionOptions::new()).unwrap();
    assert!(plan.count("kernel") > 1, "{plan}");
    let limit = FusionLimits::default().kernel_nodes;
    for node in plan.nodes() {
        let kernel = node.kernel.as_ref().map(|lowered| &lowered.kernel);
        let nodes = kernel.map_or(0, |kernel| kernel.nodes().len());
        assert!(nodes <= 4 * limit, "{nodes} nodes in {plan}");
    }
}

#[test]
fn kernels_stop_growing_at_the_limit_of_ops() {
    let ops: String = (1..=12)
        .map(|op| format!("%{op} = exp %{}\n", op - 1))
        .collect();
    let graph = read(&format!("graph @main(%0: f32[N]) {{\n{ops}return %12\n}}"));
    let kernels = |kernel_ops: usize| {
        let limits = FusionLimits {
            kernel_ops,
            ..FusionLimits::default()
        };
        plan(&graph, &FusionOptions::new().with_limits(limits))
            .unwrap()
            .count("kernel")
    };
    assert_eq!(kernels(96), 1);
    assert!(kernels(5) >= 3);
    // At least one op, and no more than the device allows.
    assert_eq!(kernels(0), 12);
    let device = FusionOptions::new()
        .with_max_ops(1)
        .with_limits(FusionLimits::default());
    assert_eq!(plan(&graph, &device).unwrap().count("kernel"), 12);
}

#[test]
fn work_of_nested_concats_is_linear_in_their_ops() {
    for width in [4, 8] {
        let (once, twice) = (
            work_of(&nested_concats(8, width)),
            work_of(&nested_concats(16, width)),
        );
        assert!(
            twice < 3 * once,
            "{once} and {twice} steps at width {width}"
        );
    }
}

#[test]
fn a_spent_budget_is_reported_by_the_plan() {
    let graph = read("graph @main(%x: f32[N]) {\n%1 = exp %x\n%2 = neg %1\nreturn %2\n}");
    let limits = FusionLimits {
        plan_work: 1,
        ..FusionLimits::default()
    };
    let plan = plan(&graph, &FusionOptions::new().with_limits(limits)).unwrap();
    assert_eq!(plan.count("kernel"), 2, "{plan}");
    assert!(plan.is_budget_spent());
    assert!(plan.to_string().contains("budget"), "{plan}");
    let ops: Vec<_> = graph.ops().map(|(op, _)| op).collect();
    let why = plan.explain(&graph, ops[0], ops[1]).unwrap();
    assert_eq!(why.refusal, Some(Refusal::Budget { limit: 1 }));
}
