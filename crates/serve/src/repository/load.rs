//! Loads one version of a model: data, a sealed bundle, or a blueprint.

use super::layout::{self, Found};
use crate::error::{ServeError, shown};
use crate::metrics::ModelMetrics;
use crate::model::ServedModel;
use crate::options::RepositoryOptions;
use kiln::{Input, Inputs, Model, Options};
use std::path::Path;

/// Loads a version, compiles the kernels that its configuration requests, and starts its threads.
///
/// # Errors
/// E1520 to E1523, naming the file.
pub(super) fn served(
    found: &Found,
    version: u64,
    options: &RepositoryOptions,
    metrics: ModelMetrics,
) -> Result<ServedModel, ServeError> {
    let config = &found.config;
    let misconfigured = |problem: String| ServeError::Config {
        path: found.config_path.clone(),
        problem,
    };
    let serving = config.serving(&options.serving).map_err(misconfigured)?;
    let loading = config.options(&options.loading, &options.compiling);
    let loading = loading.map_err(misconfigured)?;
    let mut versions = found.versions.iter();
    let Some((_, place)) = versions.find(|(number, _)| *number == version) else {
        unreachable!("the version is one of those that were found");
    };
    let file = layout::file_of(place)?;
    let _span = tracing::info_span!("serve.load", model = %metrics.labels()).entered();
    let model = open(&file, loading, options)?;
    for shapes in &config.precompile {
        let shapes: Inputs<'_, Vec<usize>> = shapes
            .iter()
            .map(|(name, shape)| Input::from((name.as_str(), shape)))
            .collect();
        let compiled = model.precompile(shapes);
        compiled
            .map_err(|error| misconfigured(format!("precompile: [{}] {error}", error.code())))?;
    }
    ServedModel::start(model, &serving, metrics, &found.config_path)
}

fn open(file: &Path, loading: Options, options: &RepositoryOptions) -> Result<Model, ServeError> {
    let failed = |error: kiln::Error| ServeError::Load {
        file: shown(file),
        code: error.code(),
        cause: error.to_string(),
    };
    let ending = file.extension().and_then(|ending| ending.to_str());
    match ending {
        Some("kiln-bundle") => bundle(file, loading, options),
        Some("json") => blueprint(file, &loading),
        _ => loading.load(file).map_err(failed),
    }
}

/// A bundle is machine code: it is opened only with the key that it was sealed with.
fn bundle(file: &Path, loading: Options, options: &RepositoryOptions) -> Result<Model, ServeError> {
    #[cfg(feature = "native")]
    {
        let Some(key) = &options.bundle_key else {
            let problem = "expected the key that the bundle was sealed with, found none; set `bundle_key` (--bundle-key)";
            return Err(ServeError::layout(file, problem));
        };
        let opened = Model::open_sealed_bundle(file, key, loading);
        opened.map_err(|error| ServeError::Load {
            file: shown(file),
            code: error.code(),
            cause: error.to_string(),
        })
    }
    #[cfg(not(feature = "native"))]
    {
        let _ = (loading, options);
        let problem = "expected a model, found a bundle, which this build cannot run; build with the feature `native`";
        Err(ServeError::layout(file, problem))
    }
}

#[cfg(feature = "blueprints")]
fn blueprint(file: &Path, loading: &Options) -> Result<Model, ServeError> {
    use kiln::Source;
    use kiln_service::blueprint::{Blueprint, BlueprintLimits};
    use kiln_service::convert::GraphConverter;

    let limits = BlueprintLimits::default();
    let unreadable = |error: std::io::Error| ServeError::layout(file, error.to_string());
    let length = std::fs::metadata(file).map_err(unreadable)?.len();
    if usize::try_from(length).map_or(true, |length| length > limits.json_bytes) {
        let problem = format!(
            "expected at most {} bytes, found {length}",
            limits.json_bytes
        );
        return Err(ServeError::layout(file, problem));
    }
    let text = std::fs::read_to_string(file).map_err(unreadable)?;
    let failed = |code: &'static str, cause: String| ServeError::Load {
        file: shown(file),
        code,
        cause,
    };
    let graph = Blueprint::from_json(&text, &limits)
        .and_then(|blueprint| GraphConverter::new(limits).convert(&blueprint))
        .map_err(|error| failed(error.code(), error.to_string()))?;
    let model = loading.load(Source::graph(graph));
    model.map_err(|error| failed(error.code(), error.to_string()))
}

#[cfg(not(feature = "blueprints"))]
fn blueprint(file: &Path, _loading: &Options) -> Result<Model, ServeError> {
    let problem = "expected a model, found a blueprint, which this build does not read; build with the feature `blueprints`";
    Err(ServeError::layout(file, problem))
}
