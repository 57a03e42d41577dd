//! The rules of canonical form, one graph each.

use crate::testing::{ramp, same_results};
use kiln_tensor::{Tensor, bf16, f16};

#[test]
fn results_stay_the_same_on_sizes_zero_and_one() {
    for b in [0, 1, 3] {
        same_results(
            "
graph @main(%x: f32[B, 1, 4], %k: f32[]) -> (f32[4, B], f32[1, B, 4], f32[B, 2]) {
  %1: f32[1, B, 4] = transpose %x {permutation = [1, 0, 2]}
  %2: f32[B, 4] = reshape %1 {dims = [B, 4]}
  %3: f32[4, B] = transpose %2 {permutation = [1, 0]}
  %4: f32[1, B, 4] = broadcast %2 {dims = [1, B, 4]}
  %5: f32[B, 4] = slice %2 {starts = [0, 3], sizes = [B, 4], steps = [1, -1]}
  %6: f32[B, 2] = slice %5 {starts = [0, 1], sizes = [B, 2], steps = [1, 2]}
  %7: f32[B, 2] = pad %6, %k {low = [0, 0], high = [0, 0], mode = constant}
  return %3, %4, %7
}",
            &[ramp(&[b, 1, 4]), ramp(&[])],
        );
    }
}

#[test]
fn widened_scatters_keep_every_bit() {
    let half = |elements: &[f32]| {
        let elements: Vec<f16> = elements.iter().map(|&x| f16::from_f32(x)).collect();
        Tensor::from_slice(&[elements.len()], &elements).unwrap()
    };
    let brain = |elements: &[f32]| {
        let elements: Vec<bf16> = elements.iter().map(|&x| bf16::from_f32(x)).collect();
        Tensor::from_slice(&[elements.len()], &elements).unwrap()
    };
    let indices = Tensor::from_slice(&[5], &[0_i64, 2, 0, -1, 0]).unwrap();
    // Sums that lose halves one by one, overflow that a later update undoes, zeros and non-finite values.
    let x = [2048.0, -0.0, 60000.0];
    let updates = [1.0, 60000.0, 1.0, -60000.0, 1.0];
    let special = [f32::NAN, f32::INFINITY, -1.0, f32::NEG_INFINITY, -0.0];
    let truths = |elements: &[bool]| Tensor::from_slice(&[elements.len()], elements).unwrap();
    let texts = |dtype: &str, combine: &str| {
        format!(
            "graph @main(%x: {dtype}[N], %i: i64[K], %u: {dtype}[K]) -> {dtype}[N] {{
  %1: {dtype}[N] = scatter_elements %x, %i, %u {{axis = 0, combine = {combine}}}
  return %1
}}"
        )
    };
    for combine in ["add", "mul", "min", "max", "set"] {
        for updates in [updates, special] {
            let inputs = [half(&x), indices.clone(), half(&updates)];
            same_results(&texts("f16", combine), &inputs);
            let inputs = [brain(&x), indices.clone(), brain(&updates)];
            same_results(&texts("bf16", combine), &inputs);
        }
        let inputs = [
            truths(&[true, false, true]),
            indices.clone(),
            truths(&[true, true, false, false, true]),
        ];
        same_results(&texts("bool", combine), &inputs);
    }
    let text = "
graph @main(%x: bf16[N, 2], %i: i64[K, 1], %u: bf16[K, 2]) -> bf16[N, 2] {
  %1: bf16[N, 2] = scatter_nd %x, %i, %u {combine = add}
  return %1
}";
    let pairs = |rows: usize| brain(&vec![0.3; 2 * rows]).reshape(&[rows, 2]).unwrap();
    let rows = Tensor::from_slice(&[4, 1], &[1_i64, 1, 1, 7]).unwrap();
    same_results(text, &[pairs(8), rows.clone(), pairs(4)]);
    // Out of range before and after.
    same_results(text, &[pairs(3), rows, pairs(4)]);
}

#[test]
fn concats_with_many_operands_are_built_in_steps() {
    for n in [33, 80, 400] {
        let list = |make: &dyn Fn(usize) -> String| -> String {
            (0..n).map(make).collect::<Vec<_>>().join(", ")
        };
        let inputs = list(&|i| format!("%x{i}: f32[N{i}, 2]"));
        let operands = list(&|i| format!("%x{i}"));
        let source = format!(
            "graph @main({inputs}) -> () {{\n  %y = concat {operands} {{axis = 0}}\n  return\n}}"
        );
        let mut before =
            kiln_shape_inference::read_graph(&source, &kiln_ir::BlobMap::new()).unwrap();
        let (op, _) = before.ops().next().unwrap();
        let result = before.op(op).results[0];
        before.set_outputs([("y", result)]);
        let (after, _) = crate::testing::optimized(before.clone());
        let widest = after.ops().map(|(_, data)| data.operands.len()).max();
        assert!(
            after.n_ops() > 1 && widest.unwrap() <= 32,
            "{n}: {widest:?}"
        );
        let inputs: Vec<Tensor> = (0..n).map(|i| ramp(&[i % 3, 2])).collect();
        crate::testing::assert_same(&before, &after, &inputs);
    }
}
