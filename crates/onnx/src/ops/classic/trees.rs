//! Ensembles of decision trees, in the formats of the three operators.

use std::collections::HashMap;

use kiln_ir::ValueId;
use kiln_tensor::{DType, Element, Tensor, f16};
use smallvec::smallvec;

use super::forest::{Branches, Forest, Question};
use super::labels::{self, Labels};
use super::linear;
use super::walk::{Aggregate, Scores, Weight, scores};
use crate::import::Item;
use crate::ops::support::{Imported, one};
use crate::{Error, LimitKind, NodeContext};

/// `TreeEnsembleRegressor`: numbers per target.
pub(super) fn regress(ctx: &mut NodeContext<'_>) -> Imported {
    let (forest, nodes) = by_name(ctx)?;
    let weights = weights_by_name(ctx, &nodes, "target")?;
    let n_targets = ctx.attributes().get_or("n_targets", 1_i64)?;
    let aggregate = match ctx.attributes().get_or("aggregate_function", "SUM")? {
        "SUM" => Aggregate::Sum,
        "AVERAGE" => Aggregate::Average,
        "MIN" => Aggregate::Min,
        "MAX" => Aggregate::Max,
        other => {
            let expected = "\"SUM\", \"AVERAGE\", \"MIN\" or \"MAX\"";
            return Err(ctx.attribute_error("aggregate_function", expected, other));
        }
    };
    let (base, dtype) = (base_values(ctx)?, forest.dtype());
    let y = scores(
        ctx,
        &Scores {
            forest,
            weights,
            n_targets: n_targets_of(ctx, n_targets)?,
            aggregate,
        },
    )?;
    let y = with_base(ctx, y, &base, dtype)?;
    let y = ctx.cast(y, DType::F32)?;
    one(labels::transformed(ctx, y)?)
}

/// `TreeEnsembleClassifier`: the label of the best class, and the scores of all.
pub(super) fn classify(ctx: &mut NodeContext<'_>) -> Imported {
    let labels = Labels::read(ctx, "classlabels_int64s", "classlabels_strings")?;
    let (forest, nodes) = by_name(ctx)?;
    let weights = weights_by_name(ctx, &nodes, "class")?;
    let n_classes = labels.count();
    if n_classes < 2 {
        return Err(ctx.unsupported("a classifier of fewer than two classes"));
    }
    // Two classes may be distinguished by the score of one.
    let first = weights.first().map(|weight| weight.target);
    let is_single = n_classes == 2 && weights.iter().all(|weight| Some(weight.target) == first);
    let is_probability = weights.iter().all(|weight| weight.weight >= 0.0);
    let is_first = is_single && first == Some(0);
    let (base, dtype) = (base_values(ctx)?, forest.dtype());
    let ensemble = Scores {
        forest,
        weights,
        n_targets: if is_first { 1 } else { n_classes },
        aggregate: Aggregate::Sum,
    };
    let y = scores(ctx, &ensemble)?;
    let base = match base.as_slice() {
        &[_, base] if is_first => vec![base],
        _ => base,
    };
    let y = with_base(ctx, y, &base, dtype)?;
    let y = ctx.cast(y, DType::F32)?;
    let (classes, y) = if is_first {
        linear::two_of_one(ctx, y, is_probability)?
    } else if is_single {
        let second = ctx.entry(y, 1, 1)?;
        let classes = linear::is_second(ctx, second, is_probability)?;
        (classes, labels::transformed(ctx, y)?)
    } else {
        (labels::best(ctx, y)?, labels::transformed(ctx, y)?)
    };
    let label = labels.of(ctx, classes)?;
    Ok(smallvec![label, Item::Tensor(y)])
}

