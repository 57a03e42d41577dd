//! The tensor: a dtype, a layout and shared storage.
//!
//! Invariant: when the layout has elements, each is inside the storage. Writing goes only through [`Tensor::as_mut_slice`],
//! which first makes the storage exclusive.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use crate::layout::Layout;
use crate::storage::Storage;
use crate::{DType, Element, Offsets, TensorError, element_count};

/// An n-dimensional array in host memory.
///
/// Cloning shares the storage. Views share it too; see [`Tensor::transpose`] and its neighbours.
#[derive(Clone)]
pub struct Tensor {
    dtype: DType,
    layout: Layout,
    storage: Arc<Storage>,
}

/// # Making tensors
impl Tensor {
    /// A tensor of zeros (`false` for `bool`).
    pub fn zeros(dtype: DType, shape: &[usize]) -> Result<Tensor, TensorError> {
        let len = element_count(dtype, shape)?;
        let storage = Storage::zeroed(len * dtype.size_in_bytes())?;
        Ok(Tensor::from_parts(dtype, Layout::row_major(shape), storage))
    }

    /// A tensor whose elements are all `value`, in separate memory.
    pub fn full<T: Element>(shape: &[usize], value: T) -> Result<Tensor, TensorError> {
        let mut tensor = Tensor::zeros(T::DTYPE, shape)?;
        tensor.as_mut_slice::<T>()?.fill(value);
        Ok(tensor)
    }

    /// A tensor with a copy of these elements, in row-major order.
    pub fn from_slice<T: Element>(shape: &[usize], elements: &[T]) -> Result<Tensor, TensorError> {
        let expected = element_count(T::DTYPE, shape)?;
        if elements.len() != expected {
            return Err(TensorError::LengthMismatch {
                expected,
                found: elements.len(),
                unit: "elements",
            });
        }
        let storage = Storage::copy_of(bytemuck::cast_slice(elements))?;
        Ok(Tensor::from_parts(
            T::DTYPE,
            Layout::row_major(shape),
            storage,
        ))
    }

    /// [`Tensor::from_slice`] for a vector, which is copied too: it need not be aligned.
    pub fn from_vec<T: Element>(shape: &[usize], elements: Vec<T>) -> Result<Tensor, TensorError> {
        Tensor::from_slice(shape, &elements)
    }

    /// A tensor of rank 0.
    pub fn scalar<T: Element>(value: T) -> Tensor {
        let storage = Storage::copy_of_few(bytemuck::bytes_of(&value));
        Tensor::from_parts(T::DTYPE, Layout::row_major(&[]), storage)
    }

    /// A tensor from little-endian bytes in row-major order. For `bool`, any byte except 0 is `true`.
    pub fn from_bytes(dtype: DType, shape: &[usize], bytes: &[u8]) -> Result<Tensor, TensorError> {
        let expected = element_count(dtype, shape)? * dtype.size_in_bytes();
        if bytes.len() != expected {
            return Err(TensorError::LengthMismatch {
                expected,
                found: bytes.len(),
                unit: "bytes",
            });
        }
        Ok(Tensor::from_raw(
            dtype,
            Layout::row_major(shape),
            Storage::copy_of(bytes)?,
        ))
    }

    /// A tensor whose elements `fill` writes: little-endian bytes in row-major order, initially zeros. For `bool`, any
    /// byte except 0 is `true`.
    ///
    /// # Errors
    /// A shape that is too large, a failed allocation, or an error of `fill`.
    pub fn filled_by(
        dtype: DType,
        shape: &[usize],
        fill: impl FnOnce(&mut [u8]) -> Result<(), TensorError>,
    ) -> Result<Tensor, TensorError> {
        let len = element_count(dtype, shape)?;
        let mut storage = Storage::zeroed(len * dtype.size_in_bytes())?;
        fill(storage.bytes_mut().unwrap_or_default())?;
        Ok(Tensor::from_raw(dtype, Layout::row_major(shape), storage))
    }

    /// A tensor over fresh memory from outside: `bool` bytes are made 0 or 1.
    pub(crate) fn from_raw(dtype: DType, layout: Layout, mut storage: Storage) -> Tensor {
        if dtype == DType::Bool {
            for byte in storage.bytes_mut().unwrap_or_default() {
                *byte = u8::from(*byte != 0);
            }
        }
        Tensor::from_parts(dtype, layout, storage)
    }

    pub(crate) fn from_parts(dtype: DType, layout: Layout, storage: Storage) -> Tensor {
        Tensor {
            dtype,
            layout,
            storage: Arc::new(storage),
        }
    }

    /// A tensor over storage that may be shared.
    pub(crate) fn of_shared(dtype: DType, layout: Layout, storage: Arc<Storage>) -> Tensor {
        Tensor {
            dtype,
            layout,
            storage,
        }
    }

    /// Another layout over the same storage.
    pub(crate) fn with_layout(&self, layout: Layout) -> Tensor {
        Tensor {
            dtype: self.dtype,
            layout,
            storage: Arc::clone(&self.storage),
        }
    }
}

