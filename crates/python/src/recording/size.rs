//! Sizes that are unknown while a graph is recorded, and arithmetic on them.

use kiln::internals::symbolic_shape::{DimError, DimId, DimTable, Predicate, Proof};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::pyclass::CompareOp;

use super::Recorder;
use crate::errors;

/// A size of a traced array that differs from call to call: an expression of the sizes of the arguments.
///
/// It supports ``+ - * // %`` with integers and other sizes, and acts as a number when combined with arrays. A
/// comparison that has the same result for every size returns it; any other is an error, since the result differs from
/// call to call.
#[pyclass(module = "kiln", frozen)]
pub(crate) struct Size {
    recorder: Recorder,
    dim: DimId,
}

/// A size passed from Python.
#[derive(Clone)]
pub(crate) enum Length {
    Known(i64),
    Symbolic(DimId),
}

impl Length {
    /// `None` if it is neither an integer nor a size.
    pub(super) fn read(given: &Bound<'_, PyAny>, recorder: &Recorder) -> PyResult<Option<Self>> {
        if let Ok(size) = given.cast::<Size>() {
            let size = size.get();
            return match size.recorder.is(recorder) {
                true => Ok(Some(Self::Symbolic(size.dim))),
                false => Err(errors::foreign(given.py())),
            };
        }
        Ok(given.extract::<i64>().ok().map(Self::Known))
    }

    /// Like [`read`](Self::read), but anything else is an error.
    pub(super) fn expect(given: &Bound<'_, PyAny>, recorder: &Recorder) -> PyResult<Self> {
        match Self::read(given, recorder)? {
            Some(length) => Ok(length),
            None => {
                let found = given.get_type().name()?;
                let message =
                    format!("expected a size to be an integer or a `Size`, found a {found}");
                Err(PyTypeError::new_err(message))
            }
        }
    }

    pub(super) fn dim(&self, table: &mut DimTable) -> DimId {
        match self {
            Self::Known(size) => table.constant(*size),
            Self::Symbolic(dim) => *dim,
        }
    }
}

/// A size as a Python object: an integer if it is known.
pub(super) fn to_python(py: Python<'_>, recorder: &Recorder, dim: DimId) -> PyResult<Py<PyAny>> {
    let known = recorder.with(py, |builder| {
        Ok::<_, kiln::Error>(builder.dims().as_constant(dim))
    })?;
    match known {
        Some(size) => Ok(size.into_pyobject(py)?.into_any().unbind()),
        None => {
            let recorder = recorder.clone();
            Ok(Py::new(py, Size { recorder, dim })?.into_any())
        }
    }
}

type Arithmetic = fn(&mut DimTable, DimId, DimId) -> Result<DimId, DimError>;

impl Size {
    /// Computes with `self` and `other`, or in reverse order.
    fn combine(
        &self,
        other: &Bound<'_, PyAny>,
        is_reversed: bool,
        compute: Arithmetic,
    ) -> PyResult<Py<PyAny>> {
        let py = other.py();
        let Some(other) = Length::read(other, &self.recorder)? else {
            return Ok(py.NotImplemented());
        };
        let dim = self.recorder.with(py, |builder| {
            let table = builder.dims_mut();
            let other = other.dim(table);
            match is_reversed {
                true => compute(table, other, self.dim),
                false => compute(table, self.dim, other),
            }
        })?;
        to_python(py, &self.recorder, dim)
    }

    fn shown(&self, py: Python<'_>) -> PyResult<String> {
        self.recorder.with(py, |builder| {
            Ok::<_, kiln::Error>(builder.dims().display(self.dim).to_string())
        })
    }

    /// Whether a predicate holds for every size.
    fn decide(&self, py: Python<'_>, predicate: &Predicate) -> PyResult<bool> {
        let (proof, shown) = self.recorder.with(py, |builder| {
            let table = builder.dims();
            let shown = table.display_predicate(predicate).to_string();
            Ok::<_, kiln::Error>((table.prove(predicate), shown))
        })?;
        match proof {
            Proof::Proved => Ok(true),
            Proof::Disproved => Ok(false),
            Proof::Unknown => Err(errors::undecided(py, &shown)),
        }
    }
}

#[pymethods]
impl Size {
    fn __add__(&self, other: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        self.combine(other, false, DimTable::add)
    }

    fn __radd__(&self, other: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        self.combine(other, true, DimTable::add)
    }

    fn __sub__(&self, other: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        self.combine(other, false, DimTable::sub)
    }

    fn __rsub__(&self, other: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        self.combine(other, true, DimTable::sub)
    }

    fn __mul__(&self, other: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        self.combine(other, false, DimTable::mul)
    }

    fn __rmul__(&self, other: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        self.combine(other, true, DimTable::mul)
    }

    fn __floordiv__(&self, other: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        self.combine(other, false, DimTable::floor_div)
    }

    fn __rfloordiv__(&self, other: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        self.combine(other, true, DimTable::floor_div)
    }

    fn __mod__(&self, other: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        self.combine(other, false, DimTable::modulo)
    }

    fn __rmod__(&self, other: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        self.combine(other, true, DimTable::modulo)
    }

    fn __neg__(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let dim = self
            .recorder
            .with(py, |builder| builder.dims_mut().neg(self.dim))?;
        to_python(py, &self.recorder, dim)
    }

    /// The smaller of this and another size.
    fn min(&self, other: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        self.combine(other, false, DimTable::min)
    }

    /// The larger of this and another size.
    fn max(&self, other: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        self.combine(other, false, DimTable::max)
    }

    fn __richcmp__(&self, other: &Bound<'_, PyAny>, op: CompareOp) -> PyResult<Py<PyAny>> {
        let py = other.py();
        let Some(other) = Length::read(other, &self.recorder)? else {
            return Ok(py.NotImplemented());
        };
        let (a, b) = self.recorder.with(py, |builder| {
            Ok::<_, kiln::Error>((self.dim, other.dim(builder.dims_mut())))
        })?;
        let predicate = match op {
            CompareOp::Lt => Predicate::Less(a, b),
            CompareOp::Le => Predicate::LessEqual(a, b),
            CompareOp::Eq => Predicate::Equal(a, b),
            CompareOp::Ne => Predicate::NotEqual(a, b),
            CompareOp::Gt => Predicate::Less(b, a),
            CompareOp::Ge => Predicate::LessEqual(b, a),
        };
        let decided = self.decide(py, &predicate)?;
        Ok(decided.into_pyobject(py)?.to_owned().into_any().unbind())
    }

    fn __hash__(&self) -> u64 {
        self.dim.as_u32().into()
    }

    fn __bool__(&self, py: Python<'_>) -> PyResult<bool> {
        let zero = self.recorder.with(py, |builder| {
            Ok::<_, kiln::Error>(builder.dims_mut().constant(0))
        })?;
        self.decide(py, &Predicate::NotEqual(self.dim, zero))
    }

    fn __index__(&self, py: Python<'_>) -> PyResult<i64> {
        Err(errors::no_number(py, &self.shown(py)?))
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        self.shown(py)
    }
}
