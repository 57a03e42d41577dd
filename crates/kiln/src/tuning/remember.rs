//! Choices stored across processes, with compiled code.

use super::OptimizationConfig;
use crate::compiled::{SharedRuntime, VERSION};
use crate::options::Options;
use kiln_ir::{Graph, structural_hash};
use kiln_kernel_cache::{CacheKey, Content, EntryKind, Tier, TierList};
use kiln_tensor::Tensor;
use std::time::Duration;

/// The place where the choice for a graph and sizes is kept.
pub(super) struct Memory {
    tiers: TierList,
    key: CacheKey,
}

impl Memory {
    /// The place of a choice; `None` if nothing is kept, or the options supply a runtime.
    pub(super) fn of(
        graph: &Graph,
        sample: &[Tensor],
        options: &Options,
        shared: &SharedRuntime,
    ) -> Option<Self> {
        // Without `..`, so that a new option is put into the key or listed here with the reason why it is not.
        let Options {
            dims,
            precision,
            gradients,
            passes,
            memory,
            limits,
            compiling,
            threads,
            target: level,
            cache,
            stores,
            runtime: supplied_runtime,
            // A graph is not imported.
            import: _,
            // This is in the key as the compiler and its target.
            device: _,
            // This only decides when code is made.
            compile_after: _,
            shared_kernels: _,
            // These apply to calls.
            outputs: _,
            stop: _,
            // These observe without affecting the choice.
            observation: _,
            recorder: _,
        } = options;
        if supplied_runtime.is_some() {
            return None;
        }
        let tiers = stores.after(cache);
        if tiers.is_empty() {
            return None;
        }
        let (compiler, target) = (shared.runtime.compiler()?, shared.runtime.target()?);
        let inputs = sample
            .iter()
            .map(|tensor| format!("{}{:?}", tensor.dtype(), tensor.shape()));
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let fields = [
            ("graph", structural_hash(graph).to_string()),
            ("inputs", inputs.collect::<Vec<_>>().join(" ")),
            ("dims", format!("{dims:?}")),
            ("precision", format!("{precision:?}")),
            ("gradients", format!("{gradients:?}")),
            ("passes", format!("{passes:?}")),
            ("memory", format!("{memory:?}")),
            ("limits", format!("{:?} {:?}", limits.dims, limits.fusion)),
            ("threads", format!("{threads:?} of {cores}")),
            ("level", format!("{level:?}")),
            ("fewer products", compiling.fewer_products.to_string()),
            ("deterministic", compiling.deterministic.to_string()),
            ("device", shared.device.to_string()),
            ("target", target.to_string()),
            ("features", compiler.features(target).join(" ")),
            ("kiln", VERSION.to_owned()),
            ("compiler", compiler.version()),
        ];
        Some(Self {
            tiers: TierList::new(tiers),
            key: CacheKey::of_fields(EntryKind::TUNING, fields),
        })
    }

    /// The choice, if there is one.
    pub(super) fn read(&self) -> Option<OptimizationConfig> {
        let entry = self.tiers.get(&self.key).ok()?;
        match serde_json::from_slice(&entry.payload) {
            Ok(config) => Some(config),
            Err(problem) => {
                tracing::info!(%problem, "a remembered choice cannot be read");
                self.tiers.remove(&self.key);
                None
            }
        }
    }

    /// Keeps a choice, which took this long. A failure is logged; it is then measured again.
    pub(super) fn write(&self, config: &OptimizationConfig, took: Duration) {
        let written = serde_json::to_vec(config).map_err(|problem| problem.to_string());
        let written = written.and_then(|bytes| {
            let put = self.tiers.put(&self.key, took, Content::data(&bytes));
            put.map(drop).map_err(|problem| problem.to_string())
        });
        if let Err(problem) = written {
            tracing::debug!(problem, "a choice was not kept");
        }
    }
}
