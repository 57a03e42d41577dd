//! Connections: accepted up to a limit, served with limits on time and size, and closed when the server shuts down.

use crate::gate::{Connected, Gate};
use crate::grpc::GrpcService;
use crate::http::HttpService;
use crate::server::timed::TimedStream;
use ::http::Request;
use hyper::body::Incoming;
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

/// How long to wait for the system to free a file descriptor, when there is none for a connection.
const PAUSE: Duration = Duration::from_millis(50);

/// Concurrent requests on one HTTP/2 connection.
const STREAMS: u32 = 256;

/// The length of the HTTP/2 connection preface in bytes.
const PREFACE: usize = 24;

/// The service that handles the requests of a connection.
#[derive(Clone)]
pub(super) enum Front {
    Http(HttpService),
    Grpc(GrpcService),
}

/// An address on which the server listens.
pub(super) struct Listening {
    pub(super) listener: TcpListener,
    pub(super) front: Front,
    pub(super) gate: Arc<Gate>,
    #[cfg(feature = "tls")]
    pub(super) tls: Option<tokio_rustls::TlsAcceptor>,
    pub(super) stopped: watch::Receiver<bool>,
    pub(super) drain: Duration,
}

impl Listening {
    /// Accepts connections until the server is stopped, and waits for them to end. Returns whether all ended in time.
    pub(super) async fn run(mut self) -> bool {
        let graceful = GracefulShutdown::new();
        let mut connections = JoinSet::new();
        loop {
            tokio::select! {
                _ = self.stopped.changed() => break,
                Some(_) = connections.join_next() => {}
                accepted = self.listener.accept() => match accepted {
                    Ok((stream, _)) => {
                        if let Some(connected) = self.gate.connect() {
                            connections.spawn(self.serve(stream, connected, graceful.watcher()));
                        }
                    }
                    Err(error) => {
                        tracing::warn!("cannot accept a connection: {error}");
                        tokio::time::sleep(PAUSE).await;
                    }
                },
            }
        }
        drop(self.listener);
        let ended = tokio::time::timeout(self.drain, graceful.shutdown()).await;
        // The remaining connections are dropped, and with them their requests.
        connections.shutdown().await;
        ended.is_ok()
    }

    /// Serves a connection until it ends; a connection without a pending request ends when the server is stopped.
    fn serve(
        &self,
        stream: TcpStream,
        connected: Connected,
        watcher: Watcher,
    ) -> impl Future<Output = ()> + Send + use<> {
        let connection = Connection {
            front: self.front.clone(),
            gate: Arc::clone(&self.gate),
            was_asked: Arc::default(),
            watcher,
        };
        let (mut stopped, was_asked) = (self.stopped.clone(), Arc::clone(&connection.was_asked));
        #[cfg(feature = "tls")]
        let tls = self.tls.clone();
        async move {
            let _connected = connected;
            let unused = async {
                let _nobody_stops_it = stopped.changed().await;
                if was_asked.load(Ordering::Acquire) {
                    std::future::pending::<()>().await;
                }
            };
            let served = async {
                // Responses are small, or written in one piece.
                let _unsupported = stream.set_nodelay(true);
                #[cfg(feature = "tls")]
                if let Some(tls) = tls {
                    return connection.encrypted(stream, &tls).await;
                }
                connection.speak(stream).await;
            };
            tokio::select! {
                () = served => {}
                () = unused => {}
            }
        }
    }
}

/// A connection that was accepted.
struct Connection {
    front: Front,
    gate: Arc<Gate>,
    /// Whether a request arrived.
    was_asked: Arc<AtomicBool>,
    watcher: Watcher,
}

impl Connection {
    #[cfg(feature = "tls")]
    async fn encrypted(self, stream: TcpStream, tls: &tokio_rustls::TlsAcceptor) {
        let limit = self.gate.limits.header_time;
        match tokio::time::timeout(limit, tls.accept(stream)).await {
            Ok(Ok(stream)) => self.speak(stream).await,
            Ok(Err(error)) => tracing::debug!("no encrypted connection: {error}"),
            Err(_) => tracing::debug!("no encrypted connection in time"),
        }
    }

    /// Serves requests: HTTP/1 for HTTP, HTTP/2 for gRPC.
    async fn speak<S>(self, stream: S)
    where
        S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        let (gate, was_asked) = (self.gate, self.was_asked);
        let ended = match self.front {
            Front::Http(http) => {
                let service = service_fn(move |request: Request<Incoming>| {
                    was_asked.store(true, Ordering::Release);
                    let http = http.clone();
                    async move { Ok::<_, Infallible>(http.respond(request).await) }
                });
                // The HTTP/1 implementation limits the time for headers itself.
                let stream = TimedStream::new(stream, 0, gate.limits.body_time);
                let connection = http1(&gate).serve_connection(TokioIo::new(stream), service);
                self.watcher.watch(connection).await
            }
            Front::Grpc(grpc) => {
                let service = service_fn(move |request: Request<Incoming>| {
                    was_asked.store(true, Ordering::Release);
                    let grpc = grpc.clone();
                    async move { Ok::<_, Infallible>(grpc.respond(request).await) }
                });
                let stream = TimedStream::new(stream, PREFACE, gate.limits.body_time);
                let connection = http2(&gate).serve_connection(TokioIo::new(stream), service);
                self.watcher.watch(connection).await
            }
        };
        if let Err(error) = ended {
            tracing::debug!("a connection ended: {error}");
        }
    }
}

fn http1(gate: &Gate) -> http1::Builder {
    let mut builder = http1::Builder::new();
    builder
        .timer(TokioTimer::new())
        .header_read_timeout(gate.limits.header_time)
        .max_header_size(gate.limits.header_bytes);
    builder
}

fn http2(gate: &Gate) -> http2::Builder<TokioExecutor> {
    let mut builder = http2::Builder::new(TokioExecutor::new());
    builder
        .timer(TokioTimer::new())
        .max_header_list_size(u32::try_from(gate.limits.header_bytes).unwrap_or(u32::MAX))
        .max_concurrent_streams(STREAMS)
        .adaptive_window(true)
        .keep_alive_interval(gate.limits.header_time)
        .keep_alive_timeout(gate.limits.header_time);
    builder
}
