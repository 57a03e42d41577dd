//! Linear models, and sums over support vectors.

use kiln_ir::{ReduceFunction, ValueId};
use kiln_tensor::{DType, Tensor};
use smallvec::smallvec;

use super::labels::{self, Labels};
use crate::import::Item;
use crate::ops::support::{Imported, one};
use crate::{Error, NodeContext};

/// `LinearRegressor`: `x @ coefficients + intercepts`, a row of coefficients per target.
pub(super) fn regress(ctx: &mut NodeContext<'_>) -> Imported {
    let targets = ctx.attributes().get_or("targets", 1_i64)?;
    let targets = usize::try_from(targets).ok().filter(|&targets| targets > 0);
    let targets = targets.ok_or_else(|| ctx.attribute_error("targets", "1 or more", "less"))?;
    let y = weighted(ctx, targets)?;
    one(labels::transformed(ctx, y)?)
}

/// `LinearClassifier`: the label of the best class, and the scores of all.
pub(super) fn classify(ctx: &mut NodeContext<'_>) -> Imported {
    let labels = Labels::read(ctx, "classlabels_ints", "classlabels_strings")?;
    let n_classes = labels.count();
    let n_rows = match ctx.attributes().get::<&[f32]>("intercepts")? {
        Some(intercepts) if !intercepts.is_empty() => intercepts.len(),
        _ => n_classes,
    };
    if n_classes < 2 || (n_rows != n_classes && (n_rows, n_classes) != (1, 2)) {
        let what = format!("{n_classes} classes of {n_rows} scores");
        return Err(ctx.unsupported(what));
    }
    let scores = weighted(ctx, n_rows)?;
    let (classes, scores) = if n_rows == 1 {
        two_of_one(ctx, scores, false)?
    } else {
        (
            labels::best(ctx, scores)?,
            labels::transformed(ctx, scores)?,
        )
    };
    let label = labels.of(ctx, classes)?;
    Ok(smallvec![label, Item::Tensor(scores)])
}

/// Two classes with a single score `[rows, 1]`: the class of each row, and the scores of both.
///
/// A score that is nowhere negative is treated as a probability.
pub(super) fn two_of_one(
    ctx: &mut NodeContext<'_>,
    score: ValueId,
    is_probability: bool,
) -> Result<(ValueId, ValueId), Error> {
    let dtype = ctx.dtype(score)?;
    let column = ctx.build(|builder| builder.squeeze(score, &[1]))?;
    let classes = is_second(ctx, column, is_probability)?;
    let other = if is_probability {
        let all = ctx.scalar(dtype, 1.0)?;
        ctx.sub(all, score)?
    } else {
        ctx.map("neg", &[score])?
    };
    let both = ctx.build(|builder| builder.concat(&[other, score], 1))?;
    let both = if is_probability {
        both
    } else {
        labels::transformed(ctx, both)?
    };
    Ok((classes, both))
}

/// 1 where the score of the second class selects it, otherwise 0.
pub(super) fn is_second(
    ctx: &mut NodeContext<'_>,
    score: ValueId,
    is_probability: bool,
) -> Result<ValueId, Error> {
    let threshold = if is_probability { 0.5 } else { 0.0 };
    let threshold = ctx.scalar_like(score, threshold)?;
    let is_second = ctx.map("gt", &[score, threshold])?;
    ctx.cast(is_second, DType::I64)
}

/// `x @ coefficients + intercepts` in f32: `n_rows` rows of coefficients.
fn weighted(ctx: &mut NodeContext<'_>, n_rows: usize) -> Result<ValueId, Error> {
    let x = ctx.rows(DType::F32)?;
    let coefficients = ctx.attributes().require::<&[f32]>("coefficients")?;
    let n_columns = coefficients.len() / n_rows;
    if n_columns * n_rows != coefficients.len() {
        let expected = format!("as many for each of {n_rows} rows");
        return Err(ctx.attribute_error("coefficients", expected, coefficients.len()));
    }
    let table = ctx.tensor_at(Tensor::from_slice(&[n_rows, n_columns], coefficients))?;
    let table = ctx.add_constant(table)?;
    let table = ctx.transpose(table, &[1, 0])?;
    let y = ctx.matmul(x, table)?;
    match ctx.attributes().get::<&[f32]>("intercepts")? {
        Some(intercepts) if !intercepts.is_empty() => {
            let intercepts = ctx.vector(intercepts)?;
            ctx.add(y, intercepts)
        }
        _ => Ok(y),
    }
}

