//! The vectorised axis: full sets of vectors, then the remainder, masked or element by element.

use inkwell::IntPredicate;
use kiln_kernel::AxisId;
use kiln_kernel::seeded::{Fault, is_on};
use kiln_schedule_cpu::Tile;
use kiln_schedule_cpu::loops::VectorStep;

use super::context::KernelLowering;
use super::scope::{Coordinate, Remainder, Scope, Vectors};
use crate::emit::Value;
use crate::error::LlvmError;

/// Code for the vectors of an axis.
type Body<'a, 'ctx> = &'a mut dyn FnMut(&Scope<'ctx>) -> Result<(), LlvmError>;

/// An axis while it is iterated.
struct VectorLoop<'a, 'ctx> {
    scope: &'a Scope<'ctx>,
    axis: AxisId,
    tile: &'a Tile,
    end: Value<'ctx>,
    /// Whether at most one set of the tile's vectors is iterated.
    is_one_set: bool,
    /// An upper bound on the indices, if one is known.
    most: Option<u32>,
    /// The packing block of constants.
    block: Option<u32>,
}

impl<'ctx> KernelLowering<'_, '_, 'ctx> {
    /// Runs the body for the indices `begin..end` of an axis in vectors of a tile, in the steps of the schedule. `begin` is
    /// a multiple of the lanes.
    pub(super) fn in_vectors(
        &self,
        scope: &Scope<'ctx>,
        axis: AxisId,
        tile: &Tile,
        (begin, end, most): (Value<'ctx>, Value<'ctx>, Option<u32>),
        block: Option<u32>,
        body: Body<'_, 'ctx>,
    ) -> Result<(), LlvmError> {
        let along = VectorLoop {
            scope,
            axis,
            tile,
            end,
            is_one_set: most == Some(tile.lanes * tile.vectors),
            most,
            block,
        };
        let rows = scope.rows.map_or(1, |rows| rows.count);
        let mut begin = begin;
        for &step in self.nest.loops.steps(axis, rows) {
            match step {
                VectorStep::Whole(vectors) => {
                    begin = self.in_whole(&along, begin, vectors, body)?
                }
                VectorStep::NearlyWhole(vectors) => {
                    begin = self.in_nearly_whole(&along, begin, vectors, body)?;
                }
                VectorStep::Masked { vectors, full } => {
                    self.in_sets(&along, begin, (vectors, full), body)?;
                }
                VectorStep::MaskedAbove {
                    above,
                    vectors,
                    full,
                } => self.in_set_or_single(&along, begin, above, (vectors, full), body)?,
                VectorStep::Scalar => self.in_scalars(&along, begin, body)?,
            }
        }
        Ok(())
    }

    /// Element by element.
    fn in_scalars(
        &self,
        along: &VectorLoop<'_, 'ctx>,
        begin: Value<'ctx>,
        body: Body<'_, 'ctx>,
    ) -> Result<(), LlvmError> {
        let emit = &self.emit;
        let begin = emit.iadd(begin, emit.i64(i64::from(is_on(Fault::TailOffByOne))));
        let most = Some(u64::from(along.tile.lanes));
        self.counted_up_to(most, (begin, along.end, emit.i64(1)), &[], |index, _| {
            body(&along.scope.with_axis(along.axis, index))?;
            Ok(Vec::new())
        })?;
        Ok(())
    }

    /// Sets of vectors, full except for the last one's final vector; returns the first index after them, which may be past
    /// the end.
    fn in_nearly_whole(
        &self,
        along: &VectorLoop<'_, 'ctx>,
        begin: Value<'ctx>,
        vectors: u32,
        body: Body<'_, 'ctx>,
    ) -> Result<Value<'ctx>, LlvmError> {
        let emit = &self.emit;
        let lanes = along.tile.lanes;
        let length = emit.isub(along.end, begin);
        let spare = emit.i64(i64::from(lanes - 1));
        let whole = self.multiple_below(emit.iadd(length, spare), lanes * vectors);
        let middle = emit.iadd(begin, whole);
        let sets = VectorLoop {
            end: emit.smin(middle, along.end),
            ..*along
        };
        self.in_sets(&sets, begin, (vectors, vectors - 1), body)?;
        Ok(middle)
    }

    /// One masked set if more than `above` vectors remain, otherwise single masked vectors.
    fn in_set_or_single(
        &self,
        along: &VectorLoop<'_, 'ctx>,
        begin: Value<'ctx>,
        above: u32,
        set: (u32, u32),
        body: Body<'_, 'ctx>,
    ) -> Result<(), LlvmError> {
        let emit = &self.emit;
        let left = emit.isub(along.end, begin);
        let elements = emit.i64(i64::from(along.tile.lanes * above));
        let is_more = emit.icmp(IntPredicate::SGT, left, elements);
        let mut sets = |is_meant, set| {
            let begin = emit.select(is_meant, begin, along.end);
            self.in_sets(along, begin, set, body)
        };
        sets(is_more, set)?;
        sets(emit.not(is_more), (1, 0))
    }

    /// Sets of `count` vectors with every lane in range; returns the first index after them.
    fn in_whole(
        &self,
        along: &VectorLoop<'_, 'ctx>,
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

    /// The remainder from an index on, in sets of `count` vectors, some with every lane in range.
    fn in_sets(
        &self,
        along: &VectorLoop<'_, 'ctx>,
        begin: Value<'ctx>,
        (count, full): (u32, u32),
        body: Body<'_, 'ctx>,
    ) -> Result<(), LlvmError> {
        self.each_set(along, (begin, along.end), count, &mut |base| {
            let elements = self.emit.isub(along.end, base);
            let vectors = self.set_of(along, base, count, Some(Remainder { elements, full }));
            body(&along.scope.with_vectors(vectors))
        })
    }

    /// Runs the body for the first index of each set of vectors; without a loop if there is at most one.
    fn each_set(
        &self,
        along: &VectorLoop<'_, 'ctx>,
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
        along: &VectorLoop<'_, 'ctx>,
        base: Value<'ctx>,
        count: u32,
        left: Option<Remainder<'ctx>>,
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

    /// The number of lanes of a vector of the tile that are in range, unless all are: 0 or more; a number above that of
    /// the lanes means all.
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

    /// The lanes below a non-negative count.
    pub(super) fn mask_below(&self, count: Value<'ctx>, lanes: u32) -> Value<'ctx> {
        let emit = &self.emit;
        // More than the lanes of a vector means all; capped, so that the count fits the type it is compared in.
        let count = emit.smin(count, emit.i64(i64::from(lanes)));
        let count = emit.iadd(count, emit.i64(i64::from(is_on(Fault::WideMask))));
        emit.first_lanes(count, lanes)
    }
}
