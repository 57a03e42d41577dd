//! Options for loading and running a model: common settings have setters, the rest are in plain structs, one per topic.
//!
//! Invalid numbers are rejected when a model is loaded. No number means "none" or "all available": such a setting is
//! left unset.

use crate::cache::Cache;
use crate::compiling::Compiling;
use crate::device::Device;
use crate::dim::Dim;
use crate::error::{Error, Failure};
use crate::gradients::Gradients;
use crate::import::Import;
use crate::limits::Limits;
use crate::model::Model;
use crate::observation::Observation;
use crate::recording::Recorder;
use crate::source::Source;
use crate::stores::Stores;
use kiln_kernel_cache::Tier;
use kiln_lazy_runtime::{CallControl, CallOptions, OutputPlacement, Runtime, SystemClock};
use kiln_precision::Precision;
use kiln_program::MemoryBudget;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// How to load and run a model.
///
/// ```
/// use kiln::{Dim, Options, Source};
///
/// let text = "graph @id(%x: f32[batch, seq]) -> f32[batch, seq] { return %x }";
/// let options = Options::new()
///     .dim("seq", Dim::range(1..=512).multiple_of(8).likely(128))
///     .dim("batch", Dim::fixed(1));
/// let model = options.load(Source::text(text))?;
/// assert_eq!(model.inputs()[0].to_string(), "x: f32[1, seq]");
/// # Ok::<(), kiln::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Options {
    pub(crate) dims: BTreeMap<String, Dim>,
    pub(crate) import: Import,
    pub(crate) precision: Option<Precision>,
    pub(crate) gradients: Option<Gradients>,
    pub(crate) passes: Passes,
    pub(crate) device: Option<Device>,
    pub(crate) threads: Option<usize>,
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
        allow(dead_code, reason = "only compiled code is kept")
    )]
    pub(crate) stores: Stores,
    #[cfg_attr(
        not(feature = "native"),
        allow(dead_code, reason = "only compiled code is compiled")
    )]
    pub(crate) compiling: Compiling,
    #[cfg_attr(
        not(feature = "native"),
        expect(dead_code, reason = "only compiled code is compiled")
    )]
    pub(crate) compile_after: Option<u64>,
    pub(crate) memory: MemoryBudget,
    pub(crate) limits: Limits,
    pub(crate) observation: Observation,
    /// The recorder of the model loaded with these options; none before it is loaded.
    pub(crate) recorder: Option<Arc<Recorder>>,
    pub(crate) stop: StopCallback,
}

/// Which passes run over a graph before it is planned.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Passes {
    /// All passes.
    #[default]
    All,
    /// All except those that fold constant parameters into each other, such as a batch normalisation into the preceding
    /// weights: parameters stay recognisable.
    KeepParameters,
    /// No passes: the graph runs as it was imported.
    None,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            dims: BTreeMap::new(),
            import: Import::default(),
            precision: None,
            gradients: None,
            passes: Passes::default(),
            device: None,
            threads: None,
            target: None,
            shared_kernels: true,
            runtime: None,
            outputs: OutputPlacement::default(),
            cache: Cache::default(),
            stores: Stores::default(),
            compiling: Compiling::default(),
            compile_after: None,
            memory: MemoryBudget::default(),
            limits: Limits::default(),
            observation: Observation::default(),
            recorder: None,
            stop: StopCallback::default(),
        }
    }
}

impl Options {
    /// The usual number of calls for [`compile_after`](Self::compile_after): 10.
    pub const INTERPRETED_CALLS: u64 = 10;

    /// The defaults.
    pub fn new() -> Self {
        Self::default()
    }

