//! `canonicalize`: one form for each computation, so that later passes have fewer forms to handle.
//!
//! Operands of commutative functions are put in one order, with constants last and without leading unit axes; no-op
//! data movement is removed; consecutive movements are merged; concatenations of many operands are split into steps; a
//! transpose that moves only axes of size 1 becomes a reshape. Every rule preserves every element bit for bit. A slice
//! of a slice is merged only where both are proved in bounds, so no fault is lost.

mod broadcast;
mod concat;
mod operands;
mod reshape;
mod scatter;
mod slice;
mod transpose;
mod trivial;

use crate::context::{Changed, PassContext};
use crate::error::PassError;
use crate::peephole::{Rule, rewrite_ops};
use kiln_ir::Graph;

const RULES: &[Rule] = &[
    Rule {
        name: "order_operands",
        apply: operands::order_operands,
    },
    Rule {
        name: "trim_constant",
        apply: operands::trim_constant,
    },
    Rule {
        name: "drop_identity",
        apply: trivial::drop_identity,
    },
    Rule {
        name: "drop_cast",
        apply: trivial::drop_cast,
    },
    Rule {
        name: "drop_reshape",
        apply: reshape::drop_reshape,
    },
    Rule {
        name: "join_reshapes",
        apply: reshape::join_reshapes,
    },
    Rule {
        name: "drop_transpose",
        apply: transpose::drop_transpose,
    },
    Rule {
        name: "join_transposes",
        apply: transpose::join_transposes,
    },
    Rule {
        name: "transpose_to_reshape",
        apply: transpose::transpose_to_reshape,
    },
    Rule {
        name: "drop_broadcast",
        apply: broadcast::drop_broadcast,
    },
    Rule {
        name: "join_broadcasts",
        apply: broadcast::join_broadcasts,
    },
    Rule {
        name: "broadcast_to_reshape",
        apply: broadcast::broadcast_to_reshape,
    },
    Rule {
        name: "drop_slice",
        apply: slice::drop_slice,
    },
    Rule {
        name: "join_slices",
        apply: slice::join_slices,
    },
    Rule {
        name: "slice_dims",
        apply: slice::slice_dims,
    },
    Rule {
        name: "drop_pad",
        apply: trivial::drop_pad,
    },
    Rule {
        name: "drop_concat_operands",
        apply: trivial::drop_concat_operands,
    },
    Rule {
        name: "split_concat",
        apply: concat::split_concat,
    },
    Rule {
        name: "drop_pool",
        apply: trivial::drop_pool,
    },
    Rule {
        name: "widen_scatter",
        apply: scatter::widen_scatter,
    },
    Rule {
        name: "dims_to_constant",
        apply: trivial::dims_to_constant,
    },
];

/// Brings a graph into canonical form.
///
/// # Errors
/// None today: if a size or a constant cannot be built, the op is kept.
pub fn canonicalize(graph: Graph, ctx: &mut PassContext) -> Result<Changed<Graph>, PassError> {
    Ok(rewrite_ops("canonicalize", graph, ctx, RULES))
}

#[cfg(test)]
mod tests;
