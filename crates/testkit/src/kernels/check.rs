//! Checks that compiled code computes its kernel.
//!
//! The kernel's evaluator is the reference, in `f64` and in the declared types; [`explain`] judges by both. Results have
//! the same bits for any number of threads.

use kiln_backend::{
    Artifact, CallerOnly, CompileError, ExecuteError, Fault, FaultCause, KernelCompiler,
    KernelExecutor, LaunchContext, LoadedKernel, Schedule, Target, TaskPool, Unobserved,
};
use kiln_kernel::analysis::{SharedPair, may_share};
use kiln_kernel::{EvaluateError, Role, VerifiedKernel, evaluate};
use kiln_native::NativeExecutor;
use kiln_native::guard::Side;
use kiln_scalar::Mode;
use kiln_tensor::Tensor;
use std::sync::Arc;

use crate::oracle::{Unexplained, explain};

use super::launch::{LaunchError, run_guarded, run_in, run_in_place};
use super::pool::BackwardPool;

/// A kernel, compiled with one schedule for one target.
#[derive(Clone, Debug)]
pub struct Variant {
    /// The compiler's output.
    pub artifact: Artifact,
    /// The device's representation.
    pub loaded: LoadedKernel,
}

/// The result of one comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Checked {
    /// Every variant computed the kernel's results.
    Agreed,
    /// The kernel faults on these operands, and every variant did.
    Faulted,
}

/// How compiled code differs from its kernel's meaning.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Finding {
    /// It does not compile.
    #[error(transparent)]
    Compile(#[from] CompileError),
    /// The device rejects it.
    #[error("{variant}: {source}")]
    Load {
        /// Target and schedule.
        variant: String,
        /// The reason.
        source: ExecuteError,
    },
    /// The kernel has no meaning for these operands.
    #[error("the evaluator: {0}")]
    Evaluate(EvaluateError),
    /// It does not run, or accesses memory that it must not access.
    #[error("{variant}: {source}")]
    Launch {
        /// Target and schedule.
        variant: String,
        /// The reason.
        source: LaunchError,
    },
    /// Its fault differs from the kernel's.
    #[error("{variant}: expected {expected:?}, found {found:?}")]
    Fault {
        /// Target and schedule.
        variant: String,
        /// The kernel's fault.
        expected: Option<FaultCause>,
        /// The code's fault.
        found: Option<Fault>,
    },
    /// A wrong result.
    #[error("{variant}: %{buffer}{source}")]
    Result {
        /// Target and schedule.
        variant: String,
        /// The result.
        buffer: String,
        /// The difference.
        source: Unexplained,
    },
    /// A result computed in the memory of an operand differs in bits.
    #[error("{variant}: %{buffer} depends on whether it is computed in place of %{operand}")]
    InPlace {
        /// Target and schedule.
        variant: String,
        /// The result.
        buffer: String,
        /// The operand.
        operand: String,
    },
    /// With a different number of threads, bits differ.
    #[error("{variant}: %{buffer} depends on the number of threads")]
    Threads {
        /// Target and schedule.
        variant: String,
        /// The result.
        buffer: String,
    },
}

/// A kernel compiled with every schedule offered for each target, and for the last of them also with those offered for
/// `others`: an approximation of machines that are not available.
///
/// # Errors
/// If a schedule does not compile or load.
pub fn variants(
    compiler: &dyn KernelCompiler,
    executor: &dyn KernelExecutor,
    kernel: &VerifiedKernel,
    targets: &[Target],
    others: &[Target],
) -> Result<Vec<Variant>, Finding> {
    let mut variants: Vec<Variant> = Vec::new();
    let own = targets.iter().map(|target| (target, target));
    let last = targets.last().into_iter();
    let foreign = last.flat_map(|last| others.iter().map(move |other| (last, other)));
    for (target, from) in own.chain(foreign) {
        for candidate in compiler.schedules(kernel, from) {
            let schedule = &candidate.schedule;
            let is_known = |variant: &Variant| {
                variant.artifact.target == *target && variant.artifact.schedule == *schedule
            };
            if variants.iter().any(is_known) {
                continue;
            }
            let artifact = compiler.compile(kernel, target, schedule, &mut Unobserved)?;
            let loaded = executor.load(&artifact).map_err(|source| Finding::Load {
                variant: name(&artifact),
                source,
            })?;
            variants.push(Variant { artifact, loaded });
        }
    }
    Ok(variants)
}

