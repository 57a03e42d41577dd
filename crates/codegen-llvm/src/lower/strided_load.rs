//! Loads at a small constant stride along the vectors: wide loads and shuffles instead of a gather.

use kiln_kernel::{Load, NodeId};
use kiln_tensor::DType;

use super::context::KernelLowering;
use super::scope::{Coordinate, Form, Scope};
use crate::emit::Value;
use crate::error::LlvmError;

/// The maximum stride: this many loads replace a gather.
const LARGEST: i64 = 8;

impl<'ctx> KernelLowering<'_, '_, 'ctx> {
    /// A load of which every lane is in range, if its stride is small. The elements in between are read too, but none after
    /// the last: it is not part of the access.
    pub(super) fn load_strided(
        &self,
        scope: &Scope<'ctx>,
        node: NodeId,
        load: &Load,
        at: Coordinate,
    ) -> Result<Option<Value<'ctx>>, LlvmError> {
        let emit = &self.emit;
        let dtype = self.kernel.buffer(load.buffer).dtype;
        let is_wide = matches!(dtype, DType::F32 | DType::F64 | DType::I32 | DType::I64);
        let is_packed = self.layout.pack(load.buffer).is_some();
        let Some(vectors) = scope
            .vectors
            .filter(|_| is_wide && !is_packed && self.level().has_fma())
        else {
            return Ok(None);
        };
        let step = self.layout.movement(node, vectors.axis);
        let step = step.and_then(|step| step.as_constant());
        let Some(step) = step.filter(|step| (3..=LARGEST).contains(step)) else {
            return Ok(None);
        };
        let first = self.buffer_address(scope, load.buffer, &load.indices, at, Form::First)?;
        let (first, n, step) = (first.pointer(), vectors.lanes, step as u32);
        let zero = emit.splat(self.zero(dtype), n);
        let mut loaded = emit.load_dtype(dtype, n, first);
        for part in 1..step {
            let from = emit.element(first, dtype, emit.i64(i64::from(part * n)));
            let last = step * (n - 1);
            let next = match last < part * n {
                true => break,
                false if last + 1 >= (part + 1) * n => emit.load_dtype(dtype, n, from),
                false => {
                    let left = emit.i64(i64::from(last + 1 - part * n));
                    emit.masked_load_dtype(dtype, from, self.mask_below(left, n), zero)
                }
            };
            // Lanes of earlier parts are in place after the first shuffle.
            let pick = |lane: u32| match (step * lane / n, part) {
                (there, part) if there == part => n + step * lane % n,
                (0, 1) => step * lane,
                _ => lane,
            };
            let picks: Vec<u32> = (0..n).map(pick).collect();
            loaded = emit.shuffle(loaded, next, &picks);
        }
        Ok(Some(loaded))
    }
}
