//! Reads a kernel from text: its items. It stops at the first error.
//!
//! The result is a well-formed kernel with every node typed; whether it is valid as a whole is checked by the verifier.
//! Only expressions recurse, and their depth is limited.

use std::collections::HashMap;

use kiln_symbolic_shape::text::{Cursor, Diagnostic, Diagnostics, Position, Span, TokenKind};
use kiln_symbolic_shape::{DimLimits, DimTable};
use kiln_tensor::DType;

use super::read_axes::Bound;
use super::words::KEYWORDS;
use crate::error::KernelError;
use crate::form::{
    Axes, BufferId, Combine, Kernel, KernelBuilder, NodeId, Reduction, Stage, StageId,
    StageOperation, Store,
};

/// Reads a kernel.
///
/// The printer is canonical, but the reader is lenient: a number takes the dtype of its neighbouring operand, names in
/// different stages may shadow each other, and operations also have a function form.
///
/// # Errors
/// E01xx for the text, E02xx for errors in an expression, E03xx for sizes; with the place.
pub fn read(text: &str) -> Result<Kernel, Diagnostics> {
    read_within(text, DimLimits::default())
}

/// As [`read`], with other limits for the size table of the kernel.
///
/// # Errors
/// As [`read`].
pub fn read_within(text: &str, limits: DimLimits) -> Result<Kernel, Diagnostics> {
    Reader::read(text, limits).map_err(Diagnostics::from)
}

pub(super) type Read<T> = Result<T, Diagnostic>;

pub(super) struct Reader<'a> {
    pub(super) cursor: Cursor<'a>,
    pub(super) builder: KernelBuilder,
    pub(super) buffers: HashMap<&'a str, BufferId>,
    pub(super) stages: HashMap<&'a str, StageId>,
    /// Axes and temporaries in scope.
    pub(super) scope: HashMap<&'a str, Bound>,
    /// The names in scope, in the order in which they were bound.
    pub(super) bound: Vec<&'a str>,
    /// Stages of the block whose `init` was read ahead, by their start.
    declared: HashMap<usize, Declared<'a>>,
    /// The depth of the expression being read.
    pub(super) depth: usize,
}

/// A stage that was read up to the end of its `init`.
struct Declared<'a> {
    stage: StageId,
    axes: Vec<(&'a str, Bound)>,
    end: Position,
}

impl<'a> Reader<'a> {
    fn read(text: &'a str, limits: DimLimits) -> Read<Kernel> {
        let mut reader = Self {
            cursor: Cursor::new(text),
            builder: KernelBuilder::new("kernel", DimTable::with_limits(limits)),
            buffers: HashMap::new(),
            stages: HashMap::new(),
            scope: HashMap::new(),
            bound: Vec::new(),
            declared: HashMap::new(),
            depth: 0,
        };
        reader.header()?;
        reader.cursor.expect(&TokenKind::OpenBrace)?;
        if reader.cursor.eat_keyword("outer") {
            reader.outer()?;
        }
        while !reader.cursor.eat(&TokenKind::CloseBrace) {
            if reader.cursor.eat_keyword("carry") {
                reader.carry()?;
            } else {
                reader.item()?;
            }
        }
        if !reader.cursor.at_end() {
            return Err(reader.cursor.unexpected("the end of the text"));
        }
        let end = reader.cursor.previous_span();
        reader
            .builder
            .finish()
            .map_err(|error| located(&error, end))
    }

    fn outer(&mut self) -> Read<()> {
        loop {
            let (name, size) = self.sized_axis()?;
            let axis = self.builder.outer(name, size);
            self.bind(name, Bound::Axis(axis))?;
            if !self.cursor.eat(&TokenKind::Comma) {
                return Ok(());
            }
        }
    }

    fn carry(&mut self) -> Read<()> {
        let scope = self.bound.len();
        let axis = self.axis()?;
        let reverse = self.cursor.eat_keyword("reverse");
        self.cursor.expect(&TokenKind::OpenBrace)?;
        self.builder.begin_carry(axis, reverse);
        self.declare_stages()?;
        while !self.cursor.eat(&TokenKind::CloseBrace) {
            if self.cursor.at_keyword("carry") {
                return Err(located(&KernelError::NestedCarry, self.cursor.span()));
            }
            self.item()?;
        }
        self.builder.end_carry();
        self.unbind(scope);
        Ok(())
    }

