//! The serialised code of a GPU artifact: [`DeviceCode`].
//!
//! ```text
//! 8 magic; 4 version, 4 length of the head, 8 length of the cubin, little-endian; head: JSON; cubin
//! ```
//!
//! # How a function is launched
//!
//! Each function is `extern "C" __global__ void NAME(const __grid_constant__ kiln_params p)`. The parameter is an array of
//! 8-byte words, at most 4,096 bytes, in this order:
//!
//! 1. the address of each buffer, in the kernel's order;
//! 2. each of the artifact's `arguments`, an `i64`;
//! 3. the address of the launch's shared scratch (`shared_scratch` bytes of device memory), 0 if it needs none;
//! 4. the address of the execution's fault word;
//! 5. the number of the launch in the execution;
//! 6. the number of tasks;
//! 7. the address of the stop word, 0 if there is none.
//!
//! The grid has `min(tasks, 2^31 - 1)` blocks of [`Entry::Function::threads`] threads, and `Phase::scratch` bytes of
//! dynamic shared memory per block; nothing is launched if there are no tasks. A fault is reported by `atomicMin` of
//! `launch << 32 | site << 8 | cause` on the fault word, a `u64` that is initially all ones; the cause is
//! [`FAULT_INDEX`] or [`FAULT_DIVISION`].

use serde::{Deserialize, Serialize};

/// The version of the format.
pub const CONTAINER_VERSION: u32 = 1;

/// The cause in a fault word for an index out of bounds.
pub const FAULT_INDEX: u8 = 0;

/// The cause in a fault word for an integer divided by zero.
pub const FAULT_DIVISION: u8 = 1;

/// The parameter's words other than buffers and arguments.
pub const FIXED_WORDS: usize = 5;

/// The maximum size of a function's parameter, in bytes.
pub const MAX_PARAMETER_BYTES: usize = 4096;

/// The first bytes of a container.
const MAGIC: &[u8; 8] = b"kilncuda";

/// Bytes before the head.
const PREFIX_BYTES: usize = 24;

/// The code of an artifact, stored as the bytes of `ArtifactParts::code`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceCode {
    /// The architecture that the cubin is for, with its suffix: `sm_90a`.
    pub arch: String,
    /// The version of the NVRTC that compiled it: `12.9`; empty if there is no cubin.
    pub nvrtc: String,
    /// The code of each of the artifact's phases, in order.
    pub entries: Vec<Entry>,
    /// The cubin that has the functions; empty if there are none.
    pub cubin: Vec<u8>,
}

/// The code of a phase.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Entry {
    /// A function of the cubin.
    Function {
        /// Its symbol.
        name: String,
        /// Threads of a block.
        threads: u32,
    },
    /// A product by cuBLASLt.
    Gemm(GemmEntry),
}

/// `D = epilogue(scale * A * B)`, row-major, for each of `batch` products, with sums in f32.
///
/// Numbers are positions among the artifact's `arguments`, which contain the values.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GemmEntry {
    /// Rows of `A` and `D`.
    pub m: usize,
    /// Columns of `B` and `D`.
    pub n: usize,
    /// Columns of `A`, rows of `B`.
    pub k: usize,
    /// The number of products.
    pub batch: usize,
    /// `A`: `[batch, m, k]`.
    pub a: GemmOperand,
    /// `B`: `[batch, k, n]`.
    pub b: GemmOperand,
    /// `D`: `[batch, m, n]`.
    pub d: GemmOperand,
    /// The bits of the f32 by which the products are multiplied.
    pub scale: u32,
    /// Whether products of f32 may be rounded to TF32.
    pub allow_tf32: bool,
    /// The operation applied to each element of the product before it is rounded and stored.
    pub epilogue: GemmEpilogue,
}

/// An operand of a [`GemmEntry`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GemmOperand {
    /// The position of its buffer.
    pub buffer: usize,
    /// Whether the matrix is transposed in memory: the element at `(i, j)` is at `j * leading + i`.
    pub transposed: bool,
    /// The distance of rows in memory, in elements.
    pub leading: usize,
    /// The distance of the batch's matrices in memory, in elements.
    pub batch_stride: usize,
}

/// The epilogue of a [`GemmEntry`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GemmEpilogue {
    /// No epilogue.
    None,
    /// `max(x, 0)`.
    Relu,
    /// Adds a vector of `n` elements of D's dtype.
    Bias {
        /// The position of its buffer.
        buffer: usize,
    },
    /// [`Bias`](Self::Bias), then [`Relu`](Self::Relu).
    BiasRelu {
        /// The position of the vector's buffer.
        buffer: usize,
    },
    /// The tanh approximation of gelu.
    GeluTanh,
    /// [`Bias`](Self::Bias), then [`GeluTanh`](Self::GeluTanh).
    BiasGeluTanh {
        /// The position of the vector's buffer.
        buffer: usize,
    },
}

/// E0550: bytes that are not the code of an artifact for a GPU, or code of a different version.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected code of a kernel for a GPU in format {CONTAINER_VERSION}, found {found}")]
pub struct ContainerError {
    found: String,
}

impl ContainerError {
    fn new(found: impl Into<String>) -> Self {
        Self {
            found: found.into(),
        }
    }

    /// The stable code.
    pub fn code(&self) -> &'static str {
        "E0550"
    }
}

