//! Which ops can run speculatively, and which are worth hoisting.

use kiln_ir::{Graph, Op, OpId, TensorType, ValueId};
use kiln_shape_inference::requirements_of;
use kiln_symbolic_shape::{DimId, Predicate, SymbolId};

/// Whether an op may run although the surrounding region does not: it cannot fault, has no requirements on sizes, and uses
/// no size that is known only in the region. `scratch` has the ops of `graph`.
pub(super) fn may_move(graph: &Graph, scratch: &mut Graph, id: OpId, inside: &[SymbolId]) -> bool {
    let data = graph.op(id);
    let is_total = match &data.op {
        Op::Map { function, .. } => {
            let result = data
                .results
                .first()
                .and_then(|&value| graph.tensor_ty(value));
            result.is_some_and(|ty| ty.dtype.is_float()) || !function.may_fault_on_integers()
        }
        Op::Cast { .. }
        | Op::Reshape { .. }
        | Op::Broadcast { .. }
        | Op::Transpose { .. }
        | Op::Slice { .. }
        | Op::Concat { .. }
        | Op::Iota { .. }
        | Op::Dims { .. }
        | Op::Reduce { .. }
        | Op::Matmul { .. }
        | Op::Conv { .. }
        | Op::ConvTranspose { .. } => true,
        _ => false,
    };
    if !is_total || !data.symbols.is_empty() || !data.regions.is_empty() {
        return false;
    }
    let mut dims: Vec<DimId> = Vec::new();
    data.op.for_each_dim(&mut |dim| dims.push(dim));
    for &value in data.operands.iter().chain(&data.results) {
        let Some(ty) = graph.tensor_ty(value) else {
            return false;
        };
        dims.extend_from_slice(&ty.dims);
    }
    let known_outside = graph.dims().free_symbols(&dims);
    inside.iter().all(|symbol| !known_outside.contains(symbol))
        && requirements_of(scratch, &[id]).is_empty()
}

/// Whether computing an op once is worth the memory of its result: it computes more than a scalar, and its result is no
/// larger than its operands.
pub(super) fn is_worth_keeping(graph: &Graph, id: OpId) -> bool {
    let data = graph.op(id);
    match &data.op {
        Op::Map { .. } | Op::Cast { .. } => {
            let shape = |value: ValueId| graph.tensor_ty(value).map(|ty| &ty.dims);
            let result = data.results.first().and_then(|&value| shape(value));
            let is_scalar = result.is_some_and(|dims| dims.is_empty());
            !is_scalar && data.operands.iter().any(|&value| shape(value) == result)
        }
        Op::Reduce { .. } | Op::Matmul { .. } | Op::Conv { .. } | Op::ConvTranspose { .. } => true,
        _ => false,
    }
}

/// Whether a tensor is proved to have at most `factor` times as many elements as another one.
pub(super) fn is_at_most(
    scratch: &mut Graph,
    times: i64,
    small: &TensorType,
    large: &TensorType,
) -> bool {
    let dims = scratch.dims_mut();
    let times = dims.constant(times);
    let (Ok(small), Ok(large)) = (dims.product(&small.dims), dims.product(&large.dims)) else {
        return false;
    };
    let Ok(large) = dims.mul(times, large) else {
        return false;
    };
    let predicate = Predicate::LessEqual(small, large);
    dims.prove(&predicate).is_proved()
}
