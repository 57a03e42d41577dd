//! The outcome of one case, from the reply of the program that runs it, or its absence.

use serde::Deserialize;

use super::cases::Case;

/// The outcome of a case on both backends.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Outcome {
    pub(crate) interpreted: Backend,
    pub(crate) compiled: Backend,
    /// Whether inputs were made constants, because they must be known on import.
    pub(crate) fixed: bool,
    /// The number of interpreted steps of the compiled program.
    pub(crate) interpreted_steps: usize,
}

/// The outcome of a case on one backend.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Backend {
    pub(crate) verdict: Verdict,
    pub(crate) code: Option<String>,
    pub(crate) message: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Verdict {
    Passed,
    Failed,
    Unsupported,
}

impl Outcome {
    /// For a case that ended the program, or had to be ended.
    pub(super) fn silent(message: &str) -> Self {
        let backend = Backend {
            verdict: Verdict::Failed,
            code: None,
            message: message.to_owned(),
        };
        Self {
            interpreted: backend.clone(),
            compiled: backend,
            fixed: false,
            interpreted_steps: 0,
        }
    }

    /// Whether the compiled program is correct and has no interpreted steps.
    pub(super) fn is_native(&self) -> bool {
        self.compiled.verdict == Verdict::Passed && self.interpreted_steps == 0
    }

    /// A line for everything but success.
    pub(super) fn complaint(&self, case: &Case) -> String {
        let mut text = String::new();
        let (one, other) = (&self.interpreted, &self.compiled);
        if one.verdict != Verdict::Passed {
            text += &one.line(case, "");
        }
        if other.verdict != Verdict::Passed && other.message != one.message {
            text += &other.line(case, " compiled");
        }
        text
    }
}

impl Backend {
    fn line(&self, case: &Case, how: &str) -> String {
        let verdict = match self.verdict {
            Verdict::Passed => "passed",
            Verdict::Failed => "failed",
            Verdict::Unsupported => "unsupported",
        };
        let code = self
            .code
            .as_deref()
            .map_or(String::new(), |code| format!("{code} "));
        format!("{verdict}{how} {}: {code}{}\n", case.name, self.message)
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::cases::tests::case;
    use super::*;

    pub(crate) fn outcome(interpreted: Verdict, compiled: Verdict) -> Outcome {
        let backend = |verdict| Backend {
            verdict,
            code: Some("E0917".to_owned()),
            message: format!("{verdict:?}"),
        };
        Outcome {
            interpreted: backend(interpreted),
            compiled: backend(compiled),
            fixed: false,
            interpreted_steps: 0,
        }
    }

    #[test]
    fn failing_cases_are_reported_once() {
        let case = case("node", "test_a", "A", false);
        let said = |one, other| outcome(one, other).complaint(&case);
        assert_eq!(said(Verdict::Passed, Verdict::Passed), "");
        assert_eq!(
            said(Verdict::Failed, Verdict::Failed),
            "failed test_a: E0917 Failed\n"
        );
        assert_eq!(
            said(Verdict::Passed, Verdict::Failed),
            "failed compiled test_a: E0917 Failed\n"
        );
    }

    #[test]
    fn an_interpreted_step_is_not_native() {
        let mut one = outcome(Verdict::Passed, Verdict::Passed);
        assert!(one.is_native());
        one.interpreted_steps = 1;
        assert!(!one.is_native());
        assert!(!Outcome::silent("timed out").is_native());
    }
}
