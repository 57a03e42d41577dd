//! Layers as kinds of nodes: one function each, which adds several ops.
//!
//! Images are `[N, C, H, W]`; windows, strides, paddings and dilations are one integer for both axes, or two.

use super::attributes as read;
use super::node::Node;
use super::{Built, Kind, row};
use crate::error::Problem;
use kiln::internals::ir::{
    Coordinates, NearestRounding, PoolFunction, Resize, ResizeMode, ValueId, Window,
};
use kiln::internals::shape_inference::GraphBuilder;

/// The layers.
pub(super) const KINDS: &[Kind] = &[
    row("dense", 2..=3, "", dense),
    row("conv2d", 2..=3, "", conv2d),
    row(
        "batch_norm",
        5..=5,
        "b.batch_norm({0}, [{1}, {2}, {3}, {4}], {epsilon=1e-5})?",
        batch_norm,
    ),
    row("layer_norm", 1..=3, "", layer_norm),
    row(
        "group_norm",
        3..=3,
        "b.group_norm({0}, {groups}, {1}, {2}, {epsilon=1e-5})?",
        group_norm,
    ),
    row("softmax", 1..=1, "", softmax),
    row("log_softmax", 1..=1, "", log_softmax),
    row("attention", 3..=4, "", attention),
    row("max_pool2d", 1..=1, "", max_pool2d),
    row("mean_pool2d", 1..=1, "", mean_pool2d),
    row(
        "global_mean_pool",
        1..=1,
        "b.global_mean_pool({0})?",
        global_mean_pool,
    ),
    row("upsample2d", 1..=1, "", upsample2d),
    row("flatten", 1..=1, "", flatten),
];

/// `x: [.., K], w: [K, M], bias: [M]? -> [.., M]`.
fn dense(node: &mut Node<'_, '_>) -> Built {
    let product = node.builder.matmul(node.operand(0), node.operand(1));
    let product = node.check(product)?;
    let Some(bias) = node.optional(2) else {
        return Ok(vec![product]);
    };
    let sum = node.builder.add(product, bias);
    Ok(vec![node.check(sum)?])
}

/// `x: [N, C, H, W], w: [O, C / groups, h, w], bias: [O]? -> [N, O, ..]`; attributes `stride`, `dilation`, `groups`, and
/// `padding`: integers, or `same`.
fn conv2d(node: &mut Node<'_, '_>) -> Built {
    let strides = node.read_or("stride", vec![1; 2], read::repeated(2))?;
    let dilations = node.read_or("dilation", vec![1; 2], read::repeated(2))?;
    let groups = node.read_or("groups", 1, read::index)?;
    let (x, w) = (node.operand(0), node.operand(1));
    let window = if node.given("padding").and_then(|value| value.as_str()) == Some("same") {
        same_window(node, x, w, &strides, &dilations)?
    } else {
        let padding = node.read_or("padding", vec![0; 2], read::repeated(2))?;
        node.builder
            .window(&strides, &dilations, &padding, &padding)
    };
    let result = node.builder.conv(x, w, window, groups);
    let result = node.check(result)?;
    let Some(bias) = node.optional(2) else {
        return Ok(vec![result]);
    };
    let sum = node.builder.add_channel_bias(result, bias);
    Ok(vec![node.check(sum)?])
}

/// A window padded so that the result's size is the input's divided by the stride, rounded up.
fn same_window(
    node: &mut Node<'_, '_>,
    x: ValueId,
    w: ValueId,
    strides: &[i64],
    dilations: &[i64],
) -> Result<Window, Problem> {
    let shapes = (node.builder.shape(x), node.builder.shape(w));
    let (image, kernel) = (node.check(shapes.0)?, node.check(shapes.1)?);
    let mut window = node.builder.window(strides, dilations, &[], &[]);
    for (axis, (&stride, &dilation)) in strides.iter().zip(dilations).enumerate() {
        let (Some(&size), Some(&extent)) = (image.get(axis + 2), kernel.get(axis + 2)) else {
            let message = "expected an image and weights of rank 4 for padding `same`";
            return Err(node.attribute_problem("padding", message));
        };
        let padding = node
            .builder
            .same_padding(size, extent, stride, dilation, true);
        let (low, high) = node.check(padding)?;
        window.low.push(low);
        window.high.push(high);
    }
    Ok(window)
}

fn epsilon(node: &mut Node<'_, '_>) -> Result<f64, Problem> {
    node.read_or("epsilon", 1e-5, read::number)
}

/// `x: [N, C, ..], scale, bias, mean, variance: [C] -> like x`; attribute `epsilon`.
fn batch_norm(node: &mut Node<'_, '_>) -> Built {
    let epsilon = epsilon(node)?;
    let statistics = [1, 2, 3, 4].map(|position| node.operand(position));
    let result = node
        .builder
        .batch_norm(node.operand(0), statistics, epsilon);
    Ok(vec![node.check(result)?])
}

/// `x, scale?, bias? -> like x`, over `axis` and all inner ones; attributes `axis` (-1) and `epsilon`.
fn layer_norm(node: &mut Node<'_, '_>) -> Built {
    let x = node.operand(0);
    let (axis, epsilon) = (node.axis("axis", -1, x)?, epsilon(node)?);
    let (scale, bias) = (node.optional(1), node.optional(2));
    let result = node.builder.layer_norm(x, axis, scale, bias, epsilon);
    Ok(vec![node.check(result)?])
}

