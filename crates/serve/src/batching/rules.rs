//! One rule per kind of op: how a result depends on the batch, given how the operands do.
//!
//! Ops without a rule mix parts. The operands of a rule are never mixed themselves.

use super::parts::{Analysis, State};
use kiln::internals::ir::{Op, OpData, ValueId};
use kiln::internals::symbolic_shape::DimId;

/// The state of an op's results.
pub(super) fn state_of(analysis: &mut Analysis<'_>, data: &OpData, operands: &[State]) -> State {
    if operands.iter().all(|state| *state == State::Same) {
        return of_same(analysis, data);
    }
    let found = match &data.op {
        Op::Map { .. } => elementwise(analysis, data, operands),
        Op::Cast { .. } => operands.first().copied(),
        Op::Reshape { dims } => reshape(analysis, data, operands, dims),
        Op::Broadcast { dims } => broadcast(analysis, data, operands, dims),
        Op::Slice {
            starts,
            sizes,
            steps,
        } => slice(analysis, data, operands, (starts, sizes, steps)),
        op if analysis.attributes_mention(op) => None,
        op => moved(analysis, op, data, operands),
    };
    found.unwrap_or(State::Mixed)
}

/// The state of the results if all operands are the same for every batch.
fn of_same(analysis: &mut Analysis<'_>, data: &OpData) -> State {
    match &data.op {
        // If the elements count along the batch, they differ from part to part.
        Op::Iota { dims, axis, .. } => match analysis.only_axis(dims) {
            Some((batch, inner)) if batch != *axis => State::Split { axis: batch, inner },
            _ => same_unless(dims.iter().any(|&dim| analysis.mentions(dim))),
        },
        Op::Broadcast { dims } => match analysis.only_axis(dims) {
            Some((axis, inner)) => {
                let repeats = is_repeated(analysis, data.operands[0], dims.len(), axis);
                match repeats {
                    true => State::Split { axis, inner },
                    false => State::Mixed,
                }
            }
            None => same_unless(dims.iter().any(|&dim| analysis.mentions(dim))),
        },
        op => {
            let mentions =
                analysis.attributes_mention(op) || analysis.regions_mention(&data.regions);
            same_unless(mentions)
        }
    }
}

fn same_unless(depends: bool) -> State {
    match depends {
        true => State::Mixed,
        false => State::Same,
    }
}

/// Whether a value has one element, or no axis, where a result of rank `rank` has `axis`.
fn is_repeated(analysis: &Analysis<'_>, value: ValueId, rank: usize, axis: usize) -> bool {
    let Some(sizes) = analysis.sizes(value) else {
        return false;
    };
    let missing = rank.saturating_sub(sizes.len());
    match axis.checked_sub(missing) {
        None => true,
        Some(axis) => sizes
            .get(axis)
            .is_some_and(|&dim| analysis.dims.as_constant(dim) == Some(1)),
    }
}

/// All split operands are split at the same axis of the result, and the others are broadcast along it.
fn aligned(
    analysis: &Analysis<'_>,
    values: &[ValueId],
    states: &[State],
    rank: usize,
) -> Option<State> {
    let mut found = None;
    for (&value, state) in values.iter().zip(states) {
        if let State::Split { axis, inner } = *state {
            let own = analysis.sizes(value)?.len();
            let axis = axis + rank.checked_sub(own)?;
            if found.is_some_and(|found| found != (axis, inner)) {
                return None;
            }
            found = Some((axis, inner));
        }
    }
    let (axis, inner) = found?;
    let mut same = values.iter().zip(states);
    let repeats = same
        .all(|(&value, state)| *state != State::Same || is_repeated(analysis, value, rank, axis));
    repeats.then_some(State::Split { axis, inner })
}

fn elementwise(analysis: &Analysis<'_>, data: &OpData, operands: &[State]) -> Option<State> {
    let rank = analysis.sizes(data.results[0])?.len();
    aligned(analysis, &data.operands, operands, rank)
}

