//! Transposed convolutions, computed per result element: each sums the contributions of the taps that reach it.
//!
//! A tap reaches an element if their distance is a multiple of the stride; for undilated taps these are every stride-th
//! tap, and only these are visited. If the taps exactly tile the result (stride = size, no padding), each element has
//! one tap, and the result's axis is better split into two: position and tap. The same is true if the result's size is
//! a multiple of the stride: the sum for an element then has the same form at every position.
//!
//! A tap outside the input contributes nothing, whatever its weight: both factors are guarded, unless the weights are known
//! to be finite.

use kiln_ir::{OpData, ValueId, Window};
use kiln_kernel::{Axes, NodeId, Nodes};
use kiln_scalar::ScalarOp;
use kiln_symbolic_shape::{DimId, Predicate};

use super::LowerError;
use super::context::{Demand, RegionLowering, Step, compute_dtype};
use super::contraction::sum_of;
use super::stage::NewStage;

/// The sum of an element along one spatial axis.
struct Sources {
    position: NodeId,
    tap: NodeId,
    /// The position, if it may be outside the input.
    position_test: Option<(NodeId, DimId)>,
    /// The tap, if there may be none.
    tap_test: Option<(NodeId, DimId)>,
    condition: Option<NodeId>,
}

/// One spatial axis.
struct Axis {
    place: usize,
    input: DimId,
    kernel: DimId,
    result: DimId,
    stride: i64,
    dilation: i64,
    low: DimId,
}

impl RegionLowering<'_> {
    pub(super) fn conv_transpose(
        &mut self,
        data: &OpData,
        window: &Window,
        groups: usize,
        demand: &Demand,
    ) -> Step<NodeId> {
        let (x, w) = (data.operands[0], data.operands[1]);
        let (x_shape, w_shape) = (self.shape(x)?, self.shape(w)?);
        let result = self.shape(demand.value)?;
        let low = self.dims(&window.low)?;
        let groups = self.groups(groups);
        let per_group = self.quotient(w_shape[0], groups)?;
        self.require(
            Predicate::Equal(x_shape[1], w_shape[0]),
            "as many input channels as the weights have",
        )?;
        let dtype = compute_dtype(self.ty(demand.value)?.dtype);
        self.read_stage(demand, &mut |this, stage| {
            let mut axes = Axes::new();
            let (image, channel) = (stage.indices[0], stage.indices[1]);
            let sizes = [groups, w_shape[1]];
            let group = this.part_of_channel(channel, sizes, 0);
            let to = this.part_of_channel(channel, sizes, 1);
            let within = this.reduced_axis(stage, 0, per_group, &mut axes);
            let from = this.merge(&[(group, groups), (within, per_group)]);
            let (mut from, mut weight) = (
                Nodes::from_slice(&[image, from]),
                Nodes::from_slice(&[from, to]),
            );
            let (mut tests, mut of_weight, mut conditions) = (Vec::new(), Vec::new(), Vec::new());
            let is_finite = this.is_finite(w);
            for place in 0..low.len() {
                let axis = Axis {
                    place,
                    input: x_shape[2 + place],
                    kernel: w_shape[2 + place],
                    result: result[2 + place],
                    stride: window.strides[place],
                    dilation: window.dilations[place],
                    low: low[place],
                };
                let sources = this.sources(&axis, stage, &mut axes)?;
                from.push(sources.position);
                weight.push(sources.tap);
                tests.extend(sources.position_test);
                tests.extend(sources.tap_test);
                of_weight.extend(sources.position_test.filter(|_| !is_finite));
                of_weight.extend(sources.tap_test);
                conditions.extend(sources.condition);
            }
            let zero = this.zero_of(x)?;
            let element = this.guarded(x, from, stage.guard, tests, conditions.clone(), zero)?;
            let zero = this.zero_of(w)?;
            let weight = this.guarded(w, weight, stage.guard, of_weight, conditions, zero)?;
            let product = this.b.apply(ScalarOp::Mul, [element, weight]);
            Ok(sum_of(axes, product, dtype))
        })
    }

    /// Whether a value is a constant all of whose elements are finite.
    fn is_finite(&self, value: ValueId) -> bool {
        let Some(constant) = self.constant(value) else {
            return false;
        };
        let tensor = constant.tensor();
        let all32 = |slice: &[f32]| slice.iter().all(|element| element.is_finite());
        let all64 = |slice: &[f64]| slice.iter().all(|element| element.is_finite());
        tensor.as_slice().is_ok_and(all32) || tensor.as_slice().is_ok_and(all64)
    }

    fn sources(
        &mut self,
        axis: &Axis,
        stage: &NewStage,
        axes: &mut Axes,
    ) -> Result<Sources, LowerError> {
        let at = stage.indices[2 + axis.place];
        let stride = self.b.dims_mut().constant(axis.stride);
        let tiled = self.b.dims_mut().mul(axis.input, stride)?;
        let fits = self.fixed(axis.kernel) == Some(axis.stride) && axis.dilation == 1;
        if fits && self.fixed(axis.low) == Some(0) && self.equal(tiled, axis.result) {
            return Ok(Sources {
                position: self.part_of_channel(at, [axis.input, stride], 0),
                tap: self.part_of_channel(at, [axis.input, stride], 1),
                position_test: None,
                tap_test: None,
                condition: None,
            });
        }
        let low = self.b.size(axis.low);
        let step = self.integer(axis.stride);
        if axis.dilation == 1 && axis.stride > 1 {
            // Taps first, first + stride, … where first is the distance to the element before.
            let rounds = self.b.dims_mut().ceil_div(axis.kernel, stride)?;
            let round = self.reduced_axis(stage, 1 + axis.place, rounds, axes);
            // The remaining index is below the stride, so the quotient counts positions.
            let is_tiled = self.fixed(axis.low).is_some() && self.equal(tiled, axis.result);
            let (whole, left) = match is_tiled {
                true => (
                    Some(self.part_of_channel(at, [axis.input, stride], 0)),
                    self.part_of_channel(at, [axis.input, stride], 1),
                ),
                false => (None, at),
            };
            let moved = self.add(left, low);
            let first = self.floor_mod(moved, step);
            let further = self.mul(round, step);
            let tap = self.add(first, further);
            let nearest = self.floor_div(moved, step);
            let nearest = match whole {
                Some(whole) => self.add(whole, nearest),
                None => nearest,
            };
            let position = self.sub(nearest, round);
            let kernel = self.fixed(axis.kernel);
            let is_there = kernel.is_some_and(|kernel| kernel % axis.stride == 0);
            return Ok(Sources {
                position,
                tap,
                position_test: Some((position, axis.input)),
                tap_test: (!is_there).then_some((tap, axis.kernel)),
                condition: None,
            });
        }
        let moved = self.add(at, low);
        let tap = self.reduced_axis(stage, 1 + axis.place, axis.kernel, axes);
        let dilation = self.integer(axis.dilation);
        let reach = self.mul(tap, dilation);
        let distance = self.sub(moved, reach);
        let condition = (axis.stride > 1).then(|| {
            let left = self.floor_mod(distance, step);
            let zero = self.integer(0);
            self.b.apply(ScalarOp::Eq, [left, zero])
        });
        let position = self.floor_div(distance, step);
        Ok(Sources {
            position,
            tap,
            position_test: Some((position, axis.input)),
            tap_test: None,
            condition,
        })
    }
}
