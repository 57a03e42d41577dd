//! Commands about compiled code: checking, explaining, measuring.

use crate::support::{Workshop, json, read, stderr, stdout};
use kiln::Tensor;

#[test]
fn bench_counts_compiles_once() {
    let workshop = Workshop::new();
    let arguments = [
        "bench",
        "model.kiln",
        "--cases",
        "cases",
        "--once",
        "--json",
    ];
    let output = workshop.kiln(&[&arguments[..], &["--device", "cpu", "--threads", "1"]].concat());
    assert!(output.status.success(), "{}", stderr(&output));
    let lines = json(&output);
    let number = |line: usize, field: &str| lines[line][field].as_f64().unwrap();
    assert!(number(0, "compiles") >= 1.0 && number(0, "compile_ms") > 0.0);
    assert!(number(0, "blocked_ms") <= number(0, "first_ms"));
    assert!(number(0, "misses") >= 1.0);
    assert_eq!((number(1, "compiles"), number(1, "blocked_ms")), (0.0, 0.0));
}

#[test]
fn bench_can_require_that_nothing_compiles() {
    let workshop = Workshop::new();
    let arguments = [
        "bench",
        "model.kiln",
        "--cases",
        "cases",
        "--once",
        "--no-compile",
    ];
    let output = workshop.kiln(&[&arguments[..], &["--device", "cpu"]].concat());
    assert_eq!(output.status.code(), Some(1));
    assert!(
        stderr(&output).contains("a: error[E0891]: expected stored code for kernel"),
        "{}",
        stderr(&output)
    );
    let output = workshop.kiln(&[&arguments[..], &["--device", "interpreter"]].concat());
    assert!(output.status.success(), "{}", stderr(&output));
}

#[test]
fn a_run_ends_at_its_time_limit() {
    let workshop = Workshop::new();
    let text = "graph @sums(%x: f32[N, 1], %y: f32[1, M]) -> f32[] {
      %a = add %x, %y
      %b = tanh %a
      %c = reduce %b {function = max, axes = [0, 1]}
      return %c
    }";
    std::fs::write(workshop.path("sums.kiln"), text).unwrap();
    let n = 1 << 20;
    workshop.tensor("x.npy", &Tensor::full(&[n, 1], 0.5_f32).unwrap());
    workshop.tensor("y.npy", &Tensor::full(&[1, n], 0.5_f32).unwrap());
    let inputs = ["--input", "x=x.npy", "--input", "y=y.npy"];
    let run = ["run", "sums.kiln", "--device", "cpu", "--time-limit", "300"];
    let output = workshop.kiln(&[&run[..], &inputs[..]].concat());
    assert_eq!(output.status.code(), Some(1));
    assert!(
        stderr(&output).contains("error[E0894]"),
        "{}",
        stderr(&output)
    );
}

#[test]
fn compiled_and_interpreted_runs_write_the_same() {
    let workshop = Workshop::new();
    for device in ["cpu", "interpreter"] {
        let cases = ["run", "model.kiln", "--cases", "cases", "--out", device];
        let output = workshop.kiln(&[&cases[..], &["--device", device]].concat());
        assert!(output.status.success(), "{}", stderr(&output));
    }
    let of = |device: &str| read(&workshop.path(&format!("{device}/a/out_y.npy")));
    assert_eq!(
        of("cpu").to_vec::<f32>().unwrap(),
        of("interpreter").to_vec::<f32>().unwrap()
    );
}

#[test]
fn compare_checks_every_target_and_thread_count() {
    let workshop = Workshop::new();
    let arguments = ["compare", "model.kiln", "--cases", "cases"];
    let lists = ["--thread-counts", "1,2", "--targets", "all"];
    let output = workshop.kiln(&[&arguments[..], &lists].concat());
    assert!(output.status.success(), "{}", stderr(&output));
    let text = stdout(&output);
    assert!(
        text.contains("2 threads") && text.contains("equal"),
        "{text}"
    );
    let output = workshop.kiln(&[&arguments[..], &["--json"]].concat());
    let lines = json(&output);
    assert!(lines.len() >= 4);
    assert!(
        lines
            .iter()
            .all(|line| line["verdict"] == "equal" && line["error"] == 0.0)
    );
    let output = workshop.kiln(&[&arguments[..], &["--targets", "abacus"]].concat());
    assert!(stderr(&output).contains("E0980"), "{}", stderr(&output));
    let wrong = ["compare", "model.kiln", "--input", "x"];
    assert!(stderr(&workshop.kiln(&wrong)).contains("expected NAME=FILE"));
}

