//! A device with its own memory, whose kernels are evaluated late: see [`deferred`](super::deferred).
//!
//! Memory returns to the device with its last handle; it is then poisoned and reused. Outputs stay on the device, and
//! are recognised when they come back as inputs; transfers between host and device are counted.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use kiln_backend::{
    Artifact, ExecuteError, Execution, KernelExecutor, LoadedKernel, Memory, PackSpec, Resident,
};
use kiln_kernel::Kernel;
use kiln_tensor::{DType, Exclusive, Tensor};

use super::deferred::{Broken, Deferred};

/// The device. Clones share its state.
#[derive(Clone, Default)]
pub struct FakeDevice(Arc<State>);

/// The transfers between the host and a device, and the state of its memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Traffic {
    pub uploads: usize,
    pub downloads: usize,
    pub uploaded_bytes: usize,
    pub downloaded_bytes: usize,
    /// Bytes in use.
    pub used_bytes: usize,
}

#[derive(Default)]
pub(super) struct State {
    pub(super) broken: Option<Broken>,
    /// The number of operations that succeed before the device is lost.
    until_lost: Mutex<Option<usize>>,
    /// Freed memory.
    free: Mutex<Vec<Vec<u8>>>,
    /// Memory in use, for a device that wrongly hands it out again.
    used: Mutex<Vec<Bytes>>,
    uploads: Crossings,
    downloads: Crossings,
    used_bytes: AtomicUsize,
}

type Bytes = Arc<Mutex<Vec<u8>>>;

/// Copies in one direction.
#[derive(Default)]
struct Crossings {
    count: AtomicUsize,
    bytes: AtomicUsize,
}

impl Crossings {
    fn add(&self, bytes: usize) {
        self.count.fetch_add(1, Ordering::SeqCst);
        self.bytes.fetch_add(bytes, Ordering::SeqCst);
    }
}

/// The device's representation of a memory.
pub(super) struct Held {
    pub(super) bytes: Bytes,
    /// The number of queued launches that write to it.
    pub(super) pending: AtomicUsize,
    pub(super) device: Arc<State>,
    /// The tensor's memory that eventually receives the bytes.
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

impl State {
    pub(super) fn check(&self) -> Result<(), ExecuteError> {
        let left = self.until_lost.lock().unwrap().as_mut().map(|left| {
            let before = *left;
            *left = left.saturating_sub(1);
            before
        });
        match left {
            Some(0) => Err(ExecuteError::device_lost("fake", "a test unplugged it")),
            _ => Ok(()),
        }
    }

    fn held(self: &Arc<Self>, bytes: Bytes) -> Held {
        let n_bytes = bytes.lock().unwrap().len();
        self.used_bytes.fetch_add(n_bytes, Ordering::SeqCst);
        Held {
            bytes,
            pending: AtomicUsize::new(0),
            device: Arc::clone(self),
            lent: Mutex::default(),
        }
    }

    /// Memory of this many bytes, reused or new.
    fn take(self: &Arc<Self>, n_bytes: usize) -> Memory {
        let fits = |bytes: &Vec<u8>| bytes.len() == n_bytes;
        let mut free = self.free.lock().unwrap();
        let position = free.iter().rposition(fits);
        let mut bytes = match position {
            Some(position) => free.swap_remove(position),
            None => vec![0; n_bytes],
        };
        drop(free);
        bytes.fill(0xa5);
        let bytes = Arc::new(Mutex::new(bytes));
        if self.broken == Some(Broken::Reuse) {
            let mut used = self.used.lock().unwrap();
            let taken = used.iter().find(|used| fits(&used.lock().unwrap()));
            if let Some(taken) = taken.cloned() {
                return memory_of(self.held(taken));
            }
            used.push(Arc::clone(&bytes));
        }
        memory_of(self.held(bytes))
    }

    fn filled(self: &Arc<Self>, bytes: &[u8]) -> Memory {
        let memory = self.take(bytes.len());
        if let Some(held) = memory.downcast::<Held>() {
            held.bytes.lock().unwrap().copy_from_slice(bytes);
        }
        memory
    }
}

impl Held {
    /// A caller's handle to memory that the device freed.
    pub(super) fn poisoned(n_bytes: usize) -> Self {
        Arc::<State>::default().held(Arc::new(Mutex::new(vec![0xdd; n_bytes])))
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let mut bytes = self.bytes.lock().unwrap();
        let n_bytes = bytes.len();
        self.device.used_bytes.fetch_sub(n_bytes, Ordering::SeqCst);
        if Arc::strong_count(&self.bytes) == 1 {
            bytes.fill(0xdd);
            let bytes = std::mem::take(&mut *bytes);
            self.device.free.lock().unwrap().push(bytes);
        }
    }
}

fn memory_of(held: Held) -> Memory {
    let len = held.bytes.lock().unwrap().len();
    Memory::new(Arc::new(held), len)
}

/// A kernel parsed from its text.
pub(super) struct Loaded {
    pub(super) kernel: Kernel,
    pub(super) packs: Vec<PackSpec>,
}

impl FakeDevice {
    /// A device that breaks one rule of the contract between a device and its caller.
    pub fn broken(broken: Broken) -> Self {
        Self(Arc::new(State {
            broken: Some(broken),
            ..State::default()
        }))
    }

