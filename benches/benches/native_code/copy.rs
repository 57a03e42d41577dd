//! The bandwidth reference: the best copy of the same bytes, on the same number of threads.
//!
//! Plain stores first read the line they write to, streaming stores do not; which is faster depends on the machine and on
//! how much fits its caches, so both are measured and the faster one counts.

use kiln::Tensor;
use kiln::internals::backend::{Job, TaskPool};
use kiln::internals::lazy_runtime::SpinPool;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Elements that one task copies: 4 MiB, which Kiln's tensors keep in huge pages.
const CHUNK: usize = 1 << 20;

/// The kind of store.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stores {
    Plain,
    Streaming,
}

/// Two arrays, and threads that copy one to the other.
pub(crate) struct Copier {
    pool: SpinPool,
    plain: Arc<dyn Job>,
    streaming: Arc<dyn Job>,
    tasks: u64,
}

struct Arrays {
    /// Blocks that begin at the same alignment as Kiln's own arrays, one per task.
    from: Vec<Tensor>,
    /// The target blocks, the same number; threads do not wait for each other.
    to: Vec<Mutex<Tensor>>,
}

struct Copy {
    arrays: Arc<Arrays>,
    stores: Stores,
    seen: AtomicU32,
}

impl Copier {
    /// Arrays of `count` elements, written once so that their pages are mapped.
    pub(crate) fn new(count: usize, threads: usize) -> Self {
        let all: Vec<f32> = (0..count).map(|i| (i % 101) as f32).collect();
        let piece = |chunk: &[f32]| Tensor::from_slice(&[chunk.len()], chunk).expect("memory");
        let from: Vec<Tensor> = all.chunks(CHUNK).map(piece).collect();
        let to: Vec<_> = all.chunks(CHUNK).map(piece).map(Mutex::new).collect();
        let tasks = to.len() as u64;
        let arrays = Arc::new(Arrays { from, to });
        let job = |stores| -> Arc<dyn Job> {
            Arc::new(Copy {
                arrays: Arc::clone(&arrays),
                stores,
                seen: AtomicU32::new(0),
            })
        };
        Self {
            pool: SpinPool::new(threads),
            plain: job(Stores::Plain),
            streaming: job(Stores::Streaming),
            tasks,
        }
    }

    /// The duration of one copy.
    pub(crate) fn time(&self, stores: Stores) -> Duration {
        let job = match stores {
            Stores::Plain => &self.plain,
            Stores::Streaming => &self.streaming,
        };
        let start = Instant::now();
        self.pool.run(job, self.tasks);
        start.elapsed()
    }
}

impl Job for Copy {
    fn run(&self, _worker: usize, first: u64, last: u64) {
        for task in first..last {
            let task = task as usize;
            let from = self.arrays.from[task].as_slice::<f32>().expect("floats");
            let mut to = self.arrays.to[task]
                .lock()
                .unwrap_or_else(PoisonError::into_inner);
            let to = to.as_mut_slice::<f32>().expect("floats of its own");
            match self.stores {
                Stores::Plain => to.copy_from_slice(from),
                Stores::Streaming => stream(from, to),
            }
            // Keeps the copy from being optimised away.
            self.seen
                .fetch_xor(to[to.len() / 2].to_bits(), Ordering::Relaxed);
        }
    }
}

/// Copies with stores that bypass the caches.
#[cfg(target_arch = "x86_64")]
fn stream(from: &[f32], to: &mut [f32]) {
    use std::arch::x86_64::{_mm_loadu_ps, _mm_sfence, _mm_stream_ps};
    // Streaming stores need whole, aligned vectors.
    let (head, middle, tail) = {
        let head = to.as_ptr().align_offset(16).min(to.len());
        let whole = (to.len() - head) / 4 * 4;
        (head, whole, head + whole)
    };
    to[..head].copy_from_slice(&from[..head]);
    to[tail..].copy_from_slice(&from[tail..]);
    let (from, to) = (&from[head..head + middle], &mut to[head..head + middle]);
    for (from, to) in from.chunks_exact(4).zip(to.chunks_exact_mut(4)) {
        // SAFETY: both chunks hold four floats, and `to` begins at a multiple of 16 bytes: `head` was chosen so, and
        // chunks are 16 bytes each. SSE is part of x86-64.
        unsafe { _mm_stream_ps(to.as_mut_ptr(), _mm_loadu_ps(from.as_ptr())) };
    }
    // SAFETY: part of x86-64; it orders the streaming stores above before later stores.
    unsafe { _mm_sfence() };
}

/// Copies; this machine has no streaming stores that Rust exposes.
#[cfg(not(target_arch = "x86_64"))]
fn stream(from: &[f32], to: &mut [f32]) {
    to.copy_from_slice(from);
}
