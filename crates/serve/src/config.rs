//! A model's `config.json`: how it is loaded, and how its requests are queued and batched.

use crate::error::{ServeError, shown};
use crate::options::ServingDefaults;
use kiln::{CompilePolicy, Compiling, Device, Dim, Import, Options, VariantOptions};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

/// The maximum size of a configuration in bytes.
const LIMIT: u64 = 1 << 20;

/// A model's configuration, as written in its file. Every field may be omitted.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct ModelConfig {
    /// Which versions are loaded: `"latest"`, `"all"`, or a list of numbers.
    pub(crate) versions: Versions,
    /// Constraints on dimensions, such as `"seq": "1..512 % 8 ~ 128"`.
    dims: BTreeMap<String, String>,
    /// The ranks of inputs whose rank the model leaves open.
    ranks: BTreeMap<String, usize>,
    /// What executes the model, such as `"cpu"`.
    device: Option<String>,
    /// How many threads a call may use.
    threads: Option<usize>,
    /// The instruction-set level to compile for.
    target: Option<String>,
    /// When kernels are compiled: `"first-use"`, `"background"`, `"after=N"` or `"ahead"`.
    policy: Option<String>,
    /// How many milliseconds a call may wait for compilers before it is interpreted.
    max_block_ms: Option<u64>,
    /// Whether the same inputs always give the same bits.
    deterministic: Option<bool>,
    /// Whether kernels get variants for frequent sizes.
    variants: Option<bool>,
    /// Shapes of inputs by name; the model is ready once everything that calls with these shapes need is compiled.
    pub(crate) precompile: Vec<BTreeMap<String, Vec<usize>>>,
    /// How many requests may wait.
    queue: Option<usize>,
    /// How many calls run at one time.
    calls: Option<usize>,
    /// How many milliseconds a request may take.
    timeout_ms: Option<u64>,
    /// How requests are joined.
    batching: BatchingConfig,
}

/// How requests are joined.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct BatchingConfig {
    /// `false` disables batching; `true` makes it an error if the model cannot be batched; if omitted, the model is
    /// batched if it can be.
    enabled: Option<bool>,
    /// The symbol along which requests are joined; if omitted, the first size of the first input.
    symbol: Option<String>,
    /// The maximum size of the symbol in a joined call.
    max_batch: Option<usize>,
    /// How many milliseconds a request waits for others.
    max_delay_ms: Option<f64>,
    /// The operator vouches that parts of a batch are independent of each other; no proof is then required.
    assume_independent: bool,
}

/// Which versions of a model are loaded.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(try_from = "serde_json::Value")]
pub(crate) enum Versions {
    /// The version with the highest number.
    #[default]
    Latest,
    /// All versions.
    All,
    /// These versions.
    Listed(Vec<u64>),
}

impl TryFrom<serde_json::Value> for Versions {
    type Error = String;

    fn try_from(value: serde_json::Value) -> Result<Self, String> {
        let expected = || "expected \"latest\", \"all\" or a list of numbers".to_owned();
        match &value {
            serde_json::Value::String(word) if word == "latest" => Ok(Self::Latest),
            serde_json::Value::String(word) if word == "all" => Ok(Self::All),
            serde_json::Value::Array(listed) if !listed.is_empty() => {
                let numbers = listed
                    .iter()
                    .map(|number| number.as_u64().ok_or_else(expected));
                Ok(Self::Listed(numbers.collect::<Result<_, _>>()?))
            }
            _ => Err(expected()),
        }
    }
}

/// How a model's requests wait and are joined.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Serving {
    pub(crate) queue: usize,
    pub(crate) calls: usize,
    pub(crate) timeout: Duration,
    pub(crate) batching: Batching,
}

/// Whether and how requests are joined.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Batching {
    pub(crate) wanted: Wanted,
    pub(crate) symbol: Option<String>,
    pub(crate) max_batch: usize,
    pub(crate) max_delay: Duration,
    pub(crate) assume_independent: bool,
}

/// Whether requests are joined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wanted {
    Never,
    IfPossible,
    Required,
}

