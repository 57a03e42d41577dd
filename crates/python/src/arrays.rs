//! Converts Python arrays to tensors without copying: the buffer protocol, DLPack, and this package's tensors.
#![allow(unsafe_code, reason = "memory that Python lends is vouched for here")]

use std::ptr::NonNull;

use kiln::internals::tensor::Foreign;
use pyo3::buffer::PyUntypedBuffer;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

use crate::dlpack;
use crate::dtypes;
use crate::errors::{raise, wrong_array};
use crate::tensor::Tensor;

/// The tensor for an array: anything with the buffer protocol (NumPy arrays, `array.array`, `memoryview`), anything
/// with `__dlpack__` on the CPU (PyTorch, JAX and other frameworks), a DLPack capsule, or, if NumPy is installed,
/// numbers and nested lists of numbers.
///
/// The memory is shared: do not modify the array while the tensor is in use.
#[pyfunction]
#[pyo3(signature = (array, /))]
pub(crate) fn tensor(array: &Bound<'_, PyAny>) -> PyResult<Tensor> {
    Ok(Tensor::of_shared(read(array, "array")?))
}

/// The tensor for an array; `what` names it in errors.
pub(crate) fn read(array: &Bound<'_, PyAny>, what: &str) -> PyResult<kiln::Tensor> {
    let py = array.py();
    if let Ok(own) = array.cast::<Tensor>() {
        return Ok(own.get().shared());
    }
    if let Ok(buffer) = PyUntypedBuffer::get(array) {
        return of_buffer(py, buffer, what);
    }
    if array.is_instance_of::<PyCapsule>() {
        return dlpack::import_capsule(array, what);
    }
    let is_numpys = array
        .get_type()
        .module()
        .is_ok_and(|module| module == "numpy");
    if !is_numpys && array.hasattr("__dlpack__")? {
        return dlpack::import(array, what);
    }
    let Ok(numpy) = py.import("numpy") else {
        let message = format!(
            "expected `{what}` to be an array, such as NumPy's or PyTorch's, found a {}; install NumPy to pass numbers and lists",
            array.get_type().name()?
        );
        return Err(wrong_array(py, &message));
    };
    let made = numpy.call_method1("asarray", (array,))?;
    // NumPy's scalars are arrays without axes, whose buffers have no sizes.
    let is_scalar = made.getattr("ndim")?.extract::<usize>()? == 0;
    let made = match is_scalar {
        true => made.call_method1("reshape", (1,))?,
        false => made,
    };
    let Ok(buffer) = PyUntypedBuffer::get(&made) else {
        let found = array.get_type().name()?;
        let message = format!("expected `{what}` to be an array of numbers, found a {found}");
        return Err(wrong_array(py, &message));
    };
    let tensor = of_buffer(py, buffer, what)?;
    match is_scalar {
        true => tensor
            .reshape(&[])
            .map_err(|error| raise(py, &error.into())),
        false => Ok(tensor),
    }
}

fn of_buffer(py: Python<'_>, buffer: PyUntypedBuffer, what: &str) -> PyResult<kiln::Tensor> {
    let format = buffer.format().to_string_lossy().into_owned();
    let Some(dtype) = dtypes::of_format(&format, buffer.item_size()) else {
        let message = format!(
            "expected `{what}` to have numbers or truth values in this machine's byte order, found elements of format {format:?}"
        );
        return Err(wrong_array(py, &message));
    };
    if buffer
        .suboffsets()
        .is_some_and(|offsets| offsets.iter().any(|offset| *offset >= 0))
    {
        let message =
            format!("expected `{what}` to be one block of memory, found pointers to rows");
        return Err(wrong_array(py, &message));
    }
    let (shape, strides) = (buffer.shape().to_vec(), buffer.strides().to_vec());
    let start = NonNull::new(buffer.buf_ptr().cast::<u8>());
    let extent = Extent::of(&shape, &strides, dtype.size_in_bytes());
    let Some(Extent {
        before,
        bytes,
        strides,
    }) = extent
    else {
        let message = format!(
            "expected `{what}` to have strides in whole elements, found {strides:?} bytes; copy it with `numpy.ascontiguousarray`"
        );
        return Err(wrong_array(py, &message));
    };
    let (start, before) = match start {
        // SAFETY: the exporter guarantees that the element at each index is in its memory, and `before` is the distance
        // from the lowest element to the first.
        Some(start) if bytes > 0 => (unsafe { start.sub(before) }, before),
        _ => (NonNull::<u64>::dangling().cast(), 0),
    };
    let memory = Foreign::new(start, bytes, move || drop(buffer));
    // SAFETY: the buffer is kept until the hook runs, and its exporter keeps the memory as long. Python code must not
    // write to it meanwhile; every function that takes arrays documents this.
    let tensor = unsafe {
        kiln::Tensor::foreign(
            dtype,
            &shape,
            &strides,
            before / dtype.size_in_bytes(),
            memory,
        )
    };
    tensor.map_err(|error| raise(py, &error.into()))
}

/// The memory that a strided array spans.
struct Extent {
    /// Bytes from the lowest element to the first.
    before: usize,
    /// Bytes from the lowest element to the end of the highest.
    bytes: usize,
    /// Strides in elements.
    strides: Vec<isize>,
}

impl Extent {
    /// `None` if strides are not whole elements, or overflow.
    fn of(shape: &[usize], strides: &[isize], element: usize) -> Option<Self> {
        let element = isize::try_from(element).ok()?;
        let mut in_elements = Vec::with_capacity(strides.len());
        let (mut low, mut high) = (0_isize, 0_isize);
        let is_empty = shape.contains(&0);
        for (&size, &stride) in shape.iter().zip(strides) {
            // Strides of axes with one index are never used, and may be anything.
            let stride = if size > 1 { stride } else { 0 };
            if stride % element != 0 {
                return None;
            }
            in_elements.push(stride / element);
            let last = isize::try_from(size).ok()?.checked_sub(1)?;
            let reach = stride.checked_mul(last.max(0))?;
            match reach < 0 {
                true => low = low.checked_add(reach)?,
                false => high = high.checked_add(reach)?,
            }
        }
        let bytes = match is_empty {
            true => 0,
            false => high.checked_sub(low)?.checked_add(element)?,
        };
        let before = if is_empty { 0 } else { low.checked_neg()? };
        Some(Self {
            before: usize::try_from(before).ok()?,
            bytes: usize::try_from(bytes).ok()?,
            strides: in_elements,
        })
    }
}
