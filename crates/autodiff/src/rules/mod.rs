//! Rules, which map the cotangents of an op's results to those of its operands: one file per family of ops.
//!
//! A rule emits ops into the joint graph. It may read the op's operands and results there, and emits nothing for
//! operands whose cotangent is not needed. Control ops are handled in `control`.

mod contraction;
mod cumulate;
mod custom;
mod elementwise;
mod indexing;
mod movement;
mod pool;
mod reduction;
mod resize;
mod scatter;
mod softmax;
mod window;

pub(crate) use custom::expect_own_gradients;
pub use custom::{CUSTOM_GRADIENTS, CustomGradient, GradientRules};
pub(crate) use softmax::Softmax;

use crate::adjoint::Adjoint;
use crate::context::Context;
use crate::edges::slope;
use crate::emit::zeros_like;
use crate::{GradientError, Result};
use kiln_ir::{Dims, Op, OpData, ValueId};
use kiln_shape_inference::{GraphBuilder, OpView};

/// The op to which a rule is applied, and its values in the joint graph.
#[derive(Debug)]
pub(crate) struct Rule<'a> {
    /// The op, of the source graph.
    pub(crate) data: &'a OpData,
    /// Its operands.
    pub(crate) operands: &'a [ValueId],
    /// Its results.
    pub(crate) results: &'a [ValueId],
    /// The cotangents of its results, if they have any.
    pub(crate) cotangents: &'a [Option<Adjoint>],
    /// The operands whose cotangents are needed.
    pub(crate) wanted: &'a [bool],
}

/// An op being reversed, with the builder of the joint graph.
#[derive(Debug)]
pub struct GradientContext<'a, 'g> {
    /// The builder, to emit ops with.
    pub builder: &'a mut GraphBuilder,
    context: &'a Context<'g>,
    rule: Rule<'a>,
}

/// Cotangents by operand.
pub(crate) type Cotangents = Vec<Option<ValueId>>;

impl<'a, 'g> GradientContext<'a, 'g> {
    pub(crate) fn new(
        builder: &'a mut GraphBuilder,
        context: &'a Context<'g>,
        rule: Rule<'a>,
    ) -> Self {
        Self {
            builder,
            context,
            rule,
        }
    }

    /// The op and its attributes.
    pub fn op(&self) -> &'a Op {
        &self.rule.data.op
    }

    /// The op's operands in the joint graph.
    pub fn operands(&self) -> &'a [ValueId] {
        self.rule.operands
    }

    /// The op's results in the joint graph.
    pub fn results(&self) -> &'a [ValueId] {
        self.rule.results
    }

    /// The cotangent of result `index`, of the result's type; zeros if nothing depends on it.
    ///
    /// # Errors
    /// When there is no such result, or it is not a tensor.
    pub fn cotangent(&mut self, index: usize) -> Result<ValueId> {
        match (
            self.rule.cotangents.get(index).copied().flatten(),
            self.results().get(index),
        ) {
            (Some(adjoint), _) => Ok(adjoint.value),
            (None, Some(&result)) => zeros_like(self.builder, result),
            (None, None) => Err(self.unsupported(format!("result {index}"))),
        }
    }

    /// Whether the cotangent of operand `index` is needed.
    pub fn is_wanted(&self, index: usize) -> bool {
        self.rule.wanted.get(index).copied().unwrap_or_default()
    }

    /// The op's name in messages.
    pub(crate) fn label(&self) -> String {
        OpView::of_op(self.rule.data).label()
    }

    pub(crate) fn unsupported(&self, what: impl Into<String>) -> GradientError {
        GradientError::Unsupported {
            op: self.label(),
            what: what.into(),
        }
    }

    /// Operand `index` of an op that a verifier accepted.
    fn operand(&self, index: usize) -> ValueId {
        match self.rule.operands.get(index) {
            Some(&operand) => operand,
            None => unreachable!("a verified {} has operand {index}", self.label()),
        }
    }

    /// Result `index` of an op that a verifier accepted.
    fn result(&self, index: usize) -> ValueId {
        match self.rule.results.get(index) {
            Some(&result) => result,
            None => unreachable!("a verified {} has result {index}", self.label()),
        }
    }

    /// The sizes of a value.
    fn dims(&self, value: ValueId) -> Result<Dims> {
        Ok(self.builder.shape(value)?)
    }

    /// Whether any cotangent of a result is zero where something was masked.
    fn is_masked(&self) -> bool {
        let mut cotangents = self.rule.cotangents.iter().flatten();
        cotangents.any(|adjoint| adjoint.is_masked)
    }

    /// The cotangents of the operands, for those that are wanted.
    pub(crate) fn cotangents(mut self) -> Result<Vec<Option<Adjoint>>> {
        let values = self.apply()?;
        let is_masked = self.is_masked();
        let data = self.rule.data;
        let makes_mask = |index: usize| {
            let slope = match &data.op {
                Op::Map {
                    function,
                    parameters,
                } => slope(*function, parameters, index),
                _ => None,
            };
            let masks = &self.context.masks;
            masks.made_by(data, index, slope.as_ref())
        };
        let cotangents = values.into_iter().enumerate().map(|(index, value)| {
            let value = value.filter(|_| self.is_wanted(index))?;
            Some(Adjoint {
                value,
                is_masked: is_masked || makes_mask(index),
            })
        });
        Ok(cotangents.collect())
    }

    fn apply(&mut self) -> Result<Cotangents> {
        match self.op() {
            Op::Map {
                function,
                parameters,
            } => self.map(*function, parameters),
            Op::Cast { .. } => self.cast(),
            Op::Reshape { .. } => self.reshape(),
            Op::Broadcast { .. } => self.broadcast(),
            Op::Transpose { permutation } => self.transpose(permutation),
            Op::Slice { starts, steps, .. } => self.slice(starts, steps),
            Op::Pad { low, high, mode } => self.pad(low, high, *mode),
            Op::Concat { axis } => self.concat(*axis),
            Op::Gather { axis } => self.gather(*axis),
            Op::GatherElements { axis } => self.gather_elements(*axis),
            Op::GatherNd { batch_axes } => self.gather_nd(*batch_axes),
            Op::ScatterElements { combine, .. } | Op::ScatterNd { combine } => {
                self.scatter(*combine)
            }
            Op::UpdateSlice { axes } => self.update_slice(axes),
            Op::Matmul { .. } => self.matmul(),
            Op::Conv { window, groups, .. } => self.conv(window, *groups),
            Op::ConvTranspose { window, groups, .. } => self.conv_transpose(window, *groups),
            Op::Reduce { function, axes, .. } => self.reduce(*function, axes),
            Op::Cumulate {
                function,
                axis,
                exclusive,
                reverse,
            } => self.cumulate(*function, *axis, *exclusive, *reverse),
            Op::Pool {
                function,
                size,
                window,
            } => self.pool(*function, size, window),
            Op::Resize(resize) => self.resize(resize),
            Op::TopK { axis, .. } => self.top_k(*axis),
            Op::Custom { name, .. } => self.custom(name),
            // Sources and ops whose results are integers or sizes: `edges` has no smooth edge for them.
            _ => Ok(Vec::new()),
        }
    }
}
