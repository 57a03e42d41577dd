//! The whole pipeline: rounds, limits, dumps, bisection.

use super::{PassOptions, ROUND_LIMIT, optimize, pass_names};
use crate::testing::{assert_same, graph, optimized, ramp};
use insta::assert_snapshot;
use kiln_ir::{Graph, NewOp, Op, Type, text};
use kiln_tensor::DType;

const BLOCK: &str = "
graph @block(%x: f32[B, S, 4], %g: f32[4]) -> f32[B, S, 4] {
  %two: f32[] = constant [2.0]
  %half: f32[] = constant [0.5]
  %eps: f32[] = constant [0.001]
  %1: f32[B, S, 1] = reduce %x {function = mean, axes = [2], keep_dims}
  %2: f32[B, S, 4] = sub %x, %1
  %3: f32[B, S, 4] = pow %2, %two
  %4: f32[B, S, 1] = reduce %3 {function = mean, axes = [2], keep_dims}
  %5: f32[B, S, 1] = add %4, %eps
  %6: f32[B, S, 1] = pow %5, %half
  %7: f32[B, S, 4] = sub %x, %1
  %8: f32[B, S, 4] = div %7, %6
  %9: f32[1, 1, 4] = reshape %g {dims = [1, 1, 4]}
  %10: f32[B, S, 4] = broadcast %9 {dims = [B, S, 4]}
  %11: f32[B, S, 4] = mul %10, %8
  %12: f32[] = mul %two, %half
  %13: f32[B, S, 4] = mul %11, %12
  return %13
}";

