//! A process does not redo what the cache contains: it reads only what calls need, and imports, plans, packs and
//! compiles nothing. Everything is counted and nothing is timed.
//!
//! Tests of real models need `KILN_MODELS`, a folder with `ocr-det`, `ocr-cls`, `ocr-rec` and `minilm`, each with a
//! `model.onnx`; without it they print that they were skipped.

#![cfg(all(feature = "llvm", feature = "onnx"))]
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test may panic and print"
)]

use kiln::diagnose::{self, Stage};
use kiln::internals::kernel_cache::EntryKind;
use kiln::{Cache, CompilePolicy, DType, Device, Model, Options, Tensor};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tempfile::TempDir;

fn model_file(name: &str) -> Option<PathBuf> {
    let Some(folder) = std::env::var_os("KILN_MODELS").map(PathBuf::from) else {
        println!("SKIPPED: {name} needs KILN_MODELS, the folder of the real models");
        return None;
    };
    Some(folder.join(name).join("model.onnx"))
}

fn options(cache: &Path) -> Options {
    Options::new()
        .device(Device::cpu())
        .shared_kernels(false)
        .cache(Cache::folder(cache))
}

fn call(model: &Model, shape: &[usize]) -> Vec<Tensor> {
    let inputs = model.inputs().iter().map(|input| {
        let tensor = match input.dtype() {
            Some(DType::I64) => Tensor::full(shape, 1_i64),
            _ => Tensor::full(shape, 0.25_f32),
        };
        (input.name().to_owned(), tensor.unwrap())
    });
    let inputs: Vec<_> = inputs.collect();
    let outputs = model.run(&inputs).unwrap();
    outputs.iter().map(|(_, tensor)| tensor.clone()).collect()
}

fn assert_same(left: &[Tensor], right: &[Tensor]) {
    assert_eq!(left.len(), right.len());
    for (left, right) in left.iter().zip(right) {
        assert!(left.bit_equal(right));
    }
}

/// The numbers of entries and their bytes, by kind.
fn kinds(cache: &Path) -> BTreeMap<String, (usize, u64)> {
    let disk = Cache::folder(cache).open().unwrap();
    let mut kinds = BTreeMap::new();
    for entry in disk.entries().unwrap() {
        let (n, bytes) = kinds.entry(entry.head.unwrap().kind).or_default();
        *n += 1;
        *bytes += entry.bytes;
    }
    kinds
}

/// A first process that does everything, and a second one that repeats nothing.
fn second_process_rebuilds_nothing(name: &str, shape: &[usize]) {
    let Some(file) = model_file(name) else { return };
    let cache = TempDir::new().unwrap();
    let first = options(cache.path()).load(&file).unwrap();
    let expected = call(&first, shape);
    assert!(first.wait_for_compiles(Duration::from_secs(60)));
    let stats = first.compilation_stats();
    assert!(
        stats.compilations > 0 && stats.constants_packed > 0,
        "{stats:?}"
    );
    assert_eq!(stats.constants_stored, stats.constants_packed);
    drop(first);
    let kept = kinds(cache.path());
    println!("{name}: {kept:?}");
    assert_eq!(
        kept[EntryKind::PACKED.name()].0 as u64,
        stats.constants_packed
    );
    assert!(kept[EntryKind::KERNEL.name()].1 < 100_000_000);

    let ahead = options(cache.path()).compiling(CompilePolicy::AheadOfTime);
    let second = ahead.load(&file).unwrap();
    assert_same(&call(&second, shape), &expected);
    let stats = second.compilation_stats();
    assert_eq!(
        (stats.compilations, stats.constants_packed),
        (0, 0),
        "{stats:?}"
    );
    assert!(stats.constants_loaded > 0);
    assert_eq!((stats.interpreted_steps, stats.cache.corrupt), (0, 0));
    let report = second.timing().report();
    for event in [
        "import",
        "passes",
        "fusion",
        "plan",
        "pack_constants",
        "store_program",
    ] {
        assert!(
            report.event(event).is_none_or(|event| event.count == 0),
            "{event}"
        );
    }
    assert_eq!(kinds(cache.path()), kept, "nothing was added");
    // What the second process did not read is available on request.
    let fresh = options(cache.path()).cache(Cache::off());
    let fresh = fresh.load(&file).unwrap();
    let ops = |model| diagnose::graph(model, Stage::Import).unwrap().ops().count();
    assert_eq!(ops(&second), ops(&fresh));
}

#[test]
fn real_model_minilm_is_built_once_for_all_processes() {
    second_process_rebuilds_nothing("minilm", &[1, 8]);
}

#[test]
fn real_model_detector_is_built_once_for_all_processes() {
    second_process_rebuilds_nothing("ocr-det", &[1, 3, 64, 96]);
}

#[test]
fn real_model_classifier_and_recogniser_are_built_once_for_all_processes() {
    second_process_rebuilds_nothing("ocr-cls", &[1, 3, 48, 192]);
    second_process_rebuilds_nothing("ocr-rec", &[1, 3, 48, 64]);
}

#[test]
fn real_model_weights_that_are_missing_or_damaged_are_rebuilt() {
    let Some(file) = model_file("ocr-cls") else {
        return;
    };
    let (cache, shape) = (TempDir::new().unwrap(), [1, 3, 48, 192]);
    let first = options(cache.path()).load(&file).unwrap();
    let expected = call(&first, &shape);
    assert!(first.wait_for_compiles(Duration::from_secs(60)));
    let disk = Cache::folder(cache.path()).open().unwrap();
    let mut damaged = 0;
    for entry in disk.entries().unwrap() {
        let path = cache.path().join(format!("{}.kiln2", entry.digest));
        match entry.head.unwrap().kind.as_str() {
            "packed" => {
                let mut bytes = std::fs::read(&path).unwrap();
                let last = bytes.len() - 40;
                bytes[last] ^= 1;
                std::fs::write(&path, bytes).unwrap();
                damaged += 1;
            }
            "constant" => std::fs::remove_file(&path).unwrap(),
            _ => {}
        }
    }
    let second = options(cache.path()).load(&file).unwrap();
    assert_same(&call(&second, &shape), &expected);
    assert!(second.wait_for_compiles(Duration::from_secs(60)));
    let stats = second.compilation_stats();
    assert_eq!((stats.compilations, stats.constants_packed), (0, damaged));
    assert_eq!(second.timing().report().counters.corrupt, damaged);
    let third = options(cache.path()).load(&file).unwrap();
    assert_same(&call(&third, &shape), &expected);
    assert_eq!(third.compilation_stats().constants_packed, 0);
}
