//! `Einsum`: products of tensors summed over labels.
//!
//! Operands are joined from left to right, each pair by one batched matrix product: shared labels that are needed later are
//! batch, shared ones that are not are summed, the others are rows and columns. Unneeded labels of a single operand are
//! summed before.

use kiln_ir::{Dims, ReduceFunction, ValueId};
use kiln_symbolic_shape::DimId;
use kiln_tensor::DType;

use super::support::{Imported, one, operator};
use crate::import::Operator;
use crate::{Error, NodeContext};

pub(super) const OPERATORS: &[Operator] = &[operator("Einsum", &[12], einsum)];

/// A letter, or the `i`-th axis of an ellipsis counted from its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Label {
    Ellipsis(usize),
    Letter(char),
}

/// A tensor with labelled axes, without duplicates.
struct Labelled {
    value: ValueId,
    labels: Vec<Label>,
}

fn einsum(ctx: &mut NodeContext<'_>) -> Imported {
    let equation = ctx.attributes().require::<&str>("equation")?;
    let compact: String = equation.chars().filter(|c| !c.is_whitespace()).collect();
    let (left, right) = match compact.split_once("->") {
        Some((left, right)) => (left, Some(right)),
        None => (compact.as_str(), None),
    };
    let terms: Vec<&str> = left.split(',').collect();
    if terms.len() != ctx.n_inputs() {
        let expected = format!("{} terms, one per operand", ctx.n_inputs());
        return Err(ctx.attribute_error("equation", expected, terms.len()));
    }
    let mut operands = Vec::with_capacity(terms.len());
    let mut all = Vec::new();
    for (index, term) in terms.iter().enumerate() {
        let value = ctx.input(index)?;
        let rank = ctx.rank(value)?;
        let labels = parse_term(ctx, term, Some(rank))?;
        all.extend(labels.iter().copied());
        operands.push(diagonal(ctx, value, labels)?);
    }
    let output = match right {
        Some(term) => {
            let ellipsis = all.iter().filter_map(|label| match label {
                Label::Ellipsis(index) => Some(index + 1),
                Label::Letter(_) => None,
            });
            expand_output(ctx, term, ellipsis.max().unwrap_or(0))?
        }
        None => implicit_output(&all),
    };
    if let Some(unknown) = output.iter().find(|label| !all.contains(label)) {
        let expected = "result labels that an operand has";
        return Err(ctx.attribute_error("equation", expected, format!("{unknown:?}")));
    }
    let mut operands = operands.into_iter();
    let Some(mut joined) = operands.next() else {
        return Err(ctx.operand_error(0, "an operand", "none"));
    };
    while let Some(next) = operands.next() {
        let later: Vec<Label> = operands
            .as_slice()
            .iter()
            .flat_map(|other| other.labels.iter().copied())
            .collect();
        let needed = |label: &Label| output.contains(label) || later.contains(label);
        joined = join(ctx, joined, next, &needed)?;
    }
    let joined = sum_unless(ctx, joined, |label| output.contains(label))?;
    let axes = output
        .iter()
        .filter_map(|label| position(&joined.labels, *label));
    let axes: Vec<usize> = axes.collect();
    one(ctx.transpose(joined.value, &axes)?)
}

fn position(labels: &[Label], label: Label) -> Option<usize> {
    labels.iter().position(|&other| other == label)
}

/// The labels of a term; with a rank, an ellipsis is replaced by the remaining axes.
fn parse_term(ctx: &NodeContext<'_>, term: &str, rank: Option<usize>) -> Result<Vec<Label>, Error> {
    let bad = |found: &str| {
        let expected = "letters, and at most one ellipsis per term, as many as axes";
        ctx.attribute_error("equation", expected, found)
    };
    let (before, after) = match term.split_once("...") {
        Some((before, after)) => (before, Some(after)),
        None => (term, None),
    };
    let letters = |text: &str| -> Result<Vec<Label>, Error> {
        let is_letter = |c: char| c.is_ascii_alphabetic();
        let letter = |c: char| {
            if is_letter(c) {
                Ok(Label::Letter(c))
            } else {
                Err(bad(term))
            }
        };
        text.chars().map(letter).collect()
    };
    let mut labels = letters(before)?;
    let tail = letters(after.unwrap_or(""))?;
    if let (Some(rank), Some(_)) = (rank, after) {
        let count = rank
            .checked_sub(labels.len() + tail.len())
            .ok_or_else(|| bad(term))?;
        labels.extend((0..count).rev().map(Label::Ellipsis));
    }
    labels.extend(tail);
    if rank.is_some_and(|rank| rank != labels.len()) {
        return Err(bad(term));
    }
    Ok(labels)
}

