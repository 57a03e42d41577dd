//! Converts the facade's errors to Python exceptions, whose classes are in `kiln/_errors.py`.

use kiln::internals::shape_inference::Number;
use kiln::{DType, ErrorKind};
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;

/// The exception for an error: an instance of the class of its kind, with its code.
pub(crate) fn raise(py: Python<'_>, error: &kiln::Error) -> PyErr {
    exception(py, error.kind(), error.code(), &error.to_string())
}

/// An exception of this kind.
pub(crate) fn exception(py: Python<'_>, kind: ErrorKind, code: &str, message: &str) -> PyErr {
    let class = match kind {
        ErrorKind::InvalidInput if is_of_tracing(code) => "TracingError",
        ErrorKind::InvalidInput => "InvalidInputError",
        ErrorKind::Unsupported => "UnsupportedError",
        ErrorKind::Limit => "LimitError",
        ErrorKind::Resource => "ResourceError",
        ErrorKind::Environment => "MachineError",
        ErrorKind::Cancelled => "CancelledError",
        ErrorKind::Internal => "InternalError",
        _ => "Error",
    };
    let made = py
        .import("kiln._errors")
        .and_then(|module| module.getattr(class))
        .and_then(|class| class.call1((message, code, kind.to_string())));
    match made {
        Ok(exception) => PyErr::from_value(exception),
        // The package is incomplete: at least say what happened.
        Err(_) => PyRuntimeError::new_err(format!("{code} {message}")),
    }
}

/// An error about an array: what was expected, and what was found.
pub(crate) fn wrong_array(py: Python<'_>, message: &str) -> PyErr {
    exception(py, ErrorKind::InvalidInput, "E0992", message)
}

/// The code of errors about what a function does while it is traced.
const TRACING: &str = "E0993";

/// Whether errors with this code are mistakes in a traced function, which Python regards as type errors.
fn is_of_tracing(code: &str) -> bool {
    code == TRACING || code == Number::NOT_HELD
}

fn tracing(py: Python<'_>, message: &str) -> PyErr {
    exception(py, ErrorKind::InvalidInput, TRACING, message)
}

/// A value or size belongs to another recording, or to one that has ended.
pub(crate) fn foreign(py: Python<'_>) -> PyErr {
    tracing(
        py,
        "expected traced arrays and sizes of one call, found one of another; they live as long as the call that traces the \
         function, so return them instead of keeping them",
    )
}

/// Stops a function that fills a region, so that it runs again with a value passed in. User code cannot catch it by
/// catching `Exception`.
pub(crate) fn captured(py: Python<'_>) -> PyErr {
    let made = py
        .import("kiln._errors")
        .and_then(|module| module.getattr("_Captured"))
        .and_then(|class| class.call0());
    made.map_or_else(|error| error, PyErr::from_value)
}

/// A comparison of sizes has a result that differs from call to call.
pub(crate) fn undecided(py: Python<'_>, predicate: &str) -> PyErr {
    let message = format!(
        "whether {predicate} differs from call to call, so a traced function cannot branch on it; compute with sizes \
         (`Size.min`, `Size.max`, `numpy.where`), or fix them with `dims`"
    );
    tracing(py, &message)
}

/// A size was used where Python needs a number.
pub(crate) fn no_number(py: Python<'_>, size: &str) -> PyErr {
    let message = format!(
        "expected an integer, found the size {size}, which differs from call to call; fix it with `dims`, or use it where \
         sizes are expected"
    );
    tracing(py, &message)
}

/// A number that a dtype cannot represent.
pub(crate) fn not_held(py: Python<'_>, dtype: DType, number: &str) -> PyErr {
    let message = format!(
        "expected a number that {dtype} can represent, found {number}; convert the array with `astype`, or write the number \
         as its dtype has it"
    );
    exception(py, ErrorKind::InvalidInput, Number::NOT_HELD, &message)
}

/// An exception that the package's Python code raises. `what` is `traced` for what tracing does not allow,
/// `unsupported` for functions that traced arrays do not have, or `argument` for arguments that cannot be traced.
#[pyfunction]
pub(crate) fn error(py: Python<'_>, what: &str, message: &str) -> PyErr {
    match what {
        "unsupported" => exception(py, ErrorKind::Unsupported, "E0994", message),
        "argument" => exception(py, ErrorKind::InvalidInput, "E0999", message),
        _ => tracing(py, message),
    }
}
