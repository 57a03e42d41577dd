//! Reading dimension expressions, shapes, predicates and `where` clauses; printing is in the table.
//!
//! ```text
//! dim       = product (("+" | "-") product)*
//! product   = unary (("*" | "/" | "%") unary)*            "/" rounds down
//! unary     = "-" unary | integer | name | "(" dim ")" | call
//! call      = ("min" | "max" | "bcast") "(" dim ("," dim)* ")" | "ceil" "(" product "/" unary ")"
//! predicate = dim ("==" | "!=" | "<=" | "<" | ">=" | ">") dim | product "%" integer "==" "0"
//!           | "product" "(" dims ")" "==" "product" "(" dims ")"
//! ```
//! An unknown name declares a size, 0 or more.

use super::cursor::Cursor;
use super::diagnostic::Diagnostic;
use super::token::{Span, TokenKind};
use crate::DimError;
use crate::dimension::SymbolicDimension;
use crate::fact::{ContractFact, FactOrigin, Predicate};
use crate::ids::DimId;
use crate::table::DimTable;

/// An expression, and its parts when it was read as `dividend % divisor` with a constant divisor.
struct Parsed {
    dim: DimId,
    remainder: Option<(DimId, i64)>,
}

/// Reads an expression such as `2*H + ceil(W / 8)`.
pub fn parse_dim(cursor: &mut Cursor<'_>, table: &mut DimTable) -> Result<DimId, Diagnostic> {
    Ok(sum(cursor, table)?.dim)
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
    let left = sum(cursor, table)?;
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
/// `name >= -5`, before the name was used, declares a symbol that may be negative; so a reader takes this clause first.
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
            if matches!(
                cursor.peek(),
                TokenKind::Comma | TokenKind::OpenBrace | TokenKind::End
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

fn sum(cursor: &mut Cursor<'_>, table: &mut DimTable) -> Result<Parsed, Diagnostic> {
    let start = cursor.span();
    let mut left = product(cursor, table)?;
    loop {
        let operator = cursor.peek().clone();
        if !matches!(operator, TokenKind::Plus | TokenKind::Minus) {
            return Ok(left);
        }
        cursor.bump();
        let right = product(cursor, table)?.dim;
        let result = match operator {
            TokenKind::Plus => table.add(left.dim, right),
            _ => table.sub(left.dim, right),
        };
        let span = start.to(cursor.previous_span());
        left = Parsed {
            dim: result.map_err(|error| diagnostic(&error, span))?,
            remainder: None,
        };
    }
}

fn product(cursor: &mut Cursor<'_>, table: &mut DimTable) -> Result<Parsed, Diagnostic> {
    let start = cursor.span();
    let mut left = Parsed {
        dim: unary(cursor, table)?,
        remainder: None,
    };
    loop {
        let operator = cursor.peek().clone();
        let divisor = match operator {
            TokenKind::Star | TokenKind::Slash | TokenKind::Percent => {
                cursor.bump();
                unary(cursor, table)?
            }
            _ => return Ok(left),
        };
        let (result, remainder) = match operator {
            TokenKind::Star => (table.mul(left.dim, divisor), None),
            TokenKind::Slash => (table.floor_div(left.dim, divisor), None),
            _ => (
                table.modulo(left.dim, divisor),
                table
                    .as_constant(divisor)
                    .map(|divisor| (left.dim, divisor)),
            ),
        };
        let span = start.to(cursor.previous_span());
        left = Parsed {
            dim: result.map_err(|error| diagnostic(&error, span))?,
            remainder,
        };
    }
}

fn unary(cursor: &mut Cursor<'_>, table: &mut DimTable) -> Result<DimId, Diagnostic> {
    let start = cursor.span();
    let dim = match (cursor.peek(), cursor.peek_second()) {
        (TokenKind::Integer(_), _) | (TokenKind::Minus, TokenKind::Integer(_)) => {
            let value = cursor.integer()?;
            return Ok(table.constant(value));
        }
        (TokenKind::Minus, _) => {
            cursor.bump();
            let operand = cursor.nested(|cursor| unary(cursor, table))?;
            table.neg(operand)
        }
        (TokenKind::OpenParen, _) => {
            cursor.bump();
            let inner = cursor.nested(|cursor| parse_dim(cursor, table))?;
            cursor.expect(&TokenKind::CloseParen)?;
            Ok(inner)
        }
        (TokenKind::Identifier("ceil"), TokenKind::OpenParen) => return ceil(cursor, table),
        (TokenKind::Identifier(name @ ("min" | "max" | "bcast")), TokenKind::OpenParen) => {
            let name = *name;
            let args = call(cursor, table)?;
            match name {
                "min" => table.min_of(&args),
                "max" => table.max_of(&args),
                _ => table.bcast_of(&args),
            }
        }
        (TokenKind::Identifier(name), _) => {
            let name = *name;
            cursor.bump();
            table.symbol(name)
        }
        _ => return Err(cursor.unexpected("a size: a number, a name or `(`")),
    };
    let span = start.to(cursor.previous_span());
    dim.map_err(|error| diagnostic(&error, span))
}

/// Reads `ceil(a / b)`. What is rounded up is the last division; those before it round down.
fn ceil(cursor: &mut Cursor<'_>, table: &mut DimTable) -> Result<DimId, Diagnostic> {
    let start = cursor.span();
    cursor.bump();
    cursor.expect(&TokenKind::OpenParen)?;
    let mut dividend = cursor.nested(|cursor| unary(cursor, table))?;
    // The divisor of the last operation, when that is a division.
    let mut divisor: Option<DimId> = None;
    loop {
        let operator = cursor.peek().clone();
        if !matches!(
            operator,
            TokenKind::Star | TokenKind::Slash | TokenKind::Percent
        ) {
            break;
        }
        cursor.bump();
        let operand = cursor.nested(|cursor| unary(cursor, table))?;
        let span = start.to(cursor.previous_span());
        let before = divisor
            .take()
            .map_or(Ok(dividend), |divisor| table.floor_div(dividend, divisor));
        let applied = before.and_then(|before| match operator {
            TokenKind::Star => table.mul(before, operand),
            TokenKind::Percent => table.modulo(before, operand),
            _ => {
                divisor = Some(operand);
                Ok(before)
            }
        });
        dividend = applied.map_err(|error| diagnostic(&error, span))?;
    }
    let Some(divisor) = divisor else {
        return Err(cursor.unexpected("`/` and a divisor"));
    };
    cursor.expect(&TokenKind::CloseParen)?;
    let span = start.to(cursor.previous_span());
    table
        .ceil_div(dividend, divisor)
        .map_err(|error| diagnostic(&error, span))
}

/// Reads a name, which was checked before, and its arguments; at least one.
fn call(cursor: &mut Cursor<'_>, table: &mut DimTable) -> Result<Vec<DimId>, Diagnostic> {
    cursor.bump();
    cursor.expect(&TokenKind::OpenParen)?;
    if cursor.at(&TokenKind::CloseParen) {
        return Err(cursor.unexpected("a size"));
    }
    cursor.list(&TokenKind::CloseParen, |cursor| parse_dim(cursor, table))
}

fn diagnostic(error: &DimError, span: Span) -> Diagnostic {
    Diagnostic::new(error.code(), error.to_string(), span)
}
