//! The cases of `testkit/testdata`: each stage equals the one in its file, and each run, compiled with the fallback
//! schedule and with every schedule at every level, gives the interpreter's results.
//!
//! `KILN_TEST_FILES=WORD` checks only the files whose paths contain a word. With `KILN_TEST_BLESS=1` (`cargo xtask bless
//! --files`) stages and results are rewritten.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test may panic, and print what it did"
)]

mod support;

use std::sync::Arc;

use kiln_backend::IsaLevel;
use kiln_codegen_llvm::LlvmCompiler;
use kiln_testkit::cases::{Case, CaseError, Engine, topic, topics};

fn engine() -> Engine {
    let others = IsaLevel::ALL.into_iter().filter(|level| !level.runs_here());
    let others = others.map(LlvmCompiler::target).collect();
    Engine::new(Arc::new(LlvmCompiler::new()), support::targets(), others)
}

/// Checks the cases of a topic whose position leaves `part` when divided by `parts`.
fn check(name: &str, part: usize, parts: usize) {
    let engine = engine();
    let cases = topic(name).unwrap_or_else(|error| panic!("{error}"));
    let word = std::env::var("KILN_TEST_FILES").unwrap_or_default();
    let is_blessing = std::env::var_os("KILN_TEST_BLESS").is_some();
    let mut wrong = Vec::new();
    for case in cases.iter().skip(part).step_by(parts) {
        if !format!("{name}/{}", case.name()).contains(&word) {
            continue;
        }
        let checked = if is_blessing {
            bless(case, &engine)
        } else {
            case.check(&engine)
        };
        wrong.extend(checked.err().unwrap_or_default());
    }
    let messages: Vec<String> = wrong.iter().map(ToString::to_string).collect();
    assert!(messages.is_empty(), "{}", messages.join("\n\n"));
}

fn bless(case: &Case, engine: &Engine) -> Result<(), Vec<CaseError>> {
    if case.bless(engine)? {
        println!("rewritten: {case:?}");
    }
    Ok(())
}

/// One test per topic, or several for a long one.
macro_rules! topics {
    ($($test:ident: $topic:literal, $part:literal of $parts:literal;)+) => {
        $(#[test]
        fn $test() {
            check($topic, $part, $parts);
        })+

        #[test]
        fn every_topic_has_its_tests() {
            let mut tested: Vec<(&str, usize, usize)> = vec![$(($topic, $part, $parts)),+];
            tested.sort_unstable();
            let expected = topics().unwrap().into_iter().flat_map(|topic| {
                let parts = tested.iter().find(|(name, ..)| *name == topic).map_or(1, |(_, _, parts)| *parts);
                (0..parts).map(move |part| (topic.clone(), part, parts))
            });
            let expected: Vec<_> = expected.collect();
            let tested: Vec<_> = tested.iter().map(|&(name, part, parts)| (name.to_owned(), part, parts)).collect();
            assert_eq!(tested, expected, "a folder of testdata is a topic of this file");
        }
    };
}

topics! {
    canonicalize: "canonicalize", 0 of 1;
    clamped: "clamped", 0 of 1;
    classes: "classes", 0 of 1;
    dtypes_1: "dtypes", 0 of 4;
    dtypes_2: "dtypes", 1 of 4;
    dtypes_3: "dtypes", 2 of 4;
    dtypes_4: "dtypes", 3 of 4;
    eliminate_dead_ops: "eliminate_dead_ops", 0 of 1;
    examples_1: "examples", 0 of 4;
    examples_2: "examples", 1 of 4;
    examples_3: "examples", 2 of 4;
    examples_4: "examples", 3 of 4;
    fold_constants: "fold_constants", 0 of 1;
    freeze_constants: "freeze_constants", 0 of 1;
    gradients_1: "gradients", 0 of 3;
    gradients_2: "gradients", 1 of 3;
    gradients_3: "gradients", 2 of 3;
    fusion_1: "fusion", 0 of 3;
    fusion_2: "fusion", 1 of 3;
    fusion_3: "fusion", 2 of 3;
    hoist_from_loops: "hoist_from_loops", 0 of 1;
    in_place: "in_place", 0 of 1;
    inline_control_flow: "inline_control_flow", 0 of 1;
    loops: "loops", 0 of 1;
    maps: "maps", 0 of 1;
    movement_1: "movement", 0 of 2;
    movement_2: "movement", 1 of 2;
    products_1: "products", 0 of 4;
    products_2: "products", 1 of 4;
    products_3: "products", 2 of 4;
    products_4: "products", 3 of 4;
    reductions_1: "reductions", 0 of 2;
    reductions_2: "reductions", 1 of 2;
    rows: "rows", 0 of 1;
    scans: "scans", 0 of 1;
    scatter_1: "scatter", 0 of 2;
    scatter_2: "scatter", 1 of 2;
    simplify_algebra: "simplify_algebra", 0 of 1;
    smoke: "smoke", 0 of 1;
    splits_1: "splits", 0 of 3;
    splits_2: "splits", 1 of 3;
    splits_3: "splits", 2 of 3;
    windows_1: "windows", 0 of 3;
    windows_2: "windows", 1 of 3;
    windows_3: "windows", 2 of 3;
}
