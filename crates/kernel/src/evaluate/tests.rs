//! Cases not covered by the examples: edge cases of reductions, faults, coverage, and mismatched inputs.

use kiln_scalar::Mode;
use kiln_tensor::{DType, Tensor, bf16, f16};

use super::{EvaluateError, evaluate};
use crate::form::Kernel;
use crate::text::read;

fn kernel(text: &str) -> Kernel {
    read(text).unwrap_or_else(|errors| panic!("{}", errors.render(text)))
}

fn run(text: &str, symbols: &[i64], buffers: &mut [Tensor]) -> Result<(), EvaluateError> {
    evaluate(&kernel(text), symbols, buffers, Mode::Declared)
}

/// The code and the message of the error of an evaluation.
fn error(text: &str, symbols: &[i64], buffers: &mut [Tensor]) -> String {
    let error = run(text, symbols, buffers).unwrap_err();
    format!("{}: {error}", error.code())
}

fn tensor<T: kiln_tensor::Element>(elements: &[T]) -> Tensor {
    Tensor::from_slice(&[elements.len()], elements).unwrap()
}

/// `reduce word[j < N] %x[j]` of a dtype.
fn reduced<T: kiln_tensor::Element>(word: &str, elements: &[T]) -> Tensor {
    let dtype = T::DTYPE;
    let out = if word.starts_with("arg") {
        DType::I64
    } else {
        dtype
    };
    let text = format!(
        "kernel @k(%x: in {dtype}[N], %y: out {out}[]) {{ s = reduce {word}[j < N] %x[j] store %y[] = s }}"
    );
    let mut buffers = [tensor(elements), Tensor::zeros(out, &[]).unwrap()];
    run(&text, &[elements.len() as i64], &mut buffers).unwrap();
    buffers[1].clone()
}

#[test]
fn empty_reductions_give_the_identity() {
    let none: [f32; 0] = [];
    let found =
        ["add", "mul", "min", "max"].map(|word| reduced(word, &none).item::<f32>().unwrap());
    assert_eq!(found, [0.0, 1.0, f32::INFINITY, f32::NEG_INFINITY]);
    let none: [i8; 0] = [];
    let found = ["add", "mul", "min", "max"].map(|word| reduced(word, &none).item::<i8>().unwrap());
    assert_eq!(found, [0, 1, i8::MAX, i8::MIN]);
    assert_eq!(reduced("min", &[0_u64; 0]).item::<u64>().unwrap(), u64::MAX);
    assert_eq!(reduced("max", &[0_i32; 0]).item::<i32>().unwrap(), i32::MIN);
    assert_eq!(reduced("min", &[0_i64; 0]).item::<i64>().unwrap(), i64::MAX);
    assert_eq!(reduced("min", &[0_i16; 0]).item::<i16>().unwrap(), i16::MAX);
    assert_eq!(reduced("max", &[0_u32; 0]).item::<u32>().unwrap(), 0);
    assert_eq!(reduced("max", &[0_u16; 0]).item::<u16>().unwrap(), 0);
    assert_eq!(reduced("max", &[0_u8; 0]).item::<u8>().unwrap(), 0);
    assert_eq!(
        reduced("max", &[f16::ZERO; 0]).item::<f16>().unwrap(),
        f16::NEG_INFINITY
    );
    let found = ["and", "or"].map(|word| reduced(word, &[true; 0]).item::<bool>().unwrap());
    assert_eq!(found, [true, false]);
    assert_eq!(reduced("argmax", &none).item::<i64>().unwrap(), 0);
}

#[test]
fn arg_reductions_order_equal_values_and_nan() {
    let words = ["argmin", "argmin_last", "argmax", "argmax_last"];
    let found = |elements: &[f32]| words.map(|word| reduced(word, elements).item::<i64>().unwrap());
    assert_eq!(found(&[2.0, 1.0, 1.0, 2.0]), [1, 2, 0, 3]);
    assert_eq!(found(&[2.0, f32::NAN, f32::NAN, 3.0]), [1, 2, 1, 2]);
    assert_eq!(found(&[f32::NEG_INFINITY; 3]), [0, 2, 0, 2]);
    assert_eq!(
        reduced("argmax", &[false, true, true])
            .item::<i64>()
            .unwrap(),
        1
    );
    assert_eq!(
        reduced("argmin_last", &[3_u8, 0, 0]).item::<i64>().unwrap(),
        2
    );
}

