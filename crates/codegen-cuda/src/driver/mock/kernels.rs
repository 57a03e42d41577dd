//! The mock's kernels: kernel texts, evaluated on the mock's memory.

use super::memory::AddressSpace;
use crate::container::{FAULT_DIVISION, FAULT_INDEX};
use kiln_kernel::{EvaluateError, Kernel, Role, evaluate};
use kiln_scalar::Mode;
use kiln_symbolic_shape::{Binding, DimId};
use kiln_tensor::{DType, Offsets, Tensor, row_major_strides};
use std::sync::Arc;

/// A kernel whose function has the kernel's name.
#[derive(Clone)]
pub(super) struct TextKernel(Arc<Kernel>);

impl TextKernel {
    /// A kernel's text.
    pub(super) fn read(cubin: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(cubin).ok()?;
        Some(Self(Arc::new(kiln_kernel::text::read(text).ok()?)))
    }

    /// Whether it has this function.
    pub(super) fn has(&self, name: &[u8]) -> bool {
        self.0.name().as_bytes() == name
    }

    /// Runs it with the parameter of a launch; `None` if that accesses memory out of bounds.
    pub(super) fn run(&self, memory: &mut AddressSpace, words: &[u64]) -> Option<()> {
        let kernel = &*self.0;
        let n_buffers = kernel.buffers().len();
        let (places, rest) = words.split_at_checked(n_buffers)?;
        let (symbols, fixed) = rest.split_at_checked(kernel.dims().symbols().count())?;
        let &[_shared, fault, launch, tasks, _stop] = fixed else {
            return None;
        };
        if tasks == 0 {
            return None;
        }
        let symbols: Vec<i64> = symbols.iter().map(|word| word.cast_signed()).collect();
        let binding: Binding = kernel
            .dims()
            .symbols()
            .zip(symbols.iter().copied())
            .collect();
        let values = |dims: &[DimId]| -> Option<Vec<i64>> {
            let values = dims
                .iter()
                .map(|&dim| kernel.dims().evaluate(dim, &binding).ok());
            values.collect()
        };
        let (mut tensors, mut layouts) = (Vec::new(), Vec::new());
        for (buffer, &place) in kernel.buffers().values().zip(places) {
            let shape = values(&buffer.shape)?;
            let shape: Vec<usize> = shape.into_iter().map(|size| size as usize).collect();
            let strides = match &buffer.strides {
                Some(strides) => values(strides)?.into_iter().map(|s| s as isize).collect(),
                None => row_major_strides(&shape),
            };
            tensors.push(match buffer.role {
                Role::Out => Tensor::zeros(buffer.dtype, &shape).ok()?,
                _ => gather(memory, place, buffer.dtype, &shape, &strides)?,
            });
            layouts.push((place, strides));
        }
        let cause = match evaluate(kernel, &symbols, &mut tensors, Mode::Declared) {
            Ok(()) => None,
            Err(EvaluateError::IndexOutOfRange { .. }) => Some(FAULT_INDEX),
            Err(error) if error.is_fault() => Some(FAULT_DIVISION),
            Err(_) => return None,
        };
        if let Some(cause) = cause {
            let before = u64::from_le_bytes(memory.read(fault, 8)?.try_into().ok()?);
            let word = before.min(launch << 32 | u64::from(cause));
            return memory.write(fault, &word.to_le_bytes());
        }
        for ((buffer, tensor), (place, strides)) in
            kernel.buffers().values().zip(&tensors).zip(&layouts)
        {
            if buffer.role.is_written() {
                scatter(memory, *place, tensor, strides)?;
            }
        }
        Some(())
    }
}

/// A row-major tensor of the elements at these strides.
fn gather(
    memory: &AddressSpace,
    place: u64,
    dtype: DType,
    shape: &[usize],
    strides: &[isize],
) -> Option<Tensor> {
    let width = dtype.size_in_bytes();
    let mut elements = Vec::new();
    for offset in Offsets::new(shape, strides, 0) {
        elements.extend(memory.read(place + (offset * width) as u64, width)?);
    }
    Tensor::from_bytes(dtype, shape, &elements).ok()
}

/// Writes the elements at these strides.
fn scatter(
    memory: &mut AddressSpace,
    place: u64,
    tensor: &Tensor,
    strides: &[isize],
) -> Option<()> {
    let width = tensor.dtype().size_in_bytes();
    let from = tensor.as_bytes().ok()?;
    let offsets = Offsets::new(tensor.shape(), strides, 0);
    for (offset, element) in offsets.zip(from.chunks_exact(width)) {
        memory.write(place + (offset * width) as u64, element)?;
    }
    Some(())
}
