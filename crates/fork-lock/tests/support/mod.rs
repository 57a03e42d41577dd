//! Child processes: forked, run, and waited for.

/// The result of a child that runs this; 255 if it hangs or crashes.
pub(crate) fn in_child(child: impl FnOnce() -> u8) -> u8 {
    // SAFETY: the child calls the tested code and the allocator, which supports forks, and exits by `_exit`.
    let pid = unsafe { libc::fork() };
    if pid == 0 {
        // SAFETY: a watchdog, whose signal ends the child.
        unsafe { libc::alarm(20) };
        let result = child();
        // SAFETY: ends the child at once.
        unsafe { libc::_exit(result.into()) };
    }
    assert!(pid > 0, "it forks");
    let mut status = 0;
    // SAFETY: the child is ours, and the status is a local variable.
    assert_eq!(unsafe { libc::waitpid(pid, &raw mut status, 0) }, pid);
    match libc::WIFEXITED(status) {
        true => libc::WEXITSTATUS(status) as u8,
        false => 255,
    }
}
