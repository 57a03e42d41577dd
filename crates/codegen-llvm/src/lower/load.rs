//! Loads from buffers: their conditions and lanes.
//!
//! A condition that is uniform across lanes selects between the element and zeros; one that differs between lanes is a
//! mask. Consecutive elements are one vector load, every other element two of them; anything else is a gather.

use kiln_kernel::seeded::{Fault, is_on};
use kiln_kernel::{Class, IndexClass, Load, Node, NodeId};
use kiln_tensor::DType;

use super::address::Address;
use super::context::KernelLowering;
use super::scope::{Coordinate, Form, Scope};
use crate::abi::FaultCause;
use crate::emit::{Value, lanes};
use crate::error::LlvmError;

/// When an access is performed.
#[derive(Clone, Copy, Default)]
pub(super) struct Condition<'ctx> {
    /// Conditions that are uniform across lanes.
    pub(super) uniform: Option<Value<'ctx>>,
    /// Conditions that differ between lanes.
    pub(super) lanes: Option<Value<'ctx>>,
}

impl<'ctx> Condition<'ctx> {
    pub(super) fn require(&mut self, lowering: &KernelLowering<'_, '_, 'ctx>, value: Value<'ctx>) {
        let part = if lanes(value) > 1 {
            &mut self.lanes
        } else {
            &mut self.uniform
        };
        *part = Some(lowering.both(*part, value));
    }

