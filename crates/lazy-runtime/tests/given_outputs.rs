//! Calls that write into tensors provided by the caller.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod support;

use kiln_lazy_runtime::CompiledProgram;
use kiln_tensor::{DType, Tensor};
use kiln_testkit::oracle::{Tolerance, compare_all};
use support::{compiled, graph, ramp, runtime};

fn program(text: &str) -> CompiledProgram {
    compiled(&runtime(), &graph(text), true)
}

/// Runs into given tensors, and expects the results of [`CompiledProgram::run`].
fn expect_into(program: &CompiledProgram, inputs: &[Tensor], outputs: &mut [Tensor]) {
    let expected = program.run(inputs).unwrap();
    program.run_into(inputs, outputs).unwrap();
    if let Err(mismatch) = compare_all(&expected, outputs, Tolerance::Exact) {
        panic!("{mismatch}\n{}", program.program());
    }
}

fn start_of(tensor: &Tensor) -> *const u8 {
    tensor.as_bytes().unwrap().as_ptr()
}

const TWO: &str = "graph @two(%x: f32[N]) -> (f32[N], f32[N]) {
  %y = neg %x
  %z = exp %y
  return %y, %z
}";

#[test]
fn output_tensors_of_the_right_shape_keep_their_memory() {
    let program = program(TWO);
    for n in [5, 5, 3, 5, 1, 0] {
        let mut outputs = [ramp(&[n]), ramp(&[n])];
        let before = outputs.each_ref().map(start_of);
        for _ in 0..2 {
            expect_into(&program, &[ramp(&[n])], &mut outputs);
            assert_eq!(outputs.each_ref().map(start_of), before, "{n}");
        }
    }
}

#[test]
fn other_output_tensors_are_replaced_and_shared_memory_is_kept() {
    let program = program(TWO);
    let x = ramp(&[4]);
    let of_others = [
        ramp(&[5]),
        Tensor::zeros(DType::I32, &[4]).unwrap(),
        ramp(&[4, 2]).narrow(1, 0, 1).unwrap(),
        x.clone(),
        Tensor::scalar(1.0f32),
    ];
    for given in of_others {
        let kept = given.clone();
        let before = kept.copied().unwrap();
        let mut outputs = [given, ramp(&[4])];
        expect_into(&program, std::slice::from_ref(&x), &mut outputs);
        assert!(kept.bit_equal(&before));
    }
    assert!(x.bit_equal(&ramp(&[4])));
}

#[test]
fn outputs_that_are_inputs_views_or_the_same_value_are_copied() {
    let program = program(
        r#"graph @views(%x: f32[N, 2]) -> (f32[N, 2], f32[2, N], f32[N, 2], f32[N, 2], f32[N]) {
          %y = neg %x
          %t = transpose %y {permutation = [1, 0]}
          %s = reduce %y {function = sum, axes = [1]}
          return "a" = %x, "b" = %t, "c" = %y, "d" = %y, "e" = %s
        }"#,
    );
    for n in [3, 1, 3] {
        let shapes: [&[usize]; 5] = [&[n, 2], &[2, n], &[n, 2], &[n, 2], &[n]];
        let mut outputs = shapes.map(|shape| Tensor::zeros(DType::F32, shape).unwrap());
        for _ in 0..2 {
            expect_into(&program, &[ramp(&[n, 2])], &mut outputs);
        }
    }
}

#[test]
fn after_a_fault_output_tensors_exist_and_the_next_call_is_right() {
    let program = program(
        "graph @pick(%x: f32[N], %i: i64[M]) -> (f32[M], f32[N]) {
          %y = gather %x, %i {axis = 0}
          %z = neg %x
          return %y, %z
        }",
    );
    let indices = |indices: &[i64]| Tensor::from_slice(&[indices.len()], indices).unwrap();
    let mut outputs = [ramp(&[2]), ramp(&[3])];
    let wrong = program.run_into(&[ramp(&[3]), indices(&[0, 7])], &mut outputs);
    assert_eq!(wrong.unwrap_err().code(), "E0822");
    let shapes = outputs.each_ref().map(|output| output.shape().to_vec());
    assert_eq!(shapes, [vec![2], vec![3]]);
    expect_into(&program, &[ramp(&[3]), indices(&[0, 2])], &mut outputs);
}

#[test]
fn calls_with_and_without_given_tensors_alternate() {
    let program = program(TWO);
    let mut kept = Vec::new();
    let mut outputs = [ramp(&[6]), ramp(&[6])];
    for n in 0..4 {
        let x = Tensor::full(&[6], n as f32).unwrap();
        kept.push((n, program.run(std::slice::from_ref(&x)).unwrap()));
        program.run_into(&[x], &mut outputs).unwrap();
        for (n, results) in &kept {
            assert_eq!(results[0].to_vec::<f32>().unwrap(), [-(*n as f32); 6]);
        }
        assert_eq!(outputs[0].to_vec::<f32>().unwrap(), [-(n as f32); 6]);
    }
}
