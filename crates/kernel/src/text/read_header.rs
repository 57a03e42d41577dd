//! Reads a kernel's header: its name, symbols, buffers, and facts about sizes.
//!
//! Facts are read before the shapes they refer to, so that sizes are built with them known; symbols are declared before
//! either, in the order of the list, or otherwise in that of the shapes.

use kiln_symbolic_shape::text::{Diagnostic, Span, TokenKind, parse_dim, parse_shape, parse_where};
use kiln_symbolic_shape::{DimError, DimTable, SymbolicDimension};

use super::print::shape_names;
use super::read::{Read, Reader};
use crate::form::{Buffer, Dims, KernelBuilder, Role};

impl<'a> Reader<'a> {
    pub(super) fn header(&mut self) -> Read<()> {
        self.cursor.expect_keyword("kernel")?;
        let name = self.cursor.global()?;
        let limits = self.builder.dims().limits().clone();
        self.builder = KernelBuilder::new(name, DimTable::with_limits(limits));
        if self.cursor.eat(&TokenKind::Less) {
            self.symbols()?;
        }
        self.cursor.expect(&TokenKind::OpenParen)?;
        let (start, first) = (self.cursor.span(), self.cursor.position());
        self.cursor
            .recover_to(&[TokenKind::CloseParen, TokenKind::OpenBrace]);
        let (end, last) = (self.cursor.span(), self.cursor.position());
        let source = self.cursor.slice(Span {
            start: start.start,
            end: end.start,
        });
        for name in shape_names(source) {
            let declared = self.builder.dims_mut().symbol(name);
            declared.map_err(|error| sized(&error, start.to(end)))?;
        }
        if self.cursor.eat(&TokenKind::CloseParen) && self.cursor.eat_keyword("where") {
            parse_where(&mut self.cursor, self.builder.dims_mut())?;
        }
        let body = self.cursor.position();
        self.cursor.rewind(first);
        self.buffer_list()?;
        if self.cursor.position() != last {
            return Err(self.cursor.unexpected("`,` or `)`"));
        }
        self.cursor.expect(&TokenKind::CloseParen)?;
        self.cursor.rewind(body);
        Ok(())
    }

    /// `B, S >= -1, T = B * S>`.
    fn symbols(&mut self) -> Read<()> {
        while !self.cursor.eat(&TokenKind::Greater) {
            let span = self.cursor.span();
            let name = self.cursor.identifier()?;
            let twice = |dims: &kiln_symbolic_shape::DimTable| {
                let message =
                    format!("symbol `{name}` is used before it is declared, or declared twice");
                dims.symbol_named(name)
                    .map_or(Ok(()), |_| Err(Diagnostic::new("E0127", message, span)))
            };
            twice(self.builder.dims())?;
            let declared = if self.cursor.eat(&TokenKind::GreaterEqual) {
                let min = self.cursor.integer()?;
                SymbolicDimension::range(name, min..)
                    .and_then(|dimension| self.builder.dims_mut().declare(dimension))
                    .map(|_| ())
            } else if self.cursor.eat(&TokenKind::Equal) {
                let value = parse_dim(&mut self.cursor, self.builder.dims_mut())?;
                twice(self.builder.dims())?;
                self.builder.dims_mut().define(name, value);
                Ok(())
            } else {
                self.builder.dims_mut().symbol(name).map(|_| ())
            };
            declared.map_err(|error| sized(&error, span))?;
            if !self.cursor.eat(&TokenKind::Comma) && !self.cursor.at(&TokenKind::Greater) {
                return Err(self.cursor.unexpected("`,` or `>`"));
            }
        }
        Ok(())
    }

    /// `%x: in f32[B, S] strides [S, 1], …` up to the end of the list.
    fn buffer_list(&mut self) -> Read<()> {
        while !self.cursor.at(&TokenKind::CloseParen) {
            let span = self.cursor.span();
            let name = self.cursor.value()?;
            self.cursor.expect(&TokenKind::Colon)?;
            let role = self.word("what the buffer is for", &Role::ALL, Role::as_word)?;
            let dtype = self.dtype()?;
            let shape = self.dims()?;
            let strides = if self.cursor.eat_keyword("strides") {
                Some(self.dims()?)
            } else {
                None
            };
            if strides
                .as_ref()
                .is_some_and(|strides| strides.len() != shape.len())
            {
                let message = format!(
                    "expected one stride per axis, {}, of `%{name}`",
                    shape.len()
                );
                return Err(Diagnostic::new(
                    "E0129",
                    message,
                    span.to(self.cursor.previous_span()),
                ));
            }
            let id = self.builder.push_buffer(Buffer {
                name: name.to_owned(),
                role,
                dtype,
                shape,
                strides,
            });
            if self.buffers.insert(name, id).is_some() {
                return Err(Diagnostic::new(
                    "E0127",
                    format!("`%{name}` is defined twice"),
                    span,
                ));
            }
            if !self.cursor.eat(&TokenKind::Comma) {
                break;
            }
        }
        Ok(())
    }

    fn dims(&mut self) -> Read<Dims> {
        Ok(parse_shape(&mut self.cursor, self.builder.dims_mut())?
            .into_iter()
            .collect())
    }
}

fn sized(error: &DimError, span: Span) -> Diagnostic {
    Diagnostic::new(error.code(), error.to_string(), span)
}
