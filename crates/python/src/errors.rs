//! Errors of the facade as Python exceptions, whose classes are in `kiln/_errors.py`.

use kiln::ErrorKind;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;

/// The exception for an error: an instance of the class of its kind, with its code.
pub(crate) fn raise(py: Python<'_>, error: &kiln::Error) -> PyErr {
    exception(py, error.kind(), error.code(), &error.to_string())
}

/// An exception of a kind.
pub(crate) fn exception(py: Python<'_>, kind: ErrorKind, code: &str, message: &str) -> PyErr {
    let class = match kind {
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

/// An error of an array's: what was expected, and what was found.
pub(crate) fn wrong_array(py: Python<'_>, message: &str) -> PyErr {
    exception(py, ErrorKind::InvalidInput, "E0990", message)
}
