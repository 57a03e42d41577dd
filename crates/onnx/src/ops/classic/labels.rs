//! Labels of classes, post-transforms of scores, label encoding and one-hot encoding.

use kiln_ir::{Extremum, ReduceFunction, ValueId};
use kiln_tensor::{DType, Tensor};

use crate::import::Item;
use crate::ops::support::{Imported, one};
use crate::{Error, NodeContext};

/// The labels of classes.
pub(super) enum Labels<'a> {
    Integers(&'a [i64]),
    /// Their number.
    Texts(usize),
}

impl<'a> Labels<'a> {
    /// Reads them from the attributes of these names.
    pub(super) fn read(ctx: &NodeContext<'a>, integers: &str, texts: &str) -> Result<Self, Error> {
        let attributes = ctx.attributes();
        match attributes.get::<&[i64]>(integers)? {
            Some(labels) if !labels.is_empty() => Ok(Self::Integers(labels)),
            _ => Ok(Self::Texts(attributes.require::<&[Vec<u8>]>(texts)?.len())),
        }
    }

    pub(super) fn count(&self) -> usize {
        match self {
            Self::Integers(labels) => labels.len(),
            Self::Texts(count) => *count,
        }
    }

    /// The label of each class in `classes: i64[..]`.
    pub(super) fn of(&self, ctx: &mut NodeContext<'_>, classes: ValueId) -> Result<Item, Error> {
        match self {
            Self::Integers(labels) => {
                let labels = ctx.vector(labels)?;
                let labels = ctx.build(|builder| builder.gather(labels, classes, 0))?;
                Ok(Item::Tensor(labels))
            }
            Self::Texts(_) if ctx.wants_output(0) => Err(ctx.unsupported(
                "labels that are strings; train with integers as classes, or write the attribute of integers \
                 (`classlabels_int64s`, `classlabels_ints`) in place of the strings, and the label is the class's number",
            )),
            Self::Texts(_) => Ok(Item::Nothing),
        }
    }
}

/// The class of the maximum score in each row, the first of equal ones.
pub(super) fn best(ctx: &mut NodeContext<'_>, scores: ValueId) -> Result<ValueId, Error> {
    ctx.build(|builder| builder.arg_reduce(scores, Extremum::Max, 1, false))
}

/// The attribute `post_transform` applied to `scores: f32[rows, classes]`.
pub(super) fn transformed(ctx: &mut NodeContext<'_>, scores: ValueId) -> Result<ValueId, Error> {
    match ctx.attributes().get_or("post_transform", "NONE")? {
        "NONE" => Ok(scores),
        "LOGISTIC" => ctx.map("sigmoid", &[scores]),
        "SOFTMAX" => ctx.build(|builder| builder.softmax(scores, 1)),
        "SOFTMAX_ZERO" => softmax_zero(ctx, scores),
        "PROBIT" => probit(ctx, scores),
        other => {
            let expected = "\"NONE\", \"LOGISTIC\", \"SOFTMAX\", \"SOFTMAX_ZERO\" or \"PROBIT\"";
            Err(ctx.attribute_error("post_transform", expected, other))
        }
    }
}

/// The softmax of the nonzero elements; zeros are kept.
pub(super) fn softmax_zero(ctx: &mut NodeContext<'_>, x: ValueId) -> Result<ValueId, Error> {
    let dtype = ctx.dtype(x)?;
    let most = ctx.reduce(ReduceFunction::Max, x, &[1], true)?;
    let size = ctx.map("abs", &[x])?;
    let least = ctx.scalar(dtype, 1e-7)?;
    let counts = ctx.map("gt", &[size, least])?;
    let below = ctx.sub(x, most)?;
    let weight = ctx.map("exp", &[below])?;
    let zero = ctx.scalar(dtype, 0.0)?;
    let weight = ctx.select(counts, weight, zero)?;
    let sum = ctx.reduce(ReduceFunction::Sum, weight, &[1], true)?;
    let is_zero = ctx.map("eq", &[sum, zero])?;
    let (half, some) = (ctx.scalar(dtype, 0.5)?, ctx.scalar(dtype, 1.0)?);
    let sum = ctx.select(is_zero, some, sum)?;
    let parts = ctx.div(weight, sum)?;
    ctx.select(is_zero, half, parts)
}

/// The quantile of the normal distribution, by Winitzki's approximation of the inverse error function, as in ONNX's
/// reference and onnxruntime.
pub(super) fn probit(ctx: &mut NodeContext<'_>, x: ValueId) -> Result<ValueId, Error> {
    const A: f64 = 0.147;
    let dtype = ctx.dtype(x)?;
    let x = ctx.scaled(x, 2.0)?;
    let x = ctx.plus(x, -1.0)?;
    let square = ctx.mul(x, x)?;
    let one = ctx.scalar(dtype, 1.0)?;
    let rest = ctx.sub(one, square)?;
    let log = ctx.map("log", &[rest])?;
    let half = ctx.scaled(log, 0.5)?;
    let v = ctx.plus(half, 2.0 / (std::f64::consts::PI * A))?;
    let part = ctx.scaled(log, 1.0 / A)?;
    let v_square = ctx.mul(v, v)?;
    let root = ctx.sub(v_square, part)?;
    let root = ctx.map("sqrt", &[root])?;
    let root = ctx.sub(root, v)?;
    let root = ctx.map("sqrt", &[root])?;
    let root = ctx.scaled(root, std::f64::consts::SQRT_2)?;
    let sign = ctx.map("sign", &[x])?;
    ctx.mul(sign, root)
}

