//! Ops that need no copy: their result is a view of their operand.

use kiln_ir::{Op, OpId};
use kiln_symbolic_shape::{DimId, DimTable, Predicate};
use smallvec::SmallVec;

use super::block::BlockBuilder;
use crate::buffer::Place;
use crate::error::ProgramError;

impl BlockBuilder<'_, '_> {
    /// Makes the result of an op a row-major view of its operand, if it is one.
    pub(super) fn alias(&mut self, id: OpId) -> Result<bool, ProgramError> {
        let op = self.program.graph.op(id).clone();
        let (&[operand], &[result]) = (op.operands.as_slice(), op.results.as_slice()) else {
            return Ok(false);
        };
        let Some(ty) = self.program.graph.tensor_ty(result) else {
            return Ok(false);
        };
        let shape = ty.dims.clone();
        let base = self.buffer(operand)?;
        if self.buffers[base].strides.is_some() {
            return Ok(false);
        }
        let from: SmallVec<[DimId; 4]> = self.shapes.get(&base).cloned().unwrap_or_default();
        let dims = self.program.graph.dims_mut();
        let zero = dims.constant(0);
        let offset = match &op.op {
            Op::Reshape { .. } => Some(zero),
            Op::Broadcast { .. } => repeats_nothing(dims, &from, &shape).then_some(zero),
            Op::Transpose { permutation } => {
                moves_nothing(dims, &from, permutation).then_some(zero)
            }
            Op::Slice { starts, steps, .. } if steps.iter().all(|&step| step == 1) => {
                if lies_within(dims, &from, starts, &shape) {
                    offset_of_part(dims, &from, starts, &shape)
                } else {
                    None
                }
            }
            _ => None,
        };
        let Some(offset) = offset else {
            return Ok(false);
        };
        let (of, offset) = match self.buffers[base].place {
            Place::View { of, offset: before } => {
                let before = self.program.sizes.dim(before);
                match self.program.graph.dims_mut().add(before, offset) {
                    Ok(sum) => (of, sum),
                    Err(_) => return Ok(false),
                }
            }
            _ => (base, offset),
        };
        let offset = self.program.sizes.intern(offset);
        self.add_buffer(result, Place::View { of, offset })?;
        Ok(true)
    }
}

fn is_one(dims: &DimTable, dim: DimId) -> bool {
    dims.as_constant(dim) == Some(1)
}

fn equal(dims: &DimTable, left: DimId, right: DimId) -> bool {
    dims.equal(left, right).is_proved()
}

/// Whether a broadcast only adds axes of size 1 in front.
fn repeats_nothing(dims: &DimTable, from: &[DimId], to: &[DimId]) -> bool {
    let Some(n_new) = to.len().checked_sub(from.len()) else {
        return false;
    };
    let (new, old) = to.split_at(n_new);
    new.iter().all(|&dim| is_one(dims, dim))
        && old
            .iter()
            .zip(from)
            .all(|(&to, &from)| equal(dims, to, from))
}

/// Whether axes that are not of size 1 stay in order.
fn moves_nothing(dims: &DimTable, from: &[DimId], permutation: &[usize]) -> bool {
    let is_long = |axis: &&usize| from.get(**axis).is_some_and(|&dim| !is_one(dims, dim));
    permutation.iter().filter(is_long).is_sorted()
}

/// Whether a part is proved to be within the whole: a slice that may be empty may start anywhere.
fn lies_within(dims: &mut DimTable, from: &[DimId], starts: &[DimId], shape: &[DimId]) -> bool {
    let zero = dims.constant(0);
    let parts = from.iter().zip(starts).zip(shape);
    parts.into_iter().all(|((&size, &start), &len)| {
        let Ok(end) = dims.add(start, len) else {
            return false;
        };
        let begins = dims.prove(&Predicate::LessEqual(zero, start));
        let ends = dims.prove(&Predicate::LessEqual(end, size));
        begins.is_proved() && ends.is_proved()
    })
}

/// Where a part of a row-major array begins, if it is contiguous: outermost axes of size 1, then one partial axis, then
/// whole axes.
fn offset_of_part(
    dims: &mut DimTable,
    from: &[DimId],
    starts: &[DimId],
    shape: &[DimId],
) -> Option<DimId> {
    let mut inner = dims.constant(1);
    let mut offset = dims.constant(0);
    let zero = offset;
    let mut cut = false;
    for ((&size, &start), &len) in from.iter().zip(starts).zip(shape).rev() {
        if cut && !is_one(dims, len) {
            return None;
        }
        let whole = equal(dims, start, zero) && equal(dims, len, size);
        cut = cut || !whole;
        let before = dims.mul(start, inner).ok()?;
        offset = dims.add(offset, before).ok()?;
        inner = dims.mul(inner, size).ok()?;
    }
    Some(offset)
}
