//! Recognises a kernel that is one attention: scores are sums of products, values are weighted with a softmax of the
//! scores, and everything after that is computed at the points of the results.
//!
//! *Invariant.* The weights are `exp(score - shift)`, perhaps rounded, perhaps divided, and the same score is reduced
//! to a maximum; shift and divisor are values of the row, computed from the maximum and the sum. So using the maximum
//! over fewer keys as the shift gives the same weights up to a factor per row, and that factor and the division can be
//! applied after the sum. Every other kernel is rejected.

use kiln_kernel::analysis::{Dependence, expression_nodes, must_run_in_order};
use kiln_kernel::{
    AxisId, Extent, Item, Node, NodeId, Reduction, Stage, StageId, StageOperation, VerifiedKernel,
};
use kiln_tensor::DType;

use super::find::Finder;
use super::mask::Mask;
use super::parts::product;
use crate::generate::tile::{Operand, unit_of};
use crate::generate::unit::Unit;

/// The parts of an attention kernel.
#[derive(Clone, Debug)]
pub(in crate::generate) struct Attention {
    pub(in crate::generate) unit: Unit,
    /// Its axes are the rows.
    pub(in crate::generate) queries: Operand,
    pub(super) keys: Operand,
    /// Its axes are the columns.
    pub(in crate::generate) values: Operand,
    pub(in crate::generate) depth: Vec<AxisId>,
    pub(super) batch: Vec<AxisId>,
    /// The axis along which values are summed: its extent is the number of keys.
    pub(super) key: AxisId,
    /// The sums of products.
    pub(super) products: StageId,
    /// The maps over keys that are computed from them, in order, with the axis of each.
    pub(super) arrays: Vec<(StageId, AxisId)>,
    /// The score, with its axis.
    pub(super) score: (NodeId, AxisId),
    pub(super) maximum: StageId,
    pub(super) sum: StageId,
    pub(super) mixed: StageId,
    /// The shift that is subtracted from the scores: a value of the row.
    pub(super) shift: NodeId,
    /// The divisor of the weights: a value of the row.
    pub(super) divisor: Option<NodeId>,
    /// The number of 16-bit numbers into which a weight is split for multiplication: 2 if neither it nor the result is
    /// rounded to 16 bits.
    pub(super) parts: u32,
    /// The keys that rows see, if positions mask some.
    pub(super) mask: Option<Mask>,
    /// The number of items up to the mix and the sum: the remaining ones are computed at the points of the results.
    pub(super) n_items: usize,
}

