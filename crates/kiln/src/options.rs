//! How to load and run a model: one builder, every switch with a sensible default.

use crate::cache::Cache;
use crate::device::Device;
use crate::dim::Dim;
use crate::importing::Importing;
use crate::limits::Limits;
use crate::notice::{Notice, Notices};
use crate::progress::{Listener, Progress};
use crate::recording::Recording;
use kiln_backend::MemoryLimits;
use kiln_kernel_cache::LruLimits;
use kiln_lazy_runtime::{
    CallControl, CallOptions, CompilePolicy, OutputPlacement, Runtime, RuntimeOptions, SystemClock,
    VariantOptions,
};
use kiln_scalar::Mode as InterpreterMode;
use kiln_shape_inference::Mode;
use std::collections::BTreeMap;
use std::fmt;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

/// How to load and run a model.
///
/// ```
/// use kiln::{Dim, Model, Options};
///
/// let text = "graph @id(%x: f32[batch, seq]) -> f32[batch, seq] { return %x }";
/// let options = Options::new()
///     .dim("seq", Dim::range(1..=512).multiple_of(8).likely(128))
///     .dim("batch", Dim::fixed(1));
/// let model = Model::from_text_with(text, options)?;
/// assert_eq!(model.inputs()[0].to_string(), "x: f32[1, seq]");
/// # Ok::<(), kiln::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Options {
    pub(crate) dims: BTreeMap<String, Dim>,
    pub(crate) ranks: BTreeMap<String, usize>,
    pub(crate) importing: Importing,
    pub(crate) passes: bool,
    pub(crate) freeze: bool,
    #[cfg_attr(
        not(feature = "onnx"),
        allow(dead_code, reason = "only ONNX models state types")
    )]
    pub(crate) mode: Mode,
    pub(crate) interpreter_mode: InterpreterMode,
    pub(crate) device: Option<Device>,
    #[cfg_attr(
        not(feature = "native"),
        expect(dead_code, reason = "the interpreter uses one thread")
    )]
    pub(crate) threads: usize,
    #[cfg_attr(
        not(feature = "native"),
        expect(dead_code, reason = "only compiled code has a target")
    )]
    pub(crate) target: Option<String>,
    #[cfg_attr(
        not(feature = "native"),
        expect(dead_code, reason = "only compiled kernels can be shared")
    )]
    pub(crate) shared_kernels: bool,
    #[cfg_attr(
        not(feature = "native"),
        allow(dead_code, reason = "only compiled code has a runtime")
    )]
    pub(crate) runtime: Option<Arc<Runtime>>,
    #[cfg_attr(
        not(feature = "native"),
        expect(dead_code, reason = "the interpreter's outputs are the host's")
    )]
    pub(crate) outputs: OutputPlacement,
    #[cfg_attr(
        not(feature = "native"),
        allow(dead_code, reason = "only compiled code is kept")
    )]
    pub(crate) cache: Cache,
    #[cfg_attr(
        not(feature = "native"),
        allow(dead_code, reason = "only compiled code is compiled")
    )]
    pub(crate) compiling: Compiling,
    #[cfg(feature = "llvm")]
    pub(crate) compiler: crate::compiler::Compiler,
    pub(crate) limits: Limits,
    pub(crate) recording: Recording,
    pub(crate) listener: Listener,
    pub(crate) notices: Notices,
    pub(crate) stop: StopQuestion,
}

impl Default for Options {
    fn default() -> Self {
        Self::new()
    }
}

impl Options {
    /// The defaults.
    pub fn new() -> Self {
        Self {
            dims: BTreeMap::new(),
            ranks: BTreeMap::new(),
            importing: Importing::default(),
            passes: true,
            freeze: true,
            mode: Mode::Lenient,
            interpreter_mode: InterpreterMode::Declared,
            device: None,
            threads: 0,
            target: None,
            shared_kernels: true,
            runtime: None,
            outputs: OutputPlacement::default(),
            cache: Cache::default(),
            compiling: Compiling::default(),
            #[cfg(feature = "llvm")]
            compiler: crate::compiler::Compiler::default(),
            limits: Limits::default(),
            recording: Recording::default(),
            listener: Listener::default(),
            notices: Notices::default(),
            stop: StopQuestion::default(),
        }
    }

    /// Constrains the dimension that the model calls `name`. Loading fails when the model has no
    /// such dimension.
    #[must_use]
    pub fn dim(mut self, name: impl Into<String>, dim: Dim) -> Self {
        self.dims.insert(name.into(), dim);
        self
    }

