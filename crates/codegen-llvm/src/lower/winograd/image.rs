//! The second phase of a Winograd convolution: processes the image strip by strip.

use std::collections::HashMap;

use kiln_backend::Quantity;
use kiln_schedule_cpu::winograd::{ELEMENT, Winograd};

use super::strips::{Strip, Strips};
use crate::emit::Value;
use crate::error::LlvmError;
use crate::lower::scope::{Coordinate, Place, Scope, StageValue};

impl<'ctx> Strips<'_, '_, '_, 'ctx> {
    /// Computes one strip.
    pub(super) fn image(&self, unit: Value<'ctx>) -> Result<(), LlvmError> {
        let (lowering, emit) = (self.lowering, &self.lowering.emit);
        let Winograd {
            lines,
            columns,
            channels,
            features,
            ..
        } = self.winograd;
        let mut rest = unit;
        let mut split = |pieces: Quantity| {
            let pieces = lowering.quantity(&pieces);
            let index = emit.urem(rest, pieces);
            rest = emit.udiv(rest, pieces);
            index
        };
        let column = emit.imul(split(self.strips()), self.number(self.width()));
        let line = emit.imul(split(self.lines()), self.number(self.sums_of_tile()));
        let mut scope = Scope::default();
        for axis in self.others().into_iter().rev() {
            scope = scope.with_axis(axis, split(self.bound(axis)));
        }
        let n_columns = lowering.quantity(&self.bound(columns.image));
        let n_lines = lowering.quantity(&self.bound(lines.image));
        let sums = self.number(self.sums_of_tile());
        let left = emit.isub(n_columns, column);
        let tiles = emit.udiv(emit.iadd(left, self.number(self.lead())), sums);
        let elements = |count: u32| Quantity::constant(count.into());
        let of_tiles = elements(self.winograd.transform.planes() * self.length());
        let strip = Strip {
            scope,
            line,
            column,
            from_line: emit.smin(line, emit.isub(n_lines, sums)),
            tiles: emit.smin(tiles, self.number(self.length())),
            differences: lowering.scratch(&(of_tiles.clone() * self.bound(channels)), ELEMENT),
            products: lowering.scratch(&(of_tiles * elements(self.set())), ELEMENT),
            sums: lowering.scratch(
                &elements(self.sums_of_tile() * self.stored_width() * self.set()),
                ELEMENT,
            ),
        };
        self.input_transform(&strip)?;
        let n_vectors = lowering.quantity(&self.n_vectors());
        let mut begin = emit.i64(0);
        for count in [self.tile.vectors, 1] {
            let count_of = self.number(count);
            let whole = emit.imul(emit.udiv(emit.isub(n_vectors, begin), count_of), count_of);
            let end = emit.iadd(begin, whole);
            lowering.counted(begin, end, count_of, &[], |vector, _| {
                self.products(&strip, (vector, count))?;
                self.output_transform(&strip, count)?;
                self.results(&strip, (vector, count))?;
                Ok(Vec::new())
            })?;
            begin = end;
            if lowering.is_multiple(features, self.tile.lanes * count) {
                break;
            }
        }
        Ok(())
    }

    /// The epilogue of a set of features.
    fn results(
        &self,
        strip: &Strip<'ctx>,
        (first, vectors): (Value<'ctx>, u32),
    ) -> Result<(), LlvmError> {
        let (lowering, emit) = (self.lowering, &self.lowering.emit);
        let Winograd {
            lines,
            columns,
            features,
            stage,
            ..
        } = self.winograd;
        let lanes = self.tile.lanes;
        let base = emit.imul(first, self.number(lanes));
        let (zero, one) = (emit.i64(0), emit.i64(1));
        let items = lowering.kernel.items().get(1..).unwrap_or_default();
        let n_columns = lowering.quantity(&self.bound(columns.image));
        let width = emit.smin(
            emit.isub(n_columns, strip.column),
            self.number(self.width()),
        );
        let begin = emit.isub(strip.line, strip.from_line);
        lowering.counted(
            begin,
            self.number(self.sums_of_tile()),
            one,
            &[],
            |line, _| {
                lowering.counted(zero, width, one, &[], |column, _| {
                    let place = self.sum_at(strip, line, column);
                    let mut scope = strip
                        .scope
                        .with_axis(lines.image, emit.iadd(strip.from_line, line))
                        .with_axis(columns.image, emit.iadd(strip.column, column))
                        .with_vectors(self.vectors(features, base, vectors));
                    let sums: HashMap<_, _> = (0..vectors)
                        .map(|vector| {
                            let place = self.at(place, self.number(vector * lanes));
                            let at = Coordinate { row: 0, vector };
                            (at, emit.load_dtype(ELEMENT, lanes, place))
                        })
                        .collect();
                    scope.place(stage, StageValue::Current, Place::Registers(sums));
                    lowering.items(&mut scope, &self.tile, items)?;
                    Ok(Vec::new())
                })
            },
        )?;
        Ok(())
    }
}
