//! Loops and branches, whose regions are recorded from Python functions.
//!
//! A region may only use values that are passed into it, but a Python function can use any value. So when the function
//! uses a value from outside, it is stopped, the value is passed into the region, and the function runs again.
//! Invariant: while a region is open, the recorder has the region's builder, and the outer builder is a placeholder.

use std::cell::RefCell;

use kiln::internals::ir::ValueId;
use kiln::internals::shape_inference::{GraphBuilder, InferError, LoopBody};
use kiln::{DType, Error};
use pyo3::prelude::*;

use super::{Recorder, Value};
use crate::errors::{self, raise};

/// An open region.
pub(super) struct Scope {
    /// Unique among the regions of the recording.
    pub(super) id: u64,
    /// Values from outside, with the parameters that stand for them.
    captures: Vec<(Value, ValueId)>,
    /// A value from outside that was used without a parameter.
    missing: Option<Value>,
}

impl Scope {
    /// The parameter for a value from outside. If there is none, the value is recorded as missing.
    pub(super) fn parameter(&mut self, value: &Value) -> Option<ValueId> {
        let found = self.captures.iter().find(|(outer, _)| outer.is(value));
        match found {
            Some(&(_, parameter)) => Some(parameter),
            None => {
                self.missing.get_or_insert_with(|| value.clone());
                None
            }
        }
    }
}

/// Why filling a region failed.
pub(super) enum RegionError {
    /// Its function raised an exception.
    Python(PyErr),
    /// An op is invalid.
    Infer(InferError),
}

impl From<InferError> for RegionError {
    fn from(error: InferError) -> Self {
        Self::Infer(error)
    }
}

impl From<PyErr> for RegionError {
    fn from(error: PyErr) -> Self {
        Self::Python(error)
    }
}

/// The regions of one op.
pub(super) struct Regions<'a> {
    recorder: &'a Recorder,
    captured: Vec<Value>,
    /// Another value that has to be passed in.
    missing: RefCell<Option<Value>>,
}

impl<'a> Regions<'a> {
    pub(super) fn of(recorder: &'a Recorder) -> Self {
        Self {
            recorder,
            captured: Vec::new(),
            missing: RefCell::default(),
        }
    }

    /// Adds the op, repeatedly until all values that its regions use have been found.
    pub(super) fn build<R>(
        mut self,
        py: Python<'_>,
        mut add: impl FnMut(&mut GraphBuilder, &Self, &[ValueId]) -> Result<R, RegionError>,
    ) -> PyResult<R> {
        loop {
            let ids = self
                .captured
                .iter()
                .map(|value| value.id_in(py, self.recorder));
            let ids: Vec<ValueId> = ids.collect::<PyResult<_>>()?;
            let taken = self.recorder.0.builder.lock().take();
            let Some(mut builder) = taken else {
                return Err(errors::foreign(py));
            };
            let before = builder.clone();
            let added = add(&mut builder, &self, &ids);
            let missing = self.missing.take();
            let after = match added.is_ok() {
                true => builder,
                false => before,
            };
            *self.recorder.0.builder.lock() = Some(after);
            match (added, missing) {
                (Ok(results), _) => return Ok(results),
                (Err(_), Some(value)) => self.captured.push(value),
                (Err(RegionError::Python(error)), None) => return Err(error),
                (Err(RegionError::Infer(error)), None) => {
                    return Err(raise(py, &Error::from(error)));
                }
            }
        }
    }

    /// Fills an open region, given its parameters for the captured values.
    pub(super) fn fill<R>(
        &self,
        builder: &mut GraphBuilder,
        parameters: &[ValueId],
        fill: impl FnOnce() -> PyResult<R>,
    ) -> Result<R, RegionError> {
        let recorder = self.recorder;
        let captures = self.captured.iter().cloned();
        recorder.open(captures.zip(parameters.iter().copied()).collect());
        let lent = std::mem::replace(builder, GraphBuilder::new(""));
        *recorder.0.builder.lock() = Some(lent);
        let filled = fill();
        if let Some(lent) = recorder.0.builder.lock().take() {
            *builder = lent;
        }
        if let Some(missing) = recorder.close() {
            self.missing.replace(Some(missing));
        }
        Ok(filled?)
    }
}

impl Recorder {
    /// Opens a region.
    fn open(&self, captures: Vec<(Value, ValueId)>) {
        let mut scopes = self.0.scopes.lock();
        scopes.last_id += 1;
        let id = scopes.last_id;
        scopes.open.push(Scope {
            id,
            captures,
            missing: None,
        });
    }

    /// Closes the innermost region; returns the missing value, if any.
    fn close(&self) -> Option<Value> {
        self.0.scopes.lock().open.pop()?.missing
    }
}

/// The return value of a loop's function.
pub(super) type Iteration<'py> = (
    Option<Bound<'py, Value>>,
    Vec<Bound<'py, Value>>,
    Vec<Bound<'py, Value>>,
);

/// The results of an iteration, as ids of the open region.
pub(super) fn loop_body(
    recorder: &Recorder,
    py: Python<'_>,
    (condition, carried, stacked): Iteration<'_>,
) -> PyResult<LoopBody> {
    let condition = match condition {
        Some(condition) => condition.get().id_in(py, recorder)?,
        None => recorder.with(py, |builder| builder.scalar(DType::Bool, 1.0))?,
    };
    Ok(LoopBody {
        condition,
        carried: recorder.ids(&carried)?,
        stacked: recorder.ids(&stacked)?,
    })
}
