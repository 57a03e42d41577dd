//! Writes indented C text, and generates fresh names.

use std::fmt::Display;

/// C text under construction.
#[derive(Debug, Default)]
pub(super) struct Writer {
    text: String,
    depth: usize,
    n_names: usize,
}

impl Writer {
    /// Adds a line.
    pub(super) fn line(&mut self, line: impl Display) {
        self.text.extend(std::iter::repeat_n("  ", self.depth));
        self.text.push_str(&line.to_string());
        self.text.push('\n');
    }

    /// Opens a block: `head {`.
    pub(super) fn open(&mut self, head: impl Display) {
        self.line(format_args!("{head} {{"));
        self.depth += 1;
    }

    /// Closes the innermost block.
    pub(super) fn close(&mut self) {
        self.depth = self.depth.saturating_sub(1);
        self.line("}");
    }

    /// A name that is not used elsewhere.
    pub(super) fn fresh(&mut self, prefix: &str) -> String {
        self.n_names += 1;
        format!("{prefix}{}", self.n_names)
    }

    /// The text so far; the next one begins empty, with new names.
    pub(super) fn take(&mut self) -> String {
        std::mem::take(&mut self.text)
    }
}
