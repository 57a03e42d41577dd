//! Whether compiled code does what a kernel means.
//!
//! The kernel's evaluator says what it means, in `f64` and in the declared types. Compiled floats may be as far from the
//! former as a few times the latter is, and a little further; integers are equal to either. Results have the same bits
//! whatever the threads.

use kiln_kernel::{
    Artifact, CallerOnly, CompileError, EvaluateError, ExecuteError, Fault, FaultCause, KernelCompiler,
    KernelExecutor, LoadedKernel, Role, Target, TaskPool, Unobserved, VerifiedKernel, evaluate,
};
use kiln_scalar::{Mode, ScalarValue};
use kiln_tensor::{DType, Tensor, match_dtype};
use std::sync::Arc;

use super::launch::{LaunchError, run_kernel};
use super::pool::BackwardPool;

/// A kernel, compiled with one schedule for one target.
#[derive(Clone, Debug)]
pub struct Variant {
    /// What the compiler made.
    pub artifact: Artifact,
    /// What the device made of it.
    pub loaded: LoadedKernel,
}

/// What came of one comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Checked {
    /// Every variant gave what the kernel means.
    Agreed,
    /// The kernel faults on these operands, and every variant did.
    Faulted,
}

/// How compiled code differs from what its kernel means.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Finding {
    /// It does not compile.
    #[error(transparent)]
    Compile(#[from] CompileError),
    /// The device does not take it.
    #[error("{variant}: {source}")]
    Load {
        /// Target and schedule.
        variant: String,
        /// Why.
        source: ExecuteError,
    },
    /// The kernel has no meaning on these operands.
    #[error("the evaluator: {0}")]
    Evaluate(EvaluateError),
    /// It does not run, or runs where it may not.
    #[error("{variant}: {source}")]
    Launch {
        /// Target and schedule.
        variant: String,
        /// Why.
        source: LaunchError,
    },
    /// It faults otherwise than the kernel.
    #[error("{variant}: expected {expected:?}, found {found:?}")]
    Fault {
        /// Target and schedule.
        variant: String,
        /// The kernel's fault.
        expected: Option<FaultCause>,
        /// The code's.
        found: Option<Fault>,
    },
    /// It gives something else.
    #[error(
        "{variant}: %{buffer}{index:?}: expected {promoted} ({declared} in the declared type), found {found} \
         ({count} of {total} elements are wrong)"
    )]
    Element {
        /// Target and schedule.
        variant: String,
        /// The result.
        buffer: String,
        /// Where the first wrong element is.
        index: Vec<usize>,
        /// The element in `f64`.
        promoted: f64,
        /// The element in the declared type.
        declared: f64,
        /// The element found.
        found: f64,
        /// How many elements are wrong.
        count: usize,
        /// How many there are.
        total: usize,
    },
    /// Another number of threads gives other bits.
    #[error("{variant}: %{buffer} depends on the number of threads")]
    Threads {
        /// Target and schedule.
        variant: String,
        /// The result.
        buffer: String,
    },
}

/// A kernel compiled with every schedule that is offered for each target.
///
/// # Errors
/// If a schedule does not compile or load.
pub fn variants(
    compiler: &dyn KernelCompiler,
    executor: &dyn KernelExecutor,
    kernel: &VerifiedKernel,
    targets: &[Target],
) -> Result<Vec<Variant>, Finding> {
    let mut variants = Vec::new();
    for target in targets {
        for candidate in compiler.schedules(kernel, target) {
            let artifact = compiler.compile(kernel, target, &candidate.schedule, &mut Unobserved)?;
            let loaded = executor.load(&artifact).map_err(|source| Finding::Load {
                variant: name(&artifact),
                source,
            })?;
            variants.push(Variant { artifact, loaded });
        }
    }
    Ok(variants)
}

/// Runs every variant on these operands, on one thread and as if on three, and compares.
///
/// # Errors
/// The first difference.
pub fn check_kernel(
    executor: &dyn KernelExecutor,
    kernel: &VerifiedKernel,
    variants: &[Variant],
    symbols: &[i64],
    tensors: &[Tensor],
) -> Result<Checked, Finding> {
    let meaning = Meaning::of(kernel, symbols, tensors)?;
    let pools: [Arc<dyn TaskPool>; 2] = [Arc::new(CallerOnly), Arc::new(BackwardPool::new(3))];
    for variant in variants {
        let mut first: Option<Vec<Tensor>> = None;
        for pool in &pools {
            let (artifact, loaded) = (&variant.artifact, &variant.loaded);
            let ran = run_kernel(executor, kernel, artifact, loaded, symbols, tensors, pool);
            let (found, fault) = ran.map_err(|source| Finding::Launch {
                variant: name(artifact),
                source,
            })?;
            if fault.map(|fault| fault.cause) != meaning.fault {
                return Err(Finding::Fault {
                    variant: name(artifact),
                    expected: meaning.fault,
                    found: fault,
                });
            }
            if meaning.fault.is_some() {
                continue;
            }
            meaning.compare(kernel, &name(artifact), &found)?;
            match &first {
                None => first = Some(found),
                Some(first) => same_bits(kernel, &name(artifact), first, &found)?,
            }
        }
    }
    Ok(match meaning.fault {
        None => Checked::Agreed,
        Some(_) => Checked::Faulted,
    })
}

