//! Other processes: this test program again, running one ignored test with a job named by a variable; and forked
//! children, which start immediately and have copies of the parent's locks and none of its threads.

use std::panic::{AssertUnwindSafe, catch_unwind};
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

/// The job of this process; `None` if it is not a child, and the test was run by hand.
pub(crate) fn job() -> Option<Vec<String>> {
    let job = std::env::var(JOB).ok()?;
    Some(job.lines().map(str::to_owned).collect())
}

/// Waits until a file exists.
pub(crate) fn wait_for(path: &Path) {
    while !path.exists() {
        std::thread::yield_now();
    }
}

/// A forked child.
pub(crate) struct Forked(libc::pid_t);

/// Forks a child that runs this, and exits with its result. It may call the library and the allocator, which supports
/// forks; it exits without running any of the parent's code.
pub(crate) fn fork(child: impl FnOnce() -> i32) -> Forked {
    // SAFETY: the child calls only what is listed above, and exits by `_exit`.
    let pid = unsafe { libc::fork() };
    if pid == 0 {
        // SAFETY: a watchdog, whose signal ends the child.
        unsafe { libc::alarm(20) };
        let result = catch_unwind(AssertUnwindSafe(child)).unwrap_or(101);
        // SAFETY: ends the child at once.
        unsafe { libc::_exit(result) };
    }
    assert!(pid > 0, "it forks");
    Forked(pid)
}

impl Forked {
    /// Kills the child, whatever it is doing.
    pub(crate) fn kill(self) {
        // SAFETY: the child is ours, and has not been waited for.
        assert_eq!(unsafe { libc::kill(self.0, libc::SIGKILL) }, 0);
        self.wait();
    }

    /// Its exit code; `None` if a signal ended it.
    pub(crate) fn wait(self) -> Option<i32> {
        let mut status = 0;
        // SAFETY: the child is ours, and the status is a local variable.
        let waited = unsafe { libc::waitpid(self.0, &raw mut status, 0) };
        assert_eq!(waited, self.0);
        let hangs = libc::WIFSIGNALED(status) && libc::WTERMSIG(status) == libc::SIGALRM;
        assert!(!hangs, "the child hangs");
        libc::WIFEXITED(status).then(|| libc::WEXITSTATUS(status))
    }
}
