//! The interface of a backend that compiles kernels: [`KernelCompiler`].

use kiln_symbolic_shape::Predicate;
use serde::{Deserialize, Serialize};

use crate::artifact::Artifact;
use crate::schedule::{Schedule, Target};
use kiln_kernel::VerifiedKernel;

/// A schedule that a backend offers for a kernel.
#[derive(Clone, Debug)]
pub struct Candidate {
    /// The schedule.
    pub schedule: Schedule,
    /// The conditions on the kernel's sizes under which it is valid; empty for a generic one. Sizes are of the kernel's
    /// table.
    pub predicate: Vec<Predicate>,
    /// The buffers for which it prefers a different order of the axes in memory.
    pub layouts: Vec<PreferredLayout>,
    /// Estimated nanoseconds for a call at the kernel's hints, on one thread.
    pub cost: f64,
}

/// The order of a buffer's axes in memory that a schedule prefers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PreferredLayout {
    /// The buffer, by position.
    pub buffer: usize,
    /// Its axes, outermost first.
    pub order: Vec<usize>,
    /// Whether the kernel is faster with a copy in this order, including the time for copying.
    pub is_worth_copying: bool,
}

/// A phase of compiling, for observers that measure it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum CompilePhase {
    /// Generating the backend's intermediate form (LLVM IR, CUDA C) from the kernel.
    Lower,
    /// Checking that form.
    Verify,
    /// Optimising it.
    Optimize,
    /// Generating machine code from it.
    Emit,
}

/// Notified when a phase of compiling begins and ends; the layers above the backends have the clocks.
pub trait CompileObserver {
    /// A phase begins.
    fn begin(&mut self, phase: CompilePhase);
    /// The phase that began last ends.
    fn end(&mut self, phase: CompilePhase);
    /// Whether the result is no longer needed. A compiler that can stop polls it.
    fn is_cancelled(&self) -> bool {
        false
    }
}

/// An observer that does nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Unobserved;

impl CompileObserver for Unobserved {
    fn begin(&mut self, _phase: CompilePhase) {}
    fn end(&mut self, _phase: CompilePhase) {}
}

/// A human-readable form of a compiled kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Listing {
    /// The backend's intermediate form: LLVM IR, CUDA C.
    Source,
    /// Machine code, disassembled.
    Assembly,
}

/// Why a kernel could not be compiled.
#[derive(Debug, thiserror::Error)]
#[error("cannot compile kernel @{kernel} for {target} with {schedule}: {source}")]
pub struct CompileError {
    /// The kernel's name.
    pub kernel: String,
    /// The target.
    pub target: Target,
    /// The schedule.
    pub schedule: Schedule,
    /// The stable code of the backend's error.
    pub code: &'static str,
    /// The backend's error.
    pub source: Box<dyn std::error::Error + Send + Sync>,
}

/// A backend: verified kernels in, artifacts out. It does not wait, spawn threads or read a clock.
pub trait KernelCompiler: Send + Sync {
    /// The backend's name and the version of the code generator: part of every key.
    fn version(&self) -> String;

    /// The target of the machine on which this runs.
    fn host(&self) -> Target;

    /// The machine's features that code for a target may use, in the backend's spelling: part of every key.
    fn features(&self, _target: &Target) -> Vec<String> {
        Vec::new()
    }

    /// Whether it compiles for a target.
    fn supports(&self, target: &Target) -> bool;

    /// The schedules it offers, best first; the last one is generic and accepts every call of the kernel's contract.
    fn schedules(&self, kernel: &VerifiedKernel, target: &Target) -> Vec<Candidate>;

    /// Adapts a schedule of a more general kernel to one with more known sizes: the same choices, for comparison with
    /// those made for the known sizes. `None` if these are the same, or the schedule does not fit.
    fn adapted(
        &self,
        _kernel: &VerifiedKernel,
        _target: &Target,
        general: &Schedule,
    ) -> Option<Schedule> {
        Some(general.clone())
    }

    /// Compiles.
    ///
    /// # Errors
    /// The backend's own, with the kernel's name.
    fn compile(
        &self,
        kernel: &VerifiedKernel,
        target: &Target,
        schedule: &Schedule,
        observer: &mut dyn CompileObserver,
    ) -> Result<Artifact, CompileError>;

    /// A kernel in a human-readable form.
    ///
    /// # Errors
    /// As [`compile`](Self::compile).
    fn listing(
        &self,
        kernel: &VerifiedKernel,
        target: &Target,
        schedule: &Schedule,
        listing: Listing,
    ) -> Result<String, CompileError>;

    /// Forgets failed compiles, if they are remembered, so that the next request tries again.
    fn forget_failures(&self) {}
}

impl CompileError {
    /// The code of a compile that ended because every waiting caller was cancelled. It implies nothing about the kernel, so
    /// the next caller compiles it again.
    pub const CANCELLED: &str = "E0515";
}
