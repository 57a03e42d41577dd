//! Counters in addition to times. They count at every verbosity, since a silent fallback is a defect.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::clock::nanoseconds;

/// A kind of counted event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Counter {
    /// A request was found.
    Hit,
    /// A request was not found.
    Miss,
    /// A stored entry was damaged.
    Corrupt,
    /// A stored entry, or its folder, was not trusted.
    Rejected,
    /// A system error during a lookup or a store.
    IoError,
    /// A wait ended at its limit.
    Timeout,
    /// A successful compile.
    CompileOk,
    /// A compile that failed.
    CompileErr,
    /// A request was served in a different way: plain loops, another plan, the generic kernel.
    Fallback,
    /// A step was interpreted.
    InterpretedSteps,
}

impl Counter {
    const NUMBER: usize = 10;
}

/// The counters of a recorder.
#[derive(Debug, Default)]
pub struct Counters {
    counts: [AtomicU64; Counter::NUMBER],
    blocked_nanoseconds: AtomicU64,
}

impl Counters {
    /// Adds 1.
    pub fn count(&self, counter: Counter) {
        self.add(counter, 1);
    }

    /// Adds `n`.
    pub fn add(&self, counter: Counter, n: u64) {
        if let Some(count) = self.counts.get(counter as usize) {
            count.fetch_add(n, Ordering::Relaxed);
        }
    }

    /// Adds time for which a call waited for a compiler.
    pub fn add_blocked(&self, time: Duration) {
        self.blocked_nanoseconds
            .fetch_add(nanoseconds(time), Ordering::Relaxed);
    }

    /// The counts so far.
    pub fn values(&self) -> CounterValues {
        let of = |counter: Counter| {
            let count = self.counts.get(counter as usize);
            count.map_or(0, |count| count.load(Ordering::Relaxed))
        };
        CounterValues {
            hit: of(Counter::Hit),
            miss: of(Counter::Miss),
            corrupt: of(Counter::Corrupt),
            rejected: of(Counter::Rejected),
            io_error: of(Counter::IoError),
            timeout: of(Counter::Timeout),
            compile_ok: of(Counter::CompileOk),
            compile_err: of(Counter::CompileErr),
            fallback: of(Counter::Fallback),
            interpreted_steps: of(Counter::InterpretedSteps),
            blocked_ms: self.blocked_nanoseconds.load(Ordering::Relaxed) as f64 / 1e6,
        }
    }
}

/// Counts of a recorder.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct CounterValues {
    /// Of [`Counter::Hit`].
    pub hit: u64,
    /// Of [`Counter::Miss`].
    pub miss: u64,
    /// Of [`Counter::Corrupt`].
    pub corrupt: u64,
    /// Of [`Counter::Rejected`].
    pub rejected: u64,
    /// Of [`Counter::IoError`].
    pub io_error: u64,
    /// Of [`Counter::Timeout`].
    pub timeout: u64,
    /// Of [`Counter::CompileOk`].
    pub compile_ok: u64,
    /// Of [`Counter::CompileErr`].
    pub compile_err: u64,
    /// Of [`Counter::Fallback`].
    pub fallback: u64,
    /// Of [`Counter::InterpretedSteps`].
    pub interpreted_steps: u64,
    /// Milliseconds for which calls waited for a compiler.
    pub blocked_ms: f64,
}

impl CounterValues {
    /// Each count with its name, in this order, except blocked time.
    pub fn counts(&self) -> [(&'static str, u64); Counter::NUMBER] {
        [
            ("hit", self.hit),
            ("miss", self.miss),
            ("corrupt", self.corrupt),
            ("rejected", self.rejected),
            ("io_error", self.io_error),
            ("timeout", self.timeout),
            ("compile_ok", self.compile_ok),
            ("compile_err", self.compile_err),
            ("fallback", self.fallback),
            ("interpreted_steps", self.interpreted_steps),
        ]
    }
}

/// The nonzero counts, separated by commas.
impl fmt::Display for CounterValues {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let counts = self.counts().into_iter().filter(|&(_, count)| count > 0);
        let mut words: Vec<_> = counts
            .map(|(name, count)| format!("{name} {count}"))
            .collect();
        if self.blocked_ms > 0.0 {
            words.push(format!("blocked_ms {:.1}", self.blocked_ms));
        }
        if words.is_empty() {
            words.push("nothing counted".to_owned());
        }
        f.write_str(&words.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_counter_counts_separately() {
        let counters = Counters::default();
        assert_eq!(counters.values().to_string(), "nothing counted");
        let all = [
            Counter::Hit,
            Counter::Miss,
            Counter::Corrupt,
            Counter::Rejected,
            Counter::IoError,
            Counter::Timeout,
            Counter::CompileOk,
            Counter::CompileErr,
            Counter::Fallback,
            Counter::InterpretedSteps,
        ];
        for (number, counter) in all.into_iter().enumerate() {
            counters.count(counter);
            counters.add(counter, number as u64);
        }
        counters.add_blocked(Duration::from_micros(1500));
        let values = counters.values();
        let counts = values.counts().map(|(_, count)| count);
        assert_eq!(counts, [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]);
        insta::assert_snapshot!(values, @"hit 1, miss 2, corrupt 3, rejected 4, io_error 5, timeout 6, compile_ok 7, compile_err 8, fallback 9, interpreted_steps 10, blocked_ms 1.5");
        let json = serde_json::to_string(&values).unwrap();
        assert_eq!(
            serde_json::from_str::<CounterValues>(&json).unwrap(),
            values
        );
    }
}
