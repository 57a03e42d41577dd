//! A map fused into the array that it reads: each element is mapped while it is still in a register.
//!
//! Attention scores are sums of products that are then scaled and masked. Stored first, they would be read and written
//! again.

use kiln_kernel::analysis::ElementwiseReader;
use kiln_kernel::seeded::{Fault, is_on};
use kiln_kernel::{AxisId, StageId};

use super::context::KernelLowering;
use super::scope::{Array, Coordinate, Form, Scope, Vectors};
use crate::emit::Value;
use crate::error::LlvmError;

impl<'ctx> KernelLowering<'_, '_, 'ctx> {
    /// Maps elements that were just computed, and stores the results to the array.
    pub(super) fn store_fused_map(
        &self,
        scope: &Scope<'ctx>,
        filled: StageId,
        finish: ElementwiseReader,
        elements: impl IntoIterator<Item = (Coordinate, Value<'ctx>)>,
        array: &Array<'ctx>,
    ) -> Result<(), LlvmError> {
        let next = self.kernel.stage(finish.stage);
        let scope = &self.renamed(scope, &self.kernel.stage(filled).axes, &next.axes);
        for (at, element) in elements {
            self.assume(scope, finish.element, at, element);
            let value = match is_on(Fault::UnfinishedElement) {
                true => element,
                false => self.value(scope, next.value, at, Form::Lanes)?,
            };
            let array = self.array_of_row(scope, array, at);
            self.store_own(scope, &array, &next.axes, value, at)?;
        }
        Ok(())
    }

    /// The same position, for loops over other axes.
    fn renamed(&self, scope: &Scope<'ctx>, from: &[AxisId], to: &[AxisId]) -> Scope<'ctx> {
        let mut renamed = scope.clone();
        for (&from, &to) in from.iter().zip(to) {
            match scope.vectors {
                Some(vectors) if vectors.axis == from => {
                    renamed = renamed.with_vectors(Vectors {
                        axis: to,
                        ..vectors
                    });
                }
                _ => {
                    if let Some(index) = scope.axis(from) {
                        renamed = renamed.with_axis(to, index);
                    }
                }
            }
        }
        renamed
    }
}
