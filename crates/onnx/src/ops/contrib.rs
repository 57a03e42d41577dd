//! Operators of the domain `com.microsoft`, from optimised exports: fused forms of standard operators.

mod attention;
mod fused;
mod norm;
mod quantized;

use crate::import::Operator;

/// Every table.
pub(super) const FAMILIES: [&[Operator]; 4] = [
    attention::OPERATORS,
    fused::OPERATORS,
    norm::OPERATORS,
    quantized::OPERATORS,
];
