//! Reads a scalar expression, by operator precedence.
//!
//! Recursion is limited: brackets, calls and signs count as levels of depth.

use kiln_scalar::{Function, ScalarOp};
use kiln_symbolic_shape::text::{Diagnostic, Span, TokenKind, parse_dim};
use kiln_tensor::DType;

use super::operand::{Number, Operand};
use super::read::{Read, Reader};
use super::read_axes::Bound;
use super::words::{AND, COMPARE, Level, OR, Operator};
use crate::form::{Load, LoadGuard, NodeId, Nodes, StageId};

/// How deep expressions may nest.
const MAX_DEPTH: usize = 64;

impl<'a> Reader<'a> {
    /// Reads an expression; `wanted` is the dtype that a number alone has.
    pub(super) fn expression(&mut self, wanted: Option<DType>) -> Read<NodeId> {
        let operand = self.nested(|reader| reader.binary(OR))?;
        self.node_of(operand, wanted)
    }

    /// Runs `read` one level deeper.
    fn nested<T>(&mut self, read: impl FnOnce(&mut Self) -> Read<T>) -> Read<T> {
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
    fn binary(&mut self, least: Level) -> Read<Operand> {
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
            left = Operand::Node(self.builder.apply(operator.on(dtype), operands));
            self.check(start)?;
            is_comparison = level == COMPARE;
        }
        Ok(left)
    }

