//! `kiln check`: its output for usable models, and for an unusable one.

use crate::support::{Workshop, stderr, stdout};
use std::fs;

/// `y = OP(x)` with `x: f32[batch, 3]`, standard operators of version 17; the operator's name has four letters.
fn model(op: &str) -> Vec<u8> {
    assert_eq!(op.len(), 4);
    let mut bytes = b"\x08\x08\x3a\x30\x0a\x0c\x0a\x01x\x12\x01y\x22\x04".to_vec();
    bytes.extend(op.as_bytes());
    bytes.extend(b"\x12\x01g\x5a\x18\x0a\x01x\x12\x13\x0a\x11\x08\x01\x12\x0d");
    bytes.extend(b"\x0a\x07\x12\x05batch\x0a\x02\x08\x03\x62\x03\x0a\x01y\x42\x02\x10\x11");
    bytes
}

#[test]
fn a_model_description_includes_the_memory_of_a_call() {
    let workshop = Workshop::new();
    fs::write(workshop.path("relu.onnx"), model("Relu")).unwrap();
    let output = workshop.kiln(&["check", "relu.onnx", "--size", "batch=1000"]);
    let text = stdout(&output);
    assert!(output.status.success(), "{text}{}", stderr(&output));
    for line in [
        "holds 1 nodes, 0 functions",
        "uses ai.onnx version 17",
        "takes x: f32[batch, 3]",
        "gives y: f32[batch, 3]",
        "24.0 kB at once for --size batch=1000",
        "compiled: 1 steps, 0 of them interpreted",
    ] {
        assert!(text.contains(line), "{line} is missing in {text}");
    }
}

#[test]
fn unsupported_operators_are_listed_and_fail_the_command() {
    let workshop = Workshop::new();
    fs::write(workshop.path("odd.onnx"), model("Oddd")).unwrap();
    let output = workshop.kiln(&["check", "odd.onnx"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stdout(&output).contains("operator Oddd: not supported, 1 nodes: node 0"));
    assert!(stdout(&output).contains("takes x: f32[batch, 3]"));
    let whole = workshop.path("odd.onnx");
    assert!(stderr(&output).contains(&format!("  model: {}", whole.display())));
    assert!(
        stderr(&output).contains("error[E0916]"),
        "{}",
        stderr(&output)
    );
}

#[test]
fn an_invalid_size_is_refused() {
    let workshop = Workshop::new();
    fs::write(workshop.path("relu.onnx"), model("Relu")).unwrap();
    let output = workshop.kiln(&["check", "relu.onnx", "--size", "batch=many"]);
    assert!(
        stderr(&output).contains("expected NAME=SIZE"),
        "{}",
        stderr(&output)
    );
}

#[cfg(unix)]
#[test]
fn bench_says_how_to_install_what_it_is_compared_with() {
    use std::os::unix::fs::PermissionsExt;
    let workshop = Workshop::new();
    fs::write(workshop.path("relu.onnx"), model("Relu")).unwrap();
    let python = workshop.path("python");
    let run = |script: &str| {
        fs::write(&python, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(&python, fs::Permissions::from_mode(0o755)).unwrap();
        let bench = [
            "bench",
            "relu.onnx",
            "--size",
            "batch=2",
            "--min-time",
            "0.01",
        ];
        workshop.kiln(
            &[
                &bench[..],
                &["--against", "onnxruntime", "--python", "./python"],
            ]
            .concat(),
        )
    };
    let missing = run("echo missing onnxruntime");
    assert_eq!(missing.status.code(), Some(1));
    assert!(
        stderr(&missing)
            .contains("onnxruntime is not installed for this Python: python3 -m pip install"),
        "{}",
        stderr(&missing)
    );
    let measured = run("echo ok onnxruntime 1.0; while read line; do echo ok 0.5; done");
    assert!(measured.status.success(), "{}", stderr(&measured));
    assert!(
        stdout(&measured).contains("onnxruntime 1.0 500.000 ms: Kiln is"),
        "{}",
        stdout(&measured)
    );
}

/// `y = reshape(x, [2, -1, 3])` with `x: f32[batch, 3]`.
const HALVES: &[u8] = b"\x08\x08\x12\x00:M\x0a\x12\x0a\x01x\x0a\x01s\x12\x01y\x22\x07Reshape\x12\x01g*\x15\x08\x03\
    \x10\x07:\x0c\x02\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\x03B\x01sZ\x18\x0a\x01x\x12\x13\x0a\x11\x08\x01\x12\x0d\x0a\
    \x07\x12\x05batch\x0a\x02\x08\x03b\x03\x0a\x01yB\x04\x0a\x00\x10\x11";

#[test]
fn size_facts_are_printed_and_violating_sizes_fail() {
    let workshop = Workshop::new();
    fs::write(workshop.path("halves.onnx"), HALVES).unwrap();
    let fine = workshop.kiln(&["check", "halves.onnx", "--size", "batch=4"]);
    let text = stdout(&fine);
    assert!(fine.status.success(), "{text}{}", stderr(&fine));
    let need = "product(batch, 3) == product(2, batch / 2, 3) (required by reshape (Reshape:y): number of elements)";
    assert!(
        text.contains(&format!("each call checks: {need}\n")),
        "{text}"
    );
    let odd = workshop.kiln(&["check", "halves.onnx", "--size", "batch=3"]);
    assert_eq!(odd.status.code(), Some(1));
    let said = stderr(&odd);
    assert!(
        said.contains(&format!("batch=3: expected {need}")),
        "{said}"
    );
}
