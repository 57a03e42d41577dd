//! A tensor owned by Python, which shares its memory with NumPy through the buffer protocol, and with other libraries
//! through DLPack.
#![allow(unsafe_code, reason = "a tensor's memory is lent to Python here")]

use std::ffi::{CString, c_int, c_void};
use std::ptr;

use kiln::DType;
use pyo3::exceptions::PyBufferError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use crate::dlpack;
use crate::dtypes;
use crate::errors::{raise, wrong_array};

/// A dense array. ``numpy.asarray(tensor)`` and ``torch.from_dlpack(tensor)`` share its memory.
#[pyclass(module = "kiln", frozen)]
pub(crate) struct Tensor {
    tensor: kiln::Tensor,
    /// Its strides in bytes, as the buffer protocol requires.
    strides: Vec<isize>,
    shape: Vec<isize>,
    /// Whether no other tensor shares the memory, so that Python may write to it.
    is_own: bool,
}

impl Tensor {
    /// A tensor whose memory may be read elsewhere.
    pub(crate) fn of_shared(tensor: kiln::Tensor) -> Self {
        Self::new(tensor, false)
    }

    /// The result of a call, made dense; Python may write to it if no other tensor shares its memory.
    ///
    /// # Errors
    /// If memory runs out, or the elements are on a device and cannot be fetched.
    pub(crate) fn of_result(py: Python<'_>, tensor: kiln::Tensor) -> PyResult<Self> {
        let dense = tensor
            .contiguous()
            .map_err(|error| raise(py, &error.into()))?;
        drop(tensor);
        dense.as_bytes().map_err(|error| raise(py, &error.into()))?;
        let is_own = dense.is_unshared();
        Ok(Self::new(dense, is_own))
    }

    fn new(tensor: kiln::Tensor, is_own: bool) -> Self {
        let element = tensor.dtype().size_in_bytes() as isize;
        Self {
            strides: tensor
                .strides()
                .iter()
                .map(|stride| stride * element)
                .collect(),
            shape: tensor.shape().iter().map(|size| *size as isize).collect(),
            tensor,
            is_own,
        }
    }

    /// The tensor, which is read although Python may write to it, like any array passed to a call.
    pub(crate) fn shared(&self) -> kiln::Tensor {
        self.tensor.clone()
    }
}

