//! Resizes: each result is one element, or a weighted sum of a few. A tap with weight 0 is not read.
//!
//! Up to eight taps are unrolled, axis by axis; more become a stage over the taps.

use kiln_ir::{OpData, Resize, ResizeMode};
use kiln_kernel::{Axes, NodeId, Nodes, Reduction, StageOperation};
use kiln_scalar::ScalarOp;
use kiln_symbolic_shape::DimId;
use kiln_tensor::DType;

use super::context::{Demand, RegionLowering, Step, compute_dtype};
use super::guard::GuardId;
use super::resize_taps::{ResizedAxis, Tap};
use super::stage::NewStage;

/// The maximum number of taps that are unrolled.
const WRITTEN_TAPS: usize = 8;

/// Which axes of a resize are sums, and the number of their taps.
type Summed = Vec<(usize, ResizedAxis, DimId)>;

impl RegionLowering<'_> {
    pub(super) fn resize(
        &mut self,
        data: &OpData,
        resize: &Resize,
        demand: &Demand,
    ) -> Step<NodeId> {
        let x = data.operands[0];
        let (shape, result) = (self.shape(x)?, self.shape(demand.value)?);
        let mut summed = Summed::new();
        let mut indices = demand.indices.clone();
        for (&axis, &scale) in resize.axes.iter().zip(&resize.scales) {
            // A multiple of the size has elements only where the size does.
            let table = self.b.dims_mut();
            if table.exact_quotient(result[axis], shape[axis]).is_none() {
                self.require_elements(shape[axis], &result, "elements to resample")?;
            }
            let resized = ResizedAxis {
                input: shape[axis],
                output: result[axis],
                scale,
            };
            let at = demand.indices[axis];
            if let Some(index) = self.whole_tap(resize, resized, at) {
                indices[axis] = index;
            } else if resize.mode == ResizeMode::Nearest {
                indices[axis] = self.nearest_tap(resize, resized, at);
            } else {
                let taps = self.n_taps(resize, resized)?;
                summed.push((axis, resized, taps));
            }
        }
        if summed.is_empty() {
            return self.get(x, indices, demand.guard);
        }
        let count: Option<usize> = summed
            .iter()
            .map(|&(_, _, taps)| self.fixed(taps).and_then(|taps| usize::try_from(taps).ok()))
            .product();
        match count {
            Some(count) if count <= WRITTEN_TAPS => {
                self.written_taps(data, resize, &summed, indices, demand)
            }
            _ => self.stage_of_taps(data, resize, &summed, demand),
        }
    }

    /// The weighted sum along the last axis, of sums along the axis before it, and so on; each divided by the sum of
    /// its weights if they are normalised.
    fn written_taps(
        &mut self,
        data: &OpData,
        resize: &Resize,
        summed: &Summed,
        indices: Nodes,
        demand: &Demand,
    ) -> Step<NodeId> {
        let dtype = compute_dtype(self.ty(data.operands[0])?.dtype);
        let mut along = Vec::new();
        let mut choices: Vec<Vec<(usize, Tap)>> = vec![Vec::new()];
        for &(axis, resized, count) in summed {
            let mut taps = Vec::new();
            for which in 0..self.fixed(count).unwrap_or(0) {
                let which = self.integer(which);
                let at = demand.indices[axis];
                let mut tap = self.weighted_tap(resize, resized, at, which, count);
                // In the dtype of the sum, so that tables of weights need no conversion.
                tap.weight = tap.weight.map(|weight| self.b.cast(weight, dtype));
                taps.push(tap);
            }
            let longer = choices.iter().flat_map(|choice| {
                let with = |&tap: &Tap| [choice.as_slice(), &[(axis, tap)]].concat();
                taps.iter().map(with)
            });
            choices = longer.collect();
            along.push(taps);
        }
        let mut values = Vec::new();
        for choice in choices {
            values.push(self.element_of(data, &choice, (indices.clone(), demand.guard), dtype)?);
        }
        for taps in along.iter().rev() {
            let sums = values
                .chunks(taps.len())
                .map(|values| self.weighted_sum(resize, taps, values, dtype));
            values = sums.collect();
        }
        Ok(values[0])
    }

    /// The sum of some values times the weights of the taps of an axis, divided by the sum of the weights if they are
    /// normalised.
    fn weighted_sum(
        &mut self,
        resize: &Resize,
        taps: &[Tap],
        values: &[NodeId],
        dtype: DType,
    ) -> NodeId {
        let (mut sum, mut total) = (None, None);
        let add = |this: &mut Self, sum: &mut Option<NodeId>, term| {
            *sum = Some(sum.map_or(term, |sum| this.b.apply(ScalarOp::Add, [sum, term])));
        };
        for (&value, tap) in values.iter().zip(taps) {
            let weight = self.weight_of(&[(0, *tap)], dtype);
            let term = self.b.apply(ScalarOp::Mul, [weight, value]);
            add(self, &mut sum, term);
            add(self, &mut total, weight);
        }
        let (Some(sum), Some(total)) = (sum, total) else {
            unreachable!("every axis has a tap")
        };
        match is_normalised(resize) {
            true => self.normalised(sum, total, dtype),
            false => sum,
        }
    }

    /// A sum divided by the sum of the weights. If all taps are outside, there is nothing to normalise, and the sum is
    /// 0.
    fn normalised(&mut self, sum: NodeId, total: NodeId, dtype: DType) -> NodeId {
        let (zero, one) = (self.b.number(0.0, dtype), self.b.number(1.0, dtype));
        let is_none = self.b.apply(ScalarOp::Eq, [total, zero]);
        let divisor = self.b.apply(ScalarOp::Select, [is_none, one, total]);
        self.b.apply(ScalarOp::Div, [sum, divisor])
    }

    /// The sum as a stage, divided by the sum of the weights if they are normalised.
    fn stage_of_taps(
        &mut self,
        data: &OpData,
        resize: &Resize,
        summed: &Summed,
        demand: &Demand,
    ) -> Step<NodeId> {
        let dtype = compute_dtype(self.ty(demand.value)?.dtype);
        let sum = self.read_stage(demand, &mut |this, stage| {
            let mut axes = Axes::new();
            let mut indices = stage.indices.clone();
            for &axis in resize.axes.iter() {
                if !summed.iter().any(|&(summed, ..)| summed == axis) {
                    indices[axis] = this.single_tap(data, resize, axis, stage)?;
                }
            }
            let taps = this.taps(resize, summed, stage, &mut axes);
            let term = this.weighted(data, &taps, indices, stage.guard)?;
            Ok((sum_over(axes, dtype), term))
        })?;
        if !is_normalised(resize) {
            return Ok(sum);
        }
        let total = self.read_stage_part(demand, 1, &mut |this, stage| {
            let mut axes = Axes::new();
            let taps = this.taps(resize, summed, stage, &mut axes);
            let weight = this.weight_of(&taps, dtype);
            Ok((sum_over(axes, dtype), weight))
        })?;
        Ok(self.normalised(sum, total, dtype))
    }

    fn single_tap(
        &mut self,
        data: &OpData,
        resize: &Resize,
        axis: usize,
        stage: &NewStage,
    ) -> Step<NodeId> {
        let place = resize.axes.iter().position(|&resized| resized == axis);
        let scale = place.map_or(0.0, |place| resize.scales[place]);
        let (shape, sizes) = (self.shape(data.operands[0])?, self.dims(&resize.sizes)?);
        let resized = ResizedAxis {
            input: shape[axis],
            output: place.map_or(shape[axis], |place| sizes[place]),
            scale,
        };
        let at = stage.indices[axis];
        Ok(self.whole_tap(resize, resized, at).unwrap_or(at))
    }

    fn taps(
        &mut self,
        resize: &Resize,
        summed: &Summed,
        stage: &NewStage,
        axes: &mut Axes,
    ) -> Vec<(usize, Tap)> {
        let mut taps = Vec::new();
        for (slot, &(axis, resized, count)) in summed.iter().enumerate() {
            let made = self.whole_axis(stage, slot, count);
            axes.push(made);
            let which = self.b.index(made);
            let at = stage.indices[axis];
            taps.push((axis, self.weighted_tap(resize, resized, at, which, count)));
        }
        taps
    }

    /// An element times the weights of its taps; a zero where they are zero.
    fn weighted(
        &mut self,
        data: &OpData,
        taps: &[(usize, Tap)],
        indices: Nodes,
        guard: GuardId,
    ) -> Step<NodeId> {
        let dtype = compute_dtype(self.ty(data.operands[0])?.dtype);
        let element = self.element_of(data, taps, (indices, guard), DType::F64)?;
        let weight = self.weight_of(taps, dtype);
        Ok(self.b.apply(ScalarOp::Mul, [weight, element]))
    }

    /// The element of some taps, whose weights have the given dtype; a zero where one of them is zero.
    fn element_of(
        &mut self,
        data: &OpData,
        taps: &[(usize, Tap)],
        (mut indices, guard): (Nodes, GuardId),
        weights: DType,
    ) -> Step<NodeId> {
        let x = data.operands[0];
        let zero = self.b.number(0.0, weights);
        let mut conditions = Vec::new();
        for &(axis, tap) in taps {
            indices[axis] = tap.index;
            if let Some(weight) = tap.weight {
                conditions.push(self.b.apply(ScalarOp::Ne, [weight, zero]));
            }
        }
        let otherwise = self.zero_of(x)?;
        self.guarded(x, indices, guard, [], conditions, otherwise)
    }

    /// The product of the weights of an element's taps.
    fn weight_of(&mut self, taps: &[(usize, Tap)], dtype: DType) -> NodeId {
        let mut product = None;
        for weight in taps.iter().filter_map(|(_, tap)| tap.weight) {
            product = Some(match product {
                None => weight,
                Some(product) => self.b.apply(ScalarOp::Mul, [product, weight]),
            });
        }
        let product = product.unwrap_or_else(|| self.b.number(1.0, DType::F64));
        self.b.cast(product, dtype)
    }
}

/// Whether sums are divided by the sum of their weights.
fn is_normalised(resize: &Resize) -> bool {
    resize.exclude_outside || resize.antialias
}

fn sum_over(axes: Axes, accumulator: DType) -> StageOperation {
    StageOperation::Reduce {
        reduction: Reduction::Add,
        axes,
        accumulator,
    }
}
