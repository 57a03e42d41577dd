//! Which ops are folded into weights, and what that costs.

use super::freeze_constants;
use crate::PassContext;
use crate::testing::{graph, ramp};
use kiln_interpreter::interpret;
use kiln_ir::{Graph, Op};

/// Output channels of a transposed convolution in groups: `[C, O / groups, kernel..]`.
#[test]
fn grouped_transposed_convolutions_scale_by_group() {
    let source = "
graph @main(%x: f32[N, 4, L]) -> f32[N, 6, L] {
  %w: f32[4, 3, 1] = constant [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 11.0, 12.0]
  %c: f32[6, 1] = constant [1.0, 2.0, 4.0, 8.0, 16.0, 32.0]
  %b: f32[6, 1] = constant [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]
  %1: f32[N, 6, L] = conv_transpose %x, %w {strides = [1], dilations = [1], low = [0], high = [0], output_padding = [0], groups = 2}
  %2: f32[N, 6, L] = add %1, %b
  %3: f32[N, 6, L] = mul %2, %c
  return %3
}";
    // Every number is exact here, so the results are bit-identical.
    let before = graph(source);
    let changed = freeze_constants(before.clone(), &mut PassContext::new()).unwrap();
    assert_eq!(changed.rewrites, 1);
    for n in [0, 1, 2] {
        crate::testing::assert_same(&before, &changed.graph, &[ramp(&[n, 4, 3])]);
    }
}

#[test]
fn frozen_results_stay_within_rounding() {
    let source = "
graph @main(%x: f32[N, 2, H, 2]) -> f32[N, 3, H, 1] {
  %w: f32[3, 2, 1, 2] = constant [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.1, 1.2, 1.3]
  %m: f32[3, 1, 1] = constant [0.7, 0.1, -0.3]
  %g: f32[3, 1, 1] = constant [0.3, 1.7, -2.1]
  %1: f32[N, 3, H, 1] = conv %x, %w {strides = [1, 1], dilations = [1, 1], low = [0, 0], high = [0, 0], groups = 1, out = f32}
  %2: f32[N, 3, H, 1] = sub %1, %m
  %3: f32[N, 3, H, 1] = mul %2, %g
  return %3
}";
    let before = graph(source);
    let after = freeze_constants(before.clone(), &mut PassContext::new())
        .unwrap()
        .graph;
    let run = |graph: &Graph| {
        let outputs = interpret(graph, &[ramp(&[2, 2, 3, 2])], &Default::default()).unwrap();
        outputs[0].to_vec::<f32>().unwrap()
    };
    for (expected, found) in run(&before).into_iter().zip(run(&after)) {
        assert!(
            (expected - found).abs() <= 1e-5 * expected.abs().max(1.0),
            "{expected} {found}"
        );
    }
}

#[test]
fn weights_are_laid_out_regardless_of_the_fold_budget() {
    let weights = vec!["0.5"; 64].join(", ");
    let source = format!(
        "
graph @main(%x: f32[B, 8]) -> f32[B, 8] {{
  %w: f16[8, 8] = constant [{weights}]
  %1: f16[8, 8] = transpose %w {{permutation = [1, 0]}}
  %2: f32[8, 8] = cast %1 {{to = f32}}
  %3: f32[8, 8] = neg %2
  %4: f32[B, 8] = matmul %x, %3 {{out = f32}}
  return %4
}}"
    );
    let mut ctx = PassContext::new().with_fold_budget(0);
    let changed = freeze_constants(graph(&source), &mut ctx).unwrap();
    assert_eq!(
        changed.rewrites, 2,
        "a fourth constant would be beyond the limit"
    );
    assert!(
        changed
            .graph
            .ops()
            .any(|(_, data)| matches!(data.op, Op::Map { .. }))
    );
}

/// A long chain of movements of one constant would make a copy for each.
#[test]
fn frozen_constants_do_not_grow_beyond_their_operands() {
    let mut source = String::from(
        "graph @main() -> f32[4, 2] {\n  %0: f32[2, 4] = constant [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]\n",
    );
    for i in 0..100 {
        source.push_str(&format!(
            "  %{}: f32[4, 2] = transpose %{} {{permutation = [1, 0]}}\n",
            2 * i + 1,
            2 * i
        ));
        source.push_str(&format!(
            "  %{}: f32[2, 4] = reshape %{} {{dims = [2, 4]}}\n",
            2 * i + 2,
            2 * i + 1
        ));
    }
    source.push_str("  %201: f32[4, 2] = transpose %200 {permutation = [1, 0]}\n  return %201\n}");
    let changed = freeze_constants(graph(&source), &mut PassContext::new()).unwrap();
    assert_eq!(changed.rewrites, super::GROWTH_LIMIT);
}
