//! A kernel loaded on a device: the module with its functions, and the data that its launches are checked against.
#![allow(unsafe_code, reason = "an artifact's code is vouched for")]

use super::context::Context;
use super::error::DeviceError;
use super::gemm::bias_of;
use crate::container::{DeviceCode, Entry, FIXED_WORDS, GemmEntry, MAX_PARAMETER_BYTES};
use crate::driver::{Function, Module};
use kiln_backend::Artifact;
use std::ffi::CString;
use std::sync::Arc;

/// The maximum number of threads of a block.
const MAX_THREADS: u32 = 1024;

/// A loaded kernel.
#[derive(Debug)]
pub(crate) struct CudaKernel {
    context: Arc<Context>,
    /// The artifact from which it was loaded: a launch's numbers must come from this one.
    pub(crate) artifact: Artifact,
    module: Option<Module>,
    /// The code of each phase.
    pub(crate) entries: Vec<LoadedEntry>,
    /// The alignment of each buffer's address.
    pub(crate) alignments: Vec<usize>,
    /// Whether it may report a fault.
    pub(crate) may_fault: bool,
}

/// The code of a phase.
#[derive(Debug)]
pub(crate) enum LoadedEntry {
    Function {
        function: Function,
        threads: u32,
        /// Bytes of dynamic shared memory that a block can have.
        max_shared: usize,
    },
    Gemm(GemmEntry),
}

/// Whether a device of architecture `own` runs code for `arch`: a cubin runs on devices of its major version with the
/// same or a later minor version, but a cubin with architecture-specific features runs only on that architecture.
fn runs(own: &str, arch: &str) -> bool {
    if own == arch {
        return true;
    }
    let number = |arch: &str| arch.strip_prefix("sm_")?.parse::<u32>().ok();
    let own = number(own.trim_end_matches(['a', 'f']));
    match (own, number(arch)) {
        (Some(own), Some(code)) => own / 10 == code / 10 && code <= own,
        _ => false,
    }
}

impl CudaKernel {
    /// Loads an artifact's code. Its functions are then ready to be launched: a launch loads nothing.
    pub(crate) fn load(context: &Arc<Context>, artifact: &Artifact) -> Result<Self, DeviceError> {
        context.check()?;
        let code = DeviceCode::from_bytes(&artifact.code)?;
        if !runs(context.arch(), &code.arch) {
            return Err(DeviceError::Architecture {
                device: context.name().to_owned(),
                expected: context.arch().to_owned(),
                found: code.arch.escape_debug().to_string(),
            });
        }
        let name = artifact.kernel.escape_debug();
        if code.entries.len() != artifact.phases.len() {
            return Err(DeviceError::mismatch(
                format!("the code of kernel {name}"),
                format_args!("{} phases", artifact.phases.len()),
                code.entries.len(),
            ));
        }
        let words = artifact.buffers.len() + artifact.arguments.len() + FIXED_WORDS;
        if words * size_of::<u64>() > MAX_PARAMETER_BYTES {
            return Err(DeviceError::mismatch(
                format!("buffers and arguments of kernel {name}"),
                format_args!(
                    "at most {}",
                    MAX_PARAMETER_BYTES / size_of::<u64>() - FIXED_WORDS
                ),
                words - FIXED_WORDS,
            ));
        }
        let mut kernel = Self {
            context: Arc::clone(context),
            artifact: artifact.clone(),
            module: None,
            entries: Vec::with_capacity(code.entries.len()),
            alignments: artifact
                .buffers
                .iter()
                .map(|buffer| buffer.dtype.size_in_bytes())
                .collect(),
            may_fault: !artifact.fault_sites.is_empty(),
        };
        let has_functions = |entry: &Entry| matches!(entry, Entry::Function { .. });
        if code.entries.iter().any(has_functions) {
            // SAFETY: an artifact's code is the output of its compiler.
            let module = unsafe { context.driver().load_module(&code.cubin) };
            kernel.module = Some(context.done(module)?);
            context.counters.modules.add(1);
        }
        for (entry, phase) in code.entries.into_iter().zip(&artifact.phases) {
            let loaded = kernel.entry(entry, phase.block)?;
            kernel.entries.push(loaded);
        }
        Ok(kernel)
    }

