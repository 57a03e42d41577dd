//! A false statement of a case file is an error with the file and the line; blessing corrects it.

#![allow(clippy::unwrap_used, reason = "a test that cannot continue panics")]

use std::path::PathBuf;
use std::sync::Arc;

use kiln_backend::{IsaLevel, KernelCompiler};
use kiln_codegen_llvm::LlvmCompiler;
use kiln_testkit::cases::{Case, Engine};

fn errors(name: &str, source: &str) -> Vec<String> {
    let compiler: Arc<dyn KernelCompiler> = Arc::new(LlvmCompiler::new());
    let engine = Engine::new(
        compiler,
        vec![LlvmCompiler::target(IsaLevel::Portable)],
        Vec::new(),
    );
    let case = Case::read(PathBuf::from(name), source.to_owned()).unwrap();
    let errors = case.check(&engine).err().unwrap_or_default();
    errors.iter().map(ToString::to_string).collect()
}

const SUM: &str = "kernel @sum(%x: in f32[N], %y: out f32[]) {
  s = reduce add[r < N] %x[r]
  store %y[] = s
}
";

#[test]
fn a_kernel_is_held_to_its_stages_and_results() {
    let right = "// run: N = 2
//   %x = [1.0, 2.5]
//   %y == [3.5]
// canonical:
//   kernel @kernel(%b0: in f32[s0], %b1: out f32[]) {
//     v0 = reduce add[a0 < s0] %b0[a0]
//     store %b1[] = v0
//   }
//   s0 = N
";
    assert_eq!(errors("t/sum.kernel", &format!("{SUM}{right}")), [""; 0]);
    for (right_text, wrong_text, expected) in [
        (
            "== [3.5]",
            "== [3.0]",
            "t/sum.kernel:7: run: expected `%y == [3.0]`, found `%y == [3.5]`",
        ),
        (
            "%y ==",
            "%z ==",
            "t/sum.kernel:5: expected the name of a result, found %z",
        ),
        (
            "%x = ",
            "%z = ",
            "t/sum.kernel:5: expected the name of a buffer, found %z",
        ),
        ("N = 2", "M = 2", "t/sum.kernel:5: expected a size of N"),
        (
            "//   s0 = N\n",
            "",
            "t/sum.kernel:13: canonical: expected its end, found `s0 = N`",
        ),
        (
            "canonical:",
            "cannonical:",
            "t/sum.kernel:8: expected also, run, gradient or a stage (canonical, verified, schedules, loops)",
        ),
    ] {
        let wrong = right.replace(right_text, wrong_text);
        let found = errors("t/sum.kernel", &format!("{SUM}{wrong}"));
        assert!(
            found.len() == 1 && found[0].starts_with(expected),
            "{found:?}"
        );
    }
}

#[test]
fn a_run_with_faults_says_so() {
    let text = "kernel @gather(%n: in i64[K], %x: in f32[3], %y: out f32[K]) {
  outer k < K
  store %y[k] = %x[%n[k]]
}
";
    let with = |run: &str| errors("t/gather.kernel", &format!("{text}// run: {run}\n"));
    assert_eq!(with("K = 2 {indices = 3..5, faults}"), [""; 0]);
    assert_eq!(with("K = 2 {indices = 0..3}"), [""; 0]);
    assert!(
        with("K = 2 {indices = 3..5}")[0]
            .starts_with("t/gather.kernel:5: expected results, found a fault")
    );
    assert!(
        with("K = 2 {indices = 0..3, faults}")[0]
            .starts_with("t/gather.kernel:5: expected a fault, found results")
    );
}

#[test]
fn a_graph_is_held_to_its_stages_and_results() {
    let text = "graph @twice(%x: f32[N]) -> f32[N] {
  %y = add %x, %x
  return %y
}
// run: N = 2
//   %x = [1.5, -0.0]
//   %y == [3.0, -0.0]
// after canonicalize:
//   graph @twice(%x: f32[N]) -> f32[N] {
//     %y: f32[N] = add %x, %x
//     return %y
//   }
";
    assert_eq!(errors("t/twice.kiln", text), [""; 0]);
    let found = errors("t/twice.kiln", &text.replace("[3.0, -0.0]", "[3.0, 0.0]"));
    assert!(
        found[0].starts_with("t/twice.kiln:7: run: expected `%y == [3.0, 0.0]`"),
        "{found:?}"
    );
    let found = errors(
        "t/twice.kiln",
        &text.replace("after canonicalize", "after canonise"),
    );
    assert!(
        found[0].starts_with("t/twice.kiln:8: expected the name of a pass, found `canonise`"),
        "{found:?}"
    );
}
