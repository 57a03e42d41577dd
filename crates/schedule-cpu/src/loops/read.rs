//! Reads loops from text.

use kiln_backend::{PackAxis, PackSpec};
use kiln_kernel::{AxisId, Kernel};
use kiln_symbolic_shape::text::{Cursor, Diagnostic, TokenKind};

use super::names::{AxisNames, ItemName};
use super::{
    Comparison, Factor, ItemLoops, LoopNest, Loops, PeelTaps, Size, VectorStep, VectorSteps, When,
    items,
};
use crate::tile::{Tail, Tile, VectorAxis};
use crate::winograd::Transform;

/// A name that the kernel does not have, or an item out of its order.
const UNKNOWN_NAME: &str = "E0519";

type Read<T> = Result<T, Diagnostic>;

/// Reads the loops of a kernel. They are not [verified](super::verify).
///
/// # Errors
/// The first token that does not fit, or the first name that the kernel does not have.
pub fn read(kernel: &Kernel, source: &str) -> Result<Loops, Diagnostic> {
    let mut reader = Reader {
        kernel,
        names: AxisNames::of(kernel),
        cursor: Cursor::new(source),
    };
    let loops = reader.loops()?;
    match reader.cursor.at_end() {
        true => Ok(loops),
        false => Err(reader.cursor.unexpected("the end")),
    }
}

struct Reader<'a> {
    kernel: &'a Kernel,
    names: AxisNames,
    cursor: Cursor<'a>,
}

