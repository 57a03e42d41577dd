//! Custom ops: the one rule that users write, as a function.
//!
//! Without a registered rule a custom op has no types: the engine returns `E0337`.

use crate::context::InferenceContext;
use crate::error::InferError;
use crate::node::OpView;
use crate::rule::{Inferred, ShapeInferenceRule};
use kiln_ir::Op;

/// A rule for one custom op, from a function.
pub(crate) struct CustomRule<F> {
    name: String,
    infer: F,
}

impl<F> CustomRule<F> {
    pub(crate) fn new(name: &str, infer: F) -> Self {
        Self {
            name: name.to_owned(),
            infer,
        }
    }
}

impl<F> ShapeInferenceRule for CustomRule<F>
where
    F: Fn(&mut InferenceContext<'_>, &OpView<'_>) -> Result<Inferred, InferError> + Send + Sync,
{
    fn name(&self) -> &str {
        &self.name
    }

    fn can_infer(&self, op: &Op) -> bool {
        matches!(op, Op::Custom { name, .. } if *name == self.name)
    }

    fn infer(
        &self,
        ctx: &mut InferenceContext<'_>,
        node: &OpView<'_>,
    ) -> Result<Inferred, InferError> {
        (self.infer)(ctx, node)
    }
}
