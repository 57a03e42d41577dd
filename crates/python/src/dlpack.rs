//! DLPack, for exchanging arrays with other frameworks (<https://dmlc.github.io/dlpack>), in the unversioned form that
//! all of them support.
#![allow(unsafe_code, reason = "the protocol is one of C structs and pointers")]

use std::ffi::{CStr, c_void};
use std::ptr::{self, NonNull};

use kiln::DType;
use kiln::internals::tensor::Foreign;
use pyo3::ffi;
use pyo3::prelude::*;

use crate::dtypes;
use crate::errors::{raise, wrong_array};

/// The device type of host memory.
pub(crate) const CPU: i32 = 1;

/// The device type of host memory that a GPU can access.
const CUDA_HOST: i32 = 3;

/// The name of a capsule that has not been consumed, and that of one that has.
const FRESH: &CStr = c"dltensor";
const CONSUMED: &CStr = c"used_dltensor";

/// The maximum number of axes; arrays with more are rejected.
const MAX_RANK: i32 = 64;

#[repr(C)]
struct ManagedTensor {
    tensor: DlTensor,
    context: *mut c_void,
    deleter: Option<unsafe extern "C" fn(*mut ManagedTensor)>,
}

#[repr(C)]
struct DlTensor {
    data: *mut c_void,
    device_type: i32,
    device_number: i32,
    rank: i32,
    code: u8,
    bits: u8,
    lanes: u16,
    shape: *mut i64,
    strides: *mut i64,
    byte_offset: u64,
}

/// The data that an exported capsule keeps alive.
struct Exported {
    managed: ManagedTensor,
    shape: Vec<i64>,
    strides: Vec<i64>,
    _tensor: kiln::Tensor,
}

/// An imported tensor, returned to its producer on drop.
struct Imported(NonNull<ManagedTensor>);

// SAFETY: the tensor is only read, and is returned while the GIL is held.
unsafe impl Send for Imported {}

impl Drop for Imported {
    fn drop(&mut self) {
        // Producers may need the GIL to release their resources. If there is no interpreter any more, their memory is
        // gone.
        Python::try_attach(|_| {
            // SAFETY: the capsule was consumed, so this is its only owner, and drops it once.
            unsafe {
                if let Some(deleter) = self.0.as_ref().deleter {
                    deleter(self.0.as_ptr());
                }
            }
        });
    }
}

/// The tensor for an array with `__dlpack__`.
pub(crate) fn import(array: &Bound<'_, PyAny>, what: &str) -> PyResult<kiln::Tensor> {
    let device: (i32, i32) = array.call_method0("__dlpack_device__")?.extract()?;
    expect_host(array.py(), device.0, what)?;
    import_capsule(&array.call_method0("__dlpack__")?, what)
}

fn expect_host(py: Python<'_>, device: i32, what: &str) -> PyResult<()> {
    if device == CPU || device == CUDA_HOST {
        return Ok(());
    }
    let message = format!(
        "expected `{what}` in the memory of the CPU, found it on a device; copy it to the CPU"
    );
    Err(wrong_array(py, &message))
}

/// The tensor in a capsule that has not been consumed.
pub(crate) fn import_capsule(capsule: &Bound<'_, PyAny>, what: &str) -> PyResult<kiln::Tensor> {
    let py = capsule.py();
    // SAFETY: the capsule's name, which the interpreter checks, says what it points to. Once it is renamed, its
    // producer leaves the tensor to its consumer.
    let imported = unsafe {
        let managed = ffi::PyCapsule_GetPointer(capsule.as_ptr(), FRESH.as_ptr());
        let Some(managed) = NonNull::new(managed.cast::<ManagedTensor>()) else {
            return Err(PyErr::fetch(py));
        };
        if ffi::PyCapsule_SetName(capsule.as_ptr(), CONSUMED.as_ptr()) != 0 {
            return Err(PyErr::fetch(py));
        }
        Imported(managed)
    };
    // SAFETY: the tensor lives until `imported` is dropped.
    let tensor = unsafe { &imported.0.as_ref().tensor };
    expect_host(py, tensor.device_type, what)?;
    let Some(dtype) = dtypes::of_dlpack(tensor.code, tensor.bits).filter(|_| tensor.lanes == 1)
    else {
        let found = format!("type {} of {} bits", tensor.code, tensor.bits);
        let message =
            format!("expected `{what}` to have a dtype that Kiln supports, found DLPack's {found}");
        return Err(wrong_array(py, &message));
    };
    let Some(Layout {
        shape,
        strides,
        before,
        bytes,
    }) = Layout::of(tensor, dtype)
    else {
        let message = format!(
            "expected `{what}` to be an array of at most {MAX_RANK} axes, found a malformed one"
        );
        return Err(wrong_array(py, &message));
    };
    let element = dtype.size_in_bytes();
    // SAFETY: the producer guarantees that every element is in its memory; `before` is the distance from the lowest
    // element to the first.
    let start = unsafe {
        let first = tensor
            .data
            .cast::<u8>()
            .wrapping_add(tensor.byte_offset as usize);
        NonNull::new(first)
            .filter(|_| bytes > 0)
            .map(|first| first.sub(before * element))
    };
    let (start, before) = match start {
        Some(start) => (start, before),
        None if bytes == 0 => (NonNull::<u64>::dangling().cast(), 0),
        None => {
            return Err(wrong_array(
                py,
                &format!("expected `{what}` to have memory, found none"),
            ));
        }
    };
    let memory = Foreign::new(start, bytes, move || drop(imported));
    // SAFETY: as for arrays with the buffer protocol, the producer keeps the memory alive until the hook has run.
    let made = unsafe { kiln::Tensor::foreign(dtype, &shape, &strides, before, memory) };
    made.map_err(|error| raise(py, &error.into()))
}

