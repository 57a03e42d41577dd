//! Converts keyword arguments to the facade's options.

use std::path::PathBuf;
use std::time::Duration;

use kiln::internals::lazy_runtime::UnknownPolicy;
use kiln::{
    Cache, CompilePolicy, Compiling, Device, Dim, ErrorKind, Gradients, MemoryBudget, Options,
    OutputPlacement, Passes, Precision,
};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::errors::{exception, raise};

/// The keyword arguments of `kiln.load` and `kiln.open_bundle`.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct Settings<'py> {
    device: Option<String>,
    threads: Option<usize>,
    target: Option<String>,
    dims: Option<Bound<'py, PyDict>>,
    cache: Option<Bound<'py, PyAny>>,
    policy: Option<String>,
    max_block: Option<f64>,
    deterministic: bool,
    passes: bool,
    gradients: Option<(String, Option<Vec<String>>)>,
    precision: Option<String>,
    memory_budget: Option<String>,
}

impl Settings<'_> {
    /// The options for these arguments.
    pub(crate) fn options(&self, py: Python<'_>) -> PyResult<Options> {
        let mut options = Options::new()
            .outputs(OutputPlacement::Host)
            .cache(self.cache(py)?)
            .compiling(self.compiling(py)?);
        options = match &self.device {
            Some(device) => options.device(parsed::<Device>(py, device)?),
            None => options.device(default_device()),
        };
        if let Some(threads) = self.threads {
            options = options.threads(threads);
        }
        if let Some(target) = &self.target {
            options = options.target(target);
        }
        if !self.passes {
            options = options.passes(Passes::None);
        }
        if let Some((output, inputs)) = &self.gradients {
            let gradients = Gradients::of(output);
            options = options.gradients(match inputs {
                Some(inputs) => gradients.with_respect_to(inputs),
                None => gradients,
            });
        }
        if let Some(precision) = &self.precision {
            let precision = precision.parse::<Precision>();
            options = options.precision(precision.map_err(|error| raise(py, &error.into()))?);
        }
        if let Some(budget) = &self.memory_budget {
            let budget = budget.parse::<MemoryBudget>().map_err(|error| {
                let message = format!("cannot use the memory budget {budget:?}: {error}");
                exception(py, ErrorKind::InvalidInput, "E0986", &message)
            })?;
            options = options.memory_budget(budget);
        }
        let dims = self.dims.as_ref().map(|dims| dims.iter());
        for (name, sizes) in dims.into_iter().flatten() {
            let name: String = name.extract()?;
            options = options.dim(&name, dim(&sizes)?);
        }
        Ok(options)
    }

    fn cache(&self, py: Python<'_>) -> PyResult<Cache> {
        match &self.cache {
            None => Ok(Cache::default()),
            Some(cache) => match cache.extract::<bool>() {
                Ok(false) => Ok(Cache::off()),
                Ok(true) => Ok(Cache::default()),
                Err(_) => match cache.extract::<PathBuf>() {
                    Ok(folder) => Ok(Cache::folder(folder)),
                    Err(_) => {
                        let message = "expected `cache` to be a folder, or False for none";
                        Err(exception(py, ErrorKind::InvalidInput, "E0986", message))
                    }
                },
            },
        }
    }

    fn compiling(&self, py: Python<'_>) -> PyResult<Compiling> {
        let policy = match &self.policy {
            Some(policy) => policy.parse().map_err(|error: UnknownPolicy| {
                let message = format!("cannot use the policy {policy:?}: {error}");
                exception(py, ErrorKind::InvalidInput, "E0986", &message)
            })?,
            None => CompilePolicy::default(),
        };
        let seconds = self
            .max_block
            .filter(|seconds| seconds.is_finite() && *seconds >= 0.0);
        Ok(Compiling {
            policy,
            max_block: seconds.map(Duration::from_secs_f64),
            deterministic: self.deterministic,
            ..Compiling::default()
        })
    }
}

/// The CPU if this build compiles for it, in debug builds too, since Python programs do not step through a model's ops.
fn default_device() -> Device {
    match cfg!(feature = "llvm") {
        true => Device::cpu(),
        false => Device::interpreter(),
    }
}

fn parsed<T: std::str::FromStr<Err = kiln::Error>>(py: Python<'_>, text: &str) -> PyResult<T> {
    text.parse().map_err(|error| raise(py, &error))
}

/// The range of a symbol: an integer, a pair of bounds, or text in the command line's syntax (`1..512`,
/// `1..512*8~128`).
fn dim(sizes: &Bound<'_, PyAny>) -> PyResult<Dim> {
    if let Ok(size) = sizes.extract::<i64>() {
        return Ok(Dim::fixed(size));
    }
    if let Ok((least, most)) = sizes.extract::<(i64, i64)>() {
        return Ok(Dim::range(least..=most));
    }
    parsed(sizes.py(), &sizes.extract::<String>()?)
}
