//! Gradients of control flow.
//!
//! A branch or an iteration is computed again in the gradient's region, from its captures and, in a loop, the carried values at
//! its start, which the joint graph's loop stacks; then it is reversed there. So a loop keeps one value of each carried value
//! per iteration, and none of the values in between.

use crate::adjoint::{Adjoint, Adjoints};
use crate::copy::Copy;
use crate::emit::zeros_like;
use crate::joint::Context;
use crate::sweep::sweep;
use crate::{GradientError, Result};
use kiln_ir::{OpData, OpId, RegionId, Type, ValueId};
use kiln_shape_inference::{GraphBuilder, OpView};
use kiln_symbolic_shape::DimId;

/// Cotangents of an op's operands.
type Cotangents = Vec<Option<Adjoint>>;

/// An `if` over the cotangents: the branch that was taken, reversed.
pub(crate) fn reverse_if(
    b: &mut GraphBuilder,
    context: &Context<'_>,
    data: &OpData,
    copy: &Copy,
    results: &[Option<Adjoint>],
) -> Result<Cotangents> {
    let (&[then, otherwise], [condition, captures @ ..]) =
        (data.regions.as_slice(), data.operands.as_slice())
    else {
        unreachable!("a verified `if` has two regions and a condition")
    };
    let wanted = active_positions(context, captures);
    let seeded = seeded_positions(results);
    let n_captures = captures.len();
    let mut operands = copy.values(captures);
    operands.extend(results.iter().flatten().map(|adjoint| adjoint.value));
    let branch = |region: RegionId| {
        let (wanted, seeded) = (&wanted, &seeded);
        move |b: &mut GraphBuilder, parameters: &[ValueId]| -> Result<Vec<ValueId>> {
            let (captures, seeds) = parameters.split_at(n_captures);
            let inner = context.source.region(region);
            let mut copy = copy.enter(b, context, region, captures).reversed();
            copy.fill(b, context, region)?;
            let mut adjoints = Adjoints::default();
            for (&index, &seed) in seeded.iter().zip(seeds) {
                seed_result(b, context, &copy, inner.results[index], seed, &mut adjoints)?;
            }
            sweep(b, context, region, &copy, &mut adjoints)?;
            let parameters = wanted.iter().map(|&index| inner.parameters[index]);
            parameters
                .map(|parameter| or_zeros(b, &adjoints, parameter, copy.value(parameter)))
                .collect()
        }
    };
    let condition = copy.value(*condition);
    let found = b.if_else(condition, &operands, branch(then), branch(otherwise))?;
    Ok(placed(data.operands.len(), 1, &wanted, &found))
}

/// A loop over the iterations from the last to the first.
pub(crate) fn reverse_loop(
    b: &mut GraphBuilder,
    context: &Context<'_>,
    (op, data): (OpId, &OpData),
    carried: usize,
    copy: &Copy,
    results: &[Option<Adjoint>],
) -> Result<Cotangents> {
    let (&[region], [_, _, rest @ ..]) = (data.regions.as_slice(), data.operands.as_slice()) else {
        unreachable!("a verified loop has a region, a trip count and a condition")
    };
    let inner = context.source.region(region);
    let (initial, captures) = rest.split_at(carried);
    let parameters = &inner.parameters[1..];
    let (carried_parameters, captured) = parameters.split_at(carried);
    // Carried values whose cotangents travel from iteration to iteration, and captures that collect them.
    let flowing = active_positions(context, carried_parameters);
    let collecting = active_positions(context, captured);
    let stacks: Vec<usize> = seeded_positions(results)
        .into_iter()
        .filter(|&index| index >= carried)
        .collect();
    let history = copy
        .histories
        .get(&op)
        .map(Vec::as_slice)
        .unwrap_or_default();
    let Some(trips) = trips(b, copy, data, carried, history) else {
        return Err(GradientError::Control {
            op: OpView::of_op(data).label(),
            reason: "its number of iterations is not known from any stacked value".to_owned(),
        });
    };

    let mut start = Vec::new();
    for &index in &flowing {
        let last = copy.value(data.results[index]);
        start.push(match results[index] {
            Some(adjoint) => adjoint.value,
            None => zeros_like(b, last)?,
        });
    }
    for &index in &collecting {
        start.push(zeros_like(b, copy.value(captures[index]))?);
    }
    let trips = {
        let vector = b.dims_tensor(&[trips])?;
        b.reshape(vector, &[])?
    };
    let mut outside = vec![trips];
    outside.extend(copy.values(captures));
    outside.extend(history.iter().map(|&(_, stack)| stack));
    outside.extend(
        stacks
            .iter()
            .filter_map(|&index| results[index])
            .map(|adjoint| adjoint.value),
    );

    let found = b.repeat(trips, &start, &outside, |b, round, flow, outside| {
        let (flow, collected) = flow.split_at(flowing.len());
        let (trips, outside) = (outside[0], &outside[1..]);
        let (captures, outside) = outside.split_at(captured.len());
        let (kept, seeds) = outside.split_at(history.len());
        let one = b.scalar(kiln_tensor::DType::I64, 1.0)?;
        let last = b.sub(trips, one)?;
        let iteration = b.sub(last, round)?;

        let mut inside = vec![iteration];
        for (index, &parameter) in carried_parameters.iter().enumerate() {
            let stack = history.iter().position(|&(kept, _)| kept == index);
            inside.push(match stack {
                Some(stack) => b.gather(kept[stack], iteration, 0)?,
                // Read by no op of the body.
                None => stand_in(b, context, copy, parameter, initial[index])?,
            });
        }
        inside.extend_from_slice(captures);
        let mut inner_copy = copy.enter(b, context, region, &inside).reversed();
        inner_copy.fill(b, context, region)?;
        let mut adjoints = Adjoints::default();
        for (&index, &cotangent) in flowing.iter().zip(flow) {
            let result = inner.results[index + 1];
            seed_result(b, context, &inner_copy, result, cotangent, &mut adjoints)?;
        }
        for (&index, &stack) in stacks.iter().zip(seeds) {
            let cotangent = b.gather(stack, iteration, 0)?;
            let result = inner.results[index + 1];
            seed_result(b, context, &inner_copy, result, cotangent, &mut adjoints)?;
        }
        sweep(b, context, region, &inner_copy, &mut adjoints)?;
        let mut next = Vec::new();
        for &index in &flowing {
            let parameter = carried_parameters[index];
            next.push(or_zeros(
                b,
                &adjoints,
                parameter,
                inner_copy.value(parameter),
            )?);
        }
        for (&index, &sum) in collecting.iter().zip(collected) {
            next.push(match adjoints.get(captured[index]) {
                Some(adjoint) => b.add(sum, adjoint.value)?,
                None => sum,
            });
        }
        Ok::<_, GradientError>((next, Vec::new()))
    })?;
    let (flow, collected) = found.split_at(flowing.len());
    let mut cotangents = placed(data.operands.len(), 2, &flowing, flow);
    let of_captures = placed(data.operands.len(), 2 + carried, &collecting, collected);
    for (cotangent, other) in cotangents.iter_mut().zip(of_captures) {
        *cotangent = cotangent.or(other);
    }
    Ok(cotangents)
}

