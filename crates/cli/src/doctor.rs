//! `kiln doctor`: what this machine has, what is missing, and how to install it.
//!
//! Inspects only, and changes nothing without `--fix`.

mod folder;

use crate::report::{self, Failures};
use anyhow::Error;
use clap::Args;
use folder::Repair;
use kiln::Device;
use serde::Serialize;
use std::thread;

/// Inspects the machine.
#[derive(Args, Debug)]
pub(crate) struct Doctor {
    /// Apply the fixes that this command can make: create the cache folder, and restrict it to its owner. Each step is
    /// printed
    #[arg(long)]
    fix: bool,
    /// Print a JSON line per check
    #[arg(long)]
    json: bool,
}

/// One check.
#[derive(Debug, Serialize)]
struct Check {
    name: &'static str,
    state: State,
    found: String,
    /// How to install a missing component.
    #[serde(skip_serializing_if = "Option::is_none")]
    fix: Option<String>,
    /// What `--fix` does about it.
    #[serde(skip)]
    repair: Option<Repair>,
}

/// The result of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum State {
    /// Present and working.
    Ok,
    /// Missing, but everything works without it.
    Absent,
    /// Present, and in the way of something.
    Wrong,
}

impl Check {
    fn ok(name: &'static str, found: impl Into<String>) -> Self {
        Self {
            name,
            state: State::Ok,
            found: found.into(),
            fix: None,
            repair: None,
        }
    }

    fn absent(name: &'static str, found: impl Into<String>, fix: impl Into<String>) -> Self {
        Self {
            name,
            state: State::Absent,
            found: found.into(),
            fix: Some(fix.into()),
            repair: None,
        }
    }

    fn wrong(name: &'static str, found: impl Into<String>, repair: Repair) -> Self {
        Self {
            state: State::Wrong,
            repair: Some(repair.clone()),
            ..Self::absent(name, found, repair.to_string())
        }
    }
}

impl Doctor {
    pub(crate) fn run(self) -> Result<Failures, Error> {
        let mut failures = Failures::default();
        for check in [
            version(),
            processor(),
            memory(),
            devices(),
            gpus(),
            targets(),
            onnx(),
            folder::check(),
            logs(),
        ] {
            if self.json {
                report::line(serde_json::to_string(&check)?)?;
                continue;
            }
            let mark = match check.state {
                State::Ok => "ok    ",
                State::Absent => "absent",
                State::Wrong => "wrong ",
            };
            report::line(format!("{mark}  {:10} {}", check.name, check.found))?;
            if let Some(fix) = &check.fix {
                report::line(format!("{:20}{fix}", ""))?;
            }
            if let Some(repair) = check.repair.filter(|_| self.fix) {
                match repair.run() {
                    Ok(()) => report::line(format!("{:20}done: {repair}", ""))?,
                    Err(error) => failures.add(check.name, &error),
                }
            }
        }
        Ok(failures)
    }
}

fn version() -> Check {
    let build = if cfg!(debug_assertions) {
        "debug build: slow, with extra checks"
    } else {
        "release build"
    };
    Check::ok("kiln", format!("{} ({build})", env!("CARGO_PKG_VERSION")))
}

fn processor() -> Check {
    let cores = thread::available_parallelism().map_or(1, usize::from);
    let features = features();
    let features = if features.is_empty() {
        "no vector extensions known".to_owned()
    } else {
        features.join(" ")
    };
    Check::ok(
        "processor",
        format!(
            "{}, {cores} threads available, {features}",
            std::env::consts::ARCH
        ),
    )
}

/// The names of the extensions that a macro of the standard library detects.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
macro_rules! detected {
    ($detects:ident: $($name:tt),* $(,)?) => {
        [$((std::arch::$detects!($name), $name)),*]
            .into_iter()
            .filter(|(detected, _)| *detected)
            .map(|(_, name)| name)
            .collect()
    };
}

#[cfg(target_arch = "x86_64")]
fn features() -> Vec<&'static str> {
    detected![
        is_x86_feature_detected: "avx2",
        "fma",
        "f16c",
        "avx512f",
        "avx512bw",
        "avx512vl",
        "avx512vnni",
        "avx512bf16",
    ]
}

#[cfg(target_arch = "aarch64")]
fn features() -> Vec<&'static str> {
    detected![is_aarch64_feature_detected: "neon", "dotprod", "i8mm", "bf16", "sve"]
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn features() -> Vec<&'static str> {
    Vec::new()
}

