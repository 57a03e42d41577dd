//! Variants in machine code: they compute the same as the interpreter, in whatever order sizes come.

#![cfg(feature = "llvm")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may panic")]

use std::time::Duration;

use kiln::diagnose::{self, VariantFate};
use kiln::{
    Cache, CompilePolicy, Compiling, Device, ErrorKind, Options, Source, Tensor, VariantOptions,
};

const LONG: Duration = Duration::from_secs(60);

/// A product, a softmax and a norm: the kernel classes with a choice of tiles.
const LAYERS: &str = "graph @layers(%x: f32[A, K], %y: f32[K, B]) -> (f32[A, B], f32[A, K]) {
  %p = matmul %x, %y
  %m = reduce %p {function = max, axes = [1], keep_dims}
  %d = sub %p, %m
  %e = exp %d
  %s = reduce %e {function = sum, axes = [1], keep_dims}
  %q = div %e, %s
  %g = gelu %x
  return %q, %g
}";

fn options(compiling: Compiling) -> Options {
    Options::new()
        .device(Device::cpu())
        .cache(Cache::off())
        .shared_kernels(false)
        .compiling(compiling)
}

/// Variants as early as possible.
fn eager() -> Compiling {
    let variants = VariantOptions::new()
        .with_after(Duration::from_nanos(1))
        .with_margin(0);
    Compiling {
        variants: Some(variants),
        ..Compiling::default()
    }
}

fn ramp(shape: &[usize]) -> Tensor {
    let count: usize = shape.iter().product();
    let elements: Vec<f32> = (0..count)
        .map(|i| ((i * 7 + 3) % 13) as f32 * 0.25 - 1.5)
        .collect();
    Tensor::from_vec(shape, elements).unwrap()
}

fn expect_close(expected: &Tensor, found: &Tensor) {
    assert_eq!(expected.shape(), found.shape());
    let (expected, found) = (
        expected.to_vec::<f32>().unwrap(),
        found.to_vec::<f32>().unwrap(),
    );
    for (expected, found) in expected.iter().zip(&found) {
        assert!(
            (expected - found).abs() <= 1e-5 + 1e-4 * expected.abs(),
            "{expected} and {found}"
        );
    }
}

#[test]
fn variants_equal_the_interpreter_in_any_order_of_sizes() {
    let model = options(eager()).load(Source::text(LAYERS)).unwrap();
    let reference = Options::new()
        .device(Device::interpreter())
        .load(Source::text(LAYERS))
        .unwrap();
    let sizes = [[5, 7, 9], [16, 32, 48], [1, 1, 1], [33, 17, 64], [0, 4, 4]];
    // First until each variant has had its trials, then switching between sizes.
    for round in 0..3 {
        for [a, k, b] in sizes {
            let (x, y) = (ramp(&[a, k]), ramp(&[k, b]));
            let expected = reference.run([("x", &x), ("y", &y)]).unwrap();
            for _ in 0..if round == 0 { 120 } else { 3 } {
                let found = model.run([("x", &x), ("y", &y)]).unwrap();
                for ((_, expected), (_, found)) in expected.iter().zip(found.iter()) {
                    expect_close(expected, found);
                }
                if round == 0 {
                    assert!(model.wait_for_compiles(LONG));
                }
            }
        }
    }
    let records = diagnose::variant_records(&model);
    let decided =
        |fate: &VariantFate| matches!(fate, VariantFate::Kept { .. } | VariantFate::Lost { .. });
    let decided = records
        .iter()
        .filter(|record| decided(&record.fate))
        .count();
    assert!(decided >= 4, "{records:#?}");
    let stats = model.compilation_stats();
    assert_eq!(stats.variants_kept + stats.variants_dropped, stats.variants);
    let explained = diagnose::explain(&model).unwrap();
    assert_eq!(explained.variants.len(), records.len());
    assert!(
        explained.to_string().contains("\nvariants: "),
        "{explained}"
    );
}

#[test]
fn deterministic_models_have_no_variants_and_give_the_same_bits() {
    let (x, y) = (ramp(&[9, 33]), ramp(&[33, 17]));
    let answers = || {
        let compiling = Compiling {
            deterministic: true,
            ..eager()
        };
        let model = options(compiling).load(Source::text(LAYERS)).unwrap();
        let calls = (0..50).map(|_| {
            let outputs = model.run([("x", &x), ("y", &y)]).unwrap();
            let bytes = outputs
                .iter()
                .map(|(_, tensor)| tensor.as_bytes().unwrap().to_vec());
            bytes.collect::<Vec<_>>()
        });
        let calls: Vec<_> = calls.collect();
        assert!(model.wait_for_compiles(LONG));
        assert!(diagnose::variant_records(&model).is_empty());
        calls
    };
    let first = answers();
    assert!(first.iter().chain(&answers()).all(|call| call == &first[0]));
}

#[test]
fn deterministic_refuses_options_that_depend_on_timing() {
    let contradictions = [
        CompilePolicy::Background.into(),
        CompilePolicy::AfterCalls(3).into(),
        Compiling {
            max_block: Some(Duration::from_millis(1)),
            ..Compiling::default()
        },
        Compiling {
            budget: Some(Duration::from_secs(1)),
            ..Compiling::default()
        },
    ];
    for compiling in contradictions {
        let compiling = Compiling {
            deterministic: true,
            ..compiling
        };
        let loaded = options(compiling).load(Source::text(LAYERS));
        let error = loaded.unwrap_err();
        assert_eq!(
            (error.code(), error.kind()),
            ("E0990", ErrorKind::InvalidInput),
            "{error}"
        );
    }
}
