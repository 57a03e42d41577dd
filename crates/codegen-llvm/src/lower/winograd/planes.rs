//! A strip of a Winograd convolution: input transform, one matrix product per plane, output transform.

use kiln_scalar::ScalarValue;
use kiln_schedule_cpu::winograd::{Along, ELEMENT, TAPS, Winograd};

use super::strips::{Strip, Strips};
use super::transform::{transform_input, transform_output};
use crate::emit::Value;
use crate::error::LlvmError;
use crate::lower::scope::{Coordinate, Form, Scope};

impl<'ctx> Strips<'_, '_, '_, 'ctx> {
    /// The input transform of each tile, vectorised along the channels.
    pub(super) fn input_transform(&self, strip: &Strip<'ctx>) -> Result<(), LlvmError> {
        let (lowering, emit) = (self.lowering, &self.lowering.emit);
        let Winograd {
            lines,
            columns,
            channels,
            element,
            transform,
            ..
        } = self.winograd;
        let (zero, one) = (emit.i64(0), emit.i64(1));
        let n_channels = lowering.quantity(&self.bound(channels));
        // The last lines and columns of a tile are those of the last tap.
        let bind = |scope: &Scope<'ctx>, along: Along, from: Value<'ctx>, place: u32| {
            let tap = place.min(TAPS as u32 - 1);
            let image = emit.iadd(from, self.number(place - tap));
            let scope = scope.with_axis(along.image, image);
            scope.with_axis(along.taps, self.number(tap))
        };
        lowering.counted(zero, strip.tiles, one, &[], |tile, _| {
            let from = self.first_column(strip, tile);
            let step = self.number(self.tile.lanes);
            lowering.counted(zero, n_channels, step, &[], |channel, _| {
                let scope = strip.scope.with_vectors(self.vectors(channels, channel, 1));
                let mut elements = Vec::new();
                for line in 0..transform.side() {
                    let scope = bind(&scope, lines, strip.from_line, line);
                    let mut of_line = Vec::new();
                    for column in 0..transform.side() {
                        let scope = bind(&scope, columns, from, column);
                        let at = Coordinate::default();
                        let value = lowering.value(&scope, element, at, Form::Lanes)?;
                        of_line.push(lowering.widened(&scope, value));
                    }
                    elements.push(transform_input(transform, lowering, &of_line));
                }
                for column in 0..transform.side() {
                    let of_column: Vec<_> =
                        elements.iter().map(|line| line[column as usize]).collect();
                    for (line, value) in (0..).zip(transform_input(transform, lowering, &of_column))
                    {
                        let plane = (line * transform.side() + column) * self.length();
                        let row = emit.iadd(tile, self.number(plane));
                        let place = self.index(row, n_channels, channel);
                        emit.store_dtype(ELEMENT, self.at(strip.differences, place), value);
                    }
                }
                Ok(Vec::new())
            })
        })?;
        Ok(())
    }

    /// A matrix product for each plane: tiles by channels, channels by a set of features.
    pub(super) fn products(
        &self,
        strip: &Strip<'ctx>,
        set: (Value<'ctx>, u32),
    ) -> Result<(), LlvmError> {
        let (lowering, emit) = (self.lowering, &self.lowering.emit);
        let (zero, one) = (emit.i64(0), emit.i64(1));
        let (block, half) = (self.block, self.block / 2);
        // A remainder of at most half a block is computed as a half block.
        let spare = block - (half + 1).min(block);
        let blocks = emit.udiv(
            emit.iadd(strip.tiles, self.number(spare)),
            self.number(block),
        );
        let whole = emit.imul(blocks, self.number(block));
        let planes = self.number(self.winograd.transform.planes());
        lowering.counted(zero, planes, one, &[], |plane, _| {
            lowering.counted(zero, whole, self.number(block), &[], |tile, _| {
                self.block_of_products(strip, set, (plane, tile), block)?;
                Ok(Vec::new())
            })?;
            if half > 0 {
                lowering.counted(whole, strip.tiles, self.number(half), &[], |tile, _| {
                    self.block_of_products(strip, set, (plane, tile), half)?;
                    Ok(Vec::new())
                })?;
            }
            Ok(Vec::new())
        })?;
        Ok(())
    }

    /// The products of a block of tiles, in registers.
    fn block_of_products(
        &self,
        strip: &Strip<'ctx>,
        (first, vectors): (Value<'ctx>, u32),
        (plane, tile): (Value<'ctx>, Value<'ctx>),
        tiles: u32,
    ) -> Result<(), LlvmError> {
        let (lowering, emit) = (self.lowering, &self.lowering.emit);
        let lanes = self.tile.lanes;
        let n_channels = lowering.quantity(&self.bound(self.winograd.channels));
        let row = self.index(plane, self.number(self.length()), tile);
        let row_of = |tile| emit.iadd(row, self.number(tile));
        let rows: Vec<_> = (0..tiles)
            .map(|tile| self.at(strip.differences, emit.imul(row_of(tile), n_channels)))
            .collect();
        let nothing = emit.splat(lowering.literal(ScalarValue::F32(0.0)), lanes);
        let initial = vec![nothing; (tiles * vectors) as usize];
        let (zero, one) = (emit.i64(0), emit.i64(1));
        let sums = lowering.counted(zero, n_channels, one, &initial, |channel, sums| {
            let weights: Vec<_> = (0..vectors)
                .map(|vector| {
                    let vector = emit.iadd(first, self.number(vector));
                    emit.load_dtype(ELEMENT, lanes, self.weight_at(vector, plane, channel))
                })
                .collect();
            let mut next = Vec::with_capacity(sums.len());
            for (row, sums) in rows.iter().zip(sums.chunks(vectors as usize)) {
                let element = emit.load_dtype(ELEMENT, 1, self.at(*row, channel));
                let element = emit.splat(element, lanes);
                for (&weight, &sum) in weights.iter().zip(sums) {
                    next.push(emit.fma(element, weight, sum));
                }
            }
            Ok(next)
        })?;
        for (tile, sums) in (0..tiles).zip(sums.chunks(vectors as usize)) {
            let row = emit.imul(row_of(tile), self.number(self.set()));
            let place = self.at(strip.products, row);
            for (vector, &sum) in (0..vectors).zip(sums) {
                let place = self.at(place, self.number(vector * lanes));
                emit.store_dtype(ELEMENT, place, sum);
            }
        }
        Ok(())
    }

    /// The output transform of each tile.
    pub(super) fn output_transform(
        &self,
        strip: &Strip<'ctx>,
        vectors: u32,
    ) -> Result<(), LlvmError> {
        let (lowering, emit) = (self.lowering, &self.lowering.emit);
        let (zero, one) = (emit.i64(0), emit.i64(1));
        let (lanes, transform) = (self.tile.lanes, self.winograd.transform);
        lowering.counted(zero, strip.tiles, one, &[], |tile, _| {
            let from = emit.isub(self.first_column(strip, tile), strip.column);
            for vector in 0..vectors {
                let first = self.number(vector * lanes);
                let product = |line: u32, column: u32| {
                    let plane = (line * transform.side() + column) * self.length();
                    let row = emit.iadd(tile, self.number(plane));
                    let place = self.index(row, self.number(self.set()), first);
                    emit.load_dtype(ELEMENT, lanes, self.at(strip.products, place))
                };
                let of_line = |line| {
                    let products: Vec<_> = (0..transform.side())
                        .map(|column| product(line, column))
                        .collect();
                    transform_output(transform, lowering, &products)
                };
                let of_lines: Vec<_> = (0..transform.side()).map(of_line).collect();
                for column in 0..transform.sums() {
                    let of_column: Vec<_> =
                        of_lines.iter().map(|line| line[column as usize]).collect();
                    for (line, sum) in (0..).zip(transform_output(transform, lowering, &of_column))
                    {
                        let column = emit.iadd(from, self.number(column));
                        let place = self.sum_at(strip, self.number(line), column);
                        emit.store_dtype(ELEMENT, self.at(place, first), sum);
                    }
                }
            }
            Ok(Vec::new())
        })?;
        Ok(())
    }

    /// The first column of a tile, early enough for its columns to fit.
    fn first_column(&self, strip: &Strip<'ctx>, tile: Value<'ctx>) -> Value<'ctx> {
        let emit = &self.lowering.emit;
        let column = self.index(tile, self.number(self.sums_of_tile()), strip.column);
        let n_columns = self
            .lowering
            .quantity(&self.bound(self.winograd.columns.image));
        emit.smin(
            column,
            emit.isub(n_columns, self.number(self.sums_of_tile())),
        )
    }
}