fn memory() -> Check {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let gib = |key: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(key))?;
        let kib: f64 = line.trim().trim_end_matches("kB").trim().parse().ok()?;
        Some(kib / 1024.0 / 1024.0)
    };
    match (gib("MemTotal:"), gib("MemAvailable:")) {
        (Some(total), Some(available)) => Check::ok(
            "memory",
            format!("{available:.1} of {total:.1} GiB available"),
        ),
        _ => Check::absent(
            "memory",
            "unknown",
            "the system does not report it; nothing depends on it",
        ),
    }
}

fn devices() -> Check {
    let names: Vec<_> = Device::all().iter().map(Device::to_string).collect();
    Check::ok("devices", names.join(", "))
}

/// The GPUs, or every place that was looked at for what is missing.
#[cfg(feature = "cuda")]
fn gpus() -> Check {
    use kiln::internals::codegen_cuda::driver::{DeviceInfo, RealDriver};
    use kiln::internals::codegen_cuda::find::{self, CudaLibrary};
    use kiln::internals::codegen_cuda::{CudaCompiler, arch_of};

    let describe = |info: &DeviceInfo| {
        let arch = arch_of(info).map_err(|error| error.to_string())?;
        Ok::<_, String>(format!(
            "cuda:{} {} ({arch}, {:.0} GiB)",
            info.ordinal,
            info.name,
            info.memory_bytes as f64 / f64::from(1 << 30)
        ))
    };
    let count = match RealDriver::count() {
        Ok(count) => count,
        Err(error) => return Check::absent("gpus", "none", error.to_string()),
    };
    let infos = (0..count).map(RealDriver::info);
    let infos: Result<Vec<DeviceInfo>, _> = infos.collect();
    let infos = match infos {
        Ok(infos) => infos,
        Err(error) => return Check::absent("gpus", "none", error.to_string()),
    };
    let Some(first) = infos.first() else {
        return Check::absent("gpus", "none", "the driver finds no GPU");
    };
    let found = infos
        .iter()
        .map(|info| describe(info).unwrap_or_else(|error| error));
    let found: Vec<String> = found.collect();
    let driver = format!(
        "driver for CUDA {}.{}",
        first.driver_version.0, first.driver_version.1
    );
    let compiler = arch_of(first)
        .map_err(|error| error.to_string())
        .and_then(|arch| CudaCompiler::new(arch).map_err(|error| error.to_string()));
    let file = |library| match find::open(library) {
        Ok(found) => found.path.display().to_string(),
        Err(_) => "not found".to_owned(),
    };
    let found = format!(
        "{}; {driver}, NVRTC {}, cuBLASLt {}",
        found.join(", "),
        file(CudaLibrary::Nvrtc),
        file(CudaLibrary::CublasLt)
    );
    match compiler {
        Ok(_) => Check::ok("gpus", found),
        Err(error) => Check::absent("gpus", found, error),
    }
}

#[cfg(not(feature = "cuda"))]
fn gpus() -> Check {
    Check::absent(
        "gpus",
        "not part of this build",
        "build with `--features cuda` to run models on NVIDIA GPUs",
    )
}

fn targets() -> Check {
    let targets = kiln::Device::cpu().levels();
    if targets.is_empty() {
        return Check::absent(
            "targets",
            "none: models are interpreted",
            "build with `--features llvm` on x86-64 or AArch64 to compile them",
        );
    }
    Check::ok(
        "targets",
        format!("{} (the last is the default)", targets.join(", ")),
    )
}

fn onnx() -> Check {
    if cfg!(feature = "onnx") {
        let (first, last) = onnx_versions();
        Check::ok(
            "onnx",
            format!("reads models of operator versions {first} to {last}"),
        )
    } else {
        Check::absent(
            "onnx",
            "not part of this build",
            "build with `--features onnx` to read ONNX models",
        )
    }
}

#[cfg(feature = "onnx")]
fn onnx_versions() -> (i64, i64) {
    (
        *kiln::internals::onnx::SUPPORTED_OPSETS.start(),
        *kiln::internals::onnx::SUPPORTED_OPSETS.end(),
    )
}

#[cfg(not(feature = "onnx"))]
fn onnx_versions() -> (i64, i64) {
    (0, 0)
}

fn logs() -> Check {
    match std::env::var("KILN_LOG") {
        Ok(filter) => Check::ok("logs", format!("KILN_LOG={}", filter.escape_debug())),
        Err(_) => Check::absent(
            "logs",
            "KILN_LOG is not set",
            "set KILN_LOG=info for logs, debug for times of every pass",
        ),
    }
}
