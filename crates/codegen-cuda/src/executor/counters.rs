//! Counters of a device's operations.

use std::sync::atomic::{AtomicU64, Ordering};

/// Counts of a device's work, since its context was made.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) launches: Count,
    pub(crate) graphs_built: Count,
    pub(crate) graphs_launched: Count,
    pub(crate) graph_launches: Count,
    pub(crate) nodes_updated: Count,
    pub(crate) graphs_refused: Count,
    pub(crate) host_builtins: Count,
    pub(crate) device_builtins: Count,
    pub(crate) uploads: Count,
    pub(crate) uploaded_bytes: Count,
    pub(crate) downloads: Count,
    pub(crate) downloaded_bytes: Count,
    pub(crate) modules: Count,
    pub(crate) segments: Count,
}

/// A counter.
#[derive(Debug, Default)]
pub(crate) struct Count(AtomicU64);

impl Count {
    pub(crate) fn add(&self, number: usize) {
        self.0.fetch_add(number as u64, Ordering::Relaxed);
    }

    fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// The statistics of a device since its context was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CudaStatistics {
    /// Functions launched one by one.
    pub launches: u64,
    /// Batches recorded as graphs.
    pub graphs_built: u64,
    /// Number of launches of graphs.
    pub graphs_launched: u64,
    /// Functions launched as parts of graphs.
    pub graph_launches: u64,
    /// Launches within graphs that were replaced because memories or sizes changed.
    pub nodes_updated: u64,
    /// Batches that could not be recorded as a graph, and were launched one by one.
    pub graphs_refused: u64,
    /// Builtins that ran on the host, because the device has no code for them, or not yet: their operands crossed the
    /// bus.
    pub host_builtins: u64,
    /// Builtins other than copies that ran on the device.
    pub device_builtins: u64,
    /// Copies from the host.
    pub uploads: u64,
    /// Bytes of these copies.
    pub uploaded_bytes: u64,
    /// Copies to the host.
    pub downloads: u64,
    /// Bytes of these copies.
    pub downloaded_bytes: u64,
    /// Modules loaded.
    pub modules: u64,
    /// Pieces of memory that the driver allocated.
    pub segments: u64,
}

impl Counters {
    /// The counts now.
    pub(crate) fn read(&self) -> CudaStatistics {
        CudaStatistics {
            launches: self.launches.get(),
            graphs_built: self.graphs_built.get(),
            graphs_launched: self.graphs_launched.get(),
            graph_launches: self.graph_launches.get(),
            nodes_updated: self.nodes_updated.get(),
            graphs_refused: self.graphs_refused.get(),
            host_builtins: self.host_builtins.get(),
            device_builtins: self.device_builtins.get(),
            uploads: self.uploads.get(),
            uploaded_bytes: self.uploaded_bytes.get(),
            downloads: self.downloads.get(),
            downloaded_bytes: self.downloaded_bytes.get(),
            modules: self.modules.get(),
            segments: self.segments.get(),
        }
    }
}

impl CudaStatistics {
    /// The numbers with their names.
    pub fn to_vec(&self) -> Vec<(&'static str, u64)> {
        vec![
            ("builtins run on the host", self.host_builtins),
            ("builtins run on the device", self.device_builtins),
            ("batches refused as graphs", self.graphs_refused),
            ("launches one by one", self.launches),
            ("launches in graphs", self.graph_launches),
            ("graphs recorded", self.graphs_built),
            ("graphs launched", self.graphs_launched),
            ("launches patched in graphs", self.nodes_updated),
            ("uploads", self.uploads),
            ("bytes uploaded", self.uploaded_bytes),
            ("downloads", self.downloads),
            ("bytes downloaded", self.downloaded_bytes),
            ("modules loaded", self.modules),
            ("allocations by the driver", self.segments),
        ]
    }
}