    pub(super) fn all(&self, lowering: &KernelLowering<'_, '_, 'ctx>) -> Option<Value<'ctx>> {
        match (self.uniform, self.lanes) {
            (Some(uniform), Some(lanes)) => Some(lowering.both(Some(uniform), lanes)),
            (uniform, lanes) => uniform.or(lanes),
        }
    }
}

impl<'ctx> KernelLowering<'_, '_, 'ctx> {
    /// A load.
    pub(super) fn load(
        &self,
        scope: &Scope<'ctx>,
        node: NodeId,
        load: &Load,
        at: Coordinate,
        form: Form,
    ) -> Result<Value<'ctx>, LlvmError> {
        let emit = &self.emit;
        let dtype = self.kernel.buffer(load.buffer).dtype;
        let wide = form == Form::Lanes && self.varies(scope, node);
        let form = if wide { Form::Lanes } else { Form::First };
        if let Some(guard) = &load.guard
            && scope.is_outside(node)
        {
            let otherwise = self.value(scope, guard.otherwise, at, form)?;
            return Ok(match wide {
                true => self.widened(scope, otherwise),
                false => otherwise,
            });
        }
        // Uniform conditions are kept apart from those that differ between lanes.
        let mut condition = Condition::default();
        let mut otherwise = None;
        // Indices along the vectors that must be in range are a mask, independent of the other conditions.
        let mut ranges = Vec::new();
        if let Some(guard) = &load.guard {
            if let Some(when) = guard.when {
                condition.require(self, self.value(scope, when, at, form)?);
            }
            if guard.inside {
                for (axis, &index) in load.indices.iter().enumerate() {
                    let known = self.class(node, axis) == IndexClass::Proved
                        || scope.is_inside(node, axis)
                        || (is_on(Fault::DroppedGuard) && axis + 1 == load.indices.len());
                    if known {
                        continue;
                    }
                    if wide && self.is_along(scope, index) {
                        ranges.push(axis);
                    } else {
                        condition.require(
                            self,
                            self.in_range(scope, load.buffer, axis, index, at, form)?,
                        );
                    }
                }
            }
            otherwise = Some(self.value(scope, guard.otherwise, at, form)?);
        }
        let mut checked = false;
        for (axis, &index) in load.indices.iter().enumerate() {
            if self.class(node, axis) == IndexClass::Checked {
                checked = true;
                let inside = self.in_range(scope, load.buffer, axis, index, at, form)?;
                let outside = self.emit.not(inside);
                let performed = match condition.all(self) {
                    Some(condition) => self.both(Some(condition), outside),
                    None => outside,
                };
                let site = || {
                    let name = &self.kernel.buffer(load.buffer).name;
                    format!("index {axis} of %{name}")
                };
                self.report(scope, at, performed, FaultCause::IndexOutOfRange, site);
                condition.require(self, inside);
            }
        }
        let guard = load.guard.as_ref();
        let zeros = guard.is_none_or(|guard| self.is_zero(guard.otherwise));
        // If an index is out of bounds, the value is arbitrary, since the fault is reported.
        let otherwise = otherwise.unwrap_or_else(|| self.zero(dtype));
        let otherwise = if wide {
            self.widened(scope, otherwise)
        } else {
            otherwise
        };
        if wide && !checked {
            let condition = condition.all(self);
            if let Some(loaded) =
                self.load_window(scope, (node, load), (condition, otherwise), at)?
            {
                return Ok(loaded);
            }
        }
        let address = self.buffer_address(scope, load.buffer, &load.indices, at, form)?;
        if !wide {
            let pointer = address.pointer();
            let Some(condition) = condition.all(self) else {
                return Ok(emit.load_dtype(dtype, 1, pointer));
            };
            let pointer = emit.select(condition, pointer, self.dummy());
            let loaded = emit.load_dtype(dtype, 1, pointer);
            // The dummy holds zeros.
            return Ok(if zeros {
                loaded
            } else {
                emit.select(condition, loaded, otherwise)
            });
        }
        let Some(vectors) = scope.vectors else {
            unreachable!("a value varies along vectors in use alone")
        };
        // A uniform condition selects the address, since the dummy holds zeros; conditions that differ between lanes are a
        // mask.
        let (address, condition) = match (address, condition.uniform) {
            (Address::Consecutive(pointer), Some(all)) if zeros => {
                let pointer = match self.row_or_zeros(scope, node, load, all, at)? {
                    Some(pointer) => pointer,
                    None => emit.select(all, pointer, self.dummy()),
                };
                (Address::Consecutive(pointer), condition.lanes)
            }
            (Address::EveryOther(pointer), Some(all)) if zeros => {
                let bytes = 2 * vectors.lanes * dtype.size_in_bytes() as u32;
                let pointer = emit.select(all, pointer, self.zeros(bytes));
                (Address::EveryOther(pointer), condition.lanes)
            }
            (address, _) => (address, condition.all(self)),
        };
        let mut condition = condition;
        for axis in ranges {
            let Some(&index) = load.indices.get(axis) else {
                unreachable!("ranges are of indices that the load has")
            };
            let inside = self.in_range(scope, load.buffer, axis, index, at, form)?;
            condition = Some(self.both(condition, inside));
        }
        // Blocks of packed operands are whole vectors, zero-padded, except those that are groups.
        let in_range = match self.layout.innermost_of_pack(load.buffer) {
            Some(_) if !self.layout.may_leave_block(load) => None,
            _ => self.mask(scope, at),
        };
        let is_conditional = condition.is_some();
        let mask = match (condition, in_range) {
            (Some(condition), Some(mask)) => Some(emit.and(self.widened(scope, condition), mask)),
            (Some(condition), None) => Some(self.widened(scope, condition)),
            (None, mask) => mask,
        };
        if let (Address::Consecutive(pointer), None) = (&address, mask) {
            self.prefetch_next_rows(scope, node, load, *pointer, at);
            self.prefetch_packed_ahead(scope, load, *pointer, at)?;
        }
        Ok(match (address, mask) {
            (Address::Same(pointer), None) => {
                emit.splat(emit.load_dtype(dtype, 1, pointer), vectors.lanes)
            }
            (Address::Same(pointer), Some(mask)) => {
                let any = emit.any(mask);
                let pointer = emit.select(any, pointer, self.dummy());
                let loaded = emit.splat(emit.load_dtype(dtype, 1, pointer), vectors.lanes);
                emit.select(mask, loaded, otherwise)
            }
            (Address::Consecutive(pointer), None) => emit.load_dtype(dtype, vectors.lanes, pointer),
            (Address::Consecutive(pointer), Some(mask)) => {
                // A whole vector may be beyond the buffer, where a masked load is slow even though it reads nothing.
                // For windows, which reach beyond it only by a few elements, that is rare.
                let pointer = match self.kernel.classification().class {
                    Class::Map if is_conditional => {
                        emit.select(emit.any(mask), pointer, self.dummy())
                    }
                    _ => pointer,
                };
                emit.masked_load_dtype(dtype, pointer, mask, otherwise)
            }
            (Address::EveryOther(pointer), mask) => {
                self.load_every_other(dtype, pointer, mask, otherwise, vectors.lanes)
            }
            (Address::Each(pointers), None) => match self.load_strided(scope, node, load, at)? {
                Some(loaded) => loaded,
                None => {
                    let all = emit.bool_of(vectors.lanes, true);
                    emit.gather_dtype(dtype, pointers, all, otherwise)
                }
            },
            (Address::Each(pointers), Some(mask)) => {
                emit.gather_dtype(dtype, pointers, mask, otherwise)
            }
        })
    }

