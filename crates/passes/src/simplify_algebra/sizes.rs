//! Slices and concatenations of sizes as data, which are sizes as data again.

use crate::peephole::{Rewrite, Site};
use kiln_ir::Op;
use kiln_symbolic_shape::DimId;
use kiln_tensor::DType;

/// A slice or a concat of `dims` is `dims`.
pub(super) fn join_sizes(site: &mut Site<'_>) -> Option<Rewrite> {
    if site.ty().dtype != DType::I64 || site.ty().rank() != 1 {
        return None;
    }
    let sizes: Vec<DimId> = match site.op() {
        Op::Slice {
            starts,
            sizes,
            steps,
        } => {
            let all = site.elements(site.operand()?)?;
            let (&[start], &[count], &[step]) = (
                site.constant_dims(starts)?.as_slice(),
                site.constant_dims(sizes)?.as_slice(),
                steps.as_slice(),
            ) else {
                return None;
            };
            if usize::try_from(count).ok()? > all.len() {
                return None;
            }
            let at = |index: i64| {
                let position = step
                    .checked_mul(index)
                    .and_then(|way| start.checked_add(way));
                all.get(usize::try_from(position?).ok()?).copied()
            };
            (0..count).map(at).collect::<Option<_>>()?
        }
        Op::Concat { .. } => {
            let parts = site
                .operands()
                .iter()
                .map(|&operand| site.elements(operand));
            parts.collect::<Option<Vec<_>>>()?.concat()
        }
        _ => return None,
    };
    Some(Rewrite::op(
        Op::Dims {
            sizes: sizes.into(),
        },
        [],
    ))
}
