//! Calls without case files: inputs generated at given sizes, or read from archives and pictures; and how commands
//! print them.

use super::support::{Workshop, json, stderr, stdout};
use kiln::Tensor;
use kiln::internals::tensor::write_npz;
use std::collections::BTreeMap;
use std::fs::{self, File};

#[test]
fn a_call_without_files_draws_its_inputs_at_the_given_sizes() {
    let workshop = Workshop::new();
    let run = |arguments: &[&str]| {
        workshop.kiln(
            &[
                &["run", "model.kiln", "--json", "--device", "interpreter"],
                arguments,
            ]
            .concat(),
        )
    };
    let output = run(&["--size", "N=5", "--seed", "3"]);
    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!(
        stderr(&output).lines().next(),
        Some("note: drew x, scale with --seed 3, at --size N=5")
    );
    let first = json(&output);
    assert_eq!(first[0]["outputs"][0]["shape"], serde_json::json!([5, 3]));
    let again = json(&run(&["--size", "N=5", "--seed", "3"]));
    assert_eq!(first[0]["outputs"], again[0]["outputs"]);
    let other = json(&run(&["--size", "N=5", "--seed", "4"]));
    assert_ne!(first[0]["outputs"], other[0]["outputs"]);
    // Without a size, the smallest is used.
    assert_eq!(
        json(&run(&[]))[0]["outputs"][0]["shape"],
        serde_json::json!([1, 3])
    );
}

#[test]
fn an_unknown_size_is_answered_with_the_names_there_are() {
    let workshop = Workshop::new();
    let output = workshop.kiln(&["run", "model.kiln", "--size", "batch=5"]);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(
        stderr(&output).lines().last(),
        Some("error[E0972]: unknown dimension `batch`, expected one of: N")
    );
}

#[test]
fn files_and_sizes_complete_each_other() {
    let workshop = Workshop::new();
    let input = ["run", "model.kiln", "--input", "x=cases/a/x.npy", "--json"];
    let output =
        workshop.kiln(&[&input[..], &["--size", "N=2", "--device", "interpreter"]].concat());
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(
        stderr(&output).contains("drew scale"),
        "{}",
        stderr(&output)
    );
}

#[test]
fn an_archive_has_every_input() {
    let workshop = Workshop::new();
    let x = Tensor::full(&[4, 3], 2.0_f32).unwrap();
    let scale = Tensor::full(&[3], 0.5_f32).unwrap();
    let tensors = BTreeMap::from([("x".to_owned(), x), ("scale".to_owned(), scale)]);
    let pairs = tensors.iter().map(|(name, tensor)| (name.as_str(), tensor));
    write_npz(pairs, File::create(workshop.path("all.npz")).unwrap()).unwrap();
    let output = workshop.kiln(&[
        "run",
        "model.kiln",
        "--input",
        "all.npz",
        "--values",
        "--device",
        "interpreter",
    ]);
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(
        stdout(&output).contains("out/y:\n[[1. 1. 1.]\n [1. 1. 1.]"),
        "{}",
        stdout(&output)
    );
    let output = workshop.kiln(&["run", "model.kiln", "--input", "y=all.npz"]);
    assert!(
        stderr(&output).contains("expected an array y, found scale, x"),
        "{}",
        stderr(&output)
    );
}

#[cfg(feature = "llvm")]
#[test]
fn a_report_is_one_page() {
    let workshop = Workshop::new();
    let output = workshop.kiln(&[
        "report",
        "model.kiln",
        "--size",
        "N=7",
        "--calls",
        "2",
        "--output",
        "page.html",
        "--cache",
        "off",
    ]);
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(
        stdout(&output).starts_with("wrote page.html: "),
        "{}",
        stdout(&output)
    );
    let page = fs::read_to_string(workshop.path("page.html")).unwrap();
    assert!(page.starts_with("<!doctype html>") && page.contains("N = 7"));
    let cases = workshop.kiln(&[
        "report",
        "model.kiln",
        "--cases",
        "cases",
        "--calls",
        "2",
        "--json",
    ]);
    assert!(cases.status.success(), "{}", stderr(&cases));
    assert_eq!(json(&cases).len(), 2);
    assert!(workshop.path("report-a.html").exists() && workshop.path("report-b.html").exists());
}

#[test]
fn only_onnx_models_are_compared_with_onnxruntime() {
    let workshop = Workshop::new();
    let bench = ["bench", "model.kiln", "--size", "N=2", "--min-time", "0.01"];
    let refused = workshop.kiln(&[&bench[..], &["--against", "onnxruntime"]].concat());
    assert_eq!(refused.status.code(), Some(1));
    assert!(
        stderr(&refused).contains("expected an ONNX model, found model.kiln"),
        "{}",
        stderr(&refused)
    );
}
