//! Operators of the domain `com.microsoft`, from optimised exports: fused forms of standard operators.

mod attention;
mod block_quantized;
mod few_bits;
mod fused;
mod group_query;
mod norm;
mod quantized;
mod rotary;

use crate::import::Operator;

/// Every table.
pub(super) const FAMILIES: [&[Operator]; 8] = [
    attention::OPERATORS,
    block_quantized::OPERATORS,
    few_bits::OPERATORS,
    fused::OPERATORS,
    group_query::OPERATORS,
    norm::OPERATORS,
    quantized::OPERATORS,
    rotary::OPERATORS,
];