impl Reader<'_> {
    fn loops(&mut self) -> Read<Loops> {
        let mut loops = Loops::default();
        self.cursor.expect_keyword("loops")?;
        self.cursor.expect(&TokenKind::OpenBrace)?;
        while !self.cursor.eat(&TokenKind::CloseBrace) {
            if self.cursor.eat_keyword("pack") {
                loops.packs.push(self.pack()?);
            } else {
                self.cursor.expect_keyword("nest")?;
                loops.nests.push(self.nest()?);
            }
        }
        Ok(loops)
    }

    fn nest(&mut self) -> Read<LoopNest> {
        let mut nest = LoopNest::new(self.cursor.identifier()?, 0);
        if self.cursor.eat_keyword("when") {
            nest.when = self.when()?;
        }
        self.cursor.expect(&TokenKind::OpenBrace)?;
        loop {
            let span = self.cursor.span();
            match self.cursor.identifier()? {
                "copy" => nest.copies.push(self.pack()?),
                "rows" => {
                    let axis = self.axis()?;
                    self.cursor.expect(&TokenKind::Star)?;
                    nest.tile.rows = Some((axis, self.number()?));
                    nest.tile.spread = self.cursor.eat_keyword("spread");
                }
                "vectors" => self.vectors(&mut nest.tile)?,
                "chunk" => nest.chunk = self.number()?,
                "columns_first" => {
                    self.cursor.expect_keyword("when")?;
                    nest.columns_first = self.when()?;
                }
                "task" => nest.task_operations = self.number()?.into(),
                "remainder" => {
                    nest.remainder.least = self.number()?;
                    nest.remainder.rows = self.list(Self::number)?;
                    if self.cursor.eat_keyword("even") {
                        nest.remainder.evened_below = self.number()?;
                    }
                }
                "cut" => {
                    let steps = self.steps()?;
                    nest.vectors.push(steps);
                }
                "split" => nest.splits = self.number()?,
                "unswitch" => nest.unswitch = self.number()?,
                "tables" => nest.tables = self.number()?,
                "windows" => nest.windows = true,
                "peel" => nest.peel = true,
                "stream" => nest.stream = true,
                "prefetch" => self.prefetch(&mut nest)?,
                "winograd" => {
                    let sums = self.number()?;
                    let transform = Transform::of_sums(sums);
                    nest.winograd = Some(transform.ok_or_else(|| {
                        let message = format!("expected 2 or 4 sums, found {sums}");
                        Diagnostic::new(Diagnostic::NUMBER_OUT_OF_RANGE, message, span)
                    })?);
                }
                "split_reductions" => nest.split_reductions = true,
                "unroll" => nest.unroll = self.number()?,
                "strength_reduction" => nest.strength_reduction = true,
                "body" => break,
                other => {
                    let message =
                        format!("expected a property of a nest, or `body`, found `{other}`");
                    return Err(Diagnostic::new(Diagnostic::UNEXPECTED_TOKEN, message, span));
                }
            }
        }
        self.cursor.expect(&TokenKind::OpenBrace)?;
        for item in items(self.kernel) {
            self.item_name(&ItemName(self.kernel, item).to_string())?;
            self.cursor.expect(&TokenKind::Colon)?;
            nest.items.push(self.item()?);
        }
        self.cursor.expect(&TokenKind::CloseBrace)?;
        self.cursor.expect(&TokenKind::CloseBrace)?;
        Ok(nest)
    }

    /// The name of the next item.
    fn item_name(&mut self, expected: &str) -> Read<()> {
        let start = self.cursor.span();
        let found = match self.cursor.identifier()? {
            "store" if expected.starts_with("store %") => {
                format!("store %{}", self.cursor.value()?)
            }
            "carry" if expected.starts_with("carry ") => {
                format!("carry {}", self.cursor.identifier()?)
            }
            stage => stage.to_owned(),
        };
        match found == expected {
            true => Ok(()),
            false => {
                let message = format!("expected the item `{expected}`, found `{found}`");
                Err(Diagnostic::new(UNKNOWN_NAME, message, start))
            }
        }
    }

    fn item(&mut self) -> Read<ItemLoops> {
        let mut loops = ItemLoops::default();
        let ends = |cursor: &mut Cursor<'_>| {
            // The name of the next item is followed by a colon, or has two tokens.
            let is_name = matches!(cursor.peek(), TokenKind::Identifier(_));
            !is_name || matches!(cursor.peek_second(), TokenKind::Colon)
        };
        if ends(&mut self.cursor)
            || self.cursor.at_keyword("store")
            || self.cursor.at_keyword("carry")
        {
            return Ok(loops);
        }
        loop {
            let span = self.cursor.span();
            match self.cursor.identifier()? {
                "together" => loops.together = true,
                "along" => loops.along = Some(self.axis()?),
                "fuse_next" => loops.fuse_next = true,
                "transposing_reduction" => loops.transposing_reduction = true,
                "accumulators" => loops.accumulators = self.number()?,
                "pairs" => loops.pairs = true,
                "fours" => loops.fours = true,
                "scaled_fours" => loops.scaled_fours = true,
                "sliding_window" => loops.sliding_window = true,
                "register_transpose" => loops.register_transpose = true,
                "peel_taps" if self.cursor.eat_keyword("before") => {
                    loops.peel_taps = PeelTaps::BeforeInnermost;
                }
                "peel_taps" => {
                    self.cursor.expect_keyword("in")?;
                    loops.peel_taps = PeelTaps::InInnermost;
                }
                "stream" => loops.stream = true,
                other => {
                    let message = format!("expected a transformation of an item, found `{other}`");
                    return Err(Diagnostic::new(Diagnostic::UNEXPECTED_TOKEN, message, span));
                }
            }
            if !self.cursor.eat(&TokenKind::Comma) {
                return Ok(loops);
            }
        }
    }

    /// `n * 2 * 16 masked`.
    fn vectors(&mut self, tile: &mut Tile) -> Read<()> {
        tile.vector = match self.cursor.eat_keyword("inner") {
            true => VectorAxis::Inner,
            false => VectorAxis::Outer(self.axis()?),
        };
        self.cursor.expect(&TokenKind::Star)?;
        tile.vectors = self.number()?;
        self.cursor.expect(&TokenKind::Star)?;
        tile.lanes = self.number()?;
        tile.tail = match self.cursor.eat_keyword("masked") {
            true => Tail::Masked,
            false => Tail::Scalar,
        };
        Ok(())
    }

    /// `n rows 4: whole 2, masked 1`.
    fn steps(&mut self) -> Read<VectorSteps> {
        let axis = self.axis()?;
        let rows = match self.cursor.eat_keyword("rows") {
            true => Some(self.number()?),
            false => None,
        };
        self.cursor.expect(&TokenKind::Colon)?;
        let mut steps = Vec::new();
        loop {
            let span = self.cursor.span();
            steps.push(match self.cursor.identifier()? {
                "whole" => VectorStep::Whole(self.number()?),
                "nearly" => VectorStep::NearlyWhole(self.number()?),
                "masked" => VectorStep::Masked {
                    vectors: self.number()?,
                    full: self.full()?,
                },
                "above" => {
                    let above = self.number()?;
                    self.cursor.expect_keyword("masked")?;
                    VectorStep::MaskedAbove {
                        above,
                        vectors: self.number()?,
                        full: self.full()?,
                    }
                }
                "scalar" => VectorStep::Scalar,
                other => {
                    let message = format!("expected a step over vectors, found `{other}`");
                    return Err(Diagnostic::new(Diagnostic::UNEXPECTED_TOKEN, message, span));
                }
            });
            if !self.cursor.eat(&TokenKind::Comma) {
                return Ok(VectorSteps { axis, rows, steps });
            }
        }
    }

    fn full(&mut self) -> Read<u32> {
        match self.cursor.eat_keyword("full") {
            true => self.number(),
            false => Ok(0),
        }
    }

    fn prefetch(&mut self, nest: &mut LoopNest) -> Read<()> {
        if self.cursor.eat_keyword("rows") {
            nest.prefetch.rows = true;
        } else if self.cursor.eat_keyword("results") {
            nest.prefetch.results = true;
        } else {
            self.cursor.expect_keyword("packed")?;
            nest.prefetch.packed = self.number()?;
            self.cursor.expect_keyword("shared")?;
            nest.prefetch.shared_rows = self.number()?;
        }
        Ok(())
    }

    /// `%w [1 / 32, 0, 1 % 32]`.
    fn pack(&mut self) -> Read<PackSpec> {
        let span = self.cursor.span();
        let name = self.cursor.value()?;
        let mut buffers = self.kernel.buffers().values();
        let buffer = buffers.position(|buffer| buffer.name == name);
        let buffer = buffer.ok_or_else(|| {
            let message = format!("expected a buffer of the kernel, found `%{name}`");
            Diagnostic::new(UNKNOWN_NAME, message, span)
        })?;
        let axes = self.list(|reader| {
            let axis = reader.number()? as usize;
            if reader.cursor.eat(&TokenKind::Slash) {
                let block = reader.number()? as usize;
                return Ok(PackAxis::Outer { axis, block });
            }
            if reader.cursor.eat(&TokenKind::Percent) {
                let block = reader.number()? as usize;
                return Ok(PackAxis::Inner { axis, block });
            }
            Ok(PackAxis::Whole(axis))
        })?;
        Ok(PackSpec { buffer, axes })
    }

    fn list<T>(&mut self, mut element: impl FnMut(&mut Self) -> Read<T>) -> Read<Vec<T>> {
        let mut all = Vec::new();
        self.cursor.expect(&TokenKind::OpenBracket)?;
        while !self.cursor.eat(&TokenKind::CloseBracket) {
            all.push(element(self)?);
            if !self.cursor.eat(&TokenKind::Comma) && !self.cursor.at(&TokenKind::CloseBracket) {
                return Err(self.cursor.unexpected("`,` or `]`"));
            }
        }
        Ok(all)
    }

    fn when(&mut self) -> Read<When> {
        let mut lists = Vec::new();
        loop {
            let mut list = vec![self.comparison()?];
            while self.cursor.eat_keyword("and") {
                list.push(self.comparison()?);
            }
            lists.push(list);
            if !self.cursor.eat_keyword("or") {
                return Ok(When(lists));
            }
        }
    }

    fn comparison(&mut self) -> Read<Comparison> {
        let left = self.size()?;
        let at_least = self.cursor.eat(&TokenKind::GreaterEqual);
        if !at_least {
            self.cursor.expect(&TokenKind::Less)?;
        }
        Ok(Comparison {
            left,
            at_least,
            right: self.size()?,
        })
    }

    /// `4 * m * cache(2)`.
    fn size(&mut self) -> Read<Size> {
        let mut size = Size::product(1, []);
        if matches!(self.cursor.peek(), TokenKind::Integer(_)) {
            size.constant = self.cursor.integer()?;
            if !self.cursor.eat(&TokenKind::Star) {
                return Ok(size);
            }
        }
        loop {
            let is_call = matches!(self.cursor.peek_second(), TokenKind::OpenParen);
            size.factors.push(match is_call {
                true => self.factor()?,
                false => Factor::Axis(self.axis()?),
            });
            if !self.cursor.eat(&TokenKind::Star) {
                return Ok(size);
            }
        }
    }

    fn factor(&mut self) -> Read<Factor> {
        let span = self.cursor.span();
        let name = self.cursor.identifier()?;
        self.cursor.expect(&TokenKind::OpenParen)?;
        let factor = match name {
            "results" => Factor::Results,
            "work" => Factor::Work,
            "cache" => {
                let level = self.number()?;
                let level = u8::try_from(level)
                    .ok()
                    .filter(|level| (1..=3).contains(level));
                Factor::Cache(level.ok_or_else(|| {
                    let message = "expected a cache level from 1 to 3";
                    Diagnostic::new(Diagnostic::NUMBER_OUT_OF_RANGE, message, span)
                })?)
            }
            other => {
                let message = format!("expected `cache`, `results` or `work`, found `{other}`");
                return Err(Diagnostic::new(Diagnostic::UNEXPECTED_TOKEN, message, span));
            }
        };
        self.cursor.expect(&TokenKind::CloseParen)?;
        Ok(factor)
    }

    fn axis(&mut self) -> Read<AxisId> {
        let span = self.cursor.span();
        let name = self.cursor.identifier()?;
        self.names.axis(name).ok_or_else(|| {
            let message = format!("expected an axis of the kernel, found `{name}`");
            Diagnostic::new(UNKNOWN_NAME, message, span)
        })
    }

    fn number(&mut self) -> Read<u32> {
        let span = self.cursor.span();
        let number = self.cursor.unsigned()?;
        u32::try_from(number).map_err(|_| {
            let message = format!("expected a number below 2^32, found {number}");
            Diagnostic::new(Diagnostic::NUMBER_OUT_OF_RANGE, message, span)
        })
    }
}
