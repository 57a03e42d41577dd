//! Reads axes with their extents, and keeps the names in scope.

use kiln_symbolic_shape::DimId;
use kiln_symbolic_shape::text::{Diagnostic, TokenKind, parse_dim};
use kiln_tensor::DType;

use super::read::{Read, Reader};
use crate::form::{Axes, AxisId, Extent, NodeId};

/// The referent of a name in scope.
#[derive(Clone, Copy, Debug)]
pub(super) enum Bound {
    Axis(AxisId),
    Temporary(NodeId),
}

impl<'a> Reader<'a> {
    /// Brings a name into scope.
    pub(super) fn bind(&mut self, name: &'a str, what: Bound) -> Read<()> {
        let span = self.cursor.previous_span();
        if self.stages.contains_key(name) || self.scope.insert(name, what).is_some() {
            return Err(Diagnostic::new(
                "E0127",
                format!("`{name}` is defined twice"),
                span,
            ));
        }
        self.bound.push(name);
        Ok(())
    }

    /// Removes names from scope down to an earlier count.
    pub(super) fn unbind(&mut self, count: usize) {
        for name in self.bound.drain(count.min(self.bound.len())..) {
            self.scope.remove(name);
        }
    }

    /// Whether a new name and `<` come next: an axis is declared, not compared.
    pub(super) fn at_new_axis(&self) -> bool {
        let TokenKind::Identifier(name) = *self.cursor.peek() else {
            return false;
        };
        *self.cursor.peek_second() == TokenKind::Less
            && !self.scope.contains_key(name)
            && !self.stages.contains_key(name)
            && self.builder.dims().symbol_named(name).is_none()
    }

    /// `i < B, j < clamp(i + 1, S)]`; each is in scope of the following ones.
    pub(super) fn axis_list(&mut self) -> Read<Axes> {
        let mut axes = Axes::new();
        while !self.cursor.eat(&TokenKind::CloseBracket) {
            if !axes.is_empty() {
                self.cursor.expect(&TokenKind::Comma)?;
            }
            axes.push(self.axis()?);
        }
        Ok(axes)
    }

    /// `i < B` or `i < clamp(n, B)`.
    pub(super) fn axis(&mut self) -> Read<AxisId> {
        let name = self.axis_name()?;
        let is_clamped =
            self.cursor.at_keyword("clamp") && *self.cursor.peek_second() == TokenKind::OpenParen;
        let extent = if is_clamped {
            self.clamped()?
        } else {
            Extent::Size(self.extent_size()?)
        };
        let axis = self.builder.push_axis(name, extent);
        self.bind(name, Bound::Axis(axis))?;
        Ok(axis)
    }

    /// `i < B`, for which no axis is created yet.
    pub(super) fn sized_axis(&mut self) -> Read<(&'a str, DimId)> {
        Ok((self.axis_name()?, self.extent_size()?))
    }

    fn axis_name(&mut self) -> Read<&'a str> {
        let span = self.cursor.span();
        if !matches!(self.cursor.peek(), TokenKind::Identifier(_)) {
            return Err(self.cursor.unexpected("an axis such as `i < N`"));
        }
        let name = self.cursor.identifier()?;
        self.expect_free(name, span)?;
        self.cursor.expect(&TokenKind::Less)?;
        Ok(name)
    }

    fn clamped(&mut self) -> Read<Extent> {
        self.cursor.bump();
        self.cursor.bump();
        let value = self.expression(Some(DType::I64))?;
        self.cursor.expect(&TokenKind::Comma)?;
        let bound = self.extent_size()?;
        self.cursor.expect(&TokenKind::CloseParen)?;
        Ok(Extent::Clamped { value, bound })
    }

    fn extent_size(&mut self) -> Read<DimId> {
        parse_dim(&mut self.cursor, self.builder.dims_mut())
    }
}
