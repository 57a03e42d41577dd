//! Reading one expression, by operator precedence with an explicit stack: nesting costs no machine stack.
//!
//! Each open parenthesis or call is a frame. A frame holds the left operands that wait for a right one: at most one of a
//! sum and one of a product, since both associate to the left.

use super::{Cursor, Diagnostic, TokenKind, diagnostic};
use crate::error::DimError;
use crate::ids::DimId;
use crate::table::DimTable;
use crate::text::token::Span;

/// An expression, and its parts when it was read as `dividend % divisor` with a constant divisor.
pub(super) struct Expression {
    pub(super) dim: DimId,
    pub(super) remainder: Option<(DimId, i64)>,
}

impl Expression {
    fn of(dim: DimId) -> Self {
        Expression {
            dim,
            remainder: None,
        }
    }
}

/// The token that opened a frame.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Opening {
    Root,
    Paren,
    Ceil,
    Min,
    Max,
    Bcast,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Operator {
    Add,
    Sub,
    Mul,
    Div,
    Mod,
}

struct Frame {
    opening: Opening,
    start: Span,
    /// The complete arguments of a call.
    args: Vec<DimId>,
    sum: Option<(DimId, Operator)>,
    product: Option<(DimId, Operator)>,
    negate: bool,
}

impl Frame {
    fn new(opening: Opening, start: Span) -> Self {
        Frame {
            opening,
            start,
            args: Vec::new(),
            sum: None,
            product: None,
            negate: false,
        }
    }
}

/// Reads an expression as far as it goes.
pub(super) fn read(
    cursor: &mut Cursor<'_>,
    table: &mut DimTable,
) -> Result<Expression, Diagnostic> {
    let mut outer: Vec<Frame> = Vec::new();
    let mut frame = Frame::new(Opening::Root, cursor.span());
    loop {
        let Some(mut operand) = read_operand(cursor, table, &mut frame, &mut outer)? else {
            continue;
        };
        // Fold the operand into its frame, and frames that end here into theirs, until another operand is due.
        loop {
            let folded = fold_product(cursor, table, &mut frame, operand)?;
            if let Some(operator) = operator_at(cursor.peek()) {
                if matches!(operator, Operator::Add | Operator::Sub) {
                    if frame.opening == Opening::Ceil {
                        return Err(cursor.unexpected("`/` and a divisor"));
                    }
                    let dim = fold_sum(cursor, table, &mut frame, folded)?.dim;
                    frame.sum = Some((dim, operator));
                } else {
                    frame.product = Some((folded.dim, operator));
                }
                cursor.bump();
                break;
            }
            let whole = fold_sum(cursor, table, &mut frame, folded)?;
            if frame.opening == Opening::Root {
                return Ok(whole);
            }
            frame.args.push(whole.dim);
            let is_call = matches!(frame.opening, Opening::Min | Opening::Max | Opening::Bcast);
            if is_call && cursor.eat(&TokenKind::Comma) {
                break;
            }
            if !cursor.at(&TokenKind::CloseParen) {
                return Err(cursor.unexpected(if is_call { "`,` or `)`" } else { "`)`" }));
            }
            cursor.bump();
            operand = close(cursor, table, &frame)?;
            let Some(parent) = outer.pop() else {
                unreachable!("every frame but the root has a parent")
            };
            frame = parent;
        }
    }
}

