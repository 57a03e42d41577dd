//! The start-up cost of a process before its first result when the cache has everything it needs: loading, the first call,
//! and the parts of both; next to them a warm call and reading the weights, which together bound the time that loading may
//! take.
#![allow(
    clippy::expect_used,
    clippy::print_stdout,
    missing_docs,
    reason = "a benchmark stops when its set-up is wrong and prints its table; criterion generates undocumented items"
)]

use criterion::{Criterion, criterion_group, criterion_main};
use kiln::{Cache, CompilePolicy, DType, Device, Model, Options, Tensor};
use kiln_benches::model_files;
use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A model's name and the shape of its inputs.
const CALLS: [(&str, &[usize]); 4] = [
    ("minilm", &[1, 8]),
    ("ocr-det", &[1, 3, 64, 96]),
    ("ocr-rec", &[1, 3, 48, 320]),
    ("ocr-cls", &[1, 3, 48, 192]),
];

fn options(cache: &Path) -> Options {
    // A separate model: nothing is shared with the previous one.
    Options::new()
        .device(Device::cpu())
        .shared_kernels(false)
        .cache(Cache::folder(cache))
}

fn inputs(model: &Model, shape: &[usize]) -> Vec<(String, Tensor)> {
    let inputs = model.inputs().iter().map(|input| {
        let tensor = match input.dtype() {
            Some(DType::I64) => Tensor::full(shape, 1_i64),
            _ => Tensor::full(shape, 0.25_f32),
        };
        (input.name().to_owned(), tensor.expect("it is small"))
    });
    inputs.collect()
}

fn call(model: &Model, inputs: &[(String, Tensor)]) {
    black_box(model.run(inputs).expect("the model runs"));
}

/// The files of a model's weights.
fn weights(model: &Path) -> Vec<PathBuf> {
    let beside = model.with_extension("safetensors");
    [model.to_owned(), beside]
        .into_iter()
        .filter(|path| path.exists())
        .collect()
}

fn warm_start(c: &mut Criterion) {
    let cache = std::env::temp_dir().join(format!("kiln-warm-start-{}", std::process::id()));
    let files = model_files();
    for (name, shape) in CALLS {
        let Some((_, file)) = files.iter().find(|(known, _)| *known == name) else {
            continue;
        };
        let first = options(&cache).load(file).expect("the model loads");
        let inputs = inputs(&first, shape);
        call(&first, &inputs);
        first.wait_for_compiles(Duration::from_secs(60));
        c.bench_function(&format!("warm_start/{name}_warm_call"), |b| {
            b.iter(|| call(&first, &inputs));
        });
        c.bench_function(&format!("warm_start/{name}_read_weights"), |b| {
            b.iter(|| {
                weights(file).iter().map(std::fs::read).for_each(|read| {
                    black_box(read.expect("it is there"));
                })
            });
        });
        drop(first);
        let load = || {
            let ahead = options(&cache).compiling(CompilePolicy::AheadOfTime);
            let model = ahead.load(file).expect("the model loads");
            call(&model, &inputs);
            model
        };
        c.bench_function(&format!("warm_start/{name}_load_and_first_call"), |b| {
            b.iter_with_large_drop(load);
        });
        println!("{}", load().timing().report());
        let bundle = cache.join(format!("{name}.kiln-bundle"));
        let model = options(&cache).load(file).expect("the model loads");
        model.save_bundle(&bundle, None).expect("there is room");
        c.bench_function(&format!("warm_start/{name}_bundle_and_first_call"), |b| {
            b.iter_with_large_drop(|| {
                let options = options(&cache).cache(Cache::off());
                // SAFETY: it was saved above.
                let model = unsafe { Model::open_bundle(&bundle, options) };
                let model = model.expect("the bundle loads");
                call(&model, &inputs);
                model
            });
        });
    }
    let _ = std::fs::remove_dir_all(&cache);
}

criterion_group! {
    name = benches;
    config = Criterion::default().sample_size(10);
    targets = warm_start
}
criterion_main!(benches);