fn broadcast(
    analysis: &mut Analysis<'_>,
    data: &OpData,
    operands: &[State],
    dims: &[DimId],
) -> Option<State> {
    let state = aligned(analysis, &data.operands, operands, dims.len())?;
    // The batch must not be broadcast along another axis.
    let State::Split { axis, inner } = state else {
        return None;
    };
    (analysis.only_axis(dims) == Some((axis, inner))).then_some(state)
}

/// A reshape keeps the order of elements: parts stay contiguous blocks if the axes before the batch axis have the same
/// number of elements as before.
fn reshape(
    analysis: &mut Analysis<'_>,
    data: &OpData,
    operands: &[State],
    dims: &[DimId],
) -> Option<State> {
    let State::Split { axis, .. } = *operands.first()? else {
        return None;
    };
    let (to, inner) = analysis.only_axis(dims)?;
    let from = analysis.sizes(data.operands[0])?;
    let before = analysis.dims.product(from.get(..axis)?).ok()?;
    let after = analysis.dims.product(dims.get(..to)?).ok()?;
    (before == after).then_some(State::Split { axis: to, inner })
}

/// A slice that takes the batch's whole axis.
fn slice(
    analysis: &mut Analysis<'_>,
    data: &OpData,
    operands: &[State],
    (starts, sizes, steps): (&[DimId], &[DimId], &[i64]),
) -> Option<State> {
    let state = *operands.first()?;
    let State::Split { axis, .. } = state else {
        return None;
    };
    let from = analysis.sizes(data.operands[0])?;
    let is_whole = analysis.dims.as_constant(*starts.get(axis)?) == Some(0)
        && sizes.get(axis)? == from.get(axis)?
        && *steps.get(axis)? == 1;
    let mut others = (0..from.len()).filter(|&other| other != axis);
    let is_apart =
        others.all(|other| !analysis.mentions(starts[other]) && !analysis.mentions(sizes[other]));
    (is_whole && is_apart).then_some(state)
}

/// Ops without the batch among their attributes.
fn moved(analysis: &mut Analysis<'_>, op: &Op, data: &OpData, operands: &[State]) -> Option<State> {
    let first = *operands.first()?;
    let others_are_same = operands[1..].iter().all(|state| *state == State::Same);
    // Each part depends only on the same part of the first operand, if the op works on that axis.
    let keeps = |works: &dyn Fn(usize) -> bool| match first {
        State::Split { axis, .. } if others_are_same && works(axis) => Some(first),
        _ => None,
    };
    match op {
        Op::Transpose { permutation } => match first {
            State::Split { axis, inner } => {
                let axis = permutation.iter().position(|&from| from == axis)?;
                Some(State::Split { axis, inner })
            }
            _ => None,
        },
        Op::Pad { low, high, .. } => {
            let zero = |dims: &[DimId], axis: usize| {
                dims.get(axis)
                    .is_some_and(|&dim| analysis.dims.as_constant(dim) == Some(0))
            };
            keeps(&|axis| zero(low, axis) && zero(high, axis))
        }
        Op::Concat { axis: along } => all_split(operands)
            .filter(|state| matches!(state, State::Split { axis, .. } if axis != along)),
        Op::Reduce {
            axes, keep_dims, ..
        } => reduced(first, axes, *keep_dims),
        Op::ArgReduce {
            axis, keep_dims, ..
        } => reduced(first, &[*axis], *keep_dims),
        Op::Cumulate { axis: along, .. } | Op::TopK { axis: along, .. } => {
            keeps(&|axis| axis != *along)
        }
        Op::Pool { .. } | Op::ArgPool { .. } => keeps(&|axis| axis < 2),
        Op::Conv { .. } | Op::ConvTranspose { .. } => keeps(&|axis| axis == 0),
        Op::Resize(resize) => keeps(&|axis| !resize.axes.contains(&axis)),
        Op::Matmul { .. } => matmul(analysis, data, operands),
        Op::Gather { axis } => gather(analysis, data, operands, *axis),
        Op::GatherElements { axis: along } => all_split(operands)
            .filter(|state| matches!(state, State::Split { axis, .. } if axis != along)),
        Op::ScatterElements { axis: along, .. } => all_split(operands)
            .filter(|state| matches!(state, State::Split { axis, .. } if axis != along)),
        Op::GatherNd { batch_axes } => gather_nd(analysis, data, operands, *batch_axes),
        Op::UpdateSlice { axes } => match operands {
            [x, State::Same, update] if x == update => {
                keeps_outside(*x, |axis| axes.contains(&axis))
            }
            _ => None,
        },
        _ => None,
    }
}

