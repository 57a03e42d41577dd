//! Counts of the occurrences of n-grams from a list.

use kiln_ir::{Combine, Op, ReduceFunction, ValueId};
use kiln_tensor::{DType, Tensor};

use super::support::{Imported, one, operator};
use crate::import::Operator;
use crate::{Error, NodeContext};

pub(super) const OPERATORS: &[Operator] = &[operator("TfIdfVectorizer", &[9], vectorize)];

/// The n-grams of one size: their elements, and the columns of their counts.
struct Grams {
    size: usize,
    elements: Vec<i64>,
    columns: Vec<i64>,
}

/// `x: int[L] or int[N, L] -> f32[.., columns]`.
fn vectorize(ctx: &mut NodeContext<'_>) -> Imported {
    let x = ctx.input(0)?;
    if !ctx.dtype(x)?.is_integer() {
        let found = ctx.builder().describe(x);
        return Err(ctx.operand_error(0, "integers", found));
    }
    let rank = ctx.rank(x)?;
    if rank == 0 || rank > 2 {
        let found = ctx.builder().describe(x);
        return Err(ctx.operand_error(0, "a tensor of rank 1 or 2", found));
    }
    let grams = read_grams(ctx)?;
    let attributes = ctx.attributes();
    let skips = attributes.require::<i64>("max_skip_count")?;
    let columns = attributes.require::<&[i64]>("ngram_indexes")?;
    let width = columns
        .iter()
        .copied()
        .max()
        .unwrap_or(-1)
        .saturating_add(1);
    if !(0..=10).contains(&skips) {
        return Err(ctx.attribute_error("max_skip_count", "0 to 10", skips));
    }
    let x = ctx.cast(x, DType::I64)?;
    let dims = ctx.shape(x)?;
    let mut result_dims = dims[..rank - 1].to_vec();
    result_dims.push(ctx.size(width));
    let mut counts = ctx.filled(DType::I64, 0.0, &result_dims)?;
    for grams in &grams {
        // Skips do not affect single elements.
        let skips = if grams.size == 1 { 0 } else { skips };
        for skip in 0..=skips {
            if let Some(found) = occurrences(ctx, x, grams, skip + 1)? {
                counts = added(ctx, counts, found, grams)?;
            }
        }
    }
    let counts = ctx.cast(counts, DType::F32)?;
    one(weighted(ctx, counts)?)
}

/// Reads the attributes that list the n-grams, for the requested sizes.
fn read_grams(ctx: &NodeContext<'_>) -> Result<Vec<Grams>, Error> {
    let attributes = ctx.attributes();
    let Some(pool) = attributes.get::<&[i64]>("pool_int64s")? else {
        return Err(ctx.unsupported("n-grams of strings"));
    };
    let starts = attributes.require::<&[i64]>("ngram_counts")?;
    let columns = attributes.require::<&[i64]>("ngram_indexes")?;
    let least = attributes.require::<i64>("min_gram_length")?;
    let most = attributes.require::<i64>("max_gram_length")?;
    let bad = |what: &str| ctx.attribute_error("ngram_counts", what, format!("{starts:?}"));
    let mut grams = Vec::new();
    let mut number = 0;
    for (index, &start) in starts.iter().enumerate() {
        let end = starts
            .get(index + 1)
            .copied()
            .unwrap_or(i64::try_from(pool.len()).unwrap_or(i64::MAX));
        let range = usize::try_from(start).ok().zip(usize::try_from(end).ok());
        let elements = range.and_then(|(start, end)| pool.get(start..end));
        let elements = elements.ok_or_else(|| bad("ascending positions in the pool"))?;
        let size = index + 1;
        let count = elements.len() / size;
        let columns = columns
            .get(number..number + count)
            .ok_or_else(|| bad("as many n-grams as ngram_indexes has"))?;
        if let Some(&column) = columns.iter().find(|&&column| column < 0) {
            return Err(ctx.attribute_error("ngram_indexes", "numbers from 0 on", column));
        }
        number += count;
        let wanted = least..=most;
        if count > 0 && wanted.contains(&i64::try_from(size).unwrap_or(i64::MAX)) {
            grams.push(Grams {
                size,
                elements: elements[..count * size].to_vec(),
                columns: columns.to_vec(),
            });
        }
    }
    Ok(grams)
}