/// The head of a container.
#[derive(Serialize, Deserialize)]
struct Head {
    arch: String,
    nvrtc: String,
    entries: Vec<Entry>,
}

impl DeviceCode {
    /// The code as bytes.
    ///
    /// # Errors
    /// If its head or cubin is longer than the format can express.
    pub fn to_bytes(&self) -> Result<Vec<u8>, ContainerError> {
        let head = Head {
            arch: self.arch.clone(),
            nvrtc: self.nvrtc.clone(),
            entries: self.entries.clone(),
        };
        let head =
            serde_json::to_vec(&head).map_err(|error| ContainerError::new(error.to_string()))?;
        let head_bytes = u32::try_from(head.len())
            .map_err(|_| ContainerError::new(format!("a head of {} bytes", head.len())))?;
        let mut bytes = Vec::with_capacity(PREFIX_BYTES + head.len() + self.cubin.len());
        bytes.extend_from_slice(MAGIC);
        bytes.extend_from_slice(&CONTAINER_VERSION.to_le_bytes());
        bytes.extend_from_slice(&head_bytes.to_le_bytes());
        bytes.extend_from_slice(&(self.cubin.len() as u64).to_le_bytes());
        bytes.extend_from_slice(&head);
        bytes.extend_from_slice(&self.cubin);
        Ok(bytes)
    }

    /// Reads code.
    ///
    /// # Errors
    /// If the bytes are not [`to_bytes`](Self::to_bytes)' output in this version, or an entry is a function without a cubin.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, ContainerError> {
        let short = || ContainerError::new(format!("{} bytes that end early", bytes.len()));
        let (magic, rest) = bytes.split_first_chunk::<8>().ok_or_else(short)?;
        if magic != MAGIC {
            return Err(ContainerError::new("other bytes"));
        }
        let (version, rest) = rest.split_first_chunk::<4>().ok_or_else(short)?;
        let version = u32::from_le_bytes(*version);
        if version != CONTAINER_VERSION {
            return Err(ContainerError::new(format!("format {version}")));
        }
        let (head_bytes, rest) = rest.split_first_chunk::<4>().ok_or_else(short)?;
        let (cubin_bytes, rest) = rest.split_first_chunk::<8>().ok_or_else(short)?;
        let head_bytes = usize::try_from(u32::from_le_bytes(*head_bytes)).map_err(|_| short())?;
        let (head, cubin) = rest.split_at_checked(head_bytes).ok_or_else(short)?;
        if u64::try_from(cubin.len()) != Ok(u64::from_le_bytes(*cubin_bytes)) {
            return Err(ContainerError::new(format!(
                "a cubin of {} bytes where its head has {}",
                cubin.len(),
                u64::from_le_bytes(*cubin_bytes)
            )));
        }
        let head: Head = serde_json::from_slice(head)
            .map_err(|error| ContainerError::new(format!("a damaged head: {error}")))?;
        let needs_cubin = |entry: &Entry| matches!(entry, Entry::Function { .. });
        if cubin.is_empty() && head.entries.iter().any(needs_cubin) {
            return Err(ContainerError::new("functions without a cubin"));
        }
        Ok(Self {
            arch: head.arch,
            nvrtc: head.nvrtc,
            entries: head.entries,
            cubin: cubin.to_vec(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code() -> DeviceCode {
        let operand = |buffer| GemmOperand {
            buffer,
            transposed: buffer == 1,
            leading: 3,
            batch_stride: 4,
        };
        DeviceCode {
            arch: "sm_90a".to_owned(),
            nvrtc: "12.9".to_owned(),
            entries: vec![
                Entry::Function {
                    name: "kiln_0".to_owned(),
                    threads: 256,
                },
                Entry::Gemm(GemmEntry {
                    m: 0,
                    n: 1,
                    k: 2,
                    batch: 5,
                    a: operand(0),
                    b: operand(1),
                    d: operand(2),
                    scale: 1.0f32.to_bits(),
                    allow_tf32: false,
                    epilogue: GemmEpilogue::BiasRelu { buffer: 3 },
                }),
            ],
            cubin: vec![0x7f, b'E', b'L', b'F', 0, 1, 2],
        }
    }

    #[test]
    fn containers_round_trip() {
        let bytes = code().to_bytes().unwrap();
        assert_eq!(DeviceCode::from_bytes(&bytes), Ok(code()));
    }

    #[test]
    fn every_truncation_is_an_error() {
        let bytes = code().to_bytes().unwrap();
        for length in 0..bytes.len() {
            let error = DeviceCode::from_bytes(&bytes[..length]).unwrap_err();
            assert_eq!(error.code(), "E0550", "{length}");
        }
        let mut longer = bytes.clone();
        longer.push(0);
        assert!(DeviceCode::from_bytes(&longer).is_err());
    }

    #[test]
    fn other_versions_and_missing_cubins_are_errors() {
        let mut bytes = code().to_bytes().unwrap();
        bytes[8] = 9;
        let error = DeviceCode::from_bytes(&bytes).unwrap_err();
        assert_eq!(
            error.to_string(),
            "expected code of a kernel for a GPU in format 1, found format 9"
        );
        let bare = DeviceCode {
            cubin: Vec::new(),
            ..code()
        };
        assert!(DeviceCode::from_bytes(&bare.to_bytes().unwrap()).is_err());
    }
}