#[test]
fn a_precision_is_compared_with_f32_and_may_differ_by_name() {
    let workshop = Workshop::new();
    let graph = "graph @mlp(%x: f32[N, 3]) -> f32[N, 2] {
      %w: f32[3, 2] = constant [0.1, 0.2, 0.3, 0.4, 0.5, 0.6]
      %first = matmul %x, %w
      %v: f32[2, 2] = constant [0.7, 0.8, 0.9, 1.1]
      %second = matmul %first, %v
      return \"y\" = %second
    }";
    std::fs::write(workshop.path("mlp.kiln"), graph).unwrap();
    let x = Tensor::from_slice(&[2, 3], &[1.0_f32, 2.0, 3.0, -4.0, 5.0, 0.5]).unwrap();
    workshop.tensor("x.npy", &x);
    let compare = |precision: &[&str]| {
        let arguments = [
            "compare",
            "mlp.kiln",
            "--input",
            "x=x.npy",
            "--against",
            "f32",
        ];
        workshop.kiln(&[&arguments[..], precision].concat())
    };
    let output = compare(&["--precision", "int8-weights", "--json"]);
    let lines = json(&output);
    assert_eq!(lines.len(), 3, "an output and two products");
    assert!(lines[0]["what"] == "output" && lines[0]["error"].as_f64().unwrap() > 0.0);
    assert!(lines[1]["name"] == "first" && lines[1]["format"] == "int8-weights");
    let output = compare(&["--precision", "bf16,second=f32"]);
    assert!(output.status.success(), "{}", stderr(&output));
    let text = stdout(&output);
    assert!(text.contains("first") && !text.contains("second"), "{text}");
    assert!(stderr(&compare(&[])).contains("--precision FORMAT"));
    assert!(stderr(&compare(&["--precision", "int3"])).contains("int4-weights"));
    assert!(stderr(&compare(&["--precision", "third=bf16"])).contains("E0644"));
}

#[test]
fn a_device_is_chosen_by_key_and_optional_level() {
    let workshop = Workshop::new();
    workshop.case("a", &[2, 3]);
    let bench = |device| {
        let arguments = [
            "bench",
            "model.kiln",
            "--cases",
            "cases",
            "--once",
            "--json",
        ];
        workshop.kiln(&[&arguments[..], &["--cache", "off", "--device", device]].concat())
    };
    for device in ["interpreter", "cpu", "cpu:portable"] {
        assert_eq!(json(&bench(device))[0]["device"], device);
    }
    let output = bench("cpu:abacus");
    assert_eq!(output.status.code(), Some(2));
    let message = stderr(&output);
    assert!(
        message.contains("on device cpu") && message.contains("portable"),
        "{message}"
    );
    let output = bench("abacus");
    assert_eq!(output.status.code(), Some(2));
    let message = stderr(&output);
    assert!(
        message.contains("expected one of: interpreter, cpu"),
        "{message}"
    );
    // The comparison of compiled code uses the level in the key.
    let compare = [
        "compare",
        "model.kiln",
        "--cases",
        "cases",
        "--device",
        "cpu:portable",
    ];
    assert!(workshop.kiln(&compare).status.success());
    let other = workshop.kiln(&[&compare[..], &["--target", "abacus"]].concat());
    assert!(stderr(&other).contains("E0980"), "{}", stderr(&other));
}

#[test]
fn every_command_reports_a_case_that_does_not_fit() {
    let workshop = Workshop::new();
    workshop.case("a0-wrong", &[2, 4]);
    for command in ["compare", "profile"] {
        let output = workshop.kiln(&[command, "model.kiln", "--cases", "cases"]);
        assert_eq!(output.status.code(), Some(1), "{command}");
        assert!(
            stderr(&output).contains("a0-wrong: error[E08"),
            "{}",
            stderr(&output)
        );
        assert!(stdout(&output).contains('b'), "{command}");
    }
}

#[test]
fn explain_reports_steps_pairs_and_compiles() {
    let workshop = Workshop::new();
    let output = workshop.kiln(&[
        "explain",
        "model.kiln",
        "--device",
        "cpu",
        "--cases",
        "cases",
    ]);
    assert!(output.status.success(), "{}", stderr(&output));
    let text = stdout(&output);
    assert!(
        text.contains(" ops became ") && text.contains("first use"),
        "{text}"
    );
    let output = workshop.kiln(&["explain", "model.kiln", "lonely"]);
    assert!(
        stderr(&output).contains("expected two ops or none"),
        "{}",
        stderr(&output)
    );
    let output = workshop.kiln(&["explain", "model.kiln", "absent", "missing"]);
    assert!(stderr(&output).contains("E0982"), "{}", stderr(&output));
}

