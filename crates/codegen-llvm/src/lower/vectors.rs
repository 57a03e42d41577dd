//! An axis in vectors: full sets of them, and what is left over of it, with lanes masked off or one by one.

use inkwell::IntPredicate;
use kiln_kernel::AxisId;
use kiln_kernel::seeded::{Fault, is_on};

use super::context::Lowering;
use super::scope::{Coordinate, Left, Scope, Vectors};
use super::tile::{Tail, Tile};
use crate::emit::Value;
use crate::error::LlvmError;

/// Vectors side by side from which on they are so many because rows are few.
const WIDE: u32 = 8;

/// What is done with vectors of an axis.
type Body<'a, 'ctx> = &'a mut dyn FnMut(&Scope<'ctx>) -> Result<(), LlvmError>;

/// An axis while it is gone through.
struct Along<'a, 'ctx> {
    scope: &'a Scope<'ctx>,
    axis: AxisId,
    tile: &'a Tile,
    end: Value<'ctx>,
    /// The block that constants are packed in.
    block: Option<u32>,
}

impl<'ctx> Lowering<'_, '_, 'ctx> {
    /// Runs the body for the indices `begin..end` of an axis in vectors of a tile: full sets of vectors, and what is left.
    /// `begin` is a multiple of the lanes.
    pub(super) fn in_vectors(
        &self,
        scope: &Scope<'ctx>,
        axis: AxisId,
        tile: &Tile,
        (begin, end): (Value<'ctx>, Value<'ctx>),
        block: Option<u32>,
        body: Body<'_, 'ctx>,
    ) -> Result<(), LlvmError> {
        let set = tile.lanes * tile.vectors;
        let along = Along {
            scope,
            axis,
            tile,
            end,
            block,
        };
        let mut begin = begin;
        // Where the axis is known to be full sets of vectors nothing is left over, and no code is made for it.
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
        self.counted(left, end, emit.i64(1), &[], |index, _| {
            body(&scope.with_axis(axis, index))?;
            Ok(Vec::new())
        })?;
        Ok(())
    }

    /// What is left over of full sets, where lanes can be masked off.
    fn in_masked(
        &self,
        along: &Along<'_, 'ctx>,
        begin: Value<'ctx>,
        body: Body<'_, 'ctx>,
    ) -> Result<(), LlvmError> {
        let emit = &self.emit;
        let Tile { lanes, vectors, .. } = *along.tile;
        let rows = along.scope.rows.map_or(1, |rows| rows.count);
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
        // At an edge of the rows there is little to save, and each number of vectors is code to compile.
        let full_rows = along.tile.rows.map_or(1, |(_, count)| count);
        if vectors == 1 || (!is_wide && !is_slow && rows < full_rows) {
            return self.in_sets(along, begin, (vectors, 0), body);
        }
        let left = emit.isub(along.end, begin);
        let is_more = |count: u32| {
            let elements = emit.i64(i64::from(lanes * count));
            emit.icmp(IntPredicate::SGT, left, elements)
        };
        let mut sets = |is_meant, (count, full)| {
            let begin = emit.select(is_meant, begin, along.end);
            self.in_sets(along, begin, (count, full), body)
        };
        if is_wide {
            // Few rows wait for each sum, however many vectors they have: what is left takes one set.
            let half = vectors / 2;
            sets(is_more(half), (vectors, half))?;
            let is_half = emit.and(is_more(1), emit.not(is_more(half)));
            sets(is_half, (half, 1))?;
            return sets(emit.not(is_more(1)), (1, 0));
        }
        // What shares its operands with other rows is done in one set if it takes that many vectors.
        sets(is_more(vectors - 1), (vectors, vectors - 1))?;
        sets(emit.not(is_more(vectors - 1)), (1, 0))
    }

    /// Sets of so many vectors with every lane in range; answers with the first index behind them.
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
        let step = emit.i64(i64::from(elements));
        self.counted(begin, end, step, &[], |base, _| {
            let vectors = self.set_of(along, base, count, None);
            body(&along.scope.with_vectors(vectors))?;
            Ok(Vec::new())
        })?;
        Ok(end)
    }

    /// All there is from an index on, in sets of so many vectors, of which so many have every lane in range.
    fn in_sets(
        &self,
        along: &Along<'_, 'ctx>,
        begin: Value<'ctx>,
        (count, full): (u32, u32),
        body: Body<'_, 'ctx>,
    ) -> Result<(), LlvmError> {
        let emit = &self.emit;
        let step = emit.i64(i64::from(along.tile.lanes * count));
        self.counted(begin, along.end, step, &[], |base, _| {
            let elements = emit.isub(along.end, base);
            let vectors = self.set_of(along, base, count, Some(Left { elements, full }));
            body(&along.scope.with_vectors(vectors))?;
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

    /// Which lanes of a vector of the tile are in range, if not all of them are.
    pub(super) fn mask(&self, scope: &Scope<'ctx>, at: Coordinate) -> Option<Value<'ctx>> {
        let count = self.lanes_left(scope, at)?;
        Some(self.mask_below(count, scope.vectors?.lanes))
    }

    /// How many lanes of a vector of the tile are in range, if that may be less than all: 0 or more, and more than all for
    /// all.
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

    /// Which lanes are below a count, which is not negative.
    pub(super) fn mask_below(&self, count: Value<'ctx>, lanes: u32) -> Value<'ctx> {
        let emit = &self.emit;
        // More than a vector has is all of them; capped, so that the count fits what it is compared in.
        let count = emit.smin(count, emit.i64(i64::from(lanes)));
        let count = emit.iadd(count, emit.i64(i64::from(is_on(Fault::WideMask))));
        emit.first_lanes(count, lanes)
    }
}