impl Attention {
    /// The attention that a kernel computes, if it is one.
    pub(in crate::generate) fn of(
        kernel: &VerifiedKernel,
        dependence: &Dependence,
    ) -> Option<Self> {
        let (products, depth, [left, right]) = products(kernel)?;
        let &[own] = kernel.stage(products).axes.as_slice() else {
            return None;
        };
        let mut finder = Finder::new(kernel, products, own);
        let n_items = finder.find()?;
        let (maximum, sum, mix) = (finder.maximum?, finder.sum?, finder.mix?);
        let shift = finder.shift?;
        let is_f16 = |dtype: DType| matches!(dtype, DType::BF16 | DType::F16);
        let (unit, [left, right], value) = units(kernel, [left, right], mix.value)?;
        let (query, key) = match (
            dependence.depends(left, own),
            dependence.depends(right, own),
        ) {
            (false, true) => (left, right),
            (true, false) => (right, left),
            _ => return None,
        };
        let reads_stage = |node: NodeId| {
            let nodes = expression_nodes(kernel, &[node]);
            let mut nodes = nodes.iter();
            nodes.any(|&node| matches!(kernel.node(node), Node::Local { .. }))
        };
        if [query, key, value].into_iter().any(reads_stage) {
            return None;
        }
        // Rows share their keys and values.
        let is_row = |axis: &AxisId| ![key, value].iter().any(|&n| dependence.depends(n, *axis));
        let outer = kernel.outer().iter().copied();
        let (rows, batch): (Vec<AxisId>, Vec<AxisId>) = outer.partition(is_row);
        // All rows must have the same number of keys: a value that is not a key's for one row may not be a number.
        if let Extent::Clamped { value, .. } = kernel.axis(mix.key).extent {
            let mut outer = kernel.outer().iter();
            let is_own =
                |&axis: &AxisId| dependence.depends(value, axis) && !dependence.depends(key, axis);
            if outer.any(is_own) {
                return None;
            }
        }
        let columns = kernel.stage(mix.stage).axes.to_vec();
        let stored = stores_of(kernel, n_items);
        let is_narrow = mix.weight.is_rounded || stored.into_iter().all(is_f16);
        let facts = (kernel, dependence);
        let stages = finder.arrays.iter().map(|&(stage, _)| stage);
        let values = stages.chain([products, mix.stage]);
        let values: Vec<NodeId> = values.map(|id| kernel.stage(id).value).collect();
        let mask = Mask::of(facts, maximum.1, &values, (value, mix.key), &batch);
        Some(Self {
            unit,
            queries: Operand::new(facts, unit, query, (rows, depth)),
            keys: Operand::new(facts, unit, key, (vec![own], depth)),
            values: Operand::new(facts, unit, value, (columns, &[mix.key])),
            depth: depth.to_vec(),
            batch,
            key: mix.key,
            products,
            arrays: finder.arrays,
            score: maximum.1,
            maximum: maximum.0,
            sum,
            mixed: mix.stage,
            shift,
            divisor: mix.weight.divisor,
            parts: if is_narrow { 1 } else { 2 },
            mask,
            n_items,
        })
    }
}

/// The first stage of a kernel, if it sums products in f32: the stage, its summed axes, the factors.
fn products(kernel: &VerifiedKernel) -> Option<(StageId, &[AxisId], [NodeId; 2])> {
    let Item::Stage(id) = *kernel.items().first()? else {
        return None;
    };
    let stage = kernel.stage(id);
    let depth = summed(stage)?;
    let is_sized = |&axis: &AxisId| matches!(kernel.axis(axis).extent, Extent::Size(_));
    let is_free = |&axis: &AxisId| !must_run_in_order(kernel, axis);
    let fits = depth.iter().all(is_sized) && kernel.outer().iter().all(is_free);
    let factors = product(kernel, stage.value).filter(|_| fits)?;
    Some((id, depth, factors))
}

/// The axes over which a stage sums in f32.
fn summed(stage: &Stage) -> Option<&[AxisId]> {
    match &stage.operation {
        StageOperation::Reduce {
            reduction: Reduction::Add,
            axes,
            accumulator: DType::F32,
        } => Some(axes),
        _ => None,
    }
}

/// The unit that multiplies queries with keys and weights with values, and the operands in its type.
fn units(
    kernel: &VerifiedKernel,
    [left, right]: [NodeId; 2],
    value: NodeId,
) -> Option<(Unit, [NodeId; 2], NodeId)> {
    let of = |left, right| unit_of(kernel, DType::F32, left, right);
    let (unit, narrow_left, narrow_right) = of(left, right)?;
    // The product of a value with itself is checked, since the weights are rounded to its type here.
    let (of_value, narrow_value, _) = of(value, value)?;
    Some(match unit == of_value {
        true => (unit, [narrow_left, narrow_right], narrow_value),
        false => (Unit::F32, [left, right], value),
    })
}

/// The dtypes of the values stored after the mix.
fn stores_of(kernel: &VerifiedKernel, n_items: usize) -> Vec<DType> {
    let rest = kernel.items().iter().skip(n_items);
    rest.filter_map(|item| match item {
        Item::Store(store) => Some(kernel.buffer(store.buffer).dtype),
        _ => None,
    })
    .collect()
}
