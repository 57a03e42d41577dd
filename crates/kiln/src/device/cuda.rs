//! The entries for CUDA devices: NVRTC compiles, in this process, and a stream of the device runs the code.
//!
//! The driver is queried for its devices once, when a CUDA device is first requested or all devices are listed. Without
//! a driver there are no CUDA devices, and requesting one is an error that names every place that was searched.

use super::entry::{DeviceEntry, DeviceProblem, DeviceSetup};
use kiln_backend::{KernelCompiler, KernelExecutor, MemoryLimits, Target};
use kiln_codegen_cuda::driver::{DeviceInfo, DriverProblem, RealDriver};
use kiln_codegen_cuda::{CudaArch, CudaCompiler, CudaExecutor, arch_of};
use kiln_fork_lock::{ForkLazy, ForkLock};
use kiln_fusion::{FusionOptions, Rates, WorkKind};
use kiln_lazy_runtime::SpinPool;
use kiln_native::NativeExecutor;
use std::sync::Arc;

/// The rates of an H100, from its data sheet and from what generated code achieves: launches are expensive, memory is
/// fast.
const RATES: Rates = Rates::CPU
    .with_launch(3000.0)
    .with_sums(2000.0, 0.0005)
    .with_rate(WorkKind::Memory, 2500.0)
    .with_rate(WorkKind::Constants, 2500.0)
    .with_rate(WorkKind::Simple, 10_000.0)
    .with_rate(WorkKind::Product, 20_000.0)
    .with_rate(WorkKind::Window, 2000.0)
    .with_rate(WorkKind::StridedWindow, 1500.0)
    .with_rate(WorkKind::Depthwise, 1000.0)
    .with_rate(WorkKind::Transposed, 1000.0)
    .with_rate(WorkKind::Pool, 2000.0);

/// A CUDA device.
pub(super) struct Cuda {
    key: String,
    ordinal: u32,
    found: Result<DeviceInfo, DriverProblem>,
}

/// The devices requested so far; each number always has the same entry.
static DEVICES: ForkLazy<ForkLock<Vec<Arc<Cuda>>>> = ForkLazy::new(ForkLock::default);

/// The entry of a device, whether it exists or not.
pub(super) fn entry(ordinal: u32) -> Arc<Cuda> {
    let mut devices = DEVICES.lock();
    if let Some(device) = devices.iter().find(|device| device.ordinal == ordinal) {
        return Arc::clone(device);
    }
    let device = Arc::new(Cuda {
        key: match ordinal {
            0 => super::CUDA.to_owned(),
            ordinal => format!("{}:{ordinal}", super::CUDA),
        },
        ordinal,
        found: RealDriver::info(ordinal),
    });
    devices.push(Arc::clone(&device));
    device
}

/// The devices that exist and that code can be compiled for.
pub(super) fn found() -> Vec<Arc<Cuda>> {
    let first = entry(0);
    if first.arch().is_err() || CudaCompiler::new(CudaArch::Sm80).is_err() {
        return Vec::new();
    }
    let count = RealDriver::count().unwrap_or(0);
    (0..count).map(entry).collect()
}

/// The device that a key and a level name: `cuda`, `cuda:1`, `cuda:sm_90a`, `cuda:1:sm_90a`; `None` if it is another key.
pub(super) fn parse(text: &str) -> Option<(u32, Option<&str>)> {
    let (key, rest) = match text.split_once(':') {
        Some((key, rest)) => (key, Some(rest)),
        None => (text, None),
    };
    if key != super::CUDA {
        return None;
    }
    let Some(rest) = rest else {
        return Some((0, None));
    };
    let (first, level) = match rest.split_once(':') {
        Some((first, level)) => (first, Some(level)),
        None => (rest, None),
    };
    match (first.parse::<u32>(), level) {
        (Ok(ordinal), level) => Some((ordinal, level)),
        (Err(_), None) => Some((0, Some(first))),
        (Err(_), Some(_)) => None,
    }
}

impl Cuda {
    fn info(&self) -> Result<&DeviceInfo, DeviceProblem> {
        self.found
            .as_ref()
            .map_err(|problem| problem.clone().into())
    }

    /// The newest architecture whose code it runs.
    fn arch(&self) -> Result<CudaArch, DeviceProblem> {
        Ok(arch_of(self.info()?)?)
    }

    /// Why it cannot be used; `None` if it can.
    pub(super) fn check(&self) -> Result<(), DeviceProblem> {
        CudaCompiler::new(self.arch()?)?;
        Ok(())
    }

    /// Every architecture whose code it runs, oldest first.
    fn archs(&self) -> Vec<CudaArch> {
        let Ok(newest) = self.arch() else {
            return Vec::new();
        };
        let runs = |arch: &CudaArch| {
            let (own, other) = (newest.capability(), arch.capability());
            *arch == newest || (own.0 == other.0 && other.1 < own.1 && !arch.name().ends_with('a'))
        };
        CudaArch::ALL.into_iter().filter(runs).collect()
    }
}

impl DeviceEntry for Cuda {
    fn key(&self) -> &str {
        &self.key
    }

    fn levels(&self) -> Vec<String> {
        let archs = self.archs().into_iter();
        archs.map(|arch| arch.name().to_owned()).collect()
    }

    fn target(&self, level: Option<&str>) -> Result<Target, DeviceProblem> {
        let newest = self.arch()?;
        let Some(level) = level else {
            return Ok(newest.target());
        };
        let found = self.archs().into_iter().find(|arch| arch.name() == level);
        let found = found.ok_or_else(|| format!("it does not run code for {level}"))?;
        Ok(found.target())
    }

    fn compiler(&self, _setup: &DeviceSetup) -> Result<Box<dyn KernelCompiler>, DeviceProblem> {
        Ok(Box::new(CudaCompiler::new(self.arch()?)?))
    }

    fn executor(&self, setup: &DeviceSetup) -> Result<Arc<dyn KernelExecutor>, DeviceProblem> {
        self.info()?;
        let host = NativeExecutor::new().with_pool(Arc::new(SpinPool::new(setup.threads)));
        let executor = CudaExecutor::open(self.ordinal)?.with_host(Arc::new(host));
        // The default limits are for the host's memory; they apply to a device only if set explicitly.
        Ok(match setup.memory == MemoryLimits::DEFAULT {
            true => Arc::new(executor),
            false => Arc::new(executor.with_memory_limits(setup.memory)),
        })
    }

    fn fusion(&self) -> FusionOptions {
        FusionOptions::new()
            .with_rates(RATES)
            .with_widening_in_windows(true)
    }
}
