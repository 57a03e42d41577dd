//! A model's statistics: counts and times, as defined by the protocol's statistics extension.

use kiln_fork_lock::ForkLock;
use std::collections::BTreeMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Joined calls of sizes up to this are counted per size, larger ones by the next power of two, because clients choose
/// the sizes.
const COUNTED_SIZES: u64 = 64;

/// The statistics of one version of a model.
#[derive(Debug, Default)]
pub(crate) struct Stats(ForkLock<Snapshot>);

/// A count of events, and their total duration.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Total {
    pub(crate) count: u64,
    pub(crate) time: Duration,
}

impl Total {
    fn add(&mut self, time: Duration) {
        self.count += 1;
        self.time = self.time.saturating_add(time);
    }

    /// The time in nanoseconds.
    pub(crate) fn ns(self) -> u64 {
        u64::try_from(self.time.as_nanos()).unwrap_or(u64::MAX)
    }
}

/// A snapshot of the statistics.
#[derive(Clone, Debug, Default)]
pub(crate) struct Snapshot {
    /// When a request last ended, in milliseconds since 1970.
    pub(crate) last_inference_ms: u64,
    /// The total size of the batch symbol over requests that succeeded: their number if nothing is batched.
    pub(crate) inferences: u64,
    /// Calls of the model.
    pub(crate) executions: u64,
    /// Requests that succeeded, with their whole time.
    pub(crate) success: Total,
    /// Requests that failed, with their whole time.
    pub(crate) fail: Total,
    /// The time that requests spent waiting.
    pub(crate) queue: Total,
    /// The time spent joining inputs.
    pub(crate) compute_input: Total,
    /// The time spent in calls.
    pub(crate) compute_infer: Total,
    /// The time spent splitting outputs.
    pub(crate) compute_output: Total,
    /// Calls by their size of the batch symbol.
    pub(crate) batches: BTreeMap<u64, BatchTotals>,
    /// Joined calls that failed, after which each request was computed separately.
    pub(crate) separated: u64,
}

/// The calls with one size.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct BatchTotals {
    pub(crate) compute_input: Total,
    pub(crate) compute_infer: Total,
    pub(crate) compute_output: Total,
}

/// The parts of the time of one call.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct CallTimes {
    pub(crate) input: Duration,
    pub(crate) infer: Duration,
    pub(crate) output: Duration,
}

impl Stats {
    /// Counts a call that succeeded for requests with this total size of the batch symbol.
    pub(crate) fn executed(&self, rows: usize, times: CallTimes) {
        let rows = u64::try_from(rows).unwrap_or(u64::MAX);
        let mut stats = self.0.lock();
        stats.executions += 1;
        stats.inferences = stats.inferences.saturating_add(rows);
        stats.compute_input.add(times.input);
        stats.compute_infer.add(times.infer);
        stats.compute_output.add(times.output);
        let size = match rows {
            rows if rows <= COUNTED_SIZES => rows,
            rows => rows.checked_next_power_of_two().unwrap_or(u64::MAX),
        };
        let batch = stats.batches.entry(size).or_default();
        batch.compute_input.add(times.input);
        batch.compute_infer.add(times.infer);
        batch.compute_output.add(times.output);
    }

    /// Counts a request that left the queue.
    pub(crate) fn waited(&self, time: Duration) {
        self.0.lock().queue.add(time);
    }

    /// Counts a joined call that failed.
    pub(crate) fn separated(&self) {
        self.0.lock().separated += 1;
    }

    /// Counts a request that ended.
    pub(crate) fn ended(&self, succeeded: bool, time: Duration) {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let now = now.map_or(0, |now| u64::try_from(now.as_millis()).unwrap_or(u64::MAX));
        let mut stats = self.0.lock();
        stats.last_inference_ms = now;
        match succeeded {
            true => stats.success.add(time),
            false => stats.fail.add(time),
        }
    }

    pub(crate) fn snapshot(&self) -> Snapshot {
        self.0.lock().clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_that_clients_choose_take_bounded_memory() {
        let stats = Stats::default();
        for rows in 0..10_000 {
            stats.executed(rows, CallTimes::default());
        }
        stats.executed(usize::MAX, CallTimes::default());
        let snapshot = stats.snapshot();
        assert_eq!(snapshot.executions, 10_001);
        assert!(snapshot.batches.len() < 80, "{}", snapshot.batches.len());
        assert_eq!(snapshot.batches[&64].compute_infer.count, 1);
        assert_eq!(snapshot.batches[&128].compute_infer.count, 64);
    }
}
