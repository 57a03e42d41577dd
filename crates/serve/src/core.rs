//! The state shared by the front ends: the repository, the gate, and the counters of the server itself.

use crate::gate::Gate;
use crate::repository::Repository;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric, text};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;
use std::fmt;
use std::sync::Arc;

/// A server without its connections.
pub(crate) struct Core {
    pub(crate) repository: Repository,
    pub(crate) gate: Arc<Gate>,
    registry: Registry,
    refused: Family<RefusalLabels, Counter>,
}

/// Why a request reached no model.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RefusalLabels {
    protocol: &'static str,
    code: &'static str,
}

impl Core {
    pub(crate) fn new(repository: Repository, gate: Arc<Gate>) -> Arc<Self> {
        let mut registry = Registry::with_prefix("kiln_serve");
        let refused = Family::default();
        registry.register(
            "refused",
            "Requests that reached no model, by the error's code",
            Family::clone(&refused),
        );
        registry.register_collector(Box::new(Loads(Arc::clone(&gate))));
        Arc::new(Self {
            repository,
            gate,
            registry,
            refused,
        })
    }

    /// Whether the server takes requests: its models are loaded, or could not be, and it is not shutting down.
    pub(crate) fn is_ready(&self) -> bool {
        self.repository.has_started() && !self.gate.is_draining()
    }

    /// Counts a request that reached no model.
    pub(crate) fn refused(&self, protocol: &'static str, code: &'static str) {
        let labels = RefusalLabels { protocol, code };
        self.refused.get_or_create(&labels).inc();
    }

    /// All metrics, in the OpenMetrics format.
    pub(crate) fn metrics(&self) -> String {
        let mut text = String::new();
        let written = text::encode_registry(&mut text, &self.registry)
            .and_then(|()| self.repository.write_metrics(&mut text))
            .and_then(|()| text::encode_eof(&mut text));
        match written {
            Ok(()) => text,
            Err(fmt::Error) => unreachable!("writing into a string does not fail"),
        }
    }
}

/// The current load of the server.
#[derive(Debug)]
struct Loads(Arc<Gate>);

impl Collector for Loads {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let Self(gate) = self;
        let numbers = [
            ("requests_now", "Requests that wait or run", gate.requests()),
            ("connections_now", "Open connections", gate.connections()),
            (
                "buffered_bytes",
                "Bytes of the requests that wait or run",
                gate.bytes(),
            ),
            (
                "draining",
                "1 while the server shuts down",
                usize::from(gate.is_draining()),
            ),
        ];
        for (name, help, number) in numbers {
            let metric = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
            let number = i64::try_from(number).unwrap_or(i64::MAX);
            ConstGauge::new(number).encode(metric)?;
        }
        Ok(())
    }
}
