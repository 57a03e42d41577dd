//! The elements of a buffer as bytes at their strides, with guards around them.

use anyhow::{Error, anyhow};
use kiln::internals::kernel::{Buffer, Kernel};
use kiln::internals::symbolic_shape::{Binding, DimId};
use kiln::internals::tensor::{Offsets, Tensor, row_major_strides};

/// The byte that fills memory without elements.
const POISON: u8 = 0xff;

/// The number of guard bytes before and after.
pub(crate) const GUARD: usize = 256;

/// A buffer's bytes.
pub(crate) struct Image {
    pub(crate) bytes: Vec<u8>,
    /// The offset of each element.
    places: Vec<usize>,
}

impl Image {
    /// The image of the tensor of a buffer at these sizes, of which code may access this many bytes.
    pub(crate) fn of(
        kernel: &Kernel,
        buffer: &Buffer,
        symbols: &[i64],
        tensor: &Tensor,
        bytes: usize,
    ) -> Result<Self, Error> {
        let binding: Binding = kernel
            .dims()
            .symbols()
            .zip(symbols.iter().copied())
            .collect();
        let stride = |dim: &DimId| {
            let value = kernel.dims().evaluate(*dim, &binding);
            Ok::<_, Error>(value.map_err(|error| anyhow!("{error}"))? as isize)
        };
        let strides: Vec<isize> = match &buffer.strides {
            Some(strides) => strides.iter().map(stride).collect::<Result<_, _>>()?,
            None => row_major_strides(tensor.shape()).to_vec(),
        };
        let width = tensor.dtype().size_in_bytes();
        let places = Offsets::new(tensor.shape(), &strides, 0);
        let places: Vec<usize> = places.map(|offset| GUARD + offset * width).collect();
        let mut image = Self {
            bytes: vec![POISON; bytes + 2 * GUARD],
            places,
        };
        image.put(tensor)?;
        Ok(image)
    }

    fn put(&mut self, tensor: &Tensor) -> Result<(), Error> {
        let width = tensor.dtype().size_in_bytes();
        let elements = tensor.as_bytes()?.chunks_exact(width);
        for (&place, element) in self.places.iter().zip(elements) {
            let to = self.bytes.get_mut(place..place + width);
            to.ok_or_else(|| anyhow!("an element outside of its buffer"))?
                .copy_from_slice(element);
        }
        Ok(())
    }

    /// The tensor in the bytes that a kernel wrote, if no other bytes were written.
    pub(crate) fn read(&self, like: &Tensor, found: &[u8]) -> Result<Tensor, Error> {
        let width = like.dtype().size_in_bytes();
        let mut rest = found.to_vec();
        let mut elements = Vec::with_capacity(self.places.len() * width);
        for &place in &self.places {
            elements.extend_from_slice(&found[place..place + width]);
            rest[place..place + width].fill(POISON);
        }
        if rest.iter().any(|&byte| byte != POISON) {
            return Err(anyhow!("bytes beside the elements were written"));
        }
        Ok(Tensor::from_bytes(like.dtype(), like.shape(), &elements)?)
    }
}
