//! Concatenations of many operands: as concatenations of concatenations.
//!
//! A kernel finds out for each element which operand it is of, one comparison after the other. So a concatenation of many
//! would be as much code as it has operands, and as much work for each element. In two steps each element is moved twice
//! and compared with few, and the first step's kernels are mostly the same one.

use kiln_ir::{Op, TensorType};
use kiln_symbolic_shape::{DimId, DimTable};

use crate::peephole::{Rewrite, Site};

/// Of more operands than a size sums up at once: of parts with so many each.
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