#[test]
fn sums_are_taken_in_the_accumulator() {
    let text = "kernel @k(%x: in i8[N], %y: out i8[], %z: out i32[]) {
        s = reduce add[j < N] %x[j]
        t = reduce add i32[j < N] %x[j]
        store %y[] = s
        store %z[] = t
    }";
    let mut buffers = [
        tensor(&[100_i8, 100]),
        Tensor::scalar(0_i8),
        Tensor::scalar(0_i32),
    ];
    run(text, &[2], &mut buffers).unwrap();
    assert_eq!(
        (
            buffers[1].item::<i8>().unwrap(),
            buffers[2].item::<i32>().unwrap()
        ),
        (-56, 200)
    );
}

#[test]
fn floats_are_rounded_or_promoted() {
    let text = "kernel @k(%x: in f16[N], %y: out bf16[N]) { outer i < N  store %y[i] = bf16(f32(%x[i]) / 3.0) }";
    let x = tensor(&[f16::from_f32(1.0)]);
    let mut buffers = [x.clone(), tensor(&[bf16::ZERO])];
    run(text, &[1], &mut buffers).unwrap();
    assert_eq!(
        buffers[1].to_vec::<bf16>().unwrap(),
        [bf16::from_f32(1.0 / 3.0)]
    );
    let mut buffers = [x, tensor(&[0.0_f64])];
    evaluate(&kernel(text), &[1], &mut buffers, Mode::Promoted).unwrap();
    assert_eq!(buffers[1].to_vec::<f64>().unwrap(), [1.0 / 3.0]);
}

#[test]
fn combining_stores_run_in_order() {
    let text = |word: &str| {
        format!(
            "kernel @k(%i: in i64[N], %x: in i32[N], %z: inout i32[M]) {{ outer i < N  store {word} %z[%i[i]] = %x[i] }}"
        )
    };
    let result = |word: &str| {
        let mut buffers = [tensor(&[0_i64, 1, 0]), tensor(&[5, -7, 3]), tensor(&[4, 4])];
        run(&text(word), &[3, 2], &mut buffers).unwrap();
        buffers[2].to_vec::<i32>().unwrap()
    };
    assert_eq!(result("add"), [12, -3]);
    assert_eq!(result("mul"), [60, -28]);
    assert_eq!(result("min"), [3, -7]);
    assert_eq!(result("max"), [5, 4]);
    assert_eq!(result("set"), [3, -7]);
}

#[test]
fn a_guarded_load_is_skipped_where_its_condition_is_false() {
    let text = "kernel @k(%x: in i32[N], %y: out i32[M]) {
        outer i < M
        store %y[i] = (%x[i - 1] if inside and i != 2 else i32(-1)) + (%x[i] if i < N else i32(-2))
    }";
    let mut buffers = [tensor(&[10, 20]), tensor(&[0; 4])];
    run(text, &[2, 4], &mut buffers).unwrap();
    assert_eq!(
        buffers[1].to_vec::<i32>().unwrap(),
        [-1 + 10, 10 + 20, -1 - 2, -1 - 2]
    );
}

#[test]
fn extents_depend_on_axes_before_them() {
    let text = "kernel @k(%y: out i64[N]) {
        outer i < N
        s = reduce add[j < clamp(i, 3), k < clamp(j + 1, 9)] 10 * j + k
        store %y[i] = s
    }";
    let mut buffers = [tensor(&[0_i64; 5])];
    run(text, &[5], &mut buffers).unwrap();
    // j = 0: k = 0; j = 1: k = 0, 1; j = 2: k = 0, 1, 2.
    assert_eq!(buffers[0].to_vec::<i64>().unwrap(), [0, 0, 21, 84, 84]);
}

