//! The arguments of every command about a model, and loading it with them.
#![allow(unsafe_code, reason = "bundles are opened on the user's word")]

use crate::importing::ImportArguments;
use crate::progress::Bar;
use crate::report::{self, OfModel};
use crate::timing::TimingArguments;
use anyhow::{Context, Error};
use clap::Args;
use kiln::{
    Cache, CompilePolicy, Compiling, Device, Dim, MemoryBudget, Mode, Model, Notice, Observation,
    Options, OutputPlacement, Passes, Precision, SealKey, VariantOptions,
};
use std::path::PathBuf;
use std::str::FromStr;
#[cfg(feature = "remote")]
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Which model, and how to load it.
#[derive(Args, Debug)]
pub(crate) struct ModelArguments {
    /// An ONNX model (.onnx), a graph in text form (.kiln), or, with one of the two options below, a bundle; for
    /// `serve`, also a folder of models
    model: PathBuf,
    /// MODEL is a bundle (.kiln-bundle): run the machine code in it. Trust it as you would a program
    #[arg(long)]
    trust_bundle: bool,
    /// MODEL is a bundle that was sealed with this key file: run the machine code in it
    #[arg(long, value_name = "FILE", conflicts_with = "trust_bundle")]
    bundle_key: Option<PathBuf>,
    /// Constrain a dimension: seq=1..512 (both ends included), seq=8, seq%8, seq=1..512%8; or declare a likely size, for
    /// which kernels are optimised: seq~128, seq=1..512~128
    #[arg(long = "dim", value_name = "NAME=SIZES")]
    dims: Vec<NamedDim>,
    #[command(flatten)]
    importing: ImportArguments,
    /// The device that executes the model, such as cpu, cpu:avx2+fma (compiled for that level) or interpreter;
    /// `kiln doctor` lists them. By default, cpu in release builds
    #[arg(long, value_name = "DEVICE")]
    device: Option<Device>,
    /// Maximum number of threads of a call; 0 is one per core. The interpreter uses one
    #[arg(long, default_value_t = 0)]
    threads: usize,
    /// The instruction-set level to compile for, such as avx2+fma; by default, this machine's highest
    #[arg(long, value_name = "LEVEL")]
    target: Option<String>,
    /// Where compiled code is stored; `off` for nowhere. By default, KILN_CACHE_DIR or the user's cache folder
    #[arg(long, value_name = "DIR")]
    cache: Option<PathBuf>,
    /// A file of mode 600 with a secret of at least 32 bytes, which signs stored code; unsigned code is compiled again
    #[arg(long, value_name = "FILE")]
    cache_key: Option<PathBuf>,
    /// A store of compiled code that machines share: s3://bucket/kiln, gs://…, az://…, https://…, file:///…; needs
    /// `--cache-key`, which signs its entries
    #[cfg(feature = "remote")]
    #[arg(long, value_name = "ADDRESS", requires = "cache_key")]
    store: Option<String>,
    /// Only read from the store
    #[cfg(feature = "remote")]
    #[arg(long, requires = "store")]
    store_read_only: bool,
    /// How many milliseconds the store may take to begin its response before the code is compiled locally (500)
    #[cfg(feature = "remote")]
    #[arg(long, value_name = "MS", requires = "store")]
    store_deadline: Option<u64>,
    /// When kernels are compiled: first-use, background, after=N (from the Nth call on), ahead (never in a call)
    #[arg(long, value_name = "WHEN")]
    policy: Option<CompilePolicy>,
    /// How many milliseconds a call may wait for compilers before it is interpreted
    #[arg(long, value_name = "MS")]
    max_block: Option<u64>,
    /// Where kernels are compiled: in-process, worker (in processes of this command, so that a crash fails only one
    /// kernel)
    #[cfg(feature = "llvm")]
    #[arg(long, value_name = "WHERE")]
    compiler: Option<kiln::Compiler>,
    /// Compile no variants of kernels for frequent sizes
    #[arg(long)]
    no_variants: bool,
    /// How many milliseconds a kernel runs at the same sizes before it gets a variant for them
    #[arg(long, value_name = "MS", conflicts_with = "no_variants")]
    variants_after: Option<u64>,
    /// Give bit-identical results for the same inputs in every run: no measurement decides which code runs
    #[arg(long)]
    deterministic: bool,
    /// Allow Winograd F(4x4, 3x3) for 3 x 3 convolutions, with about 1.6 times the error
    #[arg(long)]
    fewer_products: bool,
    /// Narrower operands for matrix products and convolutions: bf16, f16, int8, int8-weights, int4-weights or int4-int8
    /// (with /32 for groups of 32 rows, and /zero-points); or for some of them, by name: 'lm_head*=f32'
    #[arg(long, value_name = "[NAMES=]FORMAT")]
    precision: Vec<String>,
    /// How much memory the values between the steps of a call may take before some are recomputed: 50% of what they
    /// take otherwise, or 512MiB
    #[arg(long, value_name = "PART|BYTES")]
    memory_budget: Option<MemoryBudget>,
    /// Leave the graph as imported
    #[arg(long)]
    no_passes: bool,
    /// Reject a model whose stated types its operators contradict or do not confirm
    #[arg(long)]
    strict: bool,
}

