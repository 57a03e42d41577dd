//! The command as seen by users: files in, files and lines out.

use crate::support::{Workshop, json, read, stderr, stdout};

#[test]
fn run_writes_every_case_and_output() {
    let workshop = Workshop::new();
    let output = workshop.kiln(&[
        "run",
        "model.kiln",
        "--cases",
        "cases",
        "--out",
        "got",
        "--threads",
        "2",
    ]);
    assert!(output.status.success(), "{}", stderr(&output));
    let y = read(&workshop.path("got/a/out_y.npy"));
    assert_eq!(y.shape(), [2, 3]);
    assert_eq!(
        y.to_vec::<f32>().unwrap(),
        [0.0, 10.0, 200.0, 3.0, 40.0, 500.0]
    );
    assert_eq!(
        read(&workshop.path("got/b/total.npy"))
            .to_vec::<f32>()
            .unwrap(),
        [0.0, 10.0, 200.0]
    );
    assert!(
        stdout(&output).contains("a: ")
            && stdout(&output).contains("out/y: f32[2, 3]  min 0.000000  max 500.000000")
    );
}

#[test]
fn a_failing_case_is_reported_and_the_others_still_run() {
    let workshop = Workshop::new();
    workshop.case("a0-wrong", &[2, 4]);
    std::fs::create_dir_all(workshop.path("cases/a1-empty")).unwrap();
    let output = workshop.kiln(&[
        "run",
        "model.kiln",
        "--cases",
        "cases",
        "--out",
        "got",
        "--device",
        "interpreter",
    ]);
    assert_eq!(output.status.code(), Some(1));
    let errors = stderr(&output);
    assert!(errors.contains("a0-wrong: error[E08"), "{errors}");
    assert!(
        errors.contains("a1-empty: error: cannot read cases/a1-empty/"),
        "{errors}"
    );
    assert!(workshop.path("got/a/out_y.npy").exists() && workshop.path("got/b/out_y.npy").exists());
    assert!(!workshop.path("got/a0-wrong").exists());
}

#[test]
fn run_takes_single_inputs_and_prints_json() {
    let workshop = Workshop::new();
    let inputs = [
        "--input",
        "x=cases/a/x.npy",
        "--input",
        "scale=cases/a/scale.npy",
    ];
    let output = workshop.kiln(
        &[
            &["run", "model.kiln", "--json", "--out", "single"],
            &inputs[..],
        ]
        .concat(),
    );
    assert!(output.status.success(), "{}", stderr(&output));
    let lines = json(&output);
    assert_eq!(lines.len(), 1);
    assert_eq!(lines[0]["outputs"][0]["name"], "out/y");
    assert_eq!(lines[0]["outputs"][0]["shape"], serde_json::json!([2, 3]));
    assert_eq!(lines[0]["outputs"][1]["max"], 700.0);
    assert!(workshop.path("single/total.npy").exists());
}

#[test]
fn a_missing_input_is_named() {
    let workshop = Workshop::new();
    let device = ["--device", "interpreter"];
    let input = ["run", "model.kiln", "--input", "x=cases/a/x.npy"];
    let output = workshop.kiln(&[&input[..], &device].concat());
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(
        stderr(&output).trim_end(),
        "error[E0871]: missing input scale: f32[3]; pass a tensor for it"
    );
}

