//! Evaluates all trees at once: samples descend one level per loop iteration, and the weights of their leaves are
//! summed.

use kiln_ir::{ReduceFunction, ValueId};
use kiln_shape_inference::{GraphBuilder, InferError};
use kiln_tensor::{DType, Tensor};

use super::forest::{Forest, row};
use super::trees::table_size;
use crate::{Error, NodeContext};

/// The weight of a leaf for a target.
pub(super) struct Weight {
    pub(super) node: usize,
    pub(super) target: i64,
    pub(super) weight: f64,
}

/// The aggregation of the leaves of all trees.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Aggregate {
    Sum,
    Average,
    Min,
    Max,
}

/// An ensemble.
pub(super) struct Scores {
    pub(super) forest: Forest,
    pub(super) weights: Vec<Weight>,
    pub(super) n_targets: usize,
    pub(super) aggregate: Aggregate,
}

/// The scores of operand 0, `[samples, targets]`.
pub(super) fn scores(ctx: &mut NodeContext<'_>, scores: &Scores) -> Result<ValueId, Error> {
    let forest = &scores.forest;
    let dtype = forest.dtype();
    let Some(depth) = forest.depth() else {
        let expected = "trees, whose nodes lead to leaves";
        return Err(ctx.attribute_error("nodes_truenodeids", expected, "a circle"));
    };
    let x = ctx.rows(dtype)?;
    let samples = ctx.shape(x)?[0];
    let trees = ctx.size(row(forest.roots.len()));
    let roots = ctx.vector(&forest.roots)?;
    let start = ctx.broadcast(roots, &[samples, trees])?;
    let leaves = match depth {
        0 => start,
        _ => walk(ctx, forest, x, start, depth)?,
    };
    let table = table(ctx, scores)?;
    let y = ctx.build(|builder| builder.gather(table, leaves, 0))?;
    match scores.aggregate {
        Aggregate::Sum => ctx.reduce(ReduceFunction::Sum, y, &[1], false),
        Aggregate::Average => ctx.reduce(ReduceFunction::Mean, y, &[1], false),
        Aggregate::Min => extreme(ctx, y, ReduceFunction::Min, f64::INFINITY),
        Aggregate::Max => extreme(ctx, y, ReduceFunction::Max, f64::NEG_INFINITY),
    }
}

/// The leaves in which samples end, `i64[samples, trees]`.
fn walk(
    ctx: &mut NodeContext<'_>,
    forest: &Forest,
    x: ValueId,
    start: ValueId,
    depth: i64,
) -> Result<ValueId, Error> {
    let dtype = forest.dtype();
    let splits = ctx.vector(&forest.splits)?;
    let splits = ctx.cast(splits, dtype)?;
    let mut operands = vec![
        x,
        ctx.vector(&forest.features)?,
        splits,
        ctx.vector(&forest.yes)?,
        ctx.vector(&forest.no)?,
    ];
    if forest.missing.contains(&true) {
        operands.push(ctx.vector(&forest.missing)?);
    }
    let trips = ctx.integer(depth)?;
    let leaves = ctx.build(|builder| {
        builder.repeat(
            trips,
            &[start],
            &operands,
            |builder, _, carried, operands| {
                let next = step(builder, carried, operands)?;
                Ok::<_, InferError>((vec![next], Vec::new()))
            },
        )
    })?;
    leaves
        .first()
        .copied()
        .ok_or_else(|| ctx.unsupported("trees without leaves"))
}

/// From each node to its successor.
fn step(
    builder: &mut GraphBuilder,
    carried: &[ValueId],
    operands: &[ValueId],
) -> Result<ValueId, InferError> {
    let (&[node], &[x, features, splits, yes, no, ref missing @ ..]) = (carried, operands) else {
        unreachable!("the loop carries the nodes and reads the table");
    };
    let feature = builder.gather(features, node, 0)?;
    let value = builder.gather_elements(x, feature, 1)?;
    let split = builder.gather(splits, node, 0)?;
    let mut is_small = builder.map("le", &[value, split])?;
    if let Some(&missing) = missing.first() {
        let counts = builder.gather(missing, node, 0)?;
        let is_missing = builder.map("is_nan", &[value])?;
        let counts = builder.map("and", &[counts, is_missing])?;
        is_small = builder.map("or", &[is_small, counts])?;
    }
    let yes = builder.gather(yes, node, 0)?;
    let no = builder.gather(no, node, 0)?;
    builder.map("select", &[is_small, yes, no])
}

/// The weights as a table `[nodes, targets]`.
fn table(ctx: &mut NodeContext<'_>, scores: &Scores) -> Result<ValueId, Error> {
    let (n_nodes, n_targets) = (scores.forest.n_nodes(), scores.n_targets);
    let size = table_size(ctx, n_nodes, n_targets)?;
    let nothing = match scores.aggregate {
        Aggregate::Sum | Aggregate::Average => 0.0,
        Aggregate::Min => f64::INFINITY,
        Aggregate::Max => f64::NEG_INFINITY,
    };
    let mut table = vec![nothing; size];
    for weight in &scores.weights {
        let target = usize::try_from(weight.target).ok();
        let Some(target) = target.filter(|&target| target < n_targets) else {
            let expected = format!("targets below {n_targets}");
            return Err(ctx.attribute_error("target_ids", expected, weight.target));
        };
        let entry = &mut table[weight.node * n_targets + target];
        *entry = match scores.aggregate {
            Aggregate::Sum | Aggregate::Average => *entry + weight.weight,
            Aggregate::Min => entry.min(weight.weight),
            Aggregate::Max => entry.max(weight.weight),
        };
    }
    let table = ctx.tensor_at(Tensor::from_vec(&[n_nodes, n_targets], table))?;
    let table = ctx.add_constant(table)?;
    ctx.cast(table, scores.forest.dtype())
}

/// The minimum or maximum of all trees; 0 if no leaf counts for a target.
fn extreme(
    ctx: &mut NodeContext<'_>,
    y: ValueId,
    function: ReduceFunction,
    nothing: f64,
) -> Result<ValueId, Error> {
    let y = ctx.reduce(function, y, &[1], false)?;
    let dtype: DType = ctx.dtype(y)?;
    let (nothing, zero) = (ctx.scalar(dtype, nothing)?, ctx.scalar(dtype, 0.0)?);
    let is_nothing = ctx.map("eq", &[y, nothing])?;
    ctx.select(is_nothing, zero, y)
}
