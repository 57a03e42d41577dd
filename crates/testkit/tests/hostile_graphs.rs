//! Hostile graphs: mutated ones are rejected or run to completion; long, wide and deep ones need no deep stack and at
//! most linear time; and constants that would fill the memory are not materialised.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test may panic, and say what it did"
)]

use arbitrary::Unstructured;
use kiln_interpreter::{InterpretOptions, interpret};
use kiln_ir::{BlobMap, Graph, text, verify};
use kiln_passes::{PassOptions, optimize};
use kiln_shape_inference::{check_types, read_graph};
use kiln_tensor::Tensor;
use kiln_testkit::generate::{Flavor, GraphOptions, input_shapes, input_tensors, random_graph};
use kiln_testkit::large::{chain, fan_out, nest, on_small_stack};
use kiln_testkit::laws::blobs_of;
use kiln_testkit::mutate::mutate;
use kiln_testkit::oracle::small_limits;
use kiln_testkit::random::seeded_bytes;
use std::time::{Duration, Instant};

fn limited() -> InterpretOptions<'static> {
    InterpretOptions {
        limits: small_limits(),
        ..InterpretOptions::default()
    }
}

#[test]
fn mutated_graphs_are_rejected_or_run() {
    let (mut rejected, mut typed, mut ran) = (0, 0, 0);
    for seed in 0..1000 {
        let bytes = seeded_bytes(0x5b01 + seed, 4096);
        let mut choices = Unstructured::new(&bytes);
        let options = GraphOptions {
            max_ops: 12,
            ..GraphOptions::default()
        };
        let graph = random_graph(&mut choices, &options).unwrap();
        let spoilt = mutate(&mut choices, &graph).unwrap();
        if let Err(errors) = verify(&spoilt) {
            assert!(!errors.to_string().is_empty());
            rejected += 1;
            continue;
        }
        // Printing needs no types; reading back may reject them, and must not panic.
        let printed = text::print(&spoilt);
        let _outcome = read_graph(&printed, &blobs_of(&spoilt));
        if check_types(&spoilt).is_err() {
            typed += 1;
            continue;
        }
        let typed = text::read(&printed, &blobs_of(&spoilt)).unwrap();
        assert_eq!(text::print(&typed), printed, "seed {seed}");
        let mut options = PassOptions {
            verify: true,
            ..PassOptions::default()
        };
        let (fast, _) = optimize(spoilt.clone(), &mut options)
            .unwrap_or_else(|error| panic!("seed {seed}: {error}\n{}", text::print(&spoilt)));
        if let Some(shapes) = input_shapes(&mut choices, &spoilt).unwrap() {
            let inputs = input_tensors(&mut choices, &spoilt, &shapes, Flavor::Small).unwrap();
            for graph in [&spoilt, &fast] {
                let _outcome = interpret(graph, &inputs, &limited());
            }
        }
        ran += 1;
    }
    println!("{rejected} rejected by the verifier, {typed} by the check of types, {ran} ran");
    assert!(rejected > 100 && typed > 50 && ran > 50);
}

/// Every operation on a graph and three numbers.
fn whole_road(graph: &Graph, extra: &[Tensor]) {
    verify(graph).unwrap();
    check_types(graph).unwrap();
    let printed = text::print(graph);
    let typed = text::read(&printed, &BlobMap::new()).unwrap();
    let inferred = read_graph(&printed, &BlobMap::new()).unwrap();
    assert_eq!(typed.n_ops(), inferred.n_ops());
    let mut options = PassOptions {
        verify: false,
        ..PassOptions::default()
    };
    let (fast, _) = optimize(inferred, &mut options).unwrap();
    let x = Tensor::from_slice(&[3], &[0.5_f32, -1.0, 2.0]).unwrap();
    let inputs: Vec<Tensor> = [x].into_iter().chain(extra.iter().cloned()).collect();
    let expected = interpret(graph, &inputs, &InterpretOptions::default()).unwrap();
    let found = interpret(&fast, &inputs, &InterpretOptions::default()).unwrap();
    assert!(expected[0].bit_equal(&found[0]));
}

