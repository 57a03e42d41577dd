//! Selected, scaled, normalised or imputed columns.

use kiln_ir::{ReduceFunction, ValueId};
use kiln_tensor::{DType, Element, Tensor};

use crate::ops::support::{Imported, one};
use crate::{Error, NodeContext};

/// Entries of the last axis; a vector gives one row.
pub(super) fn extract(ctx: &mut NodeContext<'_>) -> Imported {
    let (x, indices) = (ctx.input(0)?, ctx.input(1)?);
    let rank = ctx.rank(x)?;
    let indices = ctx.flat(indices)?;
    let Some(last) = rank.checked_sub(1) else {
        let found = ctx.builder().describe(x);
        return Err(ctx.operand_error(0, "a tensor of rank 1 or more", found));
    };
    let y = ctx.build(|builder| builder.gather(x, indices, last))?;
    if rank == 1 {
        return one(ctx.build(|builder| builder.unsqueeze(y, &[0]))?);
    }
    one(y)
}

/// 1 where it is above the threshold, otherwise 0.
pub(super) fn binarize(ctx: &mut NodeContext<'_>) -> Imported {
    let x = ctx.input(0)?;
    let threshold = ctx.attributes().get_or("threshold", 0.0_f32)?;
    let threshold = ctx.scalar_like(x, f64::from(threshold))?;
    let above = ctx.map("gt", &[x, threshold])?;
    one(ctx.cast(above, ctx.dtype(x)?)?)
}

/// `(x - offset) * scale`, with one offset and scale for all columns or one per column.
pub(super) fn scale(ctx: &mut NodeContext<'_>) -> Imported {
    let x = ctx.input(0)?;
    let mut y = ctx.cast(x, DType::F32)?;
    for (name, function) in [("offset", "sub"), ("scale", "mul")] {
        if let Some(numbers) = ctx.attributes().get::<&[f32]>(name)? {
            let numbers = ctx.vector(numbers)?;
            y = ctx.map(function, &[y, numbers])?;
        }
    }
    one(y)
}

/// Rows divided by their norm; rows of zeros are unchanged.
pub(super) fn normalize(ctx: &mut NodeContext<'_>) -> Imported {
    let x = ctx.input(0)?;
    let x = ctx.cast(x, DType::F32)?;
    let Some(last) = ctx.rank(x)?.checked_sub(1) else {
        let found = ctx.builder().describe(x);
        return Err(ctx.operand_error(0, "a tensor of rank 1 or more", found));
    };
    let sum = match ctx.attributes().get_or("norm", "MAX")? {
        "MAX" => {
            let x = ctx.map("abs", &[x])?;
            ctx.reduce(ReduceFunction::Max, x, &[last], true)?
        }
        "L1" => {
            let x = ctx.map("abs", &[x])?;
            ctx.reduce(ReduceFunction::Sum, x, &[last], true)?
        }
        "L2" => {
            let square = ctx.mul(x, x)?;
            let sum = ctx.reduce(ReduceFunction::Sum, square, &[last], true)?;
            ctx.map("sqrt", &[sum])?
        }
        other => return Err(ctx.attribute_error("norm", "\"MAX\", \"L1\" or \"L2\"", other)),
    };
    let (zero, divisor) = (ctx.scalar(DType::F32, 0.0)?, ctx.scalar(DType::F32, 1.0)?);
    let is_zero = ctx.map("eq", &[sum, zero])?;
    let sum = ctx.select(is_zero, divisor, sum)?;
    one(ctx.div(x, sum)?)
}

/// Missing elements, or those equal to the missing-value marker, replaced by their column's value.
pub(super) fn impute(ctx: &mut NodeContext<'_>) -> Imported {
    let x = ctx.input(0)?;
    let attributes = ctx.attributes();
    if ctx.dtype(x)?.is_integer() {
        let values = attributes.require::<&[i64]>("imputed_value_int64s")?;
        let missing = attributes.get_or("replaced_value_int64", 0_i64)?;
        let values = ctx.vector(values)?;
        let values = ctx.cast(values, ctx.dtype(x)?)?;
        let missing = ctx.integer(missing)?;
        let missing = ctx.cast(missing, ctx.dtype(x)?)?;
        let is_missing = ctx.map("eq", &[x, missing])?;
        return one(ctx.select(is_missing, values, x)?);
    }
    let values = attributes.require::<&[f32]>("imputed_value_floats")?;
    let missing = attributes.get_or("replaced_value_float", 0.0_f32)?;
    let values = ctx.vector(values)?;
    let values = ctx.cast(values, ctx.dtype(x)?)?;
    let is_missing = if missing.is_nan() {
        ctx.map("is_nan", &[x])?
    } else {
        let missing = ctx.scalar_like(x, f64::from(missing))?;
        ctx.map("eq", &[x, missing])?
    };
    one(ctx.select(is_missing, values, x)?)
}

/// Concatenated operands, each truncated or zero-padded to its stated columns.
pub(super) fn concatenate(ctx: &mut NodeContext<'_>) -> Imported {
    let widths = ctx.attributes().require::<&[i64]>("inputdimensions")?;
    let count = ctx.n_inputs();
    if widths.len() != count {
        let expected = format!("{count} entries, one per operand");
        return Err(ctx.attribute_error("inputdimensions", expected, widths.len()));
    }
    let mut operands = Vec::with_capacity(count);
    for (index, &width) in widths.iter().enumerate() {
        let expected = format!("at least {width} columns, known when the model is imported");
        let x = ctx.input(index)?;
        let x = match ctx.rank(x)? {
            1 => ctx.build(|builder| builder.unsqueeze(x, &[1]))?,
            _ => ctx.with_known_size(index, 1, &expected)?.0,
        };
        let x = ctx.cast(x, DType::F32)?;
        let [_, columns] = ctx.dims_of_rank(index, x)?;
        operands.push(match ctx.known(columns) {
            Some(columns) if columns == width => x,
            Some(columns) if (0..columns).contains(&width) => ctx.narrow(x, 1, 0, width)?,
            _ => {
                let found = ctx.builder().describe(x);
                return Err(ctx.operand_error(index, expected, found));
            }
        });
    }
    one(ctx.build(|builder| builder.concat(&operands, 1))?)
}

impl NodeContext<'_> {
    /// A constant with one axis.
    pub(super) fn vector<T: Element>(&mut self, elements: &[T]) -> Result<ValueId, Error> {
        let tensor = Tensor::from_slice(&[elements.len()], elements);
        let tensor = self.tensor_at(tensor)?;
        self.add_constant(tensor)
    }

    /// Operand 0 as a matrix, rows of columns, in a dtype; a vector is one row.
    pub(super) fn rows(&mut self, dtype: DType) -> Result<ValueId, Error> {
        let x = self.input(0)?;
        let x = self.cast(x, dtype)?;
        match self.rank(x)? {
            1 => self.build(|builder| builder.unsqueeze(x, &[0])),
            2 => Ok(x),
            _ => {
                let found = self.builder().describe(x);
                Err(self.operand_error(0, "a matrix, a row per sample", found))
            }
        }
    }
}
