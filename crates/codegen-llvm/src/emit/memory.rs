//! Loads, stores and addresses.
//!
//! Alignment is always explicit; no element beyond the lanes of an access is touched. `load_dtype` and `store_dtype`
//! convert between the memory and register forms of a dtype, which differ only for bool (a byte that is 0 or 1, and an i1).

use inkwell::AtomicOrdering;
use inkwell::IntPredicate;
use inkwell::llvm_sys::core::LLVMBuildGEP2;
use inkwell::types::{AsTypeRef as _, BasicType as _, BasicTypeEnum};
use inkwell::values::{AsValueRef as _, BasicValue as _};

use kiln_tensor::DType;

use super::{Elem, Emitter, Value, built, elem, lanes};

/// The use for which memory is prefetched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Intent {
    Read,
    /// A later read: the line is brought into the second-level cache, and the first level is left to current data.
    ReadLater,
    Write,
}

impl<'ctx> Emitter<'_, 'ctx> {
    /// The address this many bytes past a pointer. Either may be a vector, of i64 or of pointers.
    pub(crate) fn offset(&self, pointer: Value<'ctx>, bytes: Value<'ctx>) -> Value<'ctx> {
        let mut indices = [bytes.as_value_ref()];
        // SAFETY: the builder, the type and both values are alive and of one context, the list of indices is as long as
        // stated, and the name is NUL-terminated. This computes only an address: accesses through it are kept in bounds by
        // the caller.
        unsafe {
            Value::new(LLVMBuildGEP2(
                self.builder.as_mut_ptr(),
                self.context().i8_type().as_type_ref(),
                pointer.as_value_ref(),
                indices.as_mut_ptr(),
                1,
                c"".as_ptr(),
            ))
        }
    }

    /// The address of element `index` (an i64) of an array of a dtype.
    pub(crate) fn element(
        &self,
        pointer: Value<'ctx>,
        dtype: DType,
        index: Value<'ctx>,
    ) -> Value<'ctx> {
        let size = self.int(index, dtype.size_in_bytes() as i64);
        self.offset(pointer, self.imul(index, size))
    }

    /// Prefetches the cache line of an address; any address is allowed.
    pub(crate) fn prefetch(&self, pointer: Value<'ctx>, intent: Intent) {
        let number = |value| self.int_of(Elem::I32, 1, value);
        let (write, nearest, data) = (
            number((intent == Intent::Write).into()),
            number(if intent == Intent::ReadLater { 2 } else { 3 }),
            number(1),
        );
        self.intrinsic(
            "llvm.prefetch",
            &[pointer.get_type()],
            &[pointer, write, nearest, data],
        );
    }

    /// Loads one value of a type.
    pub(crate) fn load(
        &self,
        ty: BasicTypeEnum<'ctx>,
        pointer: Value<'ctx>,
        alignment: u32,
    ) -> Value<'ctx> {
        let loaded = built(
            self.builder
                .build_load(ty, pointer.into_pointer_value(), ""),
        );
        if let Some(instruction) = loaded.as_instruction_value() {
            // Callers pass powers of two; only other alignments fail.
            let _ = instruction.set_alignment(alignment);
        }
        loaded
    }

    /// Stores one value.
    pub(crate) fn store(&self, pointer: Value<'ctx>, value: Value<'ctx>, alignment: u32) {
        self.count_stores(1);
        let store = built(
            self.builder
                .build_store(pointer.into_pointer_value(), value),
        );
        let _ = store.set_alignment(alignment);
    }

    /// Non-temporal store of a vector, aligned to its size.
    pub(crate) fn store_non_temporal(&self, pointer: Value<'ctx>, value: Value<'ctx>) {
        self.count_stores(1);
        let store = built(
            self.builder
                .build_store(pointer.into_pointer_value(), value),
        );
        let _ = store.set_alignment(lanes(value) * elem(value).bits() / 8);
        let context = self.context();
        let kind = context.get_kind_id("nontemporal");
        let one = context.i32_type().const_int(1, false);
        let _ = store.set_metadata(context.metadata_node(&[one.into()]), kind);
    }

    /// Makes all non-temporal stores visible before any later store; x86 only.
    pub(crate) fn store_fence(&self) {
        self.intrinsic("llvm.x86.sse.sfence", &[], &[]);
        self.has_fences.set(true);
    }

    /// Whether an address is a multiple of a power of two.
    pub(crate) fn is_aligned(&self, pointer: Value<'ctx>, bytes: u32) -> Value<'ctx> {
        let address = built(self.builder.build_ptr_to_int(
            pointer.into_pointer_value(),
            self.context().i64_type(),
            "",
        ));
        let rest = self.and(address.into(), self.i64(i64::from(bytes) - 1));
        self.icmp(IntPredicate::EQ, rest, self.i64(0))
    }

    /// Loads consecutive elements, with the alignment of an element.
    pub(crate) fn load_dtype(
        &self,
        dtype: DType,
        n_lanes: u32,
        pointer: Value<'ctx>,
    ) -> Value<'ctx> {
        let ty = self.ty(stored(dtype), n_lanes);
        self.in_register(dtype, self.load(ty, pointer, alignment(dtype)))
    }

    /// Stores consecutive elements, with the alignment of an element.
    pub(crate) fn store_dtype(&self, dtype: DType, pointer: Value<'ctx>, value: Value<'ctx>) {
        self.store(pointer, self.in_memory(dtype, value), alignment(dtype));
    }

    /// Loads the elements whose lane of the mask is true, `otherwise` in the other lanes, whose memory is not touched.
    /// Vectors only.
    pub(crate) fn masked_load_dtype(
        &self,
        dtype: DType,
        pointer: Value<'ctx>,
        mask: Value<'ctx>,
        otherwise: Value<'ctx>,
    ) -> Value<'ctx> {
        let ty = self.ty(stored(dtype), lanes(mask));
        let align = self.int_of(Elem::I32, 1, i64::from(alignment(dtype)));
        let otherwise = self.in_memory(dtype, otherwise);
        let loaded = self
            .intrinsic(
                "llvm.masked.load",
                &[ty, self.ty(Elem::Pointer, 1)],
                &[pointer, align, mask, otherwise],
            )
            .unwrap_or_else(|| unreachable!("a load has a value"));
        self.in_register(dtype, loaded)
    }

    /// Stores the elements whose lane of the mask is true. Vectors only.
    pub(crate) fn masked_store_dtype(
        &self,
        dtype: DType,
        pointer: Value<'ctx>,
        value: Value<'ctx>,
        mask: Value<'ctx>,
    ) {
        self.count_stores(1);
        let value = self.in_memory(dtype, value);
        let align = self.int_of(Elem::I32, 1, i64::from(alignment(dtype)));
        self.intrinsic(
            "llvm.masked.store",
            &[value.get_type(), self.ty(Elem::Pointer, 1)],
            &[value, pointer, align, mask],
        );
    }

    /// Stores the first `count` (an i64) elements of a vector with a power of two of lanes; all of them if `count` is
    /// larger. Without a mask: in halves, recursively.
    pub(crate) fn store_first(
        &self,
        dtype: DType,
        pointer: Value<'ctx>,
        value: Value<'ctx>,
        count: Value<'ctx>,
    ) {
        let all = self.in_memory(dtype, value);
        let n_lanes = self.i64(i64::from(lanes(all)));
        let are_all = self.icmp(IntPredicate::SGE, count, n_lanes);
        self.branch(
            are_all,
            || {
                self.store(pointer, all, alignment(dtype));
                Vec::new()
            },
            || {
                self.store_halves(dtype, pointer, all, count);
                Vec::new()
            },
        );
    }

    /// For a count below the number of lanes: stores the lower half if that many remain and continues with the upper
    /// half; otherwise continues with the lower half.
    fn store_halves(
        &self,
        dtype: DType,
        pointer: Value<'ctx>,
        mut rest: Value<'ctx>,
        count: Value<'ctx>,
    ) {
        let mut width = lanes(rest);
        while width > 1 {
            width /= 2;
            let low: Vec<u32> = (0..width).collect();
            let high: Vec<u32> = (width..2 * width).collect();
            let (low, high) = match width {
                1 => (self.extract(rest, 0), self.extract(rest, 1)),
                _ => (
                    self.shuffle(rest, rest, &low),
                    self.shuffle(rest, rest, &high),
                ),
            };
            let bit = self.and(count, self.i64(i64::from(width)));
            let is_needed = self.icmp(IntPredicate::NE, bit, self.i64(0));
            // The lanes stored by larger halves come first.
            let before = self.and(count, self.i64(-2 * i64::from(width)));
            let place = self.element(pointer, dtype, before);
            self.when(is_needed, || self.store(place, low, alignment(dtype)));
            rest = self.select(is_needed, high, low);
        }
    }

    /// Loads from a vector of addresses where the mask is true, `otherwise` in the other lanes.
    pub(crate) fn gather_dtype(
        &self,
        dtype: DType,
        pointers: Value<'ctx>,
        mask: Value<'ctx>,
        otherwise: Value<'ctx>,
    ) -> Value<'ctx> {
        let n_lanes = lanes(pointers);
        let ty = self.ty(stored(dtype), n_lanes);
        let align = self.int_of(Elem::I32, 1, i64::from(alignment(dtype)));
        let otherwise = self.in_memory(dtype, otherwise);
        let loaded = self
            .intrinsic(
                "llvm.masked.gather",
                &[ty, self.ty(Elem::Pointer, n_lanes)],
                &[pointers, align, mask, otherwise],
            )
            .unwrap_or_else(|| unreachable!("a load has a value"));
        self.in_register(dtype, loaded)
    }

    /// Stores to a vector of addresses where the mask is true, in lane order.
    pub(crate) fn scatter_dtype(
        &self,
        dtype: DType,
        pointers: Value<'ctx>,
        value: Value<'ctx>,
        mask: Value<'ctx>,
    ) {
        self.count_stores(lanes(mask));
        let value = self.in_memory(dtype, value);
        let align = self.int_of(Elem::I32, 1, i64::from(alignment(dtype)));
        self.intrinsic(
            "llvm.masked.scatter",
            &[value.get_type(), pointers.get_type()],
            &[value, pointers, align, mask],
        );
    }

    /// Memory on the stack, 64-byte aligned. Only for small, fixed sizes.
    pub(crate) fn stack(&self, bytes: u32) -> Value<'ctx> {
        // In the entry block, so that it is allocated once and not per iteration.
        let builder = self.context().create_builder();
        let entry = self
            .function
            .get_first_basic_block()
            .unwrap_or_else(|| unreachable!("the function has a body"));
        match entry.get_first_instruction() {
            Some(first) => builder.position_before(&first),
            None => builder.position_at_end(entry),
        }
        let ty = self.context().i8_type().array_type(bytes);
        let pointer = built(builder.build_alloca(ty, ""));
        if let Some(instruction) = pointer.as_instruction_value() {
            let _ = instruction.set_alignment(64);
        }
        pointer.into()
    }

    /// The same pointer or integer, opaque to LLVM: a load through it stays a load, and a counter is not recognised as one.
    pub(crate) fn opaque(&self, value: Value<'ctx>) -> Value<'ctx> {
        let ty = value.get_type();
        let function = ty.fn_type(&[ty.into()], false);
        let nothing = self.context().create_inline_asm(
            function,
            String::new(),
            "=r,0".to_owned(),
            false,
            false,
            None,
            false,
        );
        built(
            self.builder
                .build_indirect_call(function, nothing, &[value.into()], ""),
        )
        .try_as_basic_value()
        .basic()
        .unwrap_or_else(|| unreachable!("the assembly has a result"))
    }

    /// Replaces the u32 at `pointer` by `value` if it is still 0, atomically.
    pub(crate) fn set_if_zero(&self, pointer: Value<'ctx>, value: Value<'ctx>) {
        let zero = self.context().i32_type().const_zero();
        built(self.builder.build_cmpxchg(
            pointer.into_pointer_value(),
            zero,
            value.into_int_value(),
            AtomicOrdering::Monotonic,
            AtomicOrdering::Monotonic,
        ));
    }

    fn in_register(&self, dtype: DType, value: Value<'ctx>) -> Value<'ctx> {
        if dtype == DType::Bool && elem(value) == Elem::I8 {
            self.icmp(IntPredicate::NE, value, self.int(value, 0))
        } else {
            value
        }
    }

    fn in_memory(&self, dtype: DType, value: Value<'ctx>) -> Value<'ctx> {
        if dtype == DType::Bool {
            self.zext(value, Elem::I8)
        } else {
            value
        }
    }
}

/// The memory form of a dtype.
fn stored(dtype: DType) -> Elem {
    match dtype {
        DType::Bool => Elem::I8,
        other => Elem::of(other),
    }
}

fn alignment(dtype: DType) -> u32 {
    dtype.size_in_bytes() as u32
}
