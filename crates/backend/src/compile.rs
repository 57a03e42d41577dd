//! The interface of a backend that compiles kernels: [`KernelCompiler`].

use kiln_symbolic_shape::Predicate;

use crate::artifact::Artifact;
use crate::schedule::{Schedule, Target};
use kiln_kernel::VerifiedKernel;

/// A schedule that a backend offers for a kernel.
#[derive(Clone, Debug)]
pub struct Candidate {
    /// The schedule.
    pub schedule: Schedule,
    /// What must hold of the kernel's sizes for it to be right; empty for a generic one. Sizes are of the kernel's table.
    pub predicate: Vec<Predicate>,
    /// Buffers, by position, that it would rather have with their axes in another order in memory, outermost first.
    pub layouts: Vec<(usize, Vec<usize>)>,
    /// Estimated nanoseconds for a call at the kernel's hints, on one thread.
    pub cost: f64,
}

/// A phase of compiling, for observers that measure it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum CompilePhase {
    /// Kernel to the backend's own form (LLVM IR, CUDA C).
    Lower,
    /// Checking that form.
    Verify,
    /// Optimising it.
    Optimize,
    /// Machine code from it.
    Emit,
}

/// Notified when a phase of compiling begins and ends; clocks live above the backends.
pub trait CompileObserver {
    /// A part begins.
    fn begin(&mut self, phase: CompilePhase);
    /// The part that began last ends.
    fn end(&mut self, phase: CompilePhase);
    /// Whether the result is no longer wanted. A compiler that can stop polls it.
    fn is_cancelled(&self) -> bool {
        false
    }
}

/// Watches nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Unobserved;

impl CompileObserver for Unobserved {
    fn begin(&mut self, _phase: CompilePhase) {}
    fn end(&mut self, _phase: CompilePhase) {}
}

/// A form of a compiled kernel that people read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Listing {
    /// The backend's own form: LLVM IR, CUDA C.
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
    /// What for.
    pub target: Target,
    /// How.
    pub schedule: Schedule,
    /// The stable code of the backend's error.
    pub code: &'static str,
    /// The backend's error.
    pub source: Box<dyn std::error::Error + Send + Sync>,
}

/// A backend: verified kernels in, artifacts out. Neither waits, spawns threads nor looks at a clock.
pub trait KernelCompiler: Send + Sync {
    /// The backend's name and the version of whatever makes its code: part of every key.
    fn version(&self) -> String;

    /// The target of the machine this runs on.
    fn host(&self) -> Target;

    /// The features of the machine that code for a target may use, as the backend spells them: part of every key.
    fn features(&self, _target: &Target) -> Vec<String> {
        Vec::new()
    }

    /// Whether it compiles for a target.
    fn supports(&self, target: &Target) -> bool;

    /// The schedules it offers, best first; the last one is generic and takes every call of the kernel's contract.
    fn schedules(&self, kernel: &VerifiedKernel, target: &Target) -> Vec<Candidate>;

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

    /// A kernel as a form for people.
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

    /// Forgets which kernels did not compile, where that is remembered: the next request tries again.
    fn forget_failures(&self) {}
}

impl CompileError {
    /// The code of a compile that ended because every caller that waited for it was cancelled. It says nothing of the kernel,
    /// so that the next caller compiles it again.
    pub const CANCELLED: &str = "E0515";
}
