//! The fake device with launches of a fixed duration, on a clock that only launches advance.

use std::sync::Arc;
use std::time::Duration;

use kiln_backend::{
    Artifact, Builtin, BuiltinOperand, ExecuteError, Execution, ExecutorWrapper, Fault,
    KernelExecutor, Launch, LoadedKernel, MemorySlice,
};
use kiln_timing::ManualClock;

use super::FakeDevice;

/// The duration of a launch, by its code, which is the kernel's text.
pub type Cost = fn(&str) -> Duration;

#[derive(Clone)]
pub struct TimedDevice {
    pub device: FakeDevice,
    pub clock: ManualClock,
    pub cost: Cost,
}

struct TimedKernel {
    inner: LoadedKernel,
    cost: Duration,
}

struct TimedExecution {
    inner: Box<dyn Execution>,
    clock: ManualClock,
}

impl ExecutorWrapper for TimedDevice {
    type Inner = FakeDevice;

    fn inner(&self) -> &FakeDevice {
        &self.device
    }

    fn load(&self, artifact: &Artifact) -> Result<LoadedKernel, ExecuteError> {
        let cost = (self.cost)(&String::from_utf8_lossy(&artifact.code));
        let inner = self.device.load(artifact)?;
        Ok(LoadedKernel::new(Arc::new(TimedKernel { inner, cost })))
    }

    // Each launch is timed.
    fn takes_batches(&self) -> bool {
        false
    }

    fn begin(&self) -> Box<dyn Execution> {
        Box::new(TimedExecution {
            inner: self.device.begin(),
            clock: self.clock.clone(),
        })
    }
}

impl Execution for TimedExecution {
    unsafe fn launch(
        &mut self,
        kernel: &LoadedKernel,
        launch: &Launch<'_>,
    ) -> Result<(), ExecuteError> {
        let kernel: &TimedKernel = kernel.downcast().expect("a kernel of this device");
        self.clock.advance(kernel.cost);
        // SAFETY: guaranteed by the caller.
        unsafe { self.inner.launch(&kernel.inner, launch) }
    }

    unsafe fn run_builtin(
        &mut self,
        builtin: &Builtin,
        inputs: &[(MemorySlice<'_>, BuiltinOperand<'_>)],
        outputs: &[(MemorySlice<'_>, BuiltinOperand<'_>)],
    ) -> Result<(), ExecuteError> {
        // SAFETY: guaranteed by the caller.
        unsafe { self.inner.run_builtin(builtin, inputs, outputs) }
    }

    fn finish(&mut self) -> Result<Option<Fault>, ExecuteError> {
        self.inner.finish()
    }
}