    /// The transfers so far.
    pub fn traffic(&self) -> Traffic {
        Traffic {
            uploads: self.0.uploads.count.load(Ordering::SeqCst),
            downloads: self.0.downloads.count.load(Ordering::SeqCst),
            uploaded_bytes: self.0.uploads.bytes.load(Ordering::SeqCst),
            downloaded_bytes: self.0.downloads.bytes.load(Ordering::SeqCst),
            used_bytes: self.0.used_bytes.load(Ordering::SeqCst),
        }
    }

    /// Makes every operation of the device fail, after this many more.
    pub fn lose_after(&self, things: usize) {
        *self.0.until_lost.lock().unwrap() = Some(things);
    }

    fn held<'a>(&self, memory: &'a Memory) -> Result<&'a Held, ExecuteError> {
        let held = memory.downcast::<Held>();
        held.filter(|held| self.owns(held))
            .ok_or_else(|| refused("memory of another device"))
    }

    fn owns(&self, held: &Held) -> bool {
        Arc::ptr_eq(&held.device, &self.0)
    }

    /// A tensor that is on the device: its memory, or, if it is a slice of it, a copy within the device.
    fn resident(&self, tensor: &Tensor) -> Option<Memory> {
        let place = Resident::place_of(tensor)?;
        let held: &Held = place.memory.downcast()?;
        if !self.owns(held) && self.0.broken != Some(Broken::Ownership) {
            return None;
        }
        if place.offset == 0 {
            return Some(place.memory.clone());
        }
        let bytes = held.bytes.lock().unwrap();
        let part = bytes
            .get(place.offset..place.offset + place.bytes)?
            .to_vec();
        drop(bytes);
        Some(self.0.filled(&part))
    }
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

    fn has_own_memory(&self) -> bool {
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
        self.0.check()?;
        Ok(self.0.take(bytes))
    }

    fn upload(&self, tensor: &Tensor) -> Result<Memory, ExecuteError> {
        self.0.check()?;
        if let Some(memory) = self.resident(tensor) {
            return Ok(memory);
        }
        let tensor = tensor.contiguous().map_err(refused)?;
        let bytes = tensor.as_bytes().map_err(refused)?;
        self.0.uploads.add(bytes.len());
        Ok(self.0.filled(bytes))
    }

    fn reupload(&self, tensor: Option<&Tensor>, memory: &mut Memory) -> Result<(), ExecuteError> {
        let is_broken = self.0.broken == Some(Broken::Sharing);
        let Some(tensor) = tensor else {
            if !is_broken {
                *memory = self.0.take(0);
            }
            return Ok(());
        };
        if is_broken
            && let Ok(held) = self.held(memory)
            && held.bytes.lock().unwrap().len() == tensor.byte_len()
        {
            let tensor = tensor.contiguous().map_err(refused)?;
            let bytes = tensor.as_bytes().map_err(refused)?;
            held.bytes.lock().unwrap().copy_from_slice(bytes);
            return Ok(());
        }
        *memory = self.upload(tensor)?;
        Ok(())
    }

    fn lends_from(&self) -> usize {
        0
    }

    fn lend(&self, tensor: Tensor, memory: &mut Memory) -> Option<Tensor> {
        let mut lent = match tensor.into_exclusive() {
            Ok(lent) => lent,
            Err(tensor) => return Some(tensor),
        };
        *memory = self.0.take(lent.bytes_mut().len());
        let held = memory.downcast::<Held>().unwrap();
        *held.lent.lock().unwrap() = Some(lent);
        None
    }

    fn adopt(&self, tensor: Tensor, memory: &mut Memory) -> Option<Tensor> {
        let elements = tensor.as_bytes().unwrap().to_vec();
        let refused = self.lend(tensor, memory);
        if refused.is_none() {
            self.0.uploads.add(elements.len());
            let held = memory.downcast::<Held>().unwrap();
            held.bytes.lock().unwrap().copy_from_slice(&elements);
        }
        refused
    }

    fn reclaim(&self, memory: &mut Memory, dtype: DType, shape: &[usize]) -> Option<Tensor> {
        let (held, _) = memory.parts_mut::<Held>()?;
        let mut lent = held.lent.get_mut().unwrap().take()?;
        lent.bytes_mut()
            .copy_from_slice(&held.bytes.lock().unwrap());
        self.0.downloads.add(lent.bytes_mut().len());
        *memory = self.0.take(0);
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
        self.0.check()?;
        let held = self.held(memory)?;
        if held.pending.load(Ordering::SeqCst) > 0 {
            return Err(refused(
                "memory was read before the launches that write it were waited for",
            ));
        }
        let bytes = shape.iter().product::<usize>() * dtype.size_in_bytes();
        let all = held.bytes.lock().unwrap();
        let part = all.get(offset..offset + bytes);
        let part = part.ok_or_else(|| refused("a download from outside of memory"))?;
        self.0.downloads.add(bytes);
        Tensor::from_bytes(dtype, shape, part).map_err(refused)
    }

    fn begin(&self) -> Box<dyn Execution> {
        Box::new(Deferred::new(Arc::clone(&self.0)))
    }
}
