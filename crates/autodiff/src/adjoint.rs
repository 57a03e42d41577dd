//! Cotangents accumulated per value of the source graph.

use crate::Result;
use kiln_ir::ValueId;
use kiln_shape_inference::GraphBuilder;
use std::collections::HashMap;

/// The cotangent of a value: a value of the joint graph with the same dtype and sizes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Adjoint {
    /// The cotangent.
    pub(crate) value: ValueId,
    /// Whether it may be zero where the value was masked, so that an infinite derivative must not be multiplied by it.
    pub(crate) is_masked: bool,
}

/// Cotangents by value of the source graph.
#[derive(Debug, Default)]
pub(crate) struct Adjoints(HashMap<ValueId, Adjoint>);

impl Adjoints {
    /// The cotangent of a value so far.
    pub(crate) fn get(&self, of: ValueId) -> Option<Adjoint> {
        self.0.get(&of).copied()
    }

    /// Removes the cotangent of a value whose definition was reached.
    pub(crate) fn take(&mut self, of: ValueId) -> Option<Adjoint> {
        self.0.remove(&of)
    }

    /// Adds to the cotangent of a value, which is `like` in the joint graph.
    pub(crate) fn add(
        &mut self,
        b: &mut GraphBuilder,
        of: ValueId,
        like: ValueId,
        more: Adjoint,
    ) -> Result<()> {
        // The same sizes, written the same way.
        let dims = b.shape(like)?;
        let value = b.reshape(more.value, &dims)?;
        let more = Adjoint { value, ..more };
        let sum = match self.get(of) {
            None => more,
            Some(before) => Adjoint {
                value: b.add(before.value, more.value)?,
                is_masked: before.is_masked || more.is_masked,
            },
        };
        self.0.insert(of, sum);
        Ok(())
    }
}
