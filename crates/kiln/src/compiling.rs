//! When, where and for how long kernels are compiled, and what decides which code of a kernel runs.

#[cfg(feature = "native")]
use crate::error::{Error, Failure};
use kiln_lazy_runtime::{CompilePolicy, VariantOptions};
use std::time::Duration;

/// When, where and for how long kernels are compiled: set what differs from the defaults.
///
/// ```
/// use kiln::{CompilePolicy, Compiling, Options};
/// use std::time::Duration;
///
/// // No call waits longer than 10 ms for a compiler; the interpreter answers meanwhile.
/// let options = Options::new().compiling(Compiling {
///     policy: CompilePolicy::Background,
///     max_block: Some(Duration::from_millis(10)),
///     ..Compiling::default()
/// });
/// # let _ = options;
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Compiling {
    /// When kernels are compiled; by default when a call first needs them.
    pub policy: CompilePolicy,
    /// How long a call may wait for compilers, all its kernels together, before the interpreter answers in their place.
    /// Without it, as long as it takes where the policy waits at all.
    pub max_block: Option<Duration>,
    /// How long a call may wait for compilers before it fails with an error of kind
    /// [`Limit`](crate::ErrorKind::Limit). The compile goes on. Without it, calls wait.
    pub timeout: Option<Duration>,
    /// How much time may go into compiling in this process, for whichever model it is. When it is spent, what is not compiled
    /// is left to the interpreter, and [`CompilationStats`](crate::CompilationStats) say so. None by default.
    pub budget: Option<Duration>,
    /// How many threads compile, from 1 to 1024; without it, one per core. One of them at a time compiles what no call waits
    /// for.
    pub threads: Option<usize>,
    /// When kernels get variants for sizes that come often: the same kernel with the sizes fixed, compiled in the background
    /// and kept where it is measured to win. `None` is for no variants.
    pub variants: Option<VariantOptions>,
    /// Whether the same inputs give the same bits whenever they come, in this process and the next. Nothing that is
    /// measured then decides which code answers: no variants are made, and no other plans are tried. Nor may the
    /// interpreter answer while code is compiled, so `policy` must be [`FirstUse`](CompilePolicy::FirstUse) or
    /// [`AheadOfTime`](CompilePolicy::AheadOfTime), without `max_block` and `budget`: anything else is refused. False by
    /// default.
    pub deterministic: bool,
    /// Whether convolutions with windows of three by three may be computed with Winograd's F(4x4, 3x3): 36 products for
    /// sixteen sums instead of 64, which takes less time for images of many points. The usual F(2x2, 3x3) gives errors no
    /// larger than summing nine products does, this about 1.6 times those. False by default.
    pub fewer_products: bool,
    /// Where kernels are compiled: in this process, the default, or in workers, whose crashes, hangs and hunger for memory
    /// are errors of one kernel. What a compile there may take is [`Limits::compile`](crate::Limits).
    ///
    /// Loading fails with E0508, of kind [`Environment`](crate::ErrorKind::Environment), where a worker is asked for and
    /// there is no program to run as one.
    #[cfg(feature = "llvm")]
    pub compiler: crate::compiler::Compiler,
}

impl Default for Compiling {
    fn default() -> Self {
        Self {
            policy: CompilePolicy::default(),
            max_block: None,
            timeout: None,
            budget: None,
            threads: None,
            variants: Some(VariantOptions::default()),
            deterministic: false,
            fewer_products: false,
            #[cfg(feature = "llvm")]
            compiler: crate::compiler::Compiler::default(),
        }
    }
}

impl From<CompilePolicy> for Compiling {
    fn from(policy: CompilePolicy) -> Self {
        Self {
            policy,
            ..Self::default()
        }
    }
}

#[cfg(feature = "native")]
impl Compiling {
    /// # Errors
    /// When something contradicts being deterministic, and that is asked for.
    pub(crate) fn check(&self) -> Result<(), Error> {
        let is_compiled_first = matches!(
            self.policy,
            CompilePolicy::FirstUse | CompilePolicy::AheadOfTime
        );
        let what = match self {
            Self {
                deterministic: false,
                ..
            } => return Ok(()),
            _ if !is_compiled_first => "a policy by which the interpreter answers meanwhile",
            Self {
                max_block: Some(_), ..
            } => "max_block",
            Self {
                budget: Some(_), ..
            } => "a compile budget",
            _ => return Ok(()),
        };
        Err(Failure::NotDeterministic { what }.into())
    }
}