/// Sizes and strides in elements, and the memory that they span.
struct Layout {
    shape: Vec<usize>,
    strides: Vec<isize>,
    /// The number of elements from the lowest to the first.
    before: usize,
    bytes: usize,
}

impl Layout {
    fn of(tensor: &DlTensor, dtype: DType) -> Option<Self> {
        if !(0..=MAX_RANK).contains(&tensor.rank) {
            return None;
        }
        let rank = tensor.rank as usize;
        let read = |numbers: *mut i64| {
            (0..rank)
                // SAFETY: the producer's arrays have one number per axis.
                .map(|axis| unsafe { numbers.add(axis).read() })
                .collect::<Vec<i64>>()
        };
        if rank > 0 && tensor.shape.is_null() {
            return None;
        }
        let shape = read(tensor.shape).into_iter().map(usize::try_from);
        let shape: Vec<usize> = shape.collect::<Result<_, _>>().ok()?;
        let strides = match tensor.strides.is_null() {
            true => kiln::internals::tensor::row_major_strides(&shape).to_vec(),
            false => read(tensor.strides)
                .into_iter()
                .map(|stride| stride as isize)
                .collect(),
        };
        let (mut low, mut high) = (0_isize, 0_isize);
        for (&size, &stride) in shape.iter().zip(&strides) {
            let last = isize::try_from(size).ok()?.checked_sub(1)?.max(0);
            let reach = stride.checked_mul(last)?;
            match reach < 0 {
                true => low = low.checked_add(reach)?,
                false => high = high.checked_add(reach)?,
            }
        }
        let is_empty = shape.contains(&0);
        let elements = match is_empty {
            true => 0,
            false => usize::try_from(high.checked_sub(low)?.checked_add(1)?).ok()?,
        };
        Some(Self {
            shape,
            strides,
            before: if is_empty { 0 } else { low.unsigned_abs() },
            bytes: elements.checked_mul(dtype.size_in_bytes())?,
        })
    }
}

/// A capsule with a dense tensor.
pub(crate) fn export<'py>(py: Python<'py>, tensor: kiln::Tensor) -> PyResult<Bound<'py, PyAny>> {
    let bytes = tensor
        .as_bytes()
        .map_err(|error| raise(py, &error.into()))?;
    let data = bytes.as_ptr().cast_mut().cast::<c_void>();
    let dtype = tensor.dtype();
    let Some(named) = dtypes::of(dtype) else {
        return Err(wrong_array(py, &format!("DLPack has no {dtype}")));
    };
    let mut exported = Box::new(Exported {
        shape: tensor.shape().iter().map(|size| *size as i64).collect(),
        strides: tensor
            .strides()
            .iter()
            .map(|stride| *stride as i64)
            .collect(),
        managed: ManagedTensor {
            tensor: DlTensor {
                data,
                device_type: CPU,
                device_number: 0,
                rank: tensor.rank() as i32,
                code: named.code,
                bits: 8 * dtype.size_in_bytes() as u8,
                lanes: 1,
                shape: ptr::null_mut(),
                strides: ptr::null_mut(),
                byte_offset: 0,
            },
            context: ptr::null_mut(),
            deleter: Some(delete),
        },
        _tensor: tensor,
    });
    exported.managed.tensor.shape = exported.shape.as_mut_ptr();
    exported.managed.tensor.strides = exported.strides.as_mut_ptr();
    let raw = Box::into_raw(exported);
    // SAFETY: `raw` is valid, and from now on is owned by the capsule or its consumer; `delete` reclaims it.
    unsafe {
        (*raw).managed.context = raw.cast::<c_void>();
        let managed = &raw mut (*raw).managed;
        let capsule = ffi::PyCapsule_New(managed.cast(), FRESH.as_ptr(), Some(drop_capsule));
        if capsule.is_null() {
            delete(managed);
            return Err(PyErr::fetch(py));
        }
        Bound::from_owned_ptr_or_err(py, capsule)
    }
}

/// Frees the data of an exported capsule.
///
/// # Safety
/// `managed` is that of an [`Exported`], and is not used afterwards.
unsafe extern "C" fn delete(managed: *mut ManagedTensor) {
    // SAFETY: guaranteed by the caller; the context is the box's own address.
    unsafe {
        if !managed.is_null() {
            drop(Box::from_raw((*managed).context.cast::<Exported>()));
        }
    }
}

/// Frees a capsule that has no consumer.
///
/// # Safety
/// Called by the interpreter, with a capsule made by [`export`].
unsafe extern "C" fn drop_capsule(capsule: *mut ffi::PyObject) {
    // SAFETY: a capsule that still has this name still owns its pointer.
    unsafe {
        if ffi::PyCapsule_IsValid(capsule, FRESH.as_ptr()) == 1 {
            let managed = ffi::PyCapsule_GetPointer(capsule, FRESH.as_ptr());
            delete(managed.cast::<ManagedTensor>());
        }
    }
}
