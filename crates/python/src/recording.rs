//! Graphs that Python code records op by op: the basis of tracing and of the `torch.compile` backend.
//!
//! A thin wrapper around [`GraphBuilder`], whose rules type each op as it is added, so an error is raised on the line
//! of the program that causes it. Invariant: no Python code runs while the builder is locked.

mod attributes;
mod regions;
mod size;
mod value;

pub(crate) use size::Size;
pub(crate) use value::Value;

use std::collections::BTreeMap;
use std::sync::Arc;

use attributes::Attribute;
use kiln::internals::autodiff::{GradientRules, append_gradients};
use kiln::internals::ir::ValueId;
use kiln::internals::shape_inference::{GraphBuilder, Number};
use kiln::internals::symbolic_shape::{DimId, DimTable};
use kiln::{DType, Source};
use kiln_fork_lock::ForkLock;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyFloat};
use regions::{Iteration, Regions, Scope, loop_body};
use size::Length;

use crate::arrays;
use crate::dtypes;
use crate::errors::{self, raise};
use crate::model::{self, Model};
use crate::settings::Settings;

/// A recording, shared between its values and sizes.
#[derive(Clone)]
pub(crate) struct Recorder(Arc<State>);

struct State {
    /// `None` once the recording has ended.
    builder: ForkLock<Option<GraphBuilder>>,
    scopes: ForkLock<Scopes>,
}

/// The regions of loops and branches.
#[derive(Default)]
struct Scopes {
    /// The open regions, innermost last.
    open: Vec<Scope>,
    /// The id of the region opened last; that of the graph's body is 0.
    last_id: u64,
}

impl Recorder {
    /// Whether both are the same recording.
    fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// Adds to the graph or queries it.
    fn with<R, E: Into<kiln::Error>>(
        &self,
        py: Python<'_>,
        action: impl FnOnce(&mut GraphBuilder) -> Result<R, E>,
    ) -> PyResult<R> {
        match self.0.builder.lock().as_mut() {
            Some(builder) => action(builder).map_err(|error| raise(py, &error.into())),
            None => Err(errors::foreign(py)),
        }
    }

    /// The ids of values of this recording.
    fn ids(&self, values: &[Bound<'_, Value>]) -> PyResult<Vec<ValueId>> {
        let ids = values
            .iter()
            .map(|value| value.get().id_in(value.py(), self));
        ids.collect()
    }

    fn value(&self, id: ValueId) -> Value {
        let scopes = self.0.scopes.lock();
        let scope = scopes.open.last().map_or(0, |scope| scope.id);
        Value::new(self.clone(), id, scope)
    }
}

/// A graph being recorded.
#[pyclass(module = "kiln", frozen)]
pub(crate) struct Recording(Recorder);

#[pymethods]
impl Recording {
    #[new]
    fn new(name: &str) -> Self {
        let builder = ForkLock::new(|| None);
        *builder.lock() = Some(GraphBuilder::new(name));
        let scopes = ForkLock::default();
        Self(Recorder(Arc::new(State { builder, scopes })))
    }

    /// An input. Each size is an integer, a ``Size``, the name of a symbol (the same size wherever it is used), or None
    /// for an unnamed symbol.
    fn input(
        &self,
        py: Python<'_>,
        name: &str,
        dtype: &str,
        sizes: Vec<Bound<'_, PyAny>>,
    ) -> PyResult<Value> {
        let dtype = dtypes::expect(py, dtype)?;
        let sizes: Vec<AxisSize> = sizes
            .iter()
            .map(|size| AxisSize::read(size, &self.0))
            .collect::<PyResult<_>>()?;
        let id = self.0.with(py, |builder| {
            let mut dims = Vec::with_capacity(sizes.len());
            for (axis, size) in sizes.iter().enumerate() {
                dims.push(match size {
                    AxisSize::Length(length) => length.dim(builder.dims_mut()),
                    AxisSize::Named(name) => builder.symbol(name)?,
                    AxisSize::Own => {
                        let table = builder.dims_mut();
                        let symbol = table.fresh(&format!("{name}_{axis}"));
                        table.dim(symbol)
                    }
                });
            }
            Ok::<_, kiln::Error>(builder.input(name, dtype, &dims))
        })?;
        Ok(self.0.value(id))
    }

    /// The size with this name, which is declared if it is new.
    fn symbol(&self, py: Python<'_>, name: &str) -> PyResult<Py<PyAny>> {
        let dim = self.0.with(py, |builder| builder.symbol(name))?;
        size::to_python(py, &self.0, dim)
    }

