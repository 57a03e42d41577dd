//! `Scan`: a loop over the entries of sequences.
//!
//! Until version 8 every operand has a leading batch axis: the loop is then nested in one over batches.

use kiln_ir::ValueId;
use kiln_shape_inference::GraphBuilder;
use kiln_symbolic_shape::DimId;
use kiln_tensor::DType;

use super::context::{NodeContext, Outputs};
use super::control::{Captures, RegionError, bind_input, import_region, tensors};
use super::graph::{Frame, origin_of};
use super::item::Item;
use crate::{Error, ModelGraph, ModelNode};

/// The axis along which, and the direction in which, `Scan` reads or writes a sequence.
#[derive(Clone, Copy)]
struct Sequence {
    axis: usize,
    backwards: bool,
}

/// The entries of `Scan`'s attributes for one side; both are 0 if omitted.
fn sequences(
    ctx: &NodeContext<'_>,
    (axes, directions): (&str, &str),
    ranks: &[usize],
) -> Result<Vec<Sequence>, Error> {
    let read = |name: &str| -> Result<Vec<i64>, Error> {
        let given = ctx.attributes().get::<&[i64]>(name)?;
        match given {
            None => Ok(vec![0; ranks.len()]),
            Some(given) if given.len() == ranks.len() => Ok(given.to_vec()),
            Some(given) => {
                let expected = format!("{} entries", ranks.len());
                Err(ctx.attribute_error(name, expected, given.len()))
            }
        }
    };
    let (axes, directions) = (read(axes)?, read(directions)?);
    let entries = axes.into_iter().zip(directions).zip(ranks);
    entries
        .map(|((axis, direction), &rank)| {
            let axis = ctx.axis(axis, rank)?;
            Ok(Sequence {
                axis,
                backwards: direction == 1,
            })
        })
        .collect()
}

/// The parts of a node from which the loop is built.
struct Scan<'a> {
    body: &'a ModelGraph,
    read: Vec<Sequence>,
    n_carried: usize,
    captures: Captures,
    frame: Frame<'a>,
    node: &'a ModelNode,
    origin: String,
}

/// The number of entries, and the index of the last of them, as scalars.
#[derive(Clone, Copy)]
struct Length {
    trips: ValueId,
    last: ValueId,
}

impl<'a> Scan<'a> {
    /// Reads a node whose first `skipped` operands are neither carried nor scanned.
    fn of(ctx: &NodeContext<'a>, skipped: usize) -> Result<Self, Error> {
        let body = ctx.attributes().require::<&ModelGraph>("body")?;
        let n_sequences = ctx.attributes().require::<i64>("num_scan_inputs")?;
        let n_inputs = ctx.n_inputs().saturating_sub(skipped);
        let n_sequences = usize::try_from(n_sequences)
            .ok()
            .filter(|&count| (1..=n_inputs).contains(&count))
            .ok_or_else(|| ctx.attribute_error("num_scan_inputs", "1 or more", n_sequences))?;
        let n_carried = n_inputs - n_sequences;
        ctx.expect_inputs(body, n_inputs)?;
        ctx.expect_outputs(body, n_carried)?;
        Ok(Self {
            body,
            read: Vec::new(),
            n_carried,
            captures: Captures::of(ctx, &[body]),
            frame: ctx.frame.within_region(true),
            node: ctx.node,
            origin: origin_of(ctx.frame, ctx.node),
        })
    }

    /// Adds the loop; the outside values that the body reads are in `captured`.
    fn add(
        &self,
        builder: &mut GraphBuilder,
        length: Length,
        (carried, scanned): (&[ValueId], &[ValueId]),
        captured: &[ValueId],
    ) -> Result<Vec<ValueId>, RegionError> {
        let mut values = vec![length.last];
        values.extend(scanned);
        values.extend(captured);
        builder.repeat(
            length.trips,
            carried,
            &values,
            |builder, iteration, carried, values| {
                let Some((&last, values)) = values.split_first() else {
                    unreachable!("the last index is passed in");
                };
                let (scanned, captured) = values.split_at(scanned.len());
                let mut names = self.captures.names(builder, captured)?;
                for (index, &value) in carried.iter().enumerate() {
                    bind_input(&mut names, self.body, index, value);
                }
                for (index, (&value, sequence)) in scanned.iter().zip(&self.read).enumerate() {
                    let position = if sequence.backwards {
                        builder.sub(last, iteration)?
                    } else {
                        iteration
                    };
                    let entry = builder.gather(value, position, sequence.axis)?;
                    bind_input(&mut names, self.body, self.n_carried + index, entry);
                }
                let results = import_region(&self.frame, builder, self.body, names, &self.origin)?;
                let mut results = tensors(self.node, results)?;
                let stacked = results.split_off(self.n_carried.min(results.len()));
                Ok((results, stacked))
            },
        )
    }
}

