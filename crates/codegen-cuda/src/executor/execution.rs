//! One run of a program on a device: launches on one stream, whose resources are kept alive until it has been waited
//! for.
//!
//! A launch allocates nothing if its kernel has been launched before with the same scratch.
#![allow(unsafe_code, reason = "what a launch gives is vouched for here")]

use super::CudaExecutor;
use super::builtins;
use super::context::Context;
use super::error::DeviceError;
use super::graphs::{GraphCache, Launches};
use super::kernel::{CudaKernel, LoadedEntry};
use super::lane::{Lane, NO_FAULT};
use super::memory::{DeviceMemory, place_of};
use crate::container::{FAULT_DIVISION, FAULT_INDEX};
use crate::driver::FunctionLaunch;
use kiln_backend::{
    BatchKey, Builtin, BuiltinOperand, ExecuteError, Execution, Fault, FaultCause, Launch,
    LoadedKernel, Memory, MemorySlice, StopSignal,
};
use std::sync::Arc;

/// The maximum number of blocks of a grid; kernels loop over the rest.
const MAX_BLOCKS: u64 = i32::MAX as u64;

/// The state of one run at a time.
pub(crate) struct CudaExecution {
    executor: CudaExecutor,
    /// The lane, taken at the first submission.
    lane: Option<Lane>,
    /// Whether work was submitted since the last wait.
    is_busy: bool,
    /// Whether a kernel that may report a fault was submitted since.
    may_fault: bool,
    /// Launches since the last wait.
    n_launches: usize,
    /// The number of uploads on which the stream waits.
    waited: u64,
    /// Everything that the submitted work uses.
    memories: Vec<Memory>,
    kernels: Vec<LoadedKernel>,
    shared_scratch: Option<Memory>,
    stop: Option<Arc<dyn StopSignal>>,
    words: Vec<u64>,
    batch: Launches,
    graphs: GraphCache,
}

impl CudaExecution {
    /// A run that has not begun.
    pub(crate) fn new(executor: CudaExecutor) -> Self {
        Self {
            executor,
            lane: None,
            is_busy: false,
            may_fault: false,
            n_launches: 0,
            waited: u64::MAX,
            memories: Vec::new(),
            kernels: Vec::new(),
            shared_scratch: None,
            stop: None,
            words: Vec::new(),
            batch: Launches::default(),
            graphs: GraphCache::default(),
        }
    }

    fn context(&self) -> &Arc<Context> {
        self.executor.context()
    }

    /// The stream, ready for work that reads uploaded data.
    fn lane(&mut self) -> Result<&Lane, DeviceError> {
        let context = self.executor.context();
        context.check()?;
        let lane = match &mut self.lane {
            Some(lane) => lane,
            none => none.insert(context.take_lane()?),
        };
        let driver = context.driver();
        let waits = context
            .transfers
            .wait_for_uploads(driver, lane.stream, &mut self.waited);
        context.done(waits)?;
        Ok(lane)
    }

    /// Checks a launch against its kernel, keeps the resources that it uses alive, and writes its parameter except the
    /// number of tasks.
    fn prepare(
        &mut self,
        loaded: &LoadedKernel,
        launch: &Launch<'_>,
        number: usize,
    ) -> Result<(), DeviceError> {
        let kernel = own_kernel(self.context(), loaded)?;
        check(kernel, launch)?;
        let stop = match &self.stop {
            Some(_) => self.lane()?.stop,
            None => 0,
        };
        let fault = self.lane()?.fault;
        let shared = self.shared_scratch(launch.numbers.shared_scratch())?;
        self.words.clear();
        for (position, (slice, &bytes)) in launch
            .buffers
            .iter()
            .zip(launch.numbers.bytes())
            .enumerate()
        {
            let alignment = kernel.alignments.get(position).copied().unwrap_or(1);
            let what = || kernel.buffer_name(position);
            let place = place_of(self.executor.context(), slice, alignment, what)?;
            if slice.bytes < bytes {
                return Err(DeviceError::mismatch(
                    what(),
                    format_args!("at least {bytes} bytes"),
                    slice.bytes,
                ));
            }
            self.words.push(place);
        }
        let arguments = launch.numbers.arguments().iter();
        self.words
            .extend(arguments.map(|&argument| argument.cast_unsigned()));
        self.words.extend([shared, fault, number as u64, 0, stop]);
        let memories = launch.buffers.iter().map(|slice| slice.memory.clone());
        self.memories.extend(memories);
        self.kernels.push(loaded.clone());
        self.may_fault |= kernel.may_fault;
        Ok(())
    }