    /// A constant tensor: a copy of the array.
    fn constant(&self, array: &Bound<'_, PyAny>) -> PyResult<Value> {
        let py = array.py();
        let tensor = arrays::read(array, "constant")?.copied();
        let tensor = tensor.map_err(|error| raise(py, &error.into()))?;
        let id = self.0.with(py, |builder| builder.constant(tensor))?;
        Ok(self.0.value(id))
    }

    /// A scalar of a dtype, which must be able to represent the number.
    fn number(&self, dtype: &str, number: &Bound<'_, PyAny>) -> PyResult<Value> {
        let py = number.py();
        let dtype = dtypes::expect(py, dtype)?;
        let read = match number.extract::<i64>() {
            Ok(integer) if !number.is_instance_of::<PyFloat>() => Number::Integer(integer),
            _ => Number::Float(number.extract()?),
        };
        let Some(tensor) = read.tensor(dtype) else {
            let shown = number.repr()?.to_string();
            return Err(errors::not_held(py, dtype, &shown));
        };
        let id = self.0.with(py, |builder| builder.constant(tensor))?;
        Ok(self.0.value(id))
    }

    /// Adds the op with this mnemonic, with attributes named as in the text form; returns its results.
    #[pyo3(signature = (mnemonic, operands, **attributes))]
    fn op(
        &self,
        py: Python<'_>,
        mnemonic: &str,
        operands: Vec<Bound<'_, Value>>,
        attributes: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Vec<Value>> {
        let operands = self.0.ids(&operands)?;
        let given = self.attributes(attributes)?;
        let results = self.0.with(py, |builder| {
            let op = attributes::op(builder, mnemonic, &operands, given)?;
            builder.op(op, &operands)
        })?;
        Ok(results.iter().map(|&id| self.0.value(id)).collect())
    }

    /// The value converted to another dtype; the value itself if it already has that dtype.
    fn cast(&self, x: &Bound<'_, Value>, dtype: &str) -> PyResult<Value> {
        let dtype = dtypes::expect(x.py(), dtype)?;
        self.derive(x, |builder, x| builder.cast(x, dtype))
    }

    /// The same elements in row-major order in another shape; one of the sizes may be None, and is inferred.
    fn reshape(
        &self,
        x: &Bound<'_, Value>,
        sizes: Vec<Option<Bound<'_, PyAny>>>,
    ) -> PyResult<Value> {
        let mut lengths = Vec::with_capacity(sizes.len());
        for size in &sizes {
            let read = size.as_ref().map(|size| Length::expect(size, &self.0));
            lengths.push(read.transpose()?);
        }
        self.derive(x, |builder, x| {
            let table = builder.dims_mut();
            let dims = lengths
                .iter()
                .map(|length| length.as_ref().map(|length| length.dim(table)));
            let dims: Vec<Option<DimId>> = dims.collect();
            builder.reshape_inferring(x, &dims)
        })
    }

    /// The value repeated along axes of size 1, and new outer axes, to these sizes.
    fn broadcast_to(&self, x: &Bound<'_, Value>, sizes: Vec<Bound<'_, PyAny>>) -> PyResult<Value> {
        let dims = self.lengths(&sizes)?;
        self.derive(x, |builder, x| {
            let dims = dims(builder.dims_mut());
            builder.broadcast_to(x, &dims)
        })
    }

    /// The value repeated a number of times along each axis.
    fn tile(&self, x: &Bound<'_, Value>, repeats: Vec<Bound<'_, PyAny>>) -> PyResult<Value> {
        let dims = self.lengths(&repeats)?;
        self.derive(x, |builder, x| {
            let dims = dims(builder.dims_mut());
            builder.tile(x, &dims)
        })
    }

    /// The value without these axes of size 1.
    fn squeeze(&self, x: &Bound<'_, Value>, axes: Vec<i64>) -> PyResult<Value> {
        self.derive(x, |builder, x| {
            let axes = axes.iter().map(|&axis| builder.axis(x, axis));
            let axes = axes.collect::<Result<Vec<_>, _>>()?;
            builder.squeeze(x, &axes)
        })
    }

    /// The value with new axes of size 1 at these axes of the result.
    fn unsqueeze(&self, x: &Bound<'_, Value>, axes: Vec<i64>) -> PyResult<Value> {
        self.derive(x, |builder, x| {
            let rank = builder.rank(x)? + axes.len();
            let axes = axes.iter().map(|&axis| builder.axis_of_rank(axis, rank));
            let axes = axes.collect::<Result<Vec<_>, _>>()?;
            builder.unsqueeze(x, &axes)
        })
    }

    /// The elements ``start:stop:step`` of an axis, as in Python: None is the end, and positions out of bounds are
    /// clamped.
    #[pyo3(signature = (x, axis, start, stop, step))]
    fn slice(
        &self,
        x: &Bound<'_, Value>,
        axis: i64,
        start: Option<Bound<'_, PyAny>>,
        stop: Option<Bound<'_, PyAny>>,
        step: i64,
    ) -> PyResult<Value> {
        // Past either end of any axis.
        const BEYOND: i64 = i64::MAX;
        let or = |given: Option<Bound<'_, PyAny>>, default: i64| match given {
            Some(position) => Length::expect(&position, &self.0),
            None => Ok(Length::Known(default)),
        };
        let (first, last) = match step < 0 {
            true => (BEYOND, -BEYOND),
            false => (0, BEYOND),
        };
        let (start, stop) = (or(start, first)?, or(stop, last)?);
        self.derive(x, |builder, x| {
            let axis = builder.axis(x, axis)?;
            let table = builder.dims_mut();
            let (start, stop) = (start.dim(table), stop.dim(table));
            builder.slice_range(x, axis, start, stop, step)
        })
    }

