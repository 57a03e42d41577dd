//! Compiles a blueprint to a package, in stages: validate, build, compile and optimise, validate the compiled code,
//! package.
//!
//! Each stage is a separate function; [`BlueprintCompiler::run`] runs all of them, and reports its progress.

use crate::blueprint::{Blueprint, BlueprintLimits};
use crate::convert::GraphConverter;
use crate::error::ServiceError;
use crate::optimize::{KernelOptimizer, OptimizedKernel};
use crate::package::{Package, PackageMetadata, Provenance};
use crate::validate::{KernelValidator, ValidationResult};
use kiln::internals::ir::Graph;
use kiln::{Cache, CompilePolicy, Compiling, Device, Model, Options, SealKey};
use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// The metadata entry that binds a compiled graph to the key of its package.
pub(crate) const KEY_ENTRY: &str = "kiln.package";

/// The target to compile for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum CompileTarget {
    /// This machine's CPU, at its highest level.
    #[default]
    Cpu,
    /// This machine's CPU at a level, such as `avx2+fma`.
    CpuLevel(String),
    /// A CUDA device.
    Cuda,
}

impl fmt::Display for CompileTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cpu => f.write_str("cpu"),
            Self::CpuLevel(level) => write!(f, "cpu:{level}"),
            Self::Cuda => f.write_str("cuda"),
        }
    }
}

/// A stage of the pipeline.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Stage {
    /// The blueprint's structure is checked.
    Validate,
    /// A graph is built from it.
    Build,
    /// Kernels are compiled, for each candidate of the target.
    Compile,
    /// Candidates are measured, and one is chosen.
    Optimize,
    /// The chosen candidate is checked.
    Check,
    /// A bundle is written.
    Package,
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Validate => "validate",
            Self::Build => "build",
            Self::Compile => "compile",
            Self::Optimize => "optimize",
            Self::Check => "check",
            Self::Package => "package",
        })
    }
}

/// How a run of the pipeline ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CompilationStatus {
    /// A package was made.
    Succeeded,
    /// A stage failed.
    Failed(Stage),
    /// The kernel was compiled, and did not pass validation.
    Rejected,
    /// It was cancelled.
    Cancelled,
}

/// A run of the pipeline: its outcome, and the time of each stage.
#[derive(Debug)]
pub struct CompilationResult {
    /// How it ended.
    pub status: CompilationStatus,
    /// The stages that ran, in order, with the time of each.
    pub stages: Vec<(Stage, Duration)>,
    /// The checks, if that stage was reached.
    pub validation: Option<ValidationResult>,
    /// The package, if it succeeded.
    pub package: Option<Package>,
    /// The error, if it failed.
    pub error: Option<ServiceError>,
}

impl CompilationResult {
    /// The package.
    ///
    /// # Errors
    /// Why there is no package.
    pub fn into_package(self) -> Result<Package, ServiceError> {
        match (self.package, self.error) {
            (Some(package), _) => Ok(package),
            (None, Some(error)) => Err(error),
            (None, None) => Err(ServiceError::Cancelled),
        }
    }

    /// The total time of all stages.
    pub fn time(&self) -> Duration {
        self.stages.iter().map(|&(_, time)| time).sum()
    }
}

/// Ends a run early, from another thread. Clones are one token.
#[derive(Clone, Debug, Default)]
pub struct CancelToken(Arc<AtomicBool>);

impl CancelToken {
    /// Ends the run at its next cancellation point.
    pub fn cancel(&self) {
        self.0.store(true, Ordering::SeqCst);
    }

    /// Whether it was cancelled.
    pub fn is_cancelled(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }
}

/// Compiles blueprints into packages.
#[derive(Clone, Debug)]
pub struct BlueprintCompiler {
    limits: BlueprintLimits,
    options: Options,
    optimizer: KernelOptimizer,
    validator: KernelValidator,
    seal: SealKey,
    origin: Option<String>,
    /// Whether the options name a folder for the code of single kernels.
    keeps_kernels: bool,
}

impl BlueprintCompiler {
    /// A compiler whose packages are sealed with this key. It compiles on one thread, and runs all checks except the
    /// memory check, which needs [a program](KernelValidator::with_guard_program).
    pub fn new(seal: SealKey) -> Self {
        let compiling = Compiling {
            policy: CompilePolicy::FirstUse,
            threads: Some(1),
            variants: None,
            ..Compiling::default()
        };
        let options = Options::new().device(Device::cpu()).compiling(compiling);
        Self {
            limits: BlueprintLimits::default(),
            options: options.cache(Cache::off()),
            optimizer: KernelOptimizer::default(),
            validator: KernelValidator::default(),
            seal,
            origin: None,
            keeps_kernels: false,
        }
    }

