//! All output: lines for standard output and standard error, and errors with their codes.
//!
//! A reader that closes the pipe (`kiln … | head`) ends the command quietly.

use anyhow::Error;
use std::fmt::{self, Display};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// The model that an error is about, by its whole path: messages of the library name files without their folders.
#[derive(Debug)]
pub(crate) struct OfModel(PathBuf);

impl OfModel {
    pub(crate) fn new(model: &Path) -> Self {
        Self(std::path::absolute(model).unwrap_or_else(|_| model.to_path_buf()))
    }
}

impl Display for OfModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "model: {}", self.0.display())
    }
}

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
    // The error first, then the model concerned.
    let model = error.downcast_ref::<OfModel>();
    let mut chain = error.chain().skip(usize::from(model.is_some()));
    let first = chain.next().map(ToString::to_string).unwrap_or_default();
    let mut text = match code {
        Some(code) => format!("error[{code}]: {first}"),
        None => format!("error: {first}"),
    };
    for cause in chain {
        let cause = cause.to_string();
        if !text.contains(&cause) {
            text.push_str("\n  caused by: ");
            text.push_str(&cause);
        }
    }
    if let Some(model) = model {
        text.push_str(&format!("\n  {model}"));
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
    fn the_model_of_an_error_comes_last_with_its_whole_path() {
        let error = Err::<(), _>("1..x".parse::<kiln::Dim>().unwrap_err())
            .context(OfModel::new(Path::new("models/a.onnx")))
            .unwrap_err();
        let text = describe(&error);
        let lines: Vec<&str> = text.lines().collect();
        let whole = std::path::absolute("models/a.onnx").unwrap();
        assert!(
            lines[0].starts_with("error[E0975]: expected a constraint"),
            "{text}"
        );
        assert_eq!(lines[1..], [format!("  model: {}", whole.display())]);
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
