//! Finds the parts of an attention among a kernel's items, in order.

use kiln_kernel::analysis::expression_nodes;
use kiln_kernel::{
    AxisId, Extent, Item, Node, NodeId, Reduction, Stage, StageId, StageOperation, VerifiedKernel,
};
use kiln_tensor::DType;

use super::parts::{Keyed, Mix, product};

/// The parts found so far.
pub(super) struct Finder<'k> {
    pub(super) kernel: &'k VerifiedKernel,
    products: StageId,
    /// The extent of every array over keys.
    bound: Extent,
    /// Maps over keys with their axes: before the maximum, and after it.
    pub(super) arrays: Vec<(StageId, AxisId)>,
    pub(super) later: Vec<(StageId, AxisId)>,
    /// The maximum's stage, with the score.
    pub(super) maximum: Option<(StageId, Keyed)>,
    /// The number of keys, which must be the extent of every reduction over them.
    extent: Option<Extent>,
    /// Stages with one value per row.
    rows: Vec<StageId>,
    pub(super) shift: Option<NodeId>,
    pub(super) sum: Option<StageId>,
    pub(super) mix: Option<Mix>,
}

impl<'k> Finder<'k> {
    pub(super) fn new(kernel: &'k VerifiedKernel, products: StageId, own: AxisId) -> Self {
        Self {
            kernel,
            products,
            bound: kernel.axis(own).extent,
            arrays: Vec::new(),
            later: Vec::new(),
            maximum: None,
            extent: None,
            rows: Vec::new(),
            shift: None,
            sum: None,
            mix: None,
        }
    }

    /// Matches all items; returns the number of items up to the mix and the sum.
    pub(super) fn find(&mut self) -> Option<usize> {
        let items = self.kernel.items();
        for (position, item) in items.iter().enumerate().skip(1) {
            let Item::Stage(id) = *item else { return None };
            self.take(id)?;
            if let (Some(_), Some(mix)) = (self.sum, self.mix) {
                let n_items = position + 1;
                let mut rest = items.get(n_items..)?.iter();
                return rest
                    .all(|item| self.suits_result(item, mix.stage))
                    .then_some(n_items);
            }
        }
        None
    }

    fn take(&mut self, id: StageId) -> Option<()> {
        let stage = self.kernel.stage(id);
        match &stage.operation {
            StageOperation::Map => self.take_map(id, stage),
            StageOperation::Reduce {
                reduction,
                axes,
                accumulator: DType::F32,
            } => {
                let &[key] = axes.as_slice() else { return None };
                let extent = self.kernel.axis(key).extent;
                let is_counted = extent.bound() == self.bound.bound()
                    && self.extent.is_none_or(|known| known == extent);
                if !is_counted {
                    return None;
                }
                self.extent = Some(extent);
                match (reduction, self.maximum) {
                    (Reduction::Max, None) => self.take_maximum(id, stage, key),
                    (Reduction::Add, Some(_)) => self.take_sum(id, stage, key),
                    _ => None,
                }
            }
            StageOperation::Reduce { .. } => None,
        }
    }

    /// Matches a map over keys, or a value of the row that follows the maximum.
    fn take_map(&mut self, id: StageId, stage: &Stage) -> Option<()> {
        match (stage.axes.as_slice(), self.maximum) {
            ([], Some(_)) if self.is_of_row(stage.value) => self.rows.push(id),
            (&[own], _) if self.kernel.axis(own).extent != self.bound => return None,
            (&[own], None) if self.is_score((stage.value, own)) => self.arrays.push((id, own)),
            (&[own], Some(_)) => self.later.push((id, own)),
            _ => return None,
        }
        Some(())
    }

    fn take_maximum(&mut self, id: StageId, stage: &Stage, key: AxisId) -> Option<()> {
        let score = (stage.value, key);
        let is_fit = stage.axes.is_empty()
            && self.kernel.dtype(stage.value) == DType::F32
            && self.is_score(score);
        self.maximum = Some((id, score));
        self.rows.push(id);
        is_fit.then_some(())
    }