fn name(artifact: &Artifact) -> String {
    format!("{} {}", artifact.target, artifact.schedule)
}

/// What a kernel means on some operands.
struct Meaning {
    fault: Option<FaultCause>,
    /// Results in `f64`.
    promoted: Vec<Tensor>,
    /// Results in the declared types.
    declared: Vec<Tensor>,
}

impl Meaning {
    fn of(kernel: &VerifiedKernel, symbols: &[i64], tensors: &[Tensor]) -> Result<Self, Finding> {
        let mut results = Vec::new();
        for mode in [Mode::Promoted, Mode::Declared] {
            let mut buffers = tensors.to_vec();
            let fault = match evaluate(kernel, symbols, &mut buffers, mode) {
                Ok(()) => None,
                Err(EvaluateError::IndexOutOfRange { .. }) => Some(FaultCause::IndexOutOfRange),
                Err(error) if error.to_string().contains("zero") => Some(FaultCause::DivisionByZero),
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

    fn compare(&self, kernel: &VerifiedKernel, variant: &str, found: &[Tensor]) -> Result<(), Finding> {
        let results = kernel
            .buffers()
            .values()
            .filter(|buffer| matches!(buffer.role, Role::Out | Role::InOut));
        for (((buffer, promoted), declared), found) in
            results.zip(&self.promoted).zip(&self.declared).zip(found)
        {
            let shape = promoted.shape();
            let values = [promoted, declared, found].map(numbers);
            let [promoted, declared, numbers] = &values;
            let rule = Rule::of(buffer.dtype, promoted, declared);
            let is_wrong = |&at: &usize| {
                found.dtype() != buffer.dtype || !rule.allows(promoted[at], declared[at], numbers[at])
            };
            let mut wrong = (0..numbers.len()).filter(is_wrong);
            let Some(at) = wrong.next() else {
                continue;
            };
            return Err(Finding::Element {
                variant: variant.to_owned(),
                buffer: buffer.name.clone(),
                index: index_of(at, shape),
                promoted: promoted[at],
                declared: declared[at],
                found: numbers[at],
                count: 1 + wrong.count(),
                total: numbers.len(),
            });
        }
        Ok(())
    }
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

/// How far from what it should be an element may be.
struct Rule {
    is_float: bool,
    /// As far as the declared types are off anywhere in the tensor, times a few.
    absolute: f64,
    relative: f64,
}

/// How many times as far off as the declared types compiled code may be: it adds in another order.
const TIMES: f64 = 8.0;

impl Rule {
    fn of(dtype: DType, promoted: &[f64], declared: &[f64]) -> Self {
        let off = promoted.iter().zip(declared).map(|(a, b)| (a - b).abs());
        let absolute = TIMES * off.filter(|off| off.is_finite()).fold(0.0, f64::max);
        let relative = match dtype {
            DType::F64 => 1e-11,
            DType::F16 => 2e-3,
            DType::BF16 => 1.6e-2,
            _ => 1e-5,
        };
        Self {
            is_float: dtype.is_float(),
            absolute,
            relative,
        }
    }

    fn allows(&self, promoted: f64, declared: f64, found: f64) -> bool {
        let same = |a: f64| a == found || (a.is_nan() && found.is_nan());
        if !self.is_float || !(promoted.is_finite() && declared.is_finite()) {
            return same(promoted) || same(declared) || (self.is_float && !declared.is_finite() && same(promoted as f32 as f64));
        }
        (promoted - found).abs() <= self.absolute + self.relative * promoted.abs().max(1.0)
    }
}

/// Elements as numbers. Integers of 64 bits that no `f64` is are rare enough in tests.
fn numbers(tensor: &Tensor) -> Vec<f64> {
    match_dtype!(tensor.dtype(), T => {
        let elements = tensor.to_vec::<T>().unwrap_or_default();
        elements.into_iter().map(|element| ScalarValue::from(element).to_f64()).collect()
    })
}

fn index_of(position: usize, shape: &[usize]) -> Vec<usize> {
    let mut rest = position;
    let mut index = Vec::with_capacity(shape.len());
    for &size in shape.iter().rev() {
        index.push(rest % size.max(1));
        rest /= size.max(1);
    }
    index.reverse();
    index
}