impl ModelArguments {
    /// The model's file.
    pub(crate) fn path(&self) -> &std::path::Path {
        &self.model
    }

    /// Makes calls fail that would have to compile.
    pub(crate) fn forbid_compiling(&mut self) {
        self.policy = Some(CompilePolicy::AheadOfTime);
    }

    /// Loads the model to call it, and reports how long that took.
    pub(crate) fn load(
        &self,
        bar: &Bar,
        timing: &TimingArguments,
    ) -> Result<(Model, Duration), Error> {
        self.load_with(bar, |loading| {
            let observation = timing.apply(std::mem::take(&mut loading.observation), bar);
            loading.observation = observation.on_notice(|notice| match notice {
                Notice::InterpretedInDebugBuild => report::note(
                    "note: this debug build interprets models; `--device cpu` compiles them",
                ),
                notice => report::note(format!("note: {notice}")),
            });
        })
    }

    /// Makes a model load for the device of [`compiled_device`](Self::compiled_device).
    pub(crate) fn compile_for(&self, loading: &mut Loading) {
        loading.device = Some(self.compiled_device());
    }

    /// The device for commands about compiled code: that of `--device` if it compiles, otherwise the CPU.
    /// compiles.
    pub(crate) fn compiled_device(&self) -> Device {
        let device = self.device.clone();
        let compiles = device.filter(|device| !device.interprets());
        compiles.unwrap_or_else(Device::cpu)
    }

    /// The levels of `list`, where `all` stands for every level of the device; for an empty list, that of `--target`.
    pub(crate) fn targets(&self, list: &[String]) -> Result<Vec<Option<String>>, Error> {
        if list.is_empty() {
            return Ok(vec![self.target.clone()]);
        }
        let mut targets = Vec::new();
        for target in list {
            match target.as_str() {
                "all" => {
                    let levels = self.compiled_device().levels();
                    targets.extend(levels.into_iter().map(Some));
                }
                target => targets.push(Some(target.to_owned())),
            }
        }
        Ok(targets)
    }

    /// The numbers of threads of `list`; for an empty list, that of `--threads`.
    pub(crate) fn thread_counts(&self, list: &[usize]) -> Vec<usize> {
        if list.is_empty() {
            vec![self.threads]
        } else {
            list.to_vec()
        }
    }

    fn open(&self, options: Options) -> Result<Model, kiln::Error> {
        match &self.bundle_key {
            Some(key) => Model::open_sealed_bundle(&self.model, &SealKey::read(key)?, options),
            // SAFETY: the user trusts this file as a program.
            None if self.trust_bundle => unsafe { Model::open_bundle(&self.model, options) },
            None => options.load(&self.model),
        }
    }

    /// Loads the model with settings that differ from the arguments.
    pub(crate) fn load_with(
        &self,
        bar: &Bar,
        change: impl FnOnce(&mut Loading),
    ) -> Result<(Model, Duration), Error> {
        let shown = bar.clone();
        let observation = Observation::new().on_progress(move |progress| shown.show(progress));
        let options = self.options(observation, change)?;
        let start = Instant::now();
        let model = self.open(options);
        bar.finish();
        let model = model.map_err(|error| Error::from(error).context(OfModel::new(&self.model)))?;
        Ok((model, start.elapsed()))
    }

    /// The options of the arguments, with settings that differ from them.
    fn options(
        &self,
        observation: Observation,
        change: impl FnOnce(&mut Loading),
    ) -> Result<Options, Error> {
        let mut loading = Loading {
            device: self.device.clone(),
            threads: self.threads,
            target: self.target.clone(),
            compiling: self.compiling(),
            precision: self.precision()?,
            memory_budget: self.memory_budget.unwrap_or_default(),
            observation,
        };
        change(&mut loading);
        let mode = match self.strict {
            true => Mode::Strict,
            false => Mode::Lenient,
        };
        let mut options = loading
            .options()
            // Every command reads all outputs, so measurements include downloading them.
            .outputs(OutputPlacement::Host)
            .import(self.importing.import()?.mode(mode))
            .cache(self.cache()?);
        #[cfg(feature = "remote")]
        if let Some(store) = self.store()? {
            options = options.tier(store);
        }
        if self.no_passes {
            options = options.passes(Passes::None);
        }
        for NamedDim { name, dim } in &self.dims {
            options = options.dim(name, *dim);
        }
        Ok(options)
    }