    /// Reads ahead for the stages of a block that have an `init`: expressions before them may refer to their previous
    /// values.
    fn declare_stages(&mut self) -> Read<()> {
        self.declared.clear();
        let (start, mut nested) = (self.cursor.position(), 0_usize);
        // The last name outside of brackets: where the header starts if `init` comes before the next one.
        let mut header = start;
        loop {
            let position = self.cursor.position();
            match self.cursor.peek() {
                TokenKind::End => break,
                TokenKind::CloseBrace if nested == 0 => break,
                TokenKind::Identifier("init") if nested == 0 => {
                    self.cursor.rewind(header);
                    let at = self.cursor.span().start;
                    let declared = self.declare_stage(position)?;
                    self.declared.insert(at, declared);
                    continue;
                }
                TokenKind::Identifier(_) if nested == 0 => header = position,
                TokenKind::OpenParen | TokenKind::OpenBracket | TokenKind::OpenBrace => nested += 1,
                TokenKind::CloseParen | TokenKind::CloseBracket | TokenKind::CloseBrace => {
                    nested = nested.saturating_sub(1);
                }
                _ => {}
            }
            self.cursor.bump();
        }
        self.cursor.rewind(start);
        Ok(())
    }

    /// `h[e < H] init 0.0`, whose `init` was found at a position.
    fn declare_stage(&mut self, init: Position) -> Read<Declared<'a>> {
        let scope = self.bound.len();
        let (name, span) = self.new_stage_name()?;
        let axes = self.stage_axes()?;
        if self.cursor.position() != init {
            return Err(self
                .cursor
                .unexpected("`init` after the name and the axes of a stage"));
        }
        self.cursor.bump();
        let init = self.expression(None)?;
        let named = self.bound.split_off(scope);
        let bound = named
            .into_iter()
            .filter_map(|name| Some((name, self.scope.remove(name)?)))
            .collect();
        let stage = self.builder.declare_stage(name, axes, init);
        self.check(span)?;
        self.stages.insert(name, stage);
        Ok(Declared {
            stage,
            axes: bound,
            end: self.cursor.position(),
        })
    }

    /// A stage or a store.
    fn item(&mut self) -> Read<()> {
        let scope = self.bound.len();
        if self.cursor.eat_keyword("store") {
            self.store()?;
        } else if let Some(declared) = self.declared.remove(&self.cursor.span().start) {
            for (name, axis) in declared.axes {
                self.bind(name, axis)?;
            }
            let span = self.cursor.span();
            self.cursor.rewind(declared.end);
            let (operation, value) = self.definition()?;
            self.builder.define_stage(declared.stage, operation, value);
            self.check(span)?;
        } else {
            self.stage()?;
        }
        self.unbind(scope);
        Ok(())
    }

    fn stage(&mut self) -> Read<()> {
        let (name, span) = self.new_stage_name()?;
        let axes = self.stage_axes()?;
        let init = if self.cursor.eat_keyword("init") {
            Some(self.expression(None)?)
        } else {
            None
        };
        let (operation, value) = self.definition()?;
        let stage = Stage {
            name: name.to_owned(),
            axes,
            operation,
            value,
            init,
        };
        let id = self.builder.push_stage(stage);
        self.check(span)?;
        self.stages.insert(name, id);
        Ok(())
    }

    fn new_stage_name(&mut self) -> Read<(&'a str, Span)> {
        let span = self.cursor.span();
        if !matches!(self.cursor.peek(), TokenKind::Identifier(_)) {
            return Err(self.cursor.unexpected("a stage, `store`, `carry` or `}`"));
        }
        let name = self.cursor.identifier()?;
        self.expect_free(name, span)?;
        if self.stages.contains_key(name) || self.scope.contains_key(name) {
            return Err(Diagnostic::new(
                "E0127",
                format!("`{name}` is defined twice"),
                span,
            ));
        }
        Ok((name, span))
    }

    /// Keywords are not names.
    pub(super) fn expect_free(&self, name: &str, span: Span) -> Read<()> {
        if KEYWORDS.contains(&name) {
            let message = format!("expected a name, found the word `{name}` of the language");
            return Err(Diagnostic::new("E0125", message, span));
        }
        Ok(())
    }

    fn stage_axes(&mut self) -> Read<Axes> {
        if self.cursor.eat(&TokenKind::OpenBracket) {
            self.axis_list()
        } else {
            Ok(Axes::new())
        }
    }

    /// `= value` or `= reduce add f32[r < R] value`.
    fn definition(&mut self) -> Read<(StageOperation, NodeId)> {
        self.cursor.expect(&TokenKind::Equal)?;
        if !self.cursor.eat_keyword("reduce") {
            return Ok((StageOperation::Map, self.expression(None)?));
        }
        let reduction = self.word("a reduction", &Reduction::ALL, Reduction::as_word)?;
        let accumulator = if self.cursor.at(&TokenKind::OpenBracket) {
            None
        } else {
            Some(self.dtype()?)
        };
        self.cursor.expect(&TokenKind::OpenBracket)?;
        let axes = self.axis_list()?;
        let value = self.expression(None)?;
        let accumulator = accumulator.unwrap_or_else(|| self.builder.kernel().dtype(value));
        Ok((
            StageOperation::Reduce {
                reduction,
                axes,
                accumulator,
            },
            value,
        ))
    }

    fn store(&mut self) -> Read<()> {
        let start = self.cursor.span();
        let mut axes = self.stage_axes()?;
        let combine = match self.cursor.peek() {
            TokenKind::Identifier(_) => Some(self.word(
                "how to combine, or a buffer",
                &Combine::ALL,
                Combine::as_word,
            )?),
            _ => None,
        };
        let (buffer, dtype) = self.buffer()?;
        self.cursor.expect(&TokenKind::OpenBracket)?;
        let mut indices = crate::form::Nodes::new();
        while !self.cursor.eat(&TokenKind::CloseBracket) {
            if !indices.is_empty() {
                self.cursor.expect(&TokenKind::Comma)?;
            }
            indices.push(if self.at_new_axis() {
                let axis = self.axis()?;
                axes.push(axis);
                self.builder.index(axis)
            } else {
                self.expression(Some(DType::I64))?
            });
        }
        self.cursor.expect(&TokenKind::Equal)?;
        let value = self.expression(Some(dtype))?;
        self.builder.push_store(Store {
            axes,
            buffer,
            indices,
            value,
            combine,
        });
        self.check(start)
    }

    /// `%x`, with its dtype.
    pub(super) fn buffer(&mut self) -> Read<(BufferId, DType)> {
        let span = self.cursor.span();
        let name = self.cursor.value()?;
        match self.buffers.get(name) {
            Some(&buffer) => Ok((buffer, self.builder.kernel().buffer(buffer).dtype)),
            None => Err(Diagnostic::new(
                "E0126",
                format!("no buffer is called `%{name}`"),
                span,
            )),
        }
    }

    pub(super) fn dtype(&mut self) -> Read<DType> {
        let span = self.cursor.span();
        if !matches!(self.cursor.peek(), TokenKind::Identifier(_)) {
            return Err(self.cursor.unexpected("a dtype"));
        }
        let name = self.cursor.identifier()?;
        name.parse().map_err(|error: kiln_tensor::TensorError| {
            Diagnostic::new("E0133", error.to_string(), span)
        })
    }

    /// Reads one of several words.
    pub(super) fn word<T: Copy>(
        &mut self,
        what: &str,
        all: &[T],
        as_word: impl Fn(T) -> &'static str,
    ) -> Read<T> {
        let found = match *self.cursor.peek() {
            TokenKind::Identifier(word) => all.iter().copied().find(|&item| as_word(item) == word),
            _ => return Err(self.cursor.unexpected(what)),
        };
        let Some(found) = found else {
            let words: Vec<&str> = all.iter().map(|&item| as_word(item)).collect();
            let message = format!("expected {what}, found {}", self.cursor.peek());
            let note = format!("one of {}", words.join(", "));
            return Err(Diagnostic::new("E0128", message, self.cursor.span()).note(note));
        };
        self.cursor.bump();
        Ok(found)
    }

    /// The builder's error, if there is one, at a place from `start` on.
    pub(super) fn check(&mut self, start: Span) -> Read<()> {
        match self.builder.take_error() {
            Some(error) => Err(located(&error, start.to(self.cursor.previous_span()))),
            None => Ok(()),
        }
    }
}

fn located(error: &KernelError, span: Span) -> Diagnostic {
    Diagnostic::new(error.code(), error.to_string(), span)
}
