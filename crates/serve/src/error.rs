//! The crate's error: why a request was not answered, a model not loaded, or a server not started.
//!
//! *Invariant:* names that come from requests or folders are escaped in every message.

use http::HeaderValue;
use kiln::ErrorKind;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Why something could not be done. Each variant names its code.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// E1501: a request that violates the protocol.
    #[error("{what}: {problem}")]
    Malformed {
        /// The part of the request.
        what: &'static str,
        /// What was expected, and what was found.
        problem: String,
    },
    /// E1502: a tensor of a request that is missing, unknown, given twice, or whose data do not fit its shape.
    #[error("{what} {name}: expected {expected}, found {found}")]
    Tensor {
        /// Input or output.
        what: &'static str,
        /// Its name.
        name: String,
        /// What it should be.
        expected: String,
        /// What it is.
        found: String,
    },
    /// E1503: a model or version that the repository does not have.
    #[error("no model `{name}`{version}; known models: {known}")]
    UnknownModel {
        /// The requested name.
        name: String,
        /// The requested version, in words; empty for any.
        version: String,
        /// The names of the repository, or some of them.
        known: String,
    },
    /// E1504: a model that is loading, unloaded, or failed to load.
    #[error("model {name} is not ready: {reason}")]
    NotReady {
        /// The model and its version.
        name: String,
        /// Its state, and why.
        reason: String,
    },
    /// E1505: too many requests wait for a model.
    #[error("{waiting} requests wait for model {name}, the limit is {limit}; retry later")]
    QueueFull {
        /// The model.
        name: String,
        /// How many wait.
        waiting: usize,
        /// The limit.
        limit: usize,
    },
    /// E1506: the server is at its limit of requests, or of bytes of requests.
    #[error("the server has {limit} {what}, its limit; retry later")]
    Overloaded {
        /// What is counted.
        what: &'static str,
        /// The limit.
        limit: usize,
    },
    /// E1507: the request was not answered in time.
    #[error("no answer within {limit:?}; allow more time, or retry when the server has less to do")]
    Deadline {
        /// The time that was allowed.
        limit: Duration,
    },
    /// E1508: the server is shutting down, or the model is being unloaded.
    #[error("{what} is shutting down; send the request to another server")]
    Draining {
        /// The server or the model.
        what: String,
    },
    /// E1509: a request, or a part of it, that is larger than the limit.
    #[error("{what}: expected at most {limit} bytes, found {found}")]
    TooLarge {
        /// The part.
        what: &'static str,
        /// The limit.
        limit: usize,
        /// How large it is, as far as is known.
        found: String,
    },
    /// E1510: a request without the server's token.
    #[error("expected the server's token in `authorization: Bearer TOKEN`, found {found}")]
    Unauthorized {
        /// What was found instead.
        found: &'static str,
    },
    /// E1511: a request that the server's settings forbid.
    #[error("{what} is not allowed: {why}")]
    Forbidden {
        /// What was requested.
        what: &'static str,
        /// Which setting forbids it.
        why: &'static str,
    },
    /// E1512: a feature of the protocol that Kiln does not support.
    #[error("{what} is not supported; {next}")]
    Unsupported {
        /// What was requested.
        what: String,
        /// What to do instead.
        next: &'static str,
    },
    /// E1513: a path or method that does not exist.
    #[error(
        "nothing is at {method} {path}; the paths are those of the Open Inference Protocol, beneath /v2"
    )]
    NotFound {
        /// The method.
        method: String,
        /// The path.
        path: String,
    },
    /// E1520: a model that could not be loaded.
    #[error("cannot load {file}: [{code}] {cause}")]
    Load {
        /// The model's file.
        file: String,
        /// The code of the cause.
        code: &'static str,
        /// What the layer below reports.
        cause: String,
    },
    /// E1521: a folder of the repository that is not laid out as one.
    #[error("{path}: {problem}")]
    Layout {
        /// The file or folder.
        path: String,
        /// What was expected, and what was found.
        problem: String,
    },
    /// E1522: a model's `config.json` that cannot be used.
    #[error("{path}: {problem}")]
    Config {
        /// The file.
        path: String,
        /// What was expected, and what was found.
        problem: String,
    },
    /// E1523: a configuration that requests batching for a model whose results for a request depend on the rest of the
    /// batch.
    #[error("requests cannot be batched: {reason}; set `batching.enabled` to false in {path}")]
    NotIndependent {
        /// Why it cannot be batched.
        reason: String,
        /// The configuration.
        path: String,
    },
    /// E1530: an invalid setting of the server.
    #[error("setting {name}: expected {expected}, found {found}")]
    Setting {
        /// The setting.
        name: &'static str,
        /// What it takes.
        expected: &'static str,
        /// What it was given.
        found: String,
    },
    /// E1531: an address on which the server cannot listen.
    #[error("cannot listen on {address}: {source}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The system's error.
        source: std::io::Error,
    },
    /// E1532: a file of the server, such as a certificate, that cannot be used.
    #[error("cannot use {path}: {problem}")]
    File {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
    /// E1533: the system could not start a thread.
    #[error("cannot start a thread for model {name}: {source}")]
    Thread {
        /// The model.
        name: String,
        /// The system's error.
        source: std::io::Error,
    },
    /// E1534: the work of a request panicked: a defect.
    #[error("{doing} panicked; this is a defect: report it with the model")]
    Panicked {
        /// What was being done.
        doing: &'static str,
    },
    /// The code of the layer below: a call of a model failed.
    #[error(transparent)]
    Call(#[from] kiln::Error),
    /// The same error, returned to several requests.
    #[error(transparent)]
    Shared(#[from] Arc<ServeError>),
}

/// The kind of failure, which determines the status in HTTP and gRPC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Class {
    Invalid,
    NotFound,
    Unavailable,
    Exhausted,
    Deadline,
    Cancelled,
    TooLarge,
    Unauthenticated,
    Forbidden,
    Unsupported,
    Internal,
}

impl ServeError {
    /// The stable code, documented in the book's error reference; for a failed call, that of the layer that failed.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Malformed { .. } => "E1501",
            Self::Tensor { .. } => "E1502",
            Self::UnknownModel { .. } => "E1503",
            Self::NotReady { .. } => "E1504",
            Self::QueueFull { .. } => "E1505",
            Self::Overloaded { .. } => "E1506",
            Self::Deadline { .. } => "E1507",
            Self::Draining { .. } => "E1508",
            Self::TooLarge { .. } => "E1509",
            Self::Unauthorized { .. } => "E1510",
            Self::Forbidden { .. } => "E1511",
            Self::Unsupported { .. } => "E1512",
            Self::NotFound { .. } => "E1513",
            Self::Load { .. } => "E1520",
            Self::Layout { .. } => "E1521",
            Self::Config { .. } => "E1522",
            Self::NotIndependent { .. } => "E1523",
            Self::Setting { .. } => "E1530",
            Self::Listen { .. } => "E1531",
            Self::File { .. } => "E1532",
            Self::Thread { .. } => "E1533",
            Self::Panicked { .. } => "E1534",
            Self::Call(error) => error.code(),
            Self::Shared(error) => error.code(),
        }
    }

    pub(crate) fn class(&self) -> Class {
        match self {
            Self::Malformed { .. } | Self::Tensor { .. } => Class::Invalid,
            Self::UnknownModel { .. } | Self::NotFound { .. } => Class::NotFound,
            Self::NotReady { .. } | Self::Draining { .. } => Class::Unavailable,
            Self::QueueFull { .. } | Self::Overloaded { .. } => Class::Exhausted,
            Self::Deadline { .. } => Class::Deadline,
            Self::TooLarge { .. } => Class::TooLarge,
            Self::Unauthorized { .. } => Class::Unauthenticated,
            Self::Forbidden { .. } => Class::Forbidden,
            Self::Unsupported { .. } => Class::Unsupported,
            // The model's files belong to the operator, and stay wrong until they are changed.
            Self::Load { .. }
            | Self::Layout { .. }
            | Self::Config { .. }
            | Self::NotIndependent { .. } => Class::Unavailable,
            Self::Setting { .. } | Self::Listen { .. } | Self::File { .. } => Class::Internal,
            Self::Thread { .. } => Class::Exhausted,
            Self::Panicked { .. } => Class::Internal,
            Self::Call(error) => class_of_call(error),
            Self::Shared(error) => error.class(),
        }
    }

    pub(crate) fn malformed(what: &'static str, problem: impl Into<String>) -> Self {
        Self::Malformed {
            what,
            problem: problem.into(),
        }
    }

    pub(crate) fn layout(path: &std::path::Path, problem: impl Into<String>) -> Self {
        Self::Layout {
            path: shown(path),
            problem: problem.into(),
        }
    }
}

fn class_of_call(error: &kiln::Error) -> Class {
    match error.kind() {
        ErrorKind::InvalidInput => Class::Invalid,
        ErrorKind::Unsupported => Class::Unsupported,
        ErrorKind::Limit => Class::TooLarge,
        ErrorKind::Resource => Class::Exhausted,
        ErrorKind::Environment => Class::Unavailable,
        ErrorKind::Cancelled => Class::Cancelled,
        _ => Class::Internal,
    }
}

/// The most characters of a request's text in a message.
const EXCERPT: usize = 200;

/// The beginning of a text from a request, escaped for a message.
pub(crate) fn excerpt(text: &str) -> String {
    let beginning: String = text.chars().take(EXCERPT).collect();
    beginning.escape_debug().to_string()
}

/// The beginning of a header's value, escaped for a message.
pub(crate) fn excerpt_of_header(value: &HeaderValue) -> String {
    excerpt(&String::from_utf8_lossy(value.as_bytes()))
}

/// A path for a message.
pub(crate) fn shown(path: &std::path::Path) -> String {
    path.to_string_lossy().escape_debug().to_string()
}
