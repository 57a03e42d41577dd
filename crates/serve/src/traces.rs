//! Tracing of requests: spans for request, queue, call and batch, and the origin of a request's trace.
//!
//! | span | of | parent |
//! |---|---|---|
//! | `serve.http`, `serve.grpc` | a protocol request | the caller's, from `traceparent` |
//! | `serve.request` | its inference | the above |
//! | `serve.queue` | its wait for a thread | `serve.request` |
//! | `serve.call` | its computation, alone or in a batch | `serve.request` |
//! | `serve.batch` | a batched call | none: it has a link to each `serve.call` |
//! | `runtime.compile_job` | a compile, also in the background | none: it has a link to the call that first needed it |
//!
//! *Invariant:* no span contains data of a request, and nothing waits for a collector.

#[cfg(feature = "opentelemetry")]
mod export;

#[cfg(feature = "opentelemetry")]
pub use export::{TraceOptions, Traces};

use http::HeaderMap;
use tracing::Span;

/// The span of an HTTP request, continuing the trace that its headers name.
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
