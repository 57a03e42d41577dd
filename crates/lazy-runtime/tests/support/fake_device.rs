//! A device whose memory is bytes behind locks and whose kernels are evaluated.

use std::sync::{Arc, Mutex};

use kiln_backend::{
    Artifact, Builtin, BuiltinOperand, ExecuteError, Execution, Fault, FaultCause, KernelExecutor,
    Launch, LoadedKernel, Memory, MemorySlice, PackSpec, TaskPool,
};
use kiln_interpreter::{EvaluateContext, evaluate_op};
use kiln_ir::{Extremum, Op};
use kiln_kernel::{EvaluateError, Kernel, evaluate};
use kiln_scalar::Mode;
use kiln_symbolic_shape::{Binding, DimTable};
use kiln_tensor::{DType, Exclusive, Offsets, Tensor};

/// The device.
#[derive(Clone, Copy, Debug, Default)]
pub struct FakeDevice;

/// What the device keeps of a memory.
struct Held {
    bytes: Mutex<Vec<u8>>,
    /// The tensor's memory that gets the bytes in the end.
    lent: Mutex<Option<Exclusive>>,
}

#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct Refused(String);

fn refused(problem: impl ToString) -> ExecuteError {
    let source = Box::new(Refused(problem.to_string()));
    ExecuteError {
        code: "E0899",
        out_of_memory: false,
        source,
    }
}

fn memory_of(bytes: Vec<u8>) -> Memory {
    let len = bytes.len();
    let held = Held {
        bytes: Mutex::new(bytes),
        lent: Mutex::default(),
    };
    Memory::new(Arc::new(held), len)
}

fn bytes_of(memory: &Memory) -> Result<&Mutex<Vec<u8>>, ExecuteError> {
    let held = memory
        .downcast::<Held>()
        .ok_or_else(|| refused("memory of another device"))?;
    Ok(&held.bytes)
}

/// Reads a part of memory.
fn read(slice: &MemorySlice<'_>) -> Result<Vec<u8>, ExecuteError> {
    let bytes = bytes_of(slice.memory)?.lock().unwrap();
    let part = bytes.get(slice.offset..slice.offset + slice.bytes);
    part.map(<[u8]>::to_vec).ok_or_else(|| {
        refused(format!(
            "{}+{} of {} bytes",
            slice.offset,
            slice.bytes,
            bytes.len()
        ))
    })
}

/// A kernel's text, read again.
struct Loaded {
    kernel: Kernel,
    packs: Vec<PackSpec>,
}

impl KernelExecutor for FakeDevice {
    fn device(&self) -> String {
        "fake".to_owned()
    }

    fn caches(&self) -> [usize; 3] {
        [1 << 15, 1 << 20, 1 << 24]
    }

    fn load(&self, artifact: &Artifact) -> Result<LoadedKernel, ExecuteError> {
        let text = std::str::from_utf8(&artifact.code).map_err(refused)?;
        let kernel = kiln_kernel::text::read(text).map_err(refused)?;
        Ok(LoadedKernel::new(Arc::new(Loaded {
            kernel,
            packs: artifact.packs.clone(),
        })))
    }

    fn alloc(&self, bytes: usize) -> Result<Memory, ExecuteError> {
        Ok(memory_of(vec![0xa5; bytes]))
    }

    fn upload(&self, tensor: &Tensor) -> Result<Memory, ExecuteError> {
        let tensor = tensor.contiguous().map_err(refused)?;
        Ok(memory_of(tensor.as_bytes().map_err(refused)?.to_vec()))
    }

    fn lends_from(&self) -> usize {
        0
    }

    fn lend(&self, tensor: Tensor, memory: &mut Memory) -> Option<Tensor> {
        let mut lent = match tensor.into_exclusive() {
            Ok(lent) => lent,
            Err(tensor) => return Some(tensor),
        };
        *memory = memory_of(vec![0xa5; lent.bytes_mut().len()]);
        let held = memory.downcast::<Held>().unwrap();
        *held.lent.lock().unwrap() = Some(lent);
        None
    }

    fn reclaim(&self, memory: &mut Memory, dtype: DType, shape: &[usize]) -> Option<Tensor> {
        let (held, bytes) = memory.parts_mut::<Held>()?;
        let mut lent = held.lent.get_mut().unwrap().take()?;
        lent.bytes_mut()
            .copy_from_slice(held.bytes.get_mut().unwrap());
        held.bytes.get_mut().unwrap().clear();
        *bytes = 0;
        Some(Tensor::of_exclusive(dtype, shape, lent).unwrap())
    }

    fn pack(&self, tensor: &Tensor, spec: &PackSpec) -> Result<Memory, ExecuteError> {
        self.upload(&spec.apply(tensor).map_err(refused)?)
    }

    fn download(
        &self,
        memory: &Memory,
        offset: usize,
        dtype: DType,
        shape: &[usize],
    ) -> Result<Tensor, ExecuteError> {
        let bytes = shape.iter().product::<usize>() * dtype.size_in_bytes();
        let bytes = read(&MemorySlice {
            memory,
            offset,
            bytes,
        })?;
        Tensor::from_bytes(dtype, shape, &bytes).map_err(refused)
    }

    fn begin(&self, _pool: Arc<dyn TaskPool>) -> Box<dyn Execution> {
        Box::new(FakeExecution::default())
    }
}

#[derive(Default)]
struct FakeExecution {
    launches: usize,
    fault: Option<Fault>,
}