    /// Sets the limits of blueprints.
    #[must_use]
    pub fn with_limits(self, limits: BlueprintLimits) -> Self {
        Self { limits, ..self }
    }

    /// Sets the options of models, which determine the device, the cache and how kernels are compiled.
    #[must_use]
    pub fn with_options(self, options: Options) -> Self {
        Self {
            options,
            keeps_kernels: true,
            ..self
        }
    }

    /// Sets a folder for the code of individual kernels, so that no kernel is compiled twice.
    #[must_use]
    pub fn with_kernel_cache(self, folder: impl AsRef<Path>) -> Self {
        let options = self.options.cache(Cache::folder(folder.as_ref()));
        Self {
            options,
            keeps_kernels: true,
            ..self
        }
    }

    /// Sets a folder for kernels beside the packages of a store, unless there already is one.
    pub(crate) fn with_kernel_cache_unless_set(self, store: &Path) -> Self {
        match self.keeps_kernels {
            true => self,
            false => self.with_kernel_cache(store.join(".kernels")),
        }
    }

    /// Sets the optimizer.
    #[must_use]
    pub fn with_optimizer(self, optimizer: KernelOptimizer) -> Self {
        Self { optimizer, ..self }
    }

    /// Sets the validator.
    #[must_use]
    pub fn with_validator(self, validator: KernelValidator) -> Self {
        Self { validator, ..self }
    }

    /// Sets the origin in the provenance of packages, such as a repository's revision.
    #[must_use]
    pub fn with_origin(self, origin: impl Into<String>) -> Self {
        let origin = Some(origin.into());
        Self { origin, ..self }
    }

    /// The key of the package of a blueprint for a target: equal documents have equal keys.
    pub fn key(&self, blueprint: &Blueprint, target: &CompileTarget) -> String {
        let text = format!("{}\n{target}", blueprint.digest());
        blake3::hash(text.as_bytes()).to_hex().to_string()
    }

    /// The key that packages are sealed with.
    pub(crate) fn seal(&self) -> &SealKey {
        &self.seal
    }

    /// Checks the structure of a blueprint.
    ///
    /// # Errors
    /// E1402 to E1408.
    pub fn validate(&self, blueprint: &Blueprint) -> Result<(), ServiceError> {
        blueprint.validate(&self.limits)
    }

    /// The graph of a blueprint.
    ///
    /// # Errors
    /// E1402 to E1411.
    pub fn build(&self, blueprint: &Blueprint) -> Result<Graph, ServiceError> {
        GraphConverter::new(self.limits).convert(blueprint)
    }

    /// Makes a model of a graph, with all kernels compiled that calls may need.
    ///
    /// # Errors
    /// E1420 when a kernel does not compile.
    pub fn compile(&self, graph: &Graph, target: &CompileTarget) -> Result<Model, ServiceError> {
        let options = match target {
            CompileTarget::CpuLevel(level) => self.options.clone().target(level),
            CompileTarget::Cpu | CompileTarget::Cuda => self.options.clone(),
        };
        crate::optimize::compiled(&options, graph)
    }

    /// The fastest of the target's candidates.
    ///
    /// # Errors
    /// E1420 when a kernel does not compile; E1421 for a target that this build lacks; E1422 without sizes to measure.
    pub fn optimize(
        &self,
        graph: &Graph,
        target: &CompileTarget,
        cancel: &CancelToken,
    ) -> Result<OptimizedKernel, ServiceError> {
        let flag = cancel.clone();
        let options = self
            .options
            .clone()
            .cancel_when(move || flag.is_cancelled());
        match target {
            CompileTarget::Cpu => self.optimizer.optimize_cpu_kernel(graph, &options),
            CompileTarget::CpuLevel(level) => {
                let options = options.target(level);
                self.optimizer
                    .optimize_cpu_kernel_at(graph, &options, level)
            }
            CompileTarget::Cuda => self.optimizer.optimize_cuda_kernel(graph, &options),
        }
    }