    /// Says the rank of an input whose rank the model leaves open. Without it, the model is built
    /// once for each combination of ranks that calls bring, at the first such call.
    #[must_use]
    pub fn rank(mut self, input: impl Into<String>, rank: usize) -> Self {
        self.ranks.insert(input.into(), rank);
        self
    }

    /// Whether the graph is optimised before it runs; on by default.
    #[must_use]
    pub fn passes(self, passes: bool) -> Self {
        Self { passes, ..self }
    }

    /// Whether constant parameters are folded into each other (such as a batch norm into the
    /// weights before it); on by default. Off where parameters are to stay recognisable.
    #[must_use]
    pub fn freeze(self, freeze: bool) -> Self {
        Self { freeze, ..self }
    }

    /// What to do where types that a model states contradict those inferred from its ops.
    ///
    /// `Lenient` (the default) goes by what is inferred, because many exporters leave stale shapes
    /// behind; `Strict` refuses the model.
    #[must_use]
    pub fn mode(self, mode: Mode) -> Self {
        Self { mode, ..self }
    }

    /// How the interpreter rounds.
    ///
    /// `Declared` (the default) rounds every op's result as its dtype says. `Promoted` computes
    /// every float as an `f64`, and float outputs are `f64`: the yardstick for accuracy.
    #[must_use]
    pub fn interpreter_mode(self, interpreter_mode: InterpreterMode) -> Self {
        Self {
            interpreter_mode,
            ..self
        }
    }

    /// What executes the model; without it, [`Device::default`]. A device that is asked for is
    /// used, or the model is refused; the default gives way to the interpreter where a model cannot
    /// be compiled, and says so to [`on_notice`](Self::on_notice).
    ///
    /// ```
    /// use kiln::{Device, Options};
    ///
    /// let options = Options::new().device("interpreter".parse::<Device>()?);
    /// # let _ = options;
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[must_use]
    pub fn device(self, device: Device) -> Self {
        Self {
            device: Some(device),
            ..self
        }
    }

    /// How many threads a call may use; 0, the default, means one per core. Results do not depend
    /// on it. The interpreter always uses one, whatever is said here.
    #[must_use]
    pub fn threads(self, threads: usize) -> Self {
        Self { threads, ..self }
    }

    /// The level of the device that code is compiled for, by name: on a CPU an instruction set, `portable`, `avx2+fma`,
    /// `avx512`. Without it, that of the device's key, or else the highest that this machine has. The interpreter has no use
    /// for it.
    #[must_use]
    pub fn target(self, level: impl Into<String>) -> Self {
        Self {
            target: Some(level.into()),
            ..self
        }
    }

    /// Whether compiled kernels, constants and threads are shared with the other models of this
    /// process that have the same number of threads and the same target; on by default. Off, the
    /// model has its own, and [`Model::compilation_stats`](crate::Model::compilation_stats) counts
    /// its work alone.
    #[must_use]
    pub fn shared_kernels(self, shared_kernels: bool) -> Self {
        Self {
            shared_kernels,
            ..self
        }
    }

    /// The runtime that compiled code runs on, with a compiler, a device and threads of one's own;
    /// what the options say of threads, target and sharing then counts for nothing.
    #[must_use]
    pub fn runtime(self, runtime: Arc<Runtime>) -> Self {
        Self {
            runtime: Some(runtime),
            ..self
        }
    }

    /// Where the outputs of calls are when a call returns. By default where they were computed: on a device with a memory of
    /// its own they stay in it, calls on that device read them there, and they are downloaded when the host first looks at
    /// their elements, which fails with an error of the tensor where the device does. A CPU's memory is the host's, so there
    /// is no difference.
    ///
    /// ```
    /// use kiln::{Options, OutputPlacement};
    ///
    /// // Downloading is part of each call, and so are its errors.
    /// let options = Options::new().outputs(OutputPlacement::Host);
    /// # let _ = options;
    /// ```
    #[must_use]
    pub fn outputs(self, outputs: OutputPlacement) -> Self {
        Self { outputs, ..self }
    }

    /// Where compiled code is kept between processes; by default in a folder of this user.
    #[must_use]
    pub fn cache(self, cache: Cache) -> Self {
        Self { cache, ..self }
    }

    /// When kernels are compiled; by default when a call first needs them.
    ///
    /// ```
    /// use kiln::{CompilePolicy, Options};
    /// use std::time::Duration;
    ///
    /// // No call waits longer than 10 ms for a compiler; the interpreter answers meanwhile.
    /// let options = Options::new()
    ///     .policy(CompilePolicy::Background)
    ///     .max_block(Duration::from_millis(10));
    /// # let _ = options;
    /// ```
    #[must_use]
    pub fn policy(mut self, policy: CompilePolicy) -> Self {
        self.compiling.policy = policy;
        self
    }

