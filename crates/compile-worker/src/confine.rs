//! Confinement of a worker, before it reads anything: it exits with its parent, closes inherited descriptors, and
//! limits its memory, stack and processor time.

use std::io;
use std::time::Duration;

use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::process::{
    Pid, Resource, Rlimit, Signal, getppid, getrlimit, set_parent_process_death_signal, setrlimit,
};
use rustix::time::{ClockId, clock_gettime};

use crate::descriptors::close_inherited;
use crate::limits::CompileLimits;

/// Applies the limits of the whole process.
pub(crate) fn confine(parent: i32, limits: &CompileLimits) -> io::Result<()> {
    set_parent_process_death_signal(Some(Signal::KILL))?;
    // The parent may have ended before the signal was requested.
    if getppid().map(Pid::as_raw_pid) != Some(parent) {
        return Err(io::Error::other("the parent process has exited"));
    }
    close_inherited();
    // A verbose compiler must not wait for a reader: output that does not fit is lost.
    let stderr = io::stderr();
    let flags = fcntl_getfl(&stderr)?;
    fcntl_setfl(&stderr, flags | OFlags::NONBLOCK)?;
    limit(Resource::Core, 0, 0)?;
    limit(Resource::As, limits.address_space, limits.address_space)?;
    let stack = u64::try_from(limits.stack).unwrap_or(u64::MAX);
    limit(Resource::Stack, stack, u64::MAX)
}

/// Gives the next compile its processor time, regardless of the time that earlier ones took.
pub(crate) fn limit_cpu(limits: &CompileLimits) -> io::Result<()> {
    let used = clock_gettime(ClockId::ProcessCPUTime);
    let used = u64::try_from(used.tv_sec).unwrap_or(0);
    let seconds = whole_seconds(limits.cpu).saturating_add(used);
    // One more than the time used so far, which is rounded down.
    limit(Resource::Cpu, seconds.saturating_add(1), u64::MAX)
}

fn whole_seconds(time: Duration) -> u64 {
    time.as_secs()
        .saturating_add(u64::from(time.subsec_nanos() > 0))
}

/// Sets a limit, at most the maximum of this process.
fn limit(resource: Resource, soft: u64, hard: u64) -> io::Result<()> {
    let most = getrlimit(resource).maximum.unwrap_or(u64::MAX);
    let (soft, hard) = (soft.min(most), hard.min(most));
    let of = |limit: u64| (limit != u64::MAX).then_some(limit);
    let new = Rlimit {
        current: of(soft),
        maximum: of(hard),
    };
    Ok(setrlimit(resource, new)?)
}