    /// The even elements of twice as many, under a mask: two vectors and a shuffle. Elements in between are loaded only
    /// if all lanes are; the element after the last is never loaded, because it is not part of the access.
    fn load_every_other(
        &self,
        dtype: DType,
        pointer: Value<'ctx>,
        mask: Option<Value<'ctx>>,
        otherwise: Value<'ctx>,
        n_lanes: u32,
    ) -> Value<'ctx> {
        let emit = &self.emit;
        if !matches!(dtype, DType::F32 | DType::F64 | DType::I32 | DType::I64)
            || !self.level().has_fma()
        {
            let pointers = self.every_other(dtype, n_lanes, pointer);
            let mask = mask.unwrap_or_else(|| emit.bool_of(n_lanes, true));
            return emit.gather_dtype(dtype, pointers, mask, otherwise);
        }
        let zero = emit.splat(self.zero(dtype), n_lanes);
        let rest = emit.element(pointer, dtype, emit.i64(i64::from(n_lanes)));
        let (first, second) = match mask {
            None => {
                let last = self.mask_below(emit.i64(i64::from(n_lanes) - 1), n_lanes);
                (
                    emit.load_dtype(dtype, n_lanes, pointer),
                    emit.masked_load_dtype(dtype, rest, last, zero),
                )
            }
            Some(mask) => {
                // Lane i of the mask belongs to element 2 i; the odd elements are not loaded.
                let none = emit.bool_of(n_lanes, false);
                let spread = |from: u32| {
                    let half = |lane| from + lane / 2;
                    let picks: Vec<u32> = (0..n_lanes)
                        .map(|lane| if lane % 2 == 0 { half(lane) } else { n_lanes })
                        .collect();
                    emit.shuffle(mask, none, &picks)
                };
                let half = n_lanes / 2;
                (
                    emit.masked_load_dtype(dtype, pointer, spread(0), zero),
                    emit.masked_load_dtype(dtype, rest, spread(half), zero),
                )
            }
        };
        let picks: Vec<u32> = (0..n_lanes).map(|lane| 2 * lane).collect();
        let loaded = emit.shuffle(first, second, &picks);
        match mask {
            Some(mask) => emit.select(mask, loaded, otherwise),
            None => loaded,
        }
    }

    /// Whether an index has stride 1 along the vectors.
    fn is_along(&self, scope: &Scope<'ctx>, index: NodeId) -> bool {
        scope.vectors.is_some_and(|vectors| {
            self.dependence.step_along(self.kernel, index, vectors.axis) == Some(1)
        })
    }

    pub(super) fn is_zero(&self, node: NodeId) -> bool {
        match self.kernel.node(node) {
            Node::Literal(value) => *value == kiln_scalar::ScalarValue::zero(value.dtype()),
            _ => false,
        }
    }

    pub(super) fn class(&self, node: NodeId, axis: usize) -> IndexClass {
        let classes = &self.kernel.info().loads[node];
        classes.get(axis).copied().unwrap_or_default()
    }
}
