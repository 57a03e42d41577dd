//! Weights that stay 16-bit floats, whatever their size: products read them unconverted, and hardware for narrow
//! factors needs both factors to be narrow.

use kiln_ir::{Graph, Op, OpData, OpId, ValueId};
use kiln_tensor::DType;
use std::collections::{BTreeMap, BTreeSet};

/// The ops that widen 16-bit floats only for products; empty if constants may be widened.
pub(crate) fn widened_weights(graph: &Graph, may_widen: bool) -> BTreeSet<OpId> {
    if may_widen {
        return BTreeSet::new();
    }
    let counts = graph.use_counts();
    let mut read_by_products: BTreeMap<ValueId, u32> = BTreeMap::new();
    for (_, data) in graph.ops() {
        if matches!(data.op, Op::Matmul { .. } | Op::Conv { .. }) {
            for &operand in &data.operands {
                *read_by_products.entry(operand).or_default() += 1;
            }
        }
    }
    let is_narrow = |value: &ValueId| {
        let dtype = graph.tensor_ty(*value).map(|ty| ty.dtype);
        matches!(dtype, Some(DType::F16 | DType::BF16))
    };
    let widens = |data: &OpData| {
        let reads_narrow = data.operands.first().is_some_and(is_narrow);
        let is_for_products =
            |value: &ValueId| read_by_products.get(value) == Some(&counts[*value]);
        matches!(data.op, Op::Cast { to: DType::F32 })
            && reads_narrow
            && data.results.first().is_some_and(is_for_products)
    };
    let ops = graph.ops().filter(|(_, data)| widens(data));
    ops.map(|(op, _)| op).collect()
}
