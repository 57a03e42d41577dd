//! The arithmetic reference: fused multiply-adds of `f32` that never leave the registers, on the same number of threads.
//!
//! Uses the widest vectors that the machine has, in enough chains that none waits for its predecessor. Where this file has
//! no such loop there is no peak, and measurements against it are skipped.

use kiln::internals::backend::{Job, TaskPool};
use kiln::internals::lazy_runtime::SpinPool;
use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// Rounds of each chain in one call: about half a millisecond.
const ROUNDS: usize = 150_000;

/// Interleaved chains: more than the eight that two units with a latency of four cycles need, and few enough that they and
/// their multiplier stay in sixteen registers; with more, the compiler spilled some of them.
#[cfg(target_arch = "x86_64")]
const CHAINS: usize = 12;

/// Interleaved chains: more than the sixteen that four units with a latency of four cycles need.
#[cfg(target_arch = "aarch64")]
const CHAINS: usize = 24;

/// Threads, and the loop that each runs.
pub(crate) struct Peak {
    pool: SpinPool,
    job: Arc<dyn Job>,
    threads: usize,
    lanes: usize,
}

/// A loop: the sum of its chains after the given number of rounds.
type Loop = fn(usize) -> f32;

struct Chains {
    rounds: Loop,
    seen: AtomicU32,
}

impl Peak {
    /// `None` if this machine's peak is not known.
    pub(crate) fn new(threads: usize) -> Option<Self> {
        let (lanes, rounds) = widest()?;
        let seen = AtomicU32::new(0);
        Some(Self {
            pool: SpinPool::new(threads),
            job: Arc::new(Chains { rounds, seen }),
            threads,
            lanes,
        })
    }

    /// One call.
    pub(crate) fn run(&self) {
        self.pool.run(&self.job, self.threads as u64);
    }

    /// The part of a call that one thread does.
    pub(crate) fn run_alone(&self) {
        self.job.run(0, 0, 1);
    }

    /// Operations of one call: a multiplication and an addition each.
    pub(crate) fn operations(&self) -> f64 {
        2.0 * (ROUNDS * self.lanes * self.threads) as f64
    }

    /// The rate, and the number of threads' worth of it, from the seconds of a call and of one thread's part: if cores
    /// were busy with other work, it is less than the number of threads.
    pub(crate) fn describe(&self, all: f64, alone: f64) -> String {
        format!(
            "a peak of {:.1} ({:.1} threads' worth)",
            self.operations() / all / 1e9,
            self.threads as f64 * alone / all
        )
    }
}

impl Job for Chains {
    fn run(&self, _worker: usize, first: u64, last: u64) {
        for _ in first..last {
            let sum = (self.rounds)(black_box(ROUNDS));
            // Keeps the chains from being optimised away.
            self.seen.fetch_xor(sum.to_bits(), Ordering::Relaxed);
        }
    }
}

/// The number of floats that one round of all chains processes, and the loop.
#[cfg(target_arch = "x86_64")]
fn widest() -> Option<(usize, Loop)> {
    if is_x86_feature_detected!("avx512f") {
        // SAFETY: the feature was just detected.
        Some((CHAINS * 16, |rounds| unsafe { x86::avx512(rounds) }))
    } else if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
        // SAFETY: the feature was just detected.
        Some((CHAINS * 8, |rounds| unsafe { x86::avx2(rounds) }))
    } else {
        None
    }
}

/// The number of floats that one round of all chains processes, and the loop.
#[cfg(target_arch = "aarch64")]
fn widest() -> Option<(usize, Loop)> {
    // SAFETY: every AArch64 that Rust's `std` runs on has NEON.
    Some((CHAINS * 4, |rounds| unsafe { neon(rounds) }))
}

/// The number of floats that one round of all chains processes, and the loop.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn widest() -> Option<(usize, Loop)> {
    None
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::{CHAINS, starts};
    use std::arch::x86_64::{
        _mm256_add_ps, _mm256_cvtss_f32, _mm256_fmadd_ps, _mm256_set1_ps, _mm256_setzero_ps,
        _mm512_add_ps, _mm512_cvtss_f32, _mm512_fmadd_ps, _mm512_set1_ps, _mm512_setzero_ps,
    };
    use std::hint::black_box;

    #[target_feature(enable = "avx512f")]
    pub(super) fn avx512(rounds: usize) -> f32 {
        let factor = _mm512_set1_ps(black_box(0.5));
        let term = _mm512_set1_ps(black_box(1.0));
        let mut chains = [_mm512_setzero_ps(); CHAINS];
        for (chain, start) in chains.iter_mut().zip(starts()) {
            *chain = _mm512_set1_ps(start);
        }
        for _ in 0..rounds {
            for chain in &mut chains {
                *chain = _mm512_fmadd_ps(*chain, factor, term);
            }
        }
        let mut sum = _mm512_setzero_ps();
        for chain in chains {
            sum = _mm512_add_ps(sum, chain);
        }
        _mm512_cvtss_f32(sum)
    }

    #[target_feature(enable = "avx2,fma")]
    pub(super) fn avx2(rounds: usize) -> f32 {
        let factor = _mm256_set1_ps(black_box(0.5));
        let term = _mm256_set1_ps(black_box(1.0));
        let mut chains = [_mm256_setzero_ps(); CHAINS];
        for (chain, start) in chains.iter_mut().zip(starts()) {
            *chain = _mm256_set1_ps(start);
        }
        for _ in 0..rounds {
            for chain in &mut chains {
                *chain = _mm256_fmadd_ps(*chain, factor, term);
            }
        }
        let mut sum = _mm256_setzero_ps();
        for chain in chains {
            sum = _mm256_add_ps(sum, chain);
        }
        _mm256_cvtss_f32(sum)
    }
}

#[cfg(target_arch = "aarch64")]
#[target_feature(enable = "neon")]
fn neon(rounds: usize) -> f32 {
    use std::arch::aarch64::{vaddq_f32, vaddvq_f32, vdupq_n_f32, vfmaq_f32};
    use std::hint::black_box;

    let factor = vdupq_n_f32(black_box(0.5));
    let term = vdupq_n_f32(black_box(1.0));
    let mut chains = [vdupq_n_f32(0.0); CHAINS];
    for (chain, start) in chains.iter_mut().zip(starts()) {
        *chain = vdupq_n_f32(start);
    }
    for _ in 0..rounds {
        for chain in &mut chains {
            // The accumulator is the addend, so the dependence chain goes only through the sum.
            *chain = vfmaq_f32(*chain, factor, term);
        }
    }
    let mut sum = vdupq_n_f32(0.0);
    for chain in chains {
        sum = vaddq_f32(sum, chain);
    }
    vaddvq_f32(sum)
}

/// Start values of the chains: all different, so that none can replace another.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
fn starts() -> [f32; CHAINS] {
    black_box(std::array::from_fn(|i| i as f32 / 100.0))
}
