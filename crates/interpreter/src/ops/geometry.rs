//! Window geometry: the input position of each output position and kernel tap, over spatial axes.
//!
//! Positions are walked as *rows* along the last spatial axis, under flat indices of all other axes.
//! Invariant of a [`Geometry`]: every `output * stride + tap * dilation` fits an `i64`.

use crate::context::{EvaluateContext, Shape};
use crate::fault::OpFault;
use kiln_ir::{Dims, Window};
use std::ops::Range;

/// One spatial axis.
#[derive(Clone, Copy, Debug)]
struct Axis {
    input: usize,
    kernel: usize,
    output: usize,
    stride: i64,
    dilation: i64,
    low: i64,
}

/// A window over all spatial axes; at least one, of size 1 if there is none.
#[derive(Clone, Debug)]
pub(crate) struct Geometry {
    outer: Vec<Axis>,
    last: Axis,
}

/// A run of output columns that read consecutive (by `step`) input elements through one tap.
#[derive(Clone, Debug)]
pub(crate) struct Reads {
    /// Output columns, counted from the start of the requested range.
    pub(crate) columns: Range<usize>,
    /// The flat input position that the first of them reads.
    pub(crate) first: usize,
    /// The distance to the next.
    pub(crate) step: usize,
}

impl Geometry {
    /// The geometry of a forward window: the output sizes follow,
    /// `(input + low + high - dilation * (kernel - 1) - 1) / stride + 1`, rounded down.
    pub(crate) fn forward(
        ctx: &EvaluateContext<'_>,
        input: &[usize],
        kernel: &[usize],
        window: &Window,
    ) -> Result<Self, OpFault> {
        let (low, high) = (
            ctx.sizes("a padding", &window.low)?,
            ctx.sizes("a padding", &window.high)?,
        );
        let output = |axis: usize, stride: i128, reach: i128| {
            let padded = input[axis] as i128 + low[axis] as i128 + high[axis] as i128;
            (padded - reach - 1).div_euclid(stride) + 1
        };
        Self::new(input, kernel, window, &low, output)
    }

    /// The geometry whose transpose scatters: `input` and `output` swap roles, so that "output" are the positions of the
    /// operand, and "input" those of the result, whose sizes follow:
    /// `(operand - 1) * stride + dilation * (kernel - 1) + 1 + output_padding - low - high`.
    pub(crate) fn transposed(
        ctx: &EvaluateContext<'_>,
        operand: &[usize],
        kernel: &[usize],
        window: &Window,
        output_padding: &Dims,
    ) -> Result<Self, OpFault> {
        let (low, high, added) = (
            ctx.sizes("a padding", &window.low)?,
            ctx.sizes("a padding", &window.high)?,
            ctx.sizes("an output padding", output_padding)?,
        );
        let mut result = Shape::new();
        for axis in 0..operand.len() {
            let [stride, dilation] = [window.strides[axis], window.dilations[axis]].map(i128::from);
            let reach = dilation * (kernel[axis] as i128 - 1);
            let size = (operand[axis] as i128 - 1) * stride + reach + 1 + added[axis] as i128
                - low[axis] as i128
                - high[axis] as i128;
            result.push(size_of(size)?);
        }
        Self::new(&result, kernel, window, &low, |axis, _, _| {
            operand[axis] as i128
        })
    }

    fn new(
        input: &[usize],
        kernel: &[usize],
        window: &Window,
        low: &[usize],
        output: impl Fn(usize, i128, i128) -> i128,
    ) -> Result<Self, OpFault> {
        let mut axes = Vec::new();
        for axis in 0..input.len() {
            let (stride, dilation) = (window.strides[axis], window.dilations[axis]);
            let reach = i128::from(dilation) * (kernel[axis] as i128 - 1);
            let output = size_of(output(axis, stride.into(), reach))?;
            let farthest = (output as i128).max(1) * i128::from(stride) + reach;
            if farthest > i128::from(i64::MAX / 2) || low[axis] > isize::MAX as usize / 2 {
                return Err(OpFault::Limit {
                    what: "positions of a window",
                    given: u64::MAX,
                    limit: i64::MAX as u64 / 2,
                });
            }
            let low = low[axis] as i64;
            axes.push(Axis {
                input: input[axis],
                kernel: kernel[axis],
                output,
                stride,
                dilation,
                low,
            });
        }
        let unit = Axis {
            input: 1,
            kernel: 1,
            output: 1,
            stride: 1,
            dilation: 1,
            low: 0,
        };
        let last = axes.pop().unwrap_or(unit);
        Ok(Self { outer: axes, last })
    }

    /// The output sizes, one per spatial axis.
    pub(crate) fn output_shape(&self, rank: usize) -> Shape {
        self.outer
            .iter()
            .chain([&self.last])
            .take(rank)
            .map(|axis| axis.output)
            .collect()
    }

    /// The input sizes, one per spatial axis.
    pub(crate) fn input_shape(&self, rank: usize) -> Shape {
        self.outer
            .iter()
            .chain([&self.last])
            .take(rank)
            .map(|axis| axis.input)
            .collect()
    }

    /// The number of output positions.
    pub(crate) fn n_outputs(&self) -> usize {
        self.n_rows() * self.last.output
    }

    /// The number of output rows.
    pub(crate) fn n_rows(&self) -> usize {
        self.outer.iter().map(|axis| axis.output).product()
    }

    /// The number of output columns.
    pub(crate) fn n_columns(&self) -> usize {
        self.last.output
    }

