//! Chooses how a kernel runs, by measurement: [`KernelOptimizer`].
//!
//! Each compiled kernel is already vectorised, tiled and split into tasks; the remaining choices are the
//! instruction-set level and the number of threads, which are measured at the blueprint's likely sizes. The baseline of
//! the measurement is the portable level on one thread.

mod profile;

pub use profile::{CacheEfficiency, CacheSource, KernelProfile};

use crate::draw::{self, Random};
use crate::error::ServiceError;
use kiln::internals::ir::Graph;
use kiln::{Device, Model, Options, Source, Tensor};
use std::time::Duration;

/// The level that every machine of an architecture supports.
const PORTABLE: &str = "portable";

/// How a kernel runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// The level of the instruction set, or of the device.
    pub level: String,
    /// Threads of a call.
    pub threads: usize,
}

/// A kernel, the way it runs, and the measurements behind that choice.
#[derive(Clone, Debug)]
pub struct OptimizedKernel {
    /// The chosen kernel.
    pub model: Model,
    /// The choice.
    pub choice: Candidate,
    /// Its profile.
    pub profile: KernelProfile,
    /// The profile of the plain candidate: the portable level on one thread.
    pub plain: KernelProfile,
    /// Every candidate with its profile, in the order in which they were measured.
    pub candidates: Vec<(Candidate, KernelProfile)>,
}

/// Measures candidates and chooses the fastest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KernelOptimizer {
    /// How long each candidate is measured: 100 ms.
    pub measuring: Duration,
    /// The maximum number of threads of a candidate; one per core if unset.
    pub max_threads: Option<usize>,
}

impl Default for KernelOptimizer {
    fn default() -> Self {
        Self {
            measuring: Duration::from_millis(100),
            max_threads: None,
        }
    }
}

impl KernelOptimizer {
    /// The fastest candidate for this machine's CPU, at its highest level.
    ///
    /// # Errors
    /// E1420 when a kernel does not compile; E1421 if there is no level to compile for; E1422 without sizes to measure.
    pub fn optimize_cpu_kernel(
        &self,
        graph: &Graph,
        options: &Options,
    ) -> Result<OptimizedKernel, ServiceError> {
        let levels = Device::cpu().levels();
        let highest = levels.last().ok_or(ServiceError::Target {
            target: "cpu",
            problem: "this machine has no level that code can be generated for; use the interpreter",
        })?;
        self.optimize_cpu_kernel_at(graph, options, highest)
    }

    /// The same at a given level: only the number of threads is chosen.
    ///
    /// # Errors
    /// As [`optimize_cpu_kernel`](Self::optimize_cpu_kernel); E1420 for an unknown level.
    pub fn optimize_cpu_kernel_at(
        &self,
        graph: &Graph,
        options: &Options,
        level: &str,
    ) -> Result<OptimizedKernel, ServiceError> {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let most = self.max_threads.unwrap_or(cores).clamp(1, cores);
        let mut candidates = vec![(PORTABLE, 1), (level, 1), (level, most)];
        candidates.dedup();
        self.choose(graph, options, &candidates)
    }

    /// The fastest candidate for a CUDA device, among the device's levels.
    ///
    /// # Errors
    /// E1421 in a build without a CUDA device; otherwise as [`optimize_cpu_kernel`](Self::optimize_cpu_kernel).
    pub fn optimize_cuda_kernel(
        &self,
        graph: &Graph,
        options: &Options,
    ) -> Result<OptimizedKernel, ServiceError> {
        let mut devices = Device::all().into_iter();
        let device = devices.find(|device| device.key().starts_with("cuda"));
        let device = device.ok_or(ServiceError::Target {
            target: "cuda",
            problem: "this build has no CUDA device; build with one, or compile for the CPU",
        })?;
        let levels = device.levels();
        let options = options.clone().device(device);
        let candidates: Vec<(&str, usize)> =
            levels.iter().map(|level| (level.as_str(), 1)).collect();
        self.choose(graph, &options, &candidates)
    }

    fn choose(
        &self,
        graph: &Graph,
        options: &Options,
        candidates: &[(&str, usize)],
    ) -> Result<OptimizedKernel, ServiceError> {
        let shapes = draw::likely_shapes(graph)?;
        let inputs = draw::drawn_inputs(graph, &shapes, &mut Random::new(1))?;
        let mut measured = Vec::new();
        let mut best: Option<(usize, Model, Duration)> = None;
        for &(level, threads) in candidates {
            let options = options.clone().target(level).threads(threads);
            // For a candidate, only the kernels that the measured sizes need are compiled.
            let model = loaded(&options, graph)?;
            let profile = self.profile_kernel(&model, &inputs)?;
            // A candidate has to be clearly faster to replace one with fewer threads.
            let wins = best
                .as_ref()
                .is_none_or(|(_, _, time)| profile.time.as_secs_f64() < 0.98 * time.as_secs_f64());
            if wins {
                best = Some((measured.len(), model, profile.time));
            }
            let level = level.to_owned();
            measured.push((Candidate { level, threads }, profile));
        }
        let Some(((index, model, _), (_, plain))) = best.zip(measured.first().cloned()) else {
            return Err(ServiceError::Target {
                target: "cuda",
                problem: "the device has no levels; compile for the CPU",
            });
        };
        model.compile().map_err(ServiceError::stage("compile"))?;
        let (choice, profile) = measured[index].clone();
        tracing::info!(
            graph = graph.name(),
            level = choice.level,
            threads = choice.threads,
            "service.optimize"
        );
        Ok(OptimizedKernel {
            model,
            choice,
            profile,
            plain,
            candidates: measured,
        })
    }

    /// The cost of a call of a model: time, memory, cache efficiency, bandwidth.
    ///
    /// # Errors
    /// E1420 when the call fails; for an interpreted model, which has no profile.
    pub fn profile_kernel(
        &self,
        model: &Model,
        inputs: &[Tensor],
    ) -> Result<KernelProfile, ServiceError> {
        profile::of_model(model, inputs, self.measuring)
    }
}

/// A graph as a model whose kernels are compiled as its options say.
pub(crate) fn loaded(options: &Options, graph: &Graph) -> Result<Model, ServiceError> {
    let loaded = options.load(Source::graph(graph.clone()));
    loaded.map_err(ServiceError::stage("compile"))
}

/// A graph as a model with all its kernels compiled.
pub(crate) fn compiled(options: &Options, graph: &Graph) -> Result<Model, ServiceError> {
    let model = loaded(options, graph)?;
    model.compile().map_err(ServiceError::stage("compile"))?;
    Ok(model)
}
