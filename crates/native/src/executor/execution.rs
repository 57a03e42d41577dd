//! Launches in order on the CPU: each is checked, distributed, and done when it returns.
//!
//! A launch allocates nothing if its kernel has been launched before with the same scratch size.
#![allow(unsafe_code, reason = "what a launch gives is vouched for here")]

use super::host_memory::{of_another_executor, place_of};
use super::kernel::NativeKernel;
use super::memory_pool::HostMemoryPool;
use super::phase_job::{PhaseJob, RunningPhase, each_part};
use super::rented::RentedBytes;
use crate::builtin;
use crate::error::NativeError;
use crate::launch_arguments::LaunchArguments;
use kiln_backend::{
    Builtin, BuiltinOperand, ExecuteError, Execution, Fault, FaultCause, Job, Launch, LoadedKernel,
    MemorySlice, StopSignal, TaskPool,
};
use std::sync::Arc;
use std::sync::atomic::AtomicU32;

/// The stop word of runs that cannot be stopped.
static NEVER: AtomicU32 = AtomicU32::new(0);

/// The state of an execution, for one run at a time.
pub(crate) struct NativeExecution {
    pool: Arc<dyn TaskPool>,
    job: Arc<PhaseJob>,
    /// The same job, in the pool's type.
    shared_job: Arc<dyn Job>,
    buffers: Addresses,
    shared_scratch: RentedBytes,
    /// The scratch for phases that run only on the calling thread.
    own_scratch: RentedBytes,
    stop: Option<Arc<dyn StopSignal>>,
    /// Launches since the execution began.
    n_launches: usize,
    fault: Option<Fault>,
}

/// The addresses of a launch's buffers, in the code's layout.
struct Addresses(Vec<*mut u8>);

// SAFETY: the addresses are only used during a launch, on threads that the launch waits for.
unsafe impl Send for Addresses {}

impl NativeExecution {
    /// A run that has not begun, on these threads, with scratch from this memory.
    pub(crate) fn new(pool: Arc<dyn TaskPool>, memory: &HostMemoryPool) -> Self {
        let job = Arc::new(PhaseJob::new(memory));
        Self {
            pool,
            shared_job: Arc::clone(&job) as Arc<dyn Job>,
            job,
            buffers: Addresses(Vec::new()),
            shared_scratch: RentedBytes::empty(memory),
            own_scratch: RentedBytes::empty(memory),
            stop: None,
            n_launches: 0,
            fault: None,
        }
    }

    fn launch_checked(
        &mut self,
        kernel: &LoadedKernel,
        launch: &Launch<'_>,
    ) -> Result<(), NativeError> {
        let Some(kernel) = kernel.downcast::<NativeKernel>() else {
            return Err(of_another_executor("a kernel to launch"));
        };
        self.check(kernel, launch)?;
        let threads = self.pool.threads().max(1);
        let numbers = launch.numbers;
        self.shared_scratch.grow(numbers.shared_scratch())?;
        let args = LaunchArguments {
            buffers: self.buffers.0.as_ptr(),
            sizes: numbers.arguments().as_ptr(),
            shared: self.shared_scratch.pointer().as_ptr(),
            fault: self.job.fault(),
            stop: self
                .stop
                .as_deref()
                .map_or(&NEVER, StopSignal::word)
                .as_ptr(),
        };
        for (entry, phase) in numbers.phases().iter().enumerate() {
            if phase.tasks == 0 {
                continue;
            }
            // A single task, or a single thread, needs no worker to be woken.
            if phase.tasks == 1 || threads == 1 {
                self.own_scratch.grow(phase.scratch)?;
                let scratch = self.own_scratch.pointer().as_ptr();
                let all = 0..phase.tasks;
                each_part(all, phase.tasks, self.stop.as_deref(), |first, last| {
                    // SAFETY: as below; the scratch was just made long enough, and this is the only call.
                    unsafe { kernel.code.call(entry, &args, scratch, first, last) }
                });
                continue;
            }
            let running = RunningPhase {
                code: &raw const *kernel.code,
                entry,
                tasks: phase.tasks,
                args,
            };
            let share_out = || self.pool.run(&self.shared_job, phase.tasks);
            // SAFETY: `check` found that the numbers are those of the kernel's artifact, every buffer as large as they
            // require and aligned, and written ones writable; the code lives in `kernel`; the fault word, the stop word and
            // all arguments live in `self` and `launch` until this returns, and phases run one after another. The caller of
            // `launch` promised that elements of buffers overlap only where the kernel allows it, and that nothing else
            // accesses them meanwhile: buffers may be interleaved, so their ranges do not show it.
            unsafe {
                let reserved = (threads, phase.scratch);
                self.job.run_phase(running, reserved, share_out)?;
            }
        }
        Ok(())
    }

