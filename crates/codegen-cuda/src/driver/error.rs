//! Driver errors: of a single call, and of finding a device.

use crate::error::CudaError;
use std::fmt;

/// A failed call of the driver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DriverError {
    /// The function.
    pub call: &'static str,
    /// The driver's error number.
    pub code: u32,
    /// Its name: `CUDA_ERROR_ILLEGAL_ADDRESS`.
    pub name: String,
}

/// The driver's error for lack of memory.
pub(crate) const OUT_OF_MEMORY: u32 = 2;

/// Errors after which nothing works on the device until the process ends, by the driver's numbers. According to the
/// driver, "the process must be terminated" after these, or there is no context any longer.
const STICKY: &[u32] = &[
    3,   // not initialised: in a forked child
    4,   // deinitialised
    46,  // device unavailable
    101, // invalid device
    201, // invalid context
    214, // uncorrectable memory error
    220, // uncorrectable error of a link
    226, // contained error
    700, // illegal address
    702, // launch timed out
    709, // context is destroyed
    710, // assertion
    714, // hardware stack error
    715, // illegal instruction
    716, // misaligned address
    717, // invalid address space
    718, // invalid program counter
    719, // launch failed
    999, // unknown
];

impl DriverError {
    /// Whether memory could not be allocated.
    pub fn is_out_of_memory(&self) -> bool {
        self.code == OUT_OF_MEMORY
    }

    /// Whether nothing works on the device from now on.
    pub fn is_sticky(&self) -> bool {
        STICKY.contains(&self.code)
    }
}

impl fmt::Display for DriverError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} failed with {} ({})", self.call, self.name, self.code)
    }
}

impl std::error::Error for DriverError {}

/// Why there is no device.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DriverProblem {
    /// E0551: the driver's library was not found; each place that was searched is named.
    #[error(transparent)]
    NoLibrary(#[from] CudaError),
    /// E0561: the driver finds no device, or not this one.
    #[error("expected a CUDA device {ordinal}, found {found}")]
    NoDevice {
        /// The requested device.
        ordinal: u32,
        /// What was found instead.
        found: String,
    },
    /// E0562: the driver is too old.
    #[error(
        "expected a driver for CUDA {}.{} or later, found one for CUDA {}.{}; update the driver",
        .needed.0, .needed.1, .found.0, .found.1
    )]
    OldDriver {
        /// The version needed.
        needed: (u32, u32),
        /// The version found.
        found: (u32, u32),
    },
    /// E0560: no code can be generated for the device.
    #[error("expected a GPU that code can be generated for ({known}), found {name} of compute capability {}.{}", .capability.0, .capability.1)]
    Unsupported {
        /// The device's name.
        name: String,
        /// Its compute capability.
        capability: (u32, u32),
        /// The architectures.
        known: String,
    },
    /// E0563: a call failed.
    #[error("the CUDA driver cannot be used: {0}")]
    Call(#[from] DriverError),
}

impl DriverProblem {
    /// The stable code.
    pub fn code(&self) -> &'static str {
        match self {
            Self::NoLibrary(error) => error.code(),
            Self::NoDevice { .. } => "E0561",
            Self::OldDriver { .. } => "E0562",
            Self::Unsupported { .. } => "E0560",
            Self::Call(_) => "E0563",
        }
    }
}

/// Checks the version of CUDA that a driver supports, in the driver's number: `13000`.
pub(crate) fn check_version(number: u32, needed: (u32, u32)) -> Result<(u32, u32), DriverProblem> {
    let found = (number / 1000, number % 1000 / 10);
    match found < needed {
        true => Err(DriverProblem::OldDriver { needed, found }),
        false => Ok(found),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_old_driver_is_refused_with_both_versions() {
        assert_eq!(check_version(13000, (12, 0)), Ok((13, 0)));
        assert_eq!(check_version(12080, (12, 8)), Ok((12, 8)));
        let error = check_version(11080, (12, 0)).unwrap_err();
        assert_eq!(
            (error.code(), error.to_string().as_str()),
            (
                "E0562",
                "expected a driver for CUDA 12.0 or later, found one for CUDA 11.8; update the driver"
            )
        );
    }

    #[test]
    fn sticky_errors_are_those_that_end_a_context() {
        let error = |code| DriverError {
            call: "cuLaunchKernel",
            code,
            name: String::new(),
        };
        assert!(
            [700, 716, 719, 3]
                .iter()
                .all(|&code| error(code).is_sticky())
        );
        assert!(
            ![1, 2, 200, 600, 801]
                .iter()
                .any(|&code| error(code).is_sticky())
        );
        assert!(error(2).is_out_of_memory());
    }
}
