//! Functions compiled just in time.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may panic")]

use kiln::diagnose::{self, Stage};
use kiln::{ArgumentType, DType, Device, ErrorKind, Options, Tensor, Var, jit};

fn backends() -> impl Iterator<Item = Options> {
    let all = Device::all().into_iter();
    all.map(|device| Options::new().device(device).shared_kernels(false))
}

fn ones(shape: &[usize]) -> Tensor {
    Tensor::full(shape, 1.0f32).unwrap()
}

#[test]
fn one_recording_serves_every_size() {
    for options in backends() {
        let f = jit(|x: Var, w: Var, b: Var| (x.matmul(w) + b).relu()).with_options(options);
        for (rows, inner, columns) in [(2, 3, 4), (1, 1, 1), (9, 17, 33), (0, 2, 3)] {
            let y = f
                .call([
                    &ones(&[rows, inner]),
                    &ones(&[inner, columns]),
                    &ones(&[columns]),
                ])
                .unwrap();
            assert_eq!(y.shape(), [rows, columns]);
            let expected = vec![inner as f32 + 1.0; rows * columns];
            assert_eq!(y.to_vec::<f32>().unwrap(), expected);
        }
        assert_eq!(f.n_recordings(), 1);
        // Another rank needs another recording.
        f.call([&ones(&[5, 2, 3]), &ones(&[3, 4]), &ones(&[4])])
            .unwrap();
        assert_eq!(f.n_recordings(), 2);
    }
}

#[test]
fn a_bias_of_one_element_is_broadcast() {
    for options in backends() {
        let f = jit(|x: Var, b: Var| (x + b).tanh()).with_options(options);
        let (x, b) = (
            Tensor::full(&[2, 3], 0.5f32).unwrap(),
            Tensor::full(&[1], -0.5f32).unwrap(),
        );
        for bias in [&b, &Tensor::full(&[3], -0.5f32).unwrap()] {
            assert_eq!(
                f.call([&x, bias]).unwrap().to_vec::<f32>().unwrap(),
                [0.0; 6]
            );
        }
    }
}

#[test]
fn results_have_the_structure_that_the_function_returns() {
    for options in backends() {
        let f = jit(|x: Var| (x.sum(-1), x.softmax(-1).max(..))).with_options(options);
        let (sum, max) = f.call([&ones(&[2, 4])]).unwrap();
        assert_eq!(sum.to_vec::<f32>().unwrap(), [4.0, 4.0]);
        assert!((max.to_vec::<f32>().unwrap()[0] - 0.25).abs() < 1e-6);
    }
}

#[test]
fn attention_can_be_recorded() {
    let attend = |q: Var, k: Var, v: Var| {
        let scores = q.matmul(k.transpose()) / 2.0;
        scores.softmax(-1).matmul(v)
    };
    let x = Tensor::from_vec(&[2, 3, 4], (0..24).map(|i| (i % 5) as f32).collect()).unwrap();
    let results: Vec<Vec<f32>> = backends()
        .map(|options| {
            let f = jit(attend).with_options(options);
            f.call([&x, &x, &x]).unwrap().to_vec().unwrap()
        })
        .collect();
    for result in &results {
        for (found, expected) in result.iter().zip(&results[0]) {
            assert!((found - expected).abs() < 1e-5, "{found} {expected}");
        }
    }
}

#[test]
fn names_reach_the_graph() {
    let f = jit(|x: Var| -x).named("dxdt");
    assert_eq!(f.name(), "dxdt");
    assert_eq!(format!("{f:?}"), "Jit(Traced(dxdt))");
    assert_eq!(f.compilation_stats().compilations, 0);
    let model = f.model(&[ArgumentType::new(DType::F32, 1)]).unwrap();
    assert_eq!(
        diagnose::graph(&model, Stage::Optimized).unwrap().name(),
        "dxdt"
    );
    f.call([&ones(&[3])]).unwrap();
    assert_eq!(f.n_recordings(), 1);
}

#[test]
fn mistakes_are_typed_errors_with_the_source_line() {
    let f = jit(|x: Var| x.sum(3));
    let error = f.call([&ones(&[2])]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
    assert!(error.to_string().contains("jit.rs:"), "{error}");

    let f = jit(|a: Var, b: Var| a.matmul(b));
    let error = f.call([&ones(&[2, 3]), &ones(&[4, 2])]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
    let whole = Tensor::from_slice(&[3, 1], &[1i64, 2, 3]).unwrap();
    assert!(f.call([&ones(&[2, 3]), &whole]).is_err());

    let nothing = jit(|_: Var| Vec::new());
    assert_eq!(nothing.call([&ones(&[1])]).unwrap_err().code(), "E0884");
    let deep = jit(|x: Var| x);
    let error = deep
        .model(&[ArgumentType::new(DType::F32, 99)])
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Limit);
}

#[test]
fn functions_are_called_from_many_threads() {
    let f = jit(|x: Var| x.square().sum(..)).with_options(backends().last().unwrap());
    std::thread::scope(|scope| {
        for n in 1..5 {
            let f = &f;
            scope.spawn(move || {
                let y = f.call([&ones(&[n])]).unwrap();
                assert_eq!(y.to_vec::<f32>().unwrap(), [n as f32]);
            });
        }
    });
    assert_eq!(f.n_recordings(), 1);
}
