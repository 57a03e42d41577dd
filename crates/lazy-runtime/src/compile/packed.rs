//! Stored packed constants: read from a store that has them, otherwise packed and stored.
//!
//! An entry is the packed array's bytes, under a key made of the constant's digest, the part, the layout, the device
//! and the packer's version. Constants in memory are tracked elsewhere.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use kiln_backend::{KernelExecutor, Memory, PackAxis, PackSpec};
use kiln_fork_lock::ForkLock;
use kiln_kernel_cache::{
    CacheError, CacheKey, Content, EntryKind, Miss, MissCategory, NotStored, Tier,
};
use kiln_tensor::{DType, Tensor, TensorError};
use kiln_timing::Counter;

use super::constants::ConstantPart;
use super::workers::Work;
use crate::recorder::Recorder;

/// The stores of packed constants, and their counters.
pub(crate) struct PackedStore {
    tiers: Vec<Arc<dyn Tier>>,
    device: String,
    version: String,
    /// Packed, and in no store yet.
    unstored: ForkLock<Vec<Unstored>>,
    pub(crate) counters: PackCounters,
}

/// Counters of packed constants.
#[derive(Debug, Default)]
pub(crate) struct PackCounters {
    pub(crate) packed: AtomicU64,
    pub(crate) loaded: AtomicU64,
    pub(crate) stored: AtomicU64,
    pub(crate) not_stored: AtomicU64,
}

struct Unstored {
    key: CacheKey,
    memory: Memory,
    time: Duration,
}

/// Writes newly packed constants to the stores.
struct Storing {
    store: Arc<PackedStore>,
    executor: Arc<dyn KernelExecutor>,
    recorder: Recorder,
    constants: Vec<Unstored>,
}

impl std::fmt::Debug for PackedStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let tiers: Vec<&str> = self.tiers.iter().map(|tier| tier.name()).collect();
        f.debug_struct("PackedStore")
            .field("tiers", &tiers)
            .field("counters", &self.counters)
            .finish_non_exhaustive()
    }
}

impl PackedStore {
    pub(crate) fn new(tiers: Vec<Arc<dyn Tier>>, device: String, version: String) -> Self {
        Self {
            tiers,
            device,
            version,
            unstored: ForkLock::default(),
            counters: PackCounters::default(),
        }
    }

    /// The key of a packed part of a constant; `None` if nothing is stored.
    pub(crate) fn key(&self, part: &ConstantPart, spec: &PackSpec) -> Option<CacheKey> {
        if self.tiers.is_empty() {
            return None;
        }
        let dtype = part.constant.tensor().dtype();
        Some(CacheKey::of_fields(
            EntryKind::PACKED,
            [
                ("constant", part.constant.digest().to_string()),
                (
                    "part",
                    format!("{dtype}{:?} at {}", part.shape.as_slice(), part.offset),
                ),
                ("layout", layout_text(&spec.axes)),
                ("device", self.device.clone()),
                ("kiln", self.version.clone()),
            ],
        ))
    }

    /// The packed array from the first store that has it; `None` if none has.
    ///
    /// # Errors
    /// A store that must be used unchanged, and is damaged.
    pub(crate) fn load(
        &self,
        executor: &dyn KernelExecutor,
        part: &ConstantPart,
        spec: &PackSpec,
        key: &CacheKey,
        recorder: &Recorder,
    ) -> Result<Option<Memory>, CacheError> {
        let _span = recorder.load_constants();
        let Some(bytes) = packed_bytes(part, spec) else {
            return Ok(None);
        };
        // Bytes, for any type: memory of tensors is aligned for every dtype.
        let mut misses = Vec::new();
        let tensor = Tensor::filled_by(DType::U8, &[bytes], |content| {
            for (position, tier) in self.tiers.iter().enumerate() {
                match tier.get_into(key, content) {
                    Ok(time) => {
                        self.put_into(self.tiers.get(..position), key, time, content);
                        return Ok(());
                    }
                    Err(miss) => misses.push((tier, miss)),
                }
            }
            Err(TensorError::Deferred("no store has it".into()))
        });
        for (tier, miss) in misses {
            note_miss(key, &**tier, &miss, recorder);
            if let Some(error) = tier.damage(key, &miss) {
                return Err(error);
            }
        }
        let memory = tensor.ok().and_then(|tensor| executor.upload(&tensor).ok());
        if memory.is_some() {
            self.counters.loaded.fetch_add(1, Ordering::Relaxed);
        }
        Ok(memory)
    }

