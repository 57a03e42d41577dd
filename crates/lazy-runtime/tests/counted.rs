//! Statistics agree with the counts of a counting compiler.

mod support;

use std::sync::atomic::Ordering;

use kiln_lazy_runtime::RuntimeOptions;
use support::{FakeCompiler, compiled, expect_same, graph, ramp, runtime_with};

#[test]
fn statistics_match_a_counting_compiler() {
    let compiler = FakeCompiler::default();
    let runtime = runtime_with(compiler.clone(), RuntimeOptions::new());
    // Two equal kernels and two others; the second program has one of these.
    let first = graph(
        "graph @first(%x: f32[A, B]) -> (f32[A, B], f32[A]) {
          %a = exp %x
          %b = exp %a
          %c = neg %b
          %d = reduce %c {function = sum, axes = [1]}
          return %c, %d
        }",
    );
    let second = graph(
        "graph @second(%x: f32[A, B]) -> f32[A, B] {
          %a = exp %x
          return %a
        }",
    );
    let shapes = [[2, 3], [1, 1], [2, 3], [4, 0], [1, 1]];
    let program = compiled(&runtime, &first, false);
    for shape in shapes {
        expect_same(&program, &first, &[ramp(&shape)]);
    }
    let stats = runtime.stats();
    let compiles = compiler.compiles.load(Ordering::SeqCst) as u64;
    assert_eq!((compiles, stats.compilations), (3, 3));
    assert_eq!((stats.misses, stats.unique_kernels), (3, 3));
    assert_eq!(runtime.compile_records().len(), 3);
    // One plan for each of three combinations of sizes; each requests its three kernels once.
    assert_eq!((stats.launch_plans, stats.hits), (3, 3 * 3 - 3));
    let program = compiled(&runtime, &second, false);
    for shape in shapes {
        expect_same(&program, &second, &[ramp(&shape)]);
    }
    let stats = runtime.stats();
    assert_eq!(compiler.compiles.load(Ordering::SeqCst), 3);
    assert_eq!((stats.compilations, stats.misses, stats.hits), (3, 3, 9));
    assert!((stats.hit_rate() - 0.75).abs() < 1e-9);
    runtime.clear_cache();
    let program = compiled(&runtime, &second, false);
    expect_same(&program, &second, &[ramp(&[2, 2])]);
    let stats = runtime.stats();
    assert_eq!(compiler.compiles.load(Ordering::SeqCst), 4);
    assert_eq!((stats.compilations, stats.unique_kernels), (4, 1));
    let untouched = [
        stats.fallbacks,
        stats.timeouts,
        stats.cancelled,
        stats.failures,
    ];
    assert_eq!(untouched, [0; 4]);
}

#[test]
fn every_counter_is_on_the_page_for_operators() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/book/src");
    let read = |page: &str| std::fs::read_to_string(format!("{folder}/{page}")).unwrap();
    let page = read("guide/operations.md");
    // Names of fields, as they are printed.
    let stats = format!(
        "{:?}",
        runtime_with(FakeCompiler::default(), RuntimeOptions::new()).stats()
    );
    let (own, cache) = stats.split_once("cache: CacheStats {").unwrap();
    let names = |text: &str| -> Vec<String> {
        let words = text
            .split([',', '{'])
            .filter_map(|part| part.split_once(':'));
        words.map(|(name, _)| name.trim().to_owned()).collect()
    };
    let (own, cache) = (names(own), names(cache));
    assert!(own.len() > 20 && cache.len() > 20, "{own:?} {cache:?}");
    for name in own.iter().chain(&cache) {
        let is_size = ["kernels", "bytes"].contains(&name.as_str());
        let is_there = [format!("`{name}`"), format!("`cache.{name}`")];
        assert!(
            is_size || is_there.iter().any(|name| page.contains(name)),
            "{name}"
        );
    }
    // Those of the cache are explained on the page about the cache.
    let page = read("internals/the-cache-and-its-format.md");
    for name in &cache {
        let is_known = page.contains(&format!("`{name}`")) || name.ends_with("_nanoseconds");
        assert!(
            is_known || ["kernels", "bytes"].contains(&name.as_str()),
            "{name}"
        );
    }
}