    /// An operand with its signs.
    fn unary(&mut self) -> Read<Operand> {
        let start = self.cursor.span();
        if self.cursor.eat_keyword("not") {
            let operand = self.nested(|reader| reader.binary(COMPARE))?;
            let operand = self.node_of(operand, None)?;
            let node = self.builder.apply(ScalarOp::Not, [operand]);
            self.check(start)?;
            return Ok(Operand::Node(node));
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
        Ok(Operand::Node(node))
    }

    /// A number, whose sign was read.
    fn number(&mut self, is_negative: bool) -> Option<Operand> {
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
        Some(Operand::Number(number, span))
    }

    fn primary(&mut self) -> Read<Operand> {
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
        Ok(Operand::Node(node))
    }

    /// `{ t0 = exp(x); t0 * t0 }`.
    fn block(&mut self) -> Read<Operand> {
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

    /// `%x[i, j]`, and `if inside and c else v` behind it.
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

    fn optional_indices(&mut self) -> Read<Nodes> {
        if self.cursor.at(&TokenKind::OpenBracket) {
            self.indices()
        } else {
            Ok(Nodes::new())
        }
    }

    /// `prev(s)[j]`, `size(2*N)`, `f32(x)`, `gelu(x)`.
    fn call(&mut self, name: &'a str) -> Read<NodeId> {
        let span = self.cursor.span();
        self.cursor.bump();
        self.cursor.bump();
        match name {
            "prev" | "last" => {
                let stage = self.stage_name()?;
                self.cursor.expect(&TokenKind::CloseParen)?;
                let indices = self.optional_indices()?;
                let node = if name == "prev" {
                    self.builder.previous(stage, indices)
                } else {
                    self.builder.last(stage, indices)
                };
                self.check(span)?;
                Ok(node)
            }
            "size" => {
                let dim = parse_dim(&mut self.cursor, self.builder.dims_mut())?;
                self.cursor.expect(&TokenKind::CloseParen)?;
                Ok(self.builder.size(dim))
            }
            _ => match name.parse::<DType>() {
                Ok(dtype) => self.cast(dtype, span),
                Err(_) => self.function(name, span),
            },
        }
    }

    fn stage_name(&mut self) -> Read<StageId> {
        let span = self.cursor.span();
        let name = self.cursor.identifier()?;
        match self.stages.get(name) {
            Some(&stage) => Ok(stage),
            None => Err(Diagnostic::new(
                "E0126",
                format!("no stage here or before is called `{name}`"),
                span,
            )),
        }
    }

    /// A literal of a dtype if there is just a number in the brackets, else a conversion.
    fn cast(&mut self, dtype: DType, span: Span) -> Read<NodeId> {
        let is_bracketed = self.cursor.at(&TokenKind::OpenParen);
        let operand = self.nested(|reader| reader.binary(OR))?;
        self.cursor.expect(&TokenKind::CloseParen)?;
        let node = match &operand {
            Operand::Number(..) if !is_bracketed && dtype != DType::Bool => {
                self.node_of(operand, Some(dtype))?
            }
            _ => {
                let operand = self.node_of(operand, None)?;
                self.builder.apply(ScalarOp::Cast(dtype), [operand])
            }
        };
        self.check(span)?;
        Ok(node)
    }

    fn function(&mut self, name: &'a str, span: Span) -> Read<NodeId> {
        let Some(function) = Function::by_name(name) else {
            return Err(Diagnostic::new(
                "E0130",
                format!("no function is called `{name}`"),
                span,
            ));
        };
        let mut operands = Vec::new();
        let mut parameters: Vec<f64> = function
            .parameters()
            .iter()
            .map(|parameter| parameter.default)
            .collect();
        let mut is_first = true;
        while !self.cursor.eat(&TokenKind::CloseParen) {
            if !std::mem::take(&mut is_first) {
                self.cursor.expect(&TokenKind::Comma)?;
            }
            if *self.cursor.peek_second() == TokenKind::Equal {
                self.parameter(function, &mut parameters)?;
            } else {
                operands.push(self.nested(|reader| reader.binary(OR))?);
            }
        }
        // The first operand of a selection is a truth value.
        let skip = usize::from(function.primitive() == Some(ScalarOp::Select));
        let operands = self.unified(operands, skip)?;
        let node = self.builder.call(function, &parameters, operands);
        self.check(span)?;
        Ok(node)
    }

    /// `alpha=0.01`.
    fn parameter(&mut self, function: Function, parameters: &mut [f64]) -> Read<()> {
        let span = self.cursor.span();
        let name = self.cursor.identifier()?;
        self.cursor.expect(&TokenKind::Equal)?;
        let is_negative = self.cursor.eat(&TokenKind::Minus);
        let number = self.number(is_negative);
        let value = match number {
            Some(Operand::Number(number, _)) => number.in_dtype(DType::F64),
            _ => return Err(self.cursor.unexpected("a number")),
        };
        let position = function
            .parameters()
            .iter()
            .position(|parameter| parameter.name == name);
        match (
            value,
            position.and_then(|position| parameters.get_mut(position)),
        ) {
            (Some(kiln_scalar::ScalarValue::F64(value)), Some(parameter)) => {
                *parameter = value;
                Ok(())
            }
            (_, None) => Err(Diagnostic::new(
                "E0131",
                format!("`{function}` has no parameter `{name}`"),
                span,
            )),
            _ => Err(Diagnostic::new(
                "E0132",
                format!("`{name}` is too large a number"),
                span,
            )),
        }
    }

    /// Operands as nodes: numbers from number `first` on take the dtype of the others.
    fn unified(&mut self, operands: Vec<Operand>, first: usize) -> Read<Nodes> {
        let kernel = self.builder.kernel();
        let known = operands
            .iter()
            .skip(first)
            .find_map(|operand| match operand {
                Operand::Node(node) => Some(kernel.dtype(*node)),
                Operand::Number(..) => None,
            });
        let is_float = |operand: &Operand| matches!(operand, Operand::Number(Number::Float(_), _));
        let any_float = operands.iter().skip(first).any(is_float);
        let wanted = known
            .filter(|&dtype| dtype != DType::Bool)
            .or(any_float.then_some(DType::F32));
        operands
            .into_iter()
            .map(|operand| self.node_of(operand, wanted))
            .collect()
    }

    /// An operand as a node: a number has the wanted dtype, or its usual one.
    fn node_of(&mut self, operand: Operand, wanted: Option<DType>) -> Read<NodeId> {
        match operand {
            Operand::Node(node) => Ok(node),
            Operand::Number(number, span) => {
                let dtype = wanted
                    .filter(|&dtype| dtype != DType::Bool)
                    .unwrap_or_else(|| number.usual_dtype());
                match number.in_dtype(dtype) {
                    Some(value) => Ok(self.builder.literal(value)),
                    None => Err(Diagnostic::new(
                        "E0132",
                        format!("expected a number that {dtype} holds"),
                        span,
                    )),
                }
            }
        }
    }
}
