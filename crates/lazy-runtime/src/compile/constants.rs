//! Constants on the device: uploaded, packed or read from a store once, shared between programs and variants by digest.
//!
//! Where device memory is host memory, a large constant that only kernels read, and only in packed form, is in memory
//! once: its unpacked elements are released, and recomputed from the packed ones for other readers, such as the
//! interpreter.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use kiln_backend::{ExecuteError, KernelExecutor, Memory, PackAxis, PackSpec};
use kiln_fork_lock::{ForkCell, ForkLock};
use kiln_ir::{Constant, Digest};
use kiln_tensor::{AxisSlice, DType, Tensor, TensorError, element_count};
use smallvec::SmallVec;

use super::packed::PackedStore;
use crate::clock::Clock;
use crate::error::RuntimeError;
use crate::recorder::Recorder;

/// A constant in a form: unpacked, or a part of it packed.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Form {
    digest: Digest,
    packed: Option<Packed>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Packed {
    offset: usize,
    shape: SmallVec<[usize; 6]>,
    axes: Vec<PackAxis>,
}

/// A run of elements of a constant, with a separate shape. Identified without reading them.
#[derive(Clone, Debug)]
pub(crate) struct ConstantPart {
    pub(crate) constant: Constant,
    /// The first element.
    pub(crate) offset: usize,
    pub(crate) shape: SmallVec<[usize; 6]>,
}

/// The size in bytes from which a constant's elements are released once they are packed.
const WORTH_RELEASING: usize = 1 << 16;

type Entry = Arc<ForkCell<Result<Memory, Arc<ExecuteError>>>>;

/// The constants of a runtime.
#[derive(Debug)]
pub(crate) struct ConstantStore {
    forms: ForkLock<HashMap<Form, Entry>>,
    pub(crate) packed: Arc<PackedStore>,
}

impl ConstantStore {
    pub(crate) fn new(packed: PackedStore) -> Self {
        Self {
            forms: ForkLock::default(),
            packed: Arc::new(packed),
        }
    }

    /// The constant's elements, row-major.
    pub(crate) fn plain(
        &self,
        executor: &dyn KernelExecutor,
        constant: &Constant,
    ) -> Result<Memory, RuntimeError> {
        self.get(plain_form(constant), || {
            Ok(executor.upload(&constant.tensor()))
        })
    }

    /// A part of a constant packed for a kernel: from a store, or packed now.
    pub(crate) fn packed(
        &self,
        executor: &dyn KernelExecutor,
        part: &ConstantPart,
        spec: &PackSpec,
        clock: &dyn Clock,
        recorder: &Recorder,
    ) -> Result<Memory, RuntimeError> {
        self.get(part.form(spec), || {
            let key = self.packed.key(part, spec);
            if let Some(key) = &key {
                match self.packed.load(executor, part, spec, key, recorder) {
                    Ok(Some(memory)) => return Ok(Ok(memory)),
                    Ok(None) => {}
                    Err(error) => {
                        return Ok(Err(ExecuteError {
                            code: error.code(),
                            out_of_memory: false,
                            source: Box::new(error),
                        }));
                    }
                }
            }
            // The elements are read now if they were not before, so that a failure is reported as such.
            let tensor = part.tensor()?;
            tensor.as_bytes()?;
            let _span = recorder.pack_constants();
            let begin = clock.now();
            let packed = executor.pack(&tensor, spec);
            if let Ok(memory) = &packed {
                let time: Duration = clock.now().saturating_sub(begin);
                self.packed.packed(key, memory, time);
            }
            Ok(packed)
        })
    }

    /// Releases the elements of a constant that is packed as a whole and has no other reader yet. A later reader
    /// reconstructs them from the packed ones.
    pub(crate) fn release(
        &self,
        executor: &dyn KernelExecutor,
        part: &ConstantPart,
        spec: &PackSpec,
    ) {
        let is_worthwhile = part.bytes() >= WORTH_RELEASING && !executor.has_own_memory();
        // Each launch plan requests this again.
        let is_done = part.constant.is_released();
        if is_done || !is_worthwhile || !part.is_whole() || self.has_plain(&part.constant) {
            return;
        }
        let Some(memory) = self.packed_if_ready(part, spec) else {
            return;
        };
        // A view of the memory, which keeps it alive.
        let Ok(packed) = executor.download(&memory, 0, DType::U8, &[memory.bytes()]) else {
            return;
        };
        let (dtype, shape, spec) = (
            part.constant.tensor().dtype(),
            part.shape.clone(),
            spec.clone(),
        );
        let remake = move || {
            let made = spec.undo(&packed, dtype, &shape);
            made.map_err(|error| TensorError::Deferred(Box::new(error)))
        };
        // If its elements cannot be read, that is an error of the next reader.
        let _ = part.constant.release(remake);
    }

