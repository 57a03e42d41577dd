//! Positions of the maxima of windows: an arg-reduction over a window's taps, which are numbered along one axis.
//!
//! Padding counts as the lowest number and may precede an element, so a position in the padding is found only if every
//! element of a window is that number, or the window has no element: the result is then the position of the first
//! element, or -1.

use std::collections::BTreeSet;

use kiln_ir::{Integers, OpData, Window};
use kiln_kernel::{Axes, NodeId, Nodes, Reduction, StageOperation};
use kiln_scalar::ScalarOp;
use kiln_symbolic_shape::DimId;

use super::LowerError;
use super::context::{Demand, RegionLowering, Step, compute_dtype};
use super::pool::lowest;

impl RegionLowering<'_> {
    pub(super) fn arg_pool(
        &mut self,
        data: &OpData,
        size: &Integers,
        window: &Window,
        demand: &Demand,
    ) -> Step<NodeId> {
        let x = data.operands[0];
        let (shape, result) = (self.shape(x)?, self.shape(demand.value)?);
        let (input, output) = (&shape[2..], &result[2..]);
        let kernel = self.constants(size);
        let count = self
            .b
            .dims_mut()
            .product(&kernel)
            .map_err(LowerError::from)?;
        let padding = lowest(compute_dtype(self.ty(x)?.dtype));
        let found = self.read_stage(demand, &mut |this, stage| {
            let counted = this.whole_axis(stage, 0, count);
            let tap = this.b.index(counted);
            let taps = this.taps_of(tap, size);
            let mut indices = Nodes::from_slice(&stage.indices[..2]);
            let mut tests = Vec::new();
            for (axis, &tap) in taps.iter().enumerate() {
                let at = stage.indices[2 + axis];
                let position = this.window_position(window, axis, at, tap)?;
                let sizes = [input[axis], output[axis], kernel[axis]];
                tests.extend(this.window_test(window, axis, sizes, position)?);
                indices.push(position);
            }
            let padding = this.b.literal(padding);
            let element = this.guarded(x, indices, stage.guard, tests, [], padding)?;
            let operation = StageOperation::Reduce {
                reduction: Reduction::ArgMax { last: false },
                axes: Axes::from_slice(&[counted]),
                accumulator: this.b.kernel().dtype(element),
            };
            Ok((operation, element))
        })?;
        let taps = self.taps_of(found, size);
        let (mut positions, mut firsts) = (Nodes::new(), Nodes::new());
        let (mut is_element, mut is_first) = (BTreeSet::new(), BTreeSet::new());
        for (axis, &tap) in taps.iter().enumerate() {
            let at = demand.indices[2 + axis];
            let position = self.window_position(window, axis, at, tap)?;
            let is_padded = self.is_padded(window, axis)?;
            let first_tap = match is_padded {
                true => self.first_tap(window, axis, at)?,
                false => self.integer(0),
            };
            let first = self.window_position(window, axis, at, first_tap)?;
            if is_padded {
                is_element.insert((position, input[axis]));
                is_first.extend([(first_tap, kernel[axis]), (first, input[axis])]);
            }
            positions.push(position);
            firsts.push(first);
        }
        let none = BTreeSet::new();
        let found = self.row_major(&positions, input);
        let (Some(is_element), Some(is_first)) = (
            self.condition(&is_element, &none),
            self.condition(&is_first, &none),
        ) else {
            return Ok(found);
        };
        let (first, none) = (self.row_major(&firsts, input), self.integer(-1));
        let otherwise = self.b.apply(ScalarOp::Select, [is_first, first, none]);
        Ok(self
            .b
            .apply(ScalarOp::Select, [is_element, found, otherwise]))
    }

    /// The tap along each axis of one counted in row-major order.
    fn taps_of(&mut self, counted: NodeId, size: &Integers) -> Nodes {
        let mut taps = Nodes::from_elem(counted, size.len());
        let mut inner = 1_i64;
        for (axis, &size) in size.iter().enumerate().rev() {
            let (below, own) = (self.integer(inner), self.integer(size));
            taps[axis] = self.floor_div(counted, below);
            if axis > 0 || size == 1 {
                taps[axis] = self.floor_mod(taps[axis], own);
            }
            // The product of all sizes is a size.
            inner = inner.saturating_mul(size);
        }
        taps
    }

    /// The first tap of a window that is not before the operand: 0, or how many it takes to get there.
    fn first_tap(
        &mut self,
        window: &Window,
        axis: usize,
        at: NodeId,
    ) -> Result<NodeId, LowerError> {
        let (stride, dilation) = (window.strides[axis], window.dilations[axis]);
        let (stride, step) = (self.integer(stride), self.integer(dilation));
        let start = self.mul(at, stride);
        let low = self.dim(window.low[axis])?;
        let low = self.b.size(low);
        let before = self.sub(low, start);
        let round_up = self.integer(dilation - 1);
        let padded = self.add(before, round_up);
        let taps = self.floor_div(padded, step);
        let zero = self.integer(0);
        Ok(self.max(taps, zero))
    }

    fn row_major(&mut self, positions: &[NodeId], sizes: &[DimId]) -> NodeId {
        let mut index = self.integer(0);
        for (&position, &size) in positions.iter().zip(sizes) {
            let size = self.b.size(size);
            let above = self.mul(index, size);
            index = self.add(above, position);
        }
        index
    }
}