/// The length of sequences whose axis is of size `length`.
fn length_of(ctx: &mut NodeContext<'_>, length: DimId) -> Result<Length, Error> {
    ctx.build(|builder| {
        let trips = builder.dims_tensor(&[length])?;
        let trips = builder.reshape(trips, &[])?;
        let one = builder.scalar(DType::I64, 1.0)?;
        let last = builder.sub(trips, one)?;
        Ok(Length { trips, last })
    })
}

/// `Scan`.
pub(crate) fn import_scan(ctx: &mut NodeContext<'_>) -> Result<Outputs, Error> {
    if ctx.version() < 9 {
        return import_batches(ctx);
    }
    let mut scan = Scan::of(ctx, 0)?;
    let inputs = (0..ctx.n_inputs()).map(|index| ctx.input(index));
    let inputs = inputs.collect::<Result<Vec<_>, _>>()?;
    let (carried, scanned) = inputs.split_at(scan.n_carried);
    let ranks = scanned.iter().map(|&value| ctx.rank(value));
    let ranks = ranks.collect::<Result<Vec<_>, _>>()?;
    scan.read = sequences(ctx, ("scan_input_axes", "scan_input_directions"), &ranks)?;
    let length = ctx.shape(scanned[0])?[scan.read[0].axis];
    let length = length_of(ctx, length)?;
    let captured = scan.captures.values();
    let results = scan.add(ctx.builder, length, (carried, scanned), &captured);
    let mut results = ctx.placed(results)?;
    arrange_stacked(ctx, &mut results[scan.n_carried..])?;
    Ok(results.into_iter().map(Item::Tensor).collect())
}

/// Version 8: operand 0 is the lengths, and every other has the batch axis, then that of the sequence.
fn import_batches(ctx: &mut NodeContext<'_>) -> Result<Outputs, Error> {
    if ctx.optional(0).is_some() {
        return Err(ctx.unsupported("a scan over sequences of different lengths"));
    }
    let mut scan = Scan::of(ctx, 1)?;
    let inputs = (1..ctx.n_inputs()).map(|index| ctx.input(index));
    let inputs = inputs.collect::<Result<Vec<_>, _>>()?;
    let n_scanned = inputs.len() - scan.n_carried;
    for (index, &value) in inputs.iter().enumerate() {
        let least = if index < scan.n_carried { 1 } else { 2 };
        if ctx.rank(value)? < least {
            let found = ctx.builder().describe(value);
            let expected = format!("a tensor of rank {least} or more");
            return Err(ctx.operand_error(index + 1, expected, found));
        }
    }
    // Inside the loop over batches, sequences are along axis 0.
    scan.read = sequences(ctx, ("", "directions"), &vec![1; n_scanned])?;
    let dims = ctx.shape(inputs[scan.n_carried])?;
    let batches = length_of(ctx, dims[0])?;
    let length = length_of(ctx, dims[1])?;
    let mut values = vec![length.trips, length.last];
    values.extend(&inputs);
    values.extend(scan.captures.values());
    let results = ctx
        .builder
        .repeat(batches.trips, &[], &values, |builder, batch, _, values| {
            let [trips, last, values @ ..] = values else {
                unreachable!("the length is passed in");
            };
            let length = Length {
                trips: *trips,
                last: *last,
            };
            let (inputs, captured) = values.split_at(inputs.len());
            let entries = inputs.iter().map(|&value| builder.gather(value, batch, 0));
            let entries = entries.collect::<Result<Vec<_>, _>>()?;
            let operands = entries.split_at(scan.n_carried);
            let results = scan.add(builder, length, operands, captured)?;
            Ok((Vec::new(), results))
        });
    let results = ctx.placed(results)?;
    Ok(results.into_iter().map(Item::Tensor).collect())
}

/// Moves the axis of stacked entries, which is the outermost, to the node's position.
fn arrange_stacked(ctx: &mut NodeContext<'_>, stacked: &mut [ValueId]) -> Result<(), Error> {
    let ranks = stacked.iter().map(|&value| ctx.rank(value));
    let ranks = ranks.collect::<Result<Vec<_>, _>>()?;
    let written = sequences(ctx, ("scan_output_axes", "scan_output_directions"), &ranks)?;
    for ((value, sequence), rank) in stacked.iter_mut().zip(written).zip(ranks) {
        if sequence.backwards {
            *value = ctx.build(|builder| builder.reverse(*value, 0))?;
        }
        if sequence.axis != 0 {
            let mut axes: Vec<usize> = (1..rank).collect();
            axes.insert(sequence.axis, 0);
            *value = ctx.build(|builder| builder.transpose(*value, &axes))?;
        }
    }
    Ok(())
}
