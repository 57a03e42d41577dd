//! Builtins compared with the interpreter's ops, and invalid operands.
#![allow(unsafe_code, reason = "each test has its memory to itself")]

use crate::NativeExecutor;
use kiln_backend::{Builtin, BuiltinOperand, ExecuteError, KernelExecutor, Memory, MemorySlice};
use kiln_interpreter::{EvaluateContext, evaluate_op};
use kiln_ir::{Extremum, Op};
use kiln_symbolic_shape::{Binding, DimTable};
use kiln_tensor::{DType, Tensor, bf16, f16};
use proptest::prelude::*;

/// Runs a builtin on tensors; returns results of these types.
fn run(
    builtin: &Builtin,
    inputs: &[Tensor],
    outputs: &[(DType, Vec<usize>)],
) -> Result<Vec<Tensor>, ExecuteError> {
    let cpu = NativeExecutor::new();
    let uploaded: Vec<Memory> = inputs.iter().map(|x| cpu.upload(x).unwrap()).collect();
    let bytes = |(dtype, shape): &(DType, Vec<usize>)| {
        shape.iter().product::<usize>() * dtype.size_in_bytes()
    };
    let results: Vec<Memory> = outputs
        .iter()
        .map(|ty| cpu.alloc(bytes(ty)).unwrap())
        .collect();
    // Previous contents of the memory are not part of a result.
    for memory in &results {
        poison(memory);
    }
    let given: Vec<_> = inputs
        .iter()
        .zip(&uploaded)
        .map(|(x, memory)| (whole(memory), operand(x.dtype(), x.shape())))
        .collect();
    let asked: Vec<_> = outputs
        .iter()
        .zip(&results)
        .map(|((dtype, shape), memory)| (whole(memory), operand(*dtype, shape)))
        .collect();
    let mut execution = cpu.begin();
    // SAFETY: only this function uses the memory.
    unsafe { execution.run_builtin(builtin, &given, &asked)? };
    let downloaded = outputs
        .iter()
        .zip(&results)
        .map(|((dtype, shape), memory)| cpu.download(memory, 0, *dtype, shape).unwrap());
    Ok(downloaded.collect())
}

/// Fills memory with bytes that are not a result.
fn poison(memory: &Memory) {
    let shape = [memory.bytes()];
    let junk = Tensor::from_vec(&shape, vec![0xa5_u8; memory.bytes()]).unwrap();
    let junk = NativeExecutor::new().upload(&junk).unwrap();
    let mut execution = NativeExecutor::new().begin();
    let bytes = operand(DType::U8, &shape);
    let (from, to) = ([(whole(&junk), bytes)], [(whole(memory), bytes)]);
    // SAFETY: only the caller uses the memory.
    unsafe { execution.run_builtin(&Builtin::Copy, &from, &to) }.unwrap();
}

fn whole(memory: &Memory) -> MemorySlice<'_> {
    MemorySlice {
        memory,
        offset: 0,
        bytes: memory.bytes(),
    }
}

fn operand(dtype: DType, shape: &[usize]) -> BuiltinOperand<'_> {
    BuiltinOperand { dtype, shape }
}

/// The interpreter's results.
fn interpreted(op: impl FnOnce(&mut DimTable) -> Op, inputs: &[Tensor]) -> Vec<Tensor> {
    let mut table = DimTable::new();
    let op = op(&mut table);
    let binding = Binding::new();
    evaluate_op(&EvaluateContext::new(&table, &binding), &op, inputs).unwrap()
}

fn assert_top_k(x: &Tensor, axis: usize, k: usize, largest: bool) {
    let extremum = if largest {
        Extremum::Max
    } else {
        Extremum::Min
    };
    let expected = interpreted(
        |table| Op::TopK {
            k: table.constant(k as i64),
            axis,
            extremum,
        },
        std::slice::from_ref(x),
    );
    let mut shape = x.shape().to_vec();
    shape[axis] = k;
    let builtin = Builtin::TopK { axis, largest };
    let outputs = [(x.dtype(), shape.clone()), (DType::I64, shape)];
    let found = run(&builtin, std::slice::from_ref(x), &outputs).unwrap();
    assert!(found[0].bit_equal(&expected[0]), "{found:?} {expected:?}");
    assert!(found[1].bit_equal(&expected[1]), "{found:?} {expected:?}");
}

