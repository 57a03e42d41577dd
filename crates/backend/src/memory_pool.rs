//! The runtime's interface to a device's memory pool: limits, statistics, trimming.
//!
//! The pool itself belongs to each executor.

use crate::execute::{ExecuteError, Memory};

/// A pool of a device's memory, from which pieces are rented, and to which they are returned for reuse.
///
/// [`KernelExecutor::alloc`](crate::KernelExecutor::alloc) rents from it. Memory is returned when the last handle to it
/// is dropped, whether that is in an arena, or in an output that the host still reads.
pub trait MemoryPool: Send + Sync {
    /// At least this many bytes with undefined content: a kept piece if one fits.
    ///
    /// # Errors
    /// If memory cannot be allocated, or the limit is reached.
    fn rent(&self, bytes: usize) -> Result<Memory, ExecuteError>;

    /// Returns memory; it is kept, within limits, once its last handle is dropped.
    fn give_back(&self, memory: Memory) {
        drop(memory);
    }

    /// Frees kept memory beyond `keep` bytes, the oldest first; returns the number of freed bytes.
    fn trim(&self, keep: usize) -> usize;

    /// Statistics of the pool.
    fn stats(&self) -> MemoryStats;
}

/// Limits of a [`MemoryPool`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct MemoryLimits {
    /// The maximum total of rented and kept bytes; a request that would exceed it is rejected.
    pub total_bytes: usize,
    /// The maximum number of bytes kept for later requests.
    pub kept_bytes: usize,
}

impl MemoryLimits {
    /// No total limit, half a GiB kept.
    pub const DEFAULT: Self = Self {
        total_bytes: usize::MAX,
        kept_bytes: 512 << 20,
    };

    /// The defaults.
    pub fn new() -> Self {
        Self::DEFAULT
    }

    /// Sets the maximum number of bytes at a time.
    #[must_use]
    pub fn with_total_bytes(self, total_bytes: usize) -> Self {
        Self {
            total_bytes,
            ..self
        }
    }

    /// Sets the maximum number of bytes kept.
    #[must_use]
    pub fn with_kept_bytes(self, kept_bytes: usize) -> Self {
        Self { kept_bytes, ..self }
    }
}

impl Default for MemoryLimits {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// The statistics of a [`MemoryPool`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct MemoryStats {
    /// Bytes in use.
    pub rented_bytes: usize,
    /// The maximum number of bytes rented at one time.
    pub peak_bytes: usize,
    /// Bytes kept for later requests.
    pub kept_bytes: usize,
    /// The number of requests.
    pub rents: u64,
    /// The number of requests served from kept memory.
    pub reuses: u64,
    /// The number of requests that hit the limit.
    pub refusals: u64,
}

impl MemoryStats {
    /// The numbers as a table for human readers.
    pub fn to_report(&self) -> String {
        let megabytes = |bytes: usize| format!("{:.1} MB", bytes as f64 / 1e6);
        let lines = [
            (megabytes(self.rented_bytes), "rented"),
            (megabytes(self.peak_bytes), "rented at most"),
            (megabytes(self.kept_bytes), "kept for later requests"),
            (self.rents.to_string(), "times rented"),
            (self.reuses.to_string(), "of these, served from kept memory"),
            (self.refusals.to_string(), "requests refused by the limit"),
        ];
        let line = |(number, what): &(String, &str)| format!("{number:>12}  {what}\n");
        let lines: String = lines.iter().map(line).collect();
        format!("memory\n{lines}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_limits_and_report_text() {
        let limits = MemoryLimits::new().with_total_bytes(7).with_kept_bytes(3);
        assert_eq!((limits.total_bytes, limits.kept_bytes), (7, 3));
        assert_eq!(MemoryLimits::default(), MemoryLimits::DEFAULT);
        let stats = MemoryStats {
            rented_bytes: 1_500_000,
            rents: 4,
            ..MemoryStats::default()
        };
        let report = stats.to_report();
        assert!(report.contains("      1.5 MB  rented\n"), "{report}");
        assert!(report.contains("           4  times rented\n"), "{report}");
    }
}
