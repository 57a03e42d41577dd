//! `kiln compile`: compiles and stores everything that calls of a model may need, so that later processes compile nothing.

use crate::model::ModelArguments;
use crate::progress::Bar;
use crate::report::{self, Failures};
use crate::timing::TimingArguments;
use anyhow::{Context, Error, bail};
use clap::Args;
use kiln::internals::kernel_cache::open_regular;
use kiln::{Model, ShapeProfile, ShapeVariantGenerator};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::{Duration, Instant};

/// The same samples each time.
const SEED: u64 = 0;

/// How long to wait for the last entries to be stored.
const STORING: Duration = Duration::from_secs(60);

/// Compiles a model ahead of time.
#[derive(Args, Debug)]
pub(crate) struct Compile {
    #[command(flatten)]
    model: ModelArguments,
    #[command(flatten)]
    timing: TimingArguments,
    /// Also compile for the shapes of a profile, those that took the most time first
    #[arg(long, value_name = "FILE")]
    profile: Option<PathBuf>,
    /// Also compile for N combinations of sizes within their bounds: likely, minimum, maximum, then random
    #[arg(long, value_name = "N", default_value_t = 0)]
    samples: usize,
    /// Also compile for every combination of N sizes of each named dimension, from its minimum to its maximum: batch=4.
    /// Other dimensions have their likely size
    #[arg(long, value_name = "NAME=N")]
    grid: Vec<Samples>,
    /// Write everything that calls may need to one file (.kiln-bundle), which runs without a compiler
    #[cfg(feature = "llvm")]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Seal the bundle with the secret in a key file, so that it can be verified before it is run
    #[cfg(feature = "llvm")]
    #[arg(long, value_name = "FILE", requires = "output")]
    seal: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Compile {
    pub(crate) fn run(self) -> Result<Failures, Error> {
        let bar = Bar::new();
        let (model, load) = self.model.load(&bar, &self.timing)?;
        let begin = Instant::now();
        let kernels = model.compile()?;
        let shapes = precompile(&model, &self.shapes(&model)?);
        bar.finish();
        if !model.wait_for_compiles(STORING) {
            bail!("the compiled code could not be stored within {STORING:?}");
        }
        let time = begin.elapsed();
        let stats = model.compilation_stats();
        let compiled = stats.compilations.saturating_sub(stats.failures);
        let (stored, not_stored) = (stats.cache.stored, stats.cache.not_stored);
        let constants = stats.constants_packed + stats.constants_loaded;
        let bundle = self.save(&model)?;
        if self.json {
            report::line(
                serde_json::json!({
                    "kernels": kernels, "compiled": compiled, "loaded": stats.cache.tier_hits,
                    "stored": stored, "not_stored": not_stored, "shapes": shapes,
                    "constants_packed": stats.constants_packed,
                    "constants_loaded": stats.constants_loaded,
                    "constants_stored": stats.constants_stored, "bundle_bytes": bundle,
                    "load_ms": load.as_secs_f64() * 1e3, "compile_ms": time.as_secs_f64() * 1e3,
                })
                .to_string(),
            )?;
        } else {
            report::line(format!(
                "{kernels} kernels: {compiled} compiled and {} loaded in {:.0} ms; {stored} stored",
                stats.cache.tier_hits,
                time.as_secs_f64() * 1e3
            ))?;
            if shapes > 0 {
                report::line(format!("{shapes} combinations of sizes were planned for"))?;
            }
            report::line(format!(
                "{constants} constants: {} packed and {} loaded; {} stored",
                stats.constants_packed, stats.constants_loaded, stats.constants_stored
            ))?;
            if let Some(bytes) = bundle {
                report::line(format!("the bundle has {:.1} MB", bytes as f64 / 1e6))?;
            }
        }
        if not_stored > 0 {
            bail!("{not_stored} kernels could not be stored; `kiln cache stats` prints the folder");
        }
        Ok(Failures::default())
    }

    /// The shapes of the inputs of calls to compile for.
    fn shapes(&self, model: &Model) -> Result<Vec<Vec<Vec<usize>>>, Error> {
        let mut shapes = match &self.profile {
            None => Vec::new(),
            Some(path) => of_profile(path)?,
        };
        if self.samples == 0 && self.grid.is_empty() {
            return Ok(shapes);
        }
        let inputs = model.inputs().iter().map(|input| {
            let shape = input.shape().cloned();
            shape.with_context(|| format!("the rank of input `{}` is open", input.name()))
        });
        let inputs = inputs.collect::<Result<Vec<_>, Error>>()?;
        for Samples { name, .. } in &self.grid {
            let mut dimensions = inputs.iter().flat_map(|shape| shape.dimensions());
            if !dimensions.any(|dimension| dimension.name() == name) {
                bail!("no input has a dimension `{name}`");
            }
        }
        let generator = ShapeVariantGenerator::new(SEED);
        let mut made = generator.generate_variants(&inputs, self.samples);
        if !self.grid.is_empty() {
            made.extend(generator.generate_grid(&inputs, |dimension| {
                let named = self.grid.iter().find(|grid| grid.name == dimension.name());
                named.map_or(1, |grid| grid.samples)
            }));
        }
        let sizes = |sizes: Vec<i64>| sizes.into_iter().map(usize::try_from).collect();
        for point in made {
            shapes.push(point.into_iter().map(sizes).collect::<Result<_, _>>()?);
        }
        Ok(shapes)
    }

    /// Writes the bundle, if requested; returns its size.
    #[cfg(feature = "llvm")]
    fn save(&self, model: &Model) -> Result<Option<u64>, Error> {
        let Some(path) = &self.output else {
            return Ok(None);
        };
        let seal = self.seal.as_ref().map(kiln::SealKey::read).transpose()?;
        Ok(Some(model.save_bundle(path, seal.as_ref())?))
    }

    #[cfg(not(feature = "llvm"))]
    fn save(&self, _model: &Model) -> Result<Option<u64>, Error> {
        Ok(None)
    }
}

/// The shapes of a profile, those that took most time first.
fn of_profile(path: &Path) -> Result<Vec<Vec<Vec<usize>>>, Error> {
    // One byte beyond the limit is reported as an error.
    let limit = ShapeProfile::TEXT_BYTES as u64 + 1;
    let text = open_regular(path)
        .and_then(|file| std::io::read_to_string(file.take(limit)))
        .with_context(|| format!("cannot read the profile {}", path.display()))?;
    let profile = ShapeProfile::from_json(&text)?;
    let entries = profile.entries().iter();
    Ok(entries.map(|entry| entry.shapes.clone()).collect())
}

/// Compiles for each of these shapes that fits the model; returns the number that fit.
fn precompile(model: &Model, shapes: &[Vec<Vec<usize>>]) -> usize {
    let fits = |shapes: &&Vec<Vec<usize>>| match model.precompile(*shapes) {
        Ok(()) => true,
        Err(error) => {
            report::note(format!("note: shapes {shapes:?}: {error}"));
            false
        }
    };
    shapes.iter().filter(fits).count()
}

/// The number of sizes of a dimension in a grid.
#[derive(Clone, Debug)]
struct Samples {
    name: String,
    samples: usize,
}

impl FromStr for Samples {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let (name, samples) = text.split_once('=').context("expected NAME=N")?;
        let samples = samples.trim().parse();
        Ok(Self {
            name: name.trim().to_owned(),
            samples: samples.context("expected a number of sizes")?,
        })
    }
}
