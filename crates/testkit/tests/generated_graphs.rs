//! Random graphs under every law: they print and read back, their types are those of the values
//! they compute, and the passes change nothing that anybody can see.

use arbitrary::Unstructured;
use kiln_interpreter::InterpretOptions;
use kiln_ir::{Graph, text};
use kiln_passes::{PassOptions, optimize};
use kiln_testkit::generate::{Flavor, GraphOptions, input_shapes, input_tensors, random_graph};
use kiln_testkit::laws::{check_graph, check_output_types};
use kiln_testkit::oracle::{Agreement, Tolerance, run_both, small_limits};
use kiln_testkit::random::seeded_bytes;
use std::collections::BTreeMap;

/// How many graphs, and how many sets of shapes for each.
const N_GRAPHS: u64 = 300;
const N_SHAPES: usize = 3;

/// What came of one graph.
#[derive(Default)]
struct Tally {
    agreed: usize,
    /// Runs that failed as they should, by code.
    failed: BTreeMap<&'static str, usize>,
    broken: Vec<String>,
}

fn optimized(graph: &Graph, freeze: bool) -> Result<Graph, String> {
    let mut options = PassOptions {
        freeze,
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

#[test]
fn generated_graphs_agree() {
    let mut tally = Tally::default();
    for seed in 0..N_GRAPHS {
        if let Err(error) = check_seed(seed, &mut tally) {
            tally.broken.push(format!("seed {seed}: {error}"));
        }
    }
    println!("{} runs agreed; others: {:?}", tally.agreed, tally.failed);
    assert!(
        tally.broken.is_empty(),
        "{} graphs:\n{}",
        tally.broken.len(),
        tally.broken.join("\n\n")
    );
    let failed: usize = tally.failed.values().sum();
    assert!(
        tally.agreed > failed,
        "only {} runs agreed, others: {:?}",
        tally.agreed,
        tally.failed
    );
}
