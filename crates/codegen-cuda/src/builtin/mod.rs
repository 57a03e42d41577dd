//! Builtins with device code: their CUDA C, and the parameters of its launch.
//!
//! The functions are launched from an artifact, like those of a kernel. The artifact's symbols are the sizes of a
//! builtin's call, such as the length of a lane; [`DeviceBuiltin::of`] computes them.

use kiln_backend::{
    ArtifactBuffer, ArtifactParts, Builtin, BuiltinOperand, Phase, Quantity, Schedule,
};
use kiln_tensor::DType;

use crate::arch::CudaArch;
use crate::error::CudaError;
use crate::generate::prelude;

/// Threads of a block, as in the sources.
const THREADS: u32 = 256;

/// Elements of a block of [`DeviceBuiltin::NonZero`], as in its source.
const PART: i64 = 4096;

/// The maximum number of elements of each lane that [`DeviceBuiltin::TopK`] finds: twice as many keys are in shared
/// memory.
const MOST_FOUND: i64 = 2048;

/// A builtin for operands of one kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DeviceBuiltin {
    /// [`Builtin::TopK`] of elements of at most 32 bits.
    TopK {
        /// The elements.
        dtype: DType,
        /// Whether the order is descending.
        largest: bool,
    },
    /// [`Builtin::NonZero`] of tensors that are not scalars.
    NonZero {
        /// The elements.
        dtype: DType,
        /// The number of axes.
        rank: usize,
    },
}

