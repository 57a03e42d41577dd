//! Positions in a document: a path such as `nodes[3].attributes.axis`, and its line and column.
//!
//! The document's types contain no positions. A position is found in the text when there is a problem to report.

use std::fmt;

/// A place in a blueprint.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// The path, such as `nodes[3].attributes.axis`; empty for the whole document. Names are escaped.
    pub path: String,
    /// The line, from 1, if the blueprint was read from text.
    pub line: Option<usize>,
    /// The column in bytes, from 1.
    pub column: Option<usize>,
}

impl Place {
    pub(crate) fn of_path(path: &str) -> Self {
        Self {
            path: path.escape_debug().to_string(),
            line: None,
            column: None,
        }
    }

    /// The same place with the line and column of the path's value in `text`, or of the deepest part of the path that
    /// exists.
    pub(crate) fn located(self, text: &str) -> Self {
        let mut scanner = Scanner {
            bytes: text.as_bytes(),
            at: 0,
        };
        for part in parts(&self.path) {
            let before = scanner.at;
            if scanner.enter(&part).is_none() {
                scanner.at = before;
                break;
            }
        }
        scanner.skip_space();
        let before = text.get(..scanner.at).unwrap_or_default();
        let line_start = before.rfind('\n').map_or(0, |at| at + 1);
        Self {
            line: Some(before.matches('\n').count() + 1),
            column: Some(before.len() - line_start + 1),
            ..self
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = if self.path.is_empty() {
            "blueprint"
        } else {
            &self.path
        };
        f.write_str(path)?;
        if let (Some(line), Some(column)) = (self.line, self.column) {
            write!(f, " (line {line}, column {column})")?;
        }
        Ok(())
    }
}

/// A part of a path.
enum Part {
    Field(String),
    Index(usize),
}

/// Splits a path such as `nodes[3].axis` into its parts.
fn parts(path: &str) -> Vec<Part> {
    let mut parts = Vec::new();
    for piece in path.split(['.', '[']).filter(|piece| !piece.is_empty()) {
        let index = piece.strip_suffix(']').and_then(|piece| piece.parse().ok());
        parts.push(match index {
            Some(index) => Part::Index(index),
            None => Part::Field(piece.to_owned()),
        });
    }
    parts
}

/// Walks JSON text that was already parsed, and so is well formed; malformed text ends the walk.
struct Scanner<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Scanner<'_> {
    fn skip_space(&mut self) {
        while self.bytes.get(self.at).is_some_and(u8::is_ascii_whitespace) {
            self.at += 1;
        }
    }

    fn eat(&mut self, byte: u8) -> Option<()> {
        self.skip_space();
        (self.bytes.get(self.at) == Some(&byte)).then(|| self.at += 1)
    }

    /// Moves from the start of a value to the start of a part of it.
    fn enter(&mut self, part: &Part) -> Option<()> {
        match part {
            Part::Field(name) => {
                self.eat(b'{')?;
                loop {
                    let is_it = self.string()? == name.as_bytes();
                    self.eat(b':')?;
                    if is_it {
                        return Some(());
                    }
                    self.value()?;
                    self.eat(b',')?;
                }
            }
            Part::Index(index) => {
                self.eat(b'[')?;
                for _ in 0..*index {
                    self.value()?;
                    self.eat(b',')?;
                }
                Some(())
            }
        }
    }

    /// Skips a string; returns what is between its quotes, as written.
    fn string(&mut self) -> Option<&[u8]> {
        self.eat(b'"')?;
        let start = self.at;
        loop {
            match self.bytes.get(self.at)? {
                b'"' => break,
                b'\\' => self.at += 2,
                _ => self.at += 1,
            }
        }
        self.at += 1;
        self.bytes.get(start..self.at - 1)
    }

    /// Skips a value, without recursion.
    fn value(&mut self) -> Option<()> {
        let mut depth = 0usize;
        loop {
            self.skip_space();
            match self.bytes.get(self.at)? {
                b'"' => {
                    self.string()?;
                }
                b'{' | b'[' => {
                    depth += 1;
                    self.at += 1;
                    continue;
                }
                b'}' | b']' => {
                    depth = depth.checked_sub(1)?;
                    self.at += 1;
                }
                b',' | b':' if depth > 0 => {
                    self.at += 1;
                    continue;
                }
                _ => {
                    let ends = |byte: &u8| b",:]}".contains(byte) || byte.is_ascii_whitespace();
                    while self.bytes.get(self.at).is_some_and(|byte| !ends(byte)) {
                        self.at += 1;
                    }
                }
            }
            if depth == 0 {
                return Some(());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_found_by_line_and_column() {
        let text = "{\n \"a\": [1, {\"b,]\": \"}\\\"\"},\n  {\"c\": true}],\n \"d\": {}\n}";
        let at = |path: &str| {
            let place = Place::of_path(path).located(text);
            (place.line.unwrap_or(0), place.column.unwrap_or(0))
        };
        assert_eq!(at(""), (1, 1));
        assert_eq!(at("a"), (2, 7));
        assert_eq!(at("a[0]"), (2, 8));
        assert_eq!(at("a[2].c"), (3, 9));
        assert_eq!(at("d"), (4, 7));
        // A path that does not exist is reported at its deepest part that does.
        assert_eq!(at("d.missing"), (4, 7));
        assert_eq!(at("a[9]"), (2, 7));
    }
}
