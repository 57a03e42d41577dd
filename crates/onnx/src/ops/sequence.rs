//! Sequences of tensors. The number of entries is known when the model is imported, so operators on sequences are evaluated
//! then, and leave only the entries. Entries stacked by a loop are joined and counted directly.

use std::sync::Arc;

use kiln_ir::{Dims, ValueId};
use kiln_symbolic_shape::DimId;
use kiln_tensor::Tensor;
use smallvec::smallvec;

use super::support::{Imported, one, operator};
use crate::import::{Item, Operator, Stacked, Takes};
use crate::{Error, LimitKind, NodeContext};

pub(super) const OPERATORS: &[Operator] = &[
    operator("ConcatFromSequence", &[11], concat).taking(Takes::Items),
    operator("SequenceAt", &[11], at).taking(Takes::Items),
    operator("SequenceConstruct", &[11], construct).taking(Takes::Items),
    operator("SequenceEmpty", &[11], empty),
    operator("SequenceErase", &[11], erase).taking(Takes::Items),
    operator("SequenceInsert", &[11], insert).taking(Takes::Items),
    operator("SequenceLength", &[11], length).taking(Takes::Items),
    operator("SplitToSequence", &[11], split).taking(Takes::Narrow),
];

/// A sequence of these entries. Operators that change one create another, which counts towards the limits of an import.
fn sequence(ctx: &NodeContext<'_>, entries: Vec<Item>) -> Imported {
    ctx.count_entries(entries.len())?;
    Ok(smallvec![Item::Sequence(entries.into())])
}

/// The entries of operand 0.
fn entries(ctx: &NodeContext<'_>) -> Result<Arc<[Item]>, Error> {
    match ctx.item(0) {
        Some(Item::Sequence(entries)) => Ok(Arc::clone(entries)),
        _ => Err(ctx.no_entries(0)),
    }
}

/// A tensor, as an entry of a sequence must be.
fn entry(ctx: &NodeContext<'_>, index: usize) -> Result<Item, Error> {
    match ctx.item(index) {
        Some(item @ (Item::Tensor(_) | Item::Narrow(..))) => Ok(item.clone()),
        other => {
            let found = other.map_or_else(|| "nothing".to_owned(), Item::kind);
            Err(ctx.operand_error(index, "a tensor", found))
        }
    }
}

/// The position in an operand, at most `last`; negative ones count from the end of `length` entries.
fn position(
    ctx: &NodeContext<'_>,
    index: usize,
    length: usize,
    last: usize,
) -> Result<usize, Error> {
    let given = ctx.integers(index)?;
    let &[at] = given.as_slice() else {
        return Err(ctx.operand_error(index, "one position", given.len().to_string()));
    };
    let length = i64::try_from(length).unwrap_or(i64::MAX);
    let from_start = if at < 0 {
        at.saturating_add(length)
    } else {
        at
    };
    usize::try_from(from_start)
        .ok()
        .filter(|&position| position <= last)
        .ok_or_else(|| {
            let expected = format!("a position in a sequence of {length} entries");
            ctx.operand_error(index, expected, at.to_string())
        })
}

fn construct(ctx: &mut NodeContext<'_>) -> Imported {
    let items = (0..ctx.n_inputs()).map(|index| entry(ctx, index));
    sequence(ctx, items.collect::<Result<Vec<_>, _>>()?)
}

fn empty(ctx: &mut NodeContext<'_>) -> Imported {
    sequence(ctx, Vec::new())
}

fn length(ctx: &mut NodeContext<'_>) -> Imported {
    if let Some(&Item::Stacked(Stacked { value, .. })) = ctx.item(0) {
        let length = ctx.shape(value)?[0];
        return one(ctx.build(|builder| {
            let length = builder.dims_tensor(&[length])?;
            builder.reshape(length, &[])
        })?);
    }
    let length = i64::try_from(entries(ctx)?.len()).unwrap_or(i64::MAX);
    one(ctx.add_constant(Tensor::scalar(length))?)
}

fn at(ctx: &mut NodeContext<'_>) -> Imported {
    let entries = entries(ctx)?;
    match entries.len().checked_sub(1) {
        Some(last) => {
            let position = position(ctx, 1, entries.len(), last)?;
            Ok(smallvec![entries[position].clone()])
        }
        None => Err(ctx.operand_error(0, "a sequence of 1 entry or more", "an empty one")),
    }
}

/// Inserts an entry before a position, or at the end.
fn insert(ctx: &mut NodeContext<'_>) -> Imported {
    let mut entries = entries(ctx)?.to_vec();
    let position = match ctx.optional(2) {
        Some(_) => position(ctx, 2, entries.len(), entries.len())?,
        None => entries.len(),
    };
    entries.insert(position, entry(ctx, 1)?);
    sequence(ctx, entries)
}

