//! Compiled layers: a dense or a convolutional layer that runs stored kernels, or its default transform.
//!
//! Which of the two runs is decided per execution, by switches that can be changed at run time. If a kernel fails, the
//! default transform runs instead, with a warning and a counter; a kernel that fails too often, or is too slow, is
//! rolled back. Parameters are passed with every call. Each layer has its own stream, a thread that executes its calls
//! in order.
//!
//! *Invariant:* whichever of the two runs, the result is that of the same blueprints.

mod blueprints;
mod metrics;
mod rollback;
mod stream;
mod switches;

pub use blueprints::{ConvOptions, DenseOptions};
pub use metrics::LayerMetrics;
pub use rollback::{RollbackOptions, RollbackReason};
pub use switches::{LayerConfig, Switches};

use crate::blueprint::Blueprint;
use crate::compile::CompileTarget;
use crate::convert::GraphConverter;
use crate::error::ServiceError;
use crate::service::{KernelRequest, KernelService};
use kiln::{Model, Options, Source, Tensor};
use metrics::Counters;
use rollback::Watch;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use stream::Stream;

/// A layer that runs stored kernels.
///
/// Its kernels run one after another, each on the previous one's result. An input of a kernel other than `x` is a parameter
/// of that name.
pub struct CompiledLayer {
    inner: Arc<Inner>,
    stream: Stream,
}

struct Inner {
    name: String,
    service: KernelService,
    kernels: Vec<LayerKernel>,
    switches: Switches,
    counters: Counters,
    watch: Mutex<Watch>,
    /// Whether kernels that are missing are being loaded.
    loading: AtomicBool,
    /// The time limit of one kernel.
    time_limit: Option<Duration>,
}

/// One of a layer's kernels.
struct LayerKernel {
    blueprint: Arc<Blueprint>,
    /// The default transform: the same graph, compiled in this process when it is first called.
    transform: Model,
}

/// The computation that ran.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RanBy {
    /// The stored kernels.
    Compiled,
    /// The default transform, according to the switches.
    Default,
    /// The default transform, because the kernels were not loaded yet.
    NotReady,
    /// The default transform, because a kernel failed.
    Fallback,
}

/// A result, and how it was computed.
#[derive(Clone, Debug)]
pub struct LayerOutput {
    /// The result.
    pub tensor: Tensor,
    /// The computation that ran.
    pub ran_by: RanBy,
}

impl CompiledLayer {
    /// A dense layer: `x: [.., inputs] -> [.., outputs]`, with parameters `w: [inputs, outputs]` and `bias: [outputs]`.
    ///
    /// # Errors
    /// E1404 to E1411 for options that do not give a valid graph.
    pub fn dense(
        name: impl Into<String>,
        service: &KernelService,
        options: &DenseOptions,
        switches: Switches,
    ) -> Result<Self, ServiceError> {
        Self::of_blueprints(name, service, options.blueprints(), switches)
    }

    /// A convolution: `x: [N, channels, H, W]`, with parameters `w: [filters, channels, size, size]`, `bias: [filters]`, and
    /// for normalisation `scale`, `shift`, `mean`, `variance: [filters]`.
    ///
    /// # Errors
    /// As [`dense`](Self::dense).
    pub fn conv2d(
        name: impl Into<String>,
        service: &KernelService,
        options: &ConvOptions,
        switches: Switches,
    ) -> Result<Self, ServiceError> {
        Self::of_blueprints(name, service, options.blueprints(), switches)
    }

    /// A layer of arbitrary blueprints, each with an input `x` and one output, which run one after another.
    ///
    /// # Errors
    /// E1402 to E1411 for a bad blueprint; E1408 for one without an input `x`, or with several outputs.
    pub fn of_blueprints(
        name: impl Into<String>,
        service: &KernelService,
        blueprints: Vec<Blueprint>,
        switches: Switches,
    ) -> Result<Self, ServiceError> {
        let name = name.into();
        let kernels = blueprints.into_iter().map(LayerKernel::new);
        let kernels = kernels.collect::<Result<Vec<_>, _>>()?;
        let stream = Stream::start(&name)?;
        let watch = Mutex::new(Watch::new(switches.config().rollback));
        let inner = Inner {
            name,
            service: service.clone(),
            kernels,
            switches,
            counters: Counters::default(),
            watch,
            loading: AtomicBool::new(false),
            time_limit: None,
        };
        let inner = Arc::new(inner);
        Ok(Self { inner, stream })
    }

