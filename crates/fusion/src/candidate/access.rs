//! The indices at which each op reads its operands, given the indices of its result.

use std::collections::BTreeSet;

use kiln_ir::{Op, OpData, OpId, ValueId, Window};
use kiln_symbolic_shape::{DimId, Predicate};

use super::index::{AxisSet, Index, Indices, axes_of, is_plain};
use super::refusal::Refusal;
use super::reshape;
use super::walk::{Demand, Stage, Walk};
use crate::op_kind::OpKind;

/// Records the demands that one demand on an op's result makes on its operands.
pub(crate) fn visit(walk: &mut Walk<'_>, op: OpId, demand: &Demand) -> Result<(), Refusal> {
    let data = walk.graph.op(op);
    let kind = OpKind::of(&data.op);
    let mut reader = Reader::new(walk, op, data, demand);
    match kind {
        OpKind::Pointwise => reader.pointwise(),
        OpKind::Movement => reader.movement(),
        OpKind::Lookup => reader.lookup(),
        OpKind::Reduction => reader.reduction(),
        OpKind::Contraction => reader.matmul(),
        OpKind::Window => reader.window(),
        OpKind::Scan => {
            reader.begin_stage(0)?;
            reader.read(0, demand.indices.clone(), false)
        }
        OpKind::Scatter => reader.scatter(),
        OpKind::Apart => Err(Refusal::Apart { op }),
    }
}

/// One op, demanded at one position.
struct Reader<'w, 'a> {
    walk: &'w mut Walk<'a>,
    op: OpId,
    data: &'a OpData,
    indices: Indices,
    scope: AxisSet,
    stages: BTreeSet<usize>,
    stored: bool,
    repeated: bool,
}

impl<'w, 'a> Reader<'w, 'a> {
    fn new(walk: &'w mut Walk<'a>, op: OpId, data: &'a OpData, demand: &Demand) -> Self {
        Self {
            walk,
            op,
            data,
            indices: demand.indices.clone(),
            scope: demand.scope,
            stages: demand.stages.clone(),
            stored: demand.stored,
            repeated: demand.repeated,
        }
    }

    fn operand(&self, position: usize) -> Option<ValueId> {
        self.data.operands.get(position).copied()
    }

    fn operand_dims(&self, position: usize) -> Vec<DimId> {
        self.operand(position)
            .map(|value| self.walk.dims(value).to_vec())
            .unwrap_or_default()
    }

    fn result_dims(&self) -> Vec<DimId> {
        self.data
            .results
            .first()
            .map(|&value| self.walk.dims(value).to_vec())
            .unwrap_or_default()
    }

    /// The index of the result along an axis.
    fn at(&self, axis: usize) -> Index {
        self.indices.get(axis).copied().unwrap_or(Index::Unit)
    }

    /// Demands an operand.
    fn read(&mut self, position: usize, indices: Indices, repeated: bool) -> Result<(), Refusal> {
        let Some(value) = self.operand(position) else {
            return Ok(());
        };
        let demand = Demand {
            indices,
            scope: self.scope,
            stages: self.stages.clone(),
            stored: self.stored,
            repeated: self.repeated || repeated,
        };
        self.walk.demand(value, demand)
    }

    /// Makes the op a stage: its operands are demanded by the stage, not by the readers of the op.
    fn begin_stage(&mut self, reduced: AxisSet) -> Result<(), Refusal> {
        if !is_plain(&self.indices) {
            return Err(Refusal::Moved { op: self.op });
        }
        self.scope = axes_of(&self.indices) | reduced;
        self.stages = BTreeSet::from([self.walk.stages.len()]);
        self.stored = false;
        self.repeated = false;
        self.walk.stages.push(Stage {
            op: self.op,
            kind: OpKind::of(&self.data.op),
            indices: self.indices.clone(),
            reduced,
        });
        Ok(())
    }

    /// Where an operand that broadcasts to the result is read, innermost axes aligned.
    fn broadcast(&mut self, position: usize) -> Result<Indices, Refusal> {
        let (dims, result) = (self.operand_dims(position), self.result_dims());
        let offset = result.len().saturating_sub(dims.len());
        let value = self.data.results.first().copied();
        let mut indices = Indices::new();
        for (axis, &dim) in dims.iter().enumerate() {
            if self.walk.sizes.is_one(dim) {
                indices.push(Index::Unit);
                continue;
            }
            if let (Some(value), Some(&to)) = (value, result.get(axis + offset)) {
                self.walk.require_equal(value, dim, to)?;
            }
            indices.push(self.at(axis + offset));
        }
        Ok(indices)
    }