/// How often each n-gram occurs with its elements `distance` apart: `[.., n-grams]`. `None` if a row is too short.
fn occurrences(
    ctx: &mut NodeContext<'_>,
    x: ValueId,
    grams: &Grams,
    distance: i64,
) -> Result<Option<ValueId>, Error> {
    let rank = ctx.rank(x)?;
    let length = ctx.shape(x)?[rank - 1];
    let reach = i64::try_from(grams.size - 1)
        .unwrap_or(i64::MAX)
        .saturating_mul(distance);
    if ctx.known(length).is_some_and(|length| length <= reach) {
        return Ok(None);
    }
    let windows = ctx.sizes(|table| {
        let (zero, reach) = (table.constant(0), table.constant(reach));
        let windows = table.sub(length, reach)?;
        table.max(windows, zero)
    })?;
    let mut matches: Option<ValueId> = None;
    for place in 0..grams.size {
        let start = i64::try_from(place)
            .unwrap_or(i64::MAX)
            .saturating_mul(distance);
        let start = ctx.sizes(|table| {
            // Without a window there may be nothing at the start, either.
            let start = table.constant(start);
            let room = table.sub(length, windows)?;
            table.min(start, room)
        })?;
        let elements = ctx.build(|builder| {
            let elements = builder.slice_axis(x, rank - 1, start, windows)?;
            builder.unsqueeze(elements, &[rank])
        })?;
        let wanted: Vec<i64> = grams
            .elements
            .iter()
            .copied()
            .skip(place)
            .step_by(grams.size)
            .collect();
        let wanted = ctx.tensor_at(Tensor::from_slice(&[wanted.len()], &wanted))?;
        let wanted = ctx.add_constant(wanted)?;
        let equal = ctx.map("eq", &[elements, wanted])?;
        matches = Some(match matches {
            Some(matches) => ctx.map("and", &[matches, equal])?,
            None => equal,
        });
    }
    let Some(matches) = matches else {
        return Ok(None);
    };
    let matches = ctx.cast(matches, DType::I64)?;
    Ok(Some(ctx.reduce(
        ReduceFunction::Sum,
        matches,
        &[rank - 1],
        false,
    )?))
}

/// Counts written to the columns of their n-grams.
fn added(
    ctx: &mut NodeContext<'_>,
    counts: ValueId,
    found: ValueId,
    grams: &Grams,
) -> Result<ValueId, Error> {
    let dims = ctx.shape(found)?;
    let columns = ctx.tensor_at(Tensor::from_slice(&[grams.columns.len()], &grams.columns))?;
    let columns = ctx.add_constant(columns)?;
    let columns = ctx.broadcast(columns, &dims)?;
    let scatter = Op::ScatterElements {
        axis: dims.len() - 1,
        combine: Combine::Add,
    };
    ctx.op(scatter, &[counts, columns, found])
}

fn weighted(ctx: &mut NodeContext<'_>, counts: ValueId) -> Result<ValueId, Error> {
    let weights = ctx.attributes().get::<&[f32]>("weights")?;
    let weights = match weights {
        Some(weights) => {
            let tensor = ctx.tensor_at(Tensor::from_slice(&[weights.len()], weights))?;
            Some(ctx.add_constant(tensor)?)
        }
        None => None,
    };
    let occurs = match ctx.attributes().require::<&str>("mode")? {
        "TF" => return Ok(counts),
        "TFIDF" => counts,
        "IDF" => {
            let one = ctx.scalar(DType::F32, 1.0)?;
            ctx.map("min", &[counts, one])?
        }
        other => {
            let expected = "\"TF\", \"IDF\" or \"TFIDF\"";
            return Err(ctx.attribute_error("mode", expected, other));
        }
    };
    match weights {
        Some(weights) => ctx.mul(occurs, weights),
        None => Ok(occurs),
    }
}
