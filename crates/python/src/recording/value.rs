//! Values of a recording.

use kiln::internals::ir::{Dims, ValueId};
use kiln::internals::shape_inference::{GraphBuilder, InferError};
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use super::{Recorder, size};
use crate::dtypes;
use crate::errors;

/// A value of a graph that is being recorded.
#[pyclass(module = "kiln", frozen)]
#[derive(Clone)]
pub(crate) struct Value {
    recorder: Recorder,
    id: ValueId,
    /// The region that the value was created in.
    scope: u64,
}

/// Where a value is, relative to the region that is being filled.
enum Place {
    /// In this region, directly or as a parameter.
    Here(ValueId),
    /// In an enclosing region, and not passed in yet.
    Outside,
    /// In a region that has been closed.
    Closed,
}

impl Value {
    pub(super) fn new(recorder: Recorder, id: ValueId, scope: u64) -> Self {
        Self {
            recorder,
            id,
            scope,
        }
    }

    /// Whether both are the same value.
    pub(super) fn is(&self, other: &Self) -> bool {
        self.id == other.id && self.scope == other.scope
    }

    /// Its id in the region that is being filled; for a value from outside, that of the parameter that stands for it.
    pub(super) fn id_in(&self, py: Python<'_>, recorder: &Recorder) -> PyResult<ValueId> {
        if !self.recorder.is(recorder) {
            return Err(errors::foreign(py));
        }
        match self.place_in(recorder) {
            Place::Here(id) => Ok(id),
            Place::Outside => Err(errors::captured(py)),
            Place::Closed => Err(errors::foreign(py)),
        }
    }

    fn place_in(&self, recorder: &Recorder) -> Place {
        let mut scopes = recorder.0.scopes.lock();
        let is_open = self.scope == 0 || scopes.open.iter().any(|scope| scope.id == self.scope);
        match scopes.open.last_mut() {
            None if self.scope == 0 => Place::Here(self.id),
            Some(scope) if scope.id == self.scope => Place::Here(self.id),
            Some(scope) if is_open => match scope.parameter(self) {
                Some(parameter) => Place::Here(parameter),
                None => Place::Outside,
            },
            _ => Place::Closed,
        }
    }

    /// Queries its type. Values of closed regions have none, since the graph may not contain them.
    fn look<R>(
        &self,
        py: Python<'_>,
        look: impl FnOnce(&GraphBuilder, ValueId) -> Result<R, InferError>,
    ) -> PyResult<R> {
        let is_open = {
            let scopes = self.recorder.0.scopes.lock();
            self.scope == 0 || scopes.open.iter().any(|scope| scope.id == self.scope)
        };
        match is_open {
            true => self.recorder.with(py, |builder| look(builder, self.id)),
            false => Err(errors::foreign(py)),
        }
    }

    fn dims(&self, py: Python<'_>) -> PyResult<Dims> {
        self.look(py, GraphBuilder::shape)
    }
}

#[pymethods]
impl Value {
    /// The name of the element type, as in ``float32``.
    #[getter]
    fn dtype(&self, py: Python<'_>) -> PyResult<Option<&'static str>> {
        let dtype = self.look(py, GraphBuilder::dtype)?;
        Ok(dtypes::of(dtype).map(|named| named.name))
    }

    /// The sizes, one per axis: integers, and ``Size`` objects for sizes that differ from call to call.
    #[getter]
    fn shape<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        let sizes = self.dims(py)?.into_iter();
        let sizes = sizes.map(|dim| size::to_python(py, &self.recorder, dim));
        PyTuple::new(py, sizes.collect::<PyResult<Vec<_>>>()?)
    }

    /// The number of axes.
    #[getter]
    fn ndim(&self, py: Python<'_>) -> PyResult<usize> {
        Ok(self.dims(py)?.len())
    }

    fn __repr__(&self, py: Python<'_>) -> String {
        let shown = self.look(py, |builder, id| Ok(builder.describe(id)));
        shown.unwrap_or_else(|_| "a value of a call that has ended".to_owned())
    }
}