    /// Sets a time limit for each kernel, after which it counts as failed.
    ///
    /// # Errors
    /// E1433 once the layer has been called.
    pub fn with_time_limit(mut self, limit: Duration) -> Result<Self, ServiceError> {
        let inner = Arc::get_mut(&mut self.inner).ok_or(ServiceError::Setting {
            name: "time_limit",
            expected: "a layer that was not called yet".to_owned(),
            found: "one that was".to_owned(),
        })?;
        inner.time_limit = Some(limit);
        Ok(self)
    }

    /// The switches, through which they can be changed.
    pub fn switches(&self) -> &Switches {
        &self.inner.switches
    }

    /// The current counters.
    pub fn metrics(&self) -> LayerMetrics {
        let watch = self
            .inner
            .watch
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        self.inner.counters.snapshot(watch.last())
    }

    /// Loads the kernels, compiling those that are in no store.
    ///
    /// # Errors
    /// As [`KernelService::get`].
    pub async fn load(&self) -> Result<(), ServiceError> {
        self.inner.load().await
    }

    /// Runs the layer on `x`, with `parameters` by name. `key` identifies the request: the decision for a key stays the
    /// same as long as the roll-out does.
    ///
    /// # Errors
    /// E1420 when the default transform fails, for inputs that do not fit; E1434 when a kernel fails and fallback is off.
    pub async fn forward(
        &self,
        key: &str,
        x: Tensor,
        parameters: &[(&str, Tensor)],
    ) -> Result<LayerOutput, ServiceError> {
        let inner = &self.inner;
        inner.counters.executions.add();
        let parameters: Arc<[(String, Tensor)]> = parameters
            .iter()
            .map(|(name, tensor)| ((*name).to_owned(), tensor.clone()))
            .collect();
        if !inner.switches.chooses(key) {
            return self.run_default(x, parameters, RanBy::Default).await;
        }
        let models = match inner.ready() {
            Some(models) => models,
            None if inner.switches.fallback() => {
                self.load_in_background();
                inner.counters.not_ready.add();
                return self.run_default(x, parameters, RanBy::NotReady).await;
            }
            None => {
                inner.load().await?;
                inner.ready().unwrap_or_default()
            }
        };
        let problem = match self
            .run_compiled(models, x.clone(), Arc::clone(&parameters))
            .await
        {
            Ok(tensor) => {
                let ran_by = RanBy::Compiled;
                return Ok(LayerOutput { tensor, ran_by });
            }
            Err(problem) => problem,
        };
        inner.counters.failures.add();
        if !inner.switches.fallback() {
            return Err(ServiceError::NoFallback {
                layer: inner.name.clone(),
                problem: problem.to_string(),
            });
        }
        inner.counters.fallbacks.add();
        tracing::warn!(
            layer = inner.name,
            code = problem.code(),
            %problem,
            "service.fallback: the default transform runs instead of the compiled kernel"
        );
        self.run_default(x, parameters, RanBy::Fallback).await
    }

    async fn run_compiled(
        &self,
        models: Vec<Model>,
        x: Tensor,
        parameters: Arc<[(String, Tensor)]>,
    ) -> Result<Tensor, ServiceError> {
        let limit = self.inner.time_limit;
        let run = move || run_all(&models, x, &parameters, limit);
        let (result, time) = self.stream.run(run).await?;
        self.inner.observe_compiled(result.is_ok(), time);
        result
    }

    async fn run_default(
        &self,
        x: Tensor,
        parameters: Arc<[(String, Tensor)]>,
        ran_by: RanBy,
    ) -> Result<LayerOutput, ServiceError> {
        let inner = Arc::clone(&self.inner);
        let run = move || {
            let models = inner.kernels.iter().map(|kernel| kernel.transform.clone());
            run_all(&models.collect::<Vec<_>>(), x, &parameters, None)
        };
        let (result, time) = self.stream.run(run).await?;
        self.inner.counters.defaults.add();
        if result.is_ok() {
            self.inner.observe_default(time);
        }
        result.map(|tensor| LayerOutput { tensor, ran_by })
    }

