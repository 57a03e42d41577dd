//! Compiled code is kept: a second runtime, which stands in for a second process, compiles nothing.

#![allow(clippy::unwrap_used, reason = "a test may panic")]
#![cfg(feature = "llvm")]

use kiln::{Cache, CompilePolicy, Device, ErrorKind, Model, Options, Source, Tensor};
use std::path::Path;
use std::time::Duration;
use tempfile::TempDir;

const MLP: &str = "graph @mlp(%x: f32[B, 8], %w: f32[8, N], %b: f32[N]) -> (f32[B, N], f32[N]) {
  %0 = matmul %x, %w
  %1 = add %0, %b
  %2 = relu %1
  %3 = reduce %2 {function = sum, axes = [0]}
  return %2, %3
}";

fn own(folder: &Path) -> Options {
    Options::new()
        .device(Device::cpu())
        .shared_kernels(false)
        .cache(Cache::folder(folder))
}

fn run(model: &Model) -> Vec<f32> {
    let ramp = |shape: &[usize]| {
        let n: usize = shape.iter().product();
        let elements: Vec<f32> = (0..n).map(|i| (i % 7) as f32 * 0.25 - 0.5).collect();
        Tensor::from_slice(shape, &elements).unwrap()
    };
    let (x, w, b) = (ramp(&[3, 8]), ramp(&[8, 5]), ramp(&[5]));
    let outputs = model.run([("x", &x), ("w", &w), ("b", &b)]).unwrap();
    outputs[0].to_vec::<f32>().unwrap()
}

fn cache_folder() -> (TempDir, std::path::PathBuf) {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("cache");
    (folder, path)
}

#[test]
fn a_second_runtime_loads_what_the_first_compiled() {
    let (_folder, path) = cache_folder();
    let first = own(&path).load(Source::text(MLP)).unwrap();
    let expected = run(&first);
    assert!(first.wait_for_compiles(Duration::from_secs(10)));
    let stats = first.compilation_stats();
    assert!(stats.compilations > 0 && stats.cache.tier_hits == 0);
    assert_eq!(stats.cache.stored, stats.compilations);
    drop(first);
    let second = own(&path).load(Source::text(MLP)).unwrap();
    assert_eq!(run(&second), expected);
    let again = second.compilation_stats();
    assert_eq!((again.compilations, again.misses), (0, 0));
    assert_eq!(again.cache.tier_hits, stats.compilations);
    assert!(again.to_report().contains("loaded from stores"));
}

#[test]
fn ahead_of_time_calls_compile_nothing_and_explain_what_is_missing() {
    let (_folder, path) = cache_folder();
    let strict = || own(&path).compiling(CompilePolicy::AheadOfTime);
    let model = strict().load(Source::text(MLP)).unwrap();
    let (x, w, b) = (
        Tensor::full(&[3, 8], 0.5f32).unwrap(),
        Tensor::full(&[8, 5], 0.5f32).unwrap(),
        Tensor::full(&[5], 0.5f32).unwrap(),
    );
    let error = model.run([("x", &x), ("w", &w), ("b", &b)]).unwrap_err();
    assert_eq!(error.code(), "E0891");
    assert_eq!(error.kind(), ErrorKind::Environment);
    assert!(error.to_string().contains("disk: no such entry"), "{error}");
    assert_eq!(model.compilation_stats().compilations, 0);
    // If it was compiled for another level, the miss says so.
    let lowest = own(&path).target(&Device::cpu().levels()[0]);
    run(&lowest.load(Source::text(MLP)).unwrap());
    let error = model.run([("x", &x), ("w", &w), ("b", &b)]).unwrap_err();
    if Device::cpu().levels().len() > 1 {
        assert!(error.to_string().contains("target: "), "{error}");
    }
    run(&own(&path).load(Source::text(MLP)).unwrap());
    let model = strict().load(Source::text(MLP)).unwrap();
    run(&model);
    assert_eq!(model.compilation_stats().compilations, 0);
}

#[test]
fn a_damaged_cache_folder_never_fails_a_call() {
    let (_folder, path) = cache_folder();
    let expected = run(&own(&path).load(Source::text(MLP)).unwrap());
    for entry in std::fs::read_dir(&path).unwrap() {
        let file = entry.unwrap().path();
        let mut bytes = std::fs::read(&file).unwrap();
        let middle = bytes.len() / 2;
        let Some(byte) = bytes.get_mut(middle) else {
            continue;
        };
        *byte ^= 1;
        std::fs::write(&file, bytes).unwrap();
    }
    let model = own(&path).load(Source::text(MLP)).unwrap();
    assert_eq!(run(&model), expected);
    let stats = model.compilation_stats();
    assert!(stats.cache.corrupt > 0 && stats.compilations > 0);
    // A path that cannot be a folder.
    let file = path.join("file");
    std::fs::write(&file, "not a folder").unwrap();
    let model = own(&file).load(Source::text(MLP)).unwrap();
    assert_eq!(run(&model), expected);
    assert!(model.wait_for_compiles(Duration::from_secs(10)));
    assert!(model.compilation_stats().cache.not_stored > 0);
}

#[test]
fn cleared_kernels_are_reloaded_from_the_folder_or_recompiled() {
    let (_folder, path) = cache_folder();
    for cache in [Cache::off(), Cache::folder(&path)] {
        let is_kept = cache.path().is_some();
        let model = own(&path).cache(cache).load(Source::text(MLP)).unwrap();
        let expected = run(&model);
        assert!(model.wait_for_compiles(Duration::from_secs(10)));
        let first = model.compilation_stats();
        model.clear_cache();
        assert_eq!(model.compilation_stats().cache.kernels, 0);
        assert_eq!(run(&model), expected);
        let second = model.compilation_stats();
        let (compiled, loaded) = match is_kept {
            true => (0, first.compilations),
            false => (first.compilations, 0),
        };
        assert_eq!(second.compilations - first.compilations, compiled);
        assert_eq!(second.cache.tier_hits, loaded);
    }
}
