//! Models: loading and calling them.
#![allow(
    unsafe_code,
    reason = "a bundle without a key is vouched for by its opener"
)]

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use kiln::diagnose::{self, CallReport, Stage};
use kiln::{Call, Input, Inputs, Options, SealKey, Source};
use pyo3::exceptions::{PyRuntimeError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyTuple};

use crate::arrays;
use crate::dtypes;
use crate::errors::raise;
use crate::interrupts;
use crate::session::Session;
use crate::settings::Settings;
use crate::tensor::Tensor;

/// A loaded model. It is compiled on its first call, for any sizes that its symbols allow. Any number of threads may
/// call it.
#[pyclass(module = "kiln", frozen)]
pub(crate) struct Model {
    model: kiln::Model,
}

/// Loads a model: the path of an ``.onnx`` or ``.kiln`` file, the bytes of an ONNX model, or the text of a graph.
#[pyfunction]
pub(crate) fn load(
    py: Python<'_>,
    source: &Bound<'_, PyAny>,
    settings: Settings<'_>,
) -> PyResult<Model> {
    let options = settings.options(py)?;
    if let Ok(bytes) = source.cast::<PyBytes>() {
        let bytes = bytes.as_bytes();
        return loaded(py, options, |options| {
            options.load(Source::onnx(bytes, None))
        });
    }
    let path: PathBuf = source.extract()?;
    let text = path
        .to_str()
        .filter(|text| text.trim_start().starts_with("graph "));
    loaded(py, options, |options| match text {
        Some(text) => options.load(Source::text(text)),
        None => options.load(Source::file(&path)),
    })
}

/// Loads a model with the GIL released; Ctrl-C interrupts it.
pub(crate) fn loaded(
    py: Python<'_>,
    options: Options,
    load: impl FnOnce(Options) -> Result<kiln::Model, kiln::Error> + Send,
) -> PyResult<Model> {
    let options = match interrupts::watched() {
        Some(flag) => options.cancel_when(move || flag.load(Ordering::Relaxed)),
        None => options,
    };
    let loaded = py.detach(|| load(options));
    interrupts::raise(py)?;
    let model = loaded.map_err(|error| raise(py, &error))?;
    Ok(Model { model })
}

/// Opens a bundle, which contains code: either with the key file that sealed it, or trusted like a program.
#[pyfunction]
pub(crate) fn open_bundle(
    py: Python<'_>,
    path: PathBuf,
    key: Option<PathBuf>,
    settings: Settings<'_>,
) -> PyResult<Model> {
    let options = settings.options(py)?;
    let opened = py.detach(|| match key {
        Some(key) => kiln::Model::open_sealed_bundle(path, &SealKey::read(key)?, options),
        // SAFETY: the documentation of `kiln.open_bundle` says that the caller has to trust the file.
        None => unsafe { kiln::Model::open_bundle(path, options) },
    });
    let model = opened.map_err(|error| raise(py, &error))?;
    Ok(Model { model })
}

/// The devices of this build, by key.
#[pyfunction]
pub(crate) fn devices() -> Vec<String> {
    kiln::Device::all()
        .iter()
        .map(ToString::to_string)
        .collect()
}

/// The tensors of a call, with names for those that were passed by name.
pub(crate) struct Given {
    names: Vec<Option<String>>,
    tensors: Vec<kiln::Tensor>,
}

impl Given {
    pub(crate) fn read(
        args: &Bound<'_, PyTuple>,
        named: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Self> {
        let (mut names, mut tensors) = (Vec::new(), Vec::new());
        for (position, array) in args.iter().enumerate() {
            tensors.push(arrays::read(&array, &format!("argument {position}"))?);
            names.push(None);
        }
        for (name, array) in named.into_iter().flat_map(|named| named.iter()) {
            let name: String = name.extract()?;
            tensors.push(arrays::read(&array, &name)?);
            names.push(Some(name));
        }
        Ok(Self { names, tensors })
    }

    pub(crate) fn inputs(&self) -> Inputs<'_> {
        let pairs = self.names.iter().zip(&self.tensors);
        pairs
            .map(|(name, tensor)| match name {
                Some(name) => Input::from((name, tensor)),
                None => Input::from(tensor),
            })
            .collect()
    }
}

/// Makes a call with the GIL released; Ctrl-C interrupts it.
pub(crate) fn run(
    py: Python<'_>,
    call: Call<'_>,
    time_limit: Option<f64>,
    flag: Option<Arc<AtomicBool>>,
) -> PyResult<Vec<(String, kiln::Tensor)>> {
    let call = match limit(time_limit)? {
        Some(limit) => call.time_limit(limit),
        None => call,
    };
    let is_watched = flag.is_some();
    let call = match flag {
        Some(flag) => call.cancel_when(move || flag.load(Ordering::Relaxed)),
        None => call,
    };
    let outputs = py.detach(|| call.run());
    if is_watched {
        interrupts::raise(py)?;
    }
    let outputs = outputs.map_err(|error| raise(py, &error))?;
    let names: Vec<String> = outputs.iter().map(|(name, _)| name.to_owned()).collect();
    Ok(names.into_iter().zip(outputs.into_tensors()).collect())
}

fn limit(seconds: Option<f64>) -> PyResult<Option<Duration>> {
    let Some(seconds) = seconds else {
        return Ok(None);
    };
    let limit = Duration::try_from_secs_f64(seconds);
    let limit =
        limit.map_err(|_| PyTypeError::new_err("expected `time_limit` to be seconds, at least 0"));
    limit.map(Some)
}

/// The outputs of a call as Python objects, by name.
pub(crate) fn by_name<'py>(
    py: Python<'py>,
    outputs: Vec<(String, kiln::Tensor)>,
) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    for (name, tensor) in outputs {
        dict.set_item(name, Tensor::of_result(py, tensor)?)?;
    }
    Ok(dict)
}

