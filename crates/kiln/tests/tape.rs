//! Tapes: values and gradients computed eagerly equal compiled ones, for changing sizes and any dtype.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use kiln::internals::autodiff::{GradientRequest, differentiate};
use kiln::{
    Cache, CompiledGraph, DType, Device, GradientTape, GraphCompiler, Options, Tensor, Var,
};

fn options() -> Options {
    Options::new().cache(Cache::off()).device(Device::cpu())
}

fn values(dtype: DType, shape: &[usize], seed: usize) -> Tensor {
    let count: usize = shape.iter().product();
    let value = |index: usize| ((index * 7 + seed * 13) % 11) as f64 / 5.0 - 0.9;
    Tensor::from_f64_slice(dtype, shape, &(0..count).map(value).collect::<Vec<_>>()).unwrap()
}

fn numbers(tensor: &Tensor) -> Vec<f64> {
    match tensor.dtype() {
        DType::F64 => tensor.to_vec::<f64>().unwrap(),
        DType::F32 => tensor
            .to_vec::<f32>()
            .unwrap()
            .into_iter()
            .map(f64::from)
            .collect(),
        DType::F16 => tensor
            .to_vec::<kiln::internals::tensor::f16>()
            .unwrap()
            .into_iter()
            .map(f64::from)
            .collect(),
        other => panic!("{other} is not tested"),
    }
}

fn assert_close(found: &Tensor, expected: &Tensor, tolerance: f64) {
    assert_eq!(
        (found.dtype(), found.shape()),
        (expected.dtype(), expected.shape())
    );
    let (found, expected) = (numbers(found), numbers(expected));
    let scale = expected
        .iter()
        .fold(1.0_f64, |most, value| most.max(value.abs()));
    for (found, expected) in found.iter().zip(&expected) {
        assert!(
            (found - expected).abs() <= tolerance * scale,
            "{found}, expected {expected}"
        );
    }
}

/// A loss over `x: [batch, 3]` and weights, with every kind of op of the contract.
fn loss(x: &Var, w: &Var, b: &Var) -> Var {
    let h = (x.matmul(w) + b).relu();
    let s = (h.sigmoid() * 2.0 - 1.0).tanh() / 1.5;
    let t = s.transpose().reshape([s.size(0) * s.size(1)]);
    let p = (h.abs() + 1.5).log().sqrt() + (-s.softmax(1)).exp();
    p.pow(2.0).mean(..) + t.sum(..) * 0.1
}

#[test]
fn compiled_tapes_equal_their_eager_values_for_every_batch_size_and_dtype() {
    let compiler = GraphCompiler::new(options());
    let dtypes = [(DType::F64, 1e-12), (DType::F32, 1e-5), (DType::F16, 2e-2)];
    for (dtype, tolerance) in dtypes {
        for batch in [1, 2, 7, 16, 17] {
            let tape = GradientTape::new();
            let x = tape.watch("x", &values(dtype, &[batch, 3], 1));
            let w = tape.watch("w", &values(dtype, &[3, 5], 2));
            let b = tape.watch("b", &values(dtype, &[5], 3));
            let loss = loss(&x, &w, &b);
            let expected = tape.value(&loss).unwrap();
            let slopes = tape.gradients(&loss, &[&w, &b]).unwrap();
            let compiled = tape.compile(&compiler, &loss, &[&w, &b]).unwrap();
            let inputs = tape.inputs();
            let (outputs, gradients) = compiled.run(&inputs).unwrap();
            assert_close(&outputs[0], &expected, tolerance);
            let (outputs, saved) = compiled.forward(&inputs).unwrap();
            assert_close(&outputs[0], &expected, tolerance);
            let later = compiled.backward(&inputs, &saved, &[]).unwrap();
            for (index, slope) in slopes.iter().enumerate() {
                assert_close(&gradients[index], slope, tolerance);
                assert_close(&later[index], slope, tolerance);
            }
        }
    }
    assert_eq!(compiler.n_graphs(), dtypes.len());
}

