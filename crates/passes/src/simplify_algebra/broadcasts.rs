//! Broadcasts that an element-wise op makes unnecessary, or that move after it.

use crate::peephole::{Rewrite, Site};
use kiln_ir::{Op, TensorType, ValueId};
use smallvec::SmallVec;

/// `f(broadcast y, z)` is `f(y, z)` where the sizes of `y` and `z` are proved to give the result's; the same for a reshape
/// of `y` that only adds leading axes of size 1.
pub(super) fn drop_operand_broadcast(site: &mut Site<'_>) -> Option<Rewrite> {
    let operands = site.operands();
    if !matches!(site.op(), Op::Map { .. }) || operands.len() < 2 {
        return None;
    }
    for (index, &operand) in operands.iter().enumerate() {
        let Some(source) = unexpanded(site, operand) else {
            continue;
        };
        let mut tried: SmallVec<[ValueId; 4]> = operands.into();
        tried[index] = source;
        if site.broadcasts_to_result(&tried) {
            return Some(Rewrite::op(site.op().clone(), tried));
        }
    }
    None
}

/// The operand of a broadcast, or of a reshape that adds leading axes of size 1.
fn unexpanded(site: &Site<'_>, value: ValueId) -> Option<ValueId> {
    match site.through(value)? {
        (Op::Broadcast { .. }, source) => Some(source),
        (Op::Reshape { dims }, source) => {
            let from = site.dims_of(source)?;
            let (front, rest) = dims.split_at_checked(dims.len().checked_sub(from.len())?)?;
            let expands = front.iter().all(|&dim| site.is(dim, 1)) && site.equal_dims(&from, rest);
            expands.then_some(source)
        }
        _ => None,
    }
}

/// `f(broadcast y, scalars)` is `broadcast f(y, scalars)`: fewer elements to compute.
pub(super) fn map_before_broadcast(site: &mut Site<'_>) -> Option<Rewrite> {
    let (op, operands) = (site.op(), site.operands());
    let maps = match op {
        // If the result is empty, no op would have faulted, but `y` need not be empty.
        Op::Map { function, .. } => !function.may_fault_on_integers() || site.ty().dtype.is_float(),
        Op::Cast { .. } => true,
        _ => false,
    };
    let is_scalar = |value: &ValueId| site.tensor(*value).is_some_and(|ty| ty.rank() == 0);
    let mut wide = operands
        .iter()
        .enumerate()
        .filter(|(_, value)| !is_scalar(value));
    let (Some((index, &operand)), None, true) = (wide.next(), wide.next(), maps) else {
        return None;
    };
    let Some((Op::Broadcast { .. }, source)) = site.through(operand) else {
        return None;
    };
    let ty = TensorType {
        dtype: site.ty().dtype,
        dims: site.dims_of(source)?,
    };
    let mut narrow: SmallVec<[ValueId; 4]> = operands.into();
    narrow[index] = source;
    let mapped = site.emit(op.clone(), narrow, ty);
    let dims = site.ty().dims.clone();
    Some(Rewrite::op(Op::Broadcast { dims }, [mapped]))
}