fn expand_output(ctx: &NodeContext<'_>, term: &str, ellipsis: usize) -> Result<Vec<Label>, Error> {
    let letters = term.replace("...", "").chars().count();
    let rank = if term.contains("...") {
        letters + ellipsis
    } else {
        letters
    };
    parse_term(ctx, term, Some(rank))
}

/// Without a result term: the ellipsis, then the letters that occur once, in order.
fn implicit_output(all: &[Label]) -> Vec<Label> {
    let count = |label: &Label| all.iter().filter(|&other| other == label).count();
    let mut output: Vec<Label> = all
        .iter()
        .copied()
        .filter(|label| matches!(label, Label::Ellipsis(_)) || count(label) == 1)
        .collect();
    output.sort_by_key(|label| match label {
        Label::Ellipsis(index) => (0, usize::MAX - index, ' '),
        Label::Letter(letter) => (1, 0, *letter),
    });
    output.dedup();
    output
}

/// A repeated label takes the diagonal of its axes.
fn diagonal(
    ctx: &mut NodeContext<'_>,
    mut value: ValueId,
    mut labels: Vec<Label>,
) -> Result<Labelled, Error> {
    while let Some((first, second)) = repeated(&labels) {
        let dims = ctx.shape(value)?;
        let unit = ctx.size(1);
        let (mut along_first, mut along_second) = (vec![unit; dims.len()], vec![unit; dims.len()]);
        along_first[first] = dims[first];
        along_second[second] = dims[second];
        let dtype = ctx.dtype(value)?;
        value = ctx.build(|builder| {
            let rows = builder.iota(DType::I64, &along_first, first)?;
            let columns = builder.iota(DType::I64, &along_second, second)?;
            let hit = builder.equal(rows, columns)?;
            let zero = builder.scalar(dtype, 0.0)?;
            let kept = builder.select(hit, value, zero)?;
            builder.reduce_sum(kept, &[second], false)
        })?;
        labels.remove(second);
    }
    Ok(Labelled { value, labels })
}

fn repeated(labels: &[Label]) -> Option<(usize, usize)> {
    labels.iter().enumerate().find_map(|(second, &label)| {
        let first = position(&labels[..second], label)?;
        Some((first, second))
    })
}

/// Sums over the unneeded labels.
fn sum_unless(
    ctx: &mut NodeContext<'_>,
    operand: Labelled,
    needed: impl Fn(&Label) -> bool,
) -> Result<Labelled, Error> {
    let labels = operand.labels.iter().enumerate();
    let gone: Vec<usize> = labels
        .filter(|(_, label)| !needed(label))
        .map(|(axis, _)| axis)
        .collect();
    if gone.is_empty() {
        return Ok(operand);
    }
    let value = ctx.reduce(ReduceFunction::Sum, operand.value, &gone, false)?;
    let labels = operand
        .labels
        .into_iter()
        .filter(|label| needed(label))
        .collect();
    Ok(Labelled { value, labels })
}

