//! A name from a model file, made safe to print.
//!
//! Models are untrusted text: a node may be called `\x1b[2J`. Every name in an error or a path is a [`Name`], which prints
//! quoted, with control and invisible characters escaped, and truncated. The raw text stays available to programs through
//! [`Name::as_str`].

use std::fmt;

/// A name in the model's spelling; printing it is safe on any terminal.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name(Box<str>);

/// The number of printed characters of a name.
const PRINTED_CHARACTERS: usize = 96;

impl Name {
    /// Keeps `raw` unchanged; only printing escapes.
    pub fn new(raw: impl Into<Box<str>>) -> Self {
        Self(raw.into())
    }

    /// The name in the model's spelling. Not safe to print.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<&str> for Name {
    fn from(raw: &str) -> Self {
        Self::new(raw)
    }
}

impl fmt::Display for Name {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("\"")?;
        for (position, character) in self.0.chars().enumerate() {
            if position == PRINTED_CHARACTERS {
                return formatter.write_str("…\"");
            }
            if is_unsafe_to_print(character) {
                write!(formatter, "{}", character.escape_unicode())?;
            } else {
                write!(formatter, "{}", character.escape_debug())?;
            }
        }
        formatter.write_str("\"")
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, formatter)
    }
}

/// A text that may quote the model, made safe to print: as a name is, but without adding quotes.
pub(crate) fn printable(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for character in text.chars() {
        if character.is_control() || is_unsafe_to_print(character) {
            safe.extend(character.escape_unicode());
        } else {
            safe.push(character);
        }
    }
    safe
}

/// Characters that reorder or hide text although some tables class them as printable: bidirectional controls, zero-width
/// characters, tags and variation selectors.
fn is_unsafe_to_print(character: char) -> bool {
    matches!(
        character,
        '\u{ad}'
            | '\u{61c}'
            | '\u{115f}'..='\u{1160}'
            | '\u{180b}'..='\u{180f}'
            | '\u{200b}'..='\u{200f}'
            | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}'
            | '\u{3164}'
            | '\u{fe00}'..='\u{fe0f}'
            | '\u{feff}'
            | '\u{ffa0}'
            | '\u{fff9}'..='\u{fffb}'
            | '\u{e0000}'..='\u{e0fff}'
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_names_print_as_they_are() {
        assert_eq!(
            Name::from("encoder/layer.0:0").to_string(),
            "\"encoder/layer.0:0\""
        );
        assert_eq!(Name::from("größe").to_string(), "\"größe\"");
    }

    #[test]
    fn control_and_invisible_characters_are_escaped() {
        let name = Name::from("a\x1b[31mb\r\nc\u{202e}d\u{200b}\u{9b}\"");
        assert_eq!(
            name.to_string(),
            r#""a\u{1b}[31mb\r\nc\u{202e}d\u{200b}\u{9b}\"""#
        );
        assert_eq!(name.as_str().chars().count(), 15);
        assert_eq!(format!("{name:?}"), name.to_string());
    }

    #[test]
    fn long_names_are_shortened() {
        let printed = Name::from("x".repeat(10_000).as_str()).to_string();
        assert_eq!(printed.chars().count(), PRINTED_CHARACTERS + 3);
        assert!(printed.ends_with("…\""));
    }

    #[test]
    fn text_quoted_from_the_model_is_printable() {
        assert_eq!(printable("li\0near"), "li\\u{0}near");
        assert_eq!(printable("\"a\" \u{202e}b"), "\"a\" \\u{202e}b");
    }
}