    /// Checks a compiled kernel.
    ///
    /// # Errors
    /// When a check could not run; a check that fails is in the result.
    pub fn check(
        &self,
        graph: &Graph,
        kernel: &OptimizedKernel,
    ) -> Result<ValidationResult, ServiceError> {
        // Gradients run at the level of the kernel, and share its code where it is the same.
        let options = match kernel.model.device() == Device::cpu() {
            true => self.options.clone().target(&kernel.choice.level),
            false => self.options.clone(),
        };
        self.validator.validate(graph, kernel, &options)
    }

    /// Writes the package of a kernel.
    ///
    /// # Errors
    /// E1420 when the bundle cannot be written; E1426 when the folder cannot.
    pub fn package(
        &self,
        key: &str,
        blueprint: &Blueprint,
        kernel: &OptimizedKernel,
        validation: &ValidationResult,
        compile_time: Duration,
    ) -> Result<Package, ServiceError> {
        let metadata = PackageMetadata::new(
            key,
            blueprint,
            kernel,
            validation,
            compile_time,
            Provenance::new(self.origin.clone()),
        );
        Package::write(metadata, &kernel.model, &self.seal)
    }

    /// Runs all stages.
    pub fn run(
        &self,
        blueprint: &Blueprint,
        target: &CompileTarget,
        cancel: &CancelToken,
    ) -> CompilationResult {
        let span = tracing::info_span!("service.compile", blueprint = blueprint.name, %target);
        let _entered = span.entered();
        let mut run = Run {
            at: Stage::Validate,
            stages: Vec::new(),
            validation: None,
            cancel,
        };
        let made = self.with_a_cache(|compiler| compiler.run_stages(&mut run, blueprint, target));
        let status = match &made {
            Ok(_) => CompilationStatus::Succeeded,
            Err(ServiceError::Cancelled) => CompilationStatus::Cancelled,
            Err(ServiceError::Rejected { .. }) => CompilationStatus::Rejected,
            Err(_) => CompilationStatus::Failed(run.at),
        };
        let (package, error) = match made {
            Ok(package) => (Some(package), None),
            Err(error) => (None, Some(error)),
        };
        CompilationResult {
            status,
            stages: run.stages,
            validation: run.validation,
            package,
            error,
        }
    }

    /// Candidates, checks and the bundle share the code of kernels through a folder, a temporary one if none was set.
    fn with_a_cache<T>(
        &self,
        work: impl FnOnce(&Self) -> Result<T, ServiceError>,
    ) -> Result<T, ServiceError> {
        if self.keeps_kernels {
            return work(self);
        }
        let folder = tempfile::tempdir();
        let folder = folder.map_err(ServiceError::store("make", std::env::temp_dir()))?;
        work(
            &self
                .clone()
                .with_kernel_cache(folder.path().join("kernels")),
        )
    }

    fn run_stages(
        &self,
        run: &mut Run<'_>,
        blueprint: &Blueprint,
        target: &CompileTarget,
    ) -> Result<Package, ServiceError> {
        let key = self.key(blueprint, target);
        run.stage(Stage::Validate, || self.validate(blueprint))?;
        let mut graph = run.stage(Stage::Build, || self.build(blueprint))?;
        graph
            .metadata_mut()
            .insert(KEY_ENTRY.to_owned(), key.clone());
        if *target != CompileTarget::Cuda {
            // Candidates find the code in the cache.
            run.stage(Stage::Compile, || self.compile(&graph, target))?;
        }
        let cancel = run.cancel;
        let kernel = run.stage(Stage::Optimize, || self.optimize(&graph, target, cancel))?;
        let result = run.stage(Stage::Check, || self.check(&graph, &kernel))?;
        let compile_time = run.stages.iter().map(|&(_, time)| time).sum();
        run.validation = Some(result.clone());
        if !result.passes() {
            return Err(ServiceError::Rejected {
                name: blueprint.name.clone(),
                failures: result.failures().to_string(),
            });
        }
        run.stage(Stage::Package, || {
            self.package(&key, blueprint, &kernel, &result, compile_time)
        })
    }
}

/// A run of the pipeline, so far.
struct Run<'a> {
    at: Stage,
    stages: Vec<(Stage, Duration)>,
    validation: Option<ValidationResult>,
    cancel: &'a CancelToken,
}

impl Run<'_> {
    fn stage<T>(
        &mut self,
        stage: Stage,
        work: impl FnOnce() -> Result<T, ServiceError>,
    ) -> Result<T, ServiceError> {
        if self.cancel.is_cancelled() {
            return Err(ServiceError::Cancelled);
        }
        self.at = stage;
        let begin = Instant::now();
        let result = work();
        self.stages.push((stage, begin.elapsed()));
        result
    }
}