    /// Loads a model with these options.
    ///
    /// # Errors
    /// As [`Model::load`], and when an option does not match the model or contradicts another.
    pub fn load<'a>(&self, source: impl Into<Source<'a>>) -> Result<Model, Error> {
        Model::of_source(source.into(), self.clone())
    }

    /// Constrains the dimension called `name` in the model. Loading fails if the model has no such dimension.
    #[must_use]
    pub fn dim(mut self, name: impl Into<String>, dim: Dim) -> Self {
        self.dims.insert(name.into(), dim);
        self
    }

    /// Decisions about an ONNX model at import: ranks, constants, lengths of sequences.
    #[must_use]
    pub fn import(self, import: Import) -> Self {
        Self { import, ..self }
    }

    /// Narrower operands for products: for all of them, or some by name. By default, products are computed as the model
    /// specifies.
    ///
    /// The model then computes the rewritten graph, for compiled code and the interpreter alike.
    /// [`diagnose::compare_precision`](crate::diagnose::compare_precision) reports what happened to each product, and
    /// how much the results differ from those at full precision.
    ///
    /// ```
    /// use kiln::{Format, Options, Precision};
    ///
    /// let weights = Precision::of("int4-weights/32".parse()?).and("lm_head*", Format::BF16)?;
    /// let options = Options::new().precision(weights);
    /// # let _ = options;
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[must_use]
    pub fn precision(self, precision: impl Into<Precision>) -> Self {
        Self {
            precision: Some(precision.into()),
            ..self
        }
    }

    /// Gradients that the model computes in addition to its outputs.
    #[must_use]
    pub fn gradients(self, gradients: Gradients) -> Self {
        Self {
            gradients: Some(gradients),
            ..self
        }
    }

    /// The same options for a graph that already includes its gradients.
    pub(crate) fn without_gradients(self) -> Self {
        Self {
            gradients: None,
            ..self
        }
    }

    /// The same options for another graph that runs beside the model, without those that concern the model's own graph.
    pub(crate) fn for_another_graph(&self) -> Self {
        Self {
            dims: BTreeMap::new(),
            import: Import::default(),
            precision: None,
            gradients: None,
            passes: Passes::default(),
            recorder: None,
            ..self.clone()
        }
    }

    /// Which passes run over the graph; all of them by default.
    #[must_use]
    pub fn passes(self, passes: Passes) -> Self {
        Self { passes, ..self }
    }

    /// The device that executes the model; [`Device::default`] if unset. If a device is set, a model that it cannot run
    /// is rejected; the default falls back to the interpreter if a model cannot be compiled, and reports that to
    /// [`Observation::on_notice`].
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

    /// How many threads a call may use, from 1 to 1024; by default one per core. Results do not depend on it. The
    /// interpreter always uses one.
    #[must_use]
    pub fn threads(self, threads: usize) -> Self {
        Self {
            threads: Some(threads),
            ..self
        }
    }

    /// The level of the device to compile for, by name: on a CPU an instruction set, `portable`, `avx2+fma`, `avx512`
    /// ([`Device::levels`] lists them). By default that of the device's key, or else the highest that this machine has. The
    /// interpreter ignores it.
    #[must_use]
    pub fn target(self, level: impl Into<String>) -> Self {
        Self {
            target: Some(level.into()),
            ..self
        }
    }

    /// Whether compiled kernels, constants and threads are shared with the other models of this process that have the
    /// same number of threads and the same target; on by default. If off, the model has its own, and
    /// [`Model::compilation_stats`] counts only its work.
    #[must_use]
    pub fn shared_kernels(self, shared_kernels: bool) -> Self {
        Self {
            shared_kernels,
            ..self
        }
    }

    /// Where outputs are when a call returns. By default they stay where they were computed: on a device with its own
    /// memory they stay there, calls on that device read them there, and they are downloaded when the host first reads
    /// their elements, which fails with an error of the tensor if the device fails. A CPU uses the host's memory, so
    /// there is no difference.
    ///
    /// ```
    /// use kiln::{Options, OutputPlacement};
    ///
    /// // Each call downloads its outputs, and returns the errors of that.
    /// let options = Options::new().outputs(OutputPlacement::Host);
    /// # let _ = options;
    /// ```
    #[must_use]
    pub fn outputs(self, outputs: OutputPlacement) -> Self {
        Self { outputs, ..self }
    }

    /// Where compiled code is kept between processes; by default in a folder of the current user.
    #[must_use]
    pub fn cache(self, cache: Cache) -> Self {
        Self { cache, ..self }
    }

    /// Another store of compiled code, programs and packed constants, asked after the cache folder and after the stores added
    /// before; for example one that a whole fleet shares. What one store has is copied into those before it, and what is
    /// compiled is put into all of them. Models whose options have the same stores share kernels.
    #[must_use]
    pub fn tier(self, tier: Arc<dyn Tier>) -> Self {
        Self {
            stores: self.stores.with(tier),
            ..self
        }
    }

    /// When, where and for how long kernels are compiled: [`Compiling`], or just the policy.
    ///
    /// ```
    /// use kiln::{CompilePolicy, Options};
    ///
    /// let options = Options::new().compiling(CompilePolicy::AheadOfTime);
    /// # let _ = options;
    /// ```
    #[must_use]
    pub fn compiling(self, compiling: impl Into<Compiling>) -> Self {
        Self {
            compiling: compiling.into(),
            ..self
        }
    }

    /// Interprets this many calls of each graph before it is compiled, so that a graph that is called only a few times
    /// is never compiled. By default a graph is compiled for its first call.
    /// [`INTERPRETED_CALLS`](Self::INTERPRETED_CALLS) is a good number to begin with.
    ///
    /// Code serves every size of the ranks it was compiled for. A model whose graph depends on the ranks of its inputs,
    /// and a recorded function, count the calls of each combination of ranks separately. A graph that cannot be
    /// compiled stays interpreted, which is reported to [`Observation::on_notice`].
    ///
    /// ```
    /// use kiln::{Device, Options, Tensor, Var};
    ///
    /// let options = Options::new().device(Device::cpu()).compile_after(Options::INTERPRETED_CALLS);
    /// let f = kiln::jit(|x: Var| x.square()).with_options(options);
    /// for n in 0..12 {
    ///     let x = Tensor::full(&[n], 3.0f32)?;
    ///     assert_eq!(f.call([&x])?.to_vec::<f32>()?, vec![9.0; n]);
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn compile_after(self, calls: u64) -> Self {
        Self {
            compile_after: Some(calls),
            ..self
        }
    }

    /// How much memory the values between the steps of a call may take: if they would take more, some are
    /// rematerialised instead of being kept. Results do not change. Without a budget, nothing is rematerialised.
    ///
    /// A budget is compared with the bytes of live values at the [likely](Dim::likely) values of sizes; the chosen
    /// rematerialisation is correct for all sizes. A budget that cannot be met is approached as closely as possible.
    /// [`diagnose::call_memory`](crate::diagnose::call_memory) reports the memory that a call then needs. Inputs,
    /// results and constants are not part of it, and interpreted calls ignore it.
    ///
    /// ```
    /// use kiln::{MemoryBudget, Options};
    ///
    /// let options = Options::new().memory_budget(MemoryBudget::Fraction(0.5));
    /// # let _ = options;
    /// ```
    #[must_use]
    pub fn memory_budget(self, memory: MemoryBudget) -> Self {
        Self { memory, ..self }
    }

    /// The limits of loading and running.
    #[must_use]
    pub fn limits(self, limits: Limits) -> Self {
        Self { limits, ..self }
    }

    /// What is timed, and which callbacks long work calls.
    #[must_use]
    pub fn observe(self, observation: Observation) -> Self {
        Self {
            observation,
            ..self
        }
    }

    /// Polls `should_stop` while the model is loaded and called, on any thread that works for it and on the thread that
    /// supervises all calls of a runtime, so it should return at once. Once it returns true, the call ends with an error of
    /// kind [`Cancelled`](crate::ErrorKind::Cancelled). To end one call of many, see
    /// [`Call::cancellation`](crate::Call::cancellation).
    #[must_use]
    pub fn cancel_when(self, should_stop: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        Self {
            stop: StopCallback(Some(Arc::new(should_stop))),
            ..self
        }
    }
}

impl Options {
    /// Whether programs made with these options are kept between processes.
    #[cfg(any(feature = "onnx", feature = "native"))]
    pub(crate) fn keeps_programs(&self) -> bool {
        let is_native = cfg!(feature = "native")
            && !self.device.clone().unwrap_or_default().interprets()
            && self.runtime.is_none();
        is_native && (self.cache.path().is_some() || !self.stores.is_empty())
    }

    /// Rejects invalid numbers, for any device.
    pub(crate) fn check(&self) -> Result<(), Error> {
        match self.memory {
            MemoryBudget::Fraction(part) if !self.memory.is_valid() => Err(Failure::MemoryBudget {
                given: part.to_string(),
            }
            .into()),
            _ => Ok(()),
        }
    }

    /// The control of a call that begins now, or of loading; `None` if nothing can end it.
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

/// Returns whether a call is to end; unset by default.
#[derive(Clone, Default)]
pub(crate) struct StopCallback(Option<Arc<ShouldStop>>);

type ShouldStop = dyn Fn() -> bool + Send + Sync;

impl fmt::Debug for StopCallback {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "asked" } else { "none" })
    }
}
