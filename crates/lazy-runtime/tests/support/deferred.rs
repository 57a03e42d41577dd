//! An execution that runs late, and in another order where the order must not matter.
//!
//! Launches wait in a queue. At each launch a few of them run, chosen at random; the rest run when the execution is
//! waited for. Two may be swapped unless one writes what the other accesses. Memory is kept alive as long as a queued
//! launch uses it, and cannot be read before the launches that write it have been waited for. So a runtime that works
//! on this device follows the rules of `kiln_backend::execute`; with a rule [`Broken`], programs fail.

use std::any::Any;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use kiln_backend::{
    BatchKey, Builtin, BuiltinOperand, ExecuteError, Execution, Fault, Launch, LaunchNumbers,
    LoadedKernel, MemorySlice,
};
use kiln_tensor::DType;

use super::evaluate::{Slice, run_builtin, run_kernel};
use super::fake_device::{Held, Loaded, State, refused};

/// A rule that the device breaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Broken {
    /// Memory is freed as soon as the caller drops it.
    Lifetime,
    /// Launches run in any order.
    Order,
    /// Waiting returns before everything has run.
    Waiting,
    /// Memory is reused while a handle to it still exists.
    Reuse,
    /// An input is written over the previous one, even if its memory is shared.
    Sharing,
    /// Memory of another device is mistaken for its own.
    Ownership,
}

/// The execution.
pub(super) struct Deferred {
    queue: Vec<Work>,
    n_launches: usize,
    random: u64,
    device: Arc<State>,
    fault: Option<Fault>,
    error: Option<ExecuteError>,
    /// The kernels of each batch, and their arguments.
    batches: HashMap<BatchKey, Vec<(usize, Vec<i64>)>>,
}

/// A launch or a builtin that has not run.
struct Work {
    number: usize,
    task: Task,
    operands: Vec<LaunchOperand>,
}

enum Task {
    Kernel(LoadedKernel, LaunchNumbers),
    Builtin(Builtin, Vec<(DType, Vec<usize>)>),
}

/// A range of a memory that a launch uses.
struct LaunchOperand {
    memory: Kept,
    /// The identity of the memory.
    identity: usize,
    offset: usize,
    bytes: usize,
    is_written: bool,
}

type Handle = dyn Any + Send + Sync;

enum Kept {
    Held(Arc<Handle>),
    Dropped(Weak<Handle>),
}

/// Each execution has its own random numbers, which are the same in each run of a single-threaded test.
static SEED: AtomicU64 = AtomicU64::new(0x9e37_79b9_7f4a_7c15);

impl Deferred {
    pub(super) fn new(device: Arc<State>) -> Self {
        Self {
            queue: Vec::new(),
            n_launches: 0,
            random: SEED.fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::Relaxed) | 1,
            device,
            fault: None,
            error: None,
            batches: HashMap::new(),
        }
    }

    /// A random number below `n`.
    fn below(&mut self, n: usize) -> usize {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        (self.random % n.max(1) as u64) as usize
    }

    fn operand(
        &self,
        slice: &MemorySlice<'_>,
        is_written: bool,
    ) -> Result<LaunchOperand, ExecuteError> {
        self.device.check()?;
        let handle = slice.memory.handle();
        let held = slice.memory.downcast::<Held>();
        let held = held.filter(|held| Arc::ptr_eq(&held.device, &self.device));
        let held = held.ok_or_else(|| refused("a launch on memory of another device"))?;
        if is_written {
            held.pending.fetch_add(1, Ordering::SeqCst);
        }
        Ok(LaunchOperand {
            memory: match self.device.broken {
                Some(Broken::Lifetime) => Kept::Dropped(Arc::downgrade(handle)),
                _ => Kept::Held(Arc::clone(handle)),
            },
            identity: Arc::as_ptr(handle).cast::<()>() as usize,
            offset: slice.offset,
            bytes: slice.bytes,
            is_written,
        })
    }

    fn add(&mut self, task: Task, operands: Vec<LaunchOperand>) {
        let number = self.n_launches;
        // Builtins are not launches.
        self.n_launches += usize::from(matches!(task, Task::Kernel(..)));
        self.queue.push(Work {
            number,
            task,
            operands,
        });
        let n_now = match self.below(4) {
            0 => self.below(self.queue.len() + 1),
            _ => 0,
        };
        self.run_some(n_now);
    }

    /// Runs this many of the queued launches, each after all earlier ones that it must not be swapped with.
    fn run_some(&mut self, count: usize) {
        for _ in 0..count.min(self.queue.len()) {
            let ready: Vec<usize> = (0..self.queue.len())
                .filter(|&at| {
                    let (before, rest) = self.queue.split_at(at);
                    self.device.broken == Some(Broken::Order)
                        || !before.iter().any(|work| work.conflicts_with(&rest[0]))
                })
                .collect();
            let chosen = ready[self.below(ready.len())];
            let work = self.queue.remove(chosen);
            match work.run() {
                Ok(None) => {}
                Ok(Some(fault)) if self.fault.is_some_and(|first| first.launch < fault.launch) => {}
                Ok(fault) => self.fault = fault,
                Err(error) => drop(self.error.get_or_insert(error)),
            }
        }
    }
}