/// `x: [N, C, ..], scale: [C], bias: [C] -> like x`; attributes `groups` and `epsilon`.
fn group_norm(node: &mut Node<'_, '_>) -> Built {
    let (groups, epsilon) = (node.read("groups", read::integer)?, epsilon(node)?);
    let (x, scale, bias) = (node.operand(0), node.operand(1), node.operand(2));
    let result = node.builder.group_norm(x, groups, scale, bias, epsilon);
    Ok(vec![node.check(result)?])
}

/// Attribute `axis` (-1).
fn softmax(node: &mut Node<'_, '_>) -> Built {
    let x = node.operand(0);
    let axis = node.axis("axis", -1, x)?;
    let result = node.builder.softmax(x, axis);
    Ok(vec![node.check(result)?])
}

/// Attribute `axis` (-1).
fn log_softmax(node: &mut Node<'_, '_>) -> Built {
    let x = node.operand(0);
    let axis = node.axis("axis", -1, x)?;
    let result = node.builder.log_softmax(x, axis);
    Ok(vec![node.check(result)?])
}

/// `q: [.., S, D], k: [.., T, D], v: [.., T, V], mask: [.., S, T]? -> [.., S, V]`: `softmax(q k' scale + mask) v`; attribute
/// `scale`.
fn attention(node: &mut Node<'_, '_>) -> Built {
    let (q, k, v) = (node.operand(0), node.operand(1), node.operand(2));
    let scale = node.read("scale", read::number)?;
    let rank = node.builder.rank(k);
    let rank = node.check(rank)?;
    if rank < 2 {
        let error = "expected keys of rank 2 or more".to_owned();
        return Err(node.attribute_problem("scale", error));
    }
    let mut permutation: Vec<usize> = (0..rank).collect();
    permutation.swap(rank - 2, rank - 1);
    let mask = node.optional(3);
    let result = attend(node.builder, [q, k, v], &permutation, scale, mask);
    Ok(vec![node.check(result)?])
}

fn attend(
    builder: &mut GraphBuilder,
    [q, k, v]: [ValueId; 3],
    permutation: &[usize],
    scale: f64,
    mask: Option<ValueId>,
) -> Result<ValueId, kiln::internals::shape_inference::InferError> {
    let keys = builder.transpose(k, permutation)?;
    let scores = builder.matmul(q, keys)?;
    let scale = builder.scalar(builder.dtype(q)?, scale)?;
    let mut scores = builder.mul(scores, scale)?;
    if let Some(mask) = mask {
        scores = builder.add(scores, mask)?;
    }
    let weights = builder.softmax(scores, permutation.len() - 1)?;
    builder.matmul(weights, v)
}

/// Attributes `size`, `stride` (the size) and `padding` (0).
fn pool2d(node: &mut Node<'_, '_>, function: PoolFunction) -> Built {
    let size = node.read("size", read::repeated(2))?;
    let strides = node.read_or("stride", size.clone(), read::repeated(2))?;
    let padding = node.read_or("padding", vec![0; 2], read::repeated(2))?;
    let window = node.builder.window(&strides, &[1, 1], &padding, &padding);
    let result = node.builder.pool(node.operand(0), function, &size, window);
    Ok(vec![node.check(result)?])
}

/// The maximum of each window.
fn max_pool2d(node: &mut Node<'_, '_>) -> Built {
    pool2d(node, PoolFunction::Max)
}

/// The mean of each window, without its padding.
fn mean_pool2d(node: &mut Node<'_, '_>) -> Built {
    pool2d(node, PoolFunction::Mean)
}

/// `[N, C, ..] -> [N, C, 1..]`.
fn global_mean_pool(node: &mut Node<'_, '_>) -> Built {
    let result = node.builder.global_mean_pool(node.operand(0));
    Ok(vec![node.check(result)?])
}

/// `[N, C, H, W] -> [N, C, factor * H, factor * W]`: each element repeated; attribute `factor`.
fn upsample2d(node: &mut Node<'_, '_>) -> Built {
    let factor = node.read("factor", read::integer)?;
    if !(1..=64).contains(&factor) {
        let message = format!("expected a factor of 1 to 64, found {factor}");
        return Err(node.attribute_problem("factor", message));
    }
    let x = node.operand(0);
    let shape = node.builder.shape(x);
    let shape = node.check(shape)?;
    let &[_, _, height, width] = shape.as_slice() else {
        let message = format!("expected an image of rank 4, found rank {}", shape.len());
        return Err(node.attribute_problem("factor", message));
    };
    let times = node.builder.size(factor);
    let mut sizes = kiln::internals::ir::Dims::new();
    for size in [height, width] {
        let larger = node.builder.dims_mut().mul(size, times);
        sizes.push(larger.map_err(|error| node.attribute_problem("factor", error.to_string()))?);
    }
    let resize = Resize {
        axes: [2usize, 3].into_iter().collect(),
        sizes,
        scales: [factor as f64; 2].into_iter().collect(),
        mode: ResizeMode::Nearest,
        coordinates: Coordinates::Asymmetric,
        rounding: NearestRounding::Floor,
        cubic_coefficient: -0.75,
        exclude_outside: false,
        antialias: false,
    };
    let result = node.builder.resize(x, resize);
    Ok(vec![node.check(result)?])
}

/// Attribute `axis` (1): the axes before it are merged into one, and so are `axis` and those after it.
fn flatten(node: &mut Node<'_, '_>) -> Built {
    let x = node.operand(0);
    let axis = node.read_or("axis", 1, read::index)?;
    let result = node.builder.flatten(x, axis);
    Ok(vec![node.check(result)?])
}