/// `SVMRegressor`: the weighted sum of a sample's kernels with the support vectors.
pub(super) fn regress_by_vectors(ctx: &mut NodeContext<'_>) -> Imported {
    let attributes = ctx.attributes();
    let n_vectors = attributes.get_or("n_supports", 0_i64)?;
    let n_vectors = usize::try_from(n_vectors).unwrap_or(0);
    let coefficients = attributes.require::<&[f32]>("coefficients")?;
    let rho = attributes.require::<&[f32]>("rho")?.first().copied();
    let x = ctx.rows(DType::F32)?;
    let alike = match n_vectors {
        0 => x,
        _ => kernel(ctx, x, n_vectors)?,
    };
    let weights = ctx.tensor_at(Tensor::from_slice(&[coefficients.len(), 1], coefficients))?;
    let weights = ctx.add_constant(weights)?;
    let y = ctx.matmul(alike, weights)?;
    let y = ctx.plus(y, f64::from(rho.unwrap_or(0.0)))?;
    let y = if ctx.flag("one_class", false)? {
        let zero = ctx.scalar(DType::F32, 0.0)?;
        let is_in = ctx.map("gt", &[y, zero])?;
        let (inside, outside) = (ctx.scalar(DType::F32, 1.0)?, ctx.scalar(DType::F32, -1.0)?);
        ctx.select(is_in, inside, outside)?
    } else {
        y
    };
    one(labels::transformed(ctx, y)?)
}

/// The kernel of each row with each support vector: `[rows, vectors]`.
fn kernel(ctx: &mut NodeContext<'_>, x: ValueId, n_vectors: usize) -> Result<ValueId, Error> {
    let attributes = ctx.attributes();
    let vectors = attributes.require::<&[f32]>("support_vectors")?;
    let n_columns = vectors.len() / n_vectors;
    if n_columns * n_vectors != vectors.len() {
        let expected = format!("as many numbers for each of {n_vectors}");
        return Err(ctx.attribute_error("support_vectors", expected, vectors.len()));
    }
    let parameters = attributes
        .get::<&[f32]>("kernel_params")?
        .unwrap_or_default();
    let parameter = |index: usize| f64::from(parameters.get(index).copied().unwrap_or(0.0));
    let (gamma, coefficient, degree) = (parameter(0), parameter(1), parameter(2));
    let kind = attributes.get_or("kernel_type", "LINEAR")?;
    let vectors = ctx.tensor_at(Tensor::from_slice(&[n_vectors, n_columns], vectors))?;
    let vectors = ctx.add_constant(vectors)?;
    if kind == "RBF" {
        let x = ctx.build(|builder| builder.unsqueeze(x, &[1]))?;
        let difference = ctx.sub(x, vectors)?;
        let square = ctx.mul(difference, difference)?;
        let distance = ctx.reduce(ReduceFunction::Sum, square, &[2], false)?;
        let exponent = ctx.scaled(distance, -gamma)?;
        return ctx.map("exp", &[exponent]);
    }
    let vectors = ctx.transpose(vectors, &[1, 0])?;
    let dot = ctx.matmul(x, vectors)?;
    if kind == "LINEAR" {
        return Ok(dot);
    }
    let scaled = ctx.scaled(dot, gamma)?;
    let scaled = ctx.plus(scaled, coefficient)?;
    match kind {
        "SIGMOID" => ctx.map("tanh", &[scaled]),
        "POLY" => {
            let degree = ctx.scalar(DType::F32, degree)?;
            ctx.map("pow", &[scaled, degree])
        }
        other => {
            let expected = "\"LINEAR\", \"POLY\", \"RBF\" or \"SIGMOID\"";
            Err(ctx.attribute_error("kernel_type", expected, other))
        }
    }
}
