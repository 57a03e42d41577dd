//! Windows: the elements that convolutions and pools read, and the lowering of convolutions.

use kiln_ir::{OpData, ValueId, Window};
use kiln_kernel::{Axes, NodeId, Nodes};
use kiln_scalar::ScalarOp;
use kiln_symbolic_shape::{ContractFact, DimId, FactOrigin, Predicate};
use kiln_tensor::DType;

use super::LowerError;
use super::context::{Demand, Dims, RegionLowering, Step, compute_dtype};
use super::contraction::sum_of;
use super::stage::NewStage;

/// Where one window reads.
pub(super) struct Reads {
    /// Input positions along the spatial axes.
    pub(super) positions: Nodes,
    /// Positions that may be in the padding, with the sizes against which they are tested.
    pub(super) tests: Vec<(NodeId, DimId)>,
    /// The elements of the window.
    pub(super) taps: Nodes,
}

impl RegionLowering<'_> {
    pub(super) fn conv(
        &mut self,
        data: &OpData,
        window: &Window,
        groups: usize,
        out: DType,
        demand: &Demand,
    ) -> Step<NodeId> {
        let (x, w) = (data.operands[0], data.operands[1]);
        let (x_shape, w_shape) = (self.shape(x)?, self.shape(w)?);
        let result = self.shape(demand.value)?;
        let groups = self.groups(groups);
        let covered = self.b.dims_mut().mul(groups, w_shape[1])?;
        self.require(
            Predicate::Equal(x_shape[1], covered),
            "as many input channels as the weights and groups have",
        )?;
        let per_group = self.quotient(w_shape[0], groups)?;
        let accumulator = compute_dtype(out);
        self.read_stage(demand, &mut |this, stage| {
            let mut axes = Axes::new();
            let (image, channel) = (stage.indices[0], stage.indices[1]);
            let group = this.part_of_channel(channel, [groups, per_group], 0);
            let within = this.reduced_axis(stage, 0, w_shape[1], &mut axes);
            let from = this.merge(&[(group, groups), (within, w_shape[1])]);
            let sizes = [&x_shape[2..], &result[2..], &w_shape[2..]];
            let reads = this.window_reads(window, sizes, stage, &mut axes)?;
            let mut indices = Nodes::from_slice(&[image, from]);
            indices.extend(reads.positions);
            let zero = this.zero_of(x)?;
            let element = this.guarded(x, indices, stage.guard, reads.tests, [], zero)?;
            let mut indices = Nodes::from_slice(&[channel, within]);
            indices.extend(reads.taps);
            let weight = this.get(w, indices, stage.guard)?;
            let factors = [
                this.b.cast(element, accumulator),
                this.b.cast(weight, accumulator),
            ];
            let product = this.b.apply(ScalarOp::Mul, factors);
            Ok(sum_of(axes, product, accumulator))
        })
    }

    /// Where a stage that demands a result of a window reads, over new axes for the taps.
    pub(super) fn window_reads(
        &mut self,
        window: &Window,
        [input, output, kernel]: [&[DimId]; 3],
        stage: &NewStage,
        axes: &mut Axes,
    ) -> Result<Reads, LowerError> {
        let mut reads = Reads {
            positions: Nodes::new(),
            tests: Vec::new(),
            taps: Nodes::new(),
        };
        for axis in 0..input.len() {
            let tap = self.reduced_axis(stage, 1 + axis, kernel[axis], axes);
            let position = self.window_position(window, axis, stage.indices[2 + axis], tap)?;
            let sizes = [input[axis], output[axis], kernel[axis]];
            reads
                .tests
                .extend(self.window_test(window, axis, sizes, position)?);
            reads.positions.push(position);
            reads.taps.push(tap);
        }
        Ok(reads)
    }

    /// The input position of a tap along an axis, in the window at some position.
    pub(super) fn window_position(
        &mut self,
        window: &Window,
        axis: usize,
        at: NodeId,
        tap: NodeId,
    ) -> Result<NodeId, LowerError> {
        let stride = self.integer(window.strides[axis]);
        let dilation = self.integer(window.dilations[axis]);
        let before = self.dim(window.low[axis])?;
        let before = self.b.size(before);
        let (start, reach) = (self.mul(at, stride), self.mul(tap, dilation));
        let reached = self.add(start, reach);
        Ok(self.sub(reached, before))
    }

    /// The test whether a position of a window is in the padding; `None` if there is no padding, in which case it is
    /// recorded that the position is inside.
    pub(super) fn window_test(
        &mut self,
        window: &Window,
        axis: usize,
        [input, output, kernel]: [DimId; 3],
        position: NodeId,
    ) -> Result<Option<(NodeId, DimId)>, LowerError> {
        if self.is_padded(window, axis)? {
            return Ok(Some((position, input)));
        }
        let steps = [window.strides[axis], window.dilations[axis]];
        self.note_reach(output, steps, kernel, input)?;
        Ok(None)
    }

    /// Whether windows may reach into padding along an axis.
    pub(super) fn is_padded(&mut self, window: &Window, axis: usize) -> Result<bool, LowerError> {
        let (low, high) = (self.dim(window.low[axis])?, self.dim(window.high[axis])?);
        Ok(self.fixed(low) != Some(0) || self.fixed(high) != Some(0))
    }

    /// Records in the table what the output size of a window without padding implies: the last window ends within the
    /// input. That follows from the size, which is a quotient rounded down, but the prover does not search for it.
    fn note_reach(
        &mut self,
        output: DimId,
        [stride, dilation]: [i64; 2],
        kernel: DimId,
        input: DimId,
    ) -> Result<(), LowerError> {
        let table = self.b.dims_mut();
        let (one, stride) = (table.constant(1), table.constant(stride));
        let dilation = table.constant(dilation);
        let taps = table.sub(kernel, one)?;
        let reach = table.mul(taps, dilation)?;
        let windows = table.sub(output, one)?;
        let last = table.mul(windows, stride)?;
        let end = table.sum(&[last, reach, one])?;
        table.assume(ContractFact {
            predicate: Predicate::LessEqual(end, input),
            origin: FactOrigin::Required("a window's last place".to_owned()),
        })?;
        Ok(())
    }

    pub(super) fn groups(&mut self, groups: usize) -> DimId {
        let groups = i64::try_from(groups).unwrap_or(i64::MAX);
        self.b.dims_mut().constant(groups)
    }

    /// An exact quotient of a size.
    pub(super) fn quotient(&mut self, size: DimId, by: DimId) -> Result<DimId, LowerError> {
        let table = self.b.dims_mut();
        let quotient = table.floor_div(size, by)?;
        Ok(table.simplify(quotient)?)
    }

    /// The group of a channel (`which` 0), or its position in the group (1); `sizes` are the sizes of both.
    ///
    /// A channel axis over several groups of several channels is better split into two axes, which is recorded.
    pub(super) fn part_of_channel(
        &mut self,
        channel: NodeId,
        sizes: [DimId; 2],
        which: usize,
    ) -> NodeId {
        let [outer, inner] = sizes;
        let whole = match (self.fixed(outer), self.fixed(inner)) {
            (Some(1), _) => Some(1),
            (_, Some(1)) => Some(0),
            _ => None,
        };
        if let Some(whole) = whole {
            return if which == whole {
                channel
            } else {
                self.integer(0)
            };
        }
        if let Some(&[(group, _), (within, _)]) = self.merged_from(channel, &sizes) {
            return if which == 0 { group } else { within };
        }
        self.note_split(channel, &sizes);
        let inner = self.b.size(inner);
        match which {
            0 => self.floor_div(channel, inner),
            _ => self.floor_mod(channel, inner),
        }
    }

    /// A zero of the dtype that a value is computed in.
    pub(super) fn zero_of(&mut self, value: ValueId) -> Result<NodeId, LowerError> {
        let dtype = compute_dtype(self.ty(value)?.dtype);
        Ok(self.b.literal(kiln_scalar::ScalarValue::zero(dtype)))
    }

    /// Integers known at compile time, as sizes.
    pub(super) fn constants(&mut self, values: &[i64]) -> Dims {
        let table = self.b.dims_mut();
        values.iter().map(|&value| table.constant(value)).collect()
    }
}
