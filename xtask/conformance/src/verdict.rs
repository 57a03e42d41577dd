//! What became of a case, as it goes out.

use serde::Serialize;

/// How a case went on both backends.
#[derive(Serialize)]
pub(crate) struct Answer {
    /// Op by op, the graph as it was imported.
    pub(crate) interpreted: Outcome,
    /// As native code, after all passes.
    pub(crate) compiled: Outcome,
    /// Whether inputs were made constants, because the import has to know them.
    pub(crate) fixed: bool,
    /// How many steps of the compiled program the interpreter does.
    pub(crate) interpreted_steps: usize,
}

/// How a case went on one backend.
#[derive(Clone, Serialize)]
pub(crate) struct Outcome {
    pub(crate) verdict: Verdict,
    /// The error's code, where there is one.
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