    /// ``size`` elements of an axis from ``start`` on, all within bounds.
    fn slice_axis(
        &self,
        x: &Bound<'_, Value>,
        axis: i64,
        start: &Bound<'_, PyAny>,
        size: &Bound<'_, PyAny>,
    ) -> PyResult<Value> {
        let start = Length::expect(start, &self.0)?;
        let size = Length::expect(size, &self.0)?;
        self.derive(x, |builder, x| {
            let axis = builder.axis(x, axis)?;
            let table = builder.dims_mut();
            let (start, size) = (start.dim(table), size.dim(table));
            builder.slice_axis(x, axis, start, size)
        })
    }

    /// ``exp(x) / sum(exp(x))`` along an axis.
    fn softmax(&self, x: &Bound<'_, Value>, axis: i64) -> PyResult<Value> {
        self.derive(x, |builder, x| {
            let axis = builder.axis(x, axis)?;
            builder.softmax(x, axis)
        })
    }

    /// The logarithm of ``softmax``.
    fn log_softmax(&self, x: &Bound<'_, Value>, axis: i64) -> PyResult<Value> {
        self.derive(x, |builder, x| {
            let axis = builder.axis(x, axis)?;
            builder.log_softmax(x, axis)
        })
    }

    /// Einstein summation over operands of the same dtype: ``"bij,bjk->bik"``.
    fn einsum(
        &self,
        py: Python<'_>,
        equation: &str,
        operands: Vec<Bound<'_, Value>>,
    ) -> PyResult<Value> {
        let operands = self.0.ids(&operands)?;
        let id = self
            .0
            .with(py, |builder| builder.einsum(equation, &operands))?;
        Ok(self.0.value(id))
    }

    /// The gradients of a value with respect to others. The cotangent has the value's type; without one the value is a
    /// scalar.
    #[pyo3(signature = (output, inputs, cotangent=None))]
    fn gradients(
        &self,
        output: &Bound<'_, Value>,
        inputs: Vec<Bound<'_, Value>>,
        cotangent: Option<Bound<'_, Value>>,
    ) -> PyResult<Vec<Value>> {
        let py = output.py();
        let inputs = self.0.ids(&inputs)?;
        let output = output.get().id_in(py, &self.0)?;
        let cotangent = cotangent.map(|value| value.get().id_in(py, &self.0));
        let outputs = [(output, cotangent.transpose()?)];
        let slopes = self.0.with(py, |builder| {
            append_gradients(builder, &outputs, &inputs, &GradientRules::new())
        })?;
        Ok(slopes.into_iter().map(|id| self.0.value(id)).collect())
    }

