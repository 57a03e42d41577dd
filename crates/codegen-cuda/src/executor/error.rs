//! Device errors: [`DeviceError`].

use crate::container::ContainerError;
use crate::driver::DriverError;
use crate::error::CudaError;
use kiln_backend::{ExecuteError, PackError};
use kiln_tensor::TensorError;
use std::fmt;

/// An error of a CUDA device. Each variant names its code.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DeviceError {
    /// E0896: the device is lost.
    #[error("device {device} was lost: {reason}")]
    Lost {
        /// Its name.
        device: String,
        /// The error by which it was lost.
        reason: String,
    },

    /// E0563: a driver call failed; the device is still usable.
    #[error("{device}: {cause}")]
    Call {
        /// The device's name.
        device: String,
        /// The driver's error.
        cause: DriverError,
    },

    /// E0564: memory of the device, or page-locked memory, cannot be allocated.
    #[error(
        "expected {bytes} bytes of memory of device {device}, found {free} of {total} bytes free; free tensors that stay \
         on the device, or run fewer or smaller calls at a time"
    )]
    Memory {
        /// The device's name.
        device: String,
        /// The requested bytes.
        bytes: usize,
        /// The free bytes.
        free: usize,
        /// The total bytes of the device.
        total: usize,
    },

    /// E0568: more memory than the executor may use at a time.
    #[error(
        "expected at most {limit} bytes of memory at one time, found {given}; raise the limit, or run fewer or smaller \
         calls at a time"
    )]
    MemoryLimit {
        /// The memory that would be used.
        given: usize,
        /// The limit.
        limit: usize,
    },

    /// E0565: an argument that does not fit the kernel, the builtin or the memory.
    #[error("{what}: expected {expected}, found {found}")]
    Mismatch {
        /// What does not fit.
        what: String,
        /// The expected value.
        expected: String,
        /// The given value.
        found: String,
    },

    /// E0566: code for a different architecture than the device's.
    #[error(
        "code for {found} cannot run on {device}, which runs code for {expected}; compile for that level"
    )]
    Architecture {
        /// The device's name.
        device: String,
        /// The architecture that it runs.
        expected: String,
        /// The architecture of the code.
        found: String,
    },

    /// E0567: an operation for which the device has no code, without a host to run it.
    #[error("{device} has no code for {operation}, and no host was given to run it")]
    NoHost {
        /// The device's name.
        device: String,
        /// The operation.
        operation: String,
    },

    /// A missing library: the code is the cause's.
    #[error(transparent)]
    Library(#[from] CudaError),

    /// Bytes that are not a kernel's code: the error code is the cause's.
    #[error(transparent)]
    Container(#[from] ContainerError),

    /// Host memory that could not be allocated, or a tensor that cannot be made from it: the code is the cause's.
    #[error(transparent)]
    Tensor(#[from] TensorError),

    /// A constant that cannot be packed: the code is the cause's.
    #[error(transparent)]
    Pack(#[from] PackError),
}

impl DeviceError {
    /// The stable code of the error.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Lost { .. } => ExecuteError::DEVICE_LOST,
            Self::Call { .. } => "E0563",
            Self::Memory { .. } => "E0564",
            Self::MemoryLimit { .. } => "E0568",
            Self::Mismatch { .. } => "E0565",
            Self::Architecture { .. } => "E0566",
            Self::NoHost { .. } => "E0567",
            Self::Library(cause) => cause.code(),
            Self::Container(cause) => cause.code(),
            Self::Tensor(cause) => cause.code(),
            Self::Pack(cause) => cause.code(),
        }
    }

    /// A mismatch of a given and an expected value.
    pub(crate) fn mismatch(
        what: impl Into<String>,
        expected: impl fmt::Display,
        found: impl fmt::Display,
    ) -> Self {
        Self::Mismatch {
            what: what.into(),
            expected: expected.to_string(),
            found: found.to_string(),
        }
    }

    /// Memory or a kernel that belongs to another executor.
    pub(crate) fn foreign(what: &str) -> Self {
        Self::mismatch(what, "this device's own", "another device's")
    }
}

impl From<DeviceError> for ExecuteError {
    fn from(error: DeviceError) -> Self {
        if let DeviceError::Lost { device, reason } = error {
            return Self::device_lost(device, reason);
        }
        let out_of_memory = match &error {
            DeviceError::Call { cause, .. } => cause.is_out_of_memory(),
            DeviceError::Memory { .. }
            | DeviceError::MemoryLimit { .. }
            | DeviceError::Tensor(TensorError::Allocation { .. })
            | DeviceError::Pack(PackError::Tensor(TensorError::Allocation { .. })) => true,
            _ => false,
        };
        Self {
            code: error.code(),
            out_of_memory,
            source: Box::new(error),
        }
    }
}
