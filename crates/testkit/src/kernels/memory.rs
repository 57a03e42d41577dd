//! Operands as bytes: laid out by a buffer's strides, between guard bytes.

use kiln_kernel::{Buffer, Kernel};
use kiln_tensor::{DType, Tensor, TensorError, row_major_strides};

use super::sizes::binding;

/// Bytes before and after an operand that must not be written.
const GUARD: usize = 128;
/// The contents of guards, and of results before they are written: a NaN, an odd integer.
const POISON: u8 = 0xff;
/// The contents of guards of `bool` operands: every byte of those is 0 or 1.
const POISON_BOOL: u8 = 1;

/// The place of an operand in its allocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Placement {
    /// Between guard bytes, as misaligned as allowed.
    Amid,
    /// From the first byte of the allocation: the bytes before are guarded by the device.
    First,
    /// Up to the last byte of the allocation, which is in units of this many bytes: the bytes after are guarded by the
    /// device.
    Last(usize),
}

/// The bytes of one operand with its guards.
#[derive(Clone, Debug)]
pub(super) struct Image {
    pub(super) bytes: Vec<u8>,
    /// The offset of the operand.
    pub(super) offset: usize,
    /// Its length.
    pub(super) length: usize,
    strides: Vec<i64>,
    dtype: DType,
    shape: Vec<usize>,
}

impl Image {
    /// An operand in its buffer's layout. Results are poisoned.
    pub(super) fn of(
        kernel: &Kernel,
        buffer: &Buffer,
        symbols: &[i64],
        tensor: &Tensor,
        placement: Placement,
    ) -> Result<Self, TensorError> {
        let binding = binding(kernel, symbols);
        let shape = tensor.shape().to_vec();
        let strides: Vec<i64> = match &buffer.strides {
            Some(strides) => strides
                .iter()
                .map(|&dim| kernel.dims().evaluate(dim, &binding).unwrap_or_default())
                .collect(),
            None => row_major_strides(&shape)
                .iter()
                .map(|&stride| stride as i64)
                .collect(),
        };
        let size = tensor.dtype().size_in_bytes();
        let elements = if tensor.is_empty() {
            0
        } else {
            let along = shape.iter().zip(&strides);
            1 + along
                .map(|(&size, &stride)| (size as i64 - 1) * stride)
                .sum::<i64>() as usize
        };
        let length = elements * size;
        let (offset, behind) = match placement {
            Placement::Amid => (GUARD + size, GUARD),
            Placement::First => (0, 0),
            Placement::Last(unit) => (length.next_multiple_of(unit) - length, 0),
        };
        let poison = poison_of(tensor.dtype());
        let mut image = Self {
            bytes: vec![poison; offset + length + behind],
            offset,
            length,
            strides,
            dtype: tensor.dtype(),
            shape,
        };
        if buffer.role.is_read() {
            let tensor = tensor.contiguous()?;
            let source = tensor.as_bytes()?.to_vec();
            image.for_each(|at, position, bytes| {
                bytes[at..at + size]
                    .copy_from_slice(&source[position * size..(position + 1) * size]);
            });
        }
        Ok(image)
    }

    /// The logical tensor in these bytes, read back from the device; and whether the surrounding bytes are unchanged,
    /// including those between its elements.
    pub(super) fn read(&self, bytes: &[u8]) -> Result<(Tensor, bool), TensorError> {
        let size = self.dtype.size_in_bytes();
        let mut elements = vec![0; self.shape.iter().product::<usize>() * size];
        let mut untouched = bytes.to_vec();
        let mut image = self.clone();
        let poison = poison_of(self.dtype);
        let mut invalid = false;
        image.for_each(|at, position, _| {
            let element = &bytes[at..at + size];
            // A `bool` that is neither 0 nor 1 is not an element of a tensor.
            invalid |= self.dtype == DType::Bool && element[0] > 1;
            elements[position * size..(position + 1) * size].copy_from_slice(element);
            untouched[at..at + size].fill(poison);
        });
        if invalid {
            return Ok((Tensor::from_bytes(DType::U8, &self.shape, &elements)?, true));
        }
        let intact = untouched.iter().all(|&byte| byte == poison);
        Ok((
            Tensor::from_bytes(self.dtype, &self.shape, &elements)?,
            intact,
        ))
    }

    /// Calls back with the byte offset of each element and its row-major position.
    fn for_each(&mut self, mut visit: impl FnMut(usize, usize, &mut [u8])) {
        let size = self.dtype.size_in_bytes();
        let count = self.shape.iter().product::<usize>();
        for position in 0..count {
            let mut rest = position;
            let mut at = 0;
            for (&size, &stride) in self.shape.iter().zip(&self.strides).rev() {
                at += (rest % size) as i64 * stride;
                rest /= size;
            }
            visit(self.offset + at as usize * size, position, &mut self.bytes);
        }
    }
}

fn poison_of(dtype: DType) -> u8 {
    if dtype == DType::Bool {
        POISON_BOOL
    } else {
        POISON
    }
}
