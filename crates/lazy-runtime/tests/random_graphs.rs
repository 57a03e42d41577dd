//! Random graphs at odd sizes: the runtime and the interpreter agree, on outputs and on what fails.

#![allow(clippy::expect_used, reason = "a test that cannot continue panics")]

mod support;

use std::sync::Arc;

use arbitrary::Unstructured;
use kiln_backend::{KernelExecutor, Resident};
use kiln_interpreter::{InterpretError, InterpretLimits, InterpretOptions, interpret};
use kiln_lazy_runtime::{
    CompiledProgram, DonationFate, Donations, OutputPlacement, Runtime, RuntimeOptions,
};
use kiln_tensor::Tensor;
use kiln_testkit::generate::{Flavor, GraphOptions, input_shapes, input_tensors, random_graph};
use kiln_testkit::oracle::{Tolerance, compare_all};
use kiln_testkit::random::seeded_bytes;
use support::{FakeCompiler, FakeDevice, compiled};

/// How many graphs: `KILN_RANDOM_GRAPHS` sets another number.
fn n_graphs() -> u64 {
    std::env::var("KILN_RANDOM_GRAPHS")
        .ok()
        .and_then(|n| n.parse().ok())
        .unwrap_or(60)
}

fn first_graph() -> u64 {
    std::env::var("KILN_RANDOM_FIRST")
        .ok()
        .and_then(|n| n.parse().ok())
        .unwrap_or(0)
}

/// Disjoint pairs of an input and an output: those for which the program has donations, and one for which it has none.
fn donations(program: &CompiledProgram, inputs: usize, outputs: usize) -> [Vec<(usize, usize)>; 2] {
    let block = program.program().block(program.program().body());
    let mut pairs: Vec<(usize, usize)> = Vec::new();
    for donation in &block.donations {
        let (input, output) = (donation.parameter, donation.result);
        if !pairs.iter().any(|pair| pair.0 == input || pair.1 == output) {
            pairs.push((input, output));
        }
    }
    let any = (0..inputs.min(1)).map(|input| (input, outputs - 1));
    [pairs, any.collect()]
}

/// The same elements in a device's memory.
fn resident(device: &Arc<dyn KernelExecutor>, tensor: &Tensor) -> Tensor {
    let memory = device.upload(tensor).expect("small");
    let (dtype, shape) = (tensor.dtype(), tensor.shape());
    Resident::tensor(device, &memory, 0, dtype, shape).expect("all of it")
}

#[test]
fn random_graphs_agree_with_the_interpreter() {
    let limits = InterpretLimits {
        live_bytes: 1 << 20,
        iterations: 50,
        ..InterpretLimits::default()
    };
    let options = InterpretOptions {
        limits,
        ..InterpretOptions::default()
    };
    let (mut calls, mut agreed, mut taken) = (0, 0, [0, 0]);
    for seed in first_graph()..first_graph() + n_graphs() {
        let bytes = seeded_bytes(seed, 4096);
        let mut choices = Unstructured::new(&bytes);
        let smooth = GraphOptions {
            max_ops: 10,
            smooth: true,
        };
        let graph = random_graph(&mut choices, &smooth).expect("bytes enough");
        let device: Arc<dyn KernelExecutor> = Arc::new(FakeDevice::default());
        let compiler = Arc::new(FakeCompiler::default());
        let runtime = Runtime::new(Some(compiler), Arc::clone(&device), RuntimeOptions::new());
        let program = compiled(&Arc::new(runtime), &graph, seed % 3 != 0);
        // Donated inputs are in the device's memory, or in the host's.
        let stays = seed % 2 == 0;
        let program = match stays {
            true => program,
            false => program.with_outputs(OutputPlacement::Host),
        };
        let to_give_up = |tensor: &Tensor| match stays {
            true => resident(&device, tensor),
            false => tensor.copied().expect("small"),
        };
        for _ in 0..3 {
            let Some(shapes) = input_shapes(&mut choices, &graph).expect("bytes enough") else {
                break;
            };
            if shapes.iter().flatten().any(|&size| size > 40) {
                continue;
            }
            let Ok(inputs) = input_tensors(&mut choices, &graph, &shapes, Flavor::Small) else {
                break;
            };
            let text = || {
                format!(
                    "seed {seed}, shapes {shapes:?}\n{}\n{}",
                    kiln_ir::text::print(&graph),
                    program.program()
                )
            };
            calls += 1;
            match (interpret(&graph, &inputs, &options), program.run(&inputs)) {
                (Ok(expected), Ok(found)) => {
                    agreed += 1;
                    let tolerance = Tolerance::OfLargest(1e-4);
                    if let Err(mismatch) = compare_all(&expected, &found, tolerance) {
                        panic!("{mismatch}\n{}", text());
                    }
                    // Into tensors of the right shapes, the last one shared; twice, since the first call creates the
                    // memory that is kept.
                    let blank = |tensor: &Tensor| Tensor::zeros(tensor.dtype(), tensor.shape());
                    let blanks = found.iter().map(blank).collect::<Result<Vec<_>, _>>();
                    let mut given = blanks.expect("small tensors");
                    let _shared = given.last().cloned();
                    for _ in 0..2 {
                        let ran = program.run_into(&inputs, &mut given);
                        ran.unwrap_or_else(|error| panic!("{error}\n{}", text()));
                        if let Err(mismatch) = compare_all(&found, &given, Tolerance::Exact) {
                            panic!("into given tensors: {mismatch}\n{}", text());
                        }
                    }
                    // Every input is donated to a result that may reuse its memory, or to any result.
                    for pairs in donations(&program, inputs.len(), found.len()) {
                        let mut copies: Vec<_> = inputs.iter().map(to_give_up).collect();
                        let mut donations = Donations::new(pairs).expect("each once");
                        let ran =
                            program.run_donating(&mut copies, &mut donations, &mut given, None);
                        ran.unwrap_or_else(|error| panic!("{error}\n{}", text()));
                        if let Err(mismatch) = compare_all(&found, &given, Tolerance::Exact) {
                            panic!("with donated inputs: {mismatch}\n{}", text());
                        }
                        for (at, (copy, input)) in copies.iter().zip(&inputs).enumerate() {
                            match donations.fate(at) {
                                DonationFate::Kept => assert!(copy.bit_equal(input), "{}", text()),
                                fate => {
                                    assert_eq!(fate, DonationFate::Taken);
                                    taken[usize::from(stays)] += 1;
                                }
                            }
                        }
                    }
                }
                (Ok(_), Err(error)) => panic!("{} {error}\n{}", error.code(), text()),
                (Err(InterpretError::LiveBytes { .. } | InterpretError::Iterations { .. }), _) => {}
                // An op whose results are unused may be omitted.
                (Err(_), _) => {}
            }
        }
    }
    assert!(
        agreed * 3 > calls,
        "of {calls} calls only {agreed} have outputs"
    );
    assert!(
        taken.iter().all(|&taken| taken > 0),
        "no input's memory was taken: {taken:?}"
    );
}
