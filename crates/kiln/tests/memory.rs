//! The memory of calls: taken from a pool, returned with outputs, bounded, trimmed, and reported.

#![cfg(feature = "llvm")]
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use kiln::internals::ir::{Constant, Op};
use kiln::internals::shape_inference::GraphBuilder;
use kiln::{
    Cache, DType, Device, Error, ErrorKind, Limits, MemoryLimits, Model, Options, Outputs, Source,
    Tensor,
};

/// An intermediate of `N * 64` elements, and a result as large.
const TWO_PRODUCTS: &str = "graph @two(%x: f32[N, 64], %w: f32[64, 64]) -> f32[N, 64] {
  %a = matmul %x, %w
  %b = matmul %a, %w
  return %b
}";

/// Bytes of one of them for this many rows.
fn bytes(rows: usize) -> usize {
    rows * 64 * 4
}

fn model(limits: MemoryLimits) -> Model {
    let options = Options::new()
        .device(Device::cpu())
        .threads(1)
        .limits(Limits {
            memory: limits,
            ..Limits::default()
        })
        .cache(Cache::off());
    options.load(Source::text(TWO_PRODUCTS)).unwrap()
}

fn call(model: &Model, rows: usize) -> Result<Outputs, Error> {
    let x = Tensor::full(&[rows, 64], 0.5f32).unwrap();
    let w = Tensor::full(&[64, 64], 0.25f32).unwrap();
    let outputs = model.run([("x", &x), ("w", &w)])?;
    assert!(outputs[0].to_vec::<f32>()?.iter().all(|&y| y == 128.0));
    Ok(outputs)
}

#[test]
fn dropped_outputs_return_to_the_pool() {
    let model = model(MemoryLimits::new().with_kept_bytes(100 << 20));
    let outputs = call(&model, 1000).unwrap();
    let stats = model.memory_stats().unwrap();
    assert!(stats.rented_bytes >= 2 * bytes(1000), "{stats:?}");
    drop(outputs);
    let stats = model.memory_stats().unwrap();
    assert_eq!(stats.kept_bytes, bytes(1000));
    for _ in 0..5 {
        call(&model, 1000).unwrap();
    }
    let after = model.memory_stats().unwrap();
    assert_eq!(after.reuses, stats.reuses + 5);
    assert_eq!(after.peak_bytes, stats.peak_bytes);
    assert!(
        after
            .to_report()
            .contains("of these, served from kept memory")
    );
}

#[test]
fn memory_that_no_call_uses_is_trimmed() {
    let model = model(MemoryLimits::new().with_kept_bytes(101 << 20));
    drop(call(&model, 1000).unwrap());
    let held = |model: &Model| {
        let stats = model.memory_stats().unwrap();
        stats.rented_bytes + stats.kept_bytes
    };
    let before = held(&model);
    assert!(before >= 2 * bytes(1000));
    assert_eq!(model.trim_memory(0), before);
    assert_eq!(held(&model), 0);
    call(&model, 1000).unwrap();
    let interpreted = Options::new()
        .device(Device::interpreter())
        .load(Source::text(TWO_PRODUCTS));
    let interpreted = interpreted.unwrap();
    assert_eq!(
        (interpreted.memory_stats(), interpreted.trim_memory(0)),
        (None, 0)
    );
}

#[test]
fn a_call_beyond_the_memory_limit_is_a_typed_error_and_the_next_succeeds() {
    let limit = bytes(1000) * 5 / 2;
    let model = model(MemoryLimits::new().with_total_bytes(limit));
    let kept = call(&model, 1000).unwrap();
    for rows in [2000, 10_000, 100_000] {
        let error = call(&model, rows).unwrap_err();
        assert_eq!((error.code(), error.kind()), ("E0895", ErrorKind::Resource));
        assert!(error.to_string().contains("expected at most"), "{error}");
    }
    // An output that is still alive counts.
    assert!(call(&model, 1000).is_err());
    drop(kept);
    for rows in [1000, 10, 1000] {
        call(&model, rows).unwrap();
    }
    let stats = model.memory_stats().unwrap();
    assert!(
        stats.peak_bytes <= limit && stats.refusals >= 4,
        "{stats:?}"
    );
}

#[test]
fn memory_kept_by_another_model_is_released_under_pressure() {
    let limits = MemoryLimits::new().with_total_bytes(bytes(1000) * 3);
    let (first, second) = (model(limits), model(limits));
    drop(call(&first, 1000).unwrap());
    // The first model's arena, and what it left in the pool, still take up memory.
    drop(call(&second, 1400).unwrap());
    drop(call(&first, 1400).unwrap());
    assert_eq!(first.memory_stats(), second.memory_stats());
}

/// A model of one element-wise kernel.
fn small_model(op: &str, options: &Options) -> Model {
    let text = format!("graph @small(%x: f32[N]) -> f32[N] {{\n %y = {op} %x\n return %y\n}}");
    options.load(Source::text(&text)).unwrap()
}

