//! Sessions: models that keep tensors between calls.

use kiln_fork_lock::ForkLock;

use kiln::ErrorKind;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use crate::arrays;
use crate::errors::{exception, raise};
use crate::interrupts;
use crate::model::{Given, by_name, run};
use crate::tensor::Tensor;

/// A model that keeps some of its inputs between calls, each replaced by an output. Calls run one at a time.
#[pyclass(module = "kiln", frozen)]
pub(crate) struct Session {
    session: ForkLock<Option<kiln::Session>>,
}

impl Session {
    pub(crate) fn new(session: kiln::Session) -> Self {
        // A process forked while another thread is in a call has no session, since the states are incomplete.
        let slot = ForkLock::new(|| None);
        *slot.lock() = Some(session);
        Self { session: slot }
    }

    /// Waits for a call in another thread with the GIL released, since that call needs it to finish.
    fn with<T: Send>(
        &self,
        py: Python<'_>,
        action: impl FnOnce(&mut kiln::Session) -> T + Send,
    ) -> PyResult<T> {
        let done = py.detach(|| self.session.lock().as_mut().map(action));
        done.ok_or_else(|| {
            let message = "the session was in a call when this process was forked; make another";
            exception(py, ErrorKind::InvalidInput, "E0876", message)
        })
    }
}

#[pymethods]
impl Session {
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
        let outputs = self.with(py, |session| {
            Python::attach(|py| run(py, session.call(given.inputs()), time_limit, flag))
        })??;
        by_name(py, outputs)
    }

    /// A copy of a state's value after the last call.
    fn state(&self, py: Python<'_>, input: &str) -> PyResult<Tensor> {
        let state = self.with(py, |session| Ok(session.state(input)?.copied()?))?;
        let state = state.map_err(|error: kiln::Error| raise(py, &error))?;
        Tensor::of_result(py, state)
    }

    /// Sets a state for the next call; the array is copied.
    fn set_state(&self, py: Python<'_>, input: &str, array: &Bound<'_, PyAny>) -> PyResult<()> {
        let tensor = arrays::read(array, input)?;
        let set = self.with(py, |session| session.set_state(input, tensor.copied()?))?;
        set.map_err(|error: kiln::Error| raise(py, &error))
    }
}
