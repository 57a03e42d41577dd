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
/// // No call waits longer than 10 ms for a compiler; meanwhile steps are interpreted.
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
    /// How long a call may wait for compilers, over all its kernels, before the interpreter runs the steps that still lack
    /// code. By default without limit, if the policy waits at all.
    pub max_block: Option<Duration>,
    /// How long a call may wait for compilers before it fails with an error of kind [`Limit`](crate::ErrorKind::Limit). The
    /// compile continues. By default calls wait without limit.
    pub timeout: Option<Duration>,
    /// How much time this process may spend compiling, over all models. Once it is spent, whatever is not compiled is
    /// interpreted, which [`CompilationStats`](crate::CompilationStats) report. No limit by default.
    pub budget: Option<Duration>,
    /// How many threads compile, from 1 to 1024; by default one per core. At most one of them at a time compiles kernels
    /// that no call waits for.
    pub threads: Option<usize>,
    /// When kernels get variants for frequent sizes: the same kernel with the sizes fixed, compiled in the background and
    /// kept if measurements show that it is faster. `None` disables variants.
    pub variants: Option<VariantOptions>,
    /// Whether the same inputs always give the same bits, in this process and the next. Measurements then never decide
    /// which code runs: there are no variants, and no alternative plans are tried. Nor may the interpreter run steps
    /// while code is compiled, so `policy` must be [`FirstUse`](CompilePolicy::FirstUse) or
    /// [`AheadOfTime`](CompilePolicy::AheadOfTime), without `max_block` and `budget`: anything else is rejected. False
    /// by default.
    pub deterministic: bool,
    /// Whether 3 x 3 convolutions may use Winograd's F(4x4, 3x3): 36 products per sixteen sums instead of 64, which is
    /// faster for large images. The errors of the usual F(2x2, 3x3) are no larger than those of summing nine products;
    /// those of this one are about 1.6 times as large. False by default.
    pub fewer_products: bool,
    /// Where kernels are compiled: in this process, the default, or in workers, whose crashes, hangs and excessive memory
    /// use are errors of one kernel. [`Limits::compile`](crate::Limits) bounds each compile in a worker.
    ///
    /// Loading fails with E0508, of kind [`Environment`](crate::ErrorKind::Environment), if a worker is requested and there
    /// is no program to run as one.
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
    /// When determinism is requested and another option contradicts it.
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
            _ if !is_compiled_first => "a policy that interprets while code is compiled",
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