#[test]
fn bench_prints_a_line_per_case_with_every_field() {
    let workshop = Workshop::new();
    let flags = [
        "--min-time",
        "0.01",
        "--json",
        "--threads",
        "1",
        "--device",
        "interpreter",
        "--no-compile",
    ];
    let output =
        workshop.kiln(&[&["bench", "model.kiln", "--cases", "cases"], &flags[..]].concat());
    assert!(output.status.success(), "{}", stderr(&output));
    let lines = json(&output);
    let cases: Vec<_> = lines
        .iter()
        .map(|line| line["case"].as_str().unwrap())
        .collect();
    assert_eq!(cases, ["a", "b"]);
    let fields = [
        "load_ms",
        "first_ms",
        "median_ms",
        "min_ms",
        "p99_ms",
        "calls",
        "compiles",
        "blocked_ms",
        "memory_hits",
        "disk_hits",
        "misses",
        "peak_rss_mb",
    ];
    for field in fields {
        assert!(lines[0][field].is_number(), "{field}");
    }
    assert!(lines[0]["calls"].as_u64() >= Some(2));
    assert!(lines[0]["min_ms"].as_f64() <= lines[0]["median_ms"].as_f64());
}

#[test]
fn bench_once_calls_each_case_a_single_time() {
    let workshop = Workshop::new();
    let output = workshop.kiln(&[
        "bench",
        "model.kiln",
        "--cases",
        "cases",
        "--once",
        "--json",
    ]);
    for line in json(&output) {
        assert_eq!(line["calls"], 1);
        assert_eq!(line["median_ms"], line["first_ms"]);
    }
    let human = workshop.kiln(&["bench", "model.kiln", "--cases", "cases", "--once"]);
    assert!(stdout(&human).starts_with("loaded in ") && stdout(&human).contains("calls     1"));
}

#[test]
fn a_paced_bench_calls_a_case_per_line_and_writes_its_outputs() {
    let workshop = Workshop::new();
    let flags = ["--once", "--paced", "--out", "got", "--json"];
    let command = [&["bench", "model.kiln", "--cases", "cases"], &flags[..]].concat();
    let output = workshop.kiln_fed(&command, "\n");
    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!(json(&output).len(), 1, "one line, one case");
    assert_eq!(read(&workshop.path("got/a/out_y.npy")).shape(), [2, 3]);
    assert!(!workshop.path("got/b").exists());
    // Interleaving makes sense only for single calls.
    let refused = workshop.kiln(&["bench", "model.kiln", "--cases", "cases", "--paced"]);
    assert!(!refused.status.success());
}

#[test]
fn explain_calls_cases_until_variants_are_known() {
    let workshop = Workshop::new();
    let flags = ["--variants", "0.05", "--device", "cpu", "--cache", "off"];
    let command = [&["explain", "model.kiln", "--cases", "cases"], &flags[..]].concat();
    let output = workshop.kiln(&command);
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(
        stdout(&output).contains("\nvariants: "),
        "{}",
        stdout(&output)
    );
}

#[test]
fn inspect_prints_any_stage() {
    let workshop = Workshop::new();
    let imported = workshop.kiln(&["inspect", "model.kiln", "--stage", "import"]);
    assert!(
        stdout(&imported).contains("= neg %x"),
        "{}",
        stdout(&imported)
    );
    let optimized = workshop.kiln(&["inspect", "model.kiln"]);
    assert!(
        stdout(&optimized).contains("= mul ") && !stdout(&optimized).contains("= neg "),
        "{}",
        stdout(&optimized)
    );
    let unknown = workshop.kiln(&["inspect", "model.kiln", "--stage", "soul"]);
    assert_eq!(unknown.status.code(), Some(1));
    assert!(
        stderr(&unknown)
            .starts_with("error[E0973]: unknown stage `soul`, expected one of: import, ")
    );
}

#[test]
fn inspect_writes_dot_and_svg_files() {
    let workshop = Workshop::new();
    let output = workshop.kiln(&[
        "inspect",
        "model.kiln",
        "--dot",
        "graph.dot",
        "--svg",
        "graph.svg",
    ]);
    assert!(output.status.success() && stdout(&output).is_empty());
    let read = |file: &str| std::fs::read_to_string(workshop.path(file)).unwrap();
    assert!(read("graph.dot").starts_with("digraph \"scaled\" {"));
    assert!(read("graph.svg").ends_with("</svg>\n"));
}

