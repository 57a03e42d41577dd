//! `simplify_algebra`: algebraic laws that hold for every bit, under the proofs they need.
//!
//! Floats are not real numbers. *Not* applied, because they are wrong for some input:
//! - `x + 0.0` is not `x` (it turns -0.0 into +0.0; `x + -0.0` and `x - 0.0` are `x`);
//! - `x * 0.0` is not 0, `x - x` is not 0, `x / x` is not 1 (NaN, infinities);
//! - `pow(x, 0.5)` is `sqrt(x)` only where `x` is proved to be neither below zero nor -0.0;
//! - a float sum over an axis of size 1 is not a reshape (it turns -0.0 into +0.0);
//! - sums and products of floats are not reassociated.
//!
//! Three rules may differ in the last bits, towards the correctly rounded value: `pow(x, 2)` is `square(x)`, `pow(x,
//! -1)` is `reciprocal(x)`, and `x * tanh(softplus(x))` is `mish(x)`. Powers of quarters are products of roots, which
//! are rounded one by one. Three rules change the order of additions, as every reduction may, if that is
//! [allowed](PassContext::with_reordered_sums): a resize of two axes by more than two elements each becomes two
//! resizes, sums and means over large windows are separated by axis, and products of dequantised numbers become
//! products of integers.

mod activations;
mod broadcasts;
mod casts;
mod choices;
mod comparisons;
mod dequantized;
mod factors;
mod gathers;
mod identities;
mod positions;
mod powers;
mod reductions;
mod resizes;
mod sign;
mod sizes;
mod windows;

use crate::context::{Changed, PassContext};
use crate::error::PassError;
use crate::peephole::{Rule, rewrite_ops};
use kiln_ir::Graph;

const RULES: &[Rule] = &[
    Rule {
        name: "drop_neutral_operand",
        apply: identities::drop_neutral_operand,
    },
    Rule {
        name: "multiply_by_zero",
        apply: identities::multiply_by_zero,
    },
    Rule {
        name: "subtract_itself",
        apply: identities::subtract_itself,
    },
    Rule {
        name: "undo_twice",
        apply: identities::undo_twice,
    },
    Rule {
        name: "apply_once",
        apply: identities::apply_once,
    },
    Rule {
        name: "same_operands",
        apply: identities::same_operands,
    },
    Rule {
        name: "join_negation",
        apply: identities::join_negation,
    },
    Rule {
        name: "join_integer_constants",
        apply: identities::join_integer_constants,
    },
    Rule {
        name: "divide_by_power_of_two",
        apply: identities::divide_by_power_of_two,
    },
    Rule {
        name: "expand_power",
        apply: powers::expand_power,
    },
    Rule {
        name: "join_mish",
        apply: activations::join_mish,
    },
    Rule {
        name: "choose_branch",
        apply: choices::choose_branch,
    },
    Rule {
        name: "decide_comparison",
        apply: comparisons::decide_comparison,
    },
    Rule {
        name: "decide_comparison_of_ranges",
        apply: comparisons::decide_comparison_of_ranges,
    },
    Rule {
        name: "join_sizes",
        apply: sizes::join_sizes,
    },
    Rule {
        name: "join_casts",
        apply: casts::join_casts,
    },
    Rule {
        name: "cast_before_move",
        apply: casts::cast_before_move,
    },
    Rule {
        name: "drop_operand_broadcast",
        apply: broadcasts::drop_operand_broadcast,
    },
    Rule {
        name: "map_before_broadcast",
        apply: broadcasts::map_before_broadcast,
    },
    Rule {
        name: "gather_to_slice",
        apply: gathers::gather_to_slice,
    },
    Rule {
        name: "gather_to_reshape",
        apply: positions::gather_to_reshape,
    },
    Rule {
        name: "reduce_to_reshape",
        apply: reductions::reduce_to_reshape,
    },
    Rule {
        name: "narrow_factor",
        apply: factors::narrow_factor,
    },
    Rule {
        name: "separate_maximum",
        apply: windows::separate_maximum,
    },
];

/// Rules that reassociate sums.
const REORDERING: &[Rule] = &[
    Rule {
        name: "multiply_integers",
        apply: dequantized::multiply_integers,
    },
    Rule {
        name: "separate_sum",
        apply: windows::separate_sum,
    },
    Rule {
        name: "separate_resize",
        apply: resizes::separate_resize,
    },
];

/// Simplifies arithmetic.
///
/// # Errors
/// None today: if a size or a constant cannot be built, the op is kept.
pub fn simplify_algebra(graph: Graph, ctx: &mut PassContext) -> Result<Changed<Graph>, PassError> {
    let rules = match ctx.reorders_sums() {
        true => [RULES, REORDERING].concat(),
        false => RULES.to_vec(),
    };
    Ok(rewrite_ops("simplify_algebra", graph, ctx, &rules))
}

#[cfg(test)]
mod tests;