    /// Records that a constant was packed, to be stored later.
    pub(crate) fn packed(&self, key: Option<CacheKey>, memory: &Memory, time: Duration) {
        self.counters.packed.fetch_add(1, Ordering::Relaxed);
        if let Some(key) = key {
            let memory = memory.clone();
            self.unstored.lock().push(Unstored { key, memory, time });
        }
    }

    /// The job that stores newly packed constants; `None` if there are none.
    pub(crate) fn storing(
        self: &Arc<Self>,
        executor: &Arc<dyn KernelExecutor>,
        recorder: &Recorder,
    ) -> Option<Box<dyn Work>> {
        let constants = std::mem::take(&mut *self.unstored.lock());
        if constants.is_empty() {
            return None;
        }
        Some(Box::new(Storing {
            store: Arc::clone(self),
            executor: Arc::clone(executor),
            recorder: recorder.clone(),
            constants,
        }))
    }

    fn put(&self, executor: &dyn KernelExecutor, constant: &Unstored) {
        let Unstored { key, memory, time } = constant;
        let bytes = executor.download(memory, 0, DType::U8, &[memory.bytes()]);
        let bytes = match &bytes {
            Ok(tensor) => tensor.as_bytes().map_err(|error| error.to_string()),
            Err(error) => Err(error.to_string()),
        };
        let bytes = match bytes {
            Ok(bytes) => bytes,
            Err(message) => {
                return self.note_not_stored(key, "memory", &NotStored::Unencodable { message });
            }
        };
        self.put_into(Some(&self.tiers), key, *time, bytes);
    }

    fn put_into(
        &self,
        tiers: Option<&[Arc<dyn Tier>]>,
        key: &CacheKey,
        time: Duration,
        content: &[u8],
    ) {
        for tier in tiers.unwrap_or_default() {
            match tier.put(key, time, Content::data(content)) {
                Ok(_) => drop(self.counters.stored.fetch_add(1, Ordering::Relaxed)),
                Err(NotStored::ReadOnly) => {}
                Err(problem) => self.note_not_stored(key, tier.name(), &problem),
            }
        }
    }

    fn note_not_stored(&self, key: &CacheKey, tier: &str, problem: &NotStored) {
        self.counters.not_stored.fetch_add(1, Ordering::Relaxed);
        tracing::debug!(%key, tier, %problem, "not stored");
    }
}

impl Work for Storing {
    fn run(self: Box<Self>) {
        let _span = self.recorder.store_constants();
        for constant in &self.constants {
            self.store.put(&*self.executor, constant);
        }
    }

    fn is_wanted(&self) -> bool {
        true
    }
}

/// The bytes of a packed array.
fn packed_bytes(part: &ConstantPart, spec: &PackSpec) -> Option<usize> {
    let shape = spec.packed_shape(&part.shape).ok()?;
    let width = part.constant.tensor().dtype().size_in_bytes();
    shape
        .iter()
        .try_fold(width, |bytes, &n| bytes.checked_mul(n))
}

fn note_miss(key: &CacheKey, tier: &dyn Tier, miss: &Miss, recorder: &Recorder) {
    match miss.category() {
        MissCategory::Corrupt => recorder.count(Counter::Corrupt),
        MissCategory::Rejected => recorder.count(Counter::Rejected),
        MissCategory::IoError => recorder.count(Counter::IoError),
        _ => {}
    }
    tracing::debug!(%key, tier = tier.name(), %miss, "no packed constant");
}

/// A layout in the form used by keys: `outer 1/16, whole 0, inner 1/16`.
fn layout_text(axes: &[PackAxis]) -> String {
    let text = |axis: &PackAxis| match axis {
        PackAxis::Whole(axis) => format!("whole {axis}"),
        PackAxis::Outer { axis, block } => format!("outer {axis}/{block}"),
        PackAxis::Inner { axis, block } => format!("inner {axis}/{block}"),
    };
    axes.iter().map(text).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_layout_has_its_own_text() {
        let axes = [
            PackAxis::Outer { axis: 1, block: 16 },
            PackAxis::Whole(0),
            PackAxis::Inner { axis: 1, block: 16 },
        ];
        assert_eq!(layout_text(&axes), "outer 1/16, whole 0, inner 1/16");
    }
}
