//! A device with a memory of its own, whose kernels are evaluated late: see [`deferred`](super::deferred).

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use kiln_backend::{
    Artifact, ExecuteError, Execution, KernelExecutor, LoadedKernel, Memory, PackSpec,
};
use kiln_kernel::Kernel;
use kiln_tensor::{DType, Exclusive, Tensor};

use super::deferred::{Broken, Deferred};

/// The device.
#[derive(Clone, Copy, Debug, Default)]
pub struct FakeDevice;

/// What the device keeps of a memory.
pub(super) struct Held {
    pub(super) bytes: Mutex<Vec<u8>>,
    /// How many launches that write to it have not run.
    pub(super) pending: AtomicUsize,
    /// The tensor's memory that gets the bytes in the end.
    lent: Mutex<Option<Exclusive>>,
}

#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct Refused(String);

pub(super) fn refused(problem: impl ToString) -> ExecuteError {
    let source = Box::new(Refused(problem.to_string()));
    ExecuteError {
        code: "E0899",
        out_of_memory: false,
        source,
    }
}

pub(super) fn held_of(bytes: Vec<u8>) -> Held {
    Held {
        bytes: Mutex::new(bytes),
        pending: AtomicUsize::new(0),
        lent: Mutex::default(),
    }
}

fn memory_of(bytes: Vec<u8>) -> Memory {
    let len = bytes.len();
    Memory::new(Arc::new(held_of(bytes)), len)
}

fn held(memory: &Memory) -> Result<&Held, ExecuteError> {
    let held = memory.downcast::<Held>();
    held.ok_or_else(|| refused("memory of another device"))
}

/// A kernel's text, read again.
pub(super) struct Loaded {
    pub(super) kernel: Kernel,
    pub(super) packs: Vec<PackSpec>,
}

impl KernelExecutor for FakeDevice {
    fn device(&self) -> String {
        "fake".to_owned()
    }

    fn caches(&self) -> [usize; 3] {
        [1 << 15, 1 << 20, 1 << 24]
    }

    fn parallelism(&self) -> usize {
        1
    }

    fn takes_batches(&self) -> bool {
        true
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
        let held = held(memory)?;
        if held.pending.load(Ordering::SeqCst) > 0 {
            return Err(refused(
                "memory was read before the launches that write it were waited for",
            ));
        }
        let bytes = shape.iter().product::<usize>() * dtype.size_in_bytes();
        let all = held.bytes.lock().unwrap();
        let part = all.get(offset..offset + bytes);
        let part = part.ok_or_else(|| refused("a download from outside of memory"))?;
        Tensor::from_bytes(dtype, shape, part).map_err(refused)
    }

    fn begin(&self) -> Box<dyn Execution> {
        Box::new(Deferred::new(None))
    }
}

/// The device, with one rule of the contract between a device and its caller broken.
pub struct BrokenDevice(pub Broken);

impl KernelExecutor for BrokenDevice {
    fn device(&self) -> String {
        FakeDevice.device()
    }

    fn caches(&self) -> [usize; 3] {
        FakeDevice.caches()
    }

    fn parallelism(&self) -> usize {
        FakeDevice.parallelism()
    }

    fn load(&self, artifact: &Artifact) -> Result<LoadedKernel, ExecuteError> {
        FakeDevice.load(artifact)
    }

    fn alloc(&self, bytes: usize) -> Result<Memory, ExecuteError> {
        FakeDevice.alloc(bytes)
    }

    fn upload(&self, tensor: &Tensor) -> Result<Memory, ExecuteError> {
        FakeDevice.upload(tensor)
    }

    fn pack(&self, tensor: &Tensor, spec: &PackSpec) -> Result<Memory, ExecuteError> {
        FakeDevice.pack(tensor, spec)
    }

    fn download(
        &self,
        memory: &Memory,
        offset: usize,
        dtype: DType,
        shape: &[usize],
    ) -> Result<Tensor, ExecuteError> {
        FakeDevice.download(memory, offset, dtype, shape)
    }

    fn begin(&self) -> Box<dyn Execution> {
        Box::new(Deferred::new(Some(self.0)))
    }
}
