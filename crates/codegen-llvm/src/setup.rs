//! Process-wide set-up of LLVM, and what a forked child sees of it: [`Setup`].
//!
//! A child that was forked while another thread of its parent was setting LLVM up has it half done, with locks of LLVM held by
//! a thread that does not exist. That cannot be repaired, so it is an error.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::error::LlvmError;

/// Something that is done once.
pub(crate) struct Setup {
    /// The process in which it began; 0 before.
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

    /// Sets LLVM up, if that was not done before; waits for another thread that does.
    ///
    /// # Errors
    /// E0516 in a child that was forked meanwhile.
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
        // Only threads of the process in which it began wait here, so the wait has an end.
        self.done.get_or_init(setup);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::process;

    use super::*;

    #[test]
    fn it_is_done_once_and_others_wait_for_it() {
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

    /// Forks, and gives what the child's set-up gave: none where it was done.
    fn code_in_a_child(setup: &Setup) -> Option<&'static str> {
        // SAFETY: the child calls what this test is about, and ends without running anything of its parent's.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let result = setup.run(process::id(), || ());
            let is_refused = result.is_err_and(|error| error.code() == "E0516");
            // SAFETY: ends this process.
            unsafe { libc::_exit(i32::from(is_refused)) };
        }
        assert!(child > 0);
        let mut status = 0;
        // SAFETY: waits for the child of above.
        let ended = unsafe { libc::waitpid(child, &raw mut status, 0) };
        assert!(ended == child && libc::WIFEXITED(status), "{status}");
        (libc::WEXITSTATUS(status) == 1).then_some("E0516")
    }

    #[test]
    fn a_child_forked_while_llvm_is_set_up_is_refused_and_others_are_not() {
        let setup = Setup::new();
        // Before: the child does it itself.
        assert_eq!(code_in_a_child(&setup), None);
        let during = setup.run(process::id(), || {
            assert_eq!(code_in_a_child(&setup), Some("E0516"));
        });
        during.unwrap();
        // After: the child has it.
        assert_eq!(code_in_a_child(&setup), None);
    }
}
