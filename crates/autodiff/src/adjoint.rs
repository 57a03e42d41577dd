//! Cotangents accumulated per value of the source graph.

use crate::Result;
use kiln_ir::ValueId;
use kiln_shape_inference::GraphBuilder;
use std::collections::{HashMap, HashSet};

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
pub(crate) struct Adjoints {
    values: HashMap<ValueId, Adjoint>,
    /// The values whose cotangents are results, and are kept after their definition was reached.
    kept: HashSet<ValueId>,
}

impl Adjoints {
    /// No cotangents yet; those of `kept` are results.
    pub(crate) fn keeping(kept: &[ValueId]) -> Self {
        Self {
            values: HashMap::new(),
            kept: kept.iter().copied().collect(),
        }
    }

    /// The cotangent of a value so far.
    pub(crate) fn get(&self, of: ValueId) -> Option<Adjoint> {
        self.values.get(&of).copied()
    }

    /// The cotangent of a value whose definition was reached: it is complete, and not needed again unless it is a result.
    pub(crate) fn take(&mut self, of: ValueId) -> Option<Adjoint> {
        if self.kept.contains(&of) {
            return self.get(of);
        }
        self.values.remove(&of)
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
        self.values.insert(of, sum);
        Ok(())
    }
}