/// A kernel compiled with one schedule for each target.
///
/// # Errors
/// If it does not compile or load.
pub fn variants_with(
    compiler: &dyn KernelCompiler,
    executor: &dyn KernelExecutor,
    kernel: &VerifiedKernel,
    targets: &[Target],
    schedule: &Schedule,
) -> Result<Vec<Variant>, Finding> {
    let variant = |target: &Target| {
        let artifact = compiler.compile(kernel, target, schedule, &mut Unobserved)?;
        let loaded = executor.load(&artifact).map_err(|source| Finding::Load {
            variant: name(&artifact),
            source,
        })?;
        Ok(Variant { artifact, loaded })
    };
    targets.iter().map(variant).collect()
}

/// Runs every variant on these operands, on one thread with the actual caches, and as if on three threads without
/// caches, and compares. If bits differ, the same caches must give the same bits on one thread. Then runs them once
/// with operands that end at a guard page, and once with operands that begin after one. If a result may share the
/// memory of an operand, it must have the same bits there.
///
/// # Errors
/// The first difference.
pub fn check_kernel(
    executor: &NativeExecutor,
    kernel: &VerifiedKernel,
    variants: &[Variant],
    symbols: &[i64],
    tensors: &[Tensor],
) -> Result<Checked, Finding> {
    let meaning = Meaning::of(kernel, symbols, tensors)?;
    let (alone, three): (Arc<dyn TaskPool>, Arc<dyn TaskPool>) =
        (Arc::new(CallerOnly), Arc::new(BackwardPool::new(3)));
    let (caches, no_caches) = (executor.caches(), [1; 3]);
    for variant in variants {
        let (artifact, loaded) = (&variant.artifact, &variant.loaded);
        let judge = |ran: Result<(Vec<Tensor>, Option<Fault>), LaunchError>| {
            let (found, fault) = ran.map_err(|source| Finding::Launch {
                variant: name(artifact),
                source,
            })?;
            let judged = meaning.judge(kernel, artifact, &found, fault);
            judged.map(|_| found)
        };
        let code = (artifact, loaded);
        let run = |pool: &Arc<dyn TaskPool>, caches| {
            let context = LaunchContext {
                symbols,
                threads: pool.threads(),
                caches,
            };
            judge(run_in(executor, kernel, code, &context, tensors, pool))
        };
        for side in [Side::After, Side::Before] {
            let context = LaunchContext {
                symbols,
                threads: 1,
                caches,
            };
            judge(run_guarded(executor, kernel, code, &context, tensors, side))?;
        }
        let (found, on_three) = (run(&alone, caches)?, run(&three, no_caches)?);
        let same = same_bits(kernel, &name(artifact), &found, &on_three);
        if meaning.fault.is_none() && same.is_err() {
            // Caches may affect the order of summation, threads may not.
            same_bits(kernel, &name(artifact), &run(&alone, no_caches)?, &on_three)?;
        }
        for pair in may_share(kernel.kernel()) {
            for (pool, apart) in [(&alone, &found), (&three, &on_three)] {
                let context = LaunchContext {
                    symbols,
                    threads: pool.threads(),
                    caches: if pool.threads() > 1 {
                        no_caches
                    } else {
                        caches
                    },
                };
                let ran = run_in_place(executor, kernel, code, &context, tensors, pool, pair);
                check_in_place(kernel, &name(artifact), pair, apart, &judge(ran)?)?;
            }
        }
    }
    Ok(meaning.checked())
}

fn name(artifact: &Artifact) -> String {
    format!("{} {}", artifact.target, artifact.schedule)
}

