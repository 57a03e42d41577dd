//! The engine: a registry of rules, and the single way to query them.

use crate::context::InferenceContext;
use crate::error::{InferError, InferErrorKind};
use crate::node::OpView;
use crate::rule::{Inferred, ShapeInferenceRule};
use crate::rules::{CustomRule, core_rules};
use kiln_ir::{Op, Type};
use std::fmt;
use std::sync::Arc;

/// Rules by name. The rule registered last is tried first. Cheap to clone.
#[derive(Clone)]
pub struct ShapeInferenceEngine {
    rules: Vec<Arc<dyn ShapeInferenceRule>>,
}

impl ShapeInferenceEngine {
    /// An engine with a rule for every core op.
    pub fn new() -> Self {
        Self {
            rules: core_rules(),
        }
    }

    /// An engine without rules.
    pub fn empty() -> Self {
        Self { rules: Vec::new() }
    }

    /// Adds a rule; replaces one with the same name.
    pub fn register(&mut self, rule: Arc<dyn ShapeInferenceRule>) {
        self.unregister(rule.name());
        self.rules.push(rule);
    }

    /// Adds a rule for the custom op `name`.
    pub fn register_custom<F>(&mut self, name: &str, infer: F)
    where
        F: Fn(&mut InferenceContext<'_>, &OpView<'_>) -> Result<Inferred, InferError>
            + Send
            + Sync
            + 'static,
    {
        self.register(Arc::new(CustomRule::new(name, infer)));
    }

    /// Removes the rule `name`; returns whether there was one.
    pub fn unregister(&mut self, name: &str) -> bool {
        let before = self.rules.len();
        self.rules.retain(|rule| rule.name() != name);
        self.rules.len() < before
    }

    /// The names of the rules, in the order in which they are tried.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.rules.iter().rev().map(|rule| rule.name())
    }

    /// The rule for an op, if there is one.
    pub fn rule_for(&self, op: &Op) -> Option<&dyn ShapeInferenceRule> {
        self.rules
            .iter()
            .rev()
            .find(|rule| rule.can_infer(op))
            .map(|rule| &**rule)
    }

    /// The types of an op's results, and what is known about their elements.
    ///
    /// # Errors
    /// When no rule handles the op, or its rule rejects the operands.
    pub fn infer(
        &self,
        ctx: &mut InferenceContext<'_>,
        node: &OpView<'_>,
    ) -> Result<Inferred, InferError> {
        self.expect_rule(node)?.infer(ctx, node)
    }

    /// Checks an op's stated result types.
    ///
    /// # Errors
    /// As [`infer`](Self::infer); and when a stated type is not proved to be the inferred one.
    pub fn validate(
        &self,
        ctx: &mut InferenceContext<'_>,
        node: &OpView<'_>,
        stated: &[Type],
    ) -> Result<Inferred, InferError> {
        self.expect_rule(node)?.validate(ctx, node, stated)
    }

    fn expect_rule(&self, node: &OpView<'_>) -> Result<&dyn ShapeInferenceRule, InferError> {
        self.rule_for(node.op).ok_or_else(|| {
            node.error(match node.op {
                Op::Custom { name, .. } => InferErrorKind::UnknownCustom { name: name.clone() },
                _ => InferErrorKind::NoRule,
            })
        })
    }
}

impl Default for ShapeInferenceEngine {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for ShapeInferenceEngine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.names()).finish()
    }
}
