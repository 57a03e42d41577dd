//! Servers on free ports, asked by a plain client over HTTP and by tonic's over gRPC.

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
