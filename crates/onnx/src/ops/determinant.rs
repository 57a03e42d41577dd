//! Determinants, by elimination with the largest pivot of each column.

use kiln_ir::{Extremum, Op};
use kiln_tensor::DType;

use super::support::{Imported, one, operator};
use crate::NodeContext;
use crate::import::Operator;

pub(super) const OPERATORS: &[Operator] = &[operator("Det", &[11], determinant)];

/// `x: [batch.., n, n] -> [batch..]`.
fn determinant(ctx: &mut NodeContext<'_>) -> Imported {
    let x = ctx.input(0)?;
    let dims = ctx.shape(x)?;
    let Some((&size, batch)) = dims.split_last().filter(|(_, batch)| !batch.is_empty()) else {
        let found = ctx.builder().describe(x);
        return Err(ctx.operand_error(0, "a tensor of rank 2 or more", found));
    };
    let batch = &batch[..batch.len() - 1];
    let count = ctx.product(batch)?;
    let dtype = ctx.dtype(x)?;
    let matrices = ctx.reshape(x, &[count, size, size])?;
    let unit = ctx.filled(dtype, 1.0, &[count])?;
    let trips = ctx.dim_as_data(size)?;
    let one_entry = ctx.size(1);
    let results = ctx.build(|builder| {
        builder.repeat::<kiln_shape_inference::InferError>(
            trips,
            &[matrices, unit],
            &[],
            |builder, step, carried, _| {
                let &[matrices, product] = carried else {
                    unreachable!("the loop carries two values");
                };
                let row_number = builder.iota(DType::I64, &[one_entry, size], 1)?;
                let column = builder.gather(matrices, step, 2)?;
                // Rows above are finished.
                let done = builder.less(row_number, step)?;
                let sizes = builder.abs(column)?;
                let never = builder.scalar(dtype, -1.0)?;
                let sizes = builder.select(done, never, sizes)?;
                let largest = builder.op1(
                    Op::ArgReduce {
                        extremum: Extremum::Max,
                        axis: 1,
                        keep_dims: true,
                        last: false,
                    },
                    &[sizes],
                )?;
                let is_largest = builder.equal(row_number, largest)?;
                let is_current = builder.equal(row_number, step)?;
                let zero = builder.scalar(dtype, 0.0)?;
                let one = builder.scalar(dtype, 1.0)?;
                // Swaps the two rows.
                let current = builder.gather(matrices, step, 1)?;
                let chosen = builder.cast(is_largest, dtype)?;
                let chosen = builder.unsqueeze(chosen, &[1])?;
                let pivots = builder.matmul(chosen, matrices)?;
                let current = builder.unsqueeze(current, &[1])?;
                let largest_rows = builder.unsqueeze(is_largest, &[2])?;
                let current_rows = builder.unsqueeze(is_current, &[2])?;
                let swapped = builder.select(largest_rows, current, matrices)?;
                let swapped = builder.select(current_rows, pivots, swapped)?;
                let moved = builder.equal(largest, step)?;
                let minus = builder.scalar(dtype, -1.0)?;
                let sign = builder.select(moved, one, minus)?;
                let sign = builder.squeeze(sign, &[1])?;
                let pivot = builder.gather(pivots, step, 2)?;
                let product = builder.mul(product, sign)?;
                let flat_pivot = builder.squeeze(pivot, &[1])?;
                let product = builder.mul(product, flat_pivot)?;
                // With a column of zeros, there is nothing to divide by.
                let nothing = builder.equal(pivot, zero)?;
                let divisor = builder.select(nothing, one, pivot)?;
                let column = builder.gather(swapped, step, 2)?;
                let factors = builder.div(column, divisor)?;
                let below = builder.greater(row_number, step)?;
                let factors = builder.select(below, factors, zero)?;
                let factors = builder.unsqueeze(factors, &[2])?;
                let taken = builder.mul(factors, pivots)?;
                let rest = builder.sub(swapped, taken)?;
                Ok((vec![rest, product], vec![]))
            },
        )
    })?;
    one(ctx.reshape(results[1], batch)?)
}