fn assert_non_zero(x: &Tensor) {
    let expected = interpreted(|_| Op::NonZero, std::slice::from_ref(x));
    let outputs = [
        (DType::I64, vec![x.rank(), x.len()]),
        (DType::I64, Vec::new()),
    ];
    let found = run(&Builtin::NonZero, std::slice::from_ref(x), &outputs).unwrap();
    assert!(found[0].bit_equal(&expected[0]), "{found:?} {expected:?}");
    assert!(found[1].bit_equal(&expected[1]));
}

/// Numbers with repetitions, both zeros, infinities and NaN, as elements of every type.
fn tensors(shape: &[usize], numbers: &[f32]) -> Vec<Tensor> {
    let n = shape.iter().product::<usize>();
    let numbers: Vec<f32> = numbers.iter().cycle().take(n).copied().collect();
    macro_rules! of {
        ($convert:expr) => {
            Tensor::from_vec(shape, numbers.iter().map($convert).collect()).unwrap()
        };
    }
    vec![
        of!(|&x| x),
        of!(|&x| f64::from(x)),
        of!(|&x| f16::from_f32(x)),
        of!(|&x| bf16::from_f32(x)),
        of!(|&x| x as i64),
        of!(|&x| x as i32),
        of!(|&x| x as i16),
        of!(|&x| x as i8),
        of!(|&x| x as u64),
        of!(|&x| x as u32),
        of!(|&x| x as u16),
        of!(|&x| x as u8),
        of!(|&x| x > 0.0),
    ]
}

const NUMBERS: [f32; 11] = [
    1.0,
    -3.0,
    f32::NAN,
    0.0,
    3.0,
    -0.0,
    f32::INFINITY,
    f32::NEG_INFINITY,
    200.0,
    3.0,
    0.0,
];

#[test]
fn top_k_matches_the_interpreter_for_every_dtype() {
    for x in tensors(&[3, 4, 2], &NUMBERS) {
        for (axis, k) in [(0, 0), (0, 3), (1, 1), (1, 3), (1, 4), (2, 2), (2, 1)] {
            assert_top_k(&x, axis, k, true);
            assert_top_k(&x, axis, k, false);
        }
    }
    // More adjacent lanes than are searched at once.
    for x in tensors(&[2, 9, 37], &NUMBERS) {
        for k in [1, 4, 8, 9] {
            assert_top_k(&x, 1, k, true);
            assert_top_k(&x, 1, k, false);
        }
    }
    assert_top_k(&Tensor::zeros(DType::F32, &[0, 3]).unwrap(), 1, 2, true);
    assert_top_k(&Tensor::zeros(DType::F32, &[3, 0]).unwrap(), 1, 0, false);
}

#[test]
fn non_zero_matches_the_interpreter_for_every_dtype() {
    for shape in [&[3, 4, 2][..], &[7], &[], &[2, 0, 3]] {
        for x in tensors(shape, &NUMBERS) {
            assert_non_zero(&x);
        }
    }
}

/// Boxes in a small area, so that many overlap, with corners in any order; some have no area or contain NaN.
fn boxes(batch: usize, n: usize, seed: u64) -> Tensor {
    let mut state = seed | 1;
    let mut next = |limit: u64| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (state >> 33) % limit
    };
    let numbers = (0..batch * n * 4).map(|_| match next(200) {
        0 => f32::NAN,
        1 => f32::INFINITY,
        _ => next(24) as f32 * 0.5,
    });
    Tensor::from_vec(&[batch, n, 4], numbers.collect::<Vec<f32>>()).unwrap()
}

