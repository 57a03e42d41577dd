//! Concatenations of many operands become concatenations of concatenations.
//!
//! A kernel determines for each element which operand it belongs to, one comparison after the other. So the code of a
//! concatenation and the work for each element grow with its number of operands. In two steps, each element is moved
//! twice but needs few comparisons, and most kernels of the first step are the same.

use kiln_ir::{Op, TensorType};
use kiln_symbolic_shape::{DimId, DimTable};

use crate::peephole::{Rewrite, Site};

/// If there are more operands than one size expression sums, they are concatenated in parts of that many.
pub(super) fn split_concat(site: &mut Site<'_>) -> Option<Rewrite> {
    const WIDTH: usize = DimTable::SUMMED_AT_ONCE;
    let Op::Concat { axis } = *site.op() else {
        return None;
    };
    let operands = site.operands();
    if operands.len() <= WIDTH {
        return None;
    }
    let mut types: Vec<TensorType> = Vec::with_capacity(operands.len().div_ceil(WIDTH));
    for part in operands.chunks(WIDTH) {
        let sizes: Option<Vec<DimId>> = part.iter().map(|&value| site.size(value, axis)).collect();
        let sum = site.dims_mut().sum(&sizes?).ok()?;
        let mut ty = site.ty().clone();
        *ty.dims.get_mut(axis)? = sum;
        types.push(ty);
    }
    let sums: Option<Vec<DimId>> = types.iter().map(|ty| ty.dims.get(axis).copied()).collect();
    let sum = site.dims_mut().sum(&sums?).ok()?;
    let stated = *site.ty().dims.get(axis)?;
    if !site.equal(sum, stated) {
        return None;
    }
    let parts: Vec<_> = operands
        .chunks(WIDTH)
        .zip(types)
        .map(|(part, ty)| match part {
            &[only] => only,
            _ => site.emit(site.op().clone(), part.iter().copied(), ty),
        })
        .collect();
    Some(Rewrite::op(site.op().clone(), parts))
}
