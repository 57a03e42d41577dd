//! `kiln serve`: serves models over HTTP and gRPC, until a signal stops it.

mod traces;

use crate::model::ModelArguments;
use crate::report::{self, Failures};
use anyhow::{Context, Error};
use clap::Args;
use kiln_serve::{
    ModelState, Models, Repository, Server, ServerOptions, ServingDefaults, TlsFiles, Token,
};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process;
use std::str::FromStr;
use std::time::Duration;

/// A shell's exit status for a command ended by a second signal.
const ENDED_BY_SIGNAL: i32 = 130;

/// What the help says after the options.
const HELP: &str = "\
MODEL is a single model, or a folder with one folder per model:
  NAME/VERSION/model.onnx    or model.kiln, model.kiln-bundle (with --bundle-key), model.json (a blueprint)
  NAME/config.json           how it is loaded, and how its requests are queued and batched
The protocol is the Open Inference Protocol (version 2), which Triton and KServe also use. The page at / shows the
models; /metrics is for Prometheus. The addresses are printed first: `http ADDRESS`, `grpc ADDRESS`. On the first
SIGTERM or Ctrl-C, the server answers the requests that it has accepted, and exits; on the second, it exits at once.";

/// Serves models over HTTP and gRPC.
#[derive(Args, Debug)]
#[command(after_help = HELP)]
pub(crate) struct Serve {
    #[command(flatten)]
    model: ModelArguments,
    /// The name of the model, if MODEL is a single model; by default, that of the file
    #[arg(long)]
    name: Option<String>,
    /// The configuration of the model, a config.json, if MODEL is a single model
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// The address to serve HTTP on; `off` for none. Port 0 selects a free port, which is printed
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8000")]
    http: Address,
    /// The address to serve gRPC on; `off` for none
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8001")]
    grpc: Address,
    /// A file with a secret of at least 16 characters that requests must send, as `authorization: Bearer SECRET`
    #[arg(long, value_name = "FILE")]
    token: Option<PathBuf>,
    /// The certificate for TLS, with its chain, in PEM format
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_certificate: Option<PathBuf>,
    /// The private key of the certificate, in PEM format
    #[arg(long, value_name = "FILE", requires = "tls_certificate")]
    tls_key: Option<PathBuf>,
    /// Do not let clients load and unload models
    #[arg(long)]
    no_model_control: bool,
    #[command(flatten)]
    traces: TraceArguments,
    #[command(flatten)]
    limits: LimitArguments,
    #[command(flatten)]
    serving: ServingArguments,
    /// How many milliseconds the server still accepts requests once told to stop, while it reports that it is not ready
    #[arg(long, value_name = "MS", default_value_t = 0)]
    drain_delay: u64,
    /// How many milliseconds the server then waits for the remaining requests
    #[arg(long, value_name = "MS", default_value_t = 30_000)]
    drain: u64,
}

/// Where spans are sent.
#[derive(Args, Debug)]
pub(crate) struct TraceArguments {
    /// Send spans to the OpenTelemetry collector at this URL, such as http://127.0.0.1:4318/v1/traces
    #[arg(long, value_name = "URL")]
    traces: Option<String>,
    /// Of the traces that begin in this server, the share to send, from 0 to 1
    #[arg(long, value_name = "PART", default_value_t = 1.0, requires = "traces")]
    trace_sample: f64,
}

/// The limits of the server.
#[derive(Args, Debug)]
struct LimitArguments {
    /// Maximum size of one request, in MiB
    #[arg(long, value_name = "MIB", default_value_t = 64)]
    max_body: usize,
    /// Maximum size of all requests together, in MiB
    #[arg(long, value_name = "MIB", default_value_t = 1024)]
    max_buffered: usize,
    /// Maximum number of requests at one time, waiting or running
    #[arg(long, value_name = "N", default_value_t = 512)]
    max_requests: usize,
    /// Maximum number of connections at one time
    #[arg(long, value_name = "N", default_value_t = 1024)]
    max_connections: usize,
}

/// How requests are queued and batched, unless a model's configuration says otherwise.
#[derive(Args, Debug)]
struct ServingArguments {
    /// How many requests may wait for a model
    #[arg(long, value_name = "N", default_value_t = 256)]
    queue: usize,
    /// How many calls of a model run concurrently
    #[arg(long, value_name = "N", default_value_t = 2)]
    calls: usize,
    /// How many milliseconds a request may take
    #[arg(long, value_name = "MS", default_value_t = 60_000)]
    timeout: u64,
    /// Do not batch requests
    #[arg(long)]
    no_batching: bool,
    /// Maximum size of the batch symbol in a batched call
    #[arg(long, value_name = "N", default_value_t = 8)]
    max_batch: usize,
    /// How many milliseconds a request waits for others to batch with
    #[arg(long, value_name = "MS", default_value_t = 2.0)]
    max_delay: f64,
    /// How many models are loaded concurrently
    #[arg(long, value_name = "N", default_value_t = 2)]
    loads: usize,
}

/// An address to listen on, or none.
#[derive(Clone, Copy, Debug)]
struct Address(Option<SocketAddr>);