fn assert_suppress(boxes: &Tensor, scores: &Tensor, k: usize, overlap: f32, least: f32) {
    let given = [
        boxes.clone(),
        scores.clone(),
        Tensor::scalar(overlap),
        Tensor::scalar(least),
    ];
    let expected = interpreted(
        |table| Op::Suppress {
            k: table.constant(k as i64),
        },
        &given,
    );
    let rows = scores.shape()[0] * scores.shape()[1] * k;
    let outputs = [(DType::I64, vec![rows, 3]), (DType::I64, vec![])];
    let found = run(&Builtin::Suppress, &given, &outputs).unwrap();
    for (found, expected) in found.iter().zip(&expected) {
        let what = format!("{} of {:?}, {overlap}, {least}", k, scores.shape());
        assert!(
            found.bit_equal(expected),
            "{what}: {found:?} for {expected:?}"
        );
    }
}

#[test]
fn suppression_matches_the_interpreter() {
    for (batch, classes, n) in [
        (1, 1, 1),
        (2, 3, 17),
        (1, 1, 300),
        (1, 2, 0),
        (0, 2, 5),
        (1, 0, 3),
    ] {
        let all = boxes(batch, n, 7);
        let numbers = boxes(batch, classes * n, 5).to_vec::<f32>().unwrap();
        let scores = numbers[..batch * classes * n].to_vec();
        let scores = Tensor::from_vec(&[batch, classes, n], scores).unwrap();
        for k in [0, 1, 7, 9, n, n + 3] {
            for (overlap, least) in [
                (0.5, f32::NAN),
                (0.0, 3.0),
                (-1.0, f32::NAN),
                (0.3, f32::INFINITY),
                (f32::NAN, 0.0),
            ] {
                assert_suppress(&all, &scores, k, overlap, least);
            }
        }
    }
}

#[test]
fn the_first_of_many_are_found_in_any_order_of_the_elements() {
    let n = 1_000;
    let up: Vec<f32> = (0..n).map(|at| at as f32).collect();
    let down: Vec<f32> = up.iter().map(|x| -x).collect();
    let equal = vec![1.0_f32; n];
    let mixed: Vec<f32> = (0..n).map(|at| (at * 7919 % 1009) as f32).collect();
    for numbers in [up, down, equal, mixed] {
        let rows = Tensor::from_slice(&[1, n], &numbers).unwrap();
        let columns = Tensor::from_slice(&[n / 20, 20], &numbers).unwrap();
        for largest in [true, false] {
            for k in [1, 10, 31, 33, 500, n] {
                assert_top_k(&rows, 1, k, largest);
            }
            for k in [1, 5, 50] {
                assert_top_k(&columns, 0, k, largest);
            }
        }
    }
}

