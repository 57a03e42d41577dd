//! Running one step: announces it, runs it, reports its result and duration.
//!
//! A step may be watched: its output passes through unchanged while the test runner's closing lines are counted.
//! Invariant: a failing step is an error that names the step and the command.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Command, ExitStatus, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, bail};

/// The number of tests that ran, as reported by the test runners.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    /// Tests that passed.
    pub(crate) passed: usize,
    /// Tests that failed.
    pub(crate) failed: usize,
    /// Tests that were skipped or ignored.
    pub(crate) skipped: usize,
}

impl Counts {
    /// Adds the counts of one line of a test runner's output, if it is a closing line of that runner. Nextest forwards a
    /// failing test's output, with the closing line of that test's own process: it is not counted again.
    pub(crate) fn add_line(&mut self, runner: Runner, line: &str) {
        let line = line.trim_start();
        let summary = match runner {
            Runner::Libtest => line.strip_prefix("test result:"),
            Runner::Nextest => line
                .strip_prefix("Summary [")
                .filter(|rest| rest.contains(" run: ")),
        };
        let Some(summary) = summary else { return };
        for part in summary.split([':', ',', ';', '.', '(', ')']) {
            let mut words = part.split_whitespace();
            let (Some(number), Some(what)) = (words.next(), words.next()) else {
                continue;
            };
            let Ok(number) = number.parse::<usize>() else {
                continue;
            };
            match what {
                "passed" => self.passed += number,
                "failed" => self.failed += number,
                "skipped" | "ignored" => self.skipped += number,
                _ => {}
            }
        }
    }
}

/// The test runner whose closing lines count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Runner {
    /// `cargo test`.
    Libtest,
    /// `cargo nextest run`.
    Nextest,
}

impl Runner {
    fn of(command: &Command) -> Self {
        match command.get_args().any(|word| word == "nextest") {
            true => Self::Nextest,
            false => Self::Libtest,
        }
    }
}

/// Runs `command` as the step `title`.
pub(crate) fn run(title: &str, command: &mut Command) -> Result<()> {
    timed(title, || check(command.status(), command_line(command)))
}

/// Runs `command` as the step `title` and counts the tests it reports, even when it fails.
pub(crate) fn run_counted(title: &str, command: &mut Command, counts: &mut Counts) -> Result<()> {
    timed(title, || {
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let line = command_line(command);
        let runner = Runner::of(command);
        let mut child = command
            .spawn()
            .with_context(|| format!("cannot run `{line}`"))?;
        let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
        let (from_stdout, from_stderr) = std::thread::scope(|scope| {
            let stdout = scope.spawn(|| pass_on(runner, stdout, &mut std::io::stdout()));
            let stderr = scope.spawn(|| pass_on(runner, stderr, &mut std::io::stderr()));
            (
                stdout.join().unwrap_or_default(),
                stderr.join().unwrap_or_default(),
            )
        });
        for part in [from_stdout, from_stderr] {
            counts.passed += part.passed;
            counts.failed += part.failed;
            counts.skipped += part.skipped;
        }
        check(child.wait(), line)
    })
}

/// Runs `command` and returns its output; its errors are shown only when it fails.
pub(crate) fn output(command: &mut Command) -> Result<String> {
    let line = command_line(command);
    let output = command
        .output()
        .with_context(|| format!("cannot run `{line}`"))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        bail!("`{line}` ended with {}\n{}", output.status, said.trim_end());
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Runs `work` as the step `title`.
pub(crate) fn timed<T>(title: &str, work: impl FnOnce() -> Result<T>) -> Result<T> {
    println!("== {title}");
    let start = Instant::now();
    let result = work().with_context(|| format!("{title} failed"));
    let outcome = if result.is_ok() { "ok" } else { "FAILED" };
    println!(
        "== {title}: {outcome} in {:.1} s",
        start.elapsed().as_secs_f64()
    );
    result
}

fn pass_on(runner: Runner, from: Option<impl Read>, to: &mut impl Write) -> Counts {
    let mut counts = Counts::default();
    let Some(from) = from else { return counts };
    let mut from = BufReader::new(from);
    let mut line = Vec::new();
    while matches!(from.read_until(b'\n', &mut line), Ok(1..)) {
        counts.add_line(runner, &String::from_utf8_lossy(&line));
        // A closed output must not stop the step.
        let _ = to.write_all(&line).and_then(|()| to.flush());
        line.clear();
    }
    counts
}

fn check(status: std::io::Result<ExitStatus>, line: String) -> Result<()> {
    let status = status.with_context(|| format!("cannot run `{line}`"))?;
    if !status.success() {
        bail!("`{line}` ended with {status}");
    }
    Ok(())
}

fn command_line(command: &Command) -> String {
    let program = std::path::Path::new(command.get_program())
        .file_name()
        .unwrap_or(command.get_program());
    let words = std::iter::once(program).chain(command.get_args());
    words
        .map(|word| word.to_string_lossy().into_owned())
        .collect::<Vec<_>>()
        .join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn closing_lines_of_both_runners_are_counted() {
        let mut counts = Counts::default();
        counts.add_line(
            Runner::Nextest,
            "     Summary [   1.204s] 12 tests run: 10 passed (1 slow), 2 failed, 3 skipped",
        );
        counts.add_line(Runner::Libtest, "test result: ok. 7 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.3s");
        counts.add_line(Runner::Libtest, "note: 99 passed through here");
        assert_eq!(
            counts,
            Counts {
                passed: 17,
                failed: 2,
                skipped: 4
            }
        );
    }

    #[test]
    fn a_repeated_nextest_failure_is_counted_once() {
        let printed = "        FAIL [   0.1s] kiln::x a_test\n\
            \x20   test result: FAILED. 0 passed; 1 failed; 0 ignored; 4 filtered out\n\
            \x20    Summary [   0.2s] 5 tests run: 4 passed, 1 failed, 0 skipped\n";
        let counts = pass_on(Runner::Nextest, Some(printed.as_bytes()), &mut Vec::new());
        assert_eq!((counts.passed, counts.failed), (4, 1));
    }

    #[test]
    fn a_failing_command_is_named() {
        let error = run("look", Command::new("cargo").arg("no-such-subcommand")).unwrap_err();
        let text = format!("{error:#}");
        assert!(
            text.contains("look failed") && text.contains("`cargo no-such-subcommand`"),
            "{text}"
        );
    }

    #[test]
    fn counted_output_passes_through_unchanged() {
        let printed = "noise\ntest result: ok. 3 passed; 0 failed; 0 ignored\nno end of line";
        let mut passed_on = Vec::new();
        let counts = pass_on(Runner::Libtest, Some(printed.as_bytes()), &mut passed_on);
        assert_eq!(counts.passed, 3);
        assert_eq!(passed_on, printed.as_bytes());
    }
}