impl FromStr for Address {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        if text == "off" {
            return Ok(Self(None));
        }
        let address = text.parse();
        let address = address.context("expected ADDRESS:PORT, such as 127.0.0.1:8000, or `off`")?;
        Ok(Self(Some(address)))
    }
}

impl Serve {
    pub(crate) fn run(self) -> Result<Failures, Error> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .enable_all()
            .build()?;
        let traces = {
            let _entered = runtime.enter();
            traces::start(&self.traces)?
        };
        let served = runtime.block_on(self.serve());
        // Before the runtime ends, which sends them.
        traces.finish();
        served?;
        // Work that blocks, such as loading a model, ends with the process.
        runtime.shutdown_background();
        Ok(Failures::default())
    }

    async fn serve(&self) -> Result<(), Error> {
        // Before anything can take long.
        let mut signals = Signals::new()?;
        let mut options = self.model.repository(|path| self.models(path))?;
        options.serving = self.serving.defaults()?;
        options.loads = self.serving.loads;
        let repository = Repository::open(options)?;
        let server = Server::start(repository.clone(), self.options()?).await?;
        if let Some(address) = server.http_address() {
            report::line(format!("http {address}"))?;
        }
        if let Some(address) = server.grpc_address() {
            report::line(format!("grpc {address}"))?;
        }
        tokio::select! {
            () = signals.next() => {}
            loaded = say_when_loaded(&repository) => {
                loaded?;
                signals.next().await;
            }
        }
        report::note("ending; a second signal ends at once");
        tokio::select! {
            () = signals.next() => process::exit(ENDED_BY_SIGNAL),
            all_answered = server.shutdown() => {
                if !all_answered {
                    report::note("warning: requests were cut off");
                }
            }
        }
        Ok(())
    }

    fn models(&self, path: &Path) -> Result<Models, Error> {
        if path.is_dir() {
            anyhow::ensure!(
                self.name.is_none() && self.config.is_none(),
                "`--name` and `--config` are for one model, and {} is a folder of models",
                path.display()
            );
            return Ok(Models::Folder(path.to_owned()));
        }
        let name = match &self.name {
            Some(name) => name.clone(),
            None => {
                let stem = path
                    .file_stem()
                    .context("expected a model or a folder of models")?;
                stem.to_string_lossy().into_owned()
            }
        };
        Ok(Models::File {
            path: path.to_owned(),
            name,
            config: self.config.clone(),
        })
    }

    fn options(&self) -> Result<ServerOptions, Error> {
        let mut options = ServerOptions {
            http: self.http.0,
            grpc: self.grpc.0,
            model_control: !self.no_model_control,
            drain_delay: Duration::from_millis(self.drain_delay),
            drain: Duration::from_millis(self.drain),
            ..ServerOptions::default()
        };
        options.token = self.token.as_ref().map(Token::read).transpose()?;
        if let (Some(certificates), Some(key)) = (&self.tls_certificate, &self.tls_key) {
            options.tls = Some(TlsFiles {
                certificates: certificates.clone(),
                key: key.clone(),
            });
        }
        let limits = &mut options.limits;
        limits.body_bytes = self.limits.max_body.saturating_mul(1 << 20);
        limits.buffered_bytes = self.limits.max_buffered.saturating_mul(1 << 20);
        limits.requests = self.limits.max_requests;
        limits.connections = self.limits.max_connections;
        Ok(options)
    }
}

impl ServingArguments {
    fn defaults(&self) -> Result<ServingDefaults, Error> {
        let max_delay = Duration::try_from_secs_f64(self.max_delay / 1e3);
        Ok(ServingDefaults {
            queue: self.queue,
            calls: self.calls,
            timeout: Duration::from_millis(self.timeout),
            batching: !self.no_batching,
            max_batch: self.max_batch,
            max_delay: max_delay.context("--max-delay: expected milliseconds")?,
        })
    }
}

/// Reports the state of each model once all are loaded, or could not be.
async fn say_when_loaded(repository: &Repository) -> Result<(), Error> {
    repository.loaded().await;
    for status in repository.index().await? {
        let (model, version) = (&status.model, &status.version);
        match status.state {
            ModelState::Ready => report::note(format!("ready: {model}/{version}")),
            _ => report::note(format!("not ready: {model}/{version}: {}", status.reason)),
        }
    }
    Ok(())
}

/// The signals that ask the process to end.
struct Signals {
    #[cfg(unix)]
    terminate: tokio::signal::unix::Signal,
    #[cfg(unix)]
    interrupt: tokio::signal::unix::Signal,
}

impl Signals {
    fn new() -> Result<Self, Error> {
        #[cfg(unix)]
        {
            use tokio::signal::unix::{SignalKind, signal};
            Ok(Self {
                terminate: signal(SignalKind::terminate())?,
                interrupt: signal(SignalKind::interrupt())?,
            })
        }
        #[cfg(not(unix))]
        Ok(Self {})
    }

    /// Waits for the next one.
    async fn next(&mut self) {
        #[cfg(unix)]
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
        #[cfg(not(unix))]
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}
