//! The counters of a service.

use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// A monotonic counter.
#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    pub(crate) fn add(&self) {
        self.add_many(1);
    }

    pub(crate) fn add_many(&self, count: u64) {
        self.0.fetch_add(count, Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// The counters of a service.
#[derive(Debug, Default)]
pub(super) struct Counters {
    pub(super) requests: Counter,
    pub(super) memory_hits: Counter,
    pub(super) store_hits: Counter,
    pub(super) joined: Counter,
    pub(super) compiles: Counter,
    pub(super) failures: Counter,
    pub(super) cancelled: Counter,
    pub(super) refused: Counter,
    pub(super) deadlines: Counter,
    pub(super) packages_refused: Counter,
    pub(super) store_failures: Counter,
    pub(super) shared_hits: Counter,
    pub(super) shared_failures: Counter,
    compile_us: Counter,
    wait_us: Counter,
}

fn microseconds(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

impl Counters {
    pub(super) fn compiled(&self, time: Duration) {
        self.compile_us.add_many(microseconds(time));
    }

    pub(super) fn waited(&self, time: Duration) {
        self.wait_us.add_many(microseconds(time));
    }

    pub(super) fn snapshot(
        &self,
        in_memory: usize,
        in_flight: usize,
        queued: usize,
    ) -> ServiceMetrics {
        ServiceMetrics {
            requests: self.requests.get(),
            memory_hits: self.memory_hits.get(),
            store_hits: self.store_hits.get(),
            joined: self.joined.get(),
            compiles: self.compiles.get(),
            failures: self.failures.get(),
            cancelled: self.cancelled.get(),
            refused: self.refused.get(),
            deadlines: self.deadlines.get(),
            packages_refused: self.packages_refused.get(),
            store_failures: self.store_failures.get(),
            shared_hits: self.shared_hits.get(),
            shared_failures: self.shared_failures.get(),
            compile_time: Duration::from_micros(self.compile_us.get()),
            wait_time: Duration::from_micros(self.wait_us.get()),
            in_memory,
            in_flight,
            queued,
        }
    }
}

/// A snapshot of the counters of a service.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ServiceMetrics {
    /// Requests.
    pub requests: u64,
    /// Requests answered from memory.
    pub memory_hits: u64,
    /// Kernels loaded from the store.
    pub store_hits: u64,
    /// Requests that joined a compile that already ran or waited.
    pub joined: u64,
    /// Compiles.
    pub compiles: u64,
    /// Compiles and loads that failed, other than by cancellation.
    pub failures: u64,
    /// Compiles that were cancelled.
    pub cancelled: u64,
    /// Requests rejected because too many were waiting.
    pub refused: u64,
    /// Requests that were not answered within their deadline.
    pub deadlines: u64,
    /// Packages in the store that were not loaded: damaged, of a different version, for another machine.
    pub packages_refused: u64,
    /// Packages that could not be stored.
    pub store_failures: u64,
    /// Kernels loaded from the store that another server made.
    pub shared_hits: u64,
    /// Requests to the store that servers share that failed.
    pub shared_failures: u64,
    /// Time spent compiling.
    pub compile_time: Duration,
    /// Time that requests spent waiting.
    pub wait_time: Duration,
    /// Kernels in memory.
    pub in_memory: usize,
    /// Compiles that run or wait.
    pub in_flight: usize,
    /// Compiles that wait.
    pub queued: usize,
}

impl ServiceMetrics {
    /// The fraction of answered requests that were answered without a compile; 1 if there were none.
    pub fn hit_rate(&self) -> f64 {
        let compiled = self.compiles as f64;
        let requests = (self.requests - self.refused.min(self.requests)) as f64;
        if requests == 0.0 {
            1.0
        } else {
            1.0 - (compiled / requests).min(1.0)
        }
    }

    /// The counters in Prometheus' text format.
    pub fn to_prometheus(&self) -> String {
        let mut text = String::new();
        for (name, kind, value) in [
            ("requests_total", "counter", self.requests as f64),
            ("memory_hits_total", "counter", self.memory_hits as f64),
            ("store_hits_total", "counter", self.store_hits as f64),
            ("joined_total", "counter", self.joined as f64),
            ("compiles_total", "counter", self.compiles as f64),
            ("failures_total", "counter", self.failures as f64),
            ("cancelled_total", "counter", self.cancelled as f64),
            ("refused_total", "counter", self.refused as f64),
            ("deadlines_total", "counter", self.deadlines as f64),
            (
                "packages_refused_total",
                "counter",
                self.packages_refused as f64,
            ),
            (
                "store_failures_total",
                "counter",
                self.store_failures as f64,
            ),
            ("shared_hits_total", "counter", self.shared_hits as f64),
            (
                "shared_failures_total",
                "counter",
                self.shared_failures as f64,
            ),
            (
                "compile_seconds_total",
                "counter",
                self.compile_time.as_secs_f64(),
            ),
            (
                "wait_seconds_total",
                "counter",
                self.wait_time.as_secs_f64(),
            ),
            ("kernels_in_memory", "gauge", self.in_memory as f64),
            ("compiles_in_flight", "gauge", self.in_flight as f64),
            ("compiles_queued", "gauge", self.queued as f64),
        ] {
            let _ = writeln!(
                text,
                "# TYPE kiln_service_{name} {kind}\nkiln_service_{name} {value}"
            );
        }
        text
    }
}