/// A product whose rows are summed by a second kernel.
const ROWS: &str = "
graph @rows(%x: f32[M, K], %w: f32[K, N]) -> f32[M] {
  %1 = matmul %x, %w from \"Gemm_0\"
  %2 = relu %1 from \"Relu_1\"
  %3 = reduce %2 {function = sum, axes = [1]}
  return %3
}";

#[test]
fn pairs_of_steps_are_listed_by_what_one_kernel_would_bring() {
    let workshop = Workshop::new();
    std::fs::write(workshop.path("rows.kiln"), ROWS).unwrap();
    let size = ["--size", "M=64,K=32,N=48"];
    let output = workshop.kiln(&[&["explain", "rows.kiln", "--near-misses"], &size[..]].concat());
    assert!(output.status.success(), "{}", stderr(&output));
    let text = stdout(&output);
    assert!(text.starts_with("inputs: 2 steps, "), "{text}");
    for part in [
        "one kernel if a fact were known: none",
        "apart for another reason: 1",
        " ms  matmul_relu (Gemm_0, Relu_1) and reduce",
        "whose schedule does not keep whole rows",
    ] {
        assert!(text.contains(part), "{text}");
    }
    let pair = workshop.kiln(&["explain", "rows.kiln", "1", "2", "--near-misses"]);
    assert_eq!(pair.status.code(), Some(2), "{}", stderr(&pair));
    let output = workshop.kiln(&[&["profile", "rows.kiln", "--json"], &size[..]].concat());
    assert_eq!(
        json(&output)[0]["nodes"],
        serde_json::json!(["Gemm_0", "Relu_1"])
    );
    let output = workshop.kiln(&[&["profile", "rows.kiln"], &size[..]].concat());
    assert!(
        stdout(&output).contains("  Gemm_0, Relu_1\n"),
        "{}",
        stdout(&output)
    );
}

#[test]
fn profile_prints_a_table_or_lines() {
    let workshop = Workshop::new();
    let arguments = ["profile", "model.kiln", "--cases", "cases", "--calls", "3"];
    let output = workshop.kiln(&arguments);
    assert!(output.status.success(), "{}", stderr(&output));
    let text = stdout(&output);
    assert!(
        text.contains("GFLOP/s") && text.contains("kernel"),
        "{text}"
    );
    let output = workshop.kiln(&[&arguments[..], &["--json", "--top", "1"]].concat());
    let lines = json(&output);
    assert_eq!(lines.len(), 2);
    assert!(lines[0]["ms"].as_f64().is_some() && lines[0]["bytes"].as_u64().is_some());
}

#[test]
fn a_call_without_steps_takes_no_time_and_not_less() {
    let workshop = Workshop::new();
    let text = "graph @same(%x: f32[B]) -> f32[B] {\n  return %x\n}\n";
    std::fs::write(workshop.path("same.kiln"), text).unwrap();
    let output = workshop.kiln(&["profile", "same.kiln", "--size", "B=3"]);
    assert!(output.status.success(), "{}", stderr(&output));
    let text = stdout(&output);
    assert!(text.starts_with("inputs: 0 steps, 0.000 ms\n"), "{text}");
}

#[test]
fn inspect_continues_to_machine_code() {
    let workshop = Workshop::new();
    let inspect = |stage: &str| {
        let output = workshop.kiln(&["inspect", "model.kiln", "--stage", stage]);
        assert!(output.status.success(), "{}", stderr(&output));
        stdout(&output).to_owned()
    };
    assert!(inspect("fusion").starts_with("fusion @"));
    assert!(inspect("kernels").contains("kernel @"));
    assert!(inspect("program").starts_with("program @"));
    assert!(inspect("llvm").contains("define void"));
    assert!(inspect("asm").starts_with("# @"));
    let output = workshop.kiln(&["inspect", "model.kiln", "--stage", "program", "--json"]);
    assert!(
        stderr(&output).contains("show graphs"),
        "{}",
        stderr(&output)
    );
}

#[test]
fn kernels_compiled_in_workers_give_the_same_results_and_are_timed() {
    let workshop = Workshop::new();
    let run = |compiler: &str| {
        let arguments = [
            "bench",
            "model.kiln",
            "--cases",
            "cases",
            "--once",
            "--json",
            "--device",
            "cpu",
            "--compiler",
            compiler,
        ];
        workshop.kiln(&arguments)
    };
    let (here, there) = (run("in-process"), run("worker"));
    for output in [&here, &there] {
        assert!(output.status.success(), "{}", stderr(output));
    }
    let compiles = |output| json(output)[0]["compiles"].as_f64().unwrap();
    assert!(compiles(&there) >= 1.0);
    assert_eq!(compiles(&here), compiles(&there));
}
