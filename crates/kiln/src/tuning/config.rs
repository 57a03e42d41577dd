//! Configurations, and the settings that are varied in them.

use crate::device::Device;
use crate::options::Options;
use serde::{Deserialize, Serialize};
use std::fmt;

/// How a graph runs, where that differs from the options, as chosen by an [`AutoTuner`](crate::AutoTuner).
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub struct OptimizationConfig {
    /// The threads of a call: [`Options::threads`].
    pub threads: Option<usize>,
    /// The level of the instruction set: [`Options::target`].
    pub level: Option<String>,
    /// The maximum number of ops of a kernel: `fusion.kernel_ops` of [`Limits`](crate::Limits).
    pub kernel_ops: Option<usize>,
    /// The maximum number of guarded nodes of a kernel: `fusion.kernel_nodes` of [`Limits`](crate::Limits).
    pub kernel_nodes: Option<usize>,
    /// Whether convolutions use Winograd's F(4x4, 3x3):
    /// [`Compiling::fewer_products`](crate::Compiling::fewer_products).
    pub fewer_products: Option<bool>,
}

impl OptimizationConfig {
    /// Options with this configuration.
    #[must_use]
    pub fn apply(&self, mut options: Options) -> Options {
        if let Some(threads) = self.threads {
            options = options.threads(threads);
        }
        if let Some(level) = &self.level {
            options = options.target(level);
        }
        let fusion = &mut options.limits.fusion;
        fusion.kernel_ops = self.kernel_ops.unwrap_or(fusion.kernel_ops);
        fusion.kernel_nodes = self.kernel_nodes.unwrap_or(fusion.kernel_nodes);
        let compiling = &mut options.compiling;
        compiling.fewer_products = self.fewer_products.unwrap_or(compiling.fewer_products);
        options
    }
}

impl fmt::Display for OptimizationConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Without `..`, so that a new field must be handled here.
        let Self {
            threads,
            level,
            kernel_ops,
            kernel_nodes,
            fewer_products,
        } = self;
        let shown = [
            threads.map(|threads| format!("threads {threads}")),
            level.as_ref().map(|level| format!("level {level}")),
            kernel_ops.map(|ops| format!("kernel ops {ops}")),
            kernel_nodes.map(|nodes| format!("kernel nodes {nodes}")),
            fewer_products.map(|fewer| format!("fewer products {fewer}")),
        ];
        let shown: Vec<String> = shown.into_iter().flatten().collect();
        match shown.as_slice() {
            [] => f.write_str("defaults"),
            shown => f.write_str(&shown.join(", ")),
        }
    }
}

/// The settings in which candidates differ; one is varied at a time, starting from the best configuration so far.
#[derive(Clone, Copy, Debug)]
pub(super) enum Axis {
    Threads,
    Level,
    Fusion,
    Products,
}

impl Axis {
    /// All axes, those with the largest effect first.
    pub(super) const ALL: [Self; 4] = [Self::Threads, Self::Level, Self::Fusion, Self::Products];
}

/// The configurations that differ from `current` along an axis, if the options do not set it.
pub(super) fn variations(
    axis: Axis,
    current: &OptimizationConfig,
    options: &Options,
    device: &Device,
) -> Vec<OptimizationConfig> {
    let with = |change: &dyn Fn(&mut OptimizationConfig)| {
        let mut config = current.clone();
        change(&mut config);
        config
    };
    match axis {
        Axis::Threads if options.threads.is_none() && device.key() == Device::cpu().key() => {
            let cores = std::thread::available_parallelism().map_or(1, usize::from);
            let mut counts = vec![1, cores / 2];
            counts.retain(|&count| (1..cores).contains(&count));
            counts.dedup();
            let threads = counts.into_iter();
            threads
                .map(|count| with(&|config| config.threads = Some(count)))
                .collect()
        }
        // The level below the highest: wider vectors are not always faster.
        Axis::Level if options.target.is_none() && device.level().is_none() => {
            let levels = device.levels();
            let below = levels.iter().rev().nth(1).cloned();
            let below = below.map(|level| with(&|config| config.level = Some(level.clone())));
            below.into_iter().collect()
        }
        Axis::Fusion => vec![
            with(&|config| config.kernel_ops = Some(24)),
            with(&|config| config.kernel_ops = Some(6)),
            with(&|config| config.kernel_nodes = Some(48)),
            with(&|config| config.kernel_nodes = Some(768)),
        ],
        Axis::Products if options.compiling.fewer_products => {
            vec![with(&|config| config.fewer_products = Some(false))]
        }
        _ => Vec::new(),
    }
}
