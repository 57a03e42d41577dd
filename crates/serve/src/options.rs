//! Settings of the server and of the repository, with defaults that are safe on a shared machine.

use crate::error::ServeError;
use kiln::{Compiling, Options, OutputPlacement, SealKey};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How a server listens, what it accepts, and when it gives up.
#[derive(Clone, Debug)]
pub struct ServerOptions {
    /// The address on which HTTP is served; HTTP is off if unset. Port 0 is any free port. Port 8000 of the loopback
    /// interface by default.
    pub http: Option<SocketAddr>,
    /// The address on which gRPC is served; gRPC is off if unset. Port 8001 of the loopback interface by default.
    pub grpc: Option<SocketAddr>,
    /// The secret that requests must present, if there is one. Health checks do not need it.
    pub token: Option<Token>,
    /// Certificate and key for encrypted connections; connections are not encrypted if unset.
    #[cfg(feature = "tls")]
    pub tls: Option<TlsFiles>,
    /// Whether clients may load and unload models. True by default.
    pub model_control: bool,
    /// Limits on requests and connections.
    pub limits: ServerLimits,
    /// How long a server that is shutting down still accepts requests, while it reports that it is not ready; zero by
    /// default.
    pub drain_delay: Duration,
    /// How long a server that is shutting down waits for pending requests; 30 s by default. The remaining ones are then
    /// cancelled.
    pub drain: Duration,
}

impl Default for ServerOptions {
    fn default() -> Self {
        let loopback = |port| Some(SocketAddr::from((Ipv4Addr::LOCALHOST, port)));
        Self {
            http: loopback(8000),
            grpc: loopback(8001),
            token: None,
            #[cfg(feature = "tls")]
            tls: None,
            model_control: true,
            limits: ServerLimits::default(),
            drain_delay: Duration::ZERO,
            drain: Duration::from_secs(30),
        }
    }
}

/// The limits of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerLimits {
    /// Bytes of one request's body, decompressed: 64 MiB.
    pub body_bytes: usize,
    /// Bytes of the bodies of all requests together: 1 GiB.
    pub buffered_bytes: usize,
    /// Bytes of one request's headers: 16 KiB.
    pub header_bytes: usize,
    /// Time in which the headers of a request must arrive: 30 s.
    pub header_time: Duration,
    /// Time in which the body of a request must arrive, and in which a client must read at least part of the data sent
    /// to it: 60 s.
    pub body_time: Duration,
    /// Concurrent connections: 1024.
    pub connections: usize,
    /// Concurrent requests, waiting or running, of all models: 512.
    pub requests: usize,
}

impl Default for ServerLimits {
    fn default() -> Self {
        Self {
            body_bytes: 64 << 20,
            buffered_bytes: 1 << 30,
            header_bytes: 16 << 10,
            header_time: Duration::from_secs(30),
            body_time: Duration::from_secs(60),
            connections: 1024,
            requests: 512,
        }
    }
}

impl ServerOptions {
    /// # Errors
    /// E1530 for an invalid setting.
    pub(crate) fn check(&self) -> Result<(), ServeError> {
        let limits = &self.limits;
        let counts = [
            ("limits.body_bytes", limits.body_bytes),
            ("limits.buffered_bytes", limits.buffered_bytes),
            ("limits.connections", limits.connections),
            ("limits.requests", limits.requests),
            ("limits.header_bytes", limits.header_bytes),
        ];
        for (name, count) in counts {
            at_least(name, "a positive number", count, 1)?;
        }
        if self.http.is_none() && self.grpc.is_none() {
            return Err(ServeError::Setting {
                name: "http, grpc",
                expected: "an address for one of them",
                found: "none".to_owned(),
            });
        }
        Ok(())
    }
}

pub(crate) fn at_least(
    name: &'static str,
    expected: &'static str,
    found: usize,
    least: usize,
) -> Result<(), ServeError> {
    if found >= least {
        return Ok(());
    }
    Err(ServeError::Setting {
        name,
        expected,
        found: found.to_string(),
    })
}

/// A secret that requests present as `authorization: Bearer TOKEN`.
#[derive(Clone)]
pub struct Token(String);

impl Token {
    /// The minimum number of characters of a token.
    const LEAST: usize = 16;

