//! Timing output: the summary after the first call, and the files.

use crate::support::{Workshop, json, stderr, stdout};
use std::fs;
use std::process::Output;

/// Calls the model on its cases, interpreted.
fn run(workshop: &Workshop, command: &str, further: &[&str]) -> Output {
    let arguments = [
        command,
        "model.kiln",
        "--cases",
        "cases",
        "--device",
        "interpreter",
    ];
    let output = workshop.kiln(&[&arguments[..], further].concat());
    assert!(output.status.success(), "{}", stderr(&output));
    output
}

fn read_json(workshop: &Workshop, file: &str) -> serde_json::Value {
    serde_json::from_str(&fs::read_to_string(workshop.path(file)).unwrap()).unwrap()
}

#[test]
fn the_timing_summary_is_printed_after_the_first_call_by_default() {
    let workshop = Workshop::new();
    for command in ["run", "bench"] {
        let output = run(&workshop, command, &["--json"]);
        assert_eq!(json(&output).len(), 2);
        let summary = stderr(&output);
        assert_eq!(summary.matches("unattributed").count(), 1, "{summary}");
        assert!(
            summary.contains("runtime") && summary.contains("counted:"),
            "{summary}"
        );
        assert!(!summary.contains("interpret_scaled"), "{summary}");
    }
}

#[test]
fn timing_verbosity_selects_more_output_or_none() {
    let workshop = Workshop::new();
    let verbose = run(&workshop, "run", &["--timing"]);
    assert!(
        stderr(&verbose).contains("interpret_scaled  Interpreted calls of scaled"),
        "{}",
        stderr(&verbose)
    );
    let some = run(
        &workshop,
        "run",
        &["--timing=verbose", "--timing-filter", "build,name=p*"],
    );
    assert!(
        stderr(&some).contains("not shown") && stderr(&some).contains("passes"),
        "{}",
        stderr(&some)
    );
    assert!(!stderr(&some).contains("interpret_scaled"));
    let debug = run(&workshop, "run", &["--timing=debug"]);
    assert!(
        stderr(&debug).contains("spans, as they began"),
        "{}",
        stderr(&debug)
    );
    let off = run(&workshop, "run", &["--timing=off"]);
    assert!(!stderr(&off).contains("unattributed") && stdout(&off).contains("a: "));
    let wrong = workshop.kiln(&["run", "model.kiln", "--timing=loud"]);
    assert_eq!(wrong.status.code(), Some(2));
    assert!(
        stderr(&wrong).contains("expected a verbosity of off, default, verbose, debug"),
        "{}",
        stderr(&wrong)
    );
}

#[test]
fn timing_reports_and_traces_are_written_as_json_files() {
    let workshop = Workshop::new();
    run(
        &workshop,
        "run",
        &[
            "--timing=verbose",
            "--timing-json",
            "report.json",
            "--trace",
            "trace.json",
        ],
    );
    let report = read_json(&workshop, "report.json");
    assert_eq!(
        (&report["version"], &report["verbosity"]),
        (&1.into(), &"verbose".into())
    );
    let number = |value: &serde_json::Value| value.as_u64().unwrap();
    let categories = report["categories"].as_array().unwrap();
    let shares: u64 = categories
        .iter()
        .map(|category| number(&category["wall_ns"]))
        .sum();
    let sum = shares + number(&report["unattributed_ns"]) + number(&report["open_ns"]);
    assert!(sum.abs_diff(number(&report["wall_ns"])) <= 100);
    let interpreted = report["events"].as_array().unwrap().iter();
    let interpreted = interpreted.filter(|event| event["name"] == "interpret_scaled");
    assert_eq!(
        interpreted
            .map(|event| number(&event["count"]))
            .collect::<Vec<_>>(),
        [2]
    );
    let trace = read_json(&workshop, "trace.json");
    let spans = trace["traceEvents"].as_array().unwrap().iter();
    assert!(spans.filter(|span| span["ph"] == "X").count() >= 5);

    let absent = workshop.kiln(&[
        "run",
        "model.kiln",
        "--cases",
        "cases",
        "--trace",
        "no/such/folder.json",
    ]);
    assert_eq!(absent.status.code(), Some(1));
    assert!(
        stderr(&absent).contains("cannot write no/such/folder.json"),
        "{}",
        stderr(&absent)
    );
}

#[cfg(feature = "llvm")]
#[test]
fn verbose_lists_each_kernel() {
    let workshop = Workshop::new();
    let arguments = [
        "run",
        "model.kiln",
        "--cases",
        "cases",
        "--device",
        "cpu",
        "--cache",
        "off",
    ];
    let output = workshop.kiln(&[&arguments[..], &["--timing=verbose"]].concat());
    assert!(output.status.success(), "{}", stderr(&output));
    let summary = stderr(&output);
    assert!(summary.contains("Compilation time for "), "{summary}");
    assert!(summary.contains("Code generation time for "), "{summary}");
}
