//! The server: its listening addresses, and shutdown.

mod connections;
mod timed;
#[cfg(feature = "tls")]
mod tls;

use crate::core::Core;
use crate::error::ServeError;
use crate::gate::Gate;
use crate::grpc::GrpcService;
use crate::http::HttpService;
use crate::options::ServerOptions;
use crate::repository::Repository;
use connections::{Front, Listening};
use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// A server that listens. It is stopped by [`shutdown`](Self::shutdown), or immediately when it is dropped.
pub struct Server {
    core: Arc<Core>,
    http: Option<SocketAddr>,
    grpc: Option<SocketAddr>,
    /// The tasks that accept connections; the result of each is whether all of its connections ended in time.
    listening: Vec<JoinHandle<bool>>,
    stop: watch::Sender<bool>,
    drain_delay: Duration,
}

impl Server {
    /// Starts listening and serving requests for the models of a repository: requests for models that are still loading
    /// are rejected with E1504, and the server reports that it is not ready.
    ///
    /// # Errors
    /// E1530 for an invalid option; E1531 for an address on which the server cannot listen; E1532 for a certificate or
    /// key.
    pub async fn start(repository: Repository, options: ServerOptions) -> Result<Self, ServeError> {
        options.check()?;
        let core = Core::new(repository, Gate::new(&options));
        #[cfg(feature = "tls")]
        let tls = options.tls.as_ref().map(tls::config).transpose()?;
        let (stop, stopped) = watch::channel(false);
        let mut server = Self {
            core,
            http: None,
            grpc: None,
            listening: Vec::new(),
            stop,
            drain_delay: options.drain_delay,
        };
        let fronts = [
            options.http.map(|address| {
                (
                    address,
                    Front::Http(HttpService::of_core(Arc::clone(&server.core))),
                )
            }),
            options.grpc.map(|address| {
                (
                    address,
                    Front::Grpc(GrpcService::of_core(Arc::clone(&server.core))),
                )
            }),
        ];
        // All addresses are bound before any connection is accepted.
        let mut bound = Vec::new();
        for (address, front) in fronts.into_iter().flatten() {
            let failed = |source| ServeError::Listen { address, source };
            let listener = TcpListener::bind(address).await.map_err(failed)?;
            let local = listener.local_addr().map_err(failed)?;
            match &front {
                Front::Http(_) => server.http = Some(local),
                Front::Grpc(_) => server.grpc = Some(local),
            }
            bound.push((listener, front));
        }
        for (listener, front) in bound {
            let listening = Listening {
                listener,
                gate: Arc::clone(&server.core.gate),
                #[cfg(feature = "tls")]
                tls: tls.clone().map(|config| tls::acceptor(config, &front)),
                front,
                stopped: stopped.clone(),
                drain: options.drain,
            };
            server.listening.push(tokio::spawn(listening.run()));
        }
        Ok(server)
    }

    /// The address on which HTTP is served.
    pub fn http_address(&self) -> Option<SocketAddr> {
        self.http
    }

    /// The address on which gRPC is served.
    pub fn grpc_address(&self) -> Option<SocketAddr> {
        self.grpc
    }

    /// Shuts down: reports that the server is not ready, for as long as [`drain_delay`](ServerOptions::drain_delay)
    /// says; then stops accepting requests, and waits for pending ones, for as long as [`drain`](ServerOptions::drain)
    /// says. Returns whether all of them were completed; the others are cancelled.
    pub async fn shutdown(mut self) -> bool {
        tracing::info!("shutting down");
        self.core.gate.drain();
        tokio::time::sleep(self.drain_delay).await;
        let _nothing_listens = self.stop.send(true);
        let mut all_answered = true;
        for listening in std::mem::take(&mut self.listening) {
            all_answered &= listening.await.unwrap_or(false);
        }
        self.core.gate.close();
        self.core.repository.close();
        all_answered
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        for listening in &self.listening {
            listening.abort();
        }
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server")
            .field("http", &self.http)
            .field("grpc", &self.grpc)
            .field("repository", &self.core.repository)
            .finish()
    }
}