    /// The number of input positions.
    pub(crate) fn n_inputs(&self) -> usize {
        self.outer.iter().map(|axis| axis.input).product::<usize>() * self.last.input
    }

    /// The number of taps of the kernel.
    pub(crate) fn n_taps(&self) -> usize {
        self.outer.iter().map(|axis| axis.kernel).product::<usize>() * self.last.kernel
    }

    /// The elements that `columns` of an output row read through a tap, without padding.
    pub(crate) fn reads(&self, row: usize, columns: Range<usize>, tap: usize) -> Option<Reads> {
        let base = self.input_row(row, tap / self.last.kernel)?;
        let Axis {
            input,
            stride,
            dilation,
            low,
            kernel,
            ..
        } = self.last;
        // The input column of output column `c` is `c * stride + shift`.
        let shift = (tap % kernel) as i64 * dilation - low;
        let first = (-shift).max(0).div_euclid(stride) + i64::from((-shift).max(0) % stride != 0);
        let end = (input as i64 - shift - 1).div_euclid(stride) + 1;
        let first = (first as usize).max(columns.start);
        let end = usize::try_from(end).unwrap_or(0).min(columns.end);
        if first >= end {
            return None;
        }
        let column = usize::try_from(first as i64 * stride + shift).ok()?;
        Some(Reads {
            columns: first - columns.start..end - columns.start,
            first: base * input + column,
            step: stride as usize,
        })
    }

    /// The flat input row that an output row reads through an outer tap; `None` in the padding.
    fn input_row(&self, row: usize, tap: usize) -> Option<usize> {
        let (mut row, mut tap) = (row, tap);
        let (mut flat, mut scale) = (0, 1);
        for axis in self.outer.iter().rev() {
            let position = (row % axis.output) as i64 * axis.stride
                + (tap % axis.kernel) as i64 * axis.dilation
                - axis.low;
            let position = usize::try_from(position)
                .ok()
                .filter(|&position| position < axis.input)?;
            flat += position * scale;
            scale *= axis.input;
            row /= axis.output;
            tap /= axis.kernel;
        }
        Some(flat)
    }
}

fn size_of(value: i128) -> Result<usize, OpFault> {
    if value < 0 {
        return Err(OpFault::Negative {
            what: "the size of a result",
            value,
        });
    }
    usize::try_from(value).map_err(|_| OpFault::Limit {
        what: "elements along an axis",
        given: u64::MAX,
        limit: isize::MAX as u64,
    })
}

/// Rejects windows that do not have one entry per spatial axis, or do not move forward.
pub(crate) fn check_window(window: &Window, spatial: usize) -> Result<(), OpFault> {
    let lengths = [
        window.strides.len(),
        window.dilations.len(),
        window.low.len(),
        window.high.len(),
    ];
    let forward = window
        .strides
        .iter()
        .chain(&window.dilations)
        .all(|&step| step > 0);
    if lengths.iter().any(|&length| length != spatial) || !forward {
        return Err(OpFault::malformed(format!(
            "expected a window of {spatial} axes with positive steps"
        )));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::testing::TestSizes;
    use proptest::prelude::*;

    /// Input, kernel, stride, dilation, low, high.
    type AxisSizes = (usize, usize, i64, i64, i64, i64);

    fn axis() -> impl Strategy<Value = AxisSizes> {
        (0usize..6, 1usize..4, 1i64..4, 1i64..3, 0i64..4, 0i64..4)
    }

    proptest! {
        #[test]
        fn window_reads_equal_the_definition(
            axes in prop::collection::vec(axis(), 1..3),
            cut in (0usize..4, 0usize..4),
        ) {
            let mut sizes = TestSizes::new();
            let column = |of: fn(&AxisSizes) -> i64| -> Vec<i64> { axes.iter().map(of).collect() };
            let window = Window {
                strides: column(|axis| axis.2).into(),
                dilations: column(|axis| axis.3).into(),
                low: sizes.dims(&column(|axis| axis.4)),
                high: sizes.dims(&column(|axis| axis.5)),
            };
            let input: Vec<usize> = axes.iter().map(|axis| axis.0).collect();
            let kernel: Vec<usize> = axes.iter().map(|axis| axis.1).collect();
            let Ok(geometry) = Geometry::forward(&sizes.ctx(), &input, &kernel, &window) else { return Ok(()) };
            let output = geometry.output_shape(axes.len());
            let columns = cut.0.min(geometry.n_columns())..(cut.0 + cut.1).min(geometry.n_columns());
            for row in 0..geometry.n_rows() {
                for tap in 0..geometry.n_taps() {
                    let mut found = vec![None; columns.len()];
                    if let Some(reads) = geometry.reads(row, columns.clone(), tap) {
                        for (at, column) in reads.columns.enumerate() {
                            found[column] = Some(reads.first + at * reads.step);
                        }
                    }
                    let expected: Vec<Option<usize>> = columns
                        .clone()
                        .map(|column| {
                            let (mut at, mut tap) = (row * geometry.n_columns() + column, tap);
                            let (mut flat, mut scale) = (0, 1);
                            for (axis, &(input, kernel, stride, dilation, low, _)) in axes.iter().enumerate().rev() {
                                let position =
                                    (at % output[axis]) as i64 * stride + (tap % kernel) as i64 * dilation - low;
                                if position < 0 || position >= input as i64 {
                                    return None;
                                }
                                flat += position as usize * scale;
                                scale *= input;
                                at /= output[axis];
                                tap /= kernel;
                            }
                            Some(flat)
                        })
                        .collect();
                    prop_assert_eq!(found, expected);
                }
            }
        }
    }
}
