//! The reader's view of the tokens: the productions of a graph's grammar, with their errors.

use super::read::Read;
use crate::ty::Dims;
use kiln_symbolic_shape::DimTable;
use kiln_symbolic_shape::text::{Cursor, Diagnostic, Position, Span, TokenKind, parse_shape};
use kiln_tensor::DType;

/// The tokens of a graph's text.
#[derive(Debug)]
pub(super) struct Input<'a> {
    cursor: Cursor<'a>,
}

impl<'a> Input<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self {
            cursor: Cursor::new(text),
        }
    }

    /// The tokens, for the parsers of `symbolic-shape`.
    pub(super) fn cursor(&mut self) -> &mut Cursor<'a> {
        &mut self.cursor
    }

    pub(super) fn span(&self) -> Span {
        self.cursor.span()
    }

    pub(super) fn position(&self) -> Position {
        self.cursor.position()
    }

    pub(super) fn rewind(&mut self, position: Position) {
        self.cursor.rewind(position);
    }

    /// Skips to the first of the words outside brackets, or to `{`.
    pub(super) fn skip_to_word(&mut self, words: &[&'static str]) {
        let mut stops: Vec<TokenKind<'static>> = words
            .iter()
            .map(|word| TokenKind::Identifier(word))
            .collect();
        stops.push(TokenKind::OpenBrace);
        self.cursor.recover_to(&stops);
    }

    /// An error at the current token.
    pub(super) fn error(&self, code: &'static str, message: impl Into<String>) -> Diagnostic {
        Diagnostic::new(code, message, self.span())
    }

    /// An error from `start` to the last token read.
    pub(super) fn error_at(
        &self,
        start: Span,
        code: &'static str,
        message: impl Into<String>,
    ) -> Diagnostic {
        Diagnostic::new(code, message, start.to(self.cursor.previous_span()))
    }

    pub(super) fn at(&self, token: &TokenKind<'_>) -> bool {
        self.cursor.at(token)
    }

    pub(super) fn accept(&mut self, token: &TokenKind<'_>) -> bool {
        self.cursor.eat(token)
    }

    pub(super) fn expect(&mut self, token: &TokenKind<'_>) -> Read<()> {
        self.cursor.expect(token).map(|_| ())
    }

    pub(super) fn accept_word(&mut self, word: &str) -> bool {
        self.cursor.eat_keyword(word)
    }

    pub(super) fn expect_word(&mut self, word: &str) -> Read<()> {
        self.cursor.expect_keyword(word).map(|_| ())
    }

    pub(super) fn expect_end(&self) -> Read<()> {
        if self.cursor.at_end() {
            Ok(())
        } else {
            Err(self.cursor.unexpected("the end of the text"))
        }
    }

    /// Reads a name; `what` says what it names, for the error.
    pub(super) fn identifier(&mut self, what: &str) -> Read<String> {
        match self.cursor.peek() {
            TokenKind::Identifier(_) => self.cursor.identifier().map(str::to_owned),
            _ => Err(self.cursor.unexpected(what)),
        }
    }

    pub(super) fn at_value(&self) -> bool {
        matches!(self.cursor.peek(), TokenKind::Value(_))
    }

    pub(super) fn value_name(&mut self) -> Read<String> {
        self.cursor.value().map(str::to_owned)
    }

    pub(super) fn graph_name(&mut self) -> Read<String> {
        self.cursor.global().map(str::to_owned)
    }

    pub(super) fn string(&mut self) -> Read<String> {
        self.cursor.string()
    }

    pub(super) fn accept_string(&mut self) -> Read<Option<String>> {
        match self.cursor.peek() {
            TokenKind::String(_) => self.cursor.string().map(Some),
            _ => Ok(None),
        }
    }

    pub(super) fn integer(&mut self) -> Read<i64> {
        self.cursor.integer()
    }

    /// An axis or a count.
    pub(super) fn index(&mut self) -> Read<usize> {
        let start = self.span();
        let value = self.cursor.unsigned()?;
        usize::try_from(value).map_err(|_| {
            self.error_at(
                start,
                Diagnostic::NUMBER_OUT_OF_RANGE,
                format!("{value} is too large"),
            )
        })
    }

    pub(super) fn float(&mut self) -> Read<f64> {
        let start = self.span();
        let word = self.element()?;
        let value = if word == "nan" {
            Some(f64::NAN)
        } else {
            word.parse().ok()
        };
        value.ok_or_else(|| {
            self.error_at(start, "E0117", format!("expected a number, found {word}"))
        })
    }

    pub(super) fn dtype(&mut self) -> Read<DType> {
        let start = self.span();
        let word = self.identifier("a dtype")?;
        word.parse().map_err(|error: kiln_tensor::TensorError| {
            self.error_at(start, "E0119", error.to_string())
        })
    }

    /// The word of one element: a number with its sign, `inf`, `nan`, `true` or `false`.
    pub(super) fn element(&mut self) -> Read<String> {
        let sign = if self.cursor.eat(&TokenKind::Minus) {
            "-"
        } else {
            ""
        };
        match self.cursor.peek() {
            TokenKind::Integer(_) | TokenKind::Float(_) | TokenKind::Identifier(_) => {
                let token = self.cursor.bump();
                Ok(format!("{sign}{}", self.cursor.slice(token.span)))
            }
            _ => Err(self.cursor.unexpected("a number, inf, nan, true or false")),
        }
    }

    /// `[item, ..]`.
    pub(super) fn list<T, L: FromIterator<T>>(
        &mut self,
        item: impl Fn(&mut Self) -> Read<T>,
    ) -> Read<L> {
        self.expect(&TokenKind::OpenBracket)?;
        self.items(&TokenKind::CloseBracket, item)
    }

    /// Items between commas up to `close`, which is consumed.
    pub(super) fn items<T, L: FromIterator<T>>(
        &mut self,
        close: &TokenKind<'_>,
        item: impl Fn(&mut Self) -> Read<T>,
    ) -> Read<L> {
        let mut items = Vec::new();
        while !self.at(close) {
            items.push(item(self)?);
            if !self.accept(&TokenKind::Comma) {
                break;
            }
        }
        self.expect(close)?;
        Ok(items.into_iter().collect())
    }

    /// `[B, S + 1]`.
    pub(super) fn dim_list(&mut self, dims: &mut DimTable) -> Read<Dims> {
        Ok(parse_shape(&mut self.cursor, dims)?.into_iter().collect())
    }
}
