//! The lexer: yields one token at a time and stores none, so memory does not grow with the source.
//!
//! A name starts with a letter or `_` and continues with letters, digits, `_` and `.`. `//` starts a comment to the end
//! of the line. `%` right before a name or a number makes a value, otherwise it is the operator.

use std::borrow::Cow;

use super::token::{Span, Token, TokenKind};

/// Whether `text` is a name: a letter or `_`, then letters, digits, `_` and `.`; ASCII only.
pub fn is_identifier(text: &str) -> bool {
    let mut bytes = text.bytes();
    bytes.next().is_some_and(is_name_start) && bytes.all(is_name_part)
}

/// Splits a text into tokens.
#[derive(Clone, Debug)]
pub struct Lexer<'a> {
    source: &'a str,
    at: usize,
}

impl<'a> Lexer<'a> {
    /// A lexer at the start of `source`.
    pub fn new(source: &'a str) -> Self {
        Lexer { source, at: 0 }
    }

    /// A lexer of `source` that starts at byte `at`.
    pub(super) fn resume(source: &'a str, at: usize) -> Self {
        Lexer { source, at }
    }

    /// The next token; at the end, and from then on, [`TokenKind::End`].
    pub fn next_token(&mut self) -> Token<'a> {
        self.skip_blanks();
        let start = self.at;
        let kind = self.scan();
        Token {
            kind,
            span: Span {
                start,
                end: self.at,
            },
        }
    }

    fn scan(&mut self) -> TokenKind<'a> {
        let Some(first) = self.peek(0) else {
            return TokenKind::End;
        };
        match first {
            b'%' if self.peek(1).is_some_and(is_name_part) && self.peek(1) != Some(b'.') => {
                self.at += 1;
                TokenKind::Value(self.take_while(is_name_part))
            }
            b'@' if self.peek(1).is_some_and(is_name_start) => {
                self.at += 1;
                TokenKind::Global(self.take_while(is_name_part))
            }
            b'@' => {
                self.at += 1;
                TokenKind::Invalid("`@` without a name")
            }
            b'"' => self.string(),
            b'0'..=b'9' => self.number(),
            _ if is_name_start(first) => TokenKind::Identifier(self.take_while(is_name_part)),
            _ => self.punctuation(first),
        }
    }

    fn punctuation(&mut self, first: u8) -> TokenKind<'a> {
        let (kind, length) = match (first, self.peek(1)) {
            (b'=', Some(b'=')) => (TokenKind::EqualEqual, 2),
            (b'!', Some(b'=')) => (TokenKind::NotEqual, 2),
            (b'<', Some(b'=')) => (TokenKind::LessEqual, 2),
            (b'>', Some(b'=')) => (TokenKind::GreaterEqual, 2),
            (b'-', Some(b'>')) => (TokenKind::Arrow, 2),
            (b':', Some(b'=')) => (TokenKind::ColonEqual, 2),
            (b'(', _) => (TokenKind::OpenParen, 1),
            (b')', _) => (TokenKind::CloseParen, 1),
            (b'[', _) => (TokenKind::OpenBracket, 1),
            (b']', _) => (TokenKind::CloseBracket, 1),
            (b'{', _) => (TokenKind::OpenBrace, 1),
            (b'}', _) => (TokenKind::CloseBrace, 1),
            (b'<', _) => (TokenKind::Less, 1),
            (b'>', _) => (TokenKind::Greater, 1),
            (b'=', _) => (TokenKind::Equal, 1),
            (b',', _) => (TokenKind::Comma, 1),
            (b':', _) => (TokenKind::Colon, 1),
            (b';', _) => (TokenKind::Semicolon, 1),
            (b'+', _) => (TokenKind::Plus, 1),
            (b'-', _) => (TokenKind::Minus, 1),
            (b'*', _) => (TokenKind::Star, 1),
            (b'/', _) => (TokenKind::Slash, 1),
            (b'%', _) => (TokenKind::Percent, 1),
            (b'?', _) => (TokenKind::Question, 1),
            (b'|', _) => (TokenKind::Pipe, 1),
            _ => {
                let width = self.rest().chars().next().map_or(1, char::len_utf8);
                (TokenKind::Invalid("an unexpected character"), width)
            }
        };
        self.at += length;
        kind
    }

    fn number(&mut self) -> TokenKind<'a> {
        let start = self.at;
        self.take_while(|byte| byte.is_ascii_digit());
        let mut is_float = false;
        if self.peek(0) == Some(b'.') && self.peek(1).is_some_and(|byte| byte.is_ascii_digit()) {
            is_float = true;
            self.at += 1;
            self.take_while(|byte| byte.is_ascii_digit());
        }
        if matches!(self.peek(0), Some(b'e' | b'E')) {
            let sign = usize::from(matches!(self.peek(1), Some(b'+' | b'-')));
            if self
                .peek(1 + sign)
                .is_some_and(|byte| byte.is_ascii_digit())
            {
                is_float = true;
                self.at += 1 + sign;
                self.take_while(|byte| byte.is_ascii_digit());
            }
        }
        if self.peek(0).is_some_and(is_name_start) {
            self.take_while(is_name_part);
            return TokenKind::Invalid("a number with letters after it");
        }
        let text = self.source.get(start..self.at).unwrap_or_default();
        if is_float {
            text.parse()
                .map_or(TokenKind::Invalid("a malformed number"), TokenKind::Float)
        } else {
            text.parse().map_or(
                TokenKind::Invalid("an integer above 18446744073709551615"),
                TokenKind::Integer,
            )
        }
    }

    fn string(&mut self) -> TokenKind<'a> {
        self.at += 1;
        let start = self.at;
        self.take_while(|byte| !matches!(byte, b'"' | b'\\' | b'\n'));
        if self.peek(0) == Some(b'"') {
            let text = self.source.get(start..self.at).unwrap_or_default();
            self.at += 1;
            return TokenKind::String(Cow::Borrowed(text));
        }
        let mut text = self
            .source
            .get(start..self.at)
            .unwrap_or_default()
            .to_string();
        let mut fault = None;
        loop {
            match self.peek(0) {
                None | Some(b'\n') => return TokenKind::Invalid("an unterminated string"),
                Some(b'"') => {
                    self.at += 1;
                    return fault.map_or(TokenKind::String(Cow::Owned(text)), TokenKind::Invalid);
                }
                Some(b'\\') => match self.escape() {
                    Some(c) => text.push(c),
                    None => fault = Some("a string with an unknown escape"),
                },
                Some(_) => {
                    text.push_str(self.take_while(|byte| !matches!(byte, b'"' | b'\\' | b'\n')))
                }
            }
        }
    }

    /// The character that an escape represents. Always advances.
    fn escape(&mut self) -> Option<char> {
        let selector = self.peek(1);
        self.at += 1;
        let simple = match selector? {
            b'n' => '\n',
            b't' => '\t',
            b'r' => '\r',
            b'0' => '\0',
            b'\\' => '\\',
            b'"' => '"',
            b'u' if self.peek(1) == Some(b'{') => {
                self.at += 2;
                let digits = self.take_while(|byte| byte.is_ascii_hexdigit());
                let closed = self.peek(0) == Some(b'}');
                self.at += usize::from(closed);
                let value = u32::from_str_radix(digits, 16)
                    .ok()
                    .filter(|_| closed && digits.len() <= 6)?;
                return char::from_u32(value);
            }
            _ => return None,
        };
        self.at += 1;
        Some(simple)
    }

    fn skip_blanks(&mut self) {
        loop {
            self.take_while(|byte| byte.is_ascii_whitespace());
            if self.peek(0) != Some(b'/') || self.peek(1) != Some(b'/') {
                return;
            }
            self.take_while(|byte| byte != b'\n');
        }
    }

    fn take_while(&mut self, accept: impl Fn(u8) -> bool) -> &'a str {
        let rest = self.rest();
        let length = rest
            .bytes()
            .position(|byte| !accept(byte))
            .unwrap_or(rest.len());
        self.at += length;
        rest.get(..length).unwrap_or_default()
    }

    fn peek(&self, ahead: usize) -> Option<u8> {
        self.source.as_bytes().get(self.at + ahead).copied()
    }

    fn rest(&self) -> &'a str {
        self.source.get(self.at..).unwrap_or_default()
    }
}

fn is_name_start(byte: u8) -> bool {
    byte.is_ascii_alphabetic() || byte == b'_'
}

fn is_name_part(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'.'
}