#[test]
fn long_wide_and_deep_graphs_need_no_stack() {
    on_small_stack(|| {
        whole_road(&chain(10_000), &[]);
        whole_road(&fan_out(5_000), &[]);
        whole_road(
            &nest(kiln_ir::REGION_DEPTH_LIMIT - 1),
            &[Tensor::scalar(true)],
        );
    });
}

#[test]
fn regions_nested_too_deeply_are_a_limit() {
    on_small_stack(|| {
        for depth in [kiln_ir::REGION_DEPTH_LIMIT + 1, 2_000] {
            let errors = verify(&nest(depth)).unwrap_err().to_string();
            assert!(errors.contains("limit of 32"), "{errors}");
            let open = "%y: f32[N] = if %go, %go, %x region(%go: bool[], %x: f32[N]) {\n";
            let source = format!(
                "graph @nest(%x: f32[N], %go: bool[]) -> f32[N] {{\n{}",
                open.repeat(depth)
            );
            let errors = read_graph(&source, &BlobMap::new()).unwrap_err();
            assert!(
                errors.render(&source).contains("E0116"),
                "{}",
                errors.render(&source)
            );
        }
    });
}

#[test]
fn a_million_ops_are_verified_without_stack() {
    on_small_stack(|| {
        verify(&chain(1_000_000)).unwrap();
        let graph = chain(200_000);
        let x = Tensor::from_slice(&[1], &[0.5_f32]).unwrap();
        interpret(&graph, &[x], &InterpretOptions::default()).unwrap();
    });
}

/// The minimum of a few runs, which is the least disturbed one.
fn time(mut work: impl FnMut()) -> Duration {
    let once = |_| {
        let start = Instant::now();
        work();
        start.elapsed()
    };
    (0..3).map(once).min().unwrap_or_default()
}

/// Repeated on failure, since other load on the machine may slow down either run; quadratic growth takes four times as
/// long every time.
#[test]
fn twice_the_ops_take_at_most_three_times_as_long() {
    const ATTEMPTS: usize = 5;
    for (name, make) in [("chain", chain as fn(usize) -> Graph), ("fan_out", fan_out)] {
        let graphs = [1_000, 2_000].map(make);
        let times = || {
            graphs
                .each_ref()
                .map(|graph| time(|| whole_road(graph, &[])))
        };
        let mut seen = Vec::new();
        let holds = (0..ATTEMPTS).any(|_| {
            let [small, large] = times();
            seen.push((small, large));
            large < 3 * small
        });
        assert!(holds, "{name}, for 1000 ops and for 2000: {seen:?}");
    }
}

#[test]
fn a_constant_bomb_takes_no_memory_before_it_runs() {
    // 2^40 elements from a few bytes; the product of sizes is fine, the memory is not.
    let source = "
graph @bomb(%x: f32[N]) -> (f32[1048576, 1048576], f32[N]) {
  %0: f32[] = constant [1.0]
  %1: f32[1048576, 1048576] = broadcast %0 {dims = [1048576, 1048576]}
  %2: f32[1048576, 1048576] = exp %1
  %3: f32[N] = neg %x
  return %2, %3
}";
    let graph = read_graph(source, &BlobMap::new()).unwrap();
    let (fast, _) = optimize(graph.clone(), &mut PassOptions::default()).unwrap();
    let constants: usize = fast
        .ops()
        .filter_map(|(_, data)| match &data.op {
            kiln_ir::Op::Constant(constant) => Some(constant.tensor().byte_len()),
            _ => None,
        })
        .sum();
    assert!(constants < 1 << 20, "{constants} bytes of constants");
    let x = Tensor::from_slice(&[1], &[1.0_f32]).unwrap();
    for graph in [&graph, &fast] {
        let error = interpret(graph, std::slice::from_ref(&x), &limited()).unwrap_err();
        assert_eq!(error.code(), "E0832", "{error}");
    }
}