#[test]
fn a_compiled_graph_has_the_positions_of_its_inputs_and_outputs() {
    let tape = GradientTape::new();
    let x = tape.watch("layer.x", &values(DType::F32, &[4, 3], 1));
    let w = tape.watch("layer.w", &values(DType::F32, &[3, 2], 2));
    let y = x.matmul(&w).tanh();
    let graph = tape.graph(&[("y", &y)]).unwrap();
    let compiler = GraphCompiler::new(options());
    let request = GradientRequest::with_cotangents(&[0], &[0, 1]);
    let compiled: &CompiledGraph = &compiler.compile(&graph, &request).unwrap();
    assert_eq!(compiled.input_positions(), 0..2);
    assert_eq!(compiled.cotangent_positions(), 2..3);
    assert_eq!(compiled.output_positions(), 0..1);
    assert_eq!(compiled.gradient_positions(), 1..3);
    let mut given = tape.inputs();
    let cotangent = values(DType::F32, &[4, 2], 3);
    let (_, saved) = compiled.forward(&given).unwrap();
    assert_eq!(saved.bytes(), 4 * 2 * 4);
    let later = compiled
        .backward(&given, &saved, std::slice::from_ref(&cotangent))
        .unwrap();
    let refused = compiled.backward(&given, &saved, &[]).unwrap_err();
    assert_eq!(refused.code(), "E0612");
    given.push(cotangent);
    let (outputs, gradients) = compiled.run(&given).unwrap();
    assert_close(&outputs[0], &tape.value(&y).unwrap(), 1e-6);
    for (found, expected) in later.iter().zip(&gradients) {
        assert_close(found, expected, 1e-6);
    }
}

#[test]
fn a_smaller_budget_saves_less_and_computes_the_same() {
    let tape = GradientTape::new();
    let x = tape.watch("x", &values(DType::F64, &[16, 8], 1));
    let w = tape.watch("w", &values(DType::F64, &[8, 8], 2));
    let y = x
        .matmul(&w)
        .tanh()
        .matmul(&w)
        .sigmoid()
        .matmul(&w)
        .square()
        .sum(..);
    let run = |compiler: &GraphCompiler| {
        let compiled = tape.compile(compiler, &y, &[&w]).unwrap();
        let (_, saved) = compiled.forward(&tape.inputs()).unwrap();
        let gradients = compiled.backward(&tape.inputs(), &saved, &[]).unwrap();
        (saved.bytes(), gradients[0].clone())
    };
    let (all, expected) = run(&GraphCompiler::new(options()));
    let (none, found) = run(&GraphCompiler::new(options()).saving_at_most(0));
    assert!(none < all, "{none} bytes instead of {all}");
    assert_close(&found, &expected, 1e-12);
    let graph = tape.graph(&[("y", &y)]).unwrap();
    assert_eq!(
        differentiate(&graph, &GradientRequest::of_scalar(0, &[1]))
            .unwrap()
            .n_outputs,
        1
    );
}

#[test]
fn gradients_of_gradients_are_recorded_on_the_tape() {
    let tape = GradientTape::new();
    let x = tape.watch("x", &Tensor::from_slice(&[2], &[2.0_f64, -1.0]).unwrap());
    let [slope] = x.pow(3.0).sum(..).gradients([&x]);
    let curvature = tape.gradients(&slope.sum(..), &[&x]).unwrap();
    assert_eq!(numbers(&curvature[0]), [12.0, -6.0]);
}

#[test]
fn a_fault_of_a_tape_is_reported_once_with_its_line() {
    let tape = GradientTape::new();
    let x = tape.watch("x", &values(DType::F32, &[3], 1));
    let y = tape.watch("y", &values(DType::F32, &[4], 1));
    let sum = &x + &y;
    let error = tape.value(&sum).unwrap_err();
    assert_eq!(error.code(), "E0820", "{error}");
    assert!(error.to_string().contains("tests/tape.rs"), "{error}");
    assert_eq!(tape.value(&sum).unwrap_err().code(), "E0888");
    assert_eq!(numbers(&tape.value(&(x + 1.0)).unwrap()).len(), 3);
    let compiler = GraphCompiler::new(options());
    let z = y.square().sum(..);
    let refused = tape.compile(&compiler, &z, &[&z]).unwrap_err();
    assert_eq!(refused.code(), "E0889");
}

#[test]
fn a_function_compiles_itself_after_calls_of_each_rank() {
    let f = kiln::jit(|x: Var| x.square().sum(-1)).with_options(options().compile_after(3));
    let call = |shape: &[usize]| {
        let x = values(DType::F32, shape, 2);
        let expected: Vec<f64> = numbers(&x)
            .chunks(shape[shape.len() - 1].max(1))
            .map(|row| row.iter().map(|x| x * x).sum())
            .collect();
        let found = numbers(&f.call([&x]).unwrap());
        for (found, expected) in found.iter().zip(&expected) {
            assert!(
                (found - expected).abs() < 1e-4,
                "{found}, expected {expected}"
            );
        }
        let types = [kiln::ArgumentType::of(&x)];
        f.model(&types).unwrap().device() == Device::cpu()
    };
    let compiled: Vec<bool> = [1, 2, 3, 4, 5].map(|n| call(&[n, 3])).to_vec();
    assert_eq!(compiled, [false, false, false, true, true]);
    // A new rank is interpreted until it has been called as often as the first one.
    let compiled: Vec<bool> = [1, 2, 3, 4].map(|n| call(&[2, n, 3])).to_vec();
    assert_eq!(compiled, [false, false, false, true]);
}
