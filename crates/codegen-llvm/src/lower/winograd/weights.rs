//! The first phase: what nine weights are beside sixteen differences.

use kiln_scalar::ScalarValue;

use super::strips::Strips;
use super::{ELEMENT, SIDE, TAPS, Winograd};
use crate::emit::Value;
use crate::error::LlvmError;
use crate::lower::scope::{Coordinate, Form, Scope};

impl<'ctx> Strips<'_, '_, '_, 'ctx> {
    /// What the weights of one channel and a vector of features become.
    pub(super) fn weights(&self, unit: Value<'ctx>) -> Result<(), LlvmError> {
        let (lowering, emit) = (self.lowering, &self.lowering.emit);
        let Winograd {
            channels,
            features,
            lines,
            columns,
            weight,
            ..
        } = self.winograd;
        let n_channels = lowering.quantity(&self.bound(channels));
        let channel = emit.urem(unit, n_channels);
        let vector = emit.udiv(unit, n_channels);
        let base = emit.imul(vector, self.number(self.tile.lanes));
        let scope = Scope::default()
            .with_axis(channels, channel)
            .with_vectors(self.vectors(features, base, 1));
        let mut weights = Vec::with_capacity(TAPS);
        for line in 0..TAPS {
            let mut of_line = Vec::with_capacity(TAPS);
            for column in 0..TAPS {
                let scope = scope
                    .with_axis(lines.taps, emit.i64(line as i64))
                    .with_axis(columns.taps, emit.i64(column as i64));
                let value = lowering.value(&scope, weight, Coordinate::default(), Form::Lanes)?;
                of_line.push(lowering.widened(&scope, value));
            }
            weights.push(self.of_weights(&of_line));
        }
        for column in 0..SIDE {
            let of_column: Vec<_> = weights.iter().map(|line| line[column]).collect();
            for (line, value) in self.of_weights(&of_column).into_iter().enumerate() {
                let plane = self.number((line * SIDE + column) as u32);
                let place = self.weight_at(vector, plane, channel);
                emit.store_dtype(ELEMENT, place, value);
            }
        }
        Ok(())
    }

    /// Three weights in a row as what four differences are multiplied with.
    fn of_weights(&self, weights: &[Value<'ctx>]) -> [Value<'ctx>; SIDE] {
        let emit = &self.lowering.emit;
        let &[first, second, third] = weights else {
            unreachable!("a window has three taps along each axis")
        };
        let half = emit.splat(
            self.lowering.literal(ScalarValue::F32(0.5)),
            self.tile.lanes,
        );
        let ends = emit.fadd(first, third);
        let halved = |sum| emit.fmul(half, sum);
        [
            first,
            halved(emit.fadd(ends, second)),
            halved(emit.fsub(ends, second)),
            third,
        ]
    }
}