    /// A loop of at most ``trips`` iterations, which ends when the condition is false. The function takes the number of
    /// the iteration and the carried values. It returns the condition for the next iteration (None if there is no
    /// condition), the carried values, and values to be stacked. Returns the last carried values and the stacked ones.
    fn loop_(
        &self,
        trips: &Bound<'_, Value>,
        condition: Option<Bound<'_, Value>>,
        carried: Vec<Bound<'_, Value>>,
        body: &Bound<'_, PyAny>,
    ) -> PyResult<Vec<Value>> {
        let py = trips.py();
        let recorder = &self.0;
        let trips = trips.get().id_in(py, recorder)?;
        let condition = match condition {
            Some(condition) => condition.get().id_in(py, recorder)?,
            None => recorder.with(py, |builder| builder.scalar(DType::Bool, 1.0))?,
        };
        let carried = recorder.ids(&carried)?;
        let results = Regions::of(recorder).build(py, |builder, regions, captures| {
            builder.loop_(
                trips,
                condition,
                &carried,
                captures,
                |builder, index, carried, captured| {
                    regions.fill(builder, captured, || {
                        let carried = carried.iter().map(|&id| recorder.value(id));
                        let carried: Vec<Value> = carried.collect();
                        let done: Iteration<'_> =
                            body.call1((recorder.value(index), carried))?.extract()?;
                        loop_body(recorder, py, done)
                    })
                },
            )
        })?;
        Ok(results.into_iter().map(|id| recorder.value(id)).collect())
    }

    /// The values returned by one of two functions, which the condition selects in each call.
    fn branch(
        &self,
        condition: &Bound<'_, Value>,
        then: &Bound<'_, PyAny>,
        otherwise: &Bound<'_, PyAny>,
    ) -> PyResult<Vec<Value>> {
        let py = condition.py();
        let recorder = &self.0;
        let condition = condition.get().id_in(py, recorder)?;
        let taken = |function: &Bound<'_, PyAny>| {
            let results: Vec<Bound<'_, Value>> = function.call0()?.extract()?;
            recorder.ids(&results)
        };
        let results = Regions::of(recorder).build(py, |builder, regions, captures| {
            builder.if_else(
                condition,
                captures,
                |builder, captured| regions.fill(builder, captured, || taken(then)),
                |builder, captured| regions.fill(builder, captured, || taken(otherwise)),
            )
        })?;
        Ok(results.into_iter().map(|id| recorder.value(id)).collect())
    }

    /// Ends the recording; returns the model with these outputs.
    fn load(
        &self,
        py: Python<'_>,
        outputs: Vec<(String, Bound<'_, Value>)>,
        settings: Settings<'_>,
    ) -> PyResult<Model> {
        let mut named = Vec::with_capacity(outputs.len());
        for (name, value) in outputs {
            named.push((name, value.get().id_in(py, &self.0)?));
        }
        let options = settings.options(py)?;
        let Some(builder) = self.0.0.builder.lock().take() else {
            return Err(errors::foreign(py));
        };
        let graph = builder.finish(&named);
        let graph = graph.map_err(|error| raise(py, &error.into()))?;
        model::loaded(py, options, |options| options.load(Source::graph(graph)))
    }
}

impl Recording {
    /// Adds ops that compute a value from another.
    fn derive<E: Into<kiln::Error>>(
        &self,
        x: &Bound<'_, Value>,
        derive: impl FnOnce(&mut GraphBuilder, ValueId) -> Result<ValueId, E>,
    ) -> PyResult<Value> {
        let py = x.py();
        let x = x.get().id_in(py, &self.0)?;
        let id = self.0.with(py, |builder| derive(builder, x))?;
        Ok(self.0.value(id))
    }

    /// Sizes to convert to expressions of the graph's table.
    fn lengths(
        &self,
        sizes: &[Bound<'_, PyAny>],
    ) -> PyResult<impl Fn(&mut DimTable) -> Vec<DimId> + use<>> {
        let lengths = sizes.iter().map(|size| Length::expect(size, &self.0));
        let lengths: Vec<Length> = lengths.collect::<PyResult<_>>()?;
        Ok(move |table: &mut DimTable| lengths.iter().map(|length| length.dim(table)).collect())
    }

    fn attributes(
        &self,
        given: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<BTreeMap<String, Attribute>> {
        let mut attributes = BTreeMap::new();
        for (name, value) in given.into_iter().flat_map(|given| given.iter()) {
            attributes.insert(name.extract()?, Attribute::read(&value, &self.0)?);
        }
        Ok(attributes)
    }
}

/// The size of an input's axis.
enum AxisSize {
    Length(Length),
    Named(String),
    Own,
}

impl AxisSize {
    fn read(size: &Bound<'_, PyAny>, recorder: &Recorder) -> PyResult<Self> {
        if size.is_none() {
            return Ok(Self::Own);
        }
        if let Ok(name) = size.extract::<String>() {
            return Ok(Self::Named(name));
        }
        match Length::read(size, recorder)? {
            Some(length) => Ok(Self::Length(length)),
            None => Err(PyTypeError::new_err(
                "expected a size to be an integer, a name or None",
            )),
        }
    }
}