#[test]
fn faults_are_typed_and_leave_buffers_unchanged() {
    let gather = "kernel @k(%i: in i64[N], %x: in f32[M], %y: out f32[N]) { outer n < N  store %y[n] = %x[%i[n]] }";
    let mut buffers = [
        tensor(&[0_i64, 2]),
        tensor(&[1.0_f32, 2.0]),
        tensor(&[7.0_f32, 7.0]),
    ];
    insta::assert_snapshot!(error(gather, &[2, 2], &mut buffers), @"E0264: expected an index from 0 to 2 (exclusive) on axis 0 of %x, found 2");
    assert_eq!(buffers[2].to_vec::<f32>().unwrap(), [7.0, 7.0]);
    assert!(run(gather, &[2, 2], &mut buffers).unwrap_err().is_fault());
    let divide =
        "kernel @k(%i: in i64[N], %y: out i64[N]) { outer n < N  store %y[n] = 1 / %i[n] }";
    let mut buffers = [tensor(&[0_i64]), tensor(&[0_i64])];
    let found = run(divide, &[1], &mut buffers).unwrap_err();
    assert!(found.is_fault() && found.code() == "E0882", "{found}");
    let local = "kernel @k(%y: out i64[N]) { outer n < N  s[j < 2] = j  store %y[n] = s[n] }";
    insta::assert_snapshot!(error(local, &[3], &mut [tensor(&[0_i64; 3])]), @"E0264: expected an index from 0 to 2 (exclusive) on axis 0 of `s`, found 2");
    let scatter =
        "kernel @k(%i: in i64[N], %z: inout i64[M]) { outer n < N  store add %z[%i[n]] = 1 }";
    insta::assert_snapshot!(error(scatter, &[1, 1], &mut [tensor(&[-1_i64]), tensor(&[0_i64])]), @"E0264: expected an index from 0 to 1 (exclusive) on axis 0 of %z, found -1");
}

#[test]
fn every_element_is_written_once() {
    let half = "kernel @k(%y: out i64[N, M]) { outer n < N  store %y[n, 0] = 1 }";
    let zeros = |shape: &[usize]| Tensor::zeros(DType::I64, shape).unwrap();
    assert!(run(half, &[3, 1], &mut [zeros(&[3, 1])]).is_ok());
    insta::assert_snapshot!(error(half, &[2, 3], &mut [zeros(&[2, 3])]), @"E0265: expected every element of %y to be written once, found [0, 1] written 0 times");
    let twice = "kernel @k(%y: out i64[N]) { outer n < N  store %y[n] = 1  store %y[n] = 2 }";
    insta::assert_snapshot!(error(twice, &[2], &mut [zeros(&[2])]), @"E0265: expected every element of %y to be written once, found [0] written 2 times");
}

#[test]
fn evaluation_refuses_mismatched_symbols_and_buffers() {
    let text = "kernel @k(%x: in f32[N], %y: out f32[N]) where N >= 2 { outer i < N  store %y[i] = %x[i] }";
    let (two, three) = (tensor(&[1.0_f32, 2.0]), tensor(&[1.0_f32; 3]));
    insta::assert_snapshot!(error(text, &[], &mut []), @"E0260: expected 1 values of symbols, found 0");
    insta::assert_snapshot!(error(text, &[2], &mut []), @"E0261: expected 2 buffers, found 0");
    insta::assert_snapshot!(error(text, &[2], &mut [tensor(&[1_i32, 2]), two.clone()]), @"E0262: expected %x of f32, found i32");
    insta::assert_snapshot!(error(text, &[2], &mut [two.clone(), three]), @"E0263: expected %y of shape [2], found [3]");
    let found = error(text, &[1], &mut [two.clone(), two.clone()]);
    assert!(found.starts_with("E03"), "{found}");
    let huge = "kernel @k(%y: out i64[]) { s[j < N, k < N] = j  store %y[] = s[0, 0] }";
    insta::assert_snapshot!(error(huge, &[1 << 40], &mut [Tensor::scalar(0_i64)]), @"E0266: the values of `s` do not fit into memory");
}

#[test]
fn evaluating_invalid_kernels_does_not_panic() {
    let texts = [
        "kernel @k(%y: out i64[N]) { carry t < N { s init 0 = prev(s) u = s store %y[t] = u } v = u }",
        "kernel @k(%y: out i64[N]) { s = last(s0)  s0 = 1 }",
        "kernel @k(%y: out i64[N]) { s = reduce argmax[i < N, j < N] i }",
        "kernel @k(%y: out i64[N]) { s = reduce and[i < N] i }",
        "kernel @k(%y: out i64[N]) { s = reduce min[i < N] i > 0 }",
        "kernel @k(%y: out i64[N]) { s = reduce max bool[i < N] i }",
        "kernel @k(%y: out i64[N]) { carry t < N { u = prev(s) s init 0 = 1 v = prev(u) } }",
    ];
    for text in texts {
        // Some of them are not even the text of a kernel.
        if let Ok(kernel) = read(text) {
            let result = evaluate(&kernel, &[2], &mut [tensor(&[0_i64; 2])], Mode::Declared);
            assert_eq!(result.unwrap_err().code(), "E0267", "{text}");
        }
    }
}
