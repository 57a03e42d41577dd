//! The standard operators: one function per operator, one file per family, a table in each.
//!
//! An importer reads operands and attributes from its [`NodeContext`](crate::NodeContext) and adds core operations. A
//! table entry lists the versions that its importer distinguishes; `ctx.version()` is the one that applies.

mod support;

mod activation;
mod affine_grid;
mod attention;
mod bits;
mod cast;
mod classic;
mod col2im;
mod compare;
mod constant;
mod contrib;
mod control;
mod conv;
mod crop_resize;
mod deform_conv;
mod determinant;
mod einsum;
mod elementwise;
mod fourier;
mod gather;
mod grid_sample;
mod linear_attention;
mod logic;
mod loss;
mod matmul;
mod mel;
mod misc;
mod movement;
mod narrow;
mod norm;
mod optional;
mod pad;
mod pool;
mod pool_indices;
mod preview;
mod quantize;
mod random;
mod range_fill;
mod recurrent;
mod reduce;
mod reshape;
mod resize;
mod resize_by_data;
mod roi_align;
mod rotary;
mod sample;
mod scatter;
mod sequence;
mod shape;
mod signal;
mod slice;
mod softmax;
mod suppress;
mod unique;
mod unpool;
mod vectorize;
mod window;

use crate::import::Operator;

/// The tables of other domains.
pub(crate) const OTHER_DOMAINS: &[(&str, &[Operator])] = &[
    ("com.microsoft", contrib::FAMILIES[0]),
    ("com.microsoft", contrib::FAMILIES[1]),
    ("com.microsoft", contrib::FAMILIES[2]),
    ("com.microsoft", contrib::FAMILIES[3]),
    ("com.microsoft", contrib::FAMILIES[4]),
    ("com.microsoft", contrib::FAMILIES[5]),
    ("com.microsoft", contrib::FAMILIES[6]),
    ("com.microsoft", contrib::FAMILIES[7]),
    ("ai.onnx.ml", classic::OPERATORS),
    ("ai.onnx.preview", preview::PREVIEW),
    ("ai.onnx.preview.training", preview::TRAINING),
];

/// Every table of the standard domain.
pub(crate) const FAMILIES: &[&[Operator]] = &[
    affine_grid::OPERATORS,
    bits::OPERATORS,
    col2im::OPERATORS,
    deform_conv::OPERATORS,
    determinant::OPERATORS,
    fourier::OPERATORS,
    grid_sample::OPERATORS,
    linear_attention::OPERATORS,
    mel::OPERATORS,
    random::OPERATORS,
    roi_align::OPERATORS,
    suppress::OPERATORS,
    unique::OPERATORS,
    unpool::OPERATORS,
    vectorize::OPERATORS,
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