/// Where each element of a buffer lies, and the whole as a tensor.
fn gather(
    slice: &MemorySlice<'_>,
    dtype: DType,
    shape: &[usize],
    strides: Option<&[isize]>,
) -> Result<Tensor, ExecuteError> {
    let width = dtype.size_in_bytes();
    let Some(strides) = strides else {
        let bytes = shape.iter().product::<usize>() * width;
        return Tensor::from_bytes(dtype, shape, &read(&MemorySlice { bytes, ..*slice })?)
            .map_err(refused);
    };
    let bytes = read(slice)?;
    let mut elements = Vec::new();
    for offset in Offsets::new(shape, strides, 0) {
        let element = bytes.get(offset * width..(offset + 1) * width);
        elements.extend_from_slice(element.ok_or_else(|| refused("a stride that leads out"))?);
    }
    Tensor::from_bytes(dtype, shape, &elements).map_err(refused)
}

fn scatter(
    slice: &MemorySlice<'_>,
    tensor: &Tensor,
    strides: Option<&[isize]>,
) -> Result<(), ExecuteError> {
    let width = tensor.dtype().size_in_bytes();
    let row_major = kiln_tensor::row_major_strides(tensor.shape());
    let strides = strides.unwrap_or(&row_major);
    let mut bytes = bytes_of(slice.memory)?.lock().unwrap();
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

impl Execution for FakeExecution {
    fn launch(&mut self, kernel: &LoadedKernel, launch: &Launch<'_>) -> Result<(), ExecuteError> {
        let index = self.launches;
        self.launches += 1;
        let Loaded { kernel, packs } = kernel
            .downcast()
            .ok_or_else(|| refused("a kernel of another device"))?;
        let symbols = launch.numbers.arguments();
        let binding: Binding = kernel
            .dims()
            .symbols()
            .zip(symbols.iter().copied())
            .collect();
        let values = |dims: &[kiln_symbolic_shape::DimId]| {
            dims.iter()
                .map(|&dim| kernel.dims().evaluate(dim, &binding))
                .collect::<Result<Vec<i64>, _>>()
        };
        let mut tensors = Vec::new();
        let mut layouts = Vec::new();
        for (position, buffer) in kernel.buffers().values().enumerate() {
            let (slice, bytes) = (&launch.buffers[position], launch.numbers.bytes()[position]);
            if slice.bytes < bytes {
                let (name, found) = (&buffer.name, slice.bytes);
                return Err(refused(format!(
                    "%{name}: expected {bytes} bytes, found {found}"
                )));
            }
            let shape = values(&buffer.shape).map_err(refused)?;
            let shape: Vec<usize> = shape.into_iter().map(|size| size as usize).collect();
            let strides = match &buffer.strides {
                Some(strides) => {
                    let strides = values(strides).map_err(refused)?;
                    Some(
                        strides
                            .into_iter()
                            .map(|stride| stride as isize)
                            .collect::<Vec<_>>(),
                    )
                }
                None => None,
            };
            let tensor = if packs.iter().any(|spec| spec.buffer == position) {
                let turned: Vec<usize> = shape.iter().rev().copied().collect();
                let turned = gather(slice, buffer.dtype, &turned, None)?;
                turned
                    .transpose(&[1, 0])
                    .and_then(|tensor| tensor.contiguous())
                    .map_err(refused)?
            } else if buffer.role == kiln_kernel::Role::Out {
                Tensor::zeros(buffer.dtype, &shape).map_err(refused)?
            } else {
                gather(slice, buffer.dtype, &shape, strides.as_deref())?
            };
            tensors.push(tensor);
            layouts.push(strides);
        }
        match evaluate(kernel, symbols, &mut tensors, Mode::Declared) {
            Ok(()) => {}
            Err(error) if error.is_fault() => {
                let cause = match error {
                    EvaluateError::IndexOutOfRange { .. } => FaultCause::IndexOutOfRange,
                    _ => FaultCause::DivisionByZero,
                };
                self.fault.get_or_insert(Fault {
                    launch: index,
                    cause,
                    site: 0,
                });
                return Ok(());
            }
            Err(error) => return Err(refused(error)),
        }
        let buffers = kernel.buffers().values().zip(launch.buffers);
        for (((buffer, slice), tensor), strides) in buffers.zip(&tensors).zip(&layouts) {
            if buffer.role.is_written() {
                scatter(slice, tensor, strides.as_deref())?;
            }
        }
        Ok(())
    }

    fn run_builtin(
        &mut self,
        builtin: &Builtin,
        inputs: &[(MemorySlice<'_>, BuiltinOperand<'_>)],
        outputs: &[(MemorySlice<'_>, BuiltinOperand<'_>)],
    ) -> Result<Vec<i64>, ExecuteError> {
        let given = inputs
            .iter()
            .map(|(slice, what)| gather(slice, what.dtype, what.shape, None));
        let given = given.collect::<Result<Vec<_>, _>>()?;
        let mut dims = DimTable::new();
        let op = match builtin {
            Builtin::Copy => {
                scatter(&outputs[0].0, &given[0], None)?;
                return Ok(Vec::new());
            }
            Builtin::NonZero => Op::NonZero,
            Builtin::TopK { axis, largest } => Op::TopK {
                k: dims.constant(outputs[0].1.shape[*axis] as i64),
                axis: *axis,
                extremum: if *largest {
                    Extremum::Max
                } else {
                    Extremum::Min
                },
            },
            other => return Err(refused(format!("no {other:?}"))),
        };
        let binding = Binding::new();
        let results = evaluate_op(&EvaluateContext::new(&dims, &binding), &op, &given);
        let results = results.map_err(refused)?;
        for (result, (slice, what)) in results.iter().zip(outputs) {
            assert_eq!((result.dtype(), result.shape()), (what.dtype, what.shape));
            scatter(slice, &result.contiguous().map_err(refused)?, None)?;
        }
        Ok(Vec::new())
    }

    fn finish(&mut self) -> Result<Option<Fault>, ExecuteError> {
        self.launches = 0;
        Ok(self.fault.take())
    }
}
