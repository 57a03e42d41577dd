//! Large graphs, differentiated, planned and compiled: many ops, many layers, many branches; on a small stack, and
//! within a memory limit.

#![cfg(feature = "llvm")]
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use kiln::internals::autodiff::{GradientRequest, differentiate};
use kiln::internals::fusion::{FusionOptions, plan};
use kiln::internals::ir::Graph;
use kiln::internals::passes::{PassOptions, optimize};
use kiln::{
    AxisSize, Cache, DType, Device, ErrorKind, Gradients, Limits, MemoryLimits, Model, Options,
    Recording, Source, Tensor, Var,
};
use kiln_testkit::large::{SMALL_STACK, on_small_stack};

/// Runs `work` on a small stack, far too small to recurse over the ops of these graphs. Frames of a debug build are
/// several times as large, so there it is larger.
fn on_little_stack(work: impl FnOnce() + Send) {
    let bytes = if cfg!(debug_assertions) {
        768 << 10
    } else {
        SMALL_STACK
    };
    std::thread::scope(|threads| {
        let thread = std::thread::Builder::new().stack_size(bytes);
        thread.spawn_scoped(threads, work).unwrap().join().unwrap();
    });
}

fn options(device: Device) -> Options {
    Options::new().cache(Cache::off()).device(device).threads(1)
}

/// The graph of a loss of one input `x: f32[N]`.
fn graph(loss: impl FnOnce(&Var) -> Var) -> Graph {
    let recording = Recording::new("large");
    let x = recording.input("x", DType::F32, [AxisSize::from("N")]);
    let loss = loss(&x).sum(..);
    recording.finish(&[("loss", &loss)]).unwrap()
}

/// `ops` element-wise ops in sequence, all of them different.
fn chain(ops: usize) -> Graph {
    graph(|x| {
        let mut y = x.clone();
        for index in 0..ops / 3 {
            y = (y * (1.0 + (index % 17) as f64 * 1e-3)).sin() + x;
        }
        y
    })
}

fn with_gradients(graph: &Graph, device: Device) -> Model {
    let options = options(device).gradients(Gradients::of("loss"));
    options.load(Source::graph(graph.clone())).unwrap()
}

/// Compiled outputs equal interpreted ones, for two sizes.
fn agrees(graph: &Graph, tolerance: f32) {
    let [compiled, interpreted] =
        [Device::cpu(), Device::interpreter()].map(|device| with_gradients(graph, device));
    for n in [1_usize, 5] {
        let x: Vec<f32> = (0..n).map(|index| 0.1 + index as f32 / 9.0).collect();
        let x = Tensor::from_slice(&[n], &x).unwrap();
        let found = compiled.run([("x", &x)]).unwrap();
        let expected = interpreted.run([("x", &x)]).unwrap();
        for (name, expected) in expected.iter() {
            let found = found.get(name).unwrap().to_vec::<f32>().unwrap();
            let expected = expected.to_vec::<f32>().unwrap();
            let scale = expected
                .iter()
                .fold(1.0_f32, |most, value| most.max(value.abs()));
            for (found, expected) in found.iter().zip(&expected) {
                let error = (found - expected).abs() / scale;
                assert!(error <= tolerance, "{name}: {found}, expected {expected}");
            }
        }
    }
}

#[test]
fn a_thousand_ops_are_differentiated_and_compiled() {
    on_little_stack(|| agrees(&chain(1_000), 1e-3));
}

#[test]
fn work_on_ten_thousand_ops_grows_linearly() {
    let (work, kernels) = on_small_stack(|| {
        let of = |ops: usize| {
            let joint = differentiate(&chain(ops), &GradientRequest::of_scalar(0, &[0])).unwrap();
            let (optimized, _) = optimize(joint.graph, &mut PassOptions::default()).unwrap();
            let plan = plan(&optimized, &FusionOptions::new()).unwrap();
            (plan.work(), plan.count("kernel"))
        };
        let (small, large) = (of(1_000), of(10_000));
        ((small.0, large.0), (small.1, large.1))
    });
    assert!(work.1 < 15 * work.0, "{work:?} steps of planning");
    assert!(kernels.1 < 15 * kernels.0, "{kernels:?} kernels");
}

#[test]
fn two_hundred_layers_are_differentiated_and_compiled() {
    let layers = graph(|x| {
        let weight = |seed: usize| -> Vec<f32> {
            let element = |index: usize| ((index * 29 + seed * 13) % 31) as f32 / 31.0 - 0.5;
            (0..36).map(element).collect()
        };
        let mut h =
            x.reshape([x.size(0), 1.into()]) * x.constant(&Tensor::full(&[1, 6], 0.5f32).unwrap());
        for layer in 0..200 {
            let weight = x.constant(&Tensor::from_slice(&[6, 6], &weight(layer)).unwrap());
            h = &h + (h.matmul(weight) + 0.01).tanh() * 0.1;
        }
        h
    });
    on_little_stack(|| agrees(&layers, 1e-4));
}

#[test]
fn five_hundred_branches_are_differentiated_and_compiled() {
    let branches = graph(|x| {
        let branch = |index: usize| (x * (index as f64 / 500.0)).cos();
        (1..500)
            .map(branch)
            .fold(branch(0), |sum, branch| sum + branch)
    });
    on_little_stack(|| agrees(&branches, 1e-3));
}

#[test]
fn a_step_beyond_the_limit_of_memory_is_a_typed_error_and_the_next_one_runs() {
    let limits = Limits {
        memory: MemoryLimits::new().with_total_bytes(1 << 20),
        ..Limits::default()
    };
    let options = options(Device::cpu()).shared_kernels(false).limits(limits);
    let deep = graph(|x| (0..30).fold(x.clone(), |y, _| y.map("softplus") * x.max(0) + x));
    let model = options
        .gradients(Gradients::of("loss"))
        .load(Source::graph(deep))
        .unwrap();
    let of = |n: usize| Tensor::full(&[n], 0.01_f32).unwrap();
    let small = model.run([("x", &of(100))]).unwrap();
    let error = model.run([("x", &of(4 << 20))]).unwrap_err();
    assert_eq!((error.code(), error.kind()), ("E0895", ErrorKind::Resource));
    let again = model.run([("x", &of(100))]).unwrap();
    for (name, tensor) in small.iter() {
        let again = again.get(name).unwrap();
        assert_eq!(
            again.to_vec::<f32>().unwrap(),
            tensor.to_vec::<f32>().unwrap()
        );
    }
}
