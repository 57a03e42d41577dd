//! Sizes and memory layout that both phases of a Winograd convolution share.

use kiln_backend::Quantity;
use kiln_kernel::AxisId;
use kiln_schedule_cpu::winograd::{ELEMENT, Winograd, strip_length};
use kiln_schedule_cpu::{ScheduledNest, Tile};

use crate::emit::Value;
use crate::lower::context::KernelLowering;
use crate::lower::scope::{Scope, Vectors};

/// The image, divided into strips of tiles.
pub(super) struct Strips<'l, 'a, 'm, 'ctx> {
    pub(super) lowering: &'l KernelLowering<'a, 'm, 'ctx>,
    pub(super) winograd: Winograd,
    pub(super) tile: Tile,
    /// Tiles in a register tile.
    pub(super) block: u32,
    pub(super) shared: Value<'ctx>,
}

/// One strip.
pub(super) struct Strip<'ctx> {
    /// The outer axes other than the image's and the features', bound to indices.
    pub(super) scope: Scope<'ctx>,
    /// Its first line.
    pub(super) line: Value<'ctx>,
    /// Its first column.
    pub(super) column: Value<'ctx>,
    /// The line where its tiles begin: earlier if fewer lines remain than a tile has.
    pub(super) from_line: Value<'ctx>,
    /// The number of its tiles.
    pub(super) tiles: Value<'ctx>,
    /// By plane, tile and channel.
    pub(super) differences: Value<'ctx>,
    /// By plane, tile and feature of a set.
    pub(super) products: Value<'ctx>,
    /// By line, column and feature of a set.
    pub(super) sums: Value<'ctx>,
}

impl<'l, 'a, 'm, 'ctx> Strips<'l, 'a, 'm, 'ctx> {
    pub(super) fn of(
        lowering: &'l KernelLowering<'a, 'm, 'ctx>,
        nest: &ScheduledNest,
        winograd: Winograd,
    ) -> Self {
        Self {
            lowering,
            winograd,
            tile: Tile {
                rows: None,
                ..nest.loops.tile
            },
            block: nest.loops.tile.rows.map_or(1, |(_, count)| count),
            shared: lowering.shared(&Quantity::constant(0)),
        }
    }

    pub(super) fn bound(&self, axis: AxisId) -> Quantity {
        self.lowering.bound(axis)
    }

    /// Tiles in a strip.
    pub(super) fn length(&self) -> u32 {
        strip_length(self.block)
    }

    /// Sums of a tile along an axis.
    pub(super) fn sums_of_tile(&self) -> u32 {
        self.winograd.transform.sums()
    }

    /// Columns of the image in a strip.
    pub(super) fn width(&self) -> u32 {
        self.sums_of_tile() * self.length()
    }

    /// How many columns before the strip's first a tile may begin, if it is the image's last.
    pub(super) fn lead(&self) -> u32 {
        self.sums_of_tile() - 1
    }

    /// Columns of sums kept per strip.
    pub(super) fn stored_width(&self) -> u32 {
        self.width() + self.lead()
    }

    /// Elements in a set of vectors.
    pub(super) fn set(&self) -> u32 {
        self.tile.lanes * self.tile.vectors
    }

    /// Vectors of features.
    pub(super) fn n_vectors(&self) -> Quantity {
        self.bound(self.winograd.features)
            .ceil_div(Quantity::constant(self.tile.lanes.into()))
    }

    /// Vectors of weights, one for each channel and vector of features: nine of them per window.
    pub(super) fn n_weights(&self) -> Quantity {
        self.bound(self.winograd.channels) * self.n_vectors()
    }

    /// The address of a transformed vector of weights, for a plane and a channel.
    pub(super) fn weight_at(
        &self,
        vector: Value<'ctx>,
        plane: Value<'ctx>,
        channel: Value<'ctx>,
    ) -> Value<'ctx> {
        let n_channels = self.lowering.quantity(&self.bound(self.winograd.channels));
        let plane = self.index(vector, self.number(self.winograd.transform.planes()), plane);
        let row = self.index(plane, n_channels, channel);
        let place = self.lowering.emit.imul(row, self.number(self.tile.lanes));
        self.at(self.shared, place)
    }

    pub(super) fn strips(&self) -> Quantity {
        let columns = Quantity::constant(self.width().into());
        self.bound(self.winograd.columns.image).ceil_div(columns)
    }

    pub(super) fn lines(&self) -> Quantity {
        let lines = Quantity::constant(self.sums_of_tile().into());
        self.bound(self.winograd.lines.image).ceil_div(lines)
    }

    pub(super) fn others(&self) -> Vec<AxisId> {
        let mut own = self.winograd.image().to_vec();
        own.push(self.winograd.features);
        let outer = self.lowering.kernel.outer().iter().copied();
        outer.filter(|axis| !own.contains(axis)).collect()
    }

    pub(super) fn units(&self) -> Quantity {
        let others = self.others().into_iter().map(|axis| self.bound(axis));
        others.fold(self.strips() * self.lines(), |units, size| units * size)
    }

    pub(super) fn number(&self, number: u32) -> Value<'ctx> {
        self.lowering.emit.i64(number.into())
    }

    /// The address of an element of a local array.
    pub(super) fn at(&self, base: Value<'ctx>, index: Value<'ctx>) -> Value<'ctx> {
        self.lowering.emit.element(base, ELEMENT, index)
    }

    /// `a * b + c`
    pub(super) fn index(&self, a: Value<'ctx>, b: Value<'ctx>, c: Value<'ctx>) -> Value<'ctx> {
        let emit = &self.lowering.emit;
        emit.iadd(emit.imul(a, b), c)
    }

    pub(super) fn vectors(&self, axis: AxisId, base: Value<'ctx>, count: u32) -> Vectors<'ctx> {
        Vectors {
            axis,
            lanes: self.tile.lanes,
            count,
            base,
            left: None,
            block: None,
        }
    }

    /// The address of a sum, by its line among the tiles' and its column relative to the strip's first, with the bindings
    /// of the axes.
    pub(super) fn sum_at(
        &self,
        strip: &Strip<'ctx>,
        line: Value<'ctx>,
        column: Value<'ctx>,
    ) -> Value<'ctx> {
        let emit = &self.lowering.emit;
        let row = self.index(line, self.number(self.stored_width()), column);
        let row = emit.iadd(row, self.number(self.lead()));
        self.at(strip.sums, emit.imul(row, self.number(self.set())))
    }
}