    /// The address of at least this many bytes, which one launch at a time uses; 0 if none are needed.
    fn shared_scratch(&mut self, bytes: usize) -> Result<u64, DeviceError> {
        if bytes == 0 {
            return Ok(0);
        }
        let has = self.shared_scratch.as_ref().map_or(0, Memory::bytes);
        if has < bytes {
            let larger = self.executor.pool().rent_memory(bytes)?;
            let smaller = self.shared_scratch.replace(larger);
            // Earlier launches still use the previous memory.
            self.memories.extend(smaller);
        }
        let memory = self.shared_scratch.as_ref().and_then(Memory::downcast);
        Ok(memory.map_or(0, DeviceMemory::address))
    }

    /// The launches of functions of a prepared launch, in order.
    fn each_function(
        words: &mut [u64],
        kernel: &CudaKernel,
        launch: &Launch<'_>,
        mut enqueue: impl FnMut(&LoadedEntry, &FunctionLaunch<'_>) -> Result<(), DeviceError>,
    ) -> Result<(), DeviceError> {
        for (entry, phase) in kernel.entries.iter().zip(launch.numbers.phases()) {
            if phase.tasks == 0 {
                continue;
            }
            let tasks_word = words.len().wrapping_sub(2);
            if let Some(tasks) = words.get_mut(tasks_word) {
                *tasks = phase.tasks;
            }
            let mut function_launch = FunctionLaunch {
                function: crate::driver::Function(0),
                blocks: u32::try_from(phase.tasks.min(MAX_BLOCKS)).unwrap_or(u32::MAX),
                threads: 1,
                shared_bytes: 0,
                words,
            };
            if let LoadedEntry::Function {
                function,
                threads,
                max_shared,
            } = entry
            {
                if phase.scratch > *max_shared {
                    return Err(DeviceError::mismatch(
                        format!("shared memory of a block of kernel {}", kernel.name()),
                        format_args!("at most {max_shared} bytes"),
                        phase.scratch,
                    ));
                }
                function_launch.function = *function;
                function_launch.threads = *threads;
                function_launch.shared_bytes = u32::try_from(phase.scratch).unwrap_or(u32::MAX);
            }
            enqueue(entry, &function_launch)?;
        }
        Ok(())
    }

    /// Launches a kernel whose parameter is prepared.
    fn enqueue(&mut self, loaded: &LoadedKernel, launch: &Launch<'_>) -> Result<(), DeviceError> {
        let kernel = own_kernel(self.executor.context(), loaded)?;
        self.is_busy = true;
        let stream = self.lane()?.stream;
        let Self {
            executor, words, ..
        } = self;
        let context = executor.context();
        Self::each_function(words, kernel, launch, |entry, function| match entry {
            LoadedEntry::Function { .. } => {
                context.counters.launches.add(1);
                // SAFETY: `prepare` found the buffers large enough for the numbers, which are of this kernel's artifact, and
                // keeps them and the kernel until the stream was waited for; what else uses the memory is the caller's
                // promise.
                context.done(unsafe { context.driver().launch(function, stream) })
            }
            LoadedEntry::Gemm(gemm) => {
                context.counters.launches.add(1);
                // SAFETY: as above.
                unsafe {
                    executor
                        .products()
                        .run(context, gemm, function.words, kernel, stream)
                }
            }
        })
    }

    fn launch_checked(
        &mut self,
        kernel: &LoadedKernel,
        launch: &Launch<'_>,
    ) -> Result<(), DeviceError> {
        let number = self.n_launches;
        self.n_launches += 1;
        self.prepare(kernel, launch, number)?;
        self.enqueue(kernel, launch)
    }

    /// Launches the code of a builtin. It reports no faults, so it does not count in the numbering of kernel launches.
    pub(super) fn launch_builtin(
        &mut self,
        code: &LoadedKernel,
        launch: &Launch<'_>,
    ) -> Result<(), DeviceError> {
        self.prepare(code, launch, self.n_launches)?;
        self.enqueue(code, launch)
    }

    fn launch_all(
        &mut self,
        key: BatchKey,
        batch: &[(&LoadedKernel, Launch<'_>)],
    ) -> Result<(), (usize, DeviceError)> {
        let context = Arc::clone(self.context());
        let is_recordable = batch
            .iter()
            .all(|(kernel, _)| own_kernel(&context, kernel).is_ok_and(CudaKernel::is_recordable));
        if !is_recordable || batch.len() < 2 {
            for (position, (kernel, launch)) in batch.iter().enumerate() {
                let launched = self.launch_checked(kernel, launch);
                launched.map_err(|error| (position, error))?;
            }
            return Ok(());
        }
        let mut recorded = std::mem::take(&mut self.batch);
        recorded.clear();
        let mut problem = None;
        for (position, (kernel, launch)) in batch.iter().enumerate() {
            let number = self.n_launches;
            self.n_launches += 1;
            if let Err(error) = self.record(kernel, launch, number, &mut recorded) {
                problem = Some((position, error));
                break;
            }
        }
        let submitted = match &problem {
            // The launches before the one that does not fit are still launched.
            Some(_) => self.submit_each(&recorded),
            None => self.submit_batch(key, batch, &mut recorded),
        };
        self.batch = recorded;
        match (submitted, problem) {
            (Err(error), _) => Err((0, error)),
            (Ok(()), Some(problem)) => Err(problem),
            (Ok(()), None) => Ok(()),
        }
    }

    /// Adds the functions of a launch.
    fn record(
        &mut self,
        loaded: &LoadedKernel,
        launch: &Launch<'_>,
        number: usize,
        recorded: &mut Launches,
    ) -> Result<(), DeviceError> {
        self.prepare(loaded, launch, number)?;
        let kernel = own_kernel(self.executor.context(), loaded)?;
        Self::each_function(&mut self.words, kernel, launch, |_, function| {
            recorded.push(function);
            Ok(())
        })
    }

    fn submit_each(&mut self, launches: &Launches) -> Result<(), DeviceError> {
        if launches.is_empty() {
            return Ok(());
        }
        self.is_busy = true;
        let stream = self.lane()?.stream;
        let context = self.executor.context();
        for launch in launches.iter() {
            context.counters.launches.add(1);
            // SAFETY: as in `enqueue`.
            context.done(unsafe { context.driver().launch(&launch, stream) })?;
        }
        Ok(())
    }

    fn submit_batch(
        &mut self,
        key: BatchKey,
        batch: &[(&LoadedKernel, Launch<'_>)],
        launches: &mut Launches,
    ) -> Result<(), DeviceError> {
        if launches.is_empty() {
            return Ok(());
        }
        self.is_busy = true;
        let stream = self.lane()?.stream;
        let kernels = batch.iter().map(|(kernel, _)| (*kernel).clone());
        let context = self.executor.context();
        // SAFETY: as in `enqueue`.
        let launched = unsafe { self.graphs.launch(context, stream, key, launches, kernels) };
        match context.done(launched)? {
            true => Ok(()),
            false => self.submit_each(launches),
        }
    }

    /// Waits for everything submitted. The device is lost if that fails: the state of its memory is unknown.
    pub(super) fn wait(&mut self) -> Result<(), DeviceError> {
        let (Some(lane), true) = (&self.lane, self.is_busy) else {
            return self.context().check();
        };
        let context = self.executor.context();
        let driver = context.driver();
        let waited = match &self.stop {
            None => driver.synchronize(lane.stream),
            Some(signal) => loop {
                match driver.is_done(lane.stream) {
                    Ok(false) => {
                        if signal.is_stopped() {
                            lane.set_stop(true);
                        }
                        std::thread::yield_now();
                    }
                    Ok(true) => break Ok(()),
                    Err(error) => break Err(error),
                }
            },
        };
        waited.map_err(|error| context.lose(error))?;
        self.is_busy = false;
        Ok(())
    }

    /// Waits, and reads the fault word.
    fn wait_for_fault(&mut self) -> Result<Option<Fault>, DeviceError> {
        if !std::mem::take(&mut self.may_fault) {
            self.wait()?;
            return Ok(None);
        }
        if let Some(lane) = &self.lane {
            let context = self.executor.context();
            context.done(lane.fetch_fault(context.driver()))?;
            self.is_busy = true;
        }
        self.wait()?;
        let Some(lane) = &self.lane else {
            return Ok(None);
        };
        let word = lane.fault();
        if word == NO_FAULT {
            return Ok(None);
        }
        let context = self.executor.context();
        context.done(lane.clear_fault(context.driver()))?;
        self.is_busy = true;
        fault_of(word).map(Some)
    }

    /// The executor.
    pub(super) fn executor(&self) -> &CudaExecutor {
        &self.executor
    }

    /// The signal that ends the run.
    pub(super) fn stop(&self) -> Option<&Arc<dyn StopSignal>> {
        self.stop.as_ref()
    }

    /// Copies within the device, in order with launches.
    ///
    /// # Safety
    /// Both ranges are within the memories of the slices, and nothing else writes them until the run was waited for.
    pub(super) unsafe fn copy(
        &mut self,
        (from, source): (u64, &MemorySlice<'_>),
        (to, destination): (u64, &MemorySlice<'_>),
        bytes: usize,
    ) -> Result<(), DeviceError> {
        self.memories
            .extend([source.memory.clone(), destination.memory.clone()]);
        let stream = self.lane()?.stream;
        self.is_busy = true;
        let context = self.executor.context();
        // SAFETY: as the caller promises; the memories are kept.
        context.done(unsafe { context.driver().copy_within(to, from, bytes, stream) })
    }

    /// Keeps memory until the run was waited for.
    pub(super) fn keep(&mut self, memory: &Memory) {
        self.memories.push(memory.clone());
    }
}

/// A kernel of this device.
pub(super) fn own_kernel<'a>(
    context: &Arc<Context>,
    loaded: &'a LoadedKernel,
) -> Result<&'a CudaKernel, DeviceError> {
    let kernel = loaded.downcast::<CudaKernel>();
    kernel
        .filter(|kernel| Arc::ptr_eq(kernel.context(), context))
        .ok_or_else(|| DeviceError::foreign("a kernel to launch"))
}

/// Checks that a launch's numbers and buffers are of its kernel.
fn check(kernel: &CudaKernel, launch: &Launch<'_>) -> Result<(), DeviceError> {
    if !launch.numbers.artifact().is_same(&kernel.artifact) {
        return Err(DeviceError::mismatch(
            format!("the numbers of a launch of kernel {}", kernel.name()),
            "those of the artifact that it was loaded from",
            format_args!(
                "those of another one of {}",
                launch.numbers.artifact().kernel
            ),
        ));
    }
    if kernel.alignments.len() != launch.buffers.len() {
        return Err(DeviceError::mismatch(
            format!("buffers of kernel {}", kernel.name()),
            kernel.alignments.len(),
            launch.buffers.len(),
        ));
    }
    Ok(())
}

/// The fault in a fault word.
fn fault_of(word: u64) -> Result<Fault, DeviceError> {
    let cause = match word as u8 {
        FAULT_INDEX => FaultCause::IndexOutOfRange,
        FAULT_DIVISION => FaultCause::DivisionByZero,
        other => {
            return Err(DeviceError::mismatch(
                "the fault that a kernel reports",
                "cause 0 or 1",
                other,
            ));
        }
    };
    Ok(Fault {
        launch: (word >> 32) as usize,
        cause,
        site: (word >> 8) as usize & 0xff_ffff,
    })
}

impl Execution for CudaExecution {
    fn stop_when(&mut self, signal: Option<Arc<dyn StopSignal>>) {
        // Submitted work reads the word of the previous signal. An error is reported by the next operation.
        let _ = self.wait();
        self.stop = signal;
        if self.stop.is_some()
            && let Ok(lane) = self.lane()
        {
            lane.set_stop(false);
        }
    }

    unsafe fn launch(
        &mut self,
        kernel: &LoadedKernel,
        launch: &Launch<'_>,
    ) -> Result<(), ExecuteError> {
        Ok(self.launch_checked(kernel, launch)?)
    }

    unsafe fn launch_batch(
        &mut self,
        key: BatchKey,
        batch: &[(&LoadedKernel, Launch<'_>)],
    ) -> Result<(), (usize, ExecuteError)> {
        let launched = self.launch_all(key, batch);
        launched.map_err(|(position, error)| (position, error.into()))
    }

    unsafe fn run_builtin(
        &mut self,
        builtin: &Builtin,
        inputs: &[(MemorySlice<'_>, BuiltinOperand<'_>)],
        outputs: &[(MemorySlice<'_>, BuiltinOperand<'_>)],
    ) -> Result<(), ExecuteError> {
        // SAFETY: as the caller promises.
        unsafe { builtins::run(self, builtin, inputs, outputs) }
    }

    fn finish(&mut self) -> Result<Option<Fault>, ExecuteError> {
        let fault = self.wait_for_fault();
        self.n_launches = 0;
        self.memories.clear();
        self.kernels.clear();
        Ok(fault?)
    }
}

impl Drop for CudaExecution {
    fn drop(&mut self) {
        // Memories and graphs are released only once nothing uses them; a lost device uses nothing.
        let _ = self.wait();
        let context = Arc::clone(self.context());
        self.graphs.end(&context);
        if let Some(lane) = self.lane.take() {
            context.give_lane(lane);
        }
    }
}
