//! The outcome of a case, as it is reported.

use serde::Serialize;

/// The outcome of a case on both backends.
#[derive(Serialize)]
pub(crate) struct Answer {
    /// Op by op, on the imported graph.
    pub(crate) interpreted: Outcome,
    /// As native code, after all passes.
    pub(crate) compiled: Outcome,
    /// Whether inputs were made constants, because they must be known on import.
    pub(crate) fixed: bool,
    /// The number of interpreted steps of the compiled program.
    pub(crate) interpreted_steps: usize,
}

/// The outcome of a case on one backend.
#[derive(Clone, Serialize)]
pub(crate) struct Outcome {
    pub(crate) verdict: Verdict,
    /// The error's code, if there is one.
    pub(crate) code: Option<&'static str>,
    /// The error, or how the results differ.
    pub(crate) message: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Verdict {
    Passed,
    Failed,
    Unsupported,
}

impl Outcome {
    pub(crate) fn passed() -> Self {
        Self {
            verdict: Verdict::Passed,
            code: None,
            message: String::new(),
        }
    }

    pub(crate) fn failed(message: impl ToString) -> Self {
        Self {
            verdict: Verdict::Failed,
            code: None,
            message: message.to_string(),
        }
    }

    /// An error of Kiln: a refusal, where it says that something is not supported.
    pub(crate) fn of_error(error: &kiln::Error) -> Self {
        let verdict = match error.kind() {
            kiln::ErrorKind::Unsupported => Verdict::Unsupported,
            _ => Verdict::Failed,
        };
        Self {
            verdict,
            code: Some(error.code()),
            message: error.to_string(),
        }
    }
}
