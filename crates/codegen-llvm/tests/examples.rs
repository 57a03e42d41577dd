//! Every example of the kernel form: compiled with every schedule at every level, and compared with its meaning.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test that cannot go on panics"
)]

mod support;

use kiln_backend::IsaLevel;
use kiln_backend::{KernelCompiler as _, Unobserved};
use kiln_codegen_llvm::LlvmCompiler;
use kiln_testkit::generate::Flavor;
use kiln_testkit::kernels::Elements;
use support::examples::examples;

/// Points that a call may compute, so that the evaluator keeps up.
const MOST_WORK: f64 = 20_000.0;

#[test]
fn every_example_becomes_an_object_for_other_machines() {
    let compiler = LlvmCompiler::new();
    for (_, text) in examples() {
        let kernel = support::kernel(&text);
        for level in IsaLevel::ALL.into_iter().filter(|level| !level.runs_here()) {
            let target = LlvmCompiler::target(level);
            for candidate in compiler.schedules(&kernel, &target) {
                compiler
                    .compile(&kernel, &target, &candidate.schedule, &mut Unobserved)
                    .unwrap();
            }
        }
    }
}

/// Compares the examples whose position leaves `part` when divided by 4; several tests share them out over threads.
fn check_part(part: usize) {
    let mut failed = Vec::new();
    for (position, (name, text)) in examples().into_iter().enumerate() {
        if position % 4 != part {
            continue;
        }
        // Indices of the gathers and scatters: some of them are outside at the smallest sizes.
        let elements = Elements {
            flavor: Flavor::Smooth,
            indices: (-1, 3),
        };
        let ran = std::panic::catch_unwind(|| support::check_text(&text, elements, MOST_WORK));
        match ran {
            Ok((agreed, _)) => assert!(agreed > 0, "{name} never has a result"),
            Err(panic) => {
                let message = panic.downcast_ref::<String>().cloned().unwrap_or_default();
                failed.push(message);
            }
        }
    }
    assert!(failed.is_empty(), "{}", failed.join("\n\n"));
}

#[test]
fn examples_do_what_they_mean_1_of_4() {
    check_part(0);
}

#[test]
fn examples_do_what_they_mean_2_of_4() {
    check_part(1);
}

#[test]
fn examples_do_what_they_mean_3_of_4() {
    check_part(2);
}

#[test]
fn examples_do_what_they_mean_4_of_4() {
    check_part(3);
}

#[test]
fn rows_of_real_length() {
    let symbolic = examples()
        .into_iter()
        .find(|(name, _)| name == "linear_gelu");
    let text = symbolic.unwrap().1.replace('F', "1536").replace('K', "384");
    let kernel = support::kernel(&text);
    let variants = support::compiled(&kernel);
    for (seed, rows) in [(1, 0), (2, 1)] {
        support::check_at(&kernel, &variants, &[rows], Elements::default(), seed).unwrap();
    }
}