/// `TreeEnsemble`: nodes and leaves by position.
pub(super) fn ensemble(ctx: &mut NodeContext<'_>) -> Imported {
    let attributes = ctx.attributes();
    let dtype = ctx.dtype(ctx.input(0)?)?;
    let compared = if dtype == DType::F64 {
        DType::F64
    } else {
        DType::F32
    };
    let features = attributes.require::<&[i64]>("nodes_featureids")?;
    let n_inner = features.len();
    let leaf_targets = attributes.require::<&[i64]>("leaf_targetids")?;
    let leaf_weights = numbers(ctx, "leaf_weights", leaf_targets.len())?;
    let mut forest = Forest::new(n_inner.saturating_add(leaf_targets.len()), compared);
    let mut members = Members::read(ctx)?;
    let modes = numbers(ctx, "nodes_modes", n_inner)?;
    let splits = numbers(ctx, "nodes_splits", n_inner)?;
    let column = |name: &str| column(ctx, name, n_inner);
    let (yes, no) = (column("nodes_truenodeids")?, column("nodes_falsenodeids")?);
    let (yes_leaf, no_leaf) = (column("nodes_trueleafs")?, column("nodes_falseleafs")?);
    let missing = optional_column(ctx, "nodes_missing_value_tracks_true", n_inner)?;
    let target = |name: &str, index: i64, is_leaf: i64| {
        let (start, count) = match is_leaf {
            0 => (0, n_inner),
            _ => (n_inner, leaf_targets.len()),
        };
        let index = usize::try_from(index).ok().filter(|&index| index < count);
        index.map(|index| start + index).ok_or_else(|| {
            ctx.attribute_error(name, "numbers of existing nodes or leaves", "others")
        })
    };
    for node in 0..n_inner {
        let branches = Branches {
            feature: feature(ctx, features[node])?,
            missing: missing[node] != 0,
            yes: target("nodes_truenodeids", yes[node], yes_leaf[node])?,
            no: target("nodes_falsenodeids", no[node], no_leaf[node])?,
        };
        let question = match modes[node] {
            0.0 => Question::AtMost(splits[node]),
            1.0 => Question::Below(splits[node]),
            2.0 => Question::AtLeast(splits[node]),
            3.0 => Question::Above(splits[node]),
            4.0 => Question::Equal(splits[node]),
            5.0 => Question::NotEqual(splits[node]),
            6.0 => Question::Among(members.next(ctx)?),
            mode => return Err(ctx.attribute_error("nodes_modes", "0 to 6", mode)),
        };
        forest.ask(node, question, branches);
    }
    for &root in attributes.require::<&[i64]>("tree_roots")? {
        target("tree_roots", root, 0)?;
        forest.roots.push(root);
    }
    let weights = leaf_targets.iter().zip(&leaf_weights).enumerate();
    let weights = weights.map(|(leaf, (&target, &weight))| Weight {
        node: n_inner + leaf,
        target,
        weight,
    });
    let aggregate = match attributes.get_or("aggregate_function", 1_i64)? {
        0 => Aggregate::Average,
        1 => Aggregate::Sum,
        2 => Aggregate::Min,
        3 => Aggregate::Max,
        other => return Err(ctx.attribute_error("aggregate_function", "0 to 3", other)),
    };
    let n_targets = attributes.get_or("n_targets", 1_i64)?;
    let all = Scores {
        forest,
        weights: weights.collect(),
        n_targets: n_targets_of(ctx, n_targets)?,
        aggregate,
    };
    let y = scores(ctx, &all)?;
    let y = match attributes.get_or("post_transform", 0_i64)? {
        0 => y,
        1 => ctx.build(|builder| builder.softmax(y, 1))?,
        2 => ctx.map("sigmoid", &[y])?,
        3 => labels::softmax_zero(ctx, y)?,
        4 => labels::probit(ctx, y)?,
        other => return Err(ctx.attribute_error("post_transform", "0 to 4", other)),
    };
    one(ctx.cast(y, dtype)?)
}

/// The members of sets, concatenated, each set terminated by NaN.
struct Members {
    values: std::vec::IntoIter<f64>,
}

impl Members {
    fn read(ctx: &NodeContext<'_>) -> Result<Self, Error> {
        let values = match ctx.attributes().get::<&Tensor>("membership_values")? {
            Some(tensor) => of_tensor(tensor),
            None => Vec::new(),
        };
        Ok(Self {
            values: values.into_iter(),
        })
    }

    fn next(&mut self, ctx: &NodeContext<'_>) -> Result<Vec<f64>, Error> {
        let mut members = Vec::new();
        for value in self.values.by_ref() {
            if value.is_nan() {
                return Ok(members);
            }
            members.push(value);
        }
        let expected = "a set, ended by NaN, for each node that needs one";
        Err(ctx.attribute_error("membership_values", expected, "fewer"))
    }
}

