//! One run of a fuzz target: started, watched until its processor time is used up, its find minimised.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use super::progress::{Progress, processor_time};

/// The polling interval of the processor time.
const INTERVAL: Duration = Duration::from_millis(200);

/// The maximum time of an input in seconds. A slow unit that is fast when rerun is not a finding, since machines may be
/// busy.
const TIMEOUT: u32 = 30;

/// The memory limit of a target in megabytes.
const MEMORY: u32 = 3072;

/// Seconds spent on minimising a finding.
const MINIMIZING: u32 = 60;

/// One target and its settings.
pub(super) struct Session<'a> {
    /// The folder of the fuzz targets.
    pub(super) fuzz: &'a Path,
    /// The target.
    pub(super) target: &'a str,
    /// Its instrumentation.
    pub(super) sanitizer: &'a str,
    /// The built program.
    pub(super) program: PathBuf,
    /// A dictionary.
    pub(super) dictionary: Option<&'a str>,
}

/// The result of a target.
#[derive(Debug)]
pub(super) struct Outcome {
    /// The processor time it took.
    pub(super) processor: Duration,
    /// Its progress.
    pub(super) progress: Progress,
    /// The inputs that broke a guarantee.
    pub(super) finds: Vec<PathBuf>,
}

impl Session<'_> {
    /// Cases of the test suite that are used unchanged as seeds.
    fn cases(&self) -> Option<PathBuf> {
        let takes_kernels = ["read_kernel", "run_kernel"].contains(&self.target);
        takes_kernels.then(|| self.fuzz.join("../crates/testkit/testdata/examples"))
    }

    /// Runs the target for this much processor time, or until its first finding.
    pub(super) fn run(&self, budget: Duration) -> Result<Outcome> {
        let (corpus, artifacts) = (self.folder("corpus"), self.folder("artifacts"));
        for folder in [&corpus, &artifacts] {
            std::fs::create_dir_all(folder)
                .with_context(|| format!("cannot make {}", folder.display()))?;
        }
        let before = files(&artifacts);
        let mut command = Command::new(&self.program);
        command
            .args([&corpus, &self.folder("seeds"), &self.folder("regressions")])
            .args(self.cases())
            .args(self.flags())
            .arg(format!("-artifact_prefix={}/", artifacts.display()))
            .env("LSAN_OPTIONS", self.leaks())
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        let mut child = command
            .spawn()
            .with_context(|| format!("cannot run {}", self.program.display()))?;
        let log = artifacts.with_extension("log");
        let mut log_file = std::fs::File::create(&log)
            .with_context(|| format!("cannot write {}", log.display()))?;
        let from = child.stderr.take();
        let reader = std::thread::spawn(move || {
            let mut progress = Progress::default();
            for line in from
                .into_iter()
                .flat_map(|from| BufReader::new(from).lines())
            {
                let Ok(line) = line else { continue };
                progress.read(&line);
                // A log that cannot be written must not stop the fuzzer.
                let _ = writeln!(log_file, "{line}");
            }
            progress
        });
        let (processor, is_told) = watch(&mut child, budget);
        let status = child.wait().context("cannot wait for the target")?;
        let progress = reader.join().unwrap_or_default();
        let mut finds = files(&artifacts);
        // Slow units are notes of libFuzzer about inputs that it would not report.
        finds.retain(|find| !before.contains(find) && !name(find).starts_with("slow-unit"));
        // An interrupted fuzzer has its own exit status.
        if !status.success() && !is_told && finds.is_empty() {
            let log = log.display();
            anyhow::bail!(
                "{} ended with {status}; its output is in {log}",
                self.target
            );
        }
        let finds = finds.iter().map(|find| self.minimized(find)).collect();
        Ok(Outcome {
            processor,
            progress,
            finds,
        })
    }

    /// The command that reproduces a finding.
    pub(super) fn replay(&self, find: &Path) -> String {
        format!(
            "cargo +nightly fuzz run --sanitizer {} --target-dir fuzz/target/{} {} {}",
            self.sanitizer,
            self.sanitizer,
            self.target,
            find.display()
        )
    }

    fn folder(&self, kind: &str) -> PathBuf {
        self.fuzz.join(kind).join(self.target)
    }

    /// `-entropic=0`: targets that cover much code spend more time on weighing rare features than on running.
    fn flags(&self) -> Vec<String> {
        let mut flags = vec![
            "-entropic=0".to_owned(),
            format!("-timeout={TIMEOUT}"),
            format!("-rss_limit_mb={MEMORY}"),
        ];
        if let Some(dictionary) = self.dictionary {
            let path = self.fuzz.join("dictionaries").join(dictionary);
            flags.push(format!("-dict={}", path.display()));
        }
        flags
    }

    /// The options of the leak sanitizer that suppress its known false reports.
    fn leaks(&self) -> String {
        let path = self.fuzz.join("leaks.txt");
        format!("suppressions={}:print_suppressions=0", path.display())
    }

    /// A smaller input with the same effect, or the finding itself.
    fn minimized(&self, find: &Path) -> PathBuf {
        let smaller = find.with_file_name(format!("minimized-{}", name(find)));
        let mut command = Command::new(&self.program);
        command
            .args(["-minimize_crash=1", "-runs=100000"])
            .arg(format!("-max_total_time={MINIMIZING}"))
            .arg(format!("-timeout={TIMEOUT}"))
            .arg(format!("-exact_artifact_path={}", smaller.display()))
            .arg(find)
            .env("LSAN_OPTIONS", self.leaks())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        match command.status() {
            Ok(_) if smaller.is_file() => smaller,
            _ => find.to_owned(),
        }
    }
}

