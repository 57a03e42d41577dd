//! The rule: how the types of an op's results follow from its operands.
//!
//! A rule keeps no state; everything it may query is in the [`InferenceContext`]. One file per family of ops under
//! `rules/`; users add rules for their own ops.

use crate::context::InferenceContext;
use crate::error::InferError;
use crate::known::KnownValue;
use crate::node::OpView;
use kiln_ir::{Op, Type};
use smallvec::{SmallVec, smallvec};

/// Infers the types of the results of some ops.
pub trait ShapeInferenceRule: Send + Sync {
    /// The name under which it is registered.
    fn name(&self) -> &str;

    /// Whether this rule handles `op`.
    fn can_infer(&self, op: &Op) -> bool;

    /// The types of the results, and what is known about their elements. Records the facts that the op requires about
    /// the graph's dimensions.
    ///
    /// # Errors
    /// When the operands do not fit the op on any call.
    fn infer(
        &self,
        ctx: &mut InferenceContext<'_>,
        node: &OpView<'_>,
    ) -> Result<Inferred, InferError>;

    /// Checks stated result types against the inferred ones, by proof.
    ///
    /// # Errors
    /// When they differ, or when they are not proved to be equal.
    fn validate(
        &self,
        ctx: &mut InferenceContext<'_>,
        node: &OpView<'_>,
        stated: &[Type],
    ) -> Result<Inferred, InferError> {
        let inferred = self.infer(ctx, node)?;
        ctx.check_types(node, &inferred.types, stated)?;
        Ok(inferred)
    }
}

/// The results that a rule inferred for an op.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Inferred {
    /// The types, one per result.
    pub types: SmallVec<[Type; 1]>,
    /// What is known about the elements, one entry per result; missing entries are unknown.
    pub values: SmallVec<[Option<KnownValue>; 1]>,
}

impl Inferred {
    /// One result, of which only the type is known.
    pub fn of(ty: Type) -> Self {
        Self {
            types: smallvec![ty],
            values: SmallVec::new(),
        }
    }

    /// Several results of which only the types are known.
    pub fn all(types: impl IntoIterator<Item = Type>) -> Self {
        Self {
            types: types.into_iter().collect(),
            values: SmallVec::new(),
        }
    }

    /// The same, with the elements of the first result.
    pub fn with_value(mut self, value: Option<KnownValue>) -> Self {
        self.values = smallvec![value];
        self
    }
}
