//! Captures of a loop that each iteration reads only at its own index, as in a scan over a sequence.
//!
//! The cotangent of such a capture consists of the cotangents of the slices that the iterations read: these are
//! stacked, instead of being added into a tensor of the whole sequence in every iteration.

use super::Reversal;
use crate::Result;
use crate::adjoint::Adjoints;
use crate::copy::Copy;
use crate::emit::{is_same, zeros_like};
use kiln_ir::{Dims, Graph, Op, PadMode, RegionId, ValueId};
use kiln_shape_inference::GraphBuilder;

/// A capture that is only sliced: its position, and the slices.
pub(super) struct Sliced {
    pub(super) capture: usize,
    slices: Vec<ValueId>,
}

impl Sliced {
    /// The slices, in the source graph.
    pub(super) fn slices(&self) -> impl Iterator<Item = &ValueId> {
        self.slices.iter()
    }
}

/// A capture of a region as slices at the iteration's index along the outermost axis, if it is read in no other way.
pub(super) fn slices_of(graph: &Graph, region: RegionId, capture: ValueId) -> Option<Vec<ValueId>> {
    let inner = graph.region(region);
    let &iteration = inner.parameters.first()?;
    if inner.results.contains(&capture) {
        return None;
    }
    let mut slices = Vec::new();
    for &op in &inner.ops {
        let data = graph.op(op);
        if !data.operands.contains(&capture) {
            continue;
        }
        match (&data.op, data.operands.as_slice()) {
            (Op::Gather { axis: 0 }, &[of, index]) if (of, index) == (capture, iteration) => {
                slices.extend(data.results.first());
            }
            _ => return None,
        }
    }
    (!slices.is_empty()).then_some(slices)
}

impl Reversal<'_> {
    /// Splits captures that collect cotangents into those that are only sliced, and all others.
    pub(super) fn split_captures(&mut self) {
        let graph = self.context.source;
        for capture in std::mem::take(&mut self.collecting) {
            match slices_of(graph, self.region, self.captured[capture]) {
                Some(slices) => self.sliced.push(Sliced { capture, slices }),
                None => self.collecting.push(capture),
            }
        }
    }

    /// The cotangents of an iteration's slices.
    pub(super) fn slice_cotangents(
        &self,
        b: &mut GraphBuilder,
        copy: &Copy,
        adjoints: &Adjoints,
    ) -> Result<Vec<ValueId>> {
        let mut cotangents = Vec::with_capacity(self.sliced.len());
        for sliced in &self.sliced {
            let mut sum: Option<ValueId> = None;
            for &slice in &sliced.slices {
                let Some(adjoint) = adjoints.get(slice) else {
                    continue;
                };
                sum = Some(match sum {
                    Some(sum) => b.add(sum, adjoint.value)?,
                    None => adjoint.value,
                });
            }
            cotangents.push(match (sum, sliced.slices.first()) {
                (Some(sum), _) => sum,
                (None, Some(&slice)) => zeros_like(b, copy.value(slice))?,
                (None, None) => unreachable!("a sliced capture has a slice"),
            });
        }
        Ok(cotangents)
    }
}

/// The cotangent of a sequence from those of its slices, stacked from the last iteration to the first; zero beyond the last.
pub(super) fn of_sequence(b: &mut GraphBuilder, stack: ValueId, like: ValueId) -> Result<ValueId> {
    let slices = b.reverse(stack, 0)?;
    let (own, wanted) = (b.shape(slices)?, b.shape(like)?);
    if is_same(b, own[0], wanted[0]) {
        return Ok(b.reshape(slices, &wanted)?);
    }
    let zero = b.size(0);
    let low: Dims = wanted.iter().map(|_| zero).collect();
    let mut high = low.clone();
    high[0] = b.dims_mut().sub(wanted[0], own[0])?;
    let nothing = b.scalar(b.dtype(slices)?, 0.0)?;
    Ok(b.pad(slices, nothing, &low, &high, PadMode::Constant)?)
}
