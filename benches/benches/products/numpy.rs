//! numpy's matrix product as a peer, on one thread, with the library that numpy was built with.
//!
//! A Python process takes commands by lines and replies with the time of each, so the transfer between the two processes is
//! not measured. It ends at the end of its input.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

/// The variable that names the Python to use.
const VARIABLE: &str = "KILN_PEERS_PYTHON";

/// The program of the Python side.
const SCRIPT: &str = include_str!("numpy_peer.py");

/// One thread, under the name that the library uses.
const ONE_THREAD: [&str; 5] = [
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "BLIS_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
];

/// A Python with numpy.
pub(crate) struct Numpy {
    child: Child,
    to: Option<ChildStdin>,
    from: BufReader<ChildStdout>,
    version: String,
}

impl Numpy {
    /// Starts it, or returns why it is not available.
    pub(crate) fn start() -> Result<Self, String> {
        let python =
            std::env::var_os(VARIABLE).ok_or_else(|| format!("{VARIABLE} names no Python"))?;
        let mut command = Command::new(&python);
        command
            .args(["-c", SCRIPT])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        for variable in ONE_THREAD {
            command.env(variable, "1");
        }
        let mut child = command
            .spawn()
            .map_err(|error| format!("cannot run {}: {error}", python.display()))?;
        let to = child.stdin.take();
        let from = BufReader::new(child.stdout.take().expect("it was piped"));
        let version = String::new();
        let mut numpy = Self {
            child,
            to,
            from,
            version,
        };
        match numpy.answer() {
            Some(version) => numpy.version = version,
            None => return Err(format!("{} has no numpy", python.display())),
        }
        Ok(numpy)
    }

    /// The version of numpy and its library.
    pub(crate) fn version(&self) -> &str {
        &self.version
    }

    /// Makes operands of `m` by `k` and `k` by `n`.
    pub(crate) fn shape(&mut self, [m, k, n]: [usize; 3]) {
        self.ask(&format!("shape {m} {k} {n}"));
    }

    /// Multiplies this many times, and returns the time.
    pub(crate) fn time(&mut self, calls: u32) -> Duration {
        let nanoseconds = self.ask(&format!("time {calls}"));
        Duration::from_nanos(nanoseconds.parse().expect("a number"))
    }

    fn ask(&mut self, line: &str) -> String {
        let to = self.to.as_mut().expect("it is open until the end");
        writeln!(to, "{line}").expect("Python reads");
        to.flush().expect("Python reads");
        self.answer().expect("Python answers")
    }

    fn answer(&mut self) -> Option<String> {
        let mut line = String::new();
        let length = self.from.read_line(&mut line).ok()?;
        (length > 0).then(|| line.trim_end().to_owned())
    }
}

impl Drop for Numpy {
    fn drop(&mut self) {
        drop(self.to.take());
        // It has read the end of its input by now; otherwise there is nothing left to do.
        let _ = self.child.wait();
    }
}