    fn entry(&self, entry: Entry, block: u32) -> Result<LoadedEntry, DeviceError> {
        let (name, threads) = match entry {
            Entry::Gemm(gemm) => {
                self.check_gemm(&gemm)?;
                return Ok(LoadedEntry::Gemm(gemm));
            }
            Entry::Function { name, threads } => (name, threads),
        };
        let what = || format!("the threads of a block of {}", name.escape_debug());
        if threads != block || !(1..=MAX_THREADS).contains(&threads) {
            return Err(DeviceError::mismatch(
                what(),
                format_args!("{block}, at most {MAX_THREADS}"),
                threads,
            ));
        }
        let symbol = CString::new(name.as_str()).map_err(|_| {
            DeviceError::mismatch("a function's name", "one without NUL", name.escape_debug())
        })?;
        let Some(module) = self.module else {
            return Err(DeviceError::mismatch(what(), "a module", "none"));
        };
        let function = self.context.driver().function(module, &symbol);
        let (function, max_shared) = self.context.done(function)?;
        Ok(LoadedEntry::Function {
            function,
            threads,
            max_shared,
        })
    }

    /// Checks that the buffers and arguments of a product exist.
    fn check_gemm(&self, gemm: &GemmEntry) -> Result<(), DeviceError> {
        let operands = [&gemm.a, &gemm.b, &gemm.d];
        let bias = bias_of(gemm.epilogue);
        let buffers = operands.iter().map(|operand| operand.buffer).chain(bias);
        let numbers = operands
            .iter()
            .flat_map(|operand| [operand.leading, operand.batch_stride])
            .chain([gemm.m, gemm.n, gemm.k, gemm.batch]);
        let out = |position: usize, count: usize, what: &str| {
            (position >= count).then(|| {
                let expected = format!("one of the {count} {what} of the kernel");
                DeviceError::mismatch("an operand of a product", expected, position)
            })
        };
        let n_buffers = self.artifact.buffers.len();
        let n_arguments = self.artifact.arguments.len();
        let mut problems = buffers
            .filter_map(|position| out(position, n_buffers, "buffers"))
            .chain(numbers.filter_map(|position| out(position, n_arguments, "arguments")));
        problems.next().map_or(Ok(()), Err)
    }

    /// The device on which it is loaded.
    pub(crate) fn context(&self) -> &Arc<Context> {
        &self.context
    }

    /// Its name.
    pub(crate) fn name(&self) -> &str {
        &self.artifact.kernel
    }

    /// The name of a buffer in messages.
    pub(crate) fn buffer_name(&self, position: usize) -> String {
        let name = self.artifact.buffers.get(position);
        let name = name.map_or("?", |buffer| buffer.name.as_str());
        format!("buffer {name} of kernel {}", self.name())
    }

    /// Whether its launches can be recorded in a graph.
    pub(crate) fn is_recordable(&self) -> bool {
        let is_function = |entry: &LoadedEntry| matches!(entry, LoadedEntry::Function { .. });
        self.entries.iter().all(is_function)
    }
}

impl Drop for CudaKernel {
    fn drop(&mut self) {
        if let Some(module) = self.module {
            self.context.driver().unload_module(module);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cubins_run_on_later_minor_versions_and_own_features_on_one_alone() {
        for (own, arch, expected) in [
            ("sm_90a", "sm_90a", true),
            ("sm_90a", "sm_90", true),
            ("sm_86", "sm_80", true),
            ("sm_80", "sm_86", false),
            ("sm_90a", "sm_80", false),
            ("sm_100a", "sm_90a", false),
            ("sm_103a", "sm_100", true),
            ("sm_90", "sm_90a", false),
            ("sm_90", "portable", false),
        ] {
            assert_eq!(runs(own, arch), expected, "{own} {arch}");
        }
    }
}