/// Removes the entry at a position, or the last.
fn erase(ctx: &mut NodeContext<'_>) -> Imported {
    let mut entries = entries(ctx)?.to_vec();
    let Some(last) = entries.len().checked_sub(1) else {
        return Err(ctx.operand_error(0, "a sequence of 1 entry or more", "an empty one"));
    };
    let position = match ctx.optional(1) {
        Some(_) => position(ctx, 1, entries.len(), last)?,
        None => last,
    };
    entries.remove(position);
    sequence(ctx, entries)
}

/// Concatenates the entries along an axis, or stacks them along a new one.
fn concat(ctx: &mut NodeContext<'_>) -> Imported {
    if let Some(&Item::Stacked(Stacked { value, .. })) = ctx.item(0) {
        return concat_stacked(ctx, value);
    }
    let item = Item::Sequence(entries(ctx)?);
    let values = item.values();
    let Some(&first) = values.first() else {
        return Err(ctx.operand_error(0, "a sequence of 1 entry or more", "an empty one"));
    };
    let rank = ctx.rank(first)?;
    let axis = ctx.attributes().require::<i64>("axis")?;
    if ctx.flag("new_axis", false)? {
        let axis = ctx.axis(axis, rank + 1)?;
        return one(ctx.build(|builder| builder.stack(&values, axis))?);
    }
    let axis = ctx.axis(axis, rank)?;
    one(ctx.build(|builder| builder.concat(&values, axis))?)
}

/// The same for entries that form one tensor: their axis is moved to its position, or merged with the axis there.
fn concat_stacked(ctx: &mut NodeContext<'_>, stacked: ValueId) -> Imported {
    let dims = ctx.shape(stacked)?;
    let axis = ctx.attributes().require::<i64>("axis")?;
    let is_new = ctx.flag("new_axis", false)?;
    let rank = dims.len() - 1;
    let axis = ctx.axis(axis, if is_new { rank + 1 } else { rank })?;
    // The axis that counts entries comes before the one that it is joined with.
    let mut order: Vec<usize> = (1..=rank).collect();
    order.insert(axis, 0);
    let moved = ctx.build(|builder| builder.transpose(stacked, &order))?;
    if is_new {
        return one(moved);
    }
    let joined = ctx.sizes(|table| table.mul(dims[0], dims[axis + 1]))?;
    let mut sizes: Dims = dims.iter().skip(1).copied().collect();
    sizes[axis] = joined;
    one(ctx.build(|builder| builder.reshape(moved, &sizes))?)
}

/// Splits into parts of one size, of given sizes, or into single entries, optionally without their axis.
fn split(ctx: &mut NodeContext<'_>) -> Imported {
    let mut x = ctx.input(0)?;
    let axis = ctx.axis_attribute(0, ctx.rank(x)?)?;
    let mut squeezes = false;
    let sizes: Vec<DimId> = match ctx.optional(1) {
        Some(sizes) if ctx.rank(sizes)? == 1 => ctx.sizes_of(1)?,
        given => {
            squeezes = given.is_none() && !ctx.flag("keepdims", true)?;
            let part = match given {
                Some(_) => ctx.integers(1)?.first().copied().unwrap_or(0),
                None => 1,
            };
            let expected = "a known size along the axis, which decides the number of parts";
            let (known, whole) = ctx.with_known_size(0, axis, expected)?;
            x = known;
            equal_parts(ctx, whole, part)?
        }
    };
    let narrow = ctx.narrow_type(0);
    let parts = ctx.build(|builder| {
        let parts = builder.split(x, axis, &sizes)?.into_iter();
        if !squeezes {
            return Ok(parts.collect::<Vec<_>>());
        }
        parts.map(|part| builder.squeeze(part, &[axis])).collect()
    })?;
    let entries = parts.into_iter().map(|part| match narrow {
        Some(narrow) => Item::Narrow(part, narrow),
        None => Item::Tensor(part),
    });
    sequence(ctx, entries.collect())
}

/// Parts of one size, the last of which may be smaller.
fn equal_parts(ctx: &mut NodeContext<'_>, whole: i64, part: i64) -> Result<Vec<DimId>, Error> {
    if part < 1 {
        return Err(ctx.operand_error(1, "parts of 1 entry or more", part.to_string()));
    }
    let parts = u64::try_from(whole / part).unwrap_or(0);
    ctx.check_limit(LimitKind::OperatorParts, parts)?;
    let mut sizes = vec![ctx.size(part); usize::try_from(whole / part).unwrap_or(0)];
    if whole % part != 0 {
        sizes.push(ctx.size(whole % part));
    }
    Ok(sizes)
}
