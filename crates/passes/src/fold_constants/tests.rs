//! Which ops are folded, and which exceed the budget.

use super::{EXPANSION_LIMIT, fold_constants};
use crate::testing::{graph, is_unchanged, optimized};
use crate::{PassContext, PassOptions, optimize};
use kiln_ir::{Graph, Op, text};

fn constant_bytes(graph: &Graph) -> usize {
    graph
        .ops()
        .map(|(_, data)| match &data.op {
            Op::Constant(constant) => constant.tensor().byte_len(),
            _ => 0,
        })
        .sum()
}

/// A few bytes of text that request 4 TiB, for each op whose result can be much larger than its operands.
#[test]
fn a_constant_bomb_is_not_folded() {
    let source = "
graph @main(%x: f32[N]) -> (f32[1048576, 1048576], i64[1048576, 1048576], f32[1048576, 1048577], f32[1048576, 1048576], f32[1048576, 1048576]) {
  %1: f32[] = constant [1.0]
  %2: f32[1048576, 1048576] = broadcast %1 {dims = [1048576, 1048576]}
  %3: f32[1048576, 1048576] = exp %2
  %4: i64[1048576, 1048576] = iota {dims = [1048576, 1048576], axis = 0, dtype = i64}
  %5: f32[1, 1] = constant [2.0]
  %6: f32[1048576, 1048577] = pad %5, %1 {low = [1048575, 1048576], high = [0, 0], mode = constant}
  %7: f32[1, 1, 1, 1] = reshape %5 {dims = [1, 1, 1, 1]}
  %8: f32[1, 1, 1048576, 1048576] = resize %7 {axes = [2, 3], sizes = [1048576, 1048576], scales = [0.0, 0.0], mode = nearest, coordinates = asymmetric, rounding = floor, cubic_coefficient = -0.75}
  %9: f32[1048576, 1048576] = reshape %8 {dims = [1048576, 1048576]}
  %10: f32[1048576, 1] = broadcast %5 {dims = [1048576, 1]}
  %11: f32[1, 1048576] = broadcast %5 {dims = [1, 1048576]}
  %12: f32[1048576, 1048576] = matmul %10, %11 {out = f32}
  return %3, %4, %6, %9, %12
}";
    let (graph, _) = optimized(graph(source));
    assert!(constant_bytes(&graph) < 1024, "{}", text::print(&graph));
}

/// Repeatedly doubling a constant stops at the budget.
#[test]
fn the_budget_holds_over_many_ops() {
    let mut source =
        String::from("graph @main() -> f32[16777216] {\n  %0: f32[1] = constant [1.0]\n");
    for i in 0..24 {
        let size = 1_u64 << (i + 1);
        source.push_str(&format!(
            "  %{}: f32[{size}] = concat %{i}, %{i} {{axis = 0}}\n",
            i + 1
        ));
    }
    source.push_str("  return %24\n}");
    for budget in [0, 100, 1 << 12, 1 << 20] {
        let mut ctx = PassContext::new().with_fold_budget(budget);
        let folded = fold_constants(graph(&source), &mut ctx).unwrap();
        let bytes = constant_bytes(&folded.graph);
        assert!(bytes <= budget + 4, "{bytes} of {budget}");
        assert_eq!(folded.is_changed(), budget > 0);
    }
}

#[test]
fn a_long_computation_of_a_small_result_is_not_folded() {
    let source = "
graph @main() -> f32[1, 1, 1] {
  %1: f32[1, 1, 1] = constant [1.0]
  %2: f32[1, 1, 1] = pool %1 {function = sum, size = [4000000000], strides = [1], dilations = [1], low = [3999999999], high = [0]}
  return %2
}";
    assert!(is_unchanged(fold_constants, source));
}

#[test]
fn small_expanding_ops_fold() {
    let source = |n: usize| {
        format!(
            "graph @main() -> i64[{n}] {{\n  %1: i64[{n}] = iota {{dims = [{n}], axis = 0, dtype = i64}}\n  return %1\n}}"
        )
    };
    assert!(!is_unchanged(fold_constants, &source(EXPANSION_LIMIT)));
    assert!(is_unchanged(fold_constants, &source(EXPANSION_LIMIT + 1)));
}

#[test]
fn a_zero_budget_folds_nothing() {
    let source = "
graph @main() -> f32[2] {
  %1: f32[2] = constant [4.0, 9.0]
  %2: f32[2] = sqrt %1
  return %2
}";
    let mut options = PassOptions {
        fold_budget: 0,
        freeze: false,
        ..PassOptions::default()
    };
    let (after, report) = optimize(graph(source), &mut options).unwrap();
    assert_eq!((after.n_ops(), report.rewrites()), (2, 0));
}

#[test]
fn weights_stay_narrow_where_constants_are_not_widened() {
    let source = |result: &str| {
        format!(
            "graph @main(%x: f32[M, 2]) -> (f32[M, 2], f32[2, 2]) {{
  %w: bf16[2, 2] = constant [1.0, 0.5, -2.0, 4.0]
  %1: f32[2, 2] = cast %w {{to = f32}}
  %2: f32[M, 2] = matmul %x, %1
  return %2, {result}
}}"
        )
    };
    let casts = |source: &str, widen_constants: bool| {
        let mut options = PassOptions {
            widen_constants,
            ..PassOptions::default()
        };
        let (after, _) = optimize(graph(source), &mut options).unwrap();
        let is_cast = |op: &Op| matches!(op, Op::Cast { .. });
        after.ops().filter(|(_, data)| is_cast(&data.op)).count()
    };
    // The second result is the weights, or a separate constant.
    let alone = source("%c").replace(
        "  %1:",
        "  %c: f32[2, 2] = constant [0.0, 0.0, 0.0, 1.0]\n  %1:",
    );
    assert_eq!((casts(&alone, false), casts(&alone, true)), (1, 0));
    // The weights have other readers too.
    let shared = source("%1");
    assert_eq!((casts(&shared, false), casts(&shared, true)), (0, 0));
}