    fn pointwise(&mut self) -> Result<(), Refusal> {
        if let Op::RandomBits { .. } = self.data.op {
            return self.read(0, Indices::from_slice(&[Index::Sum(0)]), false);
        }
        for position in 0..self.data.operands.len() {
            let indices = self.broadcast(position)?;
            self.read(position, indices, false)?;
        }
        Ok(())
    }

    fn movement(&mut self) -> Result<(), Refusal> {
        match &self.data.op {
            Op::Broadcast { .. } => {
                let indices = self.broadcast(0)?;
                self.read(0, indices, false)
            }
            Op::Transpose { permutation } => {
                let mut indices = Indices::from_elem(Index::Unit, permutation.len());
                for (axis, &from) in permutation.iter().enumerate() {
                    if let Some(index) = indices.get_mut(from) {
                        *index = self.at(axis);
                    }
                }
                self.read(0, indices, false)
            }
            Op::Reshape { .. } => {
                let (from, to) = (self.operand_dims(0), self.result_dims());
                let is_constant = (self.walk.graph.op(self.op).operands.first())
                    .is_some_and(|&operand| self.walk.is_constant(operand));
                let given = (self.indices.as_slice(), is_constant);
                let indices = reshape::indices(self.walk, &from, &to, given)
                    .ok_or(Refusal::Divided { op: self.op })?;
                self.read(0, indices, false)
            }
            Op::Slice { starts, steps, .. } => self.slice(starts, steps),
            Op::Pad { low, high, mode } => {
                let constant = *mode == kiln_ir::PadMode::Constant;
                let zero = |dim: &DimId| self.walk.sizes.table().as_constant(*dim) == Some(0);
                let unmoved: Vec<bool> = low
                    .iter()
                    .zip(high)
                    .map(|(low, high)| zero(low) && zero(high))
                    .collect();
                let indices = unmoved
                    .iter()
                    .enumerate()
                    .map(|(axis, &unmoved)| match self.at(axis) {
                        index if unmoved => index,
                        index if constant => index.shifted(),
                        index => index.computed(),
                    })
                    .collect();
                self.read(0, indices, !constant)?;
                self.read(1, Indices::new(), false)
            }
            Op::Concat { axis } => {
                for position in 0..self.data.operands.len() {
                    let mut indices = self.indices.clone();
                    if let Some(index) = indices.get_mut(*axis) {
                        *index = index.shifted();
                    }
                    self.read(position, indices, false)?;
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn slice(&mut self, starts: &[DimId], steps: &[i64]) -> Result<(), Refusal> {
        let (from, to) = (self.operand_dims(0), self.result_dims());
        let sizes = self.walk.sizes;
        let mut indices = Indices::new();
        for (axis, (&dim, &size)) in from.iter().zip(&to).enumerate() {
            let start = starts.get(axis).copied();
            let at_start = start.and_then(|start| sizes.table().as_constant(start)) == Some(0);
            let unmoved = at_start && steps.get(axis) == Some(&1);
            let whole = unmoved && self.walk.holds(&Predicate::Equal(dim, size));
            indices.push(match self.at(axis) {
                _ if sizes.is_one(dim) => Index::Unit,
                index if whole => index,
                // The first elements: the same index, into a larger operand.
                index => index.shifted(),
            });
        }
        self.read(0, indices, false)
    }

    fn lookup(&mut self) -> Result<(), Refusal> {
        let (op, table) = (self.op, self.operand(0));
        let computed = table.filter(|&value| self.walk.computes(value));
        if let (Some(value), false) = (computed, matches!(self.data.op, Op::Resize(_))) {
            return Err(Refusal::Lookup { op, value });
        }
        let all = axes_of(&self.indices);
        match &self.data.op {
            Op::Gather { axis } => {
                let rank = self.operand_dims(1).len();
                let of_indices: Indices = (0..rank).map(|k| self.at(axis + k)).collect();
                let x_rank = self.operand_dims(0).len();
                let looked_up = Index::Computed(axes_of(&of_indices));
                let of_table = (0..x_rank)
                    .map(|k| match k.cmp(axis) {
                        std::cmp::Ordering::Less => self.at(k),
                        std::cmp::Ordering::Equal => looked_up,
                        std::cmp::Ordering::Greater => self.at(k + rank - 1),
                    })
                    .collect();
                self.read(0, of_table, true)?;
                self.read(1, of_indices, false)
            }
            Op::GatherElements { axis } => {
                let mut of_table = self.indices.clone();
                if let Some(index) = of_table.get_mut(*axis) {
                    *index = Index::Computed(all);
                }
                self.read(0, of_table, true)?;
                self.read(1, self.indices.clone(), false)
            }
            Op::GatherNd { batch_axes } => {
                let rank = self.operand_dims(1).len();
                let leading = rank.saturating_sub(1);
                let mut of_indices: Indices = (0..leading).map(|k| self.at(k)).collect();
                of_indices.push(Index::Sum(0));
                let x_rank = self.operand_dims(0).len();
                let of_table = (0..x_rank)
                    .map(|k| match k {
                        k if k < *batch_axes => self.at(k),
                        _ => Index::Computed(all),
                    })
                    .collect();
                self.read(0, of_table, true)?;
                self.read(1, of_indices, false)
            }
            Op::Resize(resize) => {
                let mut indices = self.indices.clone();
                for &axis in &resize.axes {
                    if let Some(index) = indices.get_mut(axis) {
                        *index = index.computed();
                    }
                }
                self.read(0, indices, true)
            }
            _ => Ok(()),
        }
    }

    fn reduction(&mut self) -> Result<(), Refusal> {
        let (axes, keep_dims) = match &self.data.op {
            Op::Reduce {
                axes, keep_dims, ..
            } => (axes.to_vec(), *keep_dims),
            Op::ArgReduce {
                axis, keep_dims, ..
            } => (vec![*axis], *keep_dims),
            _ => return Ok(()),
        };
        let mut indices = Indices::new();
        let (mut kept, mut reduced) = (0, 0);
        for (axis, dim) in self.operand_dims(0).into_iter().enumerate() {
            if axes.contains(&axis) {
                let index = self.walk.axis(dim)?;
                reduced |= index.axes();
                indices.push(index);
                kept += usize::from(keep_dims);
            } else {
                indices.push(self.at(kept));
                kept += 1;
            }
        }
        self.begin_stage(reduced)?;
        self.read(0, indices, false)
    }

    fn matmul(&mut self) -> Result<(), Refusal> {
        let (left, right) = (self.operand_dims(0), self.operand_dims(1));
        let rank = self.result_dims().len();
        let Some(&depth) = left.last() else {
            return Err(Refusal::Apart { op: self.op });
        };
        let k = self.walk.axis(depth)?;
        let mut of_left = self.batch(0, left.len(), rank)?;
        of_left.extend([self.at(rank.saturating_sub(2)), k]);
        let mut of_right = self.batch(1, right.len(), rank)?;
        of_right.extend([k, self.at(rank.saturating_sub(1))]);
        self.begin_stage(k.axes())?;
        self.read(0, of_left, true)?;
        self.read(1, of_right, true)
    }

    /// The batch indices of an operand of a matmul.
    fn batch(&mut self, position: usize, rank: usize, to: usize) -> Result<Indices, Refusal> {
        let (dims, result) = (self.operand_dims(position), self.result_dims());
        let (n, offset) = (rank.saturating_sub(2), to.saturating_sub(rank));
        let value = self.data.results.first().copied();
        let mut indices = Indices::new();
        for (axis, &dim) in dims.iter().enumerate().take(n) {
            if self.walk.sizes.is_one(dim) {
                indices.push(Index::Unit);
                continue;
            }
            if let (Some(value), Some(&to)) = (value, result.get(axis + offset)) {
                self.walk.require_equal(value, dim, to)?;
            }
            indices.push(self.at(axis + offset));
        }
        Ok(indices)
    }

    fn window(&mut self) -> Result<(), Refusal> {
        match &self.data.op {
            Op::Conv { window, groups, .. } => self.conv(window, *groups),
            Op::ConvTranspose { groups, .. } => self.conv_transpose(*groups),
            Op::Pool { size, window, .. } | Op::ArgPool { size, window } => self.pool(size, window),
            _ => Ok(()),
        }
    }

    fn conv(&mut self, window: &Window, groups: usize) -> Result<(), Refusal> {
        let weights = self.operand_dims(1);
        let mut reduced = 0;
        let mut of_weights = Indices::from_slice(&[self.at(1)]);
        for &dim in weights.iter().skip(1) {
            let index = self.walk.axis(dim)?;
            reduced |= index.axes();
            of_weights.push(index);
        }
        let within = of_weights.get(1).copied().unwrap_or(Index::Unit);
        let channel = if groups == 1 {
            within
        } else {
            Index::Computed(self.at(1).axes() | within.axes())
        };
        let mut of_x = Indices::from_slice(&[self.at(0), channel]);
        for axis in 0..window.spatial_rank() {
            let tap = of_weights.get(axis + 2).copied().unwrap_or(Index::Unit);
            of_x.push(self.slide(window, axis, self.at(axis + 2), tap));
        }
        self.begin_stage(reduced)?;
        self.read(0, of_x, true)?;
        self.read(1, of_weights, true)
    }

    /// The index that a window reads along a spatial axis.
    fn slide(&self, window: &Window, axis: usize, at: Index, tap: Index) -> Index {
        let zero = |dims: &[DimId]| {
            let dim = dims.get(axis);
            dim.and_then(|&dim| self.walk.sizes.table().as_constant(dim)) == Some(0)
        };
        let still = tap == Index::Unit && zero(&window.low) && zero(&window.high);
        match window.strides.get(axis) {
            Some(1) if still => at,
            _ if tap == Index::Unit => at.shifted(),
            _ => at.plus(tap.axes()),
        }
    }

    fn conv_transpose(&mut self, groups: usize) -> Result<(), Refusal> {
        let weights = self.operand_dims(1);
        let channels = self.operand_dims(0).get(1).copied();
        let Some(channels) = channels else {
            return Err(Refusal::Apart { op: self.op });
        };
        let channel = self.walk.axis(channels)?;
        let mut reduced = channel.axes();
        let of_output = match groups {
            1 => self.at(1),
            _ => Index::Computed(self.at(1).axes() | channel.axes()),
        };
        let mut of_weights = Indices::from_slice(&[channel, of_output]);
        let mut of_x = Indices::from_slice(&[self.at(0), channel]);
        for (axis, &dim) in weights.iter().enumerate().skip(2) {
            let tap = self.walk.axis(dim)?;
            reduced |= tap.axes();
            of_weights.push(tap);
            of_x.push(Index::Computed(self.at(axis).axes() | tap.axes()));
        }
        self.begin_stage(reduced)?;
        self.read(0, of_x, true)?;
        self.read(1, of_weights, true)
    }

    fn pool(&mut self, size: &[i64], window: &Window) -> Result<(), Refusal> {
        let mut of_x = Indices::from_slice(&[self.at(0), self.at(1)]);
        for axis in 0..size.len() {
            // The taps are not axes here: their number is a constant, and nothing else uses them.
            of_x.push(match size.get(axis) {
                Some(1) => self.slide(window, axis, self.at(axis + 2), Index::Unit),
                _ => Index::Sum(self.at(axis + 2).axes()),
            });
        }
        self.begin_stage(0)?;
        self.read(0, of_x, true)
    }

    fn scatter(&mut self) -> Result<(), Refusal> {
        let (op, base) = (self.op, self.operand(0));
        if let Some(value) = base.filter(|&value| self.walk.computes(value)) {
            return Err(Refusal::Lookup { op, value });
        }
        self.begin_stage(0)?;
        for position in 1..self.data.operands.len() {
            let dims = self.operand_dims(position);
            let is_position = position == 1 && matches!(self.data.op, Op::UpdateSlice { .. });
            let indices: Indices = match is_position {
                // Each operand, at every point.
                true => dims.iter().map(|_| Index::Sum(0)).collect(),
                false => dims
                    .into_iter()
                    .map(|dim| self.walk.axis(dim))
                    .collect::<Result<_, _>>()?,
            };
            self.scope |= axes_of(&indices);
            self.read(position, indices, false)?;
        }
        self.read(0, self.indices.clone(), false)
    }
}
