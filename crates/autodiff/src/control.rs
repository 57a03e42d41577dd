//! Gradients of control flow.
//!
//! A branch or an iteration is recomputed in the gradient's region, from its captures and, in a loop, the carried
//! values at its start, which the loop in the joint graph stacks; it is then reversed there. So a loop keeps the
//! carried values of each iteration, and no intermediate values.

mod products;
mod slices;

use self::products::{Multiplied, of_matrix};
use self::slices::{Sliced, of_sequence};
use crate::adjoint::{Adjoint, Adjoints};
use crate::context::Context;
use crate::copy::Copy;
use crate::emit::{number_of, zeros_like};
use crate::sweep::sweep;
use crate::{GradientError, Result};
use kiln_ir::{OpData, OpId, RegionId, Type, ValueId};
use kiln_shape_inference::{GraphBuilder, OpView};
use kiln_symbolic_shape::DimId;
use kiln_tensor::DType;

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

/// A loop being reversed: which of its values carry gradients, by position.
struct Reversal<'a> {
    context: &'a Context<'a>,
    /// The copy of the region that contains the loop.
    copy: &'a Copy,
    region: RegionId,
    initial: &'a [ValueId],
    carried: &'a [ValueId],
    captured: &'a [ValueId],
    /// Carried values whose cotangents travel from iteration to iteration.
    flowing: Vec<usize>,
    /// Captures that collect cotangents from every iteration.
    collecting: Vec<usize>,
    /// Captures of which each iteration reads a slice.
    sliced: Vec<Sliced>,
    /// Captured matrices that are only multiplied.
    multiplied: Vec<Multiplied>,
    /// Results of the region that are stacked and have cotangents.
    stacks: Vec<usize>,
    /// Carried values at the start of each iteration, stacked.
    history: Vec<(usize, ValueId)>,
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
    let (initial, captures) = rest.split_at(carried);
    let parameters = &context.source.region(region).parameters[1..];
    let (carried_parameters, captured) = parameters.split_at(carried);
    let stacked = seeded_positions(results).into_iter();
    let mut reversal = Reversal {
        context,
        copy,
        region,
        initial,
        carried: carried_parameters,
        captured,
        flowing: active_positions(context, carried_parameters),
        collecting: active_positions(context, captured),
        sliced: Vec::new(),
        multiplied: Vec::new(),
        stacks: stacked.filter(|&index| index >= carried).collect(),
        history: copy.history(b, context, op)?,
    };
    reversal.split_captures();
    reversal.split_factors();
    let Some(trips) = trips(b, copy, data, carried, &reversal.history) else {
        return Err(GradientError::Control {
            op: OpView::of_op(data).label(),
            reason: "its number of iterations is not known from any stacked value".to_owned(),
        });
    };
    let trips = number_of(b, &[trips], DType::I64)?;

    let mut start = Vec::new();
    for &index in &reversal.flowing {
        start.push(match results[index] {
            Some(adjoint) => adjoint.value,
            None => zeros_like(b, copy.value(data.results[index]))?,
        });
    }
    for &index in &reversal.collecting {
        start.push(zeros_like(b, copy.value(captures[index]))?);
    }
    let mut outside = vec![trips];
    outside.extend(copy.values(captures));
    outside.extend(reversal.history.iter().map(|&(_, stack)| stack));
    let seeds = reversal.stacks.iter().filter_map(|&index| results[index]);
    outside.extend(seeds.map(|adjoint| adjoint.value));

    let found = b.repeat(trips, &start, &outside, |b, round, flow, outside| {
        reversal.iteration(b, round, flow, outside)
    })?;
    let (flow, rest) = found.split_at(reversal.flowing.len());
    let mut cotangents = placed(data.operands.len(), 2, &reversal.flowing, flow);
    let of_captures = reversal.of_captures(b, captures, rest)?;
    let places = cotangents.iter_mut().skip(2 + carried);
    for (cotangent, of_capture) in places.zip(of_captures) {
        *cotangent = of_capture;
    }
    Ok(cotangents)
}

