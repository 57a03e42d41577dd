//! Errors in naming events and writing reports.

/// An error of this crate. Each variant names its code.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TimingError {
    /// E0750: no such category.
    #[error("expected a category of {expected}, found `{found}`")]
    UnknownCategory {
        /// The given name.
        found: String,
        /// The existing categories.
        expected: String,
    },

    /// E0751: no event was registered under this name.
    #[error("expected a registered event, found `{found}`; registered are {expected}")]
    UnknownEvent {
        /// The given name.
        found: String,
        /// The registered events, truncated if there are many.
        expected: String,
    },

    /// E0752: the name is taken by another event.
    #[error(
        "the event `{name}` is already {registered}, and cannot become {given}; choose another name"
    )]
    EventTaken {
        /// The name.
        name: String,
        /// Its existing meaning: category and description.
        registered: String,
        /// The requested meaning.
        given: String,
    },

    /// E0753: an invalid name.
    #[error(
        "expected an event's name of 1 to {limit} bytes without control characters, found `{found}`"
    )]
    EventName {
        /// The given name, or its beginning.
        found: String,
        /// The maximum number of bytes.
        limit: usize,
    },

    /// E0754: no such verbosity.
    #[error("expected a verbosity of {expected}, found `{found}`")]
    UnknownVerbosity {
        /// The given name.
        found: String,
        /// The existing levels.
        expected: String,
    },

    /// E0755: too many events.
    #[error(
        "expected at most {limit} events, found one more: `{name}`; give many functions one event"
    )]
    TooManyEvents {
        /// The rejected name.
        name: String,
        /// The maximum number.
        limit: usize,
    },

    /// E0756: a report or trace could not be written, or read.
    #[error("cannot {doing}: {source}")]
    Json {
        /// The operation.
        doing: &'static str,
        /// The reason.
        source: serde_json::Error,
    },

    /// E0757: a report of a different version.
    #[error(
        "expected a report of version {expected}, found version {found}; read it with the Kiln that wrote it"
    )]
    ReportVersion {
        /// The version that this crate reads.
        expected: u32,
        /// The report's.
        found: u32,
    },
}

impl TimingError {
    /// The stable code of this error.
    pub fn code(&self) -> &'static str {
        match self {
            Self::UnknownCategory { .. } => "E0750",
            Self::UnknownEvent { .. } => "E0751",
            Self::EventTaken { .. } => "E0752",
            Self::EventName { .. } => "E0753",
            Self::UnknownVerbosity { .. } => "E0754",
            Self::TooManyEvents { .. } => "E0755",
            Self::Json { .. } => "E0756",
            Self::ReportVersion { .. } => "E0757",
        }
    }
}
