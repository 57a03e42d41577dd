//! Runs cases in child processes, one after the other in each, every case under a time limit.
//!
//! A child that ends, or does not reply in time, is replaced; its current case has failed.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::json;

use super::Run;
use super::cases::Case;
use super::outcome::Outcome;

/// How long a case may take in total on both backends.
const LIMIT: Duration = Duration::from_secs(60);

/// Runs every case; the outcomes are in the same order.
pub(super) fn run(program: &Path, folder: &Path, cases: Vec<Case>) -> Result<Vec<Run>> {
    let next = AtomicUsize::new(0);
    let outcomes = Mutex::new(vec![None; cases.len()]);
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let work = || -> Result<()> {
        let mut worker = Worker::start(program)?;
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some(case) = cases.get(index) else {
                return Ok(());
            };
            let outcome = match worker.ask(case, folder) {
                Ok(outcome) => outcome,
                Err(silence) => {
                    worker = Worker::start(program)?;
                    Outcome::silent(&silence.to_string())
                }
            };
            let mut outcomes = outcomes.lock().unwrap_or_else(|poison| poison.into_inner());
            outcomes[index] = Some(outcome);
        }
    };
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        for worker in workers {
            match worker.join() {
                Ok(done) => done?,
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        anyhow::Ok(())
    })?;
    let outcomes = outcomes
        .into_inner()
        .unwrap_or_else(|poison| poison.into_inner());
    let pairs = cases.into_iter().zip(outcomes);
    pairs
        .map(|(case, outcome)| {
            let outcome = outcome.context("a case was left out")?;
            Ok(Run { case, outcome })
        })
        .collect()
}

/// A running child; ended when dropped.
struct Worker {
    child: Child,
    answers: Receiver<String>,
}

impl Worker {
    fn start(program: &Path) -> Result<Self> {
        let mut child = Command::new(program)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .with_context(|| format!("cannot run {}", program.display()))?;
        let stdout = child.stdout.take().context("the child has no output")?;
        let (sender, answers) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        Ok(Self { child, answers })
    }

    fn ask(&mut self, case: &Case, folder: &Path) -> Result<Outcome> {
        let request = json!({"folder": case.folder(folder), "rtol": case.rtol, "atol": case.atol});
        let stdin = self
            .child
            .stdin
            .as_mut()
            .context("the child has no input")?;
        writeln!(stdin, "{request}").context("cannot write to the child")?;
        match self.answers.recv_timeout(LIMIT) {
            Ok(line) => serde_json::from_str(&line).context("the child's reply is malformed"),
            Err(RecvTimeoutError::Timeout) => {
                anyhow::bail!("no reply within {} seconds", LIMIT.as_secs())
            }
            Err(RecvTimeoutError::Disconnected) => {
                let status = self.child.wait().context("cannot wait for the child")?;
                anyhow::bail!("the process ended ({status})")
            }
        }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[cfg(test)]
#[cfg(unix)]
mod tests {
    use super::super::cases::tests::case;
    use super::super::outcome::Verdict;
    use super::*;

    fn program(folder: &Path, script: &str) -> std::path::PathBuf {
        use std::os::unix::fs::PermissionsExt;
        let path = folder.join("program");
        std::fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        path
    }

    #[test]
    fn results_are_matched_to_cases_and_a_crash_is_a_failure() {
        let folder = tempfile::tempdir().unwrap();
        let answer = r#"{"interpreted":{"verdict":"passed","code":null,"message":""},"compiled":{"verdict":"passed","code":null,"message":""},"fixed":false,"interpreted_steps":0}"#;
        let script = format!(
            "while read line; do case $line in *bad*) exit 3;; esac; echo '{answer}'; done"
        );
        let program = program(folder.path(), &script);
        let cases = ["test_a", "test_bad", "test_b"].map(|name| case("node", name, "A", false));
        let runs = run(&program, folder.path(), cases.to_vec()).unwrap();
        let verdicts: Vec<_> = runs
            .iter()
            .map(|run| run.outcome.interpreted.verdict)
            .collect();
        assert_eq!(
            verdicts,
            [Verdict::Passed, Verdict::Failed, Verdict::Passed]
        );
        assert!(runs[1].outcome.interpreted.message.contains("ended"));
    }
}