/// The number of iterations that ran: the outermost size of anything stacked.
fn trips(
    b: &GraphBuilder,
    copy: &Copy,
    data: &OpData,
    carried: usize,
    history: &[(usize, ValueId)],
) -> Option<DimId> {
    let stacked = data.results.get(carried).map(|&result| copy.value(result));
    let stack = history.first().map(|&(_, stack)| stack).or(stacked)?;
    b.ty(stack).as_tensor()?.dims.first().copied()
}

/// A value of a carried parameter's type, for one that nothing reads.
fn stand_in(
    b: &mut GraphBuilder,
    context: &Context<'_>,
    copy: &Copy,
    parameter: ValueId,
    initial: ValueId,
) -> Result<ValueId> {
    match (context.source.ty(parameter), b.ty(copy.value(initial))) {
        (Type::Tensor(_), Type::Tensor(ty)) => {
            let ty = ty.clone();
            let zero = b.scalar_nearest(ty.dtype, 0.0)?;
            Ok(b.broadcast_to(zero, &ty.dims)?)
        }
        _ => Err(GradientError::Unsupported {
            op: "loop".to_owned(),
            what: "carried sequences and optionals".to_owned(),
        }),
    }
}

/// Adds the cotangent of a region's result, unless nothing active depends on it.
fn seed_result(
    b: &mut GraphBuilder,
    context: &Context<'_>,
    copy: &Copy,
    result: ValueId,
    value: ValueId,
    adjoints: &mut Adjoints,
) -> Result<()> {
    if !context.activity.is_active(result) {
        return Ok(());
    }
    // The branch that was not taken, and iterations that do not matter, have cotangents of zero.
    let seed = Adjoint {
        value,
        is_masked: true,
    };
    adjoints.add(b, result, copy.value(result), seed)
}

fn or_zeros(
    b: &mut GraphBuilder,
    adjoints: &Adjoints,
    of: ValueId,
    like: ValueId,
) -> Result<ValueId> {
    match adjoints.get(of) {
        Some(adjoint) => Ok(adjoint.value),
        None => zeros_like(b, like),
    }
}

fn active_positions(context: &Context<'_>, values: &[ValueId]) -> Vec<usize> {
    let is_active = |&index: &usize| context.activity.is_active(values[index]);
    (0..values.len()).filter(is_active).collect()
}

fn seeded_positions(results: &[Option<Adjoint>]) -> Vec<usize> {
    (0..results.len())
        .filter(|&index| results[index].is_some())
        .collect()
}

/// Values at some positions of a list, after `skipped` entries.
fn placed(count: usize, skipped: usize, positions: &[usize], values: &[ValueId]) -> Cotangents {
    let mut cotangents = vec![None; count];
    for (&position, &value) in positions.iter().zip(values) {
        if let Some(cotangent) = cotangents.get_mut(skipped + position) {
            *cotangent = Some(Adjoint {
                value,
                is_masked: true,
            });
        }
    }
    cotangents
}
