//! Contenders measured in interleaved rounds, each by its best round, so that a busy machine affects all of them equally.
//!
//! Work shorter than the clock's resolution is repeated between two readings of the clock.

use std::time::{Duration, Instant};

/// The minimum time between two readings of the clock.
const BATCH: Duration = Duration::from_micros(50);

/// The maximum number of calls between two readings of the clock.
const CALLS: u32 = 4096;

/// Work that can be done `n` times, and reports its duration.
pub type Contender<'a> = dyn FnMut(u32) -> Duration + 'a;

/// The limits of a measurement.
#[derive(Clone, Copy)]
pub struct Rounds {
    /// Minimum number of rounds, even if slow.
    pub least: u32,
    /// Maximum number of rounds, even if fast.
    pub most: u32,
    /// In between, until this time has passed.
    pub time: Duration,
    /// The time of each contender per round: at least one batch.
    pub round: Duration,
}

/// The median of some figures, the upper one of two in the middle.
///
/// # Panics
/// Without any figure.
pub fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}

/// Seconds of a call, for each contender.
pub fn in_rounds(contenders: &mut [&mut Contender<'_>], rounds: Rounds) -> Vec<f64> {
    let calls: Vec<u32> = contenders
        .iter_mut()
        .map(|contender| {
            // The first call creates what later ones reuse.
            contender(1);
            let once = contender(1).max(Duration::from_nanos(10));
            (BATCH.as_nanos() / once.as_nanos() + 1).min(u128::from(CALLS)) as u32
        })
        .collect();
    let mut best = vec![f64::INFINITY; contenders.len()];
    let start = Instant::now();
    for round in 0..rounds.most {
        if round >= rounds.least && start.elapsed() > rounds.time {
            break;
        }
        for ((contender, &calls), best) in contenders.iter_mut().zip(&calls).zip(&mut best) {
            let round = Instant::now();
            loop {
                let time = contender(calls);
                *best = best.min(time.as_secs_f64() / f64::from(calls));
                if round.elapsed() >= rounds.round {
                    break;
                }
            }
        }
    }
    best
}

/// A contender that does `work`.
pub fn timed(mut work: impl FnMut()) -> impl FnMut(u32) -> Duration {
    move |calls| {
        let start = Instant::now();
        for _ in 0..calls {
            work();
        }
        start.elapsed()
    }
}
