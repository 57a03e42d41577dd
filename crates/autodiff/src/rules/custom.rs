//! Gradients of custom ops, registered by name.

use super::{Cotangents, GradientContext};
use crate::{GradientError, Result};
use kiln_ir::{Graph, ValueId};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// The metadata key which marks a graph some of whose values were recorded with gradients that are not those of the ops
/// that compute them. Such a graph is not differentiated.
pub const CUSTOM_GRADIENTS: &str = "custom_gradients";

/// The gradient of a custom op.
pub trait CustomGradient: Send + Sync {
    /// The cotangent of each operand, `None` if it is zero or not [wanted](GradientContext::is_wanted). Each has its
    /// operand's dtype and number of elements.
    ///
    /// # Errors
    /// When the op cannot be differentiated, or an emitted op does not fit.
    fn cotangents(
        &self,
        context: &mut GradientContext<'_, '_>,
    ) -> Result<Vec<Option<ValueId>>, GradientError>;
}

impl<F> CustomGradient for F
where
    F: Fn(&mut GradientContext<'_, '_>) -> Result<Vec<Option<ValueId>>, GradientError>
        + Send
        + Sync,
{
    fn cotangents(
        &self,
        context: &mut GradientContext<'_, '_>,
    ) -> Result<Vec<Option<ValueId>>, GradientError> {
        self(context)
    }
}

/// The gradients of custom ops. Cheap to clone.
#[derive(Clone, Default)]
pub struct GradientRules(BTreeMap<String, Arc<dyn CustomGradient>>);

impl GradientRules {
    /// No custom op has a gradient.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the gradient of the custom op `name`.
    pub fn register(&mut self, name: &str, gradient: Arc<dyn CustomGradient>) {
        self.0.insert(name.to_owned(), gradient);
    }

    /// Whether no custom op has a gradient.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn get(&self, name: &str) -> Option<&dyn CustomGradient> {
        self.0.get(name).map(|gradient| &**gradient)
    }
}

impl fmt::Debug for GradientRules {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.keys()).finish()
    }
}

/// Rejects a graph that has custom gradients.
pub(crate) fn expect_own_gradients(graph: &Graph) -> Result<()> {
    match graph.metadata().contains_key(CUSTOM_GRADIENTS) {
        true => Err(GradientError::OnlyRecorded),
        false => Ok(()),
    }
}

impl GradientContext<'_, '_> {
    pub(super) fn custom(&mut self, name: &str) -> Result<Cotangents> {
        let context = self.context;
        let Some(gradient) = context.rules.get(name) else {
            return Err(GradientError::NoCustomRule {
                name: name.to_owned(),
                op: self.label(),
            });
        };
        let cotangents = gradient.cotangents(self)?;
        let (expected, found) = (self.operands().len(), cotangents.len());
        if found != expected {
            return Err(GradientError::CustomCount {
                op: self.label(),
                expected,
                found,
            });
        }
        for (index, &cotangent) in cotangents.iter().enumerate() {
            let Some(cotangent) = cotangent else { continue };
            let expected = self.builder.dtype(self.operand(index))?;
            if self.builder.dtype(cotangent)? != expected {
                return Err(GradientError::CustomType {
                    op: self.label(),
                    index,
                    expected,
                    found: self.builder.describe(cotangent),
                });
            }
        }
        Ok(cotangents)
    }
}