impl Work {
    /// Whether one writes what the other accesses.
    fn conflicts_with(&self, other: &Self) -> bool {
        let overlap = |a: &LaunchOperand, b: &LaunchOperand| {
            a.identity == b.identity
                && (a.is_written || b.is_written)
                && a.offset < b.offset + b.bytes
                && b.offset < a.offset + a.bytes
        };
        let mut own = self.operands.iter();
        own.any(|a| other.operands.iter().any(|b| overlap(a, b)))
    }

    fn run(self) -> Result<Option<Fault>, ExecuteError> {
        let handles: Vec<Option<Arc<Handle>>> =
            self.operands.iter().map(LaunchOperand::handle).collect();
        // Freed memory has been overwritten since.
        let freed: Vec<Held> = self
            .operands
            .iter()
            .map(|operand| Held::poisoned(operand.offset + operand.bytes))
            .collect();
        let slices: Vec<Slice<'_>> = self
            .operands
            .iter()
            .zip(handles.iter().zip(&freed))
            .map(|(operand, (handle, freed))| Slice {
                held: handle
                    .as_deref()
                    .and_then(|handle| handle.downcast_ref())
                    .unwrap_or(freed),
                offset: operand.offset,
                bytes: operand.bytes,
            })
            .collect();
        match &self.task {
            Task::Kernel(kernel, numbers) => {
                let loaded: &Loaded = kernel
                    .downcast()
                    .ok_or_else(|| refused("a kernel of another device"))?;
                let cause = run_kernel(loaded, numbers, &slices)?;
                Ok(cause.map(|cause| Fault {
                    launch: self.number,
                    cause,
                    site: 0,
                }))
            }
            Task::Builtin(builtin, types) => {
                run_builtin(builtin, types, &slices, self.n_read())?;
                Ok(None)
            }
        }
    }

    fn n_read(&self) -> usize {
        let read = self.operands.iter().filter(|operand| !operand.is_written);
        read.count()
    }
}

impl LaunchOperand {
    fn handle(&self) -> Option<Arc<Handle>> {
        match &self.memory {
            Kept::Held(handle) => Some(Arc::clone(handle)),
            Kept::Dropped(handle) => handle.upgrade(),
        }
    }
}

impl Drop for LaunchOperand {
    fn drop(&mut self) {
        let handle = self.handle().filter(|_| self.is_written);
        if let Some(held) = handle
            .as_deref()
            .and_then(|handle| handle.downcast_ref::<Held>())
        {
            held.pending.fetch_sub(1, Ordering::SeqCst);
        }
    }
}

impl Execution for Deferred {
    unsafe fn launch(
        &mut self,
        kernel: &LoadedKernel,
        launch: &Launch<'_>,
    ) -> Result<(), ExecuteError> {
        let loaded: &Loaded = kernel
            .downcast()
            .ok_or_else(|| refused("a kernel of another device"))?;
        let buffers = loaded.kernel.buffers().values();
        let mut operands = Vec::new();
        for ((buffer, slice), &bytes) in buffers.zip(launch.buffers).zip(launch.numbers.bytes()) {
            if slice.bytes < bytes {
                let (name, found) = (&buffer.name, slice.bytes);
                return Err(refused(format!(
                    "%{name}: expected {bytes} bytes, found {found}"
                )));
            }
            operands.push(self.operand(slice, buffer.role.is_written())?);
        }
        self.add(
            Task::Kernel(kernel.clone(), launch.numbers.clone()),
            operands,
        );
        Ok(())
    }

    unsafe fn launch_batch(
        &mut self,
        key: BatchKey,
        batch: &[(&LoadedKernel, Launch<'_>)],
    ) -> Result<(), (usize, ExecuteError)> {
        let launches = batch.iter().map(|(kernel, launch)| {
            let loaded = kernel
                .downcast::<Loaded>()
                .map_or(0, |loaded| std::ptr::from_ref(loaded) as usize);
            (loaded, launch.numbers.arguments().to_vec())
        });
        let launches: Vec<_> = launches.collect();
        let before = self.batches.entry(key).or_insert_with(|| launches.clone());
        assert_eq!(*before, launches, "one key, two batches");
        for (number, (kernel, launch)) in batch.iter().enumerate() {
            // SAFETY: guaranteed by the caller.
            let launched = unsafe { self.launch(kernel, launch) };
            launched.map_err(|error| (number, error))?;
        }
        Ok(())
    }

    unsafe fn run_builtin(
        &mut self,
        builtin: &Builtin,
        inputs: &[(MemorySlice<'_>, BuiltinOperand<'_>)],
        outputs: &[(MemorySlice<'_>, BuiltinOperand<'_>)],
    ) -> Result<(), ExecuteError> {
        let read = inputs.iter().map(|(slice, _)| self.operand(slice, false));
        let written = outputs.iter().map(|(slice, _)| self.operand(slice, true));
        let operands = read.chain(written).collect::<Result<_, _>>()?;
        let types = inputs.iter().chain(outputs);
        let types = types.map(|(_, what)| (what.dtype, what.shape.to_vec()));
        self.add(Task::Builtin(builtin.clone(), types.collect()), operands);
        Ok(())
    }

    fn finish(&mut self) -> Result<Option<Fault>, ExecuteError> {
        if self.device.broken != Some(Broken::Waiting) {
            self.run_some(usize::MAX);
        }
        self.n_launches = 0;
        self.device.check()?;
        match self.error.take() {
            Some(error) => Err(error),
            None => Ok(self.fault.take()),
        }
    }
}