/// Waits until a target ends, or has used its processor time and is interrupted; returns how much it used, and which of
/// the two happened.
fn watch(child: &mut Child, budget: Duration) -> (Duration, bool) {
    let path = format!("/proc/{}/stat", child.id());
    let begin = Instant::now();
    let mut processor = Duration::ZERO;
    let mut is_told = false;
    while matches!(child.try_wait(), Ok(None)) {
        let stat = std::fs::read_to_string(&path).ok();
        // If the system does not report it, the wall clock is used.
        let taken = stat.map_or(Some(begin.elapsed()), |stat| processor_time(&stat));
        processor = taken.unwrap_or(processor).max(processor);
        if processor >= budget && !is_told {
            // libFuzzer ends cleanly on an interrupt.
            let interrupt = ["-INT".to_owned(), child.id().to_string()];
            is_told = Command::new("kill")
                .args(interrupt)
                .status()
                .is_ok_and(|status| status.success());
            if !is_told {
                let _ = child.kill();
            }
        }
        std::thread::sleep(INTERVAL);
    }
    (processor, is_told)
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten();
    let mut files: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    files.sort();
    files
}

fn name(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default();
    name.to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A program that behaves like a fuzzer at its end.
    fn fake(folder: &Path, script: &str) -> PathBuf {
        use std::os::unix::fs::PermissionsExt;
        let program = folder.join("program");
        std::fs::write(&program, format!("#!/bin/sh\n{script}\n")).unwrap();
        let mode = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(&program, mode).unwrap();
        program
    }

    fn session<'a>(fuzz: &'a Path, program: PathBuf) -> Session<'a> {
        Session {
            fuzz,
            target: "read_graph",
            sanitizer: "none",
            program,
            dictionary: None,
        }
    }

    #[test]
    fn a_fuzz_finding_is_kept_minimised_with_a_repro_command() {
        let folder = tempfile::tempdir().unwrap();
        let script = "echo '#9 NEW cov: 4 ft: 5 corp: 2/3b' >&2\n\
            for word in \"$@\"; do case $word in\n\
            -exact_artifact_path=*) echo a > \"${word#*=}\" ;;\n\
            -artifact_prefix=*) echo abc > \"${word#*=}crash-1\" ;;\n\
            esac; done; exit 77";
        let session = session(folder.path(), fake(folder.path(), script));
        let outcome = session.run(Duration::from_secs(60)).unwrap();
        assert_eq!(
            (outcome.progress.executions, outcome.progress.coverage),
            (9, 4)
        );
        let [find] = &outcome.finds[..] else {
            panic!("{outcome:?}");
        };
        assert!(find.ends_with("artifacts/read_graph/minimized-crash-1"));
        let command = session.replay(find);
        assert!(
            command.starts_with("cargo +nightly fuzz run --sanitizer none "),
            "{command}"
        );
        // Existing files are not found again.
        let quiet = fake(folder.path(), "exit 0");
        let outcome = super::tests::session(folder.path(), quiet).run(Duration::ZERO);
        assert!(outcome.unwrap().finds.is_empty());
    }

    #[test]
    fn a_target_that_exits_without_a_finding_is_an_error_that_names_its_log() {
        let folder = tempfile::tempdir().unwrap();
        let session = session(folder.path(), fake(folder.path(), "echo oops >&2; exit 3"));
        let error = session
            .run(Duration::from_secs(60))
            .unwrap_err()
            .to_string();
        assert!(error.contains("read_graph.log"), "{error}");
        let log = folder.path().join("artifacts/read_graph.log");
        assert_eq!(std::fs::read_to_string(log).unwrap(), "oops\n");
    }

    #[test]
    fn a_target_is_stopped_at_its_time_limit() {
        let folder = tempfile::tempdir().unwrap();
        let script = "trap 'exit 0' INT; while :; do :; done";
        let session = session(folder.path(), fake(folder.path(), script));
        let outcome = session.run(Duration::from_millis(10)).unwrap();
        assert!(outcome.processor >= Duration::from_millis(10));
    }
}