    /// What a server needs: the path of the models, and how they are loaded.
    ///
    /// # Errors
    /// When a file that an option names cannot be read, or an option is not for servers.
    #[cfg(feature = "serve")]
    pub(crate) fn repository(
        &self,
        models: impl FnOnce(&std::path::Path) -> Result<kiln_serve::Models, Error>,
    ) -> Result<kiln_serve::RepositoryOptions, Error> {
        anyhow::ensure!(
            !self.trust_bundle,
            "a server opens bundles only with `--bundle-key`"
        );
        let observation =
            Observation::new().on_notice(|notice| report::note(format!("note: {notice}")));
        let mut repository = kiln_serve::RepositoryOptions::new(models(&self.model)?);
        repository.loading = self.options(observation, |_| {})?;
        repository.compiling = self.compiling();
        repository.bundle_key = self.bundle_key.as_ref().map(SealKey::read).transpose()?;
        Ok(repository)
    }

    /// The precision that the arguments set.
    pub(crate) fn precision(&self) -> Result<Option<Precision>, Error> {
        if self.precision.is_empty() {
            return Ok(None);
        }
        let precision = self.precision.join(",").parse();
        Ok(Some(precision.map_err(kiln::Error::from)?))
    }

    fn cache(&self) -> Result<Cache, Error> {
        let cache = match &self.cache {
            Some(folder) if folder.as_os_str() == "off" => Cache::off(),
            Some(folder) => Cache::folder(folder),
            None => Cache::default(),
        };
        Ok(match &self.cache_key {
            Some(key) => cache.key(SealKey::read(key)?),
            None => cache,
        })
    }

    #[cfg(feature = "remote")]
    fn store(&self) -> Result<Option<Arc<dyn kiln::Tier>>, Error> {
        let (Some(address), Some(key)) = (&self.store, &self.cache_key) else {
            return Ok(None);
        };
        let usual = kiln::remote::RemoteOptions::default();
        let deadline = self.store_deadline.map(Duration::from_millis);
        let options = kiln::remote::RemoteOptions {
            read_only: self.store_read_only,
            deadline: deadline.unwrap_or(usual.deadline),
            ..usual
        };
        let store = kiln::remote::open(address, SealKey::read(key)?, options)?;
        Ok(Some(store))
    }

    fn compiling(&self) -> Compiling {
        let defaults = Compiling::default();
        let variants = match self.variants_after {
            Some(after) => Some(VariantOptions::new().with_after(Duration::from_millis(after))),
            None if self.no_variants => None,
            None => defaults.variants,
        };
        Compiling {
            policy: self.policy.unwrap_or_default(),
            max_block: self.max_block.map(Duration::from_millis),
            variants,
            deterministic: self.deterministic,
            fewer_products: self.fewer_products,
            #[cfg(feature = "llvm")]
            compiler: self.compiler.clone().unwrap_or_default(),
            ..defaults
        }
    }
}

/// The settings that commands may change.
pub(crate) struct Loading {
    pub(crate) device: Option<Device>,
    /// 0 is one per core.
    pub(crate) threads: usize,
    pub(crate) target: Option<String>,
    pub(crate) compiling: Compiling,
    pub(crate) precision: Option<Precision>,
    pub(crate) memory_budget: MemoryBudget,
    pub(crate) observation: Observation,
}

impl Loading {
    fn options(self) -> Options {
        let mut options = Options::new()
            .compiling(self.compiling)
            .memory_budget(self.memory_budget)
            .observe(self.observation);
        if let Some(device) = self.device {
            options = options.device(device);
        }
        if self.threads > 0 {
            options = options.threads(self.threads);
        }
        if let Some(target) = self.target {
            options = options.target(target);
        }
        if let Some(precision) = self.precision {
            options = options.precision(precision);
        }
        options
    }
}

/// `seq=1..512`, `seq%8` or `seq~128`.
#[derive(Clone, Debug)]
struct NamedDim {
    name: String,
    dim: Dim,
}

impl FromStr for NamedDim {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let end = text.find(['=', '%', '~']).filter(|&end| end > 0);
        let (name, rest) = end
            .map(|end| text.split_at(end))
            .context("expected NAME=SIZES, NAME%DIVISOR or NAME~LIKELY")?;
        let dim = rest.strip_prefix('=').unwrap_or(rest).parse()?;
        Ok(Self {
            name: name.trim().to_owned(),
            dim,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dimensions_are_given_by_name() {
        let parse = |text: &str| {
            text.parse::<NamedDim>()
                .map(|named| (named.name, named.dim))
                .ok()
        };
        assert_eq!(
            parse("seq=1..512"),
            Some(("seq".into(), Dim::range(1..=512)))
        );
        assert_eq!(parse("seq=8"), Some(("seq".into(), Dim::fixed(8))));
        assert_eq!(
            parse("seq%8"),
            Some(("seq".into(), Dim::any().multiple_of(8)))
        );
        assert_eq!(
            parse("s=1..9%3"),
            Some(("s".into(), Dim::range(1..=9).multiple_of(3)))
        );
        assert_eq!(
            parse("seq~128"),
            Some(("seq".into(), Dim::any().likely(128)))
        );
        assert_eq!(
            parse("s=1..9%3~6"),
            Some(("s".into(), Dim::range(1..=9).multiple_of(3).likely(6)))
        );
        for text in ["seq", "=8", "~8", "seq~", "seq~x", "seq~1..2"] {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
