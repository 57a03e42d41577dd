//! A model server for HTTP and gRPC. It implements the Open Inference Protocol (version 2), which Triton, KServe and
//! their clients use.
//!
//! | you want to | use |
//! |---|---|
//! | serve a folder of models | [`Server::start`] with a [`Repository`] |
//! | load and unload models, and call them in this process | [`Repository`] |
//! | mount the protocol in your own server | [`HttpService`], [`GrpcService`] |
//!
//! Requests for one model that arrive together are batched into one call, along a symbol of its inputs, if it is proved
//! from the model's graph that the entries of a batch are independent. Nothing is padded: requests are batched only if
//! all their other sizes are equal. The command `kiln serve` is a thin wrapper around this crate.
//!
//! ```no_run
//! use kiln_serve::{Models, Repository, RepositoryOptions, Server, ServerOptions};
//!
//! # async fn example() -> Result<(), kiln_serve::ServeError> {
//! let repository = Repository::open(RepositoryOptions::new(Models::Folder("models".into())))?;
//! let server = Server::start(repository, ServerOptions::default()).await?;
//! println!("{:?}", server.http_address());
//! // until it is to stop
//! server.shutdown().await;
//! # Ok(())
//! # }
//! ```

#![forbid(unsafe_code)]

mod batching;
mod config;
mod core;
mod datatype;
mod error;
mod gate;
mod grpc;
mod http;
mod metrics;
mod model;
mod offload;
mod options;
mod parameters;
mod queue;
mod repository;
mod request;
mod server;
mod stats;
mod tensors;
mod traces;

pub use error::ServeError;
pub use grpc::GrpcService;
pub use http::HttpService;
#[cfg(feature = "tls")]
pub use options::TlsFiles;
pub use options::{Models, RepositoryOptions, ServerLimits, ServerOptions, ServingDefaults, Token};
pub use repository::{ModelState, Repository, VersionStatus};
pub use request::{InferAnswer, InferRequest};
pub use server::Server;
#[cfg(feature = "opentelemetry")]
pub use traces::{TraceOptions, Traces};

#[cfg(test)]
mod tests;
