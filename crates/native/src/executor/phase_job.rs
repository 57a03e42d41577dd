//! One phase of a launch as a job of the pool.
//!
//! The job is created once per execution and reused, so that a launch allocates nothing. Whatever a pool does, a
//! phase's code runs only while the launch waits for it, on tasks of the phase, and with scratch that no other call
//! uses: locks guarantee this, and are cheap without contention.
#![allow(unsafe_code, reason = "the phase's code is called here")]

use super::memory_pool::HostMemoryPool;
use super::rented::RentedBytes;
use crate::code::LoadedCode;
use crate::error::NativeError;
use crate::launch_arguments::LaunchArguments;
use kiln_backend::{Job, StopSignal};
use std::ops::Range;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

/// A phase that may be stopped is run in at least this many parts, if it has that many tasks.
const PARTS: u64 = 64;

/// The job of an execution.
pub(crate) struct PhaseJob {
    state: RwLock<State>,
    fault: AtomicU32,
}

struct State {
    /// The phase to run: `None` between phases.
    phase: Option<RunningPhase>,
    /// The signal that the rest of a phase is to be skipped.
    stop: Option<Arc<dyn StopSignal>>,
    /// Per worker; at least one.
    scratch: Vec<Mutex<RentedBytes>>,
    /// The minimum length of every worker's scratch.
    scratch_bytes: usize,
    /// The pool from which it comes.
    memory: HostMemoryPool,
}

/// A phase that runs.
#[derive(Debug)]
pub(crate) struct RunningPhase {
    /// The kernel's code, which outlives the phase. Not reference-counted: all threads that launch the kernel would contend
    /// for the count.
    pub(crate) code: *const LoadedCode,
    /// The entry.
    pub(crate) entry: usize,
    /// The number of tasks.
    pub(crate) tasks: u64,
    /// The code's arguments.
    pub(crate) args: LaunchArguments,
}

// SAFETY: the pointers among the arguments are used only by `Job::run`, while `PhaseJob::run_phase`'s caller vouches for
// their targets, from any thread.
unsafe impl Send for RunningPhase {}
// SAFETY: as above.
unsafe impl Sync for RunningPhase {}

impl PhaseJob {
    /// A job without anything to run.
    pub(crate) fn new(memory: &HostMemoryPool) -> Self {
        Self {
            state: RwLock::new(State {
                phase: None,
                stop: None,
                scratch: vec![Mutex::new(RentedBytes::empty(memory))],
                memory: memory.clone(),
                scratch_bytes: 0,
            }),
            fault: AtomicU32::new(0),
        }
    }

    /// Makes `share_out` run the phase's tasks through this job, by at most `workers` workers with `scratch` bytes
    /// each, and returns when it does.
    ///
    /// # Safety
    /// Until then the code lives, and the arguments satisfy the contract of [`LoadedCode::call`], with that scratch.
    pub(crate) unsafe fn run_phase(
        &self,
        phase: RunningPhase,
        (workers, scratch): (usize, usize),
        share_out: impl FnOnce(),
    ) -> Result<(), NativeError> {
        {
            // Waits until no call is running.
            let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
            state.reserve(workers, scratch)?;
            state.phase = Some(phase);
        }
        let _over = Over(self);
        share_out();
        Ok(())
    }

    /// Where the code writes its first fault.
    pub(crate) fn fault(&self) -> *mut u32 {
        self.fault.as_ptr()
    }

    /// The first fault since the last call, 0 if there is none.
    pub(crate) fn take_fault(&self) -> u32 {
        match self.fault.load(Ordering::Relaxed) {
            0 => 0,
            _ => self.fault.swap(0, Ordering::Relaxed),
        }
    }

    /// Makes phases end before all their tasks are done once this is set.
    pub(crate) fn stop_when(&self, signal: Option<Arc<dyn StopSignal>>) {
        let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
        state.stop = signal;
    }

    /// Waits until no call is running; later ones run nothing.
    fn clear(&self) {
        let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
        state.phase = None;
    }
}

impl State {
    /// Prepares scratch of `bytes` for each of `workers` workers.
    fn reserve(&mut self, workers: usize, bytes: usize) -> Result<(), NativeError> {
        if self.scratch.len() >= workers && self.scratch_bytes >= bytes {
            return Ok(());
        }
        let bytes = bytes.max(self.scratch_bytes);
        let workers = workers.max(self.scratch.len());
        self.scratch
            .resize_with(workers, || Mutex::new(RentedBytes::empty(&self.memory)));
        for memory in &mut self.scratch {
            let memory = memory.get_mut().unwrap_or_else(PoisonError::into_inner);
            memory.grow(bytes)?;
        }
        self.scratch_bytes = bytes;
        Ok(())
    }
}

/// Calls the code with all these tasks at once, or, if the phase may be stopped, with one part after the other until it
/// is.
pub(crate) fn each_part(
    tasks: Range<u64>,
    of: u64,
    stop: Option<&dyn StopSignal>,
    mut call: impl FnMut(u64, u64),
) {
    let Some(stop) = stop else {
        return call(tasks.start, tasks.end);
    };
    let part = (of / PARTS).max(1);
    let mut first = tasks.start;
    while first < tasks.end && !stop.is_stopped() {
        let last = first.saturating_add(part).min(tasks.end);
        call(first, last);
        first = last;
    }
}

/// Ends the phase, even when distributing it panics.
struct Over<'a>(&'a PhaseJob);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.clear();
    }
}

impl Job for PhaseJob {
    fn run(&self, worker: usize, first: u64, last: u64) {
        let state = self.state.read().unwrap_or_else(PoisonError::into_inner);
        let Some(phase) = &state.phase else {
            return;
        };
        let last = last.min(phase.tasks);
        if first >= last {
            return;
        }
        let scratch = &state.scratch[worker % state.scratch.len()];
        let scratch = scratch.lock().unwrap_or_else(PoisonError::into_inner);
        let scratch = scratch.pointer().as_ptr();
        each_part(
            first..last,
            phase.tasks,
            state.stop.as_deref(),
            |first, last| {
                // SAFETY: `PhaseJob::run_phase` has not returned, as that takes the lock that is held here, so
                // the code lives and the arguments fit. The scratch is locked for this call, and the tasks are
                // the phase's.
                unsafe { (*phase.code).call(phase.entry, &phase.args, scratch, first, last) }
            },
        );
    }
}
