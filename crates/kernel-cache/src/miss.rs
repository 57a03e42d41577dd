//! Why an entry is not in a tier, and why one was not stored: reasons, never errors of the call.

use std::fmt;
use std::io::ErrorKind;

use crate::error::FolderProblem;
use crate::key::{EntryKind, KeyDigest};

/// Why a tier has no entry for a key.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Miss {
    /// Nothing is stored under the key.
    #[error("no such entry")]
    Absent,
    /// The length of the file does not match its prelude.
    #[error("expected {expected} bytes, found {found}")]
    Length {
        /// The expected length.
        expected: u64,
        /// The actual length.
        found: u64,
    },
    /// The file does not begin with the magic number.
    #[error("the file is not a cache entry")]
    NotAnEntry,
    /// Written in a different format.
    #[error("expected format {expected}, found {found}")]
    Format {
        /// This format.
        expected: u32,
        /// The entry's.
        found: u32,
    },
    /// The entry belongs to another key.
    #[error("expected the entry of {expected}, found that of {found}")]
    Key {
        /// The key.
        expected: KeyDigest,
        /// The entry's.
        found: KeyDigest,
    },
    /// The entry has a different kind of content.
    #[error("expected a {expected}, found a {found:?}")]
    Kind {
        /// The requested kind.
        expected: EntryKind,
        /// The stored kind.
        found: String,
    },
    /// The digest is the same, but a field differs: two values share a key.
    #[error("the entry differs in {field}, which its key does not distinguish")]
    Field {
        /// The field.
        field: String,
    },
    /// The head matches its digest but is malformed.
    #[error("malformed head: {what}")]
    Head {
        /// What is wrong.
        what: &'static str,
    },
    /// The bytes changed after they were written.
    #[error("damaged: the digest of its {part} does not match")]
    Digest {
        /// Head or content.
        part: &'static str,
    },
    /// The entry is intact, but not signed with the key of this process.
    #[error("expected an entry signed with the cache key, found one that is not")]
    Unauthenticated,
    /// Above the limit on one entry.
    #[error("the entry has {bytes} bytes, above the limit of {limit}")]
    TooLarge {
        /// Its size.
        bytes: u64,
        /// The limit.
        limit: u64,
    },
    /// An untrusted file.
    #[error("refused: {0}")]
    Rejected(Rejection),
    /// The folder is untrusted or unusable.
    #[error(transparent)]
    Folder(#[from] FolderProblem),
    /// Reading failed.
    #[error("{doing} failed: {message}")]
    Io {
        /// The failed operation.
        doing: &'static str,
        /// The kind of error.
        kind: ErrorKind,
        /// The system's message.
        message: String,
    },
    /// The content is intact but could not be decoded.
    #[error("the content cannot be used: {message}")]
    Undecodable {
        /// The codec's message.
        message: String,
    },
    /// Another store could not be reached.
    #[error("unavailable: {message}")]
    Unavailable {
        /// Its message.
        message: String,
    },
}

/// Why a file is not accepted as an entry.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Rejection {
    /// A link, a folder, a pipe.
    #[error("expected a regular file, found a {0}")]
    NotRegular(&'static str),
    /// It belongs to another user.
    #[error("expected a file of user {expected}, found one of user {found}")]
    ForeignOwner {
        /// The user of this process.
        expected: u32,
        /// The owner.
        found: u32,
    },
    /// Other users may write to it.
    #[error("other users may write to it (mode {mode:03o})")]
    WritableByOthers {
        /// Its mode.
        mode: u32,
    },
    /// It has other hard links.
    #[error("it has {links} names, expected one")]
    HardLinks {
        /// How many.
        links: u64,
    },
}

/// The counter that a miss increments.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum MissCategory {
    /// No entry existed.
    Absent,
    /// Damaged.
    Corrupt,
    /// Of a different version.
    Skewed,
    /// Untrusted: owner, mode, links, size, another key.
    Rejected,
    /// A system error.
    IoError,
}

/// A miss and its tier.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TierMiss {
    /// The tier's name.
    pub tier: String,
    /// Why it has no entry.
    pub miss: Miss,
}

/// Why an entry was not stored in a tier.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NotStored {
    /// Above the limit on one entry.
    #[error("{bytes} bytes are above the limit of {limit}")]
    TooLarge {
        /// Its size.
        bytes: u64,
        /// The limit.
        limit: u64,
    },
    /// The value cannot be encoded.
    #[error("the value cannot be stored: {message}")]
    Unencodable {
        /// The codec's message.
        message: String,
    },
    /// The folder is untrusted or unusable.
    #[error(transparent)]
    Folder(#[from] FolderProblem),
    /// Writing failed.
    #[error("{doing} failed: {message}")]
    Io {
        /// The failed operation.
        doing: &'static str,
        /// The kind of error.
        kind: ErrorKind,
        /// The system's message.
        message: String,
    },
    /// Data under the kind of code.
    #[error("expected compiled code under the key of a kernel, found data")]
    NotCode,
    /// The tier is read-only.
    #[error("the tier is read-only")]
    ReadOnly,
    /// Another store could not be reached.
    #[error("unavailable: {message}")]
    Unavailable {
        /// Its message.
        message: String,
    },
}

impl Miss {
    /// The counter that it increments.
    pub fn category(&self) -> MissCategory {
        match self {
            Self::Absent => MissCategory::Absent,
            Self::Length { .. }
            | Self::NotAnEntry
            | Self::Head { .. }
            | Self::Digest { .. }
            | Self::Undecodable { .. } => MissCategory::Corrupt,
            Self::Format { .. } => MissCategory::Skewed,
            Self::Key { .. }
            | Self::Kind { .. }
            | Self::Field { .. }
            | Self::TooLarge { .. }
            | Self::Unauthenticated
            | Self::Rejected(_) => MissCategory::Rejected,
            Self::Folder(problem) if problem.is_refusal() => MissCategory::Rejected,
            Self::Folder(_) | Self::Io { .. } | Self::Unavailable { .. } => MissCategory::IoError,
        }
    }

    /// Whether the entry can never be a hit, so that it should be removed.
    pub(crate) fn is_about_the_entry(&self) -> bool {
        match self.category() {
            MissCategory::Corrupt | MissCategory::Skewed => true,
            MissCategory::Rejected => matches!(
                self,
                Self::Key { .. } | Self::Unauthenticated | Self::Rejected(_)
            ),
            MissCategory::Absent | MissCategory::IoError => false,
        }
    }

    pub(crate) fn io(doing: &'static str) -> impl FnOnce(std::io::Error) -> Self {
        move |error| match error.kind() {
            ErrorKind::NotFound => Self::Absent,
            kind => Self::Io {
                doing,
                kind,
                message: error.to_string(),
            },
        }
    }
}

impl NotStored {
    pub(crate) fn io(doing: &'static str) -> impl FnOnce(std::io::Error) -> Self {
        move |error| Self::Io {
            doing,
            kind: error.kind(),
            message: error.to_string(),
        }
    }
}

impl fmt::Display for TierMiss {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: {}", self.tier, self.miss)
    }
}