#[test]
fn an_exported_layer_norm_is_simplified() {
    let (graph, report) = optimized(graph(BLOCK));
    assert_snapshot!(text::print(&graph), @r#"
    graph @block(%x: f32[B, S, 4], %g: f32[4]) -> f32[B, S, 4] {
      %0: f32[B, S, 1] = reduce %x {function = mean, axes = [2], keep_dims}
      %1: f32[B, S, 4] = sub %x, %0
      %2: f32[B, S, 4] = square %1
      %3: f32[B, S, 1] = reduce %2 {function = mean, axes = [2], keep_dims}
      %eps: f32[] = constant [0.001]
      %4: f32[B, S, 1] = add %3, %eps
      %5: f32[B, S, 1] = sqrt %4
      %6: f32[B, S, 4] = div %1, %5
      %7: f32[B, S, 4] = mul %g, %6
      return "13" = %7
    }
    "#);
    assert_snapshot!(report.to_string(), @"
    round 1: canonicalize: unchanged
    round 1: simplify_algebra: 4 rewrites, 16 ops
    round 1: fold_constants: 1 rewrite, 16 ops
    round 1: freeze_constants: unchanged
    round 1: resolve_bindings: unchanged
    round 1: inline_control_flow: unchanged
    round 1: hoist_from_loops: unchanged
    round 1: sink_constants: unchanged
    round 1: eliminate_common_subexpressions: 1 rewrite, 15 ops
    round 1: eliminate_dead_ops: 4 rewrites, 11 ops
    round 2: canonicalize: unchanged
    round 2: simplify_algebra: 1 rewrite, 10 ops
    round 2: fold_constants: unchanged
    round 2: freeze_constants: unchanged
    round 2: resolve_bindings: unchanged
    round 2: inline_control_flow: unchanged
    round 2: hoist_from_loops: unchanged
    round 2: sink_constants: unchanged
    round 2: eliminate_common_subexpressions: unchanged
    round 2: eliminate_dead_ops: 1 rewrite, 9 ops
    round 3: canonicalize: unchanged
    round 3: simplify_algebra: unchanged
    round 3: fold_constants: unchanged
    round 3: freeze_constants: unchanged
    round 3: resolve_bindings: unchanged
    round 3: inline_control_flow: unchanged
    round 3: hoist_from_loops: unchanged
    round 3: sink_constants: unchanged
    round 3: eliminate_common_subexpressions: unchanged
    round 3: eliminate_dead_ops: unchanged
    converged after 3 rounds
    ");
    assert!(report.converged);
}

#[test]
fn optimizing_twice_changes_nothing() {
    let (once, _) = optimized(graph(BLOCK));
    let (twice, report) = optimized(once.clone());
    assert_eq!(report.rewrites(), 0);
    assert_eq!(text::print(&once), text::print(&twice));
}

#[test]
fn results_are_the_same_bit_for_bit() {
    let before = graph(BLOCK);
    let (after, _) = optimized(before.clone());
    for (b, s) in [(0, 3), (1, 1), (2, 5)] {
        assert_same(&before, &after, &[ramp(&[b, s, 4]), ramp(&[4])]);
    }
}

/// Each prefix of the rewrites is a graph that computes the same, so bisection finds a wrong rewrite.
#[test]
fn stopping_after_n_rewrites_gives_a_valid_graph() {
    let before = graph(BLOCK);
    let (_, report) = optimized(before.clone());
    let mut last = None;
    for n in 0..=report.rewrites() {
        let mut options = PassOptions {
            stop_after_rewrites: Some(n),
            verify: true,
            ..PassOptions::default()
        };
        let (after, report) = optimize(before.clone(), &mut options).unwrap();
        assert!(report.rewrites() <= n);
        assert_same(&before, &after, &[ramp(&[2, 3, 4]), ramp(&[4])]);
        last = Some(after);
    }
    assert_eq!(
        text::print(&last.unwrap()),
        text::print(&optimized(before).0)
    );
}

#[test]
fn every_pass_is_reported_to_the_observer() {
    let mut seen = Vec::new();
    let mut dump = |name: &str, graph: &Graph| seen.push((name.to_owned(), graph.n_ops()));
    let mut options = PassOptions {
        dump: Some(&mut dump),
        ..PassOptions::default()
    };
    assert!(format!("{options:?}").contains("dump: true"));
    let (_, report) = optimize(graph(BLOCK), &mut options).unwrap();
    assert_eq!(seen.len(), report.runs.len());
    assert_eq!(seen.len(), report.rounds * pass_names().count());
    assert!(report.rounds <= ROUND_LIMIT);
}

#[test]
fn freezing_is_off_when_gradients_are_wanted() {
    let mut options = PassOptions {
        freeze: false,
        ..PassOptions::default()
    };
    let (_, report) = optimize(graph(BLOCK), &mut options).unwrap();
    assert!(report.runs.iter().all(|run| run.pass != "freeze_constants"));
}

#[test]
fn an_invalid_graph_is_refused_by_name() {
    let mut broken = Graph::new("broken");
    let n = broken.dims_mut().symbol("N").unwrap();
    let x = broken.add_input("x", Type::tensor(DType::F32, [n]));
    let m = broken.dims_mut().constant(3);
    let op = Op::map(kiln_scalar::Function::by_name("relu").unwrap());
    let relu = broken.append(
        broken.body(),
        NewOp::new(op, [x], [Type::tensor(DType::F32, [m])]),
    );
    broken.set_outputs([("y", broken.op(relu).results[0])]);
    let mut options = PassOptions {
        verify: true,
        ..PassOptions::default()
    };
    let error = optimize(broken.clone(), &mut options).unwrap_err();
    assert_eq!(error.code(), "E0291");
    assert!(
        error
            .to_string()
            .starts_with("expected types that follow from the operands before the passes")
    );

    broken.append(broken.body(), NewOp::new(Op::Concat { axis: 0 }, [], []));
    let error = optimize(broken, &mut options).unwrap_err();
    assert_eq!(error.code(), "E0290");
}

/// A chain of `n` ops with a rewrite every few of them.
fn chain(n: usize) -> Graph {
    let mut graph = Graph::new("chain");
    let dim = graph.dims_mut().symbol("N").unwrap();
    let ty = Type::tensor(DType::F32, [dim]);
    let x = graph.add_input("x", ty.clone());
    let body = graph.body();
    let mut value = x;
    for i in 0..n {
        let name = ["exp", "neg", "neg", "tanh", "relu"][i % 5];
        let op = Op::map(kiln_scalar::Function::by_name(name).unwrap());
        let id = graph.append(body, NewOp::new(op, [value], [ty.clone()]));
        value = graph.op(id).results[0];
    }
    graph.set_outputs([("y", value)]);
    graph
}

/// Eight times the ops may take eight times as long, but not sixty-four times; the margin is for a busy machine.
#[test]
fn cost_is_linear_in_the_graph() {
    let time = |n: usize| {
        let graph = chain(n);
        let run = || {
            let start = std::time::Instant::now();
            let mut options = PassOptions {
                verify: false,
                ..PassOptions::default()
            };
            let (after, _) = optimize(graph.clone(), &mut options).unwrap();
            assert_eq!(after.n_ops(), n / 5 * 3);
            start.elapsed()
        };
        (0..3).map(|_| run()).min().unwrap_or_default()
    };
    let (one, eight) = (time(500), time(4_000));
    assert!(eight < one * 24, "{one:?} {eight:?}");
}

/// A stack frame per op would not fit.
#[test]
fn a_long_chain_needs_little_stack() {
    let run = || {
        let mut options = PassOptions {
            verify: false,
            ..PassOptions::default()
        };
        optimize(chain(20_000), &mut options).unwrap().0.n_ops()
    };
    let thread = std::thread::Builder::new()
        .stack_size(128 << 10)
        .spawn(run)
        .unwrap();
    assert_eq!(thread.join().unwrap(), 12_000);
}