    /// Checks a launch against its kernel and records the addresses of its buffers.
    fn check(&mut self, kernel: &NativeKernel, launch: &Launch<'_>) -> Result<(), NativeError> {
        if !launch.numbers.artifact().is_same(&kernel.artifact) {
            return Err(NativeError::mismatch(
                format!("the numbers of a launch of kernel {}", kernel.name()),
                "those of the artifact that it was loaded from",
                format_args!(
                    "those of another one of {}",
                    launch.numbers.artifact().kernel
                ),
            ));
        }
        if kernel.buffers.len() != launch.buffers.len() {
            return Err(NativeError::mismatch(
                format!("buffers of kernel {}", kernel.name()),
                kernel.buffers.len(),
                launch.buffers.len(),
            ));
        }
        self.buffers.0.clear();
        let given = launch.buffers.iter().zip(launch.numbers.bytes());
        for (buffer, (slice, &bytes)) in kernel.buffers.iter().zip(given) {
            let what = || kernel.buffer_name(buffer);
            let place = place_of(slice, buffer.alignment, buffer.written, what)?;
            if slice.bytes < bytes {
                return Err(NativeError::mismatch(
                    what(),
                    format_args!("at least {bytes} bytes"),
                    slice.bytes,
                ));
            }
            self.buffers.0.push(place.as_ptr());
        }
        Ok(())
    }

    /// Keeps the first fault.
    fn note_fault(&mut self, launch: usize) -> Result<(), NativeError> {
        let word = self.job.take_fault();
        if word == 0 {
            return Ok(());
        }
        let cause = match word & 0xff {
            1 => FaultCause::IndexOutOfRange,
            2 => FaultCause::DivisionByZero,
            other => {
                return Err(NativeError::mismatch(
                    "the fault that a kernel reports",
                    "cause 1 or 2",
                    other,
                ));
            }
        };
        self.fault.get_or_insert(Fault {
            launch,
            cause,
            site: (word >> 8) as usize,
        });
        Ok(())
    }
}

impl Execution for NativeExecution {
    fn stop_when(&mut self, signal: Option<Arc<dyn StopSignal>>) {
        self.job.stop_when(signal.clone());
        self.stop = signal;
    }

    unsafe fn launch(
        &mut self,
        kernel: &LoadedKernel,
        launch: &Launch<'_>,
    ) -> Result<(), ExecuteError> {
        let index = self.n_launches;
        self.n_launches += 1;
        self.launch_checked(kernel, launch)?;
        Ok(self.note_fault(index)?)
    }

    unsafe fn run_builtin(
        &mut self,
        builtin: &Builtin,
        inputs: &[(MemorySlice<'_>, BuiltinOperand<'_>)],
        outputs: &[(MemorySlice<'_>, BuiltinOperand<'_>)],
    ) -> Result<(), ExecuteError> {
        Ok(builtin::run(
            builtin,
            inputs,
            outputs,
            self.stop.as_deref(),
            &*self.pool,
        )?)
    }

    fn finish(&mut self) -> Result<Option<Fault>, ExecuteError> {
        self.n_launches = 0;
        Ok(self.fault.take())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kiln_backend::{CallerOnly, MemoryLimits};

    #[test]
    fn the_first_fault_word_is_kept() {
        let memory = HostMemoryPool::new(MemoryLimits::DEFAULT);
        let mut execution = NativeExecution::new(Arc::new(CallerOnly), &memory);
        let mut report = |launch, word| {
            // SAFETY: the word lives in the execution's job, and no launch runs.
            unsafe { execution.job.fault().write(word) };
            execution
                .note_fault(launch)
                .map_err(|error| error.to_string())
        };
        assert_eq!(report(0, 0), Ok(()));
        assert_eq!(report(1, 0x502), Ok(()));
        assert_eq!(report(2, 0xffff_ff01), Ok(()));
        let error = "the fault that a kernel reports: expected cause 1 or 2, found 9";
        assert_eq!(report(3, 9), Err(error.to_owned()));
        let first = Fault {
            launch: 1,
            cause: FaultCause::DivisionByZero,
            site: 5,
        };
        assert_eq!(execution.finish().unwrap(), Some(first));
        assert_eq!(execution.finish().unwrap(), None);
    }
}
