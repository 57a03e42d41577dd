//! Which ops programs of random graphs leave to the interpreter, and why: only ops whose sizes never fit, which it
//! correctly rejects.
//!
//! `KILN_TEST_GRAPHS=FIRST..END` plans other seeds than the first few hundred.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    reason = "a test may panic, and say what it did"
)]

use std::collections::BTreeMap;

use arbitrary::Unstructured;
use kiln_fusion::FusionOptions;
use kiln_passes::{PassOptions, optimize};
use kiln_program::{Action, BuildOptions, RowMajor, build};
use kiln_symbolic_shape::FactSelection;
use kiln_testkit::generate::{GraphOptions, random_graph};
use kiln_testkit::random::seeded_bytes;

/// Seeds whose graphs have ops that no sizes satisfy, and scatters of narrow floats.
const TELLING: [u64; 6] = [677, 872, 1025, 2253, 2514, 2726];

/// Lowering's reason for an op that has no result at any sizes.
fn is_impossible(reason: &str) -> bool {
    reason.contains("never holds") || reason.contains("contradicts what is known")
}

#[test]
fn random_graphs_interpret_only_steps_without_a_kernel() {
    let given = std::env::var("KILN_TEST_GRAPHS").ok();
    let given = given.as_deref().and_then(|given| given.split_once(".."));
    let parse = |text: &str| -> u64 { text.parse().expect("KILN_TEST_GRAPHS is FIRST..END") };
    let seeds: Vec<u64> = match given {
        Some((first, end)) => (parse(first)..parse(end)).collect(),
        None => (0..300).chain(TELLING).collect(),
    };
    let mut left: BTreeMap<(String, String), Vec<u64>> = BTreeMap::new();
    let mut n_steps = 0;
    for seed in seeds {
        let bytes = seeded_bytes(seed, 4096);
        let options = GraphOptions {
            max_ops: 12,
            smooth: seed % 3 != 2,
        };
        let graph = random_graph(&mut Unstructured::new(&bytes), &options).unwrap();
        let (graph, _) = optimize(graph, &mut PassOptions::default()).unwrap();
        for facts in [FactSelection::All, FactSelection::None] {
            let options = FusionOptions::new()
                .with_fusion(seed % 5 != 4)
                .with_facts(facts);
            let plan = kiln_fusion::plan(&graph, &options).unwrap();
            let program = build(graph.clone(), &plan, &RowMajor, &BuildOptions::default()).unwrap();
            for step in program.steps() {
                n_steps += 1;
                if let Action::Interpret { reason, .. } = &step.action {
                    for &op in &step.ops {
                        let name = program.graph().op(op).op.mnemonic().to_owned();
                        let key = (name, reason.clone());
                        left.entry(key).or_default().push(seed);
                    }
                }
            }
        }
    }
    for ((name, reason), seeds) in &left {
        let n = seeds.len();
        println!("{name}: {reason}: {n} times, first by seed {}", seeds[0]);
        assert!(is_impossible(reason), "{name}: {reason}, seeds {seeds:?}");
    }
    println!("of {n_steps} steps");
    assert!(given.is_some() || n_steps > 1000 && !left.is_empty());
}