/// The row in the table of a node of a tree, by the numbers of both.
type Nodes = HashMap<(i64, i64), usize>;

/// The trees of the attributes `nodes_*`, in which nodes are referenced by number.
fn by_name(ctx: &NodeContext<'_>) -> Result<(Forest, Nodes), Error> {
    let attributes = ctx.attributes();
    let dtype = match ctx.dtype(ctx.input(0)?)? {
        DType::F64 => DType::F64,
        _ => DType::F32,
    };
    let trees = attributes.require::<&[i64]>("nodes_treeids")?;
    let count = trees.len();
    let modes = attributes.require::<&[Vec<u8>]>("nodes_modes")?;
    if modes.len() != count {
        return Err(wrong_length(ctx, "nodes_modes", count, modes.len()));
    }
    let column = |name: &str| column(ctx, name, count);
    let (ids, features) = (column("nodes_nodeids")?, column("nodes_featureids")?);
    let (yes, no) = (column("nodes_truenodeids")?, column("nodes_falsenodeids")?);
    let missing = optional_column(ctx, "nodes_missing_value_tracks_true", count)?;
    let splits = numbers(ctx, "nodes_values", count)?;
    let mut nodes = Nodes::with_capacity(count);
    let mut forest = Forest::new(count, dtype);
    let mut seen = std::collections::HashSet::new();
    for (node, name) in trees.iter().copied().zip(ids.iter().copied()).enumerate() {
        if nodes.insert(name, node).is_some() {
            let found = format!("node {} of tree {} twice", name.1, name.0);
            return Err(ctx.attribute_error("nodes_nodeids", "each node once", found));
        }
        if seen.insert(name.0) {
            forest.roots.push(super::forest::row(node));
        }
    }
    for node in 0..count {
        let split = splits[node];
        let question = match modes[node].as_slice() {
            b"LEAF" => continue,
            b"BRANCH_LEQ" => Question::AtMost(split),
            b"BRANCH_LT" => Question::Below(split),
            b"BRANCH_GTE" => Question::AtLeast(split),
            b"BRANCH_GT" => Question::Above(split),
            b"BRANCH_EQ" => Question::Equal(split),
            b"BRANCH_NEQ" => Question::NotEqual(split),
            other => {
                let found = String::from_utf8_lossy(other);
                return Err(ctx.attribute_error("nodes_modes", "LEAF or BRANCH_…", found));
            }
        };
        let child = |name: &str, id: i64| {
            let child = nodes.get(&(trees[node], id)).copied();
            child.ok_or_else(|| {
                let found = format!("node {id} of tree {}", trees[node]);
                ctx.attribute_error(name, "existing nodes", found)
            })
        };
        let branches = Branches {
            feature: feature(ctx, features[node])?,
            missing: missing[node] != 0,
            yes: child("nodes_truenodeids", yes[node])?,
            no: child("nodes_falsenodeids", no[node])?,
        };
        forest.ask(node, question, branches);
    }
    Ok((forest, nodes))
}

/// The weights of the attributes `target_*` or `class_*`.
fn weights_by_name(
    ctx: &NodeContext<'_>,
    nodes: &Nodes,
    prefix: &str,
) -> Result<Vec<Weight>, Error> {
    let name = |what: &str| format!("{prefix}_{what}");
    let trees = ctx.attributes().require::<&[i64]>(&name("treeids"))?;
    let ids = column(ctx, &name("nodeids"), trees.len())?;
    let targets = column(ctx, &name("ids"), trees.len())?;
    let weights = numbers(ctx, &name("weights"), trees.len())?;
    let mut all = Vec::with_capacity(trees.len());
    for (index, weight) in weights.into_iter().enumerate() {
        let key = (trees[index], ids[index]);
        let Some(&node) = nodes.get(&key) else {
            let found = format!("node {} of tree {}", key.1, key.0);
            return Err(ctx.attribute_error(&name("nodeids"), "existing nodes", found));
        };
        all.push(Weight {
            node,
            target: targets[index],
            weight,
        });
    }
    Ok(all)
}

