//! What requests do, as spans: request, queue, call, batch; and where a request's trace comes from.
//!
//! | span | of | parent |
//! |---|---|---|
//! | `serve.http`, `serve.grpc` | a request of the protocol | the caller's, by `traceparent` |
//! | `serve.request` | its inference | the above |
//! | `serve.queue` | its wait for a thread | `serve.request` |
//! | `serve.call` | its computation, alone or joined with others | `serve.request` |
//! | `serve.batch` | a joined call | none: it has a link to each `serve.call` |
//! | `runtime.compile_job` | a compile, in the background too | none: it has a link to the call that first needed it |
//!
//! *Invariant:* no span holds what a request contains, and nothing waits for a collector.

#[cfg(feature = "opentelemetry")]
mod export;

#[cfg(feature = "opentelemetry")]
pub use export::{TraceOptions, Traces};

use http::HeaderMap;
use tracing::Span;

/// The span of a request by a protocol, continuing the trace that its headers name.
pub(crate) fn of_http(method: &http::Method, path: &str, headers: &HeaderMap) -> Span {
    let path: String = path.chars().take(200).collect();
    let span = tracing::info_span!(
        "serve.http",
        "http.request.method" = method.as_str(),
        "url.path" = path,
        "http.response.status_code" = tracing::field::Empty,
        "otel.kind" = "server"
    );
    continue_trace(&span, headers);
    span
}

/// As [`of_http`], for gRPC.
pub(crate) fn of_grpc(path: &str, headers: &HeaderMap) -> Span {
    let path: String = path.chars().take(200).collect();
    let span = tracing::info_span!(
        "serve.grpc",
        "rpc.system" = "grpc",
        "rpc.method" = path,
        "otel.kind" = "server"
    );
    continue_trace(&span, headers);
    span
}

#[cfg(feature = "opentelemetry")]
fn continue_trace(span: &Span, headers: &HeaderMap) {
    export::continue_trace(span, headers);
}

#[cfg(not(feature = "opentelemetry"))]
fn continue_trace(_: &Span, _: &HeaderMap) {}
