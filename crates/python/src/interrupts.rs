//! Ctrl-C cancels a call: a flag records the signal while Python's own handler cannot run.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use kiln_fork_lock::ForkLazy;
use pyo3::prelude::*;

/// Set when the user interrupts the program; `None` if no handler could be installed.
static INTERRUPTED: ForkLazy<Option<Arc<AtomicBool>>> = ForkLazy::new(|| {
    let flag = Arc::new(AtomicBool::new(false));
    // Handlers are chained: Python's handler still runs, and raises once the call has ended.
    let added = signal_hook::flag::register(signal_hook::consts::SIGINT, Arc::clone(&flag));
    added.ok().map(|_| flag)
});

/// Whether this is the thread on which Python raises `KeyboardInterrupt`.
fn is_main_thread() -> bool {
    rustix::thread::gettid() == rustix::process::getpid()
}

/// The flag that cancels a call made from this thread; `None` if an interrupt would not be raised here.
pub(crate) fn watched() -> Option<Arc<AtomicBool>> {
    let flag = INTERRUPTED.as_ref().filter(|_| is_main_thread())?;
    flag.store(false, Ordering::Relaxed);
    Some(Arc::clone(flag))
}

/// Raises `KeyboardInterrupt` if the user interrupted a watched call.
pub(crate) fn raise(py: Python<'_>) -> PyResult<()> {
    py.check_signals()
}
