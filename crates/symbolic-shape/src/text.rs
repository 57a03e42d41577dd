//! Shared by all of Kiln's text forms: tokens, a cursor over them, diagnostics, and the reader of dimension
//! expressions.

mod cursor;
mod diagnostic;
mod dim;
mod lexer;
mod token;

pub use cursor::{Cursor, Position};
pub use diagnostic::{Diagnostic, Diagnostics};
pub use dim::{parse_dim, parse_predicate, parse_shape, parse_where};
pub use lexer::{Lexer, is_identifier};
pub use token::{Span, Token, TokenKind};

#[cfg(test)]
mod tests;
