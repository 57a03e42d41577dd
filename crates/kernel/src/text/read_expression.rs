//! Reads a scalar expression, by operator precedence.
//!
//! Recursion is limited: brackets, calls and signs count towards the depth.

use kiln_scalar::ScalarOp;
use kiln_symbolic_shape::text::{Diagnostic, TokenKind};
use kiln_tensor::DType;

use super::operand::{Number, ParsedOperand};
use super::read::{Read, Reader};
use super::read_axes::Bound;
use super::words::{AND, COMPARE, Level, OR, Operator};
use crate::form::{Load, LoadGuard, NodeId, Nodes};

/// The maximum nesting of expressions.
const MAX_DEPTH: usize = 64;

impl<'a> Reader<'a> {
    /// Reads an expression; `wanted` is the dtype of a lone number.
    pub(super) fn expression(&mut self, wanted: Option<DType>) -> Read<NodeId> {
        let operand = self.nested(|reader| reader.binary(OR))?;
        self.node_of(operand, wanted)
    }

    /// Runs `read` one level deeper.
    pub(super) fn nested<T>(&mut self, read: impl FnOnce(&mut Self) -> Read<T>) -> Read<T> {
        if self.depth >= MAX_DEPTH {
            let message = format!("expected at most {MAX_DEPTH} levels of nesting, found more");
            return Err(Diagnostic::new(
                Diagnostic::TOO_DEEP,
                message,
                self.cursor.span(),
            ));
        }
        self.depth += 1;
        let result = read(self);
        self.depth -= 1;
        result
    }

    /// Operands between operators of at least a level.
    pub(super) fn binary(&mut self, least: Level) -> Read<ParsedOperand> {
        let start = self.cursor.span();
        let mut left = self.unary()?;
        let mut is_comparison = false;
        while let Some((operator, level)) = Operator::of(self.cursor.peek()) {
            if level < least || (is_comparison && level == COMPARE) {
                break;
            }
            self.cursor.bump();
            let right = self.binary(level + 1)?;
            let operands = self.unified(vec![left, right], 0)?;
            let dtype = operands
                .first()
                .map_or(DType::I64, |&node| self.builder.kernel().dtype(node));
            left = ParsedOperand::Node(self.builder.apply(operator.on(dtype), operands));
            self.check(start)?;
            is_comparison = level == COMPARE;
        }
        Ok(left)
    }

    /// An operand with its signs.
    fn unary(&mut self) -> Read<ParsedOperand> {
        let start = self.cursor.span();
        if self.cursor.eat_keyword("not") {
            let operand = self.nested(|reader| reader.binary(COMPARE))?;
            let operand = self.node_of(operand, None)?;
            let node = self.builder.apply(ScalarOp::Not, [operand]);
            self.check(start)?;
            return Ok(ParsedOperand::Node(node));
        }
        if !self.cursor.at(&TokenKind::Minus) {
            return self.primary();
        }
        self.cursor.bump();
        if let Some(number) = self.number(true) {
            return Ok(number);
        }
        let operand = self.nested(Self::unary)?;
        let operand = self.node_of(operand, None)?;
        let node = self.builder.apply(ScalarOp::Neg, [operand]);
        self.check(start)?;
        Ok(ParsedOperand::Node(node))
    }

    /// A number, whose sign was read.
    pub(super) fn number(&mut self, is_negative: bool) -> Option<ParsedOperand> {
        let span = self.cursor.span();
        let sign = if is_negative { "-" } else { "" };
        let number = match *self.cursor.peek() {
            TokenKind::Integer(magnitude) if is_negative => Number::Integer(-i128::from(magnitude)),
            TokenKind::Integer(magnitude) => Number::Integer(i128::from(magnitude)),
            TokenKind::Float(_) => Number::Float(format!("{sign}{}", self.cursor.slice(span))),
            TokenKind::Identifier("inf") => Number::Float(format!("{sign}inf")),
            TokenKind::Identifier("nan") => Number::Float("nan".to_owned()),
            _ => return None,
        };
        self.cursor.bump();
        Some(ParsedOperand::Number(number, span))
    }

    fn primary(&mut self) -> Read<ParsedOperand> {
        if let Some(number) = self.number(false) {
            return Ok(number);
        }
        let node = match *self.cursor.peek() {
            TokenKind::OpenParen => {
                self.cursor.bump();
                let inside = self.nested(|reader| reader.binary(OR))?;
                self.cursor.expect(&TokenKind::CloseParen)?;
                return Ok(inside);
            }
            TokenKind::OpenBrace => return self.nested(Self::block),
            TokenKind::Value(_) => self.load()?,
            TokenKind::Identifier(name) if *self.cursor.peek_second() == TokenKind::OpenParen => {
                self.call(name)?
            }
            TokenKind::Identifier(name) => self.name(name)?,
            _ => return Err(self.cursor.unexpected("an expression")),
        };
        Ok(ParsedOperand::Node(node))
    }

