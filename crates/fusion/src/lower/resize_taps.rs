//! The indices and weights of a resize along one axis: the interpreter's formulas (those of the ONNX operator `Resize`,
//! version 19) as expressions, in f64.
//!
//! Nearest-neighbour resizes with integer scales, and equal sizes, need no floats: the index is a division.

use kiln_ir::{Coordinates, NearestRounding, Resize, ResizeMode};
use kiln_kernel::NodeId;
use kiln_scalar::{ScalarOp, ScalarValue};
use kiln_symbolic_shape::DimId;
use kiln_tensor::DType;

use super::LowerError;
use super::context::RegionLowering;

/// One resized axis.
#[derive(Clone, Copy)]
pub(super) struct ResizedAxis {
    pub(super) input: DimId,
    pub(super) output: DimId,
    /// The scale, as stated by the model; 0 if it is the quotient of the sizes.
    pub(super) scale: f64,
}

/// An element and its weight.
#[derive(Clone, Copy)]
pub(super) struct Tap {
    pub(super) index: NodeId,
    /// The weight in f64; `None` stands for 1.
    pub(super) weight: Option<NodeId>,
}

impl RegionLowering<'_> {
    fn float(&mut self, value: f64) -> NodeId {
        self.b.literal(ScalarValue::F64(value))
    }

    fn float_of(&mut self, dim: DimId) -> NodeId {
        let size = self.b.size(dim);
        match self.literal(size) {
            Some(value) => self.float(value as f64),
            None => self.b.cast(size, DType::F64),
        }
    }

    /// The single element that is read, if no weights are needed and integers suffice.
    pub(super) fn whole_tap(
        &mut self,
        resize: &Resize,
        axis: ResizedAxis,
        at: NodeId,
    ) -> Option<NodeId> {
        let same = self.equal(axis.input, axis.output);
        if same && (axis.scale == 1.0 || axis.scale <= 0.0) {
            return Some(at);
        }
        if resize.mode != ResizeMode::Nearest {
            return None;
        }
        let times = if axis.scale > 0.0 {
            axis.scale
        } else {
            let times = self.b.dims_mut().exact_quotient(axis.output, axis.input)?;
            self.fixed(times)? as f64
        };
        let is_whole = times.fract() == 0.0 && (1.0..=65536.0).contains(&times);
        let floors = match (resize.coordinates, resize.rounding) {
            (Coordinates::Asymmetric, rounding) => rounding == NearestRounding::Floor,
            // (x + 0.5) / k - 0.5 is nearer to x / k rounded down than to any other integer.
            (Coordinates::HalfPixel, rounding) => matches!(
                rounding,
                NearestRounding::PreferFloor | NearestRounding::PreferCeil
            ),
            _ => false,
        };
        // Only if the size matches the scale: then the index needs no clamp.
        let size = self.b.dims_mut().constant(times as i64);
        let grown = self.b.dims_mut().mul(axis.input, size).ok()?;
        if !is_whole || !floors || !self.equal(grown, axis.output) {
            return None;
        }
        let parts = self.parts_of(at, axis.output);
        if let &[(index, outer), _] = parts.as_slice()
            && self.equal(outer, axis.input)
        {
            return Some(index);
        }
        let times = self.integer(times as i64);
        Some(self.floor_div(at, times))
    }

    /// Output over input size, as f64.
    fn scale(&mut self, axis: ResizedAxis) -> NodeId {
        if axis.scale > 0.0 {
            return self.float(axis.scale);
        }
        let (output, input) = (self.float_of(axis.output), self.float_of(axis.input));
        self.b.apply(ScalarOp::Div, [output, input])
    }

    /// A number divided by the scale, as f64. A quotient of sizes is rounded once, so that whole numbers and halves are
    /// exact.
    fn unscaled(&mut self, axis: ResizedAxis, x: NodeId) -> NodeId {
        if axis.scale > 0.0 {
            let scale = self.float(axis.scale);
            return self.b.apply(ScalarOp::Div, [x, scale]);
        }
        let (input, output) = (self.float_of(axis.input), self.float_of(axis.output));
        let product = self.b.apply(ScalarOp::Mul, [x, input]);
        self.b.apply(ScalarOp::Div, [product, output])
    }

    /// The position of an output index on the input axis, as f64.
    fn coordinate(&mut self, coordinates: Coordinates, axis: ResizedAxis, at: NodeId) -> NodeId {
        let x = self.b.cast(at, DType::F64);
        if coordinates == Coordinates::Asymmetric {
            return self.unscaled(axis, x);
        }
        let half = self.float(0.5);
        let one = self.float(1.0);
        let zero = self.float(0.0);
        let output = self.float_of(axis.output);
        let input = self.float_of(axis.input);
        let several = self.b.apply(ScalarOp::Gt, [output, one]);
        if coordinates == Coordinates::AlignCorners {
            let last = self.b.apply(ScalarOp::Sub, [input, one]);
            let last_out = self.b.apply(ScalarOp::Sub, [output, one]);
            let product = self.b.apply(ScalarOp::Mul, [x, last]);
            let at = self.b.apply(ScalarOp::Div, [product, last_out]);
            return self.b.apply(ScalarOp::Select, [several, at, zero]);
        }
        let moved = self.b.apply(ScalarOp::Add, [x, half]);
        let mut scaled = self.unscaled(axis, moved);
        if coordinates == Coordinates::HalfPixelSymmetric && axis.scale > 0.0 {
            let (two, scale) = (self.float(2.0), self.float(axis.scale));
            let exact = self.b.apply(ScalarOp::Mul, [scale, input]);
            let adjustment = self.b.apply(ScalarOp::Div, [output, exact]);
            let rest = self.b.apply(ScalarOp::Sub, [one, adjustment]);
            let centre = self.b.apply(ScalarOp::Div, [input, two]);
            let offset = self.b.apply(ScalarOp::Mul, [centre, rest]);
            scaled = self.b.apply(ScalarOp::Add, [offset, scaled]);
        }
        let centred = self.b.apply(ScalarOp::Sub, [scaled, half]);
        if coordinates == Coordinates::PytorchHalfPixel {
            return self.b.apply(ScalarOp::Select, [several, centred, zero]);
        }
        centred
    }

    /// The element nearest to an output index.
    pub(super) fn nearest_tap(&mut self, resize: &Resize, axis: ResizedAxis, at: NodeId) -> NodeId {
        let at = self.coordinate(resize.coordinates, axis, at);
        let below = self.b.apply(ScalarOp::Floor, [at]);
        let half = self.float(0.5);
        let one = self.float(1.0);
        let fraction = self.b.apply(ScalarOp::Sub, [at, below]);
        let above = self.b.apply(ScalarOp::Add, [below, one]);
        let rounded = match resize.rounding {
            NearestRounding::Floor => below,
            NearestRounding::Ceil => self.b.apply(ScalarOp::Ceil, [at]),
            NearestRounding::PreferFloor => {
                let down = self.b.apply(ScalarOp::Le, [fraction, half]);
                self.b.apply(ScalarOp::Select, [down, below, above])
            }
            NearestRounding::PreferCeil => {
                let down = self.b.apply(ScalarOp::Lt, [fraction, half]);
                self.b.apply(ScalarOp::Select, [down, below, above])
            }
        };
        self.clamped(rounded, axis.input)
    }

    /// The number of taps of an axis: twice the reach of the filter.
    pub(super) fn n_taps(
        &mut self,
        resize: &Resize,
        axis: ResizedAxis,
    ) -> Result<DimId, LowerError> {
        let radius = match resize.mode {
            ResizeMode::Nearest | ResizeMode::Linear => 1,
            ResizeMode::Cubic => 2,
        };
        let table = self.b.dims_mut();
        if !resize.antialias {
            return Ok(table.constant(2 * radius));
        }
        let two = table.constant(2);
        let radius_dim = table.constant(radius);
        let reach = if axis.scale > 0.0 {
            let reach = (radius as f64 / axis.scale.min(1.0)).ceil();
            table.constant(reach as i64)
        } else {
            // One more than the quotient, whose rounding may go either way; an extra tap has zero weight.
            let one = table.constant(1);
            let output = table.max(axis.output, one)?;
            let widened = table.mul(radius_dim, axis.input)?;
            let reach = table.ceil_div(widened, output)?;
            let reach = table.max(reach, radius_dim)?;
            table.add(reach, one)?
        };
        Ok(table.mul(two, reach)?)
    }

    /// A tap of an axis: `which` counts them from 0 to `taps`.
    pub(super) fn weighted_tap(
        &mut self,
        resize: &Resize,
        axis: ResizedAxis,
        at: NodeId,
        which: NodeId,
        taps: DimId,
    ) -> Tap {
        let at = self.coordinate(resize.coordinates, axis, at);
        let base = self.b.apply(ScalarOp::Floor, [at]);
        let one = self.float(1.0);
        // The first tap is 1 - reach steps from the base.
        let taps = self.b.size(taps);
        let two = self.integer(2);
        let reach = self.floor_div(taps, two);
        let unit = self.integer(1);
        let ahead = self.sub(reach, unit);
        let step = self.sub(which, ahead);
        let step = match self.literal(step) {
            Some(step) => self.float(step as f64),
            None => self.b.cast(step, DType::F64),
        };
        let position = self.b.apply(ScalarOp::Add, [base, step]);
        let mut distance = self.b.apply(ScalarOp::Sub, [position, at]);
        if resize.antialias {
            let scale = self.scale(axis);
            let shrink = self.b.apply(ScalarOp::Min, [scale, one]);
            distance = self.b.apply(ScalarOp::Mul, [distance, shrink]);
        }
        let mut weight = self.filter(resize, distance);
        if resize.exclude_outside {
            let zero = self.float(0.0);
            let input = self.float_of(axis.input);
            let from = self.b.apply(ScalarOp::Ge, [position, zero]);
            let to = self.b.apply(ScalarOp::Lt, [position, input]);
            let inside = self.b.apply(ScalarOp::And, [from, to]);
            weight = self.b.apply(ScalarOp::Select, [inside, weight, zero]);
        }
        Tap {
            index: self.clamped(position, axis.input),
            weight: Some(weight),
        }
    }

    /// The filter at a distance: a tent, or Keys' cubic convolution.
    fn filter(&mut self, resize: &Resize, distance: NodeId) -> NodeId {
        let x = self.b.apply(ScalarOp::Abs, [distance]);
        let (zero, one, two) = (self.float(0.0), self.float(1.0), self.float(2.0));
        if resize.mode != ResizeMode::Cubic {
            let tent = self.b.apply(ScalarOp::Sub, [one, x]);
            return self.b.apply(ScalarOp::Max, [tent, zero]);
        }
        let a = resize.cubic_coefficient;
        let near = self.polynomial(x, &[a + 2.0, -(a + 3.0), 0.0, 1.0]);
        let far = self.polynomial(x, &[a, -5.0 * a, 8.0 * a, -4.0 * a]);
        let is_near = self.b.apply(ScalarOp::Le, [x, one]);
        let is_far = self.b.apply(ScalarOp::Lt, [x, two]);
        let outer = self.b.apply(ScalarOp::Select, [is_far, far, zero]);
        self.b.apply(ScalarOp::Select, [is_near, near, outer])
    }

    /// A polynomial by Horner's rule, the highest power first.
    fn polynomial(&mut self, x: NodeId, coefficients: &[f64]) -> NodeId {
        let mut value = self.float(0.0);
        for (place, &coefficient) in coefficients.iter().enumerate() {
            let coefficient = self.float(coefficient);
            value = match place {
                0 => coefficient,
                _ => {
                    let product = self.b.apply(ScalarOp::Mul, [value, x]);
                    self.b.apply(ScalarOp::Add, [product, coefficient])
                }
            };
        }
        value
    }

    /// A position as an index of an axis that has elements.
    fn clamped(&mut self, position: NodeId, input: DimId) -> NodeId {
        let index = self.b.cast(position, DType::I64);
        let (zero, one) = (self.integer(0), self.integer(1));
        let size = self.b.size(input);
        let last = self.sub(size, one);
        let capped = self.min(index, last);
        self.max(capped, zero)
    }
}
