//! Exports spans to a collector by OTLP over HTTP, in the background: [`Traces`].
//!
//! *Invariant:* spans wait in a bounded queue, and are dropped when it is full; a request never waits for the collector.

use crate::error::ServeError;
use bytes::Bytes;
use http::{HeaderMap, Request, Response};
use opentelemetry::KeyValue;
use opentelemetry::propagation::{Extractor, TextMapPropagator};
use opentelemetry::trace::{TraceContextExt, TracerProvider};
use opentelemetry_http::{HttpClient, HttpError};
use opentelemetry_otlp::{SpanExporter, WithExportConfig, WithHttpConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::propagation::TraceContextPropagator;
use opentelemetry_sdk::trace::{Sampler, SdkTracerProvider};
use std::time::Duration;
use tokio::runtime::Handle;
use tracing::{Level, Span, Subscriber};
use tracing_opentelemetry::OpenTelemetrySpanExt;
use tracing_subscriber::Layer;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::registry::LookupSpan;

/// How long the collector may take to accept a batch of spans.
const DEADLINE: Duration = Duration::from_secs(10);

/// Where spans are sent, and which part of them.
#[derive(Clone, Debug, PartialEq)]
pub struct TraceOptions {
    /// The collector's URL: `http://127.0.0.1:4318/v1/traces`.
    pub endpoint: String,
    /// The name of the service: `kiln`.
    pub service: String,
    /// The fraction of the traces beginning in this process that is sent, from 0 to 1: 1. A trace that a caller began
    /// is sent if the caller requests it.
    pub sampled: f64,
}

impl TraceOptions {
    /// Sends every trace to the collector at this URL.
    pub fn new(endpoint: impl Into<String>) -> Self {
        Self {
            endpoint: endpoint.into(),
            service: "kiln".to_owned(),
            sampled: 1.0,
        }
    }
}

/// Sends spans to a collector. Add its [`layer`](Self::layer) to the program's subscriber.
#[derive(Debug)]
pub struct Traces {
    provider: SdkTracerProvider,
}

impl Traces {
    /// Prepares the export. Spans are sent by a separate thread, through the current tokio runtime.
    ///
    /// # Errors
    /// E1530 for an invalid URL or fraction, and outside of a tokio runtime.
    pub fn start(options: &TraceOptions) -> Result<Self, ServeError> {
        let setting = |name, expected, found: String| ServeError::Setting {
            name,
            expected,
            found,
        };
        if !(0.0..=1.0).contains(&options.sampled) {
            let found = options.sampled.to_string();
            return Err(setting("traces.sampled", "a number from 0 to 1", found));
        }
        const URL: &str = "the URL of a collector, such as http://127.0.0.1:4318/v1/traces";
        let url = options.endpoint.parse::<http::Uri>().ok();
        let is_url = url.is_some_and(|url| {
            url.host().is_some() && matches!(url.scheme_str(), Some("http" | "https"))
        });
        if !is_url {
            return Err(setting("traces.endpoint", URL, options.endpoint.clone()));
        }
        let runtime = Handle::try_current();
        let runtime =
            runtime.map_err(|error| setting("traces", "a tokio runtime", error.to_string()))?;
        // Installs a TLS provider, unless the program already has one.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let client = reqwest::Client::builder().timeout(DEADLINE).build();
        let client = client.map_err(|error| setting("traces", "a client", error.to_string()))?;
        let exporter = SpanExporter::builder()
            .with_http()
            .with_http_client(OnRuntime { runtime, client })
            .with_endpoint(&options.endpoint)
            .with_timeout(DEADLINE)
            .build();
        let exporter =
            exporter.map_err(|error| setting("traces.endpoint", URL, error.to_string()))?;
        let resource = Resource::builder()
            .with_service_name(options.service.clone())
            .with_attribute(KeyValue::new("service.version", env!("CARGO_PKG_VERSION")))
            .build();
        let sampler = Sampler::ParentBased(Box::new(Sampler::TraceIdRatioBased(options.sampled)));
        let provider = SdkTracerProvider::builder()
            .with_batch_exporter(exporter)
            .with_sampler(sampler)
            .with_resource(resource)
            .build();
        Ok(Self { provider })
    }

    /// The layer that converts Kiln's spans to OpenTelemetry spans.
    pub fn layer<S>(&self) -> impl Layer<S> + Send + Sync + use<S>
    where
        S: Subscriber + Send + Sync + for<'span> LookupSpan<'span>,
    {
        let tracer = self.provider.tracer("kiln");
        let layer = tracing_opentelemetry::layer().with_tracer(tracer);
        // Only spans of the library are exported, not those of its dependencies, which themselves send the spans.
        layer.with_filter(Targets::new().with_target("kiln", Level::INFO))
    }

    /// Sends the remaining spans and stops; false if that failed or took longer than `limit`. Blocks.
    pub fn shutdown(&self, limit: Duration) -> bool {
        self.provider.shutdown_with_timeout(limit).is_ok()
    }
}

/// Makes a span part of the trace that the headers name, if they do.
pub(super) fn continue_trace(span: &Span, headers: &HeaderMap) {
    if !headers.contains_key("traceparent") {
        return;
    }
    let context = TraceContextPropagator::new().extract(&Headers(headers));
    if context.span().span_context().is_valid() {
        // This fails if no layer listens.
        let _ = span.set_parent(context);
    }
}

struct Headers<'a>(&'a HeaderMap);

impl Extractor for Headers<'_> {
    fn get(&self, key: &str) -> Option<&str> {
        self.0.get(key)?.to_str().ok()
    }

    fn keys(&self) -> Vec<&str> {
        self.0.keys().map(http::HeaderName::as_str).collect()
    }
}

/// A client whose requests are made by a runtime, regardless of the thread that waits for them.
#[derive(Debug)]
struct OnRuntime {
    runtime: Handle,
    client: reqwest::Client,
}

#[async_trait::async_trait]
impl HttpClient for OnRuntime {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let client = self.client.clone();
        let sent = self
            .runtime
            .spawn(async move { client.send_bytes(request).await });
        sent.await?
    }
}