fn small_call(model: &Model, size: usize) {
    let x = Tensor::full(&[size], 0.5f32).unwrap();
    model.run([("x", &x)]).unwrap();
}

#[test]
fn kernels_beyond_the_memory_limit_are_evicted() {
    let mut limits = Limits::default();
    limits.kernels.entries = 1;
    let options = Options::new()
        .device(Device::cpu())
        .threads(1)
        .limits(limits)
        .cache(Cache::off());
    let models = ["exp", "neg", "sqrt"].map(|op| small_model(op, &options));
    models.iter().for_each(|model| small_call(model, 3));
    let stats = models[0].compilation_stats();
    assert_eq!((stats.compilations, stats.cache.evicted), (3, 2));
    // Existing launch plans keep their kernels alive.
    models.iter().for_each(|model| small_call(model, 3));
    assert_eq!(models[0].compilation_stats().compilations, 3);
    // A call with other sizes looks up code again, and evicted code is recompiled.
    small_call(&models[0], 4);
    assert_eq!(models[0].compilation_stats().compilations, 4);
}

/// `y = x w`, and on request a row of `w`.
fn weighted(weights: &Constant, has_row: bool, device: Device) -> Model {
    let mut builder = GraphBuilder::new("weighted");
    let rows = builder.symbol("B").unwrap();
    let depth = builder.size(256);
    let x = builder.input("x", DType::F32, &[rows, depth]);
    let w = builder.constant(weights.tensor()).unwrap();
    let y = builder.matmul(x, w).unwrap();
    let mut outputs = vec![("y", y)];
    if has_row {
        let one = builder.size(1);
        let at = builder.input("at", DType::I64, &[one]);
        let row = builder.gather(w, at, 0).unwrap();
        outputs.push(("row", row));
    }
    let graph = builder.finish(&outputs).unwrap();
    let options = Options::new()
        .device(device)
        .threads(1)
        .shared_kernels(false)
        .cache(Cache::off());
    options.load(Source::graph(graph)).unwrap()
}

/// The weights of a model's graph.
fn weights_of(model: &Model) -> Constant {
    let graph = kiln::diagnose::graph(model, kiln::diagnose::Stage::Optimized).unwrap();
    let mut constants = graph.ops().filter_map(|(_, data)| match &data.op {
        Op::Constant(constant) if !constant.is_inline() => Some(constant.clone()),
        _ => None,
    });
    constants.next().unwrap()
}

#[test]
fn weights_that_kernels_alone_read_are_in_memory_once_and_unpacked_for_others() {
    let numbers: Vec<f32> = (0..256 * 300).map(|i| (i % 251) as f32 - 125.0).collect();
    let tensor = Tensor::from_vec(&[256, 300], numbers.clone()).unwrap();
    let weights = Constant::new(tensor).unwrap();
    let inputs = |rows: usize| Tensor::full(&[rows, 256], 0.5f32).unwrap();
    let expected = {
        let interpreted = weighted(&weights, false, Device::interpreter());
        move |rows| {
            interpreted.run([("x", &inputs(rows))]).unwrap()[0]
                .to_vec::<f32>()
                .unwrap()
        }
    };
    let model = weighted(&weights, false, Device::cpu());
    let held = weights_of(&model);
    assert!(!held.is_released(), "nothing was packed yet");
    for rows in [1, 7, 1, 64] {
        let outputs = model.run([("x", &inputs(rows))]).unwrap();
        assert_eq!(outputs[0].to_vec::<f32>().unwrap(), expected(rows));
        assert!(held.is_released());
    }
    // Other readers still see the original weights.
    assert_eq!(held.tensor().to_vec::<f32>().unwrap(), numbers);
    assert_eq!(held, weights);
    // The weights outlive the model.
    drop(model);
    assert_eq!(held.tensor().to_vec::<f32>().unwrap(), numbers);
    // With kernels that read the weights in different orders.
    let model = weighted(&weights, true, Device::cpu());
    let at = Tensor::from_slice(&[1], &[255_i64]).unwrap();
    let outputs = model.run([("x", &inputs(2)), ("at", &at)]).unwrap();
    assert_eq!(outputs[0].to_vec::<f32>().unwrap(), expected(2));
    assert_eq!(outputs[1].to_vec::<f32>().unwrap(), numbers[255 * 300..]);
}

#[test]
fn launch_plans_that_were_evicted_are_made_again() {
    let plans = |kept: usize| {
        let options = Options::new()
            .device(Device::cpu())
            .threads(1)
            .shared_kernels(false)
            .cache(Cache::off())
            .limits(Limits {
                launch_plans: kept,
                ..Limits::default()
            });
        let model = small_model("exp", &options);
        for round in 0..6 {
            small_call(&model, 1 + round % 2);
        }
        model.compilation_stats().launch_plans
    };
    assert_eq!((plans(1), plans(2)), (6, 2));
}
