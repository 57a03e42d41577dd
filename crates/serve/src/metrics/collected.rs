//! Metrics that are computed when Prometheus scrapes them: model states, queue lengths, compiles.

use crate::repository::Catalog;
use kiln::CompilationStats;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use std::fmt;
use std::sync::Arc;

/// Looks up the numbers of the models of a repository.
pub(crate) struct Collected(pub(crate) Arc<Catalog>);

/// A number of a model's compiler, with its name and meaning.
type Compiled = (&'static str, &'static str, fn(&CompilationStats) -> u64);

/// Models that share kernels report the same numbers.
const COMPILED: [Compiled; 5] = [
    ("compiles", "Kernels compiled", |stats| stats.compilations),
    (
        "compile_failures",
        "Kernels that did not compile",
        |stats| stats.failures,
    ),
    (
        "kernel_hits",
        "Kernels found in memory or in a store",
        |stats| stats.hits,
    ),
    ("kernel_misses", "Kernels found nowhere", |stats| {
        stats.misses
    }),
    (
        "interpreted_steps",
        "Steps that were interpreted for lack of code",
        |stats| stats.interpreted_steps,
    ),
];

impl Collector for Collected {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let served = self.0.served();
        let mut ready = encoder.encode_descriptor(
            "model_ready",
            "1 for each version of a model that answers requests",
            None,
            MetricType::Gauge,
        )?;
        for model in &served {
            ConstGauge::new(1i64).encode(ready.encode_family(&model.labels)?)?;
        }
        let mut waiting = encoder.encode_descriptor(
            "queue_length",
            "Requests that wait",
            None,
            MetricType::Gauge,
        )?;
        for model in &served {
            let length = i64::try_from(model.waiting()).unwrap_or(i64::MAX);
            ConstGauge::new(length).encode(waiting.encode_family(&model.labels)?)?;
        }
        for (name, help, number) in COMPILED {
            let mut metric = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
            for model in &served {
                let number = number(&model.model.compilation_stats());
                ConstCounter::new(number).encode(metric.encode_family(&model.labels)?)?;
            }
        }
        Ok(())
    }
}

impl fmt::Debug for Collected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Collected")
    }
}
