//! Reading dimension expressions, shapes, predicates and `where` clauses; printing is in the table.
//!
//! ```text
//! dim       = product (("+" | "-") product)*
//! product   = unary (("*" | "/" | "%") unary)*            "/" rounds down
//! unary     = "-" unary | integer | name | "(" dim ")" | call
//! call      = ("min" | "max" | "bcast") "(" dim ("," dim)* ")" | "ceil" "(" product "/" unary ")"   rounds up
//! predicate = dim ("==" | "!=" | "<=" | "<" | ">=" | ">") dim | product "%" integer "==" "0"
//!           | "product" "(" dims? ")" "==" "product" "(" dims? ")"       of no sizes it is 1
//! ```
//! An unknown name declares a size, 0 or more.

mod expression;

use super::cursor::Cursor;
use super::diagnostic::Diagnostic;
use super::token::{Span, TokenKind};
use crate::DimError;
use crate::dimension::SymbolicDimension;
use crate::fact::{ContractFact, FactOrigin, Predicate};
use crate::ids::DimId;
use crate::table::DimTable;

/// Reads an expression such as `2*H + ceil(W / 8)`.
pub fn parse_dim(cursor: &mut Cursor<'_>, table: &mut DimTable) -> Result<DimId, Diagnostic> {
    Ok(expression::read(cursor, table)?.dim)
}

/// Reads a shape such as `[B, S, 384]`.
pub fn parse_shape(
    cursor: &mut Cursor<'_>,
    table: &mut DimTable,
) -> Result<Vec<DimId>, Diagnostic> {
    cursor.expect(&TokenKind::OpenBracket)?;
    cursor.list(&TokenKind::CloseBracket, |cursor| parse_dim(cursor, table))
}

/// Reads a predicate such as `B >= 1` or `N % 8 == 0`.
pub fn parse_predicate(
    cursor: &mut Cursor<'_>,
    table: &mut DimTable,
) -> Result<Predicate, Diagnostic> {
    if cursor.at_keyword("product") && *cursor.peek_second() == TokenKind::OpenParen {
        let left = call(cursor, table)?;
        cursor.expect(&TokenKind::EqualEqual)?;
        if !cursor.at_keyword("product") {
            return Err(cursor.unexpected("`product`"));
        }
        let right = call(cursor, table)?;
        return Ok(Predicate::ProductEqual(left, right));
    }
    let left = expression::read(cursor, table)?;
    let operator = cursor.peek().clone();
    let known = matches!(
        operator,
        TokenKind::EqualEqual
            | TokenKind::NotEqual
            | TokenKind::LessEqual
            | TokenKind::GreaterEqual
            | TokenKind::Less
            | TokenKind::Greater
    );
    if !known {
        return Err(cursor.unexpected("one of `==`, `!=`, `<=`, `<`, `>=`, `>`"));
    }
    cursor.bump();
    let right = parse_dim(cursor, table)?;
    Ok(match (operator, left.remainder) {
        (TokenKind::EqualEqual, Some((dim, divisor))) if table.as_constant(right) == Some(0) => {
            Predicate::Divides { divisor, dim }
        }
        (TokenKind::EqualEqual, _) => Predicate::Equal(left.dim, right),
        (TokenKind::NotEqual, _) => Predicate::NotEqual(left.dim, right),
        (TokenKind::LessEqual, _) => Predicate::LessEqual(left.dim, right),
        (TokenKind::Less, _) => Predicate::Less(left.dim, right),
        (TokenKind::GreaterEqual, _) => Predicate::LessEqual(right, left.dim),
        _ => Predicate::Less(right, left.dim),
    })
}

/// Reads the predicates of a `where` clause, separated by commas, and assumes them as declared.
///
/// `name >= -5`, if the name has not been used before, declares a symbol that may be negative; so a reader parses this
/// clause first.
pub fn parse_where(cursor: &mut Cursor<'_>, table: &mut DimTable) -> Result<(), Diagnostic> {
    loop {
        let start = cursor.span();
        if !declare_negative(cursor, table)? {
            let predicate = parse_predicate(cursor, table)?;
            let span = start.to(cursor.previous_span());
            let fact = ContractFact {
                predicate,
                origin: FactOrigin::Declared,
            };
            table
                .assume(fact)
                .map_err(|error| diagnostic(&error, span))?;
        }
        if !cursor.eat(&TokenKind::Comma) {
            return Ok(());
        }
    }
}

/// Reads `name >= -integer` for a name that is new.
fn declare_negative(cursor: &mut Cursor<'_>, table: &mut DimTable) -> Result<bool, Diagnostic> {
    let start = cursor.position();
    let span = cursor.span();
    if let TokenKind::Identifier(name) = *cursor.peek()
        && *cursor.peek_second() == TokenKind::GreaterEqual
        && table.symbol_named(name).is_none()
    {
        cursor.bump();
        cursor.bump();
        if cursor.at(&TokenKind::Minus) && matches!(cursor.peek_second(), TokenKind::Integer(_)) {
            let min = cursor.integer()?;
            // Anything but an operator ends the clause.
            if !matches!(
                cursor.peek(),
                TokenKind::Plus
                    | TokenKind::Minus
                    | TokenKind::Star
                    | TokenKind::Slash
                    | TokenKind::Percent
            ) {
                let dimension = SymbolicDimension::range(name, min..)
                    .map_err(|error| diagnostic(&error, span))?;
                table
                    .declare(dimension)
                    .map_err(|error| diagnostic(&error, span))?;
                return Ok(true);
            }
        }
        cursor.rewind(start);
    }
    Ok(false)
}

/// Reads the arguments of a name, which was checked before; there may be none.
fn call(cursor: &mut Cursor<'_>, table: &mut DimTable) -> Result<Vec<DimId>, Diagnostic> {
    cursor.bump();
    cursor.expect(&TokenKind::OpenParen)?;
    cursor.list(&TokenKind::CloseParen, |cursor| parse_dim(cursor, table))
}

fn diagnostic(error: &DimError, span: Span) -> Diagnostic {
    Diagnostic::new(error.code(), error.to_string(), span)
}
