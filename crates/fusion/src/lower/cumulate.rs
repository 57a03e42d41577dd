//! Running reductions: a carry block if the output's axis is its steps, otherwise a reduction over the prefix.
//!
//! The second form is always correct, but quadratic; if the first is possible, that is recorded for the next attempt.

use kiln_ir::{CumulateFunction, OpData};
use kiln_kernel::{Axes, NodeId, Reduction, StageOperation};
use kiln_scalar::{ScalarOp, ScalarValue};
use kiln_tensor::DType;

use super::context::{Demand, RegionLowering, Step, compute_dtype};
use super::guard::GuardId;
use super::pool::{highest, lowest};

/// A running reduction's attributes.
#[derive(Clone, Copy)]
pub(super) struct Cumulate {
    pub(super) function: CumulateFunction,
    pub(super) axis: usize,
    pub(super) exclusive: bool,
    pub(super) reverse: bool,
}

impl RegionLowering<'_> {
    pub(super) fn cumulate(
        &mut self,
        data: &OpData,
        cumulate: Cumulate,
        demand: &Demand,
    ) -> Step<NodeId> {
        let steps = self.as_axis(demand.indices[cumulate.axis]);
        if demand.guard == GuardId::NONE
            && let Some(axis) = steps
        {
            if self.clock == Some((axis, cumulate.reverse)) {
                return self.carried(data, cumulate, demand);
            }
            if self.ambient.contains(&axis) {
                let clock = (axis, cumulate.reverse);
                self.findings.clock.get_or_insert(clock);
            }
        }
        self.triangle(data, cumulate, demand)
    }

    /// Within a carry block over the axis.
    fn carried(&mut self, data: &OpData, cumulate: Cumulate, demand: &Demand) -> Step<NodeId> {
        let dtype = compute_dtype(self.ty(demand.value)?.dtype);
        let (op, _, start) = joining(cumulate.function, dtype);
        let (stage, reads) = self.read_carried(demand, start, &mut |this, stage, before| {
            let element = this.get(data.operands[0], stage.indices.clone(), stage.guard)?;
            Ok(this.b.apply(op, [before, element]))
        })?;
        Ok(match cumulate.exclusive {
            true => self.b.previous(stage, reads),
            false => self.b.local(stage, reads),
        })
    }

    /// Outside of a carry block.
    fn triangle(&mut self, data: &OpData, cumulate: Cumulate, demand: &Demand) -> Step<NodeId> {
        let x = data.operands[0];
        let axis = cumulate.axis;
        let bound = self.shape(x)?[axis];
        let accumulator = compute_dtype(self.ty(demand.value)?.dtype);
        let (_, reduction, _) = joining(cumulate.function, accumulator);
        self.read_stage(demand, &mut |this, stage| {
            let at = stage.indices[axis];
            let (size, one) = (this.b.size(bound), this.integer(1));
            // The elements before, in the direction of the run, and the element itself.
            let before = match cumulate.reverse {
                false => at,
                true => {
                    let last = this.sub(size, one);
                    this.sub(last, at)
                }
            };
            let count = match cumulate.exclusive {
                true => before,
                false => this.add(before, one),
            };
            let made = this.clamped_axis(stage, 0, count, bound);
            let mut indices = stage.indices.clone();
            let run = this.b.index(made);
            indices[axis] = match cumulate.reverse {
                false => run,
                true => {
                    let last = this.sub(size, one);
                    this.sub(last, run)
                }
            };
            let element = this.get(x, indices, stage.guard)?;
            let operation = StageOperation::Reduce {
                reduction,
                axes: Axes::from_slice(&[made]),
                accumulator,
            };
            Ok((operation, element))
        })
    }
}

fn joining(function: CumulateFunction, dtype: DType) -> (ScalarOp, Reduction, ScalarValue) {
    let one = || ScalarValue::from_number(1.0, dtype).unwrap_or(ScalarValue::Bool(true));
    match (function, dtype == DType::Bool) {
        (CumulateFunction::Sum, false) => (ScalarOp::Add, Reduction::Add, ScalarValue::zero(dtype)),
        (CumulateFunction::Product, false) => (ScalarOp::Mul, Reduction::Mul, one()),
        (CumulateFunction::Max, false) => (ScalarOp::Max, Reduction::Max, lowest(dtype)),
        (CumulateFunction::Min, false) => (ScalarOp::Min, Reduction::Min, highest(dtype)),
        (CumulateFunction::Sum | CumulateFunction::Max, true) => {
            (ScalarOp::Or, Reduction::Or, ScalarValue::Bool(false))
        }
        (CumulateFunction::Product | CumulateFunction::Min, true) => {
            (ScalarOp::And, Reduction::And, ScalarValue::Bool(true))
        }
    }
}
