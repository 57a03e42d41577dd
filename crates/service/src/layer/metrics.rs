//! The counters of a layer.

use super::rollback::RollbackReason;
use crate::service::Counter;
use std::fmt::Write as _;
use std::time::Duration;

/// The counters of a layer.
#[derive(Default)]
pub(super) struct Counters {
    pub(super) executions: Counter,
    pub(super) defaults: Counter,
    pub(super) not_ready: Counter,
    pub(super) failures: Counter,
    pub(super) fallbacks: Counter,
    pub(super) rollbacks: Counter,
    compiled: Counter,
    compiled_us: Counter,
    default_us: Counter,
}

impl Counters {
    pub(super) fn compiled(&self, time: Duration) {
        self.compiled.add();
        self.compiled_us.add_many(time.as_micros() as u64);
    }

    pub(super) fn default_time(&self, time: Duration) {
        self.default_us.add_many(time.as_micros() as u64);
    }

    pub(super) fn snapshot(&self, last_rollback: Option<RollbackReason>) -> LayerMetrics {
        LayerMetrics {
            executions: self.executions.get(),
            compiled: self.compiled.get(),
            defaults: self.defaults.get(),
            not_ready: self.not_ready.get(),
            failures: self.failures.get(),
            fallbacks: self.fallbacks.get(),
            rollbacks: self.rollbacks.get(),
            compiled_time: Duration::from_micros(self.compiled_us.get()),
            default_time: Duration::from_micros(self.default_us.get()),
            last_rollback,
        }
    }
}

/// A snapshot of the counters of a layer.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct LayerMetrics {
    /// Executions.
    pub executions: u64,
    /// Attempts by stored kernels, failed ones included.
    pub compiled: u64,
    /// Executions of the default transform, for any reason.
    pub defaults: u64,
    /// Those because kernels were not loaded yet.
    pub not_ready: u64,
    /// Kernels that failed, or could not be loaded.
    pub failures: u64,
    /// Executions of the default transform because a kernel failed.
    pub fallbacks: u64,
    /// Roll-outs that were rolled back.
    pub rollbacks: u64,
    /// Time of stored kernels.
    pub compiled_time: Duration,
    /// Time of the default transform.
    pub default_time: Duration,
    /// Why the last roll-out was rolled back.
    pub last_rollback: Option<RollbackReason>,
}

impl LayerMetrics {
    /// The counters in Prometheus' text format, with the layer's name as a label.
    pub fn to_prometheus(&self, layer: &str) -> String {
        let label = layer.replace(['\\', '"', '\n'], "_");
        let mut text = String::new();
        for (name, value) in [
            ("executions_total", self.executions as f64),
            ("compiled_total", self.compiled as f64),
            ("default_total", self.defaults as f64),
            ("not_ready_total", self.not_ready as f64),
            ("failures_total", self.failures as f64),
            ("fallbacks_total", self.fallbacks as f64),
            ("rollbacks_total", self.rollbacks as f64),
            ("compiled_seconds_total", self.compiled_time.as_secs_f64()),
            ("default_seconds_total", self.default_time.as_secs_f64()),
        ] {
            let _ = writeln!(
                text,
                "# TYPE kiln_layer_{name} counter\nkiln_layer_{name}{{layer=\"{label}\"}} {value}"
            );
        }
        text
    }
}
