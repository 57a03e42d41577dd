//! Servers on free ports, queried by a simple HTTP client and by tonic's gRPC client.

mod batching;
mod faults;
mod grpc;
mod http;
mod real_models;
mod repository;
mod support;
#[cfg(feature = "tls")]
mod tls;
mod traces;
