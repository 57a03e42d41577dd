//! The unit that multiplies the factors of a product: tensor cores, or the threads' arithmetic on numbers of one type.

use kiln_tensor::DType;

use super::c_type::c_type;

/// The unit that multiplies, named after the elements of the factors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unit {
    /// Fused multiply-adds of f32.
    F32,
    /// Fused multiply-adds of f64.
    F64,
    /// Integers that wrap.
    I32,
    /// Integers that wrap.
    I64,
    /// Four products of i8 at a time, summed in i32.
    I8,
    /// Tensor cores, sums in f32.
    Bf16,
    /// Tensor cores, sums in f32.
    F16,
}

impl Unit {
    pub(crate) const ALL: [Unit; 7] = [
        Unit::F32,
        Unit::F64,
        Unit::I32,
        Unit::I64,
        Unit::I8,
        Unit::Bf16,
        Unit::F16,
    ];

    /// The unit with this name.
    pub(crate) fn of_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|unit| unit.as_word() == word)
    }

    pub(crate) fn as_word(self) -> &'static str {
        self.dtype().name()
    }

    /// The element type of its factors.
    pub(crate) fn dtype(self) -> DType {
        match self {
            Unit::F32 => DType::F32,
            Unit::F64 => DType::F64,
            Unit::I32 => DType::I32,
            Unit::I64 => DType::I64,
            Unit::I8 => DType::I8,
            Unit::Bf16 => DType::BF16,
            Unit::F16 => DType::F16,
        }
    }

    /// The type of its sums.
    pub(crate) fn sum(self) -> DType {
        match self {
            Unit::F32 | Unit::Bf16 | Unit::F16 => DType::F32,
            Unit::F64 => DType::F64,
            Unit::I32 | Unit::I8 => DType::I32,
            Unit::I64 => DType::I64,
        }
    }

    /// Whether it uses tensor cores, rather than multiplications by threads in registers.
    pub(crate) fn has_tensor_cores(self) -> bool {
        matches!(self, Unit::Bf16 | Unit::F16)
    }

    /// The C type of a tile's elements.
    pub(crate) fn element(self) -> &'static str {
        c_type(self.dtype())
    }

    /// Bytes of an element of a tile.
    pub(crate) fn element_bytes(self) -> u32 {
        self.dtype().size_in_bytes() as u32
    }

    /// The number of elements along the depth that are multiplied at a time, and form one word of a tile.
    pub(crate) fn packed(self) -> u32 {
        if self == Unit::I8 { 4 } else { 1 }
    }

    /// The number of elements that a thread reads at once, if they are consecutive: 16 bytes, or a word.
    pub(crate) fn lanes(self) -> u32 {
        match self {
            Unit::I8 => self.packed(),
            unit => 16 / unit.element_bytes(),
        }
    }
}