#[test]
fn inspect_summarises_as_json() {
    let workshop = Workshop::new();
    let output = workshop.kiln(&["inspect", "model.kiln", "--json", "--dim", "N=1..512%8"]);
    let lines = json(&output);
    assert_eq!(lines[0]["inputs"][0], "x: f32[N, 3]");
    assert_eq!(lines[0]["symbols"], serde_json::json!(["N"]));
    assert_eq!(lines[0]["ops"]["mul"], 1);
    let fixed = workshop.kiln(&["inspect", "model.kiln", "--json", "--dim", "N=8"]);
    assert_eq!(json(&fixed)[0]["inputs"][0], "x: f32[8, 3]");
}

#[test]
fn conflicting_options_are_errors() {
    let workshop = Workshop::new();
    let output = workshop.kiln(&["inspect", "model.kiln", "--dim", "M=8"]);
    assert_eq!(
        stderr(&output).lines().next(),
        Some("error[E0972]: unknown dimension `M`, expected one of: N")
    );
    let device = workshop.kiln(&["run", "model.kiln", "--cases", "cases", "--device", "tpu"]);
    assert_eq!(device.status.code(), Some(2));
    assert!(stderr(&device).contains("expected one of: interpreter"));
    let file = workshop.kiln(&["inspect", "model.pt"]);
    assert!(
        stderr(&file).starts_with("error[E0971]: unknown kind of model file"),
        "{}",
        stderr(&file)
    );
    let absent = workshop.kiln(&["inspect", "absent.kiln"]);
    assert!(
        stderr(&absent).starts_with("error[E0977]: cannot read absent.kiln"),
        "{}",
        stderr(&absent)
    );
    let whole = format!("  model: {}\n", workshop.path("absent.kiln").display());
    assert!(stderr(&absent).ends_with(&whole), "{}", stderr(&absent));
}

#[test]
fn a_graph_syntax_error_shows_its_location() {
    let workshop = Workshop::new();
    std::fs::write(
        workshop.path("bad.kiln"),
        "graph @g(%x: f32[N]) -> f32[N] {\n  return %z\n}",
    )
    .unwrap();
    let output = workshop.kiln(&["inspect", "bad.kiln"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        stderr(&output).starts_with("error[E01"),
        "{}",
        stderr(&output)
    );
    assert!(stderr(&output).contains("%z"), "{}", stderr(&output));
}

#[test]
fn logs_go_to_stderr_and_results_to_stdout() {
    let workshop = Workshop::new();
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_kiln"));
    command
        .current_dir(workshop.folder.path())
        .env("KILN_LOG", "debug");
    let output = command
        .args([
            "bench",
            "model.kiln",
            "--cases",
            "cases",
            "--once",
            "--json",
        ])
        .output()
        .unwrap();
    assert_eq!(json(&output).len(), 2);
    assert!(stderr(&output).contains("kiln.optimize") && stderr(&output).contains("time.busy"));
}

#[test]
fn doctor_reports_on_the_machine() {
    let workshop = Workshop::new();
    let output = workshop.kiln(&["doctor"]);
    assert!(output.status.success());
    assert!(
        stdout(&output).contains("devices    interpreter"),
        "{}",
        stdout(&output)
    );
    let checks = json(&workshop.kiln(&["doctor", "--json"]));
    assert!(
        checks
            .iter()
            .any(|check| check["name"] == "kiln" && check["state"] == "ok")
    );
    assert!(
        checks
            .iter()
            .all(|check| check["state"] == "ok" || check["fix"].is_string())
    );
}

#[cfg(target_os = "linux")]
#[test]
fn a_closed_stdout_pipe_ends_the_command_quietly() {
    let workshop = Workshop::new();
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_kiln"));
    command
        .current_dir(workshop.folder.path())
        .args(["inspect", "model.kiln"]);
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let output = command.stdout(writer).output().unwrap();
    assert!(
        output.status.success() && stderr(&output).is_empty(),
        "{}",
        stderr(&output)
    );
}