/// The attribute `base_values`, as numbers or as a tensor.
fn base_values(ctx: &NodeContext<'_>) -> Result<Vec<f64>, Error> {
    let attributes = ctx.attributes();
    if let Some(tensor) = attributes.get::<&Tensor>("base_values_as_tensor")? {
        return Ok(of_tensor(tensor));
    }
    let numbers = attributes.get::<&[f32]>("base_values")?.unwrap_or_default();
    Ok(numbers.iter().copied().map(f64::from).collect())
}

fn with_base(
    ctx: &mut NodeContext<'_>,
    scores: ValueId,
    base: &[f64],
    dtype: DType,
) -> Result<ValueId, Error> {
    if base.is_empty() {
        return Ok(scores);
    }
    let base = ctx.vector(base)?;
    let base = ctx.cast(base, dtype)?;
    ctx.add(scores, base)
}

fn n_targets_of(ctx: &NodeContext<'_>, count: i64) -> Result<usize, Error> {
    let count = usize::try_from(count).ok().filter(|&count| count > 0);
    count.ok_or_else(|| ctx.attribute_error("n_targets", "1 or more", "less"))
}

fn feature(ctx: &NodeContext<'_>, feature: i64) -> Result<i64, Error> {
    if feature < 0 {
        return Err(ctx.attribute_error("nodes_featureids", "numbers from 0 on", feature));
    }
    Ok(feature)
}

/// Integers, one per node.
fn column<'a>(ctx: &NodeContext<'a>, name: &str, count: usize) -> Result<&'a [i64], Error> {
    let column = ctx.attributes().require::<&[i64]>(name)?;
    if column.len() == count {
        Ok(column)
    } else {
        Err(wrong_length(ctx, name, count, column.len()))
    }
}

/// Integers, one per node; zeros where they are omitted.
fn optional_column(ctx: &NodeContext<'_>, name: &str, count: usize) -> Result<Vec<i64>, Error> {
    match ctx.attributes().get::<&[i64]>(name)? {
        Some(column) if !column.is_empty() => Ok(self::column(ctx, name, count)?.to_vec()),
        _ => Ok(vec![0; count]),
    }
}

/// Numbers, one per node: an attribute of floats, or a tensor of this name or with the suffix `_as_tensor`.
fn numbers(ctx: &NodeContext<'_>, name: &str, count: usize) -> Result<Vec<f64>, Error> {
    let attributes = ctx.attributes();
    let longer = format!("{name}_as_tensor");
    let tensor = match attributes.value(name) {
        Some(crate::AttributeValue::Tensor(_)) => attributes.get::<&Tensor>(name)?,
        _ => attributes.get::<&Tensor>(&longer)?,
    };
    let numbers = match tensor {
        Some(tensor) => of_tensor(tensor),
        None => {
            let numbers = attributes.require::<&[f32]>(name)?.iter();
            numbers.copied().map(f64::from).collect()
        }
    };
    if numbers.len() == count {
        Ok(numbers)
    } else {
        Err(wrong_length(ctx, name, count, numbers.len()))
    }
}

fn of_tensor(tensor: &Tensor) -> Vec<f64> {
    fn numbers<T: Element + Into<f64>>(tensor: &Tensor) -> Vec<f64> {
        let elements = tensor.to_vec::<T>().unwrap_or_default();
        elements.into_iter().map(Into::into).collect()
    }
    match tensor.dtype() {
        DType::F32 => numbers::<f32>(tensor),
        DType::F64 => numbers::<f64>(tensor),
        DType::F16 => numbers::<f16>(tensor),
        DType::U8 => numbers::<u8>(tensor),
        // An empty list; its length is found to be wrong.
        _ => Vec::new(),
    }
}

fn wrong_length(ctx: &NodeContext<'_>, name: &str, count: usize, found: usize) -> Error {
    ctx.attribute_error(name, format!("{count} entries"), found)
}

/// The number of entries of a table of weights, within the limit on dense tensors.
pub(super) fn table_size(
    ctx: &NodeContext<'_>,
    n_nodes: usize,
    n_targets: usize,
) -> Result<usize, Error> {
    let size = n_nodes.saturating_mul(n_targets);
    let bytes = u64::try_from(size).unwrap_or(u64::MAX).saturating_mul(8);
    ctx.check_limit(LimitKind::DenseBytes, bytes)?;
    Ok(size)
}
