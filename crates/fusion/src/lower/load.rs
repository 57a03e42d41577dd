//! Values from outside the region: loads, and constants emitted as literals.

use cranelift_entity::EntityRef;
use kiln_ir::ValueId;
use kiln_kernel::{BufferId, Load, LoadGuard, NodeId, Nodes, Role};
use kiln_scalar::ScalarValue;
use kiln_tensor::{Element, Tensor, TensorError, match_dtype};

use super::LowerError;
use super::context::{RegionLowering, Step, compute_dtype};
use super::guard::{Guard, GuardId};

/// Constants with more elements than this are not checked for being uniform.
const SPLAT_LIMIT: usize = 4096;

/// Numbers with more decimal digits than this were trained, not written by hand.
const WRITTEN_DIGITS: usize = 5;

impl RegionLowering<'_> {
    /// An element of a value that the region does not compute.
    pub(super) fn load(&mut self, value: ValueId, indices: &Nodes, guard: GuardId) -> Step<NodeId> {
        self.load_or(value, indices, guard, None)
    }

    /// The same, with the value to use where the guard is false; zero if that is not given.
    pub(super) fn load_or(
        &mut self,
        value: ValueId,
        indices: &Nodes,
        guard: GuardId,
        otherwise: Option<ScalarValue>,
    ) -> Step<NodeId> {
        let ty = self.ty(value)?;
        let computed = compute_dtype(ty.dtype);
        if otherwise.is_none()
            && let Some(splat) = self.splat(value)
            && !self.is_learned(value, splat)
        {
            // f32 represents every f16 and bf16.
            let widened = ScalarValue::from_number(splat.to_f64(), computed);
            let literal = if splat.dtype() == computed {
                Some(splat)
            } else {
                widened
            };
            return Ok(self.b.literal(literal.unwrap_or(splat)));
        }
        let buffer = self.buffer(value)?;
        let guard = match guard {
            GuardId::NONE => None,
            guard => Some(self.load_guard(value, indices, guard, otherwise)?),
        };
        let loaded = self.b.push_load(Load {
            buffer,
            indices: indices.clone(),
            guard,
        });
        Ok(self.b.cast(loaded, computed))
    }

    /// The buffer of a value that is read.
    fn buffer(&mut self, value: ValueId) -> Result<BufferId, LowerError> {
        if let Some(&buffer) = self.buffers.get(&value) {
            return Ok(buffer);
        }
        let role = match self.constant(value) {
            Some(_) => Role::Const,
            None => Role::In,
        };
        let buffer = self.push_buffer(value, role)?;
        self.buffers.insert(value, buffer);
        Ok(buffer)
    }

    /// Adds a buffer for a value.
    pub(super) fn push_buffer(
        &mut self,
        value: ValueId,
        role: Role,
    ) -> Result<BufferId, LowerError> {
        let dtype = self.ty(value)?.dtype;
        let shape = self.shape(value)?;
        let name = format!("v{}", value.index());
        self.operands.push(value);
        Ok(self.b.buffer(name, role, dtype, shape))
    }

    /// The guard of a load: tests of the buffer's own indices are `inside`, all others a condition.
    fn load_guard(
        &mut self,
        value: ValueId,
        indices: &Nodes,
        guard: GuardId,
        otherwise: Option<ScalarValue>,
    ) -> Result<LoadGuard, LowerError> {
        let shape = self.shape(value)?;
        let whole = self.guards.get(guard).clone();
        let mut rest = Guard::default();
        let mut inside = false;
        for (index, size) in whole.tests {
            let mut axes = indices.iter().zip(&shape);
            if axes.any(|(&at, &bound)| at == index && self.equal(bound, size)) {
                inside = true;
            } else {
                rest.tests.insert((index, size));
            }
        }
        let when = self.condition(&rest.tests, &whole.conditions);
        let dtype = self.ty(value)?.dtype;
        let otherwise = self
            .b
            .literal(otherwise.unwrap_or(ScalarValue::zero(dtype)));
        Ok(LoadGuard {
            inside,
            when,
            otherwise,
        })
    }

    /// Whether a constant is a single trained number. Layers that differ only in such numbers should have the same kernel,
    /// so it is not part of the code.
    fn is_learned(&self, value: ValueId, number: ScalarValue) -> bool {
        let is_single = self
            .constant(value)
            .is_some_and(|constant| constant.tensor().len() == 1);
        is_single && n_digits(number) > WRITTEN_DIGITS
    }

    /// The element of a uniform constant.
    pub(super) fn splat(&self, value: ValueId) -> Option<ScalarValue> {
        splat_of(&self.constant(value)?.tensor())
    }
}

/// The number of decimal digits that distinguish a float from its neighbours; 0 for narrow ones, which have few.
fn n_digits(number: ScalarValue) -> usize {
    let shortest = match number {
        ScalarValue::F64(number) => format!("{number:e}"),
        ScalarValue::F32(number) => format!("{number:e}"),
        _ => return 0,
    };
    let mantissa = shortest.split('e').next().unwrap_or_default();
    mantissa.chars().filter(char::is_ascii_digit).count()
}

/// The element of a tensor, if all its elements are equal.
pub(super) fn splat_of(tensor: &Tensor) -> Option<ScalarValue> {
    fn first<T: Element>(tensor: &Tensor) -> Result<Option<T>, TensorError> {
        Ok(tensor.as_slice::<T>()?.first().copied())
    }
    if tensor.is_empty() || tensor.len() > SPLAT_LIMIT {
        return None;
    }
    let bytes = tensor.as_bytes().ok()?;
    let width = bytes.len() / tensor.len();
    let mut elements = bytes.chunks_exact(width);
    let head = elements.next()?;
    if !elements.all(|element| element == head) {
        return None;
    }
    match_dtype!(tensor.dtype(), T => first::<T>(tensor).ok().flatten().map(ScalarValue::from))
}
