//! Random graphs under every law: they print and read back, their types match the computed values, and the passes
//! change nothing observable.
//!
//! `KILN_TEST_GRAPHS=FIRST..END` checks other seeds than the first few hundred.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    reason = "a test may panic, and say what it did"
)]

use arbitrary::Unstructured;
use kiln_interpreter::{InterpretOptions, interpret};
use kiln_ir::{Graph, text};
use kiln_passes::{PassOptions, optimize};
use kiln_scalar::Mode;
use kiln_tensor::{DType, Tensor};
use kiln_testkit::generate::{Flavor, GraphOptions, input_shapes, input_tensors, random_graph};
use kiln_testkit::laws::{check_graph, check_output_types};
use kiln_testkit::oracle::{Agreement, Tolerance, run_both, small_limits};
use kiln_testkit::random::seeded_bytes;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

/// How many sets of shapes are tried for each graph.
const N_SHAPES: usize = 3;

/// The result for one graph.
#[derive(Default)]
struct Tally {
    agreed: usize,
    /// Expected failures, by code.
    failed: BTreeMap<&'static str, usize>,
    broken: Vec<String>,
}

fn optimized(graph: &Graph, freeze: bool) -> Result<Graph, String> {
    let mut options = PassOptions {
        freeze,
        reorder_sums: freeze,
        verify: true,
        ..PassOptions::default()
    };
    match optimize(graph.clone(), &mut options) {
        Ok((graph, _)) => Ok(graph),
        Err(error) => Err(format!("{error}\n{}", text::print(graph))),
    }
}

fn check_seed(seed: u64, tally: &mut Tally) -> Result<(), String> {
    let bytes = seeded_bytes(seed, 4096);
    let mut choices = Unstructured::new(&bytes);
    let graph = random_graph(&mut choices, &GraphOptions::default()).unwrap();
    check_graph(&graph).map_err(|error| error.to_string())?;
    let fast = optimized(&graph, false)?;
    check_graph(&fast)
        .map_err(|error| format!("optimized: {error}\nfrom\n{}", text::print(&graph)))?;
    let options = InterpretOptions {
        limits: small_limits(),
        ..InterpretOptions::default()
    };
    for _ in 0..N_SHAPES {
        let flavor = *choices
            .choose(&[Flavor::Small, Flavor::Small, Flavor::Edges])
            .unwrap();
        let Some(shapes) = input_shapes(&mut choices, &graph).unwrap() else {
            *tally.failed.entry("no sizes").or_default() += 1;
            continue;
        };
        let inputs = input_tensors(&mut choices, &graph, &shapes, flavor).unwrap();
        let show = |what: String| {
            let (graph, fast) = (text::print(&graph), text::print(&fast));
            format!("{what}\ninputs {shapes:?}\n{graph}\noptimized\n{fast}")
        };
        match run_both(&graph, &fast, &inputs, &options, Tolerance::Exact) {
            Ok(Agreement::Outputs(outputs)) => {
                check_output_types(&graph, &inputs, &outputs)
                    .map_err(|error| show(error.to_string()))?;
                check_output_types(&fast, &inputs, &outputs)
                    .map_err(|error| show(error.to_string()))?;
                tally.agreed += 1;
            }
            Ok(Agreement::Failed(error)) => *tally.failed.entry(error.code()).or_default() += 1,
            Err(error) => return Err(show(error.to_string())),
        }
    }
    Ok(())
}

/// The error of a result relative to the largest element of the reference, both in f64.
fn distance(reference: &[Tensor], found: &[Tensor]) -> f64 {
    let mut worst = 0.0_f64;
    for (reference, found) in reference.iter().zip(found) {
        let expected = reference.to_vec::<f64>().unwrap();
        let found = found.to_vec::<f32>().unwrap();
        let largest = expected
            .iter()
            .fold(1.0_f64, |largest, x| largest.max(x.abs()));
        for (expected, found) in expected.iter().zip(found) {
            let found = f64::from(found);
            if expected.is_finite() && found.is_finite() {
                worst = worst.max((expected - found).abs() / largest);
            } else if expected.is_nan() != found.is_nan() {
                worst = f64::INFINITY;
            }
        }
    }
    worst
}