    /// How long a call may wait for compilers, all its kernels together, before the interpreter answers in their place.
    /// Without it, as long as it takes where the policy waits at all.
    #[must_use]
    pub fn max_block(mut self, limit: Duration) -> Self {
        self.compiling.max_block = Some(limit);
        self
    }

    /// How long a call may wait for compilers before it fails with an error of kind
    /// [`Limit`](crate::ErrorKind::Limit). The compile goes on.
    #[must_use]
    pub fn compile_timeout(mut self, limit: Duration) -> Self {
        self.compiling.timeout = Some(limit);
        self
    }

    /// How much time may go into compiling in this process, for whichever model it is. When it is spent, what is not compiled
    /// is left to the interpreter, and [`CompilationStats`](crate::CompilationStats) say so.
    #[must_use]
    pub fn compile_budget(mut self, budget: Duration) -> Self {
        self.compiling.budget = Some(budget);
        self
    }

    /// Where kernels are compiled: in this process, the default, or in workers, whose crashes, hangs and hunger for memory
    /// are errors of one kernel. What a compile there may take is [`Limits::compile`](Limits).
    ///
    /// Loading fails with E0508, of kind [`Environment`](crate::ErrorKind::Environment), where a worker is asked for and
    /// there is no program to run as one.
    #[cfg(feature = "llvm")]
    #[must_use]
    pub fn compiler(self, compiler: crate::compiler::Compiler) -> Self {
        Self { compiler, ..self }
    }

    /// When kernels get variants for sizes that come often: the same kernel with the sizes fixed, compiled behind the back
    /// of calls and kept where it is measured to win. `None` is for no variants.
    #[must_use]
    pub fn variants(mut self, variants: Option<VariantOptions>) -> Self {
        self.compiling.variants = variants;
        self
    }

    /// Whether the same inputs give the same bits whenever they come, in this process and the next. Nothing that is
    /// measured then decides which code answers: no variants are made, and no other plans are tried. Nor may the
    /// interpreter answer while code is compiled, so [`policy`](Self::policy) must be
    /// [`FirstUse`](CompilePolicy::FirstUse) or [`AheadOfTime`](CompilePolicy::AheadOfTime), without
    /// [`max_block`](Self::max_block) and [`compile_budget`](Self::compile_budget): anything else is refused.
    #[must_use]
    pub fn deterministic(mut self, deterministic: bool) -> Self {
        self.compiling.deterministic = deterministic;
        self
    }

    /// Whether convolutions with windows of three by three may be computed with Winograd's F(4x4, 3x3): 36 products for
    /// sixteen sums instead of 64, which takes less time for images of many points. The usual F(2x2, 3x3) gives errors no
    /// larger than summing nine products does, this about 1.6 times those. False by default.
    #[must_use]
    pub fn fewer_products(mut self, fewer_products: bool) -> Self {
        self.compiling.fewer_products = fewer_products;
        self
    }

    /// How many threads compile; 0, the default, means one per core. One of them at a time compiles what no call waits
    /// for.
    #[must_use]
    pub fn compile_threads(mut self, threads: usize) -> Self {
        self.compiling.threads = threads;
        self
    }

    /// How many compiled kernels are kept in memory, and how many bytes they may take, for all models that share kernels:
    /// by default 10,000 and 1 GiB. The least recently used go first, unless a launch plan holds them; what goes is read
    /// from disk when it is wanted again, or compiled anew.
    ///
    /// ```
    /// let options = kiln::Options::new().kernels_in_memory(1000, 64 << 20);
    /// # let _ = options;
    /// ```
    #[must_use]
    pub fn kernels_in_memory(mut self, kernels: usize, bytes: usize) -> Self {
        self.compiling.kernels = LruLimits {
            entries: kernels,
            bytes,
        };
        self
    }

    /// For how many combinations of sizes a part of a model keeps its launch plan, by default 1024: those used last.
    /// A call with other sizes plans first, which takes some microseconds a step.
    ///
    /// ```
    /// use std::num::NonZeroUsize;
    ///
    /// let options = kiln::Options::new().launch_plans(NonZeroUsize::MIN);
    /// # let _ = options;
    /// ```
    #[must_use]
    pub fn launch_plans(mut self, plans: NonZeroUsize) -> Self {
        self.compiling.launch_plans = plans;
        self
    }