impl DeviceBuiltin {
    /// The code for a call, and its symbols; `None` if the device has no code for it, or operands do not fit each
    /// other.
    pub fn of(
        builtin: &Builtin,
        inputs: &[BuiltinOperand<'_>],
        outputs: &[BuiltinOperand<'_>],
    ) -> Option<(Self, Vec<i64>)> {
        match (builtin, inputs, outputs) {
            (&Builtin::TopK { axis, largest }, [x], [values, indices]) => {
                let dtype = x.dtype;
                let (size, k) = (size(x.shape.get(axis)?)?, size(values.shape.get(axis)?)?);
                let stride = product(x.shape.get(axis + 1..)?)?;
                let lanes = product(x.shape.get(..axis)?)?.checked_mul(stride)?;
                let has_keys = dtype.size_in_bytes() <= 4 && size < i64::from(u32::MAX);
                let mut found = x.shape.to_vec();
                *found.get_mut(axis)? = *values.shape.get(axis)?;
                let suits = has_keys
                    && (1..=MOST_FOUND.min(size)).contains(&k)
                    && (values.dtype, values.shape) == (dtype, &found)
                    && (indices.dtype, indices.shape) == (DType::I64, &found);
                let part = (k.cast_unsigned())
                    .next_power_of_two()
                    .max(u64::from(THREADS));
                let symbols = vec![size, stride, k, part.cast_signed(), lanes];
                suits.then_some((Self::TopK { dtype, largest }, symbols))
            }
            (Builtin::NonZero, [x], [indices, count]) => {
                let (dtype, rank) = (x.dtype, x.shape.len());
                let (elements, columns) = (product(x.shape)?, size(indices.shape.last()?)?);
                let mut symbols = vec![elements, columns];
                symbols.extend(x.shape.iter().map(size).collect::<Option<Vec<_>>>()?);
                // Only the device knows whether the found elements fit into fewer columns.
                let suits = rank > 0
                    && columns >= elements
                    && indices.shape.split_last()?.1 == [rank]
                    && (indices.dtype, count.dtype) == (DType::I64, DType::I64);
                suits.then_some((Self::NonZero { dtype, rank }, symbols))
            }
            _ => None,
        }
    }

    /// Its name.
    pub fn name(self) -> String {
        match self {
            Self::TopK { dtype, largest } => {
                let order = if largest { "largest" } else { "smallest" };
                format!("top_k_{order}_{dtype}")
            }
            Self::NonZero { dtype, rank } => format!("non_zero_{dtype}_{rank}"),
        }
    }

    fn n_arguments(self) -> usize {
        match self {
            Self::TopK { .. } => 4,
            Self::NonZero { rank, .. } => 2 + rank,
        }
    }

    /// The CUDA C, without the definitions that exist only on a device.
    ///
    /// # Errors
    /// E0553 for more axes than a launch can pass.
    #[doc(hidden)]
    pub fn host_text(self) -> Result<String, CudaError> {
        const BUFFERS: usize = 3;
        let mut text = prelude(BUFFERS, self.n_arguments())?;
        let mut define = |name: &str, value: &str| {
            text.push_str(&format!("#define {name} {value}\n"));
        };
        let words = (0..self.n_arguments())
            .map(|number| format!("const k_i64 s{number} = (k_i64)p.w[{}];", BUFFERS + number));
        define("K_ARGUMENTS", &words.collect::<Vec<_>>().join(" "));
        match self {
            Self::TopK { dtype, largest } => {
                let (bits, integer) = c_types(dtype);
                define("K_ELEMENT", bits);
                define("K_SIGNED", integer);
                define("K_IS_FLOAT", if dtype.is_float() { "1" } else { "0" });
                define("K_INFINITY", infinity(dtype));
                define("K_LARGEST", if largest { "true" } else { "false" });
                text.push_str(include_str!("top_k.cuh"));
            }
            Self::NonZero { dtype, rank } => {
                define("K_ELEMENT", c_types(dtype).0);
                // The sign of a float is not part of its magnitude.
                let sign_bits = if dtype.is_float() { 1 } else { 0 };
                let bits = 8 * dtype.size_in_bytes() - sign_bits;
                define("K_MAGNITUDE", &format!("(~0ull >> {})", 64 - bits));
                define("K_RANK", &rank.to_string());
                let sizes = (0..rank).map(|axis| format!("s{}", 2 + axis));
                define("K_SIZES", &sizes.collect::<Vec<_>>().join(", "));
                text.push_str(include_str!("non_zero.cuh"));
            }
        }
        Ok(text)
    }

    /// The parts of its artifact, except the code.
    #[doc(hidden)]
    pub fn parts(self, arch: CudaArch) -> ArtifactParts {
        let symbol = Quantity::symbol;
        let constant = Quantity::constant;
        let bytes = |dtype: DType| constant(dtype.size_in_bytes() as i64);
        let buffer = |name: &str, dtype: DType, written: bool, elements: Quantity| ArtifactBuffer {
            name: name.to_owned(),
            dtype,
            written,
            bytes: elements * bytes(dtype),
        };
        let phase = |number: usize, tasks: Quantity, scratch: Quantity| Phase {
            entry: format!("kiln_{number}"),
            tasks,
            block: THREADS,
            scratch,
        };
        let word = || constant(size_of::<u64>() as i64);
        let (buffers, phases, shared_scratch) = match self {
            Self::TopK { dtype, .. } => {
                let found = symbol(2) * symbol(4);
                let buffers = vec![
                    buffer("x", dtype, false, symbol(0) * symbol(4)),
                    buffer("values", dtype, true, found.clone()),
                    buffer("indices", DType::I64, true, found),
                ];
                let keys = (symbol(3) + symbol(3) + constant(1)) * word();
                (buffers, vec![phase(0, symbol(4), keys)], constant(0))
            }
            Self::NonZero { dtype, rank } => {
                let columns = symbol(1) * constant(rank as i64);
                let buffers = vec![
                    buffer("x", dtype, false, symbol(0)),
                    buffer("indices", DType::I64, true, columns),
                    buffer("count", DType::I64, true, constant(1)),
                ];
                let parts = |elements: Quantity| elements.ceil_div(constant(PART));
                let slots = || constant(i64::from(THREADS)) * word();
                let phases = vec![
                    phase(0, parts(symbol(0)), slots()),
                    phase(1, constant(1), slots()),
                    phase(2, parts(symbol(0)), slots()),
                    phase(3, parts(symbol(1)), constant(0)),
                ];
                (buffers, phases, parts(symbol(0)) * word())
            }
        };
        ArtifactParts {
            kernel: self.name(),
            target: arch.target(),
            schedule: Schedule::new("builtin"),
            code: Vec::new(),
            contract: Vec::new(),
            buffers,
            arguments: (0..self.n_arguments() as u32).map(symbol).collect(),
            phases,
            shared_scratch,
            packs: Vec::new(),
            in_place: Vec::new(),
            fault_sites: Vec::new(),
        }
    }
}

fn size(size: &usize) -> Option<i64> {
    i64::try_from(*size).ok()
}

fn product(sizes: &[usize]) -> Option<i64> {
    let mut sizes = sizes.iter().map(size);
    sizes.try_fold(1_i64, |product, size| product.checked_mul(size?))
}

/// The C types with an element's bits: unsigned, and, for integers, with the signedness of the dtype.
fn c_types(dtype: DType) -> (&'static str, &'static str) {
    match dtype {
        DType::F64 | DType::U64 => ("k_u64", "k_u64"),
        DType::I64 => ("k_u64", "k_i64"),
        DType::F32 | DType::U32 => ("k_u32", "k_u32"),
        DType::I32 => ("k_u32", "int"),
        DType::F16 | DType::BF16 | DType::U16 => ("k_u16", "k_u16"),
        DType::I16 => ("k_u16", "short"),
        DType::I8 => ("k_u8", "k_i8"),
        _ => ("k_u8", "k_u8"),
    }
}

/// The bits of infinity; not used for integers.
fn infinity(dtype: DType) -> &'static str {
    match dtype {
        DType::F32 => "0x7f800000u",
        DType::F16 => "0x7c00u",
        DType::BF16 => "0x7f80u",
        _ => "0",
    }
}