/// Freezing may change rounding: its results must be about as close to the reference as the original graph's.
fn check_frozen_seed(seed: u64, tally: &mut Tally) -> Result<(), String> {
    let bytes = seeded_bytes(seed, 4096);
    let mut choices = Unstructured::new(&bytes);
    let options = GraphOptions {
        smooth: true,
        max_ops: 12,
    };
    let graph = random_graph(&mut choices, &options).unwrap();
    check_graph(&graph).map_err(|error| error.to_string())?;
    let fast = optimized(&graph, true)?;
    let declared = InterpretOptions {
        limits: small_limits(),
        ..InterpretOptions::default()
    };
    let promoted = InterpretOptions {
        mode: Mode::Promoted,
        ..declared
    };
    for _ in 0..N_SHAPES {
        let Some(shapes) = input_shapes(&mut choices, &graph).unwrap() else {
            continue;
        };
        let inputs = input_tensors(&mut choices, &graph, &shapes, Flavor::Smooth).unwrap();
        let reference = match interpret(&graph, &inputs, &promoted) {
            Ok(reference) if reference.iter().all(|tensor| tensor.dtype() == DType::F64) => {
                reference
            }
            Ok(_) => continue,
            Err(error) => {
                *tally.failed.entry(error.code()).or_default() += 1;
                continue;
            }
        };
        let [slow, quick] = [&graph, &fast].map(|graph| interpret(graph, &inputs, &declared));
        let quick = quick.map_err(|error| format!("frozen: {error}\n{}", text::print(&graph)))?;
        let before = distance(&reference, &slow.map_err(|error| error.to_string())?);
        let after = distance(&reference, &quick);
        if after > 8.0 * before + 1e-5 {
            let (graph, fast) = (text::print(&graph), text::print(&fast));
            return Err(format!(
                "error {after:e}, before {before:e}\ninputs {shapes:?}\n{graph}\nfrozen\n{fast}"
            ));
        }
        tally.agreed += 1;
    }
    Ok(())
}

/// Checks the seeds on a few threads; panics with every graph that violates a law.
fn check_seeds(seeds: Range<u64>, check: fn(u64, &mut Tally) -> Result<(), String>) -> Tally {
    let given = std::env::var("KILN_TEST_GRAPHS").ok();
    let given = given.as_deref().and_then(|given| given.split_once(".."));
    let parse = |text: &str| text.parse().expect("KILN_TEST_GRAPHS is FIRST..END");
    let seeds = given.map_or(seeds, |(first, end)| parse(first)..parse(end));
    let next = AtomicU64::new(seeds.start);
    let all = Mutex::new(Tally::default());
    std::thread::scope(|threads| {
        for _ in 0..4 {
            threads.spawn(|| {
                let mut tally = Tally::default();
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= seeds.end {
                        break;
                    }
                    if let Err(error) = check(seed, &mut tally) {
                        tally.broken.push(format!("seed {seed}: {error}"));
                    }
                }
                let mut all = all.lock().unwrap();
                all.agreed += tally.agreed;
                all.broken.extend(tally.broken);
                for (code, count) in tally.failed {
                    *all.failed.entry(code).or_default() += count;
                }
            });
        }
    });
    let tally = all.into_inner().unwrap();
    println!("{} runs agreed; others: {:?}", tally.agreed, tally.failed);
    let broken = &tally.broken;
    assert!(
        broken.is_empty(),
        "{} graphs:\n{}",
        broken.len(),
        broken.join("\n\n")
    );
    tally
}

#[test]
fn generated_graphs_agree() {
    let tally = check_seeds(0..300, check_seed);
    let failed: usize = tally.failed.values().sum();
    assert!(
        tally.agreed > failed,
        "only {} runs agreed, others: {:?}",
        tally.agreed,
        tally.failed
    );
}

#[test]
fn frozen_graphs_are_as_accurate_as_before() {
    let tally = check_seeds(0..150, check_frozen_seed);
    let failed: usize = tally.failed.values().sum();
    assert!(
        tally.agreed > failed,
        "only {} runs agreed, others: {:?}",
        tally.agreed,
        tally.failed
    );
}
