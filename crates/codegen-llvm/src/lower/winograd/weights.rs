//! The first phase of a Winograd convolution: the weight transform.

use kiln_schedule_cpu::winograd::{ELEMENT, TAPS, Winograd};

use super::strips::Strips;
use super::transform::transform_weights;
use crate::emit::Value;
use crate::error::LlvmError;
use crate::lower::scope::{Coordinate, Form, Scope};

impl<'ctx> Strips<'_, '_, '_, 'ctx> {
    /// Transforms the weights of one channel and a vector of features.
    pub(super) fn weight_transform(&self, unit: Value<'ctx>) -> Result<(), LlvmError> {
        let (lowering, emit) = (self.lowering, &self.lowering.emit);
        let Winograd {
            channels,
            features,
            lines,
            columns,
            weight,
            transform,
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
            weights.push(transform_weights(transform, lowering, &of_line));
        }
        for column in 0..transform.side() {
            let of_column: Vec<_> = weights.iter().map(|line| line[column as usize]).collect();
            for (line, value) in (0..).zip(transform_weights(transform, lowering, &of_column)) {
                let plane = self.number(line * transform.side() + column);
                let place = self.weight_at(vector, plane, channel);
                emit.store_dtype(ELEMENT, place, value);
            }
        }
        Ok(())
    }
}
