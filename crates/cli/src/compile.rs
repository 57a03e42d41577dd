//! `kiln compile`: everything that calls of a model may need, compiled and kept, so that later processes compile
//! nothing.

use crate::model::ModelArguments;
use crate::progress::Bar;
use crate::report::{self, Failures};
use crate::timing::TimingArguments;
use anyhow::{Context, Error, bail};
use clap::Args;
use kiln::kernel_cache::open_regular;
use kiln::{Model, ShapeProfile};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How long to wait for the last entries to be stored.
const STORING: Duration = Duration::from_secs(60);

/// Compiles a model ahead of time.
#[derive(Args, Debug)]
pub(crate) struct Compile {
    #[command(flatten)]
    model: ModelArguments,
    #[command(flatten)]
    timing: TimingArguments,
    /// Also for the shapes of a profile, those first that took most time
    #[arg(long, value_name = "FILE")]
    profile: Option<PathBuf>,
    /// Write all that calls may need into one file (.kiln-bundle), to be run where there is no compiler
    #[cfg(feature = "llvm")]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Seal that file with the secret of a key file, so that it can be checked before it is run
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
        let shapes = match &self.profile {
            None => 0,
            Some(path) => precompile(&model, path)?,
        };
        bar.finish();
        if !model.wait_for_compiles(STORING) {
            bail!("what was compiled could not be stored within {STORING:?}");
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
            report::line(format!(
                "{constants} constants: {} packed and {} loaded; {} stored",
                stats.constants_packed, stats.constants_loaded, stats.constants_stored
            ))?;
            if let Some(bytes) = bundle {
                report::line(format!("the bundle has {:.1} MB", bytes as f64 / 1e6))?;
            }
        }
        if not_stored > 0 {
            bail!(
                "{not_stored} kernels could not be stored; `kiln cache stats` says where they would be"
            );
        }
        Ok(Failures::default())
    }

    /// Writes the bundle, if one is requested; returns its size.
    #[cfg(feature = "llvm")]
    fn save(&self, model: &Model) -> Result<Option<u64>, Error> {
        let Some(path) = &self.output else {
            return Ok(None);
        };
        let bytes = match &self.seal {
            Some(key) => model.save_sealed_bundle(path, &kiln::SealKey::read(key)?)?,
            None => model.save_bundle(path)?,
        };
        Ok(Some(bytes))
    }

    #[cfg(not(feature = "llvm"))]
    fn save(&self, _model: &Model) -> Result<Option<u64>, Error> {
        Ok(None)
    }
}

/// Compiles for each of a profile's shapes that fits the model; returns how many do.
fn precompile(model: &Model, path: &Path) -> Result<usize, Error> {
    // One byte more than may be read is an error that says so.
    let limit = ShapeProfile::TEXT_BYTES as u64 + 1;
    let text = open_regular(path)
        .and_then(|file| std::io::read_to_string(file.take(limit)))
        .with_context(|| format!("cannot read the profile {}", path.display()))?;
    let profile = ShapeProfile::from_json(&text)?;
    let mut fitting = 0;
    for entry in profile.entries() {
        match model.precompile(&entry.shapes) {
            Ok(()) => fitting += 1,
            Err(error) => report::note(format!("note: shapes {:?}: {error}", entry.shapes)),
        }
    }
    Ok(fitting)
}
