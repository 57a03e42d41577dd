//! Calls of several programs at frequent and at one-off sizes: most requests hit the cache.

mod support;

use std::sync::atomic::Ordering;

use kiln_lazy_runtime::RuntimeOptions;
use support::{FakeCompiler, Offer, compiled, expect_same, graph, ramp, runtime_with};

const PROGRAMS: [&str; 4] = [
    "graph @a(%x: f32[A, B]) -> f32[A] {
      %a = exp %x
      %b = reduce %a {function = sum, axes = [1]}
      return %b
    }",
    "graph @b(%x: f32[A, B]) -> f32[A, B] {
      %a = exp %x
      %b = neg %a
      return %b
    }",
    "graph @c(%x: f32[A, B]) -> f32[B, A] {
      %a = neg %x
      %b = transpose %a {permutation = [1, 0]}
      return %b
    }",
    "graph @d(%x: f32[A, B]) -> f32[A, B] {
      %a = exp %x
      %b = mul %a, %x
      %c = neg %b
      return %c
    }",
];

#[test]
fn after_warm_up_more_than_nine_in_ten_requests_find_their_kernel() {
    let compiler = FakeCompiler {
        offer: Offer::MultipleOfFour,
        ..FakeCompiler::default()
    };
    let compiles = compiler.compiles.clone();
    let runtime = runtime_with(compiler, RuntimeOptions::new());
    let graphs = PROGRAMS.map(graph);
    let programs = graphs
        .each_ref()
        .map(|graph| compiled(&runtime, graph, false));
    let mut state = 11_u64;
    let mut random = |below: u64| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        ((state >> 33) % below) as usize
    };
    let mut call = || {
        let which = random(4);
        let sizes = match random(10) {
            0 | 1 => [random(30), random(30)],
            _ => [8 * (1 + random(3)), 4],
        };
        expect_same(&programs[which], &graphs[which], &[ramp(&sizes)]);
    };
    (0..40).for_each(|_| call());
    let before = runtime.stats();
    (0..600).for_each(|_| call());
    let after = runtime.stats();
    let (hits, misses) = (after.hits - before.hits, after.misses - before.misses);
    // Only plans of new sizes make requests; calls with known sizes do not even do that.
    let plans = after.launch_plans - before.launch_plans;
    assert!((50..=200).contains(&plans), "{plans}");
    assert!(hits >= plans, "{}", after.to_report());
    let rate = hits as f64 / (hits + misses) as f64;
    assert!(rate > 0.9, "{rate}: {}", after.to_report());
    assert_eq!(after.misses, compiles.load(Ordering::SeqCst) as u64);
    assert!(after.hit_rate() > 0.9, "{}", after.to_report());
}
