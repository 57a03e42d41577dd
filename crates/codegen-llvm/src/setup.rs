//! Process-wide set-up of LLVM, safe across `fork`: [`Setup`].
//!
//! A child forked while another thread of its parent was setting LLVM up inherits it half initialised, with LLVM's locks
//! held by a thread that the child lacks. This cannot be repaired, so it is an error.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::error::LlvmError;

/// A once-only initialisation that detects forks.
pub(crate) struct Setup {
    /// The process that began it; 0 before.
    process: AtomicU32,
    done: OnceLock<()>,
}

impl Setup {
    pub(crate) const fn new() -> Self {
        Self {
            process: AtomicU32::new(0),
            done: OnceLock::new(),
        }
    }

    /// Initialises LLVM unless that was done before; waits for another thread that is initialising it.
    ///
    /// # Errors
    /// E0516 in a child forked during the initialisation.
    pub(crate) fn run(&self, process: u32, setup: impl FnOnce()) -> Result<(), LlvmError> {
        if self.done.get().is_some() {
            return Ok(());
        }
        let before =
            match self
                .process
                .compare_exchange(0, process, Ordering::Relaxed, Ordering::Relaxed)
            {
                Ok(_) => process,
                Err(before) => before,
            };
        if before != process {
            return Err(LlvmError::ForkedInSetup { parent: before });
        }
        // Only threads of the process that began it wait here, so the wait ends.
        self.done.get_or_init(setup);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::process;

    use super::*;

    #[test]
    fn set_up_runs_once_and_other_threads_wait_for_it() {
        let (setup, times) = (Setup::new(), AtomicU32::new(0));
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    let count = || {
                        times.fetch_add(1, Ordering::SeqCst);
                    };
                    setup.run(process::id(), count).unwrap();
                    assert_eq!(times.load(Ordering::SeqCst), 1);
                });
            }
        });
    }

    /// Forks, and returns the error code of the child's set-up; `None` if it succeeded.
    fn code_in_a_child(setup: &Setup) -> Option<&'static str> {
        // SAFETY: the child runs only the set-up under test, then exits without running anything of its parent's.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let result = setup.run(process::id(), || ());
            let is_refused = result.is_err_and(|error| error.code() == "E0516");
            // SAFETY: exits this process.
            unsafe { libc::_exit(i32::from(is_refused)) };
        }
        assert!(child > 0);
        let mut status = 0;
        // SAFETY: waits for the child forked above.
        let ended = unsafe { libc::waitpid(child, &raw mut status, 0) };
        assert!(ended == child && libc::WIFEXITED(status), "{status}");
        (libc::WEXITSTATUS(status) == 1).then_some("E0516")
    }

    #[test]
    fn only_a_child_forked_during_the_set_up_is_refused() {
        let setup = Setup::new();
        // Before: the child sets LLVM up itself.
        assert_eq!(code_in_a_child(&setup), None);
        let during = setup.run(process::id(), || {
            assert_eq!(code_in_a_child(&setup), Some("E0516"));
        });
        during.unwrap();
        // After: the child inherits it.
        assert_eq!(code_in_a_child(&setup), None);
    }
}
