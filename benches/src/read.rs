//! The read-bandwidth reference: the same bytes, once, on the same number of threads, by a loop that does nothing else.
//!
//! A thread reads its part in order, or in several distant streams; which is faster depends on the machine, so both are
//! measured and the faster one counts.

#![allow(unsafe_code, reason = "what a processor has is asked for at run time")]
#![allow(
    clippy::expect_used,
    reason = "a benchmark stops when its set-up is wrong"
)]

use kiln::Tensor;
use kiln::internals::backend::{Job, TaskPool};
use kiln::internals::lazy_runtime::SpinPool;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// The possible numbers of streams of a thread's part.
pub const STREAMS: [usize; 3] = [1, 4, 8];

/// Words that are added at once, each to its own sum: more chains than the latency of an addition in cycles.
const LANES: usize = 32;

/// An array, and threads that read it.
pub struct Reader {
    pool: SpinPool,
    /// One loop for each of `STREAMS`.
    jobs: [Arc<dyn Job>; 3],
    threads: usize,
}

struct Reading {
    from: Arc<Tensor>,
    streams: usize,
    threads: usize,
    seen: AtomicU32,
}

impl Reader {
    /// An array of `count` elements, in memory like that of Kiln's own arrays.
    pub fn new(count: usize, threads: usize) -> Self {
        let from = Arc::new(Tensor::full(&[count], 1.0_f32).expect("memory"));
        let jobs = STREAMS.map(|streams| -> Arc<dyn Job> {
            Arc::new(Reading {
                from: Arc::clone(&from),
                streams,
                threads,
                seen: AtomicU32::new(0),
            })
        });
        Self {
            pool: SpinPool::new(threads),
            jobs,
            threads,
        }
    }

    /// Reads the whole array once, with the number of streams at this index of `STREAMS`.
    pub fn run(&self, way: usize) {
        self.pool.run(&self.jobs[way], self.threads as u64);
    }
}

impl Job for Reading {
    fn run(&self, _worker: usize, first: u64, last: u64) {
        let all = self.from.as_slice::<f32>().expect("floats");
        let part = all.len().div_ceil(self.threads);
        for mine in all.chunks(part).take(last as usize).skip(first as usize) {
            let sum = sum(mine, self.streams);
            // Keeps the reads from being optimised away.
            self.seen.fetch_xor(sum, Ordering::Relaxed);
        }
    }
}

/// The sum of all bits as words, which unlike floats may be added in any order.
fn sum(words: &[f32], streams: usize) -> u32 {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx2") {
        // SAFETY: the feature was just detected.
        return unsafe { sum_avx2(words, streams) };
    }
    sum_plain(words, streams)
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn sum_avx2(words: &[f32], streams: usize) -> u32 {
    sum_plain(words, streams)
}

#[inline(always)]
fn sum_plain(words: &[f32], streams: usize) -> u32 {
    match streams {
        4 => sum_of_streams::<4, 8>(words),
        8 => sum_of_streams::<8, 8>(words),
        _ => sum_of_streams::<1, LANES>(words),
    }
}

/// `S` streams, of `L` words at once each.
#[inline(always)]
fn sum_of_streams<const S: usize, const L: usize>(words: &[f32]) -> u32 {
    let stream = words.len() / S / L * L;
    let (whole, rest) = words.split_at(stream * S);
    let streams: [&[f32]; S] = std::array::from_fn(|s| &whole[s * stream..(s + 1) * stream]);
    let mut sums = [[0_u32; L]; S];
    for at in (0..stream).step_by(L) {
        for (sums, stream) in sums.iter_mut().zip(streams) {
            for (sum, word) in sums.iter_mut().zip(&stream[at..at + L]) {
                *sum = sum.wrapping_add(word.to_bits());
            }
        }
    }
    let all = sums.into_iter().flatten();
    all.chain(rest.iter().map(|word| word.to_bits()))
        .fold(0, u32::wrapping_add)
}
