//! Why a store cannot be opened: [`RemoteError`].

/// An error of this crate. Each variant names its code.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RemoteError {
    /// E0730: not the address of a store.
    #[error("cannot use {address:?} as a store: {problem}; expected an address such as {example}")]
    Address {
        /// The address, without any credentials.
        address: String,
        /// The reason.
        problem: String,
        /// An example of a valid address.
        example: &'static str,
    },

    /// E0731: this build cannot reach such stores.
    #[error(
        "this build cannot reach stores at `{scheme}:` addresses; build with the feature `{feature}` of {package}"
    )]
    NotBuiltIn {
        /// The scheme of the address.
        scheme: String,
        /// The missing feature.
        feature: &'static str,
        /// The package that has the feature.
        package: &'static str,
    },

    /// E0732: the system could not start the thread that communicates with the store.
    #[error("cannot start the thread that talks to the store: {message}")]
    Thread {
        /// The system's message.
        message: String,
    },
}

impl RemoteError {
    /// The stable code.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Address { .. } => "E0730",
            Self::NotBuiltIn { .. } => "E0731",
            Self::Thread { .. } => "E0732",
        }
    }
}