/// # Properties
impl Tensor {
    /// The element type.
    #[inline]
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// The size of each axis.
    #[inline]
    pub fn shape(&self) -> &[usize] {
        self.layout.shape()
    }

    /// The distance, in elements, between neighbours on each axis; may be 0 or negative.
    #[inline]
    pub fn strides(&self) -> &[isize] {
        self.layout.strides()
    }

    /// The number of axes.
    #[inline]
    pub fn rank(&self) -> usize {
        self.layout.shape().len()
    }

    /// The number of elements.
    #[inline]
    pub fn len(&self) -> usize {
        self.layout.len()
    }

    /// Whether some axis has size 0.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether the elements are contiguous in row-major order.
    #[inline]
    pub fn is_contiguous(&self) -> bool {
        self.layout.is_contiguous()
    }

    /// The bytes that the elements take when they are contiguous.
    #[inline]
    pub fn byte_len(&self) -> usize {
        self.len() * self.dtype.size_in_bytes()
    }

    /// Whether both have the same dtype, shape and bits: NaNs are equal when their payloads are, and 0.0 differs from -0.0.
    /// Strides do not matter. Elements that cannot be loaded are not equal to any.
    pub fn bit_equal(&self, other: &Tensor) -> bool {
        if self.dtype != other.dtype || self.shape() != other.shape() {
            return false;
        }
        match (self.as_bytes(), other.as_bytes()) {
            (Ok(left), Ok(right)) => left == right,
            _ => {
                let size = self.dtype.size_in_bytes();
                let (Ok(left), Ok(right)) = (self.storage.bytes(), other.storage.bytes()) else {
                    return false;
                };
                let element = |offset: usize| offset * size..(offset + 1) * size;
                self.offsets()
                    .zip(other.offsets())
                    .all(|(a, b)| left.get(element(a)) == right.get(element(b)))
            }
        }
    }

    pub(crate) fn storage(&self) -> Arc<Storage> {
        Arc::clone(&self.storage)
    }

    pub(crate) fn storage_ref(&self) -> &Storage {
        &self.storage
    }

    pub(crate) fn storage_mut(&mut self) -> &mut Arc<Storage> {
        &mut self.storage
    }

    pub(crate) fn into_storage(self) -> Arc<Storage> {
        self.storage
    }

    pub(crate) fn layout(&self) -> &Layout {
        &self.layout
    }

    pub(crate) fn offsets(&self) -> Offsets {
        Offsets::new(self.shape(), self.strides(), self.layout.offset())
    }
}

/// # Elements
impl Tensor {
    /// The elements in place: for tensors that are contiguous, and aligned if foreign.
    pub fn as_slice<T: Element>(&self) -> Result<&[T], TensorError> {
        self.expect_dtype(T::DTYPE)?;
        let bytes = self.as_bytes()?;
        if bytes.is_empty() {
            return Ok(&[]);
        }
        bytemuck::checked::try_cast_slice(bytes).map_err(cast_error::<T>)
    }

    /// The elements for writing. Copies them first when the storage is shared or foreign, or when they are not contiguous;
    /// an error then leaves the tensor unchanged.
    pub fn as_mut_slice<T: Element>(&mut self) -> Result<&mut [T], TensorError> {
        self.expect_dtype(T::DTYPE)?;
        let bytes = self.bytes_mut()?;
        if bytes.is_empty() {
            return Ok(&mut []);
        }
        bytemuck::checked::try_cast_slice_mut(bytes).map_err(cast_error::<T>)
    }

    /// Overwrites the elements with little-endian bytes in row-major order. For `bool`, any byte except 0 is `true`. In
    /// place if the storage is unshared and contiguous; an error leaves the tensor unchanged.
    pub fn write_bytes(&mut self, bytes: &[u8]) -> Result<(), TensorError> {
        if bytes.len() != self.byte_len() {
            return Err(TensorError::LengthMismatch {
                expected: self.byte_len(),
                found: bytes.len(),
                unit: "bytes",
            });
        }
        let is_bool = self.dtype == DType::Bool;
        let elements = self.bytes_mut()?;
        elements.copy_from_slice(bytes);
        if is_bool {
            for byte in elements {
                *byte = u8::from(*byte != 0);
            }
        }
        Ok(())
    }

    /// A copy of the elements in row-major order, for any strides and alignment.
    pub fn to_vec<T: Element>(&self) -> Result<Vec<T>, TensorError> {
        self.expect_dtype(T::DTYPE)?;
        let mut elements = Vec::new();
        elements
            .try_reserve_exact(self.len())
            .map_err(|_| TensorError::Allocation {
                bytes: self.byte_len(),
            })?;
        match self.as_slice::<T>() {
            Ok(slice) => elements.extend_from_slice(slice),
            Err(_) => elements.extend_from_slice(self.copied()?.as_slice::<T>()?),
        }
        Ok(elements)
    }