fn keeps_outside(state: State, is_changed: impl Fn(usize) -> bool) -> Option<State> {
    match state {
        State::Split { axis, .. } if !is_changed(axis) => Some(state),
        _ => None,
    }
}

/// The state of all operands, if they are split alike.
fn all_split(operands: &[State]) -> Option<State> {
    let first = *operands.first()?;
    let alike = operands.iter().all(|state| *state == first);
    (alike && first != State::Same).then_some(first)
}

fn reduced(state: State, axes: &[usize], keep_dims: bool) -> Option<State> {
    let State::Split { axis, inner } = state else {
        return None;
    };
    if axes.contains(&axis) {
        return None;
    }
    let before = axes.iter().filter(|&&reduced| reduced < axis).count();
    let axis = if keep_dims { axis } else { axis - before };
    Some(State::Split { axis, inner })
}

/// `[batch.., M, K], [batch.., K, N]`: the batch may be on M, on N, or on an axis before them, and never on K.
fn matmul(analysis: &Analysis<'_>, data: &OpData, operands: &[State]) -> Option<State> {
    let (&[left, right], &[left_state, right_state]) = (&data.operands[..], operands) else {
        return None;
    };
    let (left_rank, right_rank) = (analysis.sizes(left)?.len(), analysis.sizes(right)?.len());
    let rank = analysis.sizes(data.results[0])?.len();
    match (left_state, right_state) {
        (State::Split { axis, inner }, State::Same) if axis + 2 == left_rank => {
            Some(State::Split {
                axis: rank.checked_sub(2)?,
                inner,
            })
        }
        (State::Same, State::Split { axis, inner }) if axis + 1 == right_rank => {
            Some(State::Split {
                axis: rank.checked_sub(1)?,
                inner,
            })
        }
        _ => {
            let is_before = |state: State, own: usize| match state {
                State::Split { axis, .. } => axis + 2 < own,
                _ => true,
            };
            let both = is_before(left_state, left_rank) && is_before(right_state, right_rank);
            both.then(|| aligned(analysis, &data.operands, operands, rank))?
        }
    }
}

/// `x: [a.., n, b..], indices: [i..] -> [a.., i.., b..]`.
fn gather(
    analysis: &Analysis<'_>,
    data: &OpData,
    operands: &[State],
    along: usize,
) -> Option<State> {
    match *operands {
        [State::Same, State::Split { axis, inner }] => Some(State::Split {
            axis: along + axis,
            inner,
        }),
        [State::Split { axis, inner }, State::Same] if axis < along => {
            Some(State::Split { axis, inner })
        }
        [State::Split { axis, inner }, State::Same] if axis > along => {
            let indices = analysis.sizes(*data.operands.get(1)?)?.len();
            Some(State::Split {
                axis: axis - 1 + indices,
                inner,
            })
        }
        _ => None,
    }
}

/// `x, indices: [batch.., i.., k] -> [batch.., i.., rest of x]`.
fn gather_nd(
    analysis: &Analysis<'_>,
    data: &OpData,
    operands: &[State],
    batch_axes: usize,
) -> Option<State> {
    let last = analysis
        .sizes(*data.operands.get(1)?)?
        .len()
        .checked_sub(1)?;
    match *operands {
        [State::Same, split @ State::Split { axis, .. }] if axis >= batch_axes && axis < last => {
            Some(split)
        }
        [left, right] if left == right => keeps_outside(left, |axis| axis >= batch_axes),
        _ => None,
    }
}