    /// Starts loading the kernels, unless they are already being loaded; only in a tokio runtime.
    fn load_in_background(&self) {
        if self.inner.loading.swap(true, Ordering::SeqCst) {
            return;
        }
        let inner = Arc::clone(&self.inner);
        let load = async move {
            if let Err(error) = inner.load().await {
                inner.counters.failures.add();
                tracing::warn!(layer = inner.name, code = error.code(), %error, "service.load");
                inner.observe_compiled(false, Duration::ZERO);
            }
            inner.loading.store(false, Ordering::SeqCst);
        };
        match tokio::runtime::Handle::try_current() {
            Ok(runtime) => drop(runtime.spawn(load)),
            // On another executor, no task can be spawned: the caller's next `load` does it.
            Err(_) => self.inner.loading.store(false, Ordering::SeqCst),
        }
    }
}

impl fmt::Debug for CompiledLayer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CompiledLayer")
            .field("name", &self.inner.name)
            .field("kernels", &self.inner.kernels.len())
            .field("switches", &self.inner.switches)
            .finish_non_exhaustive()
    }
}

impl LayerKernel {
    fn new(blueprint: Blueprint) -> Result<Self, ServiceError> {
        let graph = GraphConverter::default().convert(&blueprint)?;
        let has_x = blueprint
            .inputs
            .iter()
            .any(|input| input.name == blueprints::DATA);
        if !has_x || blueprint.outputs.len() != 1 {
            let message = "expected an input `x` and one output for a layer";
            return Err(crate::error::Problem::new(
                crate::error::Problem::COUNT,
                "inputs",
                message,
            )
            .into());
        }
        let transform = Options::new().load(Source::graph(graph));
        let transform = transform.map_err(ServiceError::stage("default transform"))?;
        let blueprint = Arc::new(blueprint);
        Ok(Self {
            blueprint,
            transform,
        })
    }
}

impl Inner {
    /// The kernels, if all are in memory.
    fn ready(&self) -> Option<Vec<Model>> {
        let models = self.kernels.iter().map(|kernel| {
            let stored = self.service.peek(&kernel.blueprint, &CompileTarget::Cpu)?;
            Some(stored.model.clone())
        });
        models.collect()
    }

    async fn load(&self) -> Result<(), ServiceError> {
        for kernel in &self.kernels {
            let client = format!("layer {}", self.name);
            let request = KernelRequest::new(client, Arc::clone(&kernel.blueprint));
            self.service.get(request).await?;
        }
        Ok(())
    }

    fn observe_compiled(&self, is_ok: bool, time: Duration) {
        self.counters.compiled(time);
        let mut watch = self.watch.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(reason) = watch.compiled(is_ok, time) else {
            return;
        };
        drop(watch);
        self.switches.roll_back();
        self.counters.rollbacks.add();
        tracing::error!(layer = self.name, %reason, "service.rollback: the roll-out is 0 now");
    }

    fn observe_default(&self, time: Duration) {
        self.counters.default_time(time);
        let mut watch = self.watch.lock().unwrap_or_else(PoisonError::into_inner);
        watch.default_transform(time);
    }
}

/// Runs models one after another, each on the previous one's result.
fn run_all(
    models: &[Model],
    x: Tensor,
    parameters: &[(String, Tensor)],
    limit: Option<Duration>,
) -> (Result<Tensor, ServiceError>, Duration) {
    let begin = Instant::now();
    let mut value = x;
    for model in models {
        let mut inputs = Vec::with_capacity(model.inputs().len());
        for input in model.inputs() {
            let found = parameters.iter().find(|(name, _)| name == input.name());
            match (input.name(), found) {
                (blueprints::DATA, _) => inputs.push((blueprints::DATA, &value)),
                (_, Some((name, tensor))) => inputs.push((name.as_str(), tensor)),
                // The call reports which one is missing.
                (_, None) => {}
            }
        }
        let call = model.call(inputs);
        let call = match limit {
            Some(limit) => call.time_limit(limit),
            None => call,
        };
        let result = call.run().map_err(ServiceError::stage("run"));
        match result.map(|outputs| outputs.into_tensors().into_iter().next()) {
            Ok(Some(tensor)) => value = tensor,
            Ok(None) => unreachable!("a layer's kernels have one output"),
            Err(error) => return (Err(error), begin.elapsed()),
        }
    }
    (Ok(value), begin.elapsed())
}
