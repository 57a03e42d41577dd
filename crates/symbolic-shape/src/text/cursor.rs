//! A token cursor for recursive-descent parsers.
//!
//! Has one token of lookahead, reads on demand, can be rewound, and counts nesting, so every parser built on it is
//! limited in depth.

use super::diagnostic::Diagnostic;
use super::lexer::Lexer;
use super::token::{Span, Token, TokenKind};

/// The maximum nesting of parsers.
const MAX_DEPTH: usize = 128;

/// The tokens of a text, from the current one on.
#[derive(Clone, Debug)]
pub struct Cursor<'a> {
    source: &'a str,
    lexer: Lexer<'a>,
    current: Token<'a>,
    next: Token<'a>,
    previous: Span,
    depth: usize,
}

/// A place to return to; made by [`Cursor::position`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    at: usize,
    previous: Span,
}

impl<'a> Cursor<'a> {
    /// A cursor at the first token of `source`.
    pub fn new(source: &'a str) -> Self {
        let mut lexer = Lexer::new(source);
        let current = lexer.next_token();
        let next = lexer.next_token();
        Cursor {
            source,
            lexer,
            current,
            next,
            previous: Span::default(),
            depth: 0,
        }
    }

    /// The whole text.
    pub fn source(&self) -> &'a str {
        self.source
    }

    /// The text at `span`.
    pub fn slice(&self, span: Span) -> &'a str {
        self.source.get(span.start..span.end).unwrap_or_default()
    }

    /// The current token.
    pub fn peek(&self) -> &TokenKind<'a> {
        &self.current.kind
    }

    /// The token after the current one.
    pub fn peek_second(&self) -> &TokenKind<'a> {
        &self.next.kind
    }

    /// The span of the current token.
    pub fn span(&self) -> Span {
        self.current.span
    }

    /// The span of the token before the current one.
    pub fn previous_span(&self) -> Span {
        self.previous
    }

    /// Whether the current token is `kind`.
    pub fn at(&self, kind: &TokenKind<'_>) -> bool {
        self.current.kind == *kind
    }

    /// Whether the current token is the name `keyword`.
    pub fn at_keyword(&self, keyword: &str) -> bool {
        self.current.kind == TokenKind::Identifier(keyword)
    }

    /// Whether all tokens are consumed.
    pub fn at_end(&self) -> bool {
        self.current.kind == TokenKind::End
    }

    /// Consumes the current token.
    pub fn bump(&mut self) -> Token<'a> {
        let next = std::mem::replace(&mut self.next, self.lexer.next_token());
        let token = std::mem::replace(&mut self.current, next);
        self.previous = token.span;
        token
    }

    /// Consumes the current token if it is `kind`.
    pub fn eat(&mut self, kind: &TokenKind<'_>) -> bool {
        let found = self.at(kind);
        if found {
            self.bump();
        }
        found
    }

    /// Consumes the current token if it is the name `keyword`.
    pub fn eat_keyword(&mut self, keyword: &str) -> bool {
        let found = self.at_keyword(keyword);
        if found {
            self.bump();
        }
        found
    }

    /// Consumes the current token, which must be `kind`.
    pub fn expect(&mut self, kind: &TokenKind<'_>) -> Result<Token<'a>, Diagnostic> {
        if self.at(kind) {
            Ok(self.bump())
        } else {
            Err(self.unexpected(&kind.to_string()))
        }
    }

    /// Consumes the name `keyword`.
    pub fn expect_keyword(&mut self, keyword: &str) -> Result<Token<'a>, Diagnostic> {
        if self.at_keyword(keyword) {
            Ok(self.bump())
        } else {
            Err(self.unexpected(&format!("`{keyword}`")))
        }
    }

    /// Consumes a name.
    pub fn identifier(&mut self) -> Result<&'a str, Diagnostic> {
        match self.current.kind {
            TokenKind::Identifier(name) => {
                self.bump();
                Ok(name)
            }
            _ => Err(self.unexpected("a name")),
        }
    }

    /// Consumes `%name` and returns the name.
    pub fn value(&mut self) -> Result<&'a str, Diagnostic> {
        match self.current.kind {
            TokenKind::Value(name) => {
                self.bump();
                Ok(name)
            }
            _ => Err(self.unexpected("a value such as `%0`")),
        }
    }

    /// Consumes `@name` and returns the name.
    pub fn global(&mut self) -> Result<&'a str, Diagnostic> {
        match self.current.kind {
            TokenKind::Global(name) => {
                self.bump();
                Ok(name)
            }
            _ => Err(self.unexpected("a name such as `@main`")),
        }
    }

    /// Consumes a string and returns its text.
    pub fn string(&mut self) -> Result<String, Diagnostic> {
        match self.current.kind {
            TokenKind::String(_) => match self.bump().kind {
                TokenKind::String(text) => Ok(text.into_owned()),
                _ => unreachable!("the kind was checked"),
            },
            _ => Err(self.unexpected("a string")),
        }
    }

    /// Consumes an integer with an optional minus sign that fits into an `i64`.
    pub fn integer(&mut self) -> Result<i64, Diagnostic> {
        let (negative, magnitude, span) = self.signed_magnitude()?;
        let value = if negative {
            0_i64.checked_sub_unsigned(magnitude)
        } else {
            i64::try_from(magnitude).ok()
        };
        value.ok_or_else(|| {
            let sign = if negative { "-" } else { "" };
            let message = format!(
                "expected an integer from {} to {}, found {sign}{magnitude}",
                i64::MIN,
                i64::MAX
            );
            Diagnostic::new(Diagnostic::NUMBER_OUT_OF_RANGE, message, span)
        })
    }

    /// Consumes an integer without a sign that fits into a `u64`.
    pub fn unsigned(&mut self) -> Result<u64, Diagnostic> {
        match self.current.kind {
            TokenKind::Integer(value) => {
                self.bump();
                Ok(value)
            }
            _ => Err(self.unexpected("an integer without a sign")),
        }
    }

    /// The diagnostic for a current token that is not `expected`.
    pub fn unexpected(&self, expected: &str) -> Diagnostic {
        match self.current.kind {
            TokenKind::Invalid(what) => {
                let message = format!("expected {expected}, found {what}");
                Diagnostic::new(Diagnostic::INVALID_TOKEN, message, self.current.span)
            }
            _ => {
                let message = format!("expected {expected}, found {}", self.current.kind);
                Diagnostic::new(Diagnostic::UNEXPECTED_TOKEN, message, self.current.span)
            }
        }
    }

    /// Runs `parse` one level deeper; a diagnostic when that exceeds the limit.
    pub fn nested<T>(
        &mut self,
        parse: impl FnOnce(&mut Self) -> Result<T, Diagnostic>,
    ) -> Result<T, Diagnostic> {
        self.check_depth(1)?;
        self.depth += 1;
        let result = parse(self);
        self.depth -= 1;
        result
    }

    /// A diagnostic when `levels` more would exceed the limit.
    pub(super) fn check_depth(&self, levels: usize) -> Result<(), Diagnostic> {
        if self.depth + levels <= MAX_DEPTH {
            return Ok(());
        }
        let message = format!("expected at most {MAX_DEPTH} levels of nesting, found more");
        Err(Diagnostic::new(
            Diagnostic::TOO_DEEP,
            message,
            self.current.span,
        ))
    }

    /// Parses items between separators until `close`, which is consumed. The opening token was consumed before.
    pub fn list<T>(
        &mut self,
        close: &TokenKind<'_>,
        mut item: impl FnMut(&mut Self) -> Result<T, Diagnostic>,
    ) -> Result<Vec<T>, Diagnostic> {
        let mut items = Vec::new();
        while !self.eat(close) {
            if !items.is_empty() {
                self.expect(&TokenKind::Comma)
                    .map_err(|_| self.unexpected(&format!("`,` or {close}")))?;
            }
            items.push(self.nested(&mut item)?);
        }
        Ok(items)
    }

    /// Skips to the next of `stops` outside of brackets opened on the way, or to the end. For error recovery.
    pub fn recover_to(&mut self, stops: &[TokenKind<'_>]) {
        let mut open = 0_usize;
        while !self.at_end() {
            if open == 0 && stops.contains(&self.current.kind) {
                return;
            }
            match self.current.kind {
                TokenKind::OpenParen | TokenKind::OpenBracket | TokenKind::OpenBrace => open += 1,
                TokenKind::CloseParen | TokenKind::CloseBracket | TokenKind::CloseBrace => {
                    open = open.saturating_sub(1)
                }
                _ => {}
            }
            self.bump();
        }
    }

    /// The current position of the cursor.
    pub fn position(&self) -> Position {
        Position {
            at: self.current.span.start,
            previous: self.previous,
        }
    }

    /// Goes back to `position`, which came from this cursor.
    pub fn rewind(&mut self, position: Position) {
        self.lexer = Lexer::resume(self.source, position.at);
        self.current = self.lexer.next_token();
        self.next = self.lexer.next_token();
        self.previous = position.previous;
    }

    fn signed_magnitude(&mut self) -> Result<(bool, u64, Span), Diagnostic> {
        let start = self.current.span;
        let negative =
            self.at(&TokenKind::Minus) && matches!(self.next.kind, TokenKind::Integer(_));
        if negative {
            self.bump();
        }
        match self.current.kind {
            TokenKind::Integer(magnitude) => {
                let token = self.bump();
                Ok((negative, magnitude, start.to(token.span)))
            }
            _ => Err(self.unexpected("an integer")),
        }
    }
}
