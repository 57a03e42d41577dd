//! The vectorised axis: full sets of vectors, then the remainder, masked or element by element.

use inkwell::IntPredicate;
use kiln_kernel::seeded::{Fault, is_on};
use kiln_kernel::{AxisId, Class};
use kiln_schedule_cpu::{Tail, Tile};

use super::context::Lowering;
use super::scope::{Coordinate, Left, Scope, Vectors};
use crate::emit::Value;
use crate::error::LlvmError;

/// Tiles of at least this many vectors are that wide because they have few rows.
const WIDE: u32 = 8;

/// What is done with vectors of an axis.
type Body<'a, 'ctx> = &'a mut dyn FnMut(&Scope<'ctx>) -> Result<(), LlvmError>;

/// An axis while it is iterated.
struct Along<'a, 'ctx> {
    scope: &'a Scope<'ctx>,
    axis: AxisId,
    tile: &'a Tile,
    end: Value<'ctx>,
    /// Whether at most one set of the tile's vectors is iterated.
    is_one_set: bool,
    /// The most indices, where that is known.
    most: Option<u32>,
    /// The block that constants are packed in.
    block: Option<u32>,
}

impl Along<'_, '_> {
    /// The rows that are computed together, and how many a full tile has.
    fn rows(&self) -> (u32, u32) {
        let rows = self.scope.rows.map_or(1, |rows| rows.count);
        (rows, self.tile.rows.map_or(1, |(_, count)| count))
    }
}

impl<'ctx> Lowering<'_, '_, 'ctx> {
    /// Runs the body for the indices `begin..end` of an axis in vectors of a tile: full sets of vectors, then the
    /// remainder. `begin` is a multiple of the lanes.
    pub(super) fn in_vectors(
        &self,
        scope: &Scope<'ctx>,
        axis: AxisId,
        tile: &Tile,
        (begin, end, most): (Value<'ctx>, Value<'ctx>, Option<u32>),
        block: Option<u32>,
        body: Body<'_, 'ctx>,
    ) -> Result<(), LlvmError> {
        let set = tile.lanes * tile.vectors;
        let along = Along {
            scope,
            axis,
            tile,
            end,
            is_one_set: most == Some(set),
            most,
            block,
        };
        if self.is_open_product(&along) {
            return self.in_open_sets(&along, begin, body);
        }
        let mut begin = begin;
        // Where the axis is known to be full sets of vectors there is no remainder, and no code for it.
        let is_full = self.is_multiple(axis, set);
        if tile.vectors > 1 || is_full {
            begin = self.in_whole(&along, begin, tile.vectors, body)?;
        }
        if is_full {
            return Ok(());
        }
        let is_whole = self.is_multiple(axis, tile.lanes);
        if tile.tail == Tail::Masked && !is_whole {
            return self.in_masked(&along, begin, body);
        }
        let begin = self.in_whole(&along, begin, 1, body)?;
        if is_whole {
            return Ok(());
        }
        let emit = &self.emit;
        let left = emit.iadd(begin, emit.i64(i64::from(is_on(Fault::TailOffByOne))));
        let most = Some(u64::from(tile.lanes));
        self.counted_up_to(most, (left, end, emit.i64(1)), &[], |index, _| {
            body(&scope.with_axis(axis, index))?;
            Ok(Vec::new())
        })?;
        Ok(())
    }

    /// Whether these are a contraction's columns, of unknown number, and masks are free beside the arithmetic: not with as
    /// many vectors as there are mask registers, nor for a single row.
    fn is_open_product(&self, along: &Along<'_, 'ctx>) -> bool {
        let (rows, full_rows) = along.rows();
        let has_masks = along.tile.tail == Tail::Masked && !self.level().has_slow_masked_stores();
        self.kernel.classification().class == Class::Contraction
            && self.bound(along.axis).as_constant().is_none()
            && has_masks
            && (along.tile.vectors < WIDE || (rows > 1 && rows < full_rows))
    }

    /// All columns of a contraction, where masks are free: sets whose last vector may be partial, and single vectors.
    ///
    /// The arithmetic outweighs the masks of a set, and a body for sets that are known to be full is code to compile.
    fn in_open_sets(
        &self,
        along: &Along<'_, 'ctx>,
        begin: Value<'ctx>,
        body: Body<'_, 'ctx>,
    ) -> Result<(), LlvmError> {
        let emit = &self.emit;
        let Tile { lanes, vectors, .. } = *along.tile;
        let (rows, full_rows) = along.rows();
        // In a row remainder there is little to save.
        if vectors == 1 || rows < full_rows {
            let count = if vectors < WIDE { vectors } else { vectors / 2 };
            return self.in_sets(along, begin, (count, 0), body);
        }
        let length = emit.isub(along.end, begin);
        let spare = emit.i64(i64::from(lanes - 1));
        let whole = self.multiple_below(emit.iadd(length, spare), lanes * vectors);
        let middle = emit.iadd(begin, whole);
        let sets = Along {
            end: emit.smin(middle, along.end),
            ..*along
        };
        self.in_sets(&sets, begin, (vectors, vectors - 1), body)?;
        self.in_sets(along, middle, (1, 0), body)
    }

