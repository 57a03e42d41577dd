//! Tokens and their positions in the source.

use std::borrow::Cow;
use std::fmt;

/// A range of bytes of the source.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Span {
    /// The first byte.
    pub start: usize,
    /// The byte after the last.
    pub end: usize,
}

impl Span {
    /// From this span's start to the other's end.
    pub fn to(self, other: Span) -> Span {
        Span {
            start: self.start,
            end: other.end.max(self.start),
        }
    }
}

/// A token and its place.
#[derive(Clone, Debug, PartialEq)]
pub struct Token<'a> {
    /// Its kind.
    pub kind: TokenKind<'a>,
    /// Its place.
    pub span: Span,
}

/// The kinds of tokens. Names borrow from the source.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum TokenKind<'a> {
    /// A name such as `matmul`, `B` or `f32`; `inf`, `nan` and keywords are names too.
    Identifier(&'a str),
    /// `%name` or `%5`, without the sign.
    Value(&'a str),
    /// `@name`, without the sign.
    Global(&'a str),
    /// Digits; a sign is a separate token. See [`Cursor::integer`](super::Cursor::integer).
    Integer(u64),
    /// Digits with a fraction or an exponent; [`Cursor::slice`](super::Cursor::slice) has the text for exact conversion.
    Float(f64),
    /// A string without quotes, with its escapes replaced.
    String(Cow<'a, str>),
    /// `(`
    OpenParen,
    /// `)`
    CloseParen,
    /// `[`
    OpenBracket,
    /// `]`
    CloseBracket,
    /// `{`
    OpenBrace,
    /// `}`
    CloseBrace,
    /// `<`
    Less,
    /// `>`
    Greater,
    /// `<=`
    LessEqual,
    /// `>=`
    GreaterEqual,
    /// `==`
    EqualEqual,
    /// `!=`
    NotEqual,
    /// `=`
    Equal,
    /// `,`
    Comma,
    /// `:`
    Colon,
    /// `:=`
    ColonEqual,
    /// `;`
    Semicolon,
    /// `->`
    Arrow,
    /// `+`
    Plus,
    /// `-`
    Minus,
    /// `*`
    Star,
    /// `/`
    Slash,
    /// `%` that is not followed by a name or a number
    Percent,
    /// `?`
    Question,
    /// `|`
    Pipe,
    /// Not a token; the cursor has the diagnostic.
    Invalid(&'static str),
    /// The end of the source.
    End,
}

impl fmt::Display for TokenKind<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self {
            TokenKind::Identifier(name) => return write!(f, "`{name}`"),
            TokenKind::Value(name) => return write!(f, "`%{name}`"),
            TokenKind::Global(name) => return write!(f, "`@{name}`"),
            TokenKind::Integer(value) => return write!(f, "`{value}`"),
            TokenKind::Float(value) => return write!(f, "`{value:?}`"),
            TokenKind::String(_) => return f.write_str("a string"),
            TokenKind::Invalid(what) => return f.write_str(what),
            TokenKind::End => return f.write_str("the end of the text"),
            TokenKind::OpenParen => "(",
            TokenKind::CloseParen => ")",
            TokenKind::OpenBracket => "[",
            TokenKind::CloseBracket => "]",
            TokenKind::OpenBrace => "{",
            TokenKind::CloseBrace => "}",
            TokenKind::Less => "<",
            TokenKind::Greater => ">",
            TokenKind::LessEqual => "<=",
            TokenKind::GreaterEqual => ">=",
            TokenKind::EqualEqual => "==",
            TokenKind::NotEqual => "!=",
            TokenKind::Equal => "=",
            TokenKind::Comma => ",",
            TokenKind::Colon => ":",
            TokenKind::ColonEqual => ":=",
            TokenKind::Semicolon => ";",
            TokenKind::Arrow => "->",
            TokenKind::Plus => "+",
            TokenKind::Minus => "-",
            TokenKind::Star => "*",
            TokenKind::Slash => "/",
            TokenKind::Percent => "%",
            TokenKind::Question => "?",
            TokenKind::Pipe => "|",
        };
        write!(f, "`{text}`")
    }
}