/// Reads a number or a name; or a sign or an opening token, which change the frame and are followed by the operand.
fn read_operand<'a>(
    cursor: &mut Cursor<'a>,
    table: &mut DimTable,
    frame: &mut Frame,
    outer: &mut Vec<Frame>,
) -> Result<Option<DimId>, Diagnostic> {
    let span = cursor.span();
    let opening = match (cursor.peek(), cursor.peek_second()) {
        (TokenKind::Integer(_), _) | (TokenKind::Minus, TokenKind::Integer(_)) => {
            let value = cursor.integer()?;
            return Ok(Some(table.constant(value)));
        }
        (TokenKind::Minus, _) => {
            cursor.bump();
            frame.negate = !frame.negate;
            return Ok(None);
        }
        (TokenKind::OpenParen, _) => Opening::Paren,
        (TokenKind::Identifier("ceil"), TokenKind::OpenParen) => Opening::Ceil,
        (TokenKind::Identifier("min"), TokenKind::OpenParen) => Opening::Min,
        (TokenKind::Identifier("max"), TokenKind::OpenParen) => Opening::Max,
        (TokenKind::Identifier("bcast"), TokenKind::OpenParen) => Opening::Bcast,
        (TokenKind::Identifier(_), _) => {
            let name = cursor.identifier()?;
            return table
                .symbol(name)
                .map(Some)
                .map_err(|error| diagnostic(&error, span));
        }
        _ => return Err(cursor.unexpected("a size: a number, a name or `(`")),
    };
    cursor.check_depth(outer.len() + 1)?;
    if opening != Opening::Paren {
        cursor.bump();
    }
    cursor.bump();
    outer.push(std::mem::replace(frame, Frame::new(opening, span)));
    Ok(None)
}

/// Applies the pending sign and product to `operand`.
fn fold_product(
    cursor: &Cursor<'_>,
    table: &mut DimTable,
    frame: &mut Frame,
    operand: DimId,
) -> Result<Expression, Diagnostic> {
    let negate = std::mem::take(&mut frame.negate);
    let operand = if negate {
        table.neg(operand)
    } else {
        Ok(operand)
    };
    let operand = operand.map_err(|error| located(cursor, frame, &error))?;
    let Some((left, operator)) = frame.product.take() else {
        if frame.opening == Opening::Ceil && cursor.at(&TokenKind::CloseParen) {
            return Err(cursor.unexpected("`/` and a divisor"));
        }
        return Ok(Expression::of(operand));
    };
    // In `ceil(a / b)` the last operation is the division that rounds up.
    let result = match (
        operator,
        frame.opening == Opening::Ceil && cursor.at(&TokenKind::CloseParen),
    ) {
        (Operator::Div, true) => table.ceil_div(left, operand),
        (_, true) => return Err(cursor.unexpected("`/` and a divisor")),
        (Operator::Mul, _) => table.mul(left, operand),
        (Operator::Mod, _) => table.modulo(left, operand),
        _ => table.floor_div(left, operand),
    };
    let dim = result.map_err(|error| located(cursor, frame, &error))?;
    let divisor = table
        .as_constant(operand)
        .filter(|_| operator == Operator::Mod);
    Ok(Expression {
        dim,
        remainder: divisor.map(|divisor| (left, divisor)),
    })
}

/// Applies the pending sum to `right`.
fn fold_sum(
    cursor: &Cursor<'_>,
    table: &mut DimTable,
    frame: &mut Frame,
    right: Expression,
) -> Result<Expression, Diagnostic> {
    let Some((left, operator)) = frame.sum.take() else {
        return Ok(right);
    };
    let result = if operator == Operator::Add {
        table.add(left, right.dim)
    } else {
        table.sub(left, right.dim)
    };
    result
        .map(Expression::of)
        .map_err(|error| located(cursor, frame, &error))
}

/// The value of a frame whose closing parenthesis was read.
fn close(cursor: &Cursor<'_>, table: &mut DimTable, frame: &Frame) -> Result<DimId, Diagnostic> {
    let result = match (frame.opening, frame.args.as_slice()) {
        (Opening::Min, args) => table.min_of(args),
        (Opening::Max, args) => table.max_of(args),
        (Opening::Bcast, args) => table.bcast_of(args),
        (_, &[only]) => return Ok(only),
        _ => unreachable!("parentheses hold one expression"),
    };
    result.map_err(|error| located(cursor, frame, &error))
}

fn operator_at(token: &TokenKind<'_>) -> Option<Operator> {
    Some(match token {
        TokenKind::Plus => Operator::Add,
        TokenKind::Minus => Operator::Sub,
        TokenKind::Star => Operator::Mul,
        TokenKind::Slash => Operator::Div,
        TokenKind::Percent => Operator::Mod,
        _ => return None,
    })
}

fn located(cursor: &Cursor<'_>, frame: &Frame, error: &DimError) -> Diagnostic {
    diagnostic(error, frame.start.to(cursor.previous_span()))
}