impl Reversal<'_> {
    /// The cotangents of the captures, from the results of the loop over the iterations: the sums, the stacks of
    /// slices' cotangents, and those of rows of products.
    fn of_captures(
        &self,
        b: &mut GraphBuilder,
        captures: &[ValueId],
        found: &[ValueId],
    ) -> Result<Cotangents> {
        let (sums, stacks) = found.split_at(self.collecting.len());
        let (slices, mut rows) = stacks.split_at(self.sliced.len());
        let mut cotangents = placed(captures.len(), 0, &self.collecting, sums);
        for (sliced, &stack) in self.sliced.iter().zip(slices) {
            let like = self.copy.value(captures[sliced.capture]);
            cotangents[sliced.capture] = Some(Adjoint {
                value: of_sequence(b, stack, like)?,
                is_masked: true,
            });
        }
        for multiplied in &self.multiplied {
            let (own, rest) = rows.split_at(multiplied.n_stacks());
            rows = rest;
            cotangents[multiplied.capture] = Some(Adjoint {
                value: of_matrix(b, own)?,
                is_masked: true,
            });
        }
        Ok(cotangents)
    }

    /// Recomputes and reverses an iteration; the results are the cotangents of the carried values before it, then the
    /// sums of those of the captures, and those of the slices, and rows of products. `outside` is the number of
    /// iterations, the captures, the history, and the cotangents of the stacks.
    fn iteration(
        &self,
        b: &mut GraphBuilder,
        round: ValueId,
        flow: &[ValueId],
        outside: &[ValueId],
    ) -> Result<(Vec<ValueId>, Vec<ValueId>)> {
        let context = self.context;
        let inner = context.source.region(self.region);
        let (flow, collected) = flow.split_at(self.flowing.len());
        let (trips, outside) = (outside[0], &outside[1..]);
        let (captures, outside) = outside.split_at(self.captured.len());
        let (kept, seeds) = outside.split_at(self.history.len());
        let one = b.scalar(DType::I64, 1.0)?;
        let last = b.sub(trips, one)?;
        let iteration = b.sub(last, round)?;

        let mut inside = vec![iteration];
        for (index, &parameter) in self.carried.iter().enumerate() {
            let stack = self.history.iter().position(|&(kept, _)| kept == index);
            inside.push(match stack {
                Some(stack) => b.gather(kept[stack], iteration, 0)?,
                // Read by no op of the body.
                None => stand_in(b, context, self.copy, parameter, self.initial[index])?,
            });
        }
        inside.extend_from_slice(captures);
        let mut copy = self.copy.enter(b, context, self.region, &inside).reversed();
        copy.fill(b, context, self.region)?;

        let slices = self.sliced.iter().flat_map(|sliced| sliced.slices());
        let products = self.multiplied.iter().flat_map(Multiplied::results);
        let watched: Vec<ValueId> = slices.copied().chain(products).collect();
        let mut adjoints = Adjoints::keeping(&watched);
        let carried = self.flowing.iter().zip(flow);
        for (&index, &cotangent) in carried {
            let result = inner.results[index + 1];
            seed_result(b, context, &copy, result, cotangent, &mut adjoints)?;
        }
        for (&index, &stack) in self.stacks.iter().zip(seeds) {
            let cotangent = b.gather(stack, iteration, 0)?;
            let result = inner.results[index + 1];
            seed_result(b, context, &copy, result, cotangent, &mut adjoints)?;
        }
        sweep(b, context, self.region, &copy, &mut adjoints)?;

        let mut next = Vec::new();
        for &index in &self.flowing {
            let parameter = self.carried[index];
            next.push(or_zeros(b, &adjoints, parameter, copy.value(parameter))?);
        }
        for (&index, &sum) in self.collecting.iter().zip(collected) {
            next.push(match adjoints.get(self.captured[index]) {
                Some(adjoint) => b.add(sum, adjoint.value)?,
                None => sum,
            });
        }
        let mut stacked = self.slice_cotangents(b, &copy, &adjoints)?;
        stacked.extend(self.rows_of_products(b, &copy, &adjoints)?);
        Ok((next, stacked))
    }
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

/// A value of a carried parameter's type, in place of one that no op reads.
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
    // The branch that was not taken, and iterations on which no output depends, have cotangents of zero.
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
