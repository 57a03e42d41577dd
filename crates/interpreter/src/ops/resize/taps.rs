//! The input elements that an output index reads, and their weights.
//!
//! Formulas: the ONNX operator `Resize`, version 19, and its reference implementation.

use crate::buffer::reserved;
use crate::context::EvaluateContext;
use crate::fault::OpFault;
use kiln_ir::{Coordinates, NearestRounding, Resize, ResizeMode};

/// The maximum number of taps of one output index.
const TAP_LIMIT: f64 = (1 << 24) as f64;

/// An input element and its weight.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Tap {
    pub(super) index: usize,
    pub(super) weight: f64,
}

/// The taps of every output index of an axis with `input` elements, at least one.
pub(super) fn taps_of(
    ctx: &EvaluateContext<'_>,
    resize: &Resize,
    input: usize,
    output: usize,
    scale: f64,
) -> Result<Vec<Vec<Tap>>, OpFault> {
    let stated = (scale > 0.0).then_some(scale);
    let filter = Filter::new(resize, stated.unwrap_or(output as f64 / input as f64));
    if filter.reach > TAP_LIMIT {
        return Err(OpFault::Limit {
            what: "elements under a filter",
            given: u64::MAX,
            limit: TAP_LIMIT as u64,
        });
    }
    let axis = AxisSizes {
        input,
        output,
        stated,
    };
    let mut taps = reserved(output)?;
    for x in 0..output {
        ctx.work(2 * filter.reach as usize)?;
        taps.push(filter.taps(resize, input, coordinate(resize.coordinates, axis, x)));
    }
    Ok(taps)
}

#[derive(Clone, Copy)]
struct AxisSizes {
    input: usize,
    output: usize,
    /// The scale, if it is not the quotient of the sizes.
    stated: Option<f64>,
}

impl AxisSizes {
    /// `x` divided by the scale. A quotient of sizes is rounded once, so that whole numbers and halves are exact.
    fn unscaled(self, x: f64) -> f64 {
        match self.stated {
            Some(scale) => x / scale,
            None => x * self.input as f64 / self.output as f64,
        }
    }
}

/// The position of an output index on the input axis.
fn coordinate(coordinates: Coordinates, axis: AxisSizes, x: usize) -> f64 {
    let (x, input_size, output_size) = (x as f64, axis.input as f64, axis.output as f64);
    match coordinates {
        Coordinates::HalfPixel => axis.unscaled(x + 0.5) - 0.5,
        Coordinates::HalfPixelSymmetric => {
            let adjustment = match axis.stated {
                Some(scale) => output_size / (scale * input_size),
                None => 1.0,
            };
            input_size / 2.0 * (1.0 - adjustment) + axis.unscaled(x + 0.5) - 0.5
        }
        Coordinates::PytorchHalfPixel => {
            if axis.output > 1 {
                axis.unscaled(x + 0.5) - 0.5
            } else {
                0.0
            }
        }
        Coordinates::AlignCorners => {
            if axis.output > 1 {
                x * (input_size - 1.0) / (output_size - 1.0)
            } else {
                0.0
            }
        }
        Coordinates::Asymmetric => axis.unscaled(x),
    }
}

/// A kernel function and its reach on either side of a coordinate.
struct Filter {
    mode: ResizeMode,
    coefficient: f64,
    /// The factor by which input steps are shrunk if the filter is widened.
    shrink: f64,
    /// The maximum number of elements reached, to the left and to the right.
    reach: f64,
}

impl Filter {
    fn new(resize: &Resize, scale: f64) -> Self {
        let shrink = if resize.antialias {
            scale.min(1.0)
        } else {
            1.0
        };
        let radius = match resize.mode {
            ResizeMode::Nearest | ResizeMode::Linear => 1.0,
            ResizeMode::Cubic => 2.0,
        };
        Self {
            mode: resize.mode,
            coefficient: resize.cubic_coefficient,
            shrink,
            reach: (radius / shrink).ceil(),
        }
    }

    fn taps(&self, resize: &Resize, input: usize, at: f64) -> Vec<Tap> {
        let last = input as f64 - 1.0;
        if self.mode == ResizeMode::Nearest {
            return vec![Tap {
                index: round(resize.rounding, at).clamp(0.0, last) as usize,
                weight: 1.0,
            }];
        }
        let base = at.floor();
        let reach = self.reach as i64;
        let mut taps: Vec<Tap> = Vec::new();
        let mut total = 0.0;
        for step in 1 - reach..=reach {
            let position = base + step as f64;
            let weight = self.weight((position - at) * self.shrink);
            let outside = position < 0.0 || position > last;
            if weight == 0.0 || (outside && resize.exclude_outside) {
                continue;
            }
            total += weight;
            let index = position.clamp(0.0, last) as usize;
            // Taps that are clamped to the same edge element stay separate: two infinite terms of opposite signs give
            // NaN, as in the formula, rather than the sum of their weights times infinity.
            taps.push(Tap { index, weight });
        }
        // The plain kernels sum to 1; dividing by a sum that is 1 up to rounding would only add error.
        if resize.exclude_outside || resize.antialias {
            taps.iter_mut().for_each(|tap| tap.weight /= total);
        }
        taps
    }

    /// The kernel function: a tent, or Keys' cubic convolution.
    fn weight(&self, distance: f64) -> f64 {
        let (x, a) = (distance.abs(), self.coefficient);
        match self.mode {
            ResizeMode::Nearest | ResizeMode::Linear => (1.0 - x).max(0.0),
            ResizeMode::Cubic if x <= 1.0 => ((a + 2.0) * x - (a + 3.0)) * x * x + 1.0,
            ResizeMode::Cubic if x < 2.0 => ((a * x - 5.0 * a) * x + 8.0 * a) * x - 4.0 * a,
            ResizeMode::Cubic => 0.0,
        }
    }
}

/// A coordinate rounded to an index.
fn round(rounding: NearestRounding, at: f64) -> f64 {
    let below = at.floor();
    match rounding {
        NearestRounding::Floor => below,
        NearestRounding::Ceil => at.ceil(),
        NearestRounding::PreferFloor => {
            if at - below <= 0.5 {
                below
            } else {
                below + 1.0
            }
        }
        NearestRounding::PreferCeil => {
            if at - below < 0.5 {
                below
            } else {
                below + 1.0
            }
        }
    }
}
