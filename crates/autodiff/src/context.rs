//! The context shared by all parts of a differentiation: the source graph, and what is known about it.

use crate::activity::Activity;
use crate::masks::Masks;
use crate::rules::GradientRules;
use crate::{GradientError, Result};
use kiln_ir::{Graph, Op, OpData, ValueId};
use kiln_shape_inference::OpView;
use std::collections::HashSet;

/// The graph being differentiated, with the analyses of it.
#[derive(Debug)]
pub(crate) struct Context<'g> {
    pub(crate) source: &'g Graph,
    pub(crate) rules: &'g GradientRules,
    pub(crate) activity: Activity,
    pub(crate) masks: Masks,
}

impl Context<'_> {
    /// The carried values of a loop that its gradient needs from every iteration: all that the body reads, if the loop carries
    /// gradients.
    pub(crate) fn kept_for_reversal(&self, data: &OpData, carried: usize) -> Result<Vec<usize>> {
        let is_active = |&value: &ValueId| self.activity.is_active(value);
        let [region] = data.regions.as_slice() else {
            return Ok(Vec::new());
        };
        if !matches!(data.op, Op::Loop { .. }) || !data.results.iter().any(is_active) {
            return Ok(Vec::new());
        }
        let inner = self.source.region(*region);
        let ops = inner.ops.iter().map(|&op| self.source.op(op));
        let read: HashSet<ValueId> = ops.flat_map(|op| op.operands.iter().copied()).collect();
        let mut kept = Vec::new();
        for (index, parameter) in inner.parameters.iter().skip(1).take(carried).enumerate() {
            // One value is stacked in any case: its length is the number of iterations.
            let counts = index == 0 && data.results.len() == carried;
            if !read.contains(parameter) && !counts {
                continue;
            }
            let control = |reason: String| GradientError::Control {
                op: OpView::of_op(data).label(),
                reason,
            };
            let Some(ty) = self.source.tensor_ty(*parameter) else {
                return Err(control(format!("carried value {index} is not a tensor")));
            };
            let symbols = |&dim: &_| self.source.dims().as_symbol(dim);
            let mut sizes = ty.dims.iter().filter_map(symbols);
            if sizes.any(|symbol| inner.symbols.contains(&symbol)) {
                let reason = format!("the size of carried value {index} changes in an iteration");
                return Err(control(reason));
            }
            kept.push(index);
        }
        Ok(kept)
    }
}