#[test]
fn copies_are_equal_in_every_bit() {
    for x in tensors(&[3, 4, 2], &NUMBERS) {
        let outputs = [(x.dtype(), vec![8, 3])];
        let found = run(&Builtin::Copy, std::slice::from_ref(&x), &outputs).unwrap();
        assert!(found[0].bit_equal(&x.reshape(&[8, 3]).unwrap()));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn top_k_of_any_length_matches_the_interpreter(
        numbers in prop::collection::vec(prop::sample::select(NUMBERS.to_vec()), 1..80),
        k in any::<prop::sample::Index>(),
        largest in any::<bool>(),
    ) {
        let x = Tensor::from_slice(&[numbers.len()], &numbers).unwrap();
        assert_top_k(&x, 0, k.index(numbers.len() + 1), largest);
        assert_non_zero(&x);
    }
}

#[test]
fn builtins_refuse_mismatched_operands() {
    let x = || Tensor::from_slice(&[2, 2], &[1.0f32, 2.0, 3.0, 4.0]).unwrap();
    let top_k = |axis| Builtin::TopK {
        axis,
        largest: true,
    };
    let of = |dtype, shape: &[usize]| (dtype, shape.to_vec());
    let (f32s, i64s) = (of(DType::F32, &[2, 1]), of(DType::I64, &[2, 1]));
    for (builtin, inputs, outputs, expected) in [
        (
            top_k(1),
            vec![],
            vec![f32s.clone(), i64s.clone()],
            "top-k: expected 1 operands and 2 results, found 0 and 2",
        ),
        (
            top_k(1),
            vec![x()],
            vec![f32s.clone()],
            "top-k: expected 1 operands and 2 results, found 1 and 1",
        ),
        (
            top_k(2),
            vec![x()],
            vec![f32s.clone(), i64s.clone()],
            "top-k: expected an axis below 2, found 2",
        ),
        (
            top_k(0),
            vec![x()],
            vec![of(DType::F32, &[3, 2]), of(DType::I64, &[3, 2])],
            "top-k: expected at most 2 elements, found 3",
        ),
        (
            top_k(1),
            vec![x()],
            vec![of(DType::F64, &[2, 1]), i64s.clone()],
            "the values of top-k: expected f32[2, 1], found f64[2, 1]",
        ),
        (
            top_k(1),
            vec![x()],
            vec![f32s.clone(), of(DType::I64, &[1, 2])],
            "the indices of top-k: expected i64[2, 1], found i64[1, 2]",
        ),
        (
            Builtin::NonZero,
            vec![x()],
            vec![of(DType::I64, &[1, 4]), of(DType::I64, &[])],
            "the indices of non-zero: expected i64[2, 4], found i64[1, 4]",
        ),
        (
            Builtin::NonZero,
            vec![x()],
            vec![of(DType::I64, &[2, 4]), of(DType::I64, &[1])],
            "the count of non-zero: expected i64[], found i64[1]",
        ),
        (
            Builtin::NonZero,
            vec![x()],
            vec![of(DType::I64, &[2, 3]), of(DType::I64, &[])],
            "the indices of non-zero: expected room for 4, found 3",
        ),
        (
            Builtin::Copy,
            vec![x()],
            vec![of(DType::F32, &[5])],
            "the result of copy: expected 4 elements of f32, found 5 of f32",
        ),
        (
            Builtin::Copy,
            vec![x()],
            vec![of(DType::I32, &[4])],
            "the result of copy: expected 4 elements of f32, found 4 of i32",
        ),
    ] {
        let error = run(&builtin, &inputs, &outputs).unwrap_err();
        assert_eq!(
            (error.code, error.to_string().as_str()),
            ("E0861", expected)
        );
    }
}

#[test]
fn builtins_refuse_memory_out_of_bounds() {
    let cpu = NativeExecutor::new();
    let memory = cpu.alloc(64).unwrap();
    let slice = |offset, bytes| MemorySlice {
        memory: &memory,
        offset,
        bytes,
    };
    let two = operand(DType::U64, &[2]);
    let mut execution = cpu.begin();
    let mut copy =
        // SAFETY: only this test uses the memory; overlapping operands are rejected.
        |input, output| unsafe {
            execution.run_builtin(&Builtin::Copy, &[(input, two)], &[(output, two)])
        };
    for (input, output, expected) in [
        (
            slice(0, 8),
            slice(16, 16),
            "an operand of copy: expected at least 16 bytes, found 8",
        ),
        (
            slice(0, 16),
            slice(56, 8),
            "a result of copy: expected at least 16 bytes, found 8",
        ),
        (
            slice(0, 16),
            slice(8, 16),
            "a result of copy: expected memory of its own, found memory of another operand or result",
        ),
        (
            slice(4, 16),
            slice(32, 16),
            "an operand of copy: expected an address that is a multiple of 8, found offset 4",
        ),
        (
            slice(56, 16),
            slice(32, 16),
            "an operand of copy: expected a slice within 64 bytes of memory, found 16 bytes at offset 56",
        ),
    ] {
        assert_eq!(copy(input, output).unwrap_err().to_string(), expected);
    }
    copy(slice(0, 16), slice(16, 16)).unwrap();
    let constant = cpu
        .upload(&Tensor::zeros(DType::U64, &[2]).unwrap())
        .unwrap();
    assert_eq!(
        copy(slice(0, 16), whole(&constant)).unwrap_err().code,
        "E0862"
    );
}
