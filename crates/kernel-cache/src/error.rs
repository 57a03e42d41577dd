//! The errors a cache returns: [`CacheError`]s, and failures of the caller's own compile.

use std::io::ErrorKind;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crate::key::CacheKey;

/// An error of this crate. Each variant names its code.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CacheError {
    /// E0701: the compile panicked; the key can be retried at once.
    #[error("compiling {key} panicked: {message}")]
    Panicked {
        /// What was compiled.
        key: CacheKey,
        /// The panic's message.
        message: String,
    },

    /// E0702: another caller's compile takes longer than this caller is willing to wait.
    #[error("waited {limit:?} for another compile of {key}; wait longer, or continue without it")]
    Timeout {
        /// The key.
        key: CacheKey,
        /// How long the caller waited.
        limit: Duration,
    },

    /// E0703: the wait was cancelled.
    #[error("waiting for the compile of {key} was cancelled")]
    Cancelled {
        /// The key.
        key: CacheKey,
    },

    /// E0704: the compile was given up without a result; the key can be retried at once.
    #[error("the compile of {key} was abandoned; request it again")]
    Abandoned {
        /// The key.
        key: CacheKey,
    },

    /// E0705: the folder cannot be used.
    #[error("cannot use the cache folder {path:?}: {problem}")]
    Folder {
        /// The folder.
        path: PathBuf,
        /// The reason.
        problem: FolderProblem,
    },

    /// E0706: a system error while the folder was scanned.
    #[error("{doing} failed in the cache folder {path:?}: {message}")]
    Io {
        /// The folder.
        path: PathBuf,
        /// The failed operation.
        doing: &'static str,
        /// The system's message.
        message: String,
    },

    /// E0707: a bundle changed since it was written.
    #[error("the bundle {path:?} is damaged: {part}: {problem}; copy or rebuild it")]
    Bundle {
        /// The file.
        path: PathBuf,
        /// The affected part.
        part: String,
        /// What is wrong.
        problem: String,
    },

    /// E0710: an untrusted key file.
    #[error("cannot use the cache key {path:?}: {problem}")]
    KeyFile {
        /// The file.
        path: PathBuf,
        /// The reason.
        problem: String,
    },

    /// E0708: a bundle in a different format.
    #[error(
        "expected a bundle of format {expected}, found format {found} in {path:?}; rebuild it with this version of Kiln"
    )]
    BundleFormat {
        /// The file.
        path: PathBuf,
        /// This format.
        expected: u32,
        /// The bundle's.
        found: u32,
    },

    /// E0711: a bundle not sealed with the given key.
    #[error(
        "expected {path:?} to be a bundle sealed with the given key, found {found}; seal it with this key when it is made"
    )]
    BundleSeal {
        /// The file.
        path: PathBuf,
        /// The actual state of the seal.
        found: &'static str,
    },

    /// E0709: a bundle could not be read or written.
    #[error("{doing} the bundle {path:?} failed: {message}")]
    BundleIo {
        /// The file.
        path: PathBuf,
        /// The failed operation.
        doing: &'static str,
        /// The kind of error.
        kind: ErrorKind,
        /// The system's message.
        message: String,
    },
}

/// Why a caller has no value.
#[derive(Debug)]
pub enum Failure<E> {
    /// The compile failed.
    Compile {
        /// Its error.
        error: Arc<E>,
        /// The time until a retry; `None` if the compile ran just now.
        retry_in: Option<Duration>,
    },
    /// The failure is not that of a compile.
    Cache(CacheError),
}

/// Why a folder is rejected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FolderProblem {
    /// It does not exist.
    #[error("there is no such folder")]
    Missing,
    /// It is a link.
    #[error("it is a symbolic link; name the folder it points to")]
    Symlink,
    /// It is not a folder.
    #[error("expected a folder, found a {0}")]
    NotAFolder(&'static str),
    /// It belongs to another user.
    #[error("expected a folder of user {expected}, found one of user {found}; use another folder")]
    ForeignOwner {
        /// The user of this process.
        expected: u32,
        /// The owner.
        found: u32,
    },
    /// Other users may write to it.
    #[error("other users may write to it (mode {mode:03o}); `chmod 700` it")]
    WritableByOthers {
        /// Its mode.
        mode: u32,
    },
    /// A system error.
    #[error("{doing} failed: {message}")]
    Io {
        /// The failed operation.
        doing: &'static str,
        /// The kind of error.
        kind: ErrorKind,
        /// The system's message.
        message: String,
    },
}

impl CacheError {
    /// The error's stable code.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Panicked { .. } => "E0701",
            Self::Timeout { .. } => "E0702",
            Self::Cancelled { .. } => "E0703",
            Self::Abandoned { .. } => "E0704",
            Self::Folder { .. } => "E0705",
            Self::Io { .. } => "E0706",
            Self::Bundle { .. } => "E0707",
            Self::BundleFormat { .. } => "E0708",
            Self::BundleIo { .. } => "E0709",
            Self::KeyFile { .. } => "E0710",
            Self::BundleSeal { .. } => "E0711",
        }
    }
}

impl FolderProblem {
    /// Whether the folder is accessible but not trusted.
    pub fn is_refusal(&self) -> bool {
        matches!(
            self,
            Self::Symlink
                | Self::NotAFolder(_)
                | Self::ForeignOwner { .. }
                | Self::WritableByOthers { .. }
        )
    }

    pub(crate) fn io(doing: &'static str) -> impl FnOnce(std::io::Error) -> Self {
        move |error| match error.kind() {
            ErrorKind::NotFound => Self::Missing,
            kind => Self::Io {
                doing,
                kind,
                message: error.to_string(),
            },
        }
    }
}

impl<E> Clone for Failure<E> {
    fn clone(&self) -> Self {
        match self {
            Self::Compile { error, retry_in } => Self::Compile {
                error: Arc::clone(error),
                retry_in: *retry_in,
            },
            Self::Cache(error) => Self::Cache(error.clone()),
        }
    }
}

impl<E: std::fmt::Display> std::fmt::Display for Failure<E> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Compile {
                error,
                retry_in: None,
            } => write!(formatter, "{error}"),
            Self::Compile {
                error,
                retry_in: Some(time),
            } => write!(formatter, "{error} (as before; next attempt in {time:.1?})"),
            Self::Cache(error) => write!(formatter, "{error}"),
        }
    }
}

impl<E: std::fmt::Debug + std::fmt::Display> std::error::Error for Failure<E> {}

impl<E> From<CacheError> for Failure<E> {
    fn from(error: CacheError) -> Self {
        Self::Cache(error)
    }
}
