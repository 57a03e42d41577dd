//! Launches on the fake device: kernels and builtins, run by their evaluators.

use kiln_backend::{Builtin, ExecuteError, FaultCause, LaunchNumbers};
use kiln_interpreter::{EvaluateContext, evaluate_op};
use kiln_ir::{Extremum, Op};
use kiln_kernel::{EvaluateError, Role, evaluate};
use kiln_scalar::Mode;
use kiln_symbolic_shape::{Binding, DimId, DimTable};
use kiln_tensor::{DType, Offsets, Tensor};

use super::fake_device::{Held, Loaded, refused};

/// A range of a memory.
#[derive(Clone, Copy)]
pub(super) struct Slice<'a> {
    pub(super) held: &'a Held,
    pub(super) offset: usize,
    pub(super) bytes: usize,
}

impl Slice<'_> {
    fn read(&self, n_bytes: usize) -> Result<Vec<u8>, ExecuteError> {
        let bytes = self.held.bytes.lock().unwrap();
        let part = bytes.get(self.offset..self.offset + n_bytes);
        part.map(<[u8]>::to_vec).ok_or_else(|| {
            let (offset, all) = (self.offset, bytes.len());
            refused(format!("{offset}+{n_bytes} of {all} bytes"))
        })
    }
}

/// A row-major tensor of the elements at these strides.
fn gather(
    slice: &Slice<'_>,
    dtype: DType,
    shape: &[usize],
    strides: Option<&[isize]>,
) -> Result<Tensor, ExecuteError> {
    let width = dtype.size_in_bytes();
    let Some(strides) = strides else {
        let n_bytes = shape.iter().product::<usize>() * width;
        return Tensor::from_bytes(dtype, shape, &slice.read(n_bytes)?).map_err(refused);
    };
    let bytes = slice.read(slice.bytes)?;
    let mut elements = Vec::new();
    for offset in Offsets::new(shape, strides, 0) {
        let element = bytes.get(offset * width..(offset + 1) * width);
        elements.extend_from_slice(element.ok_or_else(|| refused("a stride that leads out"))?);
    }
    Tensor::from_bytes(dtype, shape, &elements).map_err(refused)
}

/// Writes the elements at these strides.
fn scatter(
    slice: &Slice<'_>,
    tensor: &Tensor,
    strides: Option<&[isize]>,
) -> Result<(), ExecuteError> {
    let width = tensor.dtype().size_in_bytes();
    let row_major = kiln_tensor::row_major_strides(tensor.shape());
    let strides = strides.unwrap_or(&row_major);
    let mut bytes = slice.held.bytes.lock().unwrap();
    let from = tensor.as_bytes().map_err(refused)?;
    for (index, offset) in Offsets::new(tensor.shape(), strides, 0).enumerate() {
        let (begin, end) = (offset * width, (offset + 1) * width);
        if end > slice.bytes {
            return Err(refused("a store outside its buffer"));
        }
        let to = bytes.get_mut(slice.offset + begin..slice.offset + end);
        to.ok_or_else(|| refused("a store outside of memory"))?
            .copy_from_slice(&from[index * width..(index + 1) * width]);
    }
    Ok(())
}

/// Evaluates a kernel on its buffers; returns the fault, if there is one, and then writes nothing.
pub(super) fn run_kernel(
    loaded: &Loaded,
    numbers: &LaunchNumbers,
    slices: &[Slice<'_>],
) -> Result<Option<FaultCause>, ExecuteError> {
    let Loaded { kernel, packs } = loaded;
    let symbols = numbers.arguments();
    let binding: Binding = kernel
        .dims()
        .symbols()
        .zip(symbols.iter().copied())
        .collect();
    let values = |dims: &[DimId]| {
        let values = dims
            .iter()
            .map(|&dim| kernel.dims().evaluate(dim, &binding));
        values.collect::<Result<Vec<i64>, _>>().map_err(refused)
    };
    let (mut tensors, mut layouts) = (Vec::new(), Vec::new());
    for (position, (buffer, slice)) in kernel.buffers().values().zip(slices).enumerate() {
        let shape = values(&buffer.shape)?;
        let shape: Vec<usize> = shape.into_iter().map(|size| size as usize).collect();
        let strides = buffer.strides.as_deref().map(values).transpose()?;
        let strides: Option<Vec<isize>> =
            strides.map(|strides| strides.into_iter().map(|stride| stride as isize).collect());
        let tensor = if packs.iter().any(|spec| spec.buffer == position) {
            let packed: Vec<usize> = shape.iter().rev().copied().collect();
            let packed = gather(slice, buffer.dtype, &packed, None)?;
            let tensor = packed.transpose(&[1, 0]);
            tensor
                .and_then(|tensor| tensor.contiguous())
                .map_err(refused)?
        } else if buffer.role == Role::Out {
            Tensor::zeros(buffer.dtype, &shape).map_err(refused)?
        } else {
            gather(slice, buffer.dtype, &shape, strides.as_deref())?
        };
        tensors.push(tensor);
        layouts.push(strides);
    }
    match evaluate(kernel, symbols, &mut tensors, Mode::Declared) {
        Ok(()) => {}
        Err(EvaluateError::IndexOutOfRange { .. }) => return Ok(Some(FaultCause::IndexOutOfRange)),
        Err(error) if error.is_fault() => return Ok(Some(FaultCause::DivisionByZero)),
        Err(error) => return Err(refused(error)),
    }
    let buffers = kernel.buffers().values().zip(slices);
    for (((buffer, slice), tensor), strides) in buffers.zip(&tensors).zip(&layouts) {
        if buffer.role.is_written() {
            scatter(slice, tensor, strides.as_deref())?;
        }
    }
    Ok(None)
}

/// Evaluates a builtin: reads the first `n_read` operands, and writes the others.
pub(super) fn run_builtin(
    builtin: &Builtin,
    types: &[(DType, Vec<usize>)],
    slices: &[Slice<'_>],
    n_read: usize,
) -> Result<(), ExecuteError> {
    let (read, written) = slices.split_at(n_read);
    let (inputs, outputs) = types.split_at(n_read);
    let given = read
        .iter()
        .zip(inputs)
        .map(|(slice, (dtype, shape))| gather(slice, *dtype, shape, None));
    let given = given.collect::<Result<Vec<_>, _>>()?;
    let mut dims = DimTable::new();
    let op = match builtin {
        Builtin::Copy => return scatter(&written[0], &given[0], None),
        Builtin::NonZero => Op::NonZero,
        Builtin::Suppress => {
            let rows = inputs[1].1[0] * inputs[1].1[1];
            Op::Suppress {
                k: dims.constant(outputs[0].1[0].checked_div(rows).unwrap_or(0) as i64),
            }
        }
        Builtin::TopK { axis, largest } => Op::TopK {
            k: dims.constant(outputs[0].1[*axis] as i64),
            axis: *axis,
            extremum: match largest {
                true => Extremum::Max,
                false => Extremum::Min,
            },
        },
        other => return Err(refused(format!("no {other:?}"))),
    };
    let binding = Binding::new();
    let results = evaluate_op(&EvaluateContext::new(&dims, &binding), &op, &given);
    for (result, (slice, (dtype, shape))) in results
        .map_err(refused)?
        .iter()
        .zip(written.iter().zip(outputs))
    {
        assert_eq!((result.dtype(), result.shape()), (*dtype, shape.as_slice()));
        scatter(slice, &result.contiguous().map_err(refused)?, None)?;
    }
    Ok(())
}