impl ModelConfig {
    /// The configuration in a file; the defaults if there is none.
    ///
    /// # Errors
    /// E1522 when it cannot be read, or does not have this form.
    pub(crate) fn read(path: &Path) -> Result<Self, ServeError> {
        let unusable = |problem: String| ServeError::Config {
            path: shown(path),
            problem,
        };
        match std::fs::metadata(path) {
            Ok(found) if found.len() > LIMIT => {
                return Err(unusable(format!("expected at most {LIMIT} bytes")));
            }
            Ok(_) => {}
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return Ok(Self::default());
            }
            Err(error) => return Err(unusable(error.to_string())),
        }
        let text = std::fs::read_to_string(path).map_err(|error| unusable(error.to_string()))?;
        Self::of_json(&text).map_err(unusable)
    }

    fn of_json(text: &str) -> Result<Self, String> {
        let mut reader = serde_json::Deserializer::from_str(text);
        let read: Result<Self, _> = serde_path_to_error::deserialize(&mut reader);
        let config = read.map_err(|error| {
            let path = error.path().to_string();
            format!("{path}: {}", error.inner())
                .escape_debug()
                .to_string()
        })?;
        reader.end().map_err(|error| error.to_string())?;
        Ok(config)
    }

    /// Options to load the model with, from those of the repository.
    ///
    /// # Errors
    /// The field whose value is invalid, and why.
    pub(crate) fn options(&self, base: &Options, compiling: &Compiling) -> Result<Options, String> {
        let of = |field: &str, error: &dyn std::fmt::Display| format!("{field}: {error}");
        let mut options = base.clone().compiling(self.compiling(compiling)?);
        for (name, text) in &self.dims {
            let dim: Dim = text.parse().map_err(|error| of("dims", &error))?;
            options = options.dim(name, dim);
        }
        if !self.ranks.is_empty() {
            let ranks = self.ranks.iter();
            options = options.import(ranks.fold(Import::new(), |import, (input, &rank)| {
                import.rank(input, rank)
            }));
        }
        if let Some(device) = &self.device {
            let device: Device = device.parse().map_err(|error| of("device", &error))?;
            options = options.device(device);
        }
        if let Some(threads) = self.threads {
            options = options.threads(threads);
        }
        if let Some(target) = &self.target {
            options = options.target(target);
        }
        Ok(options)
    }

    /// When kernels are compiled; the repository's options are the default.
    fn compiling(&self, base: &Compiling) -> Result<Compiling, String> {
        let mut compiling = base.clone();
        if let Some(word) = &self.policy {
            let policy: Result<CompilePolicy, _> = word.parse();
            compiling.policy = policy.map_err(|error| format!("policy: {error}"))?;
        }
        if let Some(ms) = self.max_block_ms {
            compiling.max_block = Some(Duration::from_millis(ms));
        }
        if let Some(deterministic) = self.deterministic {
            compiling.deterministic = deterministic;
        }
        match self.variants {
            Some(true) => {
                compiling.variants = compiling.variants.or(Some(VariantOptions::default()))
            }
            Some(false) => compiling.variants = None,
            None => {}
        }
        Ok(compiling)
    }

    /// How requests wait and are joined.
    ///
    /// # Errors
    /// The field whose value is invalid, and why.
    pub(crate) fn serving(&self, defaults: &ServingDefaults) -> Result<Serving, String> {
        let positive = |field: &str, number: usize| match number {
            0 => Err(format!("{field}: expected a positive number, found 0")),
            number => Ok(number),
        };
        let batching = &self.batching;
        let max_delay = match batching.max_delay_ms {
            Some(ms) => Duration::try_from_secs_f64(ms / 1e3)
                .map_err(|_| format!("batching.max_delay_ms: expected milliseconds, found {ms}"))?,
            None => defaults.max_delay,
        };
        let timeout = self.timeout_ms.map(Duration::from_millis);
        let timeout = timeout.unwrap_or(defaults.timeout);
        if timeout.is_zero() {
            return Err("timeout_ms: expected a positive number, found 0".to_owned());
        }
        Ok(Serving {
            queue: positive("queue", self.queue.unwrap_or(defaults.queue))?,
            calls: positive("calls", self.calls.unwrap_or(defaults.calls))?,
            timeout,
            batching: Batching {
                wanted: match batching.enabled {
                    Some(true) => Wanted::Required,
                    Some(false) => Wanted::Never,
                    None if defaults.batching => Wanted::IfPossible,
                    None => Wanted::Never,
                },
                symbol: batching.symbol.clone(),
                max_batch: positive(
                    "batching.max_batch",
                    batching.max_batch.unwrap_or(defaults.max_batch),
                )?,
                max_delay,
                assume_independent: batching.assume_independent,
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_example_of_the_guide_is_read() {
        let page = include_str!("../../../docs/book/src/guide/serving.md");
        let example = page.split("```json\n").nth(1).unwrap();
        let example = example.split("```").next().unwrap();
        let config = ModelConfig::of_json(example).unwrap();
        config
            .options(&Options::new(), &Compiling::default())
            .unwrap();
        config.serving(&ServingDefaults::default()).unwrap();
        assert!(!config.precompile.is_empty());
    }

    #[test]
    fn mistakes_are_errors_that_name_the_field() {
        for (text, part) in [
            (r#"{"batchin": {}}"#, "batchin"),
            (r#"{"batching": {"enabled": 1}}"#, "batching.enabled"),
            (r#"{"versions": []}"#, "versions"),
            (r#"{"queue": -1}"#, "queue"),
            ("7", "invalid type"),
            (r#"{} {}"#, "trailing"),
        ] {
            let error = ModelConfig::of_json(text).unwrap_err();
            assert!(error.contains(part), "{text}: {error}");
        }
        let options = |text: &str| {
            let config = ModelConfig::of_json(text).unwrap();
            config
                .options(&Options::new(), &Compiling::default())
                .map(drop)
        };
        assert!(
            options(r#"{"dims": {"N": "1..x"}}"#)
                .unwrap_err()
                .contains("dims")
        );
        assert!(
            options(r#"{"policy": "never"}"#)
                .unwrap_err()
                .contains("policy")
        );
        let serving = |text: &str| {
            let config = ModelConfig::of_json(text).unwrap();
            config.serving(&ServingDefaults::default())
        };
        assert!(serving(r#"{"queue": 0}"#).unwrap_err().contains("queue"));
        assert!(
            serving(r#"{"timeout_ms": 0}"#)
                .unwrap_err()
                .contains("timeout_ms")
        );
        let text = r#"{"batching": {"max_delay_ms": -1}}"#;
        assert!(serving(text).unwrap_err().contains("max_delay_ms"));
    }

    #[test]
    fn versions_are_a_word_or_a_list() {
        let versions = |text: &str| ModelConfig::of_json(text).unwrap().versions;
        assert_eq!(versions("{}"), Versions::Latest);
        assert_eq!(versions(r#"{"versions": "all"}"#), Versions::All);
        assert_eq!(
            versions(r#"{"versions": [1, 3]}"#),
            Versions::Listed(vec![1, 3])
        );
    }
}