#[pymethods]
impl Model {
    /// Calls the model with arrays by position and by name; returns the outputs by name.
    #[pyo3(signature = (args, named, time_limit=None))]
    fn _call<'py>(
        &self,
        py: Python<'py>,
        args: &Bound<'py, PyTuple>,
        named: &Bound<'py, PyDict>,
        time_limit: Option<f64>,
    ) -> PyResult<Bound<'py, PyDict>> {
        let given = Given::read(args, Some(named))?;
        let flag = interrupts::watched();
        let outputs = run(py, self.model.call(given.inputs()), time_limit, flag)?;
        drop(given);
        by_name(py, outputs)
    }

    /// A report about a call: the page, its data as JSON, and the pairs of steps that were not fused, as text.
    fn _report(
        &self,
        py: Python<'_>,
        args: &Bound<'_, PyTuple>,
        named: &Bound<'_, PyDict>,
        calls: usize,
    ) -> PyResult<(String, String, String)> {
        let given = Given::read(args, Some(named))?;
        let measured = py.detach(|| CallReport::measure(&self.model, given.inputs(), calls));
        let report = measured.map_err(|error| raise(py, &error))?;
        let data = serde_json::to_string(&report);
        let data = data.map_err(|error| PyRuntimeError::new_err(error.to_string()))?;
        Ok((report.to_html(), data, report.near_misses()))
    }

    /// The inputs in the model's order: name, dtype (or None), sizes (integers and names of symbols; None for an open
    /// rank).
    fn _inputs<'py>(&self, py: Python<'py>) -> PyResult<Vec<Described<'py>>> {
        self.model
            .inputs()
            .iter()
            .map(|value| describe(py, value))
            .collect()
    }

    /// The outputs, in the same form as ``_inputs``.
    fn _outputs<'py>(&self, py: Python<'py>) -> PyResult<Vec<Described<'py>>> {
        self.model
            .outputs()
            .iter()
            .map(|value| describe(py, value))
            .collect()
    }

    /// The metadata in the model file.
    #[getter]
    fn metadata(&self) -> std::collections::BTreeMap<String, String> {
        self.model.metadata().clone()
    }

    /// The device that the model runs on.
    #[getter]
    fn device(&self) -> String {
        self.model.device().to_string()
    }

    /// The graph in Kiln's text form, as it was loaded.
    fn text(&self, py: Python<'_>) -> PyResult<String> {
        let graph = py.detach(|| diagnose::graph(&self.model, Stage::Import));
        let graph = graph.map_err(|error| raise(py, &error))?;
        Ok(kiln::internals::ir::text::print(&graph))
    }

    /// Compiles every kernel now, for all sizes; returns the number of kernels.
    fn compile(&self, py: Python<'_>) -> PyResult<usize> {
        py.detach(|| self.model.compile())
            .map_err(|error| raise(py, &error))
    }

    /// Compiles the kernels for calls with these shapes: ``model.precompile({"x": (1, 3, 224, 224)})``.
    fn precompile(&self, py: Python<'_>, shapes: &Bound<'_, PyDict>) -> PyResult<()> {
        let mut pairs = Vec::with_capacity(shapes.len());
        for (name, shape) in shapes.iter() {
            pairs.push((name.extract::<String>()?, shape.extract::<Vec<usize>>()?));
        }
        py.detach(|| self.model.precompile(&pairs))
            .map_err(|error| raise(py, &error))
    }

    /// Writes the compiled model to one file, sealed with a key file if one is given; returns its size in bytes.
    #[cfg(feature = "llvm")]
    #[pyo3(signature = (path, key=None))]
    fn save_bundle(&self, py: Python<'_>, path: PathBuf, key: Option<PathBuf>) -> PyResult<u64> {
        let saved = py.detach(|| {
            let key = key.map(SealKey::read).transpose()?;
            self.model.save_bundle(path, key.as_ref())
        });
        saved.map_err(|error: kiln::Error| raise(py, &error))
    }

    /// A session that keeps inputs between calls: ``states`` maps an input to the output that replaces it and its
    /// initial value.
    fn _session(&self, py: Python<'_>, states: &Bound<'_, PyDict>) -> PyResult<Session> {
        let mut builder = self.model.session();
        for (input, state) in states.iter() {
            let input: String = input.extract()?;
            let (output, first): (String, Bound<'_, PyAny>) = state.extract()?;
            // The session writes to the tensor, so it needs its own memory.
            let first = arrays::read(&first, &input)?.copied();
            let first = first.map_err(|error| raise(py, &error.into()))?;
            builder = builder.state(&input, &output, first);
        }
        builder
            .build()
            .map(Session::new)
            .map_err(|error| raise(py, &error))
    }

    fn __repr__(&self) -> String {
        format!("Model({:?})", self.model)
    }
}

/// Name, dtype and sizes.
type Described<'py> = (String, Option<&'static str>, Option<Bound<'py, PyTuple>>);

fn describe<'py>(py: Python<'py>, value: &kiln::ValueDescription) -> PyResult<Described<'py>> {
    let sizes = value.shape().map(|shape| {
        let sizes = shape.dimensions().iter().map(|dim| match dim.value() {
            Some(size) => size.into_pyobject(py).map(|size| size.into_any()),
            None => Ok(dim.name().into_pyobject(py)?.into_any()),
        });
        let sizes: Vec<Bound<'py, PyAny>> = sizes.collect::<Result<_, _>>()?;
        PyTuple::new(py, sizes)
    });
    let sizes = sizes.transpose()?;
    Ok((
        value.name().to_owned(),
        value.dtype().and_then(dtypes::of).map(|named| named.name),
        sizes,
    ))
}