#[pymethods]
impl Tensor {
    /// The sizes, one per axis.
    #[getter]
    fn shape<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, self.tensor.shape())
    }

    /// The name of the element type, as in ``float32``.
    #[getter]
    fn dtype(&self) -> Option<&'static str> {
        dtypes::of(self.tensor.dtype()).map(|named| named.name)
    }

    /// The number of axes.
    #[getter]
    fn ndim(&self) -> usize {
        self.tensor.rank()
    }

    /// The number of elements.
    #[getter]
    fn size(&self) -> usize {
        self.tensor.len()
    }

    /// A NumPy array over the same memory.
    fn numpy<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        let py = slf.py();
        let numpy = py.import("numpy")?;
        if slf.get().tensor.dtype() != DType::BF16 {
            return numpy.call_method1("asarray", (slf,));
        }
        // NumPy has no bfloat16 of its own; the package ml_dtypes adds one.
        let dtype = py
            .import("ml_dtypes")
            .and_then(|module| module.getattr("bfloat16"));
        let Ok(dtype) = dtype else {
            let message = "NumPy has no bfloat16: install `ml_dtypes`, or use DLPack, as in `torch.from_dlpack(tensor)`";
            return Err(wrong_array(py, message));
        };
        let bytes = slf
            .get()
            .tensor
            .as_bytes()
            .map_err(|error| raise(py, &error.into()))?;
        let flat = numpy.call_method1("frombuffer", (bytes, dtype))?;
        flat.call_method1("reshape", (slf.get().shape(py)?,))
    }

    fn __dlpack_device__(&self) -> (i32, i32) {
        (dlpack::CPU, 0)
    }

    #[pyo3(signature = (*, stream=None, max_version=None, dl_device=None, copy=None))]
    fn __dlpack__<'py>(
        &self,
        py: Python<'py>,
        stream: Option<Bound<'py, PyAny>>,
        max_version: Option<(u32, u32)>,
        dl_device: Option<(i32, i32)>,
        copy: Option<bool>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let _ = (stream, max_version);
        if dl_device.is_some_and(|device| device != (dlpack::CPU, 0)) {
            return Err(PyBufferError::new_err(
                "the tensor is in the memory of the CPU",
            ));
        }
        // The consumer may write to it.
        let tensor = match copy.unwrap_or(false) || !self.is_own {
            true => self
                .tensor
                .copied()
                .map_err(|error| raise(py, &error.into()))?,
            false => self.tensor.clone(),
        };
        dlpack::export(py, tensor)
    }

    fn __len__(&self) -> PyResult<usize> {
        let first = self.tensor.shape().first().copied();
        first.ok_or_else(|| pyo3::exceptions::PyTypeError::new_err("a scalar has no length"))
    }

    fn __repr__(slf: &Bound<'_, Self>) -> PyResult<String> {
        let tensor = slf.get();
        match Self::numpy(slf) {
            Ok(array) => {
                let shown: String = slf
                    .py()
                    .import("numpy")?
                    .call_method1("array2string", (array,))?
                    .extract()?;
                Ok(format!("Tensor({shown}, dtype={})", tensor.tensor.dtype()))
            }
            Err(_) => Ok(format!(
                "Tensor(shape={:?}, dtype={})",
                tensor.tensor.shape(),
                tensor.tensor.dtype()
            )),
        }
    }

    /// # Safety
    /// Called by the interpreter, with a view to fill.
    unsafe fn __getbuffer__(
        slf: Bound<'_, Self>,
        view: *mut ffi::Py_buffer,
        flags: c_int,
    ) -> PyResult<()> {
        if view.is_null() {
            return Err(PyBufferError::new_err("expected a view to fill"));
        }
        let this = slf.get();
        let Some(format) = dtypes::of(this.tensor.dtype()).and_then(|named| named.format) else {
            return Err(PyBufferError::new_err(
                "the buffer protocol has no bfloat16; use DLPack",
            ));
        };
        if flags & ffi::PyBUF_WRITABLE == ffi::PyBUF_WRITABLE && !this.is_own {
            return Err(PyBufferError::new_err(
                "the memory is shared, so it is read-only",
            ));
        }
        let bytes = this
            .tensor
            .as_bytes()
            .map_err(|error| raise(slf.py(), &error.into()))?;
        let format = CString::new(format)?;
        let wants = |flag: c_int| flags & flag == flag;
        // SAFETY: `view` is not null, and the interpreter passes it to be filled. The pointers stay valid until the
        // view is released, since the view holds a reference to the tensor, which is frozen.
        unsafe {
            (*view).buf = bytes.as_ptr().cast_mut().cast::<c_void>();
            (*view).len = bytes.len() as isize;
            (*view).readonly = c_int::from(!this.is_own);
            (*view).itemsize = this.tensor.dtype().size_in_bytes() as isize;
            (*view).format = match wants(ffi::PyBUF_FORMAT) {
                true => format.into_raw(),
                false => ptr::null_mut(),
            };
            (*view).ndim = this.shape.len() as c_int;
            (*view).shape = match wants(ffi::PyBUF_ND) {
                true => this.shape.as_ptr().cast_mut(),
                false => ptr::null_mut(),
            };
            (*view).strides = match wants(ffi::PyBUF_STRIDES) {
                true => this.strides.as_ptr().cast_mut(),
                false => ptr::null_mut(),
            };
            (*view).suboffsets = ptr::null_mut();
            (*view).internal = ptr::null_mut();
            (*view).obj = slf.into_any().into_ptr();
        }
        Ok(())
    }

    /// # Safety
    /// Called by the interpreter, with a view that `__getbuffer__` filled.
    unsafe fn __releasebuffer__(&self, view: *mut ffi::Py_buffer) {
        // SAFETY: the format is the one that `__getbuffer__` allocated for this view, if any.
        unsafe {
            if !view.is_null() && !(*view).format.is_null() {
                drop(CString::from_raw((*view).format));
            }
        }
    }
}
