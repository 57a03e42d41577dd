//! Ctrl-C during a call: the first cancels the call, the second ends the process as usual.
//!
//! Outside calls the signal has its default effect. If a handler cannot be installed, this also holds in calls.

use kiln::{Call, Error, Outputs};
use signal_hook::consts::SIGINT;
use signal_hook::flag;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

/// A shell's exit status for a command ended by SIGINT.
const ENDED_BY_SIGINT: u8 = 130;

/// Signals belong to the process, and so do the flags that their handler sets.
static FLAGS: OnceLock<Option<Flags>> = OnceLock::new();

struct Flags {
    /// Set by the signal: calls are cancelled.
    is_interrupted: Arc<AtomicBool>,
    /// Whether the signal ends the process.
    ends_process: Arc<AtomicBool>,
}

impl Flags {
    fn register() -> Option<Self> {
        let is_interrupted = Arc::new(AtomicBool::new(false));
        let ends_process = Arc::new(AtomicBool::new(true));
        // In this order: the first signal of a call finds the flag unset, and sets it for the second.
        flag::register_conditional_default(SIGINT, Arc::clone(&ends_process)).ok()?;
        flag::register(SIGINT, Arc::clone(&ends_process)).ok()?;
        flag::register(SIGINT, Arc::clone(&is_interrupted)).ok()?;
        Some(Self {
            is_interrupted,
            ends_process,
        })
    }
}

/// Makes a call that Ctrl-C ends with `E0835`.
pub(crate) fn run_interruptibly(call: Call<'_>) -> Result<Outputs, Error> {
    let Some(flags) = FLAGS.get_or_init(Flags::register) else {
        return call.run();
    };
    let is_interrupted = Arc::clone(&flags.is_interrupted);
    let call = call.cancel_when(move || is_interrupted.load(Ordering::Relaxed));
    flags.ends_process.store(false, Ordering::SeqCst);
    let done = call.run();
    flags.ends_process.store(true, Ordering::SeqCst);
    done
}

/// The exit status of a command whose calls were interrupted; `None` if there were none.
pub(crate) fn exit_code() -> Option<ExitCode> {
    let flags = FLAGS.get()?.as_ref()?;
    let is_interrupted = flags.is_interrupted.load(Ordering::Relaxed);
    is_interrupted.then(|| ExitCode::from(ENDED_BY_SIGINT))
}
