//! The native part of the Python package `kiln`: calls models on arrays without copying, and records graphs op by op.
//!
//! A thin wrapper: whatever Python can do, a Rust user of the facade can do. Invariants: no Python code runs and the
//! GIL is not held while a model is loaded or called; memory borrowed from Python is released when the last tensor over
//! it is dropped, on whichever thread drops it.

#![deny(unsafe_code)]

mod arrays;
mod dlpack;
mod dtypes;
mod errors;
mod interrupts;
mod model;
mod recording;
mod session;
mod settings;
mod tensor;

use pyo3::prelude::*;

#[pymodule]
fn _kiln(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add_class::<model::Model>()?;
    module.add_class::<session::Session>()?;
    module.add_class::<tensor::Tensor>()?;
    module.add_class::<recording::Recording>()?;
    module.add_class::<recording::Value>()?;
    module.add_class::<recording::Size>()?;
    module.add_function(wrap_pyfunction!(errors::error, module)?)?;
    module.add_function(wrap_pyfunction!(model::load, module)?)?;
    module.add_function(wrap_pyfunction!(model::open_bundle, module)?)?;
    module.add_function(wrap_pyfunction!(model::devices, module)?)?;
    module.add_function(wrap_pyfunction!(arrays::tensor, module)?)
}