    /// The unpacked constant, if it is loaded.
    pub(crate) fn plain_if_ready(&self, constant: &Constant) -> Option<Memory> {
        self.if_ready(&plain_form(constant))
    }

    /// A part of a constant in this packing, if it exists.
    pub(crate) fn packed_if_ready(&self, part: &ConstantPart, spec: &PackSpec) -> Option<Memory> {
        self.if_ready(&part.form(spec))
    }

    fn if_ready(&self, form: &Form) -> Option<Memory> {
        let forms = self.forms.lock();
        forms.get(form)?.get()?.as_ref().ok().cloned()
    }

    /// Whether some thread has a constant unpacked, or is loading it.
    pub(crate) fn has_plain(&self, constant: &Constant) -> bool {
        self.forms.lock().contains_key(&plain_form(constant))
    }

    /// Whether some thread has a part packed this way, or is packing it.
    pub(crate) fn has_packed(&self, part: &ConstantPart, spec: &PackSpec) -> bool {
        self.forms.lock().contains_key(&part.form(spec))
    }

    fn get(
        &self,
        form: Form,
        make: impl FnOnce() -> Result<Result<Memory, ExecuteError>, TensorError>,
    ) -> Result<Memory, RuntimeError> {
        let entry = Arc::clone(self.forms.lock().entry(form.clone()).or_default());
        let made = entry.get_or_init(|| match make() {
            Ok(made) => made.map_err(Arc::new),
            Err(error) => Err(Arc::new(ExecuteError {
                code: error.code(),
                out_of_memory: matches!(error, TensorError::Allocation { .. }),
                source: Box::new(error),
            })),
        });
        match made {
            Ok(memory) => Ok(memory.clone()),
            Err(error) => {
                // Memory may be available next time.
                self.forms.lock().remove(&form);
                Err(RuntimeError::Execute {
                    context: "cannot place a constant".to_owned(),
                    error: Arc::clone(error),
                })
            }
        }
    }

    /// Drops the constants that are no longer used.
    pub(crate) fn sweep(&self) {
        let is_used = |entry: &Entry| match entry.get() {
            Some(Ok(memory)) => Arc::strong_count(memory.handle()) > 1,
            // Another thread is working on it.
            _ => true,
        };
        let mut unused = Vec::new();
        self.forms.lock().retain(|_, entry| {
            let keeps = is_used(entry);
            if !keeps {
                unused.push(Arc::clone(entry));
            }
            keeps
        });
        // Freed only now, outside the lock.
        drop(unused);
    }

    /// Drops every constant.
    pub(crate) fn clear(&self) {
        self.forms.lock().clear();
    }
}

fn plain_form(constant: &Constant) -> Form {
    Form {
        digest: constant.digest(),
        packed: None,
    }
}

impl ConstantPart {
    /// Its size in bytes.
    pub(crate) fn bytes(&self) -> usize {
        let dtype = self.constant.tensor().dtype();
        let elements = self.shape.iter().copied().fold(1, usize::saturating_mul);
        elements.saturating_mul(dtype.size_in_bytes())
    }

    /// Whether it is the whole constant.
    fn is_whole(&self) -> bool {
        let elements = self.shape.iter().copied().fold(1, usize::saturating_mul);
        self.offset == 0 && elements == self.constant.tensor().len()
    }

    fn form(&self, spec: &PackSpec) -> Form {
        Form {
            digest: self.constant.digest(),
            packed: Some(Packed {
                offset: self.offset,
                shape: self.shape.clone(),
                axes: spec.axes.clone(),
            }),
        }
    }

    fn tensor(&self) -> Result<Tensor, TensorError> {
        let tensor = self.constant.tensor();
        if tensor.shape() == self.shape.as_slice() && self.offset == 0 {
            return Ok(tensor);
        }
        let len = element_count(tensor.dtype(), &self.shape)?;
        let flat = tensor.reshape(&[tensor.len()])?;
        let part = flat.slice(&[AxisSlice {
            axis: 0,
            start: self.offset,
            len,
            step: 1,
        }])?;
        part.reshape(&self.shape)
    }
}
