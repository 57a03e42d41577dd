//! All output: lines for standard output and standard error, and errors with their codes.
//!
//! A reader that closes the pipe (`kiln … | head`) ends the command quietly.

use anyhow::Error;
use std::fmt::Display;
use std::io::{self, ErrorKind, Write};
use std::process::ExitCode;

/// The number of failed parts of the work; each was reported when it failed.
#[derive(Debug, Default)]
pub(crate) struct Failures(usize);

impl Failures {
    pub(crate) fn is_empty(&self) -> bool {
        self.0 == 0
    }

    /// Reports a failure and counts it.
    pub(crate) fn add(&mut self, part: &str, error: &Error) {
        self.0 += 1;
        note(format!("{part}: {}", describe(error)));
    }
}

/// Writes a line to standard output.
///
/// # Errors
/// When it cannot be written.
pub(crate) fn line(text: impl Display) -> Result<(), Error> {
    writeln!(io::stdout().lock(), "{text}")?;
    Ok(())
}

/// Writes a line to standard error. A closed standard error is ignored.
pub(crate) fn note(text: impl Display) {
    let _closed = writeln!(io::stderr().lock(), "{text}");
}

/// Reports the error that ends the command, and returns its exit status.
pub(crate) fn failed(error: &Error) -> ExitCode {
    let reader_left = error
        .chain()
        .filter_map(|cause| cause.downcast_ref::<io::Error>())
        .any(|cause| cause.kind() == ErrorKind::BrokenPipe);
    if reader_left {
        return ExitCode::SUCCESS;
    }
    note(describe(error));
    ExitCode::FAILURE
}

/// `error[E0901]: message`, then its cause if the message does not include it.
fn describe(error: &Error) -> String {
    let code = error.chain().find_map(code_of);
    let mut text = match code {
        Some(code) => format!("error[{code}]: {error}"),
        None => format!("error: {error}"),
    };
    for cause in error.chain().skip(1) {
        let cause = cause.to_string();
        if !text.contains(&cause) {
            text.push_str("\n  caused by: ");
            text.push_str(&cause);
        }
    }
    text
}

/// The code of an error that has one.
fn code_of(cause: &(dyn std::error::Error + 'static)) -> Option<&'static str> {
    #[cfg(feature = "serve")]
    if let Some(error) = cause.downcast_ref::<kiln_serve::ServeError>() {
        return Some(error.code());
    }
    cause.downcast_ref::<kiln::Error>().map(kiln::Error::code)
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::Context;

    #[test]
    fn errors_show_their_code_and_causes() {
        let error = Err::<(), _>("1..x".parse::<kiln::Dim>().unwrap_err())
            .context("option --dim")
            .unwrap_err();
        let text = describe(&error);
        assert!(
            text.starts_with("error[E0975]: option --dim\n  caused by: expected a constraint"),
            "{text}"
        );
    }

    #[test]
    fn a_repeated_cause_is_printed_once() {
        let inner = io::Error::new(ErrorKind::NotFound, "no such thing");
        let error = Err::<(), _>(inner)
            .context("cannot read: no such thing")
            .unwrap_err();
        assert_eq!(describe(&error), "error: cannot read: no such thing");
    }
}