    /// The remainder after full sets, where lanes can be masked.
    fn in_masked(
        &self,
        along: &Along<'_, 'ctx>,
        begin: Value<'ctx>,
        body: Body<'_, 'ctx>,
    ) -> Result<(), LlvmError> {
        let emit = &self.emit;
        let Tile { lanes, vectors, .. } = *along.tile;
        let (rows, full_rows) = along.rows();
        let is_slow = self.level().has_slow_masked_stores();
        let is_wide = vectors >= WIDE;
        let masks_one = match is_wide {
            true => is_slow,
            false => rows == 1,
        };
        if masks_one {
            // At most one vector with a mask: its stores take longer than most of what is computed here.
            let mut begin = begin;
            let half = is_wide.then_some(vectors / 2);
            for count in half.into_iter().chain([1]) {
                begin = self.in_whole(along, begin, count, body)?;
            }
            return self.in_sets(along, begin, (1, 0), body);
        }
        // In a row remainder there is little to save, and each number of vectors is code to compile.
        if vectors == 1 || (!is_wide && !is_slow && rows < full_rows) {
            return self.in_sets(along, begin, (vectors, 0), body);
        }
        // Half as many vectors with several rows are accumulators enough.
        if is_wide && rows > 1 {
            return self.in_sets(along, begin, (vectors / 2, 0), body);
        }
        // A single vector is done alone; one that shares its operands with other rows, where it fills no whole set.
        let (count, full, limit) = match is_wide {
            true => (vectors / 2, 0, 1),
            false => (vectors, vectors - 1, vectors - 1),
        };
        let left = emit.isub(along.end, begin);
        let elements = emit.i64(i64::from(lanes * limit));
        let is_more = emit.icmp(IntPredicate::SGT, left, elements);
        let mut sets = |is_meant, set| {
            let begin = emit.select(is_meant, begin, along.end);
            self.in_sets(along, begin, set, body)
        };
        sets(is_more, (count, full))?;
        sets(emit.not(is_more), (1, 0))
    }

    /// Sets of `count` vectors with every lane in range; returns the first index after them.
    fn in_whole(
        &self,
        along: &Along<'_, 'ctx>,
        begin: Value<'ctx>,
        count: u32,
        body: Body<'_, 'ctx>,
    ) -> Result<Value<'ctx>, LlvmError> {
        let emit = &self.emit;
        let elements = along.tile.lanes * count;
        let whole = self.multiple_below(emit.isub(along.end, begin), elements);
        let end = emit.iadd(begin, whole);
        self.each_set(along, (begin, end), count, &mut |base| {
            let vectors = self.set_of(along, base, count, None);
            body(&along.scope.with_vectors(vectors))
        })?;
        Ok(end)
    }

    /// The rest from an index on, in sets of `count` vectors, of which some have every lane in range.
    fn in_sets(
        &self,
        along: &Along<'_, 'ctx>,
        begin: Value<'ctx>,
        (count, full): (u32, u32),
        body: Body<'_, 'ctx>,
    ) -> Result<(), LlvmError> {
        self.each_set(along, (begin, along.end), count, &mut |base| {
            let elements = self.emit.isub(along.end, base);
            let vectors = self.set_of(along, base, count, Some(Left { elements, full }));
            body(&along.scope.with_vectors(vectors))
        })
    }

    /// Runs the body for the first index of each set of vectors: without a loop where there is at most one.
    fn each_set(
        &self,
        along: &Along<'_, 'ctx>,
        (begin, end): (Value<'ctx>, Value<'ctx>),
        count: u32,
        body: &mut dyn FnMut(Value<'ctx>) -> Result<(), LlvmError>,
    ) -> Result<(), LlvmError> {
        let emit = &self.emit;
        if along.is_one_set && count == along.tile.vectors {
            let mut done = Ok(());
            let is_any = emit.icmp(IntPredicate::SLT, begin, end);
            emit.when(is_any, || done = body(begin));
            return done;
        }
        let elements = along.tile.lanes * count;
        let step = emit.i64(i64::from(elements));
        let most = along.most.map(|most| u64::from(most.div_ceil(elements)));
        self.counted_up_to(most, (begin, end, step), &[], |base, _| {
            body(base)?;
            Ok(Vec::new())
        })?;
        Ok(())
    }

    fn set_of(
        &self,
        along: &Along<'_, 'ctx>,
        base: Value<'ctx>,
        count: u32,
        left: Option<Left<'ctx>>,
    ) -> Vectors<'ctx> {
        let emit = &self.emit;
        let lanes = along.tile.lanes;
        let block = along.block.filter(|&block| count * lanes == block);
        Vectors {
            axis: along.axis,
            lanes,
            count,
            base,
            left,
            block: block.map(|block| (emit.udiv(base, emit.i64(i64::from(block))), block)),
        }
    }

    /// The lanes of a vector of the tile that are in range, if not all of them are.
    pub(super) fn mask(&self, scope: &Scope<'ctx>, at: Coordinate) -> Option<Value<'ctx>> {
        let count = self.lanes_left(scope, at)?;
        Some(self.mask_below(count, scope.vectors?.lanes))
    }

    /// How many lanes of a vector of the tile are in range, if that may be fewer than all: 0 or more, where more than the
    /// lanes means all.
    pub(super) fn lanes_left(&self, scope: &Scope<'ctx>, at: Coordinate) -> Option<Value<'ctx>> {
        let emit = &self.emit;
        let vectors = scope.vectors?;
        let left = vectors.left.filter(|left| at.vector >= left.full)?;
        let before = i64::from(at.vector) * i64::from(vectors.lanes);
        Some(match before {
            0 => left.elements,
            _ => emit.smax(emit.isub(left.elements, emit.i64(before)), emit.i64(0)),
        })
    }

    /// The lanes below a count, which is not negative.
    pub(super) fn mask_below(&self, count: Value<'ctx>, lanes: u32) -> Value<'ctx> {
        let emit = &self.emit;
        // More than the lanes of a vector is all of them; capped, so that the count fits the type it is compared in.
        let count = emit.smin(count, emit.i64(i64::from(lanes)));
        let count = emit.iadd(count, emit.i64(i64::from(is_on(Fault::WideMask))));
        emit.first_lanes(count, lanes)
    }
}
