//! Reads call-shaped syntax: stages of a block, sizes, conversions and functions.

use kiln_scalar::{Function, ScalarOp};
use kiln_symbolic_shape::text::{Diagnostic, Span, TokenKind, parse_dim};
use kiln_tensor::DType;

use super::operand::ParsedOperand;
use super::read::{Read, Reader};
use super::words::OR;
use crate::form::{NodeId, StageId};

impl<'a> Reader<'a> {
    /// `prev(s)[j]`, `size(2*N)`, `f32(x)`, `gelu(x)`.
    pub(super) fn call(&mut self, name: &'a str) -> Read<NodeId> {
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

    /// A literal of a dtype if there is only a number in the parentheses, otherwise a conversion.
    fn cast(&mut self, dtype: DType, span: Span) -> Read<NodeId> {
        let is_bracketed = self.cursor.at(&TokenKind::OpenParen);
        let operand = self.nested(|reader| reader.binary(OR))?;
        self.cursor.expect(&TokenKind::CloseParen)?;
        let node = match &operand {
            ParsedOperand::Number(..) if !is_bracketed && dtype != DType::Bool => {
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
            Some(ParsedOperand::Number(number, _)) => number.in_dtype(DType::F64),
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
}