    /// How much memory the arenas, results and scratch of calls may take at one time, and how much of it is kept for
    /// later calls; for all models that share kernels: sets `memory` of the [`Limits`]. Without it, nine tenths of what the
    /// machine has, or the control group that the process is in. A call that would take more ends with an error of kind
    /// [`Resource`](crate::ErrorKind::Resource).
    ///
    /// ```
    /// use kiln::{MemoryLimits, Options};
    ///
    /// let limits = MemoryLimits::new().with_total_bytes(2 << 30).with_kept_bytes(256 << 20);
    /// let options = Options::new().memory(limits);
    /// # let _ = options;
    /// ```
    #[must_use]
    pub fn memory(mut self, memory: MemoryLimits) -> Self {
        self.limits.memory = memory;
        self
    }

    /// When to give up: replaces every limit, [`memory`](Self::memory) among them.
    #[must_use]
    pub fn limits(self, limits: Limits) -> Self {
        Self { limits, ..self }
    }

    /// Calls `listener` during long work, on the thread that does it; kernels are compiled on
    /// threads of their own.
    #[must_use]
    pub fn on_progress(self, listener: impl Fn(Progress<'_>) + Send + Sync + 'static) -> Self {
        Self {
            listener: Listener::new(listener),
            ..self
        }
    }

    /// Tells `listener` when a model runs otherwise than asked, such as interpreted because this is
    /// a debug build. The same goes to `tracing`.
    #[must_use]
    pub fn on_notice(self, listener: impl Fn(&Notice) + Send + Sync + 'static) -> Self {
        Self {
            notices: Notices::new(listener),
            ..self
        }
    }

    /// Asks `should_stop` again and again while a call of the model runs, on any thread that works for it and on one that
    /// watches over all calls of a runtime, so it should return at once. Once it answers yes, the call ends with an error of
    /// kind [`Cancelled`](crate::ErrorKind::Cancelled). To end one call of many, see
    /// [`Model::run_with`](crate::Model::run_with).
    #[must_use]
    pub fn cancel_when(self, should_stop: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        Self {
            stop: StopQuestion(Some(Arc::new(should_stop))),
            ..self
        }
    }
}

impl Options {
    /// Whether programs made with these options are kept between processes.
    #[cfg(feature = "onnx")]
    pub(crate) fn keeps_programs(&self) -> bool {
        let is_native = cfg!(feature = "native")
            && !self.device.clone().unwrap_or_default().interprets()
            && self.runtime.is_none();
        is_native && self.cache.path().is_some()
    }
}

/// When and how long kernels are compiled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Compiling {
    pub(crate) policy: CompilePolicy,
    pub(crate) max_block: Option<Duration>,
    pub(crate) timeout: Option<Duration>,
    pub(crate) budget: Option<Duration>,
    pub(crate) threads: usize,
    pub(crate) variants: Option<VariantOptions>,
    pub(crate) deterministic: bool,
    pub(crate) fewer_products: bool,
    pub(crate) kernels: LruLimits,
    pub(crate) launch_plans: NonZeroUsize,
}

impl Default for Compiling {
    fn default() -> Self {
        let of_runtimes = RuntimeOptions::new();
        Self {
            policy: CompilePolicy::default(),
            max_block: None,
            timeout: None,
            budget: None,
            threads: 0,
            variants: Some(VariantOptions::default()),
            deterministic: false,
            fewer_products: false,
            kernels: of_runtimes.cache.memory,
            launch_plans: of_runtimes.launch_plans,
        }
    }
}

#[cfg(feature = "native")]
impl Compiling {
    /// What contradicts being deterministic, if that is asked for.
    pub(crate) fn contradiction(&self) -> Option<&'static str> {
        let is_compiled_first = matches!(
            self.policy,
            CompilePolicy::FirstUse | CompilePolicy::AheadOfTime
        );
        match self {
            Self {
                deterministic: false,
                ..
            } => None,
            _ if !is_compiled_first => Some("a policy by which the interpreter answers meanwhile"),
            Self {
                max_block: Some(_), ..
            } => Some("max_block"),
            Self {
                budget: Some(_), ..
            } => Some("compile_budget"),
            _ => None,
        }
    }
}

/// What is asked whether a call is to end; nothing by default.
#[derive(Clone, Default)]
pub(crate) struct StopQuestion(Option<Arc<Question>>);

type Question = dyn Fn() -> bool + Send + Sync;

impl Options {
    /// What watches over a call that begins now, or over loading; none where nothing can end it.
    pub(crate) fn control(&self, call: Option<&CallOptions>) -> Option<Arc<CallControl>> {
        let call = match &self.stop.0 {
            Some(question) => {
                let call = call.cloned().unwrap_or_default();
                call.with_should_stop(Arc::clone(question) as Arc<_>)
            }
            None => call?.clone(),
        };
        call.control(Arc::new(SystemClock::new())).map(Arc::new)
    }
}

impl fmt::Debug for StopQuestion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "asked" } else { "none" })
    }
}
