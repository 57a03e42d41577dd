//! Converts weights to the form in which they are read: moved, cast, or mapped element by element.

use super::PASS;
use crate::context::PassContext;
use crate::fold::Foldable;
use kiln_ir::{Op, OpId, Rebuild, RegionId};

/// Computes the op if its result has no more elements than its operands, all of them constants.
pub(super) fn freeze(
    rebuild: &mut Rebuild<'_>,
    into: RegionId,
    id: OpId,
    budget: usize,
    ctx: &mut PassContext,
) -> bool {
    let data = rebuild.old().op(id);
    let moves = matches!(
        data.op,
        Op::Reshape { .. }
            | Op::Transpose { .. }
            | Op::Slice { .. }
            | Op::Concat { .. }
            | Op::Cast { .. }
            | Op::Map { .. }
    );
    if !moves {
        return false;
    }
    let Some(foldable) = Foldable::of(rebuild, id) else {
        return false;
    };
    let grows = foldable.result_elements > foldable.operand_elements
        || !ctx.may_widen(foldable.operand_bytes, foldable.result_bytes);
    if grows || !ctx.spend_on_freezing(foldable.result_bytes, || budget) {
        return false;
    }
    let frozen = foldable.fold(rebuild, into, id);
    if frozen {
        ctx.count_rewrite(PASS, data.op.mnemonic());
    }
    frozen
}
