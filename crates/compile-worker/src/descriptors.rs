//! Closes inherited descriptors of a worker: those that the parent's libraries opened without close-on-exec.
//!
//! The only file with unsafe code: these descriptors belong to no value of this process.

/// Closes every descriptor except the three standard ones. To be called before the process opens any.
pub(crate) fn close_inherited() {
    // SAFETY: the worker has opened nothing yet, so no value owns a descriptor above standard error.
    #[cfg(target_os = "linux")]
    unsafe {
        libc::syscall(libc::SYS_close_range, 3, libc::c_uint::MAX, 0);
    }
}
