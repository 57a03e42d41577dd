//! Diagnostics: what is wrong with a text, where, and how to fix it.
//!
//! Rendering shows the line with a caret. Everything from the text is escaped, so a message never carries control
//! characters to a terminal.

use std::fmt;

use super::token::Span;

/// The number of diagnostics that are kept; further ones are only counted.
const MAX_KEPT: usize = 64;
/// The number of characters of a source line shown on either side of the place.
const MAX_SHOWN: usize = 80;

/// One problem in a text or a graph.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// The stable code, such as `E0101`.
    pub code: &'static str,
    /// What was expected and found.
    pub message: String,
    /// The place, if there is a text.
    pub span: Option<Span>,
    /// Further help.
    pub notes: Vec<String>,
}

impl Diagnostic {
    /// E0101: an unexpected token.
    pub const UNEXPECTED_TOKEN: &'static str = "E0101";
    /// E0102: characters that form no token.
    pub const INVALID_TOKEN: &'static str = "E0102";
    /// E0103: a number out of the allowed range.
    pub const NUMBER_OUT_OF_RANGE: &'static str = "E0103";
    /// E0110: nesting deeper than the reader allows.
    pub const TOO_DEEP: &'static str = "E0110";

    /// A diagnostic without notes.
    pub fn new(
        code: &'static str,
        message: impl Into<String>,
        span: impl Into<Option<Span>>,
    ) -> Self {
        Diagnostic {
            code,
            message: message.into(),
            span: span.into(),
            notes: Vec::new(),
        }
    }

    /// Adds a note.
    pub fn note(mut self, note: impl Into<String>) -> Self {
        self.notes.push(note.into());
        self
    }

    /// Sets `span`, unless it has one.
    pub fn at(mut self, span: Span) -> Self {
        self.span.get_or_insert(span);
        self
    }

    /// The message with its source line and a caret.
    pub fn render(&self, source: &str) -> String {
        let mut text = format!("error[{}]: {}", self.code, escaped(&self.message));
        if let Some(span) = self.span {
            let start = floor_boundary(source, span.start);
            let before = source.get(..start).unwrap_or_default();
            let line_start = before.rfind('\n').map_or(0, |at| at + 1);
            let line_number = before.bytes().filter(|&byte| byte == b'\n').count() + 1;
            let line = source
                .get(line_start..)
                .unwrap_or_default()
                .lines()
                .next()
                .unwrap_or_default();
            let column = before.get(line_start..).unwrap_or_default().chars().count();
            let from = column.saturating_sub(MAX_SHOWN);
            let shown: String = line.chars().skip(from).take(2 * MAX_SHOWN).collect();
            let lead: String = line.chars().skip(from).take(column - from).collect();
            let marked = source
                .get(start..floor_boundary(source, span.end))
                .unwrap_or_default();
            let marked: String = marked
                .lines()
                .next()
                .unwrap_or_default()
                .chars()
                .take(MAX_SHOWN)
                .collect();
            let (indent, width) = (
                escaped(&lead).chars().count(),
                escaped(&marked).chars().count().max(1),
            );
            let gutter = " ".repeat(line_number.to_string().len());
            text.push_str(&format!("\n{gutter}--> {line_number}:{}", column + 1));
            text.push_str(&format!("\n{line_number} | {}", escaped(&shown)));
            text.push_str(&format!(
                "\n{gutter} | {}{}",
                " ".repeat(indent),
                "^".repeat(width)
            ));
        }
        for note in &self.notes {
            text.push_str(&format!("\n  = {}", escaped(note)));
        }
        text
    }
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[{}] {}", self.code, escaped(&self.message))?;
        for note in &self.notes {
            write!(f, "; {}", escaped(note))?;
        }
        Ok(())
    }
}

impl std::error::Error for Diagnostic {}

/// Diagnostics of one text, in the order they were found. The first 64 are kept, the others are only counted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Diagnostics {
    kept: Vec<Diagnostic>,
    count: usize,
}

impl Diagnostics {
    /// No diagnostics.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a diagnostic.
    pub fn push(&mut self, diagnostic: Diagnostic) {
        self.count += 1;
        if self.kept.len() < MAX_KEPT {
            self.kept.push(diagnostic);
        }
    }

    /// Whether there are no diagnostics.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The number of diagnostics, including those not kept.
    pub fn len(&self) -> usize {
        self.count
    }

    /// The kept diagnostics.
    pub fn iter(&self) -> std::slice::Iter<'_, Diagnostic> {
        self.kept.iter()
    }

    /// `value` when there are no diagnostics, otherwise the diagnostics.
    pub fn into_result<T>(self, value: T) -> Result<T, Diagnostics> {
        if self.is_empty() {
            Ok(value)
        } else {
            Err(self)
        }
    }

    /// All kept diagnostics with source lines and carets.
    pub fn render(&self, source: &str) -> String {
        let mut parts: Vec<String> = self
            .kept
            .iter()
            .map(|diagnostic| diagnostic.render(source))
            .collect();
        if self.count > self.kept.len() {
            parts.push(format!("and {} more", self.count - self.kept.len()));
        }
        parts.join("\n")
    }
}

impl From<Diagnostic> for Diagnostics {
    fn from(diagnostic: Diagnostic) -> Self {
        Diagnostics {
            kept: vec![diagnostic],
            count: 1,
        }
    }
}

impl Extend<Diagnostic> for Diagnostics {
    fn extend<I: IntoIterator<Item = Diagnostic>>(&mut self, diagnostics: I) {
        diagnostics
            .into_iter()
            .for_each(|diagnostic| self.push(diagnostic));
    }
}

impl<'a> IntoIterator for &'a Diagnostics {
    type Item = &'a Diagnostic;
    type IntoIter = std::slice::Iter<'a, Diagnostic>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl fmt::Display for Diagnostics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, diagnostic) in self.kept.iter().enumerate() {
            let separator = if place == 0 { "" } else { "\n" };
            write!(f, "{separator}{diagnostic}")?;
        }
        if self.count > self.kept.len() {
            write!(f, "\nand {} more", self.count - self.kept.len())?;
        }
        Ok(())
    }
}

impl std::error::Error for Diagnostics {}

/// `text` with control characters escaped. Other characters, quotes among them, stay as they are.
fn escaped(text: &str) -> String {
    // U+200E to U+2069 contain marks that change the direction of writing.
    let is_unsafe = |c: char| {
        c.is_control()
            || ('\u{200b}'..='\u{200f}').contains(&c)
            || ('\u{2028}'..='\u{2069}').contains(&c)
    };
    let mut result = String::with_capacity(text.len());
    for c in text.chars() {
        if is_unsafe(c) {
            result.extend(c.escape_default())
        } else {
            result.push(c)
        }
    }
    result
}

fn floor_boundary(source: &str, at: usize) -> usize {
    let mut at = at.min(source.len());
    while !source.is_char_boundary(at) {
        at -= 1;
    }
    at
}