    /// The token in a file, without the line break at its end.
    ///
    /// # Errors
    /// E1532 when the file cannot be read, has fewer than 16 characters, or has characters other than visible ASCII.
    pub fn read(path: impl AsRef<Path>) -> Result<Self, ServeError> {
        let path = path.as_ref();
        let unusable = |problem: String| ServeError::File {
            path: path.to_owned(),
            problem,
        };
        let text = std::fs::read_to_string(path).map_err(|error| unusable(error.to_string()))?;
        let text = text.trim_end_matches(['\n', '\r']);
        if text.len() < Self::LEAST || !text.bytes().all(|byte| byte.is_ascii_graphic()) {
            let problem = format!(
                "expected a token of at least {} visible ASCII characters",
                Self::LEAST
            );
            return Err(unusable(problem));
        }
        Ok(Self(text.to_owned()))
    }

    /// Whether `given` is the token, compared in constant time: the time does not depend on where they differ.
    pub(crate) fn is(&self, given: &str) -> bool {
        let (own, given) = (self.0.as_bytes(), given.as_bytes());
        let differences = own
            .iter()
            .zip(given)
            .fold(0, |all, (own, given)| all | (own ^ given));
        own.len() == given.len() && std::hint::black_box(differences) == 0
    }
}

impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Token(..)")
    }
}

/// Files in PEM form, for encrypted connections.
#[cfg(feature = "tls")]
#[derive(Clone, Debug)]
pub struct TlsFiles {
    /// The certificate, followed by the intermediate certificates up to its root.
    pub certificates: PathBuf,
    /// The certificate's private key.
    pub key: PathBuf,
}

/// Which models there are, and how they are loaded unless their `config.json` says otherwise.
#[derive(Clone, Debug)]
pub struct RepositoryOptions {
    /// The location of the models.
    pub models: Models,
    /// How models are loaded: the cache, stores, limits, device and so on; except for the settings in `compiling`.
    pub loading: Options,
    /// When, where and for how long kernels are compiled.
    pub compiling: Compiling,
    /// The key that bundles were sealed with; without it, bundles are refused.
    pub bundle_key: Option<SealKey>,
    /// How requests wait and are joined.
    pub serving: ServingDefaults,
    /// How many models are loaded concurrently: 2.
    pub loads: usize,
}

/// A folder of models, or one model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Models {
    /// A folder that contains a folder for each model, named after it, which contains a numbered folder for each
    /// version: `NAME/VERSION/model.onnx`, and `NAME/config.json` beside the versions.
    Folder(PathBuf),
    /// A single model, as version 1.
    File {
        /// The model's file.
        path: PathBuf,
        /// The name under which it is served.
        name: String,
        /// The file with its configuration, if there is one.
        config: Option<PathBuf>,
    },
}

impl RepositoryOptions {
    /// The default options for these models. Outputs are copied to the host by the call that computes them.
    pub fn new(models: Models) -> Self {
        Self {
            models,
            loading: Options::new().outputs(OutputPlacement::Host),
            compiling: Compiling::default(),
            bundle_key: None,
            serving: ServingDefaults::default(),
            loads: 2,
        }
    }
}

/// How requests of a model wait and are joined, unless its configuration says otherwise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServingDefaults {
    /// How many requests may wait for a model: 256.
    pub queue: usize,
    /// How many calls of a model run concurrently: 2. Each uses all threads that its options allow; a second call
    /// computes while the first waits for its slowest thread, or while its requests are joined or split.
    pub calls: usize,
    /// How long a request may take, including waiting, unless it sets a shorter limit: 60 s.
    pub timeout: Duration,
    /// Whether requests are joined if that is proved to be legal. True by default.
    pub batching: bool,
    /// The maximum size of the batch symbol in a joined call: 8. A larger one helps models whose calls are short; if
    /// calls take milliseconds, it makes requests wait for each other.
    pub max_batch: usize,
    /// How long a request waits for others to join it: 2 ms.
    pub max_delay: Duration,
}

impl Default for ServingDefaults {
    fn default() -> Self {
        Self {
            queue: 256,
            calls: 2,
            timeout: Duration::from_secs(60),
            batching: true,
            max_batch: 8,
            max_delay: Duration::from_millis(2),
        }
    }
}
