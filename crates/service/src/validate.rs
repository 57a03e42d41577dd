//! Checks that a compiled kernel computes what its graph defines: [`KernelValidator`].
//!
//! There are four checks, each in its own file: results compared with the interpreter at random sizes, speed within
//! bounds, memory, and gradients. A failed check reports what is wrong, where and by how much, and can be repeated with
//! the same seed. There is no list of kernels with gradients: every graph that can be differentiated is checked with
//! its gradient.

mod correctness;
mod gradients;
pub mod guard;
mod memory;
mod performance;

pub use guard::GuardProgram;
pub use performance::PerformanceBounds;

use crate::error::ServiceError;
use crate::optimize::OptimizedKernel;
use kiln::Options;
use kiln::internals::ir::Graph;
use std::fmt;

/// A kind of check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum CheckKind {
    /// Results equal the interpreter's.
    Correctness,
    /// Speed is within bounds.
    Performance,
    /// Nothing is accessed out of bounds, and nothing leaks.
    Memory,
    /// Gradients equal finite differences of the function.
    Gradients,
}

impl fmt::Display for CheckKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Correctness => "correctness",
            Self::Performance => "performance",
            Self::Memory => "memory",
            Self::Gradients => "gradients",
        })
    }
}

/// How a check ended.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Outcome {
    /// It passed; the text says how much was checked.
    Passed(String),
    /// It failed.
    Failed(CheckFailure),
    /// There was nothing to check, for this reason.
    NotApplicable(String),
}

/// A failed check.
#[derive(Clone, Debug, PartialEq)]
pub struct CheckFailure {
    /// What failed, such as `output y`.
    pub what: String,
    /// Where it failed: sizes, an element, a step.
    pub place: String,
    /// How large the deviation was.
    pub amount: String,
}

impl fmt::Display for CheckFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at {}: {}", self.what, self.place, self.amount)
    }
}

/// All checks of a kernel.
#[derive(Clone, Debug, PartialEq)]
pub struct ValidationResult {
    /// Each check, in order.
    pub checks: Vec<(CheckKind, Outcome)>,
}

impl ValidationResult {
    /// Whether no check failed.
    pub fn passes(&self) -> bool {
        let mut outcomes = self.checks.iter();
        outcomes.all(|(_, outcome)| !matches!(outcome, Outcome::Failed(_)))
    }

    /// The outcome of a check, if it was run.
    pub fn outcome(&self, kind: CheckKind) -> Option<&Outcome> {
        let mut checks = self.checks.iter();
        checks
            .find(|(known, _)| *known == kind)
            .map(|(_, outcome)| outcome)
    }

    /// The failed checks, for a message.
    pub fn failures(&self) -> impl fmt::Display + '_ {
        struct Failures<'a>(&'a ValidationResult);
        impl fmt::Display for Failures<'_> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                let mut separator = "";
                for (kind, outcome) in &self.0.checks {
                    if let Outcome::Failed(failure) = outcome {
                        write!(f, "{separator}{kind}: {failure}")?;
                        separator = "; ";
                    }
                }
                Ok(())
            }
        }
        Failures(self)
    }
}

impl fmt::Display for ValidationResult {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (kind, outcome) in &self.checks {
            match outcome {
                Outcome::Passed(how) => writeln!(f, "{kind:<12} passed, {how}")?,
                Outcome::Failed(failure) => writeln!(f, "{kind:<12} FAILED, {failure}")?,
                Outcome::NotApplicable(why) => writeln!(f, "{kind:<12} not applicable: {why}")?,
            }
        }
        Ok(())
    }
}

/// Checks compiled kernels.
#[derive(Clone, Debug)]
pub struct KernelValidator {
    /// How many combinations of sizes are drawn: 6.
    pub shapes: usize,
    /// The seed of sizes and elements: 1.
    pub seed: u64,
    /// The maximum drawn size, if a symbol's bounds allow it: 17.
    pub largest_size: i64,
    /// The bounds on speed.
    pub bounds: PerformanceBounds,
    /// The program that runs memory checks; without one they are not applicable.
    pub guard: Option<GuardProgram>,
}

impl Default for KernelValidator {
    fn default() -> Self {
        Self {
            shapes: 6,
            seed: 1,
            largest_size: 17,
            bounds: PerformanceBounds::default(),
            guard: None,
        }
    }
}

impl KernelValidator {
    /// Sets a program that runs memory checks: each check runs in a separate process, which an out-of-bounds access
    /// ends.
    #[must_use]
    pub fn with_guard_program(self, program: GuardProgram) -> Self {
        Self {
            guard: Some(program),
            ..self
        }
    }

    /// Runs all checks of a kernel that was compiled from the graph. Gradients are compiled for the options' device and
    /// level, through their cache.
    ///
    /// # Errors
    /// When a check could not run.
    pub fn validate(
        &self,
        graph: &Graph,
        kernel: &OptimizedKernel,
        options: &Options,
    ) -> Result<ValidationResult, ServiceError> {
        let checks = vec![
            timed(CheckKind::Correctness, || {
                self.check_correctness(graph, &kernel.model)
            })?,
            timed(CheckKind::Performance, || {
                Ok(self.bounds.check(&kernel.profile, &kernel.plain))
            })?,
            timed(CheckKind::Memory, || {
                self.check_memory(graph, &kernel.model)
            })?,
            timed(CheckKind::Gradients, || {
                self.check_gradients(graph, options)
            })?,
        ];
        Ok(ValidationResult { checks })
    }
}

/// Runs a check within a span, which records its time.
fn timed(
    kind: CheckKind,
    check: impl FnOnce() -> Result<Outcome, ServiceError>,
) -> Result<(CheckKind, Outcome), ServiceError> {
    let _span = tracing::debug_span!("service.check", %kind).entered();
    let outcome = check()?;
    Ok((kind, outcome))
}