    /// `{ t0 = exp(x); t0 * t0 }`.
    fn block(&mut self) -> Read<ParsedOperand> {
        let scope = self.bound.len();
        self.cursor.bump();
        while matches!(self.cursor.peek(), TokenKind::Identifier(_))
            && *self.cursor.peek_second() == TokenKind::Equal
        {
            let span = self.cursor.span();
            let name = self.cursor.identifier()?;
            self.expect_free(name, span)?;
            self.cursor.expect(&TokenKind::Equal)?;
            let value = self.expression(None)?;
            self.cursor.expect(&TokenKind::Semicolon)?;
            self.bind(name, Bound::Temporary(value))?;
        }
        let result = self.binary(OR)?;
        self.cursor.expect(&TokenKind::CloseBrace)?;
        self.unbind(scope);
        Ok(result)
    }

    /// `%x[i, j]`, and `if inside and c else v` after it.
    fn load(&mut self) -> Read<NodeId> {
        let start = self.cursor.span();
        let (buffer, dtype) = self.buffer()?;
        let indices = self.indices()?;
        let guard = if self.cursor.eat_keyword("if") {
            Some(self.guard(dtype)?)
        } else {
            None
        };
        let node = self.builder.push_load(Load {
            buffer,
            indices,
            guard,
        });
        self.check(start)?;
        Ok(node)
    }

    fn guard(&mut self, dtype: DType) -> Read<LoadGuard> {
        let inside = self.cursor.eat_keyword("inside");
        let when = if !inside {
            Some(self.condition(OR)?)
        } else if self.cursor.eat_keyword("and") {
            Some(self.condition(AND)?)
        } else {
            None
        };
        self.cursor.expect_keyword("else")?;
        let otherwise = self.expression(Some(dtype))?;
        Ok(LoadGuard {
            inside,
            when,
            otherwise,
        })
    }

    fn condition(&mut self, least: Level) -> Read<NodeId> {
        let condition = self.nested(|reader| reader.binary(least))?;
        self.node_of(condition, None)
    }

    /// `[i, j + 1]`.
    fn indices(&mut self) -> Read<Nodes> {
        self.cursor.expect(&TokenKind::OpenBracket)?;
        let mut indices = Nodes::new();
        while !self.cursor.eat(&TokenKind::CloseBracket) {
            if !indices.is_empty() {
                self.cursor.expect(&TokenKind::Comma)?;
            }
            indices.push(self.expression(Some(DType::I64))?);
        }
        Ok(indices)
    }

    /// A name that is not called: a truth value, an axis, a temporary, a stage or a size.
    fn name(&mut self, name: &'a str) -> Read<NodeId> {
        let span = self.cursor.span();
        if matches!(name, "true" | "false") {
            self.cursor.bump();
            return Ok(self.builder.literal((name == "true").into()));
        }
        self.expect_free(name, span)?;
        self.cursor.bump();
        if let Some(&bound) = self.scope.get(name) {
            return Ok(match bound {
                Bound::Axis(axis) => self.builder.index(axis),
                Bound::Temporary(node) => node,
            });
        }
        if let Some(&stage) = self.stages.get(name) {
            let indices = self.optional_indices()?;
            let node = self.builder.local(stage, indices);
            self.check(span)?;
            return Ok(node);
        }
        match self.builder.dims().symbol_named(name) {
            Some(symbol) => {
                let dim = self.builder.dims().dim(symbol);
                Ok(self.builder.size(dim))
            }
            None => {
                let message = format!("no axis, stage or size in scope is called `{name}`");
                Err(Diagnostic::new("E0126", message, span))
            }
        }
    }

    pub(super) fn optional_indices(&mut self) -> Read<Nodes> {
        if self.cursor.at(&TokenKind::OpenBracket) {
            self.indices()
        } else {
            Ok(Nodes::new())
        }
    }

    /// Operands as nodes: numbers from number `first` on take the dtype of the others.
    pub(super) fn unified(&mut self, operands: Vec<ParsedOperand>, first: usize) -> Read<Nodes> {
        let kernel = self.builder.kernel();
        let known = operands
            .iter()
            .skip(first)
            .find_map(|operand| match operand {
                ParsedOperand::Node(node) => Some(kernel.dtype(*node)),
                ParsedOperand::Number(..) => None,
            });
        let is_float =
            |operand: &ParsedOperand| matches!(operand, ParsedOperand::Number(Number::Float(_), _));
        let any_float = operands.iter().skip(first).any(is_float);
        let wanted = known
            .filter(|&dtype| dtype != DType::Bool)
            .or(any_float.then_some(DType::F32));
        operands
            .into_iter()
            .map(|operand| self.node_of(operand, wanted))
            .collect()
    }

    /// An operand as a node: a number has the wanted dtype, or its default one.
    pub(super) fn node_of(
        &mut self,
        operand: ParsedOperand,
        wanted: Option<DType>,
    ) -> Read<NodeId> {
        match operand {
            ParsedOperand::Node(node) => Ok(node),
            ParsedOperand::Number(number, span) => {
                let dtype = wanted
                    .filter(|&dtype| dtype != DType::Bool)
                    .unwrap_or_else(|| number.usual_dtype());
                match number.in_dtype(dtype) {
                    Some(value) => Ok(self.builder.literal(value)),
                    None => Err(Diagnostic::new(
                        "E0132",
                        format!("expected a number that {dtype} can represent, found {number}"),
                        span,
                    )),
                }
            }
        }
    }
}