    /// The only element of a tensor of one element.
    pub fn item<T: Element>(&self) -> Result<T, TensorError> {
        match self.to_vec::<T>()?.as_slice() {
            [item] => Ok(*item),
            elements => Err(TensorError::LengthMismatch {
                expected: 1,
                found: elements.len(),
                unit: "elements",
            }),
        }
    }

    /// The elements' bytes, little-endian, in row-major order: for contiguous tensors.
    #[inline]
    pub fn as_bytes(&self) -> Result<&[u8], TensorError> {
        if !self.is_contiguous() {
            return Err(TensorError::NotContiguous);
        }
        if self.is_empty() {
            return Ok(&[]);
        }
        let bytes = self.storage.bytes()?.get(self.byte_range());
        Ok(
            bytes
                .unwrap_or_else(|| unreachable!("the layout was checked to be inside the storage")),
        )
    }

    /// This tensor if it is contiguous, or a contiguous copy.
    pub fn contiguous(&self) -> Result<Tensor, TensorError> {
        if self.is_contiguous() {
            Ok(self.clone())
        } else {
            self.copied()
        }
    }

    /// A contiguous copy in separate memory.
    pub fn copied(&self) -> Result<Tensor, TensorError> {
        let layout = Layout::row_major(self.shape());
        let storage = match self.as_bytes() {
            Ok(bytes) => Storage::copy_of(bytes)?,
            Err(_) => {
                let from = self.storage.bytes()?;
                let mut storage = Storage::zeroed(self.byte_len())?;
                self.gather(from, storage.bytes_mut().unwrap_or_default());
                storage
            }
        };
        Ok(Tensor::from_parts(self.dtype, layout, storage))
    }

    /// Whether its elements are loaded; those of a [deferred](Tensor::deferred) tensor are loaded on its first use.
    pub fn is_loaded(&self) -> bool {
        self.storage.is_loaded()
    }

    /// Whether no other tensor has its memory, so that writing to it writes in place.
    pub fn is_unshared(&self) -> bool {
        // There are no weak handles, and a count of one cannot grow meanwhile.
        Arc::strong_count(&self.storage) == 1 && self.storage.is_writable()
    }

    /// The bytes of the elements for writing, made exclusive first.
    pub(crate) fn bytes_mut(&mut self) -> Result<&mut [u8], TensorError> {
        if !(self.is_unshared() && self.is_contiguous()) {
            *self = self.copied()?;
        }
        let range = self.byte_range();
        let bytes = Arc::get_mut(&mut self.storage)
            .and_then(Storage::bytes_mut)
            .and_then(|bytes| bytes.get_mut(range));
        Ok(
            bytes
                .unwrap_or_else(|| unreachable!("the storage was just seen or made to be our own")),
        )
    }

    /// Writes the bytes of the elements, which are in `from`, to `out`, in row-major order.
    fn gather(&self, from: &[u8], out: &mut [u8]) {
        match self.dtype.size_in_bytes() {
            1 => self.gather_sized::<1>(from, out),
            2 => self.gather_sized::<2>(from, out),
            4 => self.gather_sized::<4>(from, out),
            8 => self.gather_sized::<8>(from, out),
            size => unreachable!("no dtype takes {size} bytes"),
        }
    }

    fn gather_sized<const SIZE: usize>(&self, from: &[u8], out: &mut [u8]) {
        let (from, _) = from.as_chunks::<SIZE>();
        let (mut to, _) = out.as_chunks_mut::<SIZE>();
        self.offsets().for_each_row(|start, stride, len| {
            let (row, rest) = std::mem::take(&mut to).split_at_mut(len);
            to = rest;
            if stride == 1 {
                row.copy_from_slice(&from[start..start + len]);
            } else {
                let mut at = start as isize;
                for element in row {
                    *element = from[at as usize];
                    at = at.wrapping_add(stride);
                }
            }
        });
    }

    /// The range of a contiguous tensor's elements in the storage.
    pub(crate) fn byte_range(&self) -> Range<usize> {
        if self.is_empty() {
            return 0..0;
        }
        let size = self.dtype.size_in_bytes();
        let offset = self.layout.offset();
        offset * size..(offset + self.len()) * size
    }

    fn expect_dtype(&self, expected: DType) -> Result<(), TensorError> {
        if self.dtype == expected {
            Ok(())
        } else {
            Err(TensorError::DTypeMismatch {
                expected,
                found: self.dtype,
            })
        }
    }
}

/// Shows dtype and shape; never elements, which may be private and many.
impl fmt::Debug for Tensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Tensor({}{:?}", self.dtype, self.shape())?;
        if !self.is_contiguous() {
            write!(f, ", strides {:?}", self.strides())?;
        }
        f.write_str(")")
    }
}

fn cast_error<T>(error: bytemuck::checked::CheckedCastError) -> TensorError {
    match error {
        bytemuck::checked::CheckedCastError::InvalidBitPattern => TensorError::NotABool,
        _ => TensorError::Unaligned {
            align: align_of::<T>(),
        },
    }
}
