//! The standard operators: one function per operator, one file per family, a table in each.
//!
//! An importer reads operands and attributes from its [`NodeContext`](crate::NodeContext) and adds
//! core operations. A table entry lists the versions whose meanings its importer tells apart;
//! `ctx.version()` is the one in force.

mod support;

mod activation;
mod attention;
mod cast;
mod compare;
mod constant;
mod control;
mod conv;
mod einsum;
mod elementwise;
mod gather;
mod logic;
mod loss;
mod matmul;
mod misc;
mod movement;
mod narrow;
mod norm;
mod optional;
mod pad;
mod pool;
mod quantize;
mod range_fill;
mod recurrent;
mod reduce;
mod reshape;
mod resize;
mod rotary;
mod scatter;
mod sequence;
mod shape;
mod signal;
mod slice;
mod softmax;
mod window;

use crate::import::Operator;

/// Every table.
pub(crate) const FAMILIES: &[&[Operator]] = &[
    activation::OPERATORS,
    attention::OPERATORS,
    cast::OPERATORS,
    compare::OPERATORS,
    constant::OPERATORS,
    control::OPERATORS,
    conv::OPERATORS,
    einsum::OPERATORS,
    elementwise::OPERATORS,
    gather::OPERATORS,
    logic::OPERATORS,
    loss::OPERATORS,
    matmul::OPERATORS,
    misc::OPERATORS,
    movement::OPERATORS,
    norm::OPERATORS,
    optional::OPERATORS,
    pad::OPERATORS,
    pool::OPERATORS,
    quantize::OPERATORS,
    range_fill::OPERATORS,
    recurrent::OPERATORS,
    reduce::OPERATORS,
    reshape::OPERATORS,
    resize::OPERATORS,
    rotary::OPERATORS,
    scatter::OPERATORS,
    sequence::OPERATORS,
    shape::OPERATORS,
    signal::OPERATORS,
    slice::OPERATORS,
    softmax::OPERATORS,
];
