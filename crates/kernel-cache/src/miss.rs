//! Why something is not in a tier, and why something was not put there: reasons, none of them an error of the call.

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
    /// The file is shorter or longer than it says.
    #[error("expected {expected} bytes, found {found}")]
    Length {
        /// What it says.
        expected: u64,
        /// What it has.
        found: u64,
    },
    /// The file does not begin as an entry.
    #[error("the file is no cache entry")]
    NotAnEntry,
    /// Written in another format.
    #[error("expected format {expected}, found {found}")]
    Format {
        /// This format.
        expected: u32,
        /// The entry's.
        found: u32,
    },
    /// Written before everything was declared void.
    #[error("expected epoch {expected}, found {found}")]
    Epoch {
        /// The present one.
        expected: u32,
        /// The entry's.
        found: u32,
    },
    /// The entry is that of another key.
    #[error("expected the entry of {expected}, found that of {found}")]
    Key {
        /// The key.
        expected: KeyDigest,
        /// The entry's.
        found: KeyDigest,
    },
    /// The entry holds something else.
    #[error("expected a {expected}, found a {found:?}")]
    Kind {
        /// What was asked for.
        expected: EntryKind,
        /// What there is.
        found: String,
    },
    /// The digest is the same and a field of the key is not: two things share a key.
    #[error("the entry differs in {field}, which its key does not tell apart")]
    Field {
        /// The field.
        field: String,
    },
    /// The head of the entry has its digest and no sense.
    #[error("malformed head: {what}")]
    Head {
        /// What is wrong.
        what: &'static str,
    },
    /// The bytes are not those that were written.
    #[error("damaged: the digest of its {part} does not match")]
    Digest {
        /// Head or content.
        part: &'static str,
    },
    /// The entry is whole, and not signed with the key of this process.
    #[error("expected an entry that is signed with the cache key, found another")]
    Unauthenticated,
    /// Above the limit on one entry.
    #[error("the entry has {bytes} bytes, above the limit of {limit}")]
    TooLarge {
        /// Its size.
        bytes: u64,
        /// The limit.
        limit: u64,
    },
    /// A file that is not to be believed.
    #[error("refused: {0}")]
    Rejected(Rejection),
    /// The folder is not to be believed, or cannot be used.
    #[error(transparent)]
    Folder(#[from] FolderProblem),
    /// Reading failed.
    #[error("{doing} failed: {message}")]
    Io {
        /// What was being done.
        doing: &'static str,
        /// What kind of failure it was.
        kind: ErrorKind,
        /// The system's words.
        message: String,
    },
    /// The content was whole and gave no value.
    #[error("the content cannot be used: {message}")]
    Undecodable {
        /// The codec's words.
        message: String,
    },
    /// Another store could not be asked.
    #[error("unavailable: {message}")]
    Unavailable {
        /// Its words.
        message: String,
    },
}

/// What is wrong with a file that might hold an entry.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Rejection {
    /// A link, a folder, a pipe.
    #[error("expected a regular file, found a {0}")]
    NotRegular(&'static str),
    /// Another user's.
    #[error("expected a file of user {expected}, found one of user {found}")]
    ForeignOwner {
        /// Who we are.
        expected: u32,
        /// Whose it is.
        found: u32,
    },
    /// Others may write to it.
    #[error("others may write to it (mode {mode:03o})")]
    WritableByOthers {
        /// Its mode.
        mode: u32,
    },
    /// It has other names.
    #[error("it has {links} names, expected one")]
    HardLinks {
        /// How many.
        links: u64,
    },
}

/// Which counter a miss moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum MissCategory {
    /// Nothing was there.
    Absent,
    /// Damaged.
    Corrupt,
    /// Of another version.
    Skewed,
    /// Not believed: owner, mode, links, size, another key's.
    Rejected,
    /// The system failed.
    IoError,
}

/// A miss and the tier it is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TierMiss {
    /// The tier's name.
    pub tier: String,
    /// Why it has nothing.
    pub miss: Miss,
}

/// Why something was not put into a tier.
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
    /// The value has no bytes.
    #[error("the value cannot be stored: {message}")]
    Unencodable {
        /// The codec's words.
        message: String,
    },
    /// The folder is not to be believed, or cannot be used.
    #[error(transparent)]
    Folder(#[from] FolderProblem),
    /// Writing failed.
    #[error("{doing} failed: {message}")]
    Io {
        /// What was being done.
        doing: &'static str,
        /// What kind of failure it was.
        kind: ErrorKind,
        /// The system's words.
        message: String,
    },
    /// Data, under the kind of code.
    #[error("expected compiled code under the key of a kernel, found data")]
    NotCode,
    /// The tier takes nothing.
    #[error("the tier is read-only")]
    ReadOnly,
    /// Another store could not be asked.
    #[error("unavailable: {message}")]
    Unavailable {
        /// Its words.
        message: String,
    },
}

impl Miss {
    /// Which counter it moves.
    pub fn category(&self) -> MissCategory {
        match self {
            Self::Absent => MissCategory::Absent,
            Self::Length { .. }
            | Self::NotAnEntry
            | Self::Head { .. }
            | Self::Digest { .. }
            | Self::Undecodable { .. } => MissCategory::Corrupt,
            Self::Format { .. } | Self::Epoch { .. } => MissCategory::Skewed,
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