/// The meaning of a kernel for some operands.
#[derive(Debug)]
pub struct Meaning {
    fault: Option<FaultCause>,
    /// Results in `f64`.
    promoted: Vec<Tensor>,
    /// Results in the declared types.
    declared: Vec<Tensor>,
}

impl Meaning {
    /// The evaluator's results, given a tensor per buffer.
    ///
    /// # Errors
    /// When the kernel has no meaning for these operands.
    pub fn of(
        kernel: &VerifiedKernel,
        symbols: &[i64],
        tensors: &[Tensor],
    ) -> Result<Self, Finding> {
        let mut results = Vec::new();
        for mode in [Mode::Promoted, Mode::Declared] {
            let mut buffers = tensors.to_vec();
            let fault = match evaluate(kernel, symbols, &mut buffers, mode) {
                Ok(()) => None,
                Err(EvaluateError::IndexOutOfRange { .. }) => Some(FaultCause::IndexOutOfRange),
                Err(error) if error.to_string().contains("zero") => {
                    Some(FaultCause::DivisionByZero)
                }
                Err(error) => return Err(Finding::Evaluate(error)),
            };
            let written = kernel.buffers().values().zip(buffers);
            let written: Vec<Tensor> = written
                .filter(|(buffer, _)| buffer.role.is_written())
                .map(|(_, tensor)| tensor)
                .collect();
            results.push((fault, written));
        }
        let [(_, promoted), (fault, declared)]: [_; 2] = match results.try_into() {
            Ok(results) => results,
            Err(_) => unreachable!("there are two modes"),
        };
        Ok(Self {
            fault,
            promoted,
            declared,
        })
    }

    /// Judges the outcome of a launch of an artifact: the written buffers in order, and its fault.
    ///
    /// # Errors
    /// The first difference.
    pub fn judge(
        &self,
        kernel: &VerifiedKernel,
        artifact: &Artifact,
        found: &[Tensor],
        fault: Option<Fault>,
    ) -> Result<Checked, Finding> {
        if fault.map(|fault| fault.cause) != self.fault {
            return Err(Finding::Fault {
                variant: name(artifact),
                expected: self.fault,
                found: fault,
            });
        }
        if self.fault.is_none() {
            self.compare(kernel, &name(artifact), found)?;
        }
        Ok(self.checked())
    }

    fn checked(&self) -> Checked {
        match self.fault {
            None => Checked::Agreed,
            Some(_) => Checked::Faulted,
        }
    }

    fn compare(
        &self,
        kernel: &VerifiedKernel,
        variant: &str,
        found: &[Tensor],
    ) -> Result<(), Finding> {
        let results = kernel
            .buffers()
            .values()
            .filter(|buffer| matches!(buffer.role, Role::Out | Role::InOut));
        for (((buffer, promoted), declared), found) in
            results.zip(&self.promoted).zip(&self.declared).zip(found)
        {
            explain(promoted, declared, found).map_err(|source| Finding::Result {
                variant: variant.to_owned(),
                buffer: buffer.name.clone(),
                source,
            })?;
        }
        Ok(())
    }
}

/// Whether results computed in place have the same bits as those computed in separate memory.
fn check_in_place(
    kernel: &VerifiedKernel,
    variant: &str,
    pair: SharedPair,
    apart: &[Tensor],
    in_place: &[Tensor],
) -> Result<(), Finding> {
    same_bits(kernel, variant, apart, in_place).map_err(|finding| match finding {
        Finding::Threads { variant, buffer } => Finding::InPlace {
            variant,
            buffer,
            operand: kernel.kernel().buffer(pair.read).name.clone(),
        },
        other => other,
    })
}

fn same_bits(
    kernel: &VerifiedKernel,
    variant: &str,
    first: &[Tensor],
    second: &[Tensor],
) -> Result<(), Finding> {
    let results = kernel
        .buffers()
        .values()
        .filter(|buffer| buffer.role.is_written());
    for ((buffer, first), second) in results.zip(first).zip(second) {
        if !first.bit_equal(second) {
            return Err(Finding::Threads {
                variant: variant.to_owned(),
                buffer: buffer.name.clone(),
            });
        }
    }
    Ok(())
}