/// The product of two operands, summed over the unneeded labels.
fn join(
    ctx: &mut NodeContext<'_>,
    left: Labelled,
    right: Labelled,
    needed: &dyn Fn(&Label) -> bool,
) -> Result<Labelled, Error> {
    let right_labels = right.labels.clone();
    let left = sum_unless(ctx, left, |label| {
        needed(label) || right_labels.contains(label)
    })?;
    let left_labels = left.labels.clone();
    let right = sum_unless(ctx, right, |label| {
        needed(label) || left_labels.contains(label)
    })?;
    let shared = |label: &&Label| right.labels.contains(label);
    let (mut batch, mut summed, mut rows) = (Vec::new(), Vec::new(), Vec::new());
    for label in &left.labels {
        match (shared(&label), needed(label)) {
            (true, true) => batch.push(*label),
            (true, false) => summed.push(*label),
            (false, _) => rows.push(*label),
        }
    }
    let columns: Vec<Label> = right
        .labels
        .iter()
        .copied()
        .filter(|label| !left.labels.contains(label))
        .collect();
    if summed.is_empty() || !is_alike(ctx, &left, &right, &summed)? {
        return multiply(ctx, left, right, needed);
    }
    let a = matrix(ctx, &left, &batch, &rows, &summed)?;
    let b = matrix(ctx, &right, &batch, &summed, &columns)?;
    let product = ctx.matmul(a, b)?;
    // Batch sizes may have been broadcast; rows and columns are split again.
    let mut dims: Dims = ctx
        .shape(product)?
        .iter()
        .copied()
        .take(batch.len())
        .collect();
    dims.extend(sizes(ctx, &left, &rows)?);
    dims.extend(sizes(ctx, &right, &columns)?);
    let value = ctx.reshape(product, &dims)?;
    let labels = batch.into_iter().chain(rows).chain(columns).collect();
    Ok(Labelled { value, labels })
}

/// Whether no summed label is broadcast: a size of 1 on one side only.
fn is_alike(
    ctx: &NodeContext<'_>,
    left: &Labelled,
    right: &Labelled,
    summed: &[Label],
) -> Result<bool, Error> {
    let (left, right) = (sizes(ctx, left, summed)?, sizes(ctx, right, summed)?);
    let is_unit = |dim: DimId| ctx.known(dim) == Some(1);
    Ok(left
        .iter()
        .zip(&right)
        .all(|(&left, &right)| is_unit(left) == is_unit(right)))
}

fn sizes(ctx: &NodeContext<'_>, operand: &Labelled, labels: &[Label]) -> Result<Vec<DimId>, Error> {
    let dims = ctx.shape(operand.value)?;
    let axes = labels
        .iter()
        .filter_map(|&label| position(&operand.labels, label));
    Ok(axes.map(|axis| dims[axis]).collect())
}

/// The operand as `[batch.., product of rows, product of columns]`.
fn matrix(
    ctx: &mut NodeContext<'_>,
    operand: &Labelled,
    batch: &[Label],
    rows: &[Label],
    columns: &[Label],
) -> Result<ValueId, Error> {
    let order = batch.iter().chain(rows).chain(columns);
    let axes: Vec<usize> = order
        .filter_map(|&label| position(&operand.labels, label))
        .collect();
    let value = ctx.transpose(operand.value, &axes)?;
    let mut dims: Dims = sizes(ctx, operand, batch)?.into_iter().collect();
    let (row_sizes, column_sizes) = (sizes(ctx, operand, rows)?, sizes(ctx, operand, columns)?);
    dims.push(ctx.product(&row_sizes)?);
    dims.push(ctx.product(&column_sizes)?);
    ctx.reshape(value, &dims)
}

/// The product element by element, then sums: for operands that share no summed label.
fn multiply(
    ctx: &mut NodeContext<'_>,
    left: Labelled,
    right: Labelled,
    needed: &dyn Fn(&Label) -> bool,
) -> Result<Labelled, Error> {
    let mut labels = left.labels.clone();
    labels.extend(
        right
            .labels
            .iter()
            .filter(|label| !left.labels.contains(label)),
    );
    let a = laid_out(ctx, &left, &labels)?;
    let b = laid_out(ctx, &right, &labels)?;
    let value = ctx.mul(a, b)?;
    sum_unless(ctx, Labelled { value, labels }, needed)
}

/// The operand with its axes in the order of `labels`, of size 1 where it has none.
fn laid_out(
    ctx: &mut NodeContext<'_>,
    operand: &Labelled,
    labels: &[Label],
) -> Result<ValueId, Error> {
    let axes: Vec<usize> = labels
        .iter()
        .filter_map(|&label| position(&operand.labels, label))
        .collect();
    let value = ctx.transpose(operand.value, &axes)?;
    let absent = labels
        .iter()
        .enumerate()
        .filter(|(_, label)| !operand.labels.contains(label));
    let absent: Vec<usize> = absent.map(|(axis, _)| axis).collect();
    ctx.build(|builder| builder.unsqueeze(value, &absent))
}
