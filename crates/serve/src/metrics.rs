//! Prometheus metrics of models, at `/metrics`: requests and failures by code, times, batch sizes, compiles.
//!
//! *Invariant:* labels come from loaded models and from the list of codes, never from a request, so clients cannot make
//! the number of labels grow.

mod collected;

pub(crate) use collected::Collected;

use prometheus_client::encoding::{EncodeLabelSet, text};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// Times in seconds.
const SECONDS: [f64; 16] = [
    0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5,
    5.0, 10.0,
];

/// Sizes of batches.
const SIZES: [f64; 10] = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0];

/// A version of a model.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, EncodeLabelSet)]
pub(crate) struct ModelLabels {
    pub(crate) model: String,
    pub(crate) version: String,
}

impl fmt::Display for ModelLabels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.model, self.version)
    }
}

/// A request's model and outcome: `ok`, or a code.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OutcomeLabels {
    model: String,
    version: String,
    outcome: &'static str,
}

type Histograms = Family<ModelLabels, Histogram, fn() -> Histogram>;

/// All metrics.
pub(crate) struct Metrics {
    registry: Registry,
    families: Arc<Families>,
}

struct Families {
    requests: Family<OutcomeLabels, Counter>,
    request_seconds: Histograms,
    queue_seconds: Histograms,
    compute_seconds: Histograms,
    batch_size: Histograms,
    batch_requests: Histograms,
    separated: Family<ModelLabels, Counter>,
}

impl Metrics {
    /// Counters, in addition to the metrics that `collected` computes on each scrape.
    pub(crate) fn new(collected: Collected) -> Self {
        let times: fn() -> Histogram = || Histogram::new(SECONDS);
        let sizes: fn() -> Histogram = || Histogram::new(SIZES);
        let families = Families {
            requests: Family::default(),
            request_seconds: Family::new_with_constructor(times),
            queue_seconds: Family::new_with_constructor(times),
            compute_seconds: Family::new_with_constructor(times),
            batch_size: Family::new_with_constructor(sizes),
            batch_requests: Family::new_with_constructor(sizes),
            separated: Family::default(),
        };
        let mut registry = Registry::with_prefix("kiln_serve");
        families.register(&mut registry);
        registry.register_collector(Box::new(collected));
        Self {
            registry,
            families: Arc::new(families),
        }
    }

    /// The counters of a version of a model.
    pub(crate) fn of_model(&self, labels: ModelLabels) -> ModelMetrics {
        ModelMetrics {
            labels,
            families: Arc::clone(&self.families),
        }
    }

    /// Writes all metrics in the OpenMetrics format, without the end marker.
    pub(crate) fn write(&self, text: &mut String) -> fmt::Result {
        text::encode_registry(text, &self.registry)
    }
}

impl Families {
    fn register(&self, registry: &mut Registry) {
        registry.register(
            "requests",
            "Requests for inference that reached a model, by how they ended: ok, or an error's code",
            self.requests.clone(),
        );
        registry.register(
            "request_seconds",
            "Time of a request, from its arrival at the model to its answer",
            self.request_seconds.clone(),
        );
        registry.register(
            "queue_seconds",
            "Time that a request waited for a thread and for others to join it",
            self.queue_seconds.clone(),
        );
        registry.register(
            "compute_seconds",
            "Time of a call of the model",
            self.compute_seconds.clone(),
        );
        registry.register(
            "batch_size",
            "How much of the batch symbol a call had",
            self.batch_size.clone(),
        );
        registry.register(
            "batch_requests",
            "How many requests were joined in a call",
            self.batch_requests.clone(),
        );
        registry.register(
            "separated_calls",
            "Joined calls that failed, after which each request was computed alone",
            self.separated.clone(),
        );
    }
}

/// The counters of one version of a model.
#[derive(Clone)]
pub(crate) struct ModelMetrics {
    labels: ModelLabels,
    families: Arc<Families>,
}

impl ModelMetrics {
    pub(crate) fn labels(&self) -> &ModelLabels {
        &self.labels
    }

    pub(crate) fn ended(&self, outcome: &'static str, time: Duration) {
        let ModelLabels { model, version } = self.labels.clone();
        let labels = OutcomeLabels {
            model,
            version,
            outcome,
        };
        self.families.requests.get_or_create(&labels).inc();
        observe(
            &self.families.request_seconds,
            &self.labels,
            time.as_secs_f64(),
        );
    }

    pub(crate) fn waited(&self, time: Duration) {
        observe(
            &self.families.queue_seconds,
            &self.labels,
            time.as_secs_f64(),
        );
    }

    pub(crate) fn executed(&self, rows: usize, requests: usize, time: Duration) {
        observe(
            &self.families.compute_seconds,
            &self.labels,
            time.as_secs_f64(),
        );
        observe(&self.families.batch_size, &self.labels, rows as f64);
        observe(&self.families.batch_requests, &self.labels, requests as f64);
    }

    pub(crate) fn separated(&self) {
        self.families.separated.get_or_create(&self.labels).inc();
    }
}

fn observe(family: &Histograms, labels: &ModelLabels, value: f64) {
    family.get_or_create(labels).observe(value);
}