/// Each element replaced by the value of its key, with numbers on both sides.
pub(super) fn encode(ctx: &mut NodeContext<'_>) -> Imported {
    let x = ctx.input(0)?;
    let Some((keys, values, default)) = read_table(ctx)? else {
        return Err(ctx.unsupported(
            "a table from or to strings: encode text before the model, or decode it after",
        ));
    };
    let (n_keys, n_values) = (keys.shape().to_vec(), values.shape().to_vec());
    if n_keys != n_values || n_keys.len() != 1 {
        let expected = format!("as many values as keys, {n_keys:?}");
        return Err(ctx.attribute_error("values", expected, format!("{n_values:?}")));
    }
    if n_keys == [0] {
        return Err(ctx.attribute_error("keys", "one or more", "none"));
    }
    // If a key occurs twice, the last one counts: keys are tested from the first to the last.
    let keys = ctx.add_constant(keys)?;
    let keys = ctx.cast(keys, ctx.dtype(x)?)?;
    let rank = ctx.rank(x)?;
    let column = ctx.build(|builder| builder.unsqueeze(x, &[rank]))?;
    let found = ctx.map("eq", &[column, keys])?;
    let found = if ctx.dtype(x)?.is_float() {
        let (no_number, no_key) = (ctx.map("is_nan", &[column])?, ctx.map("is_nan", &[keys])?);
        let both = ctx.map("and", &[no_number, no_key])?;
        ctx.map("or", &[found, both])?
    } else {
        found
    };
    // One more column, true where no key matches.
    let count = n_keys.first().copied().unwrap_or_default();
    let positions = i64::try_from(count).unwrap_or(i64::MAX);
    let order: Vec<i64> = (1..=positions).collect();
    let order = ctx.vector(&order)?;
    let nowhere = ctx.integer(0)?;
    let position = ctx.select(found, order, nowhere)?;
    let position = ctx.reduce(ReduceFunction::Max, position, &[rank], false)?;
    let default = ctx.add_constant(default)?;
    let default = ctx.flat(default)?;
    let values = ctx.add_constant(values)?;
    let table = ctx.build(|builder| builder.concat(&[default, values], 0))?;
    one(ctx.build(|builder| builder.gather(table, position, 0))?)
}

/// Keys, values, and the default value; `None` where they are strings.
fn read_table(ctx: &NodeContext<'_>) -> Result<Option<(Tensor, Tensor, Tensor)>, Error> {
    let side = |side: &str| -> Result<Option<Tensor>, Error> {
        let attributes = ctx.attributes();
        if let Some(numbers) = attributes.get::<&[f32]>(&format!("{side}_floats"))? {
            return Ok(Some(
                ctx.tensor_at(Tensor::from_slice(&[numbers.len()], numbers))?,
            ));
        }
        if let Some(numbers) = attributes.get::<&[i64]>(&format!("{side}_int64s"))? {
            return Ok(Some(
                ctx.tensor_at(Tensor::from_slice(&[numbers.len()], numbers))?,
            ));
        }
        match attributes.get::<&crate::ModelTensor>(&format!("{side}_tensor"))? {
            // Strings are unsupported.
            Some(tensor) => Ok(tensor.tensor().ok().cloned()),
            None => Ok(None),
        }
    };
    let (Some(keys), Some(values)) = (side("keys")?, side("values")?) else {
        return Ok(None);
    };
    let attributes = ctx.attributes();
    let default = match attributes.get::<&Tensor>("default_tensor")? {
        Some(default) if default.dtype() == values.dtype() && default.len() == 1 => default.clone(),
        Some(default) => {
            let found = format!("{} of {}", default.len(), default.dtype());
            let expected = format!("one element of {}", values.dtype());
            return Err(ctx.attribute_error("default_tensor", expected, found));
        }
        None if values.dtype() == DType::F32 => {
            Tensor::scalar(attributes.get_or("default_float", -0.0_f32)?)
        }
        None if values.dtype() == DType::I64 => {
            Tensor::scalar(attributes.get_or("default_int64", -1_i64)?)
        }
        None => {
            let expected = format!(
                "the value of {} for values that are not keys",
                values.dtype()
            );
            return Err(ctx.attribute_error("default_tensor", expected, "none"));
        }
    };
    Ok(Some((keys, values, default)))
}

/// A column per category, 1 where the element equals it.
pub(super) fn one_hot(ctx: &mut NodeContext<'_>) -> Imported {
    let x = ctx.input(0)?;
    let Some(categories) = ctx.attributes().get::<&[i64]>("cats_int64s")? else {
        return Err(ctx.unsupported("categories that are strings: encode text before the model"));
    };
    if !ctx.flag("zeros", true)? {
        return Err(ctx.unsupported("an error where an element is in no category (`zeros` of 0)"));
    }
    let rank = ctx.rank(x)?;
    let x = ctx.cast(x, DType::I64)?;
    let x = ctx.build(|builder| builder.unsqueeze(x, &[rank]))?;
    let categories = ctx.vector(categories)?;
    let equal = ctx.map("eq", &[x, categories])?;
    one(ctx.cast(equal, DType::F32)?)
}
