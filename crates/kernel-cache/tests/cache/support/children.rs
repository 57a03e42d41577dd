//! Other processes: this test program again, running one ignored test that the variable names a job for.

use std::path::Path;
use std::process::{Child, Command, Stdio};

const JOB: &str = "KILN_TEST_JOB";

/// Starts a child that runs the test `name` with a job.
pub(crate) fn start(name: &str, job: &[&str]) -> Child {
    let program = std::env::current_exe().expect("this program has a path");
    Command::new(program)
        .args([
            "--exact",
            name,
            "--ignored",
            "--nocapture",
            "--test-threads",
            "1",
        ])
        .env(JOB, job.join("\n"))
        .stdout(Stdio::null())
        .stderr(Stdio::inherit())
        .spawn()
        .expect("this program starts")
}

/// The job of this process; none if it is no child, and the test was asked for by hand.
pub(crate) fn job() -> Option<Vec<String>> {
    let job = std::env::var(JOB).ok()?;
    Some(job.lines().map(str::to_owned).collect())
}

/// Waits until a file is there.
pub(crate) fn wait_for(path: &Path) {
    while !path.exists() {
        std::thread::yield_now();
    }
}
