//! The families of ops that a region is filled with.

use super::scope::{Scope, Step};
use super::{Stop, contraction, control, elementwise, indexing, movement, reduction, sizes};

/// A family of ops, and how often it is tried relative to the others.
type Family = (usize, for<'a, 'b> fn(&mut Scope<'a, 'b>) -> Step);

const FAMILIES: &[Family] = &[
    (5, elementwise::unary),
    (8, elementwise::binary),
    (2, elementwise::with_special_constant),
    (2, elementwise::select),
    (2, elementwise::cast),
    (5, movement::reshape),
    (2, movement::broadcast),
    (3, movement::transpose),
    (4, movement::slice),
    (2, movement::pad),
    (3, movement::concat),
    (3, indexing::gather),
    (2, indexing::gather_elements),
    (2, indexing::gather_nd),
    (2, indexing::scatter_elements),
    (2, indexing::scatter_nd),
    (2, indexing::update_slice),
    (4, contraction::matmul),
    (3, contraction::conv),
    (2, contraction::conv_transpose),
    (2, contraction::pool),
    (2, contraction::arg_pool),
    (2, contraction::resize),
    (5, reduction::reduce),
    (2, reduction::arg_reduce),
    (2, reduction::cumulate),
    (2, reduction::top_k),
    (2, reduction::normalize),
    (2, sizes::source),
    (2, sizes::dims),
    (2, sizes::bind),
    (1, sizes::non_zero),
    (1, sizes::random_bits),
    (2, control::if_else),
    (2, control::repeat),
];

impl Scope<'_, '_> {
    /// Tries to add `count` ops; those that do not fit are omitted.
    pub(super) fn take_steps(&mut self, count: usize) -> Step {
        let total: usize = FAMILIES.iter().map(|(weight, _)| weight).sum();
        for _ in 0..count {
            let mut at = self.between(0, total - 1)?;
            for (weight, family) in FAMILIES {
                if at < *weight {
                    match family(self) {
                        Err(Stop::Choice(error)) => return Err(error.into()),
                        Ok(()) | Err(Stop::Infer(_) | Stop::NoOperand) => {}
                    }
                    break;
                }
                at -= weight;
            }
        }
        Ok(())
    }
}