    /// Matches the sum of the weights, or the mix.
    fn take_sum(&mut self, id: StageId, stage: &Stage, key: AxisId) -> Option<()> {
        if self.sum.is_none()
            && stage.axes.is_empty()
            && let Some(shift) = self.exponential((stage.value, key))
        {
            self.take_shift(shift)?;
            self.sum = Some(id);
            self.rows.push(id);
            return Some(());
        }
        let is_sized = |&axis: &AxisId| matches!(self.kernel.axis(axis).extent, Extent::Size(_));
        if self.mix.is_some() || stage.axes.len() > 1 || !stage.axes.iter().all(is_sized) {
            return None;
        }
        let [a, b] = product(self.kernel, stage.value)?;
        let mut factors = [(a, b), (b, a)].into_iter();
        let (weight, value) =
            factors.find_map(|(weight, value)| Some((self.weight((weight, key))?, value)))?;
        self.take_shift(weight.shift)?;
        self.mix = Some(Mix {
            stage: id,
            key,
            value,
            weight,
        });
        Some(())
    }

    /// Matches the shift, which must be the same in the sum and in the mix.
    fn take_shift(&mut self, shift: NodeId) -> Option<()> {
        let is_known = self.shift.is_none_or(|known| known == shift);
        self.shift = Some(shift);
        is_known.then_some(())
    }

    /// Whether a value per key reads only stages before the maximum, and only at its own key.
    fn is_score(&self, (value, key): Keyed) -> bool {
        let known = |stage: StageId| {
            stage == self.products || self.arrays.iter().any(|&(array, _)| array == stage)
        };
        self.all_nodes(value, &|node| match node {
            Node::Local { stage, indices } => known(*stage) && self.is_at(indices, key),
            Node::Previous { .. } | Node::Last { .. } => false,
            _ => true,
        })
    }

    /// Whether a value is the same for every key.
    pub(super) fn is_of_row(&self, value: NodeId) -> bool {
        self.all_nodes(value, &|node| match node {
            Node::Local { stage, .. } => self.rows.contains(stage),
            Node::Axis(axis) => self.kernel.outer().contains(axis),
            Node::Previous { .. } | Node::Last { .. } => false,
            _ => true,
        })
    }

    fn all_nodes(&self, value: NodeId, is_fit: &dyn Fn(&Node) -> bool) -> bool {
        let nodes = expression_nodes(self.kernel, &[value]);
        nodes.iter().all(|&node| is_fit(self.kernel.node(node)))
    }

    /// Whether these are the indices of an array at an axis.
    pub(super) fn is_at(&self, indices: &[NodeId], axis: AxisId) -> bool {
        match indices {
            &[index] => matches!(self.kernel.node(index), Node::Axis(found) if *found == axis),
            _ => false,
        }
    }

    /// Accepts an item that follows: a value of the row, or a plain store per row or per result.
    fn suits_result(&mut self, item: &Item, mix: StageId) -> bool {
        let kernel = self.kernel;
        let store = match item {
            Item::Stage(id) => {
                let stage = kernel.stage(*id);
                let is_map = stage.operation == StageOperation::Map && stage.axes.is_empty();
                let is_fit = is_map && self.is_of_result(stage.value, mix, &[]);
                self.rows.push(*id);
                return is_fit;
            }
            Item::Store(store) => store,
            Item::Carry(_) => return false,
        };
        let extents = |axes: &[AxisId]| -> Vec<Extent> {
            axes.iter().map(|&axis| kernel.axis(axis).extent).collect()
        };
        let axes = store.axes.as_slice();
        let is_per_result = extents(axes) == extents(&kernel.stage(mix).axes);
        let mut roots = store.indices.iter().chain([&store.value]);
        store.combine.is_none()
            && (axes.is_empty() || is_per_result)
            && roots.all(|&root| self.is_of_result(root, mix, axes))
    }

    /// Whether a value reads values of the row, and the mix at its own axis.
    fn is_of_result(&self, value: NodeId, mix: StageId, axes: &[AxisId]) -> bool {
        self.all_nodes(value, &|node| match node {
            Node::Local { stage, indices } if *stage == mix => match axes {
                &[axis] => self.is_at(indices, axis),
                _ => indices.is_empty(),
            },
            Node::Local { stage, .. } => self.rows.contains(stage),
            Node::Previous { .. } | Node::Last { .. } => false,
            _ => true,
        })
    }
}
