//! Emits instructions on scalars and vectors.
//!
//! An [`Emitter`] writes into one function. A [`Value`] carries its type; each operation works on scalars and on
//! vectors of any length. Operands have the same type unless stated otherwise. `fadd` and similar are for floats,
//! `iadd` and similar for integers; constants take the type of an existing value (`float(like, 1.0)`).
//!
//! Kiln's dtypes in registers: f64 and f32 as they are, f16 and bf16 as their bits in an i16 (`scalar_ops::half` converts),
//! integers as they are, bool as an i1.
//!
//! Invariant: float operations here are strict: nothing is reassociated or contracted, unless [`Emitter::contracted`]
//! allows it for one value.

mod arithmetic;
mod avx512;
mod control;
mod memory;
mod order;
mod pairs;
mod permutation;
mod poll;
mod rounding;
mod twofold;

use std::cell::Cell;

use inkwell::AddressSpace;
use inkwell::basic_block::BasicBlock;
use inkwell::builder::{Builder, BuilderError};
use inkwell::context::Context;
use inkwell::intrinsics::Intrinsic;
use inkwell::types::{BasicTypeEnum, VectorType};
use inkwell::values::{BasicMetadataValueEnum, BasicValueEnum, FunctionValue};

use kiln_tensor::DType;

use crate::module::ModuleBuilder;
use kiln_backend::IsaLevel;

pub(crate) use memory::Intent;
pub(crate) use twofold::Twofold;

/// A scalar or a vector in a register.
pub(crate) type Value<'ctx> = BasicValueEnum<'ctx>;

/// The element type of a lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Elem {
    I1,
    I8,
    I16,
    I32,
    I64,
    I128,
    F32,
    F64,
    Pointer,
}

impl Elem {
    /// The register form of a dtype.
    pub(crate) fn of(dtype: DType) -> Elem {
        match dtype {
            DType::F64 => Elem::F64,
            DType::F32 => Elem::F32,
            DType::Bool => Elem::I1,
            other => Elem::integer(other.bits()),
        }
    }

    /// The integer type of a number of bits.
    pub(crate) fn integer(bits: u32) -> Elem {
        match bits {
            1 => Elem::I1,
            8 => Elem::I8,
            16 => Elem::I16,
            32 => Elem::I32,
            64 => Elem::I64,
            _ => Elem::I128,
        }
    }

    pub(crate) fn bits(self) -> u32 {
        match self {
            Elem::I1 => 1,
            Elem::I8 => 8,
            Elem::I16 => 16,
            Elem::I32 | Elem::F32 => 32,
            Elem::I64 | Elem::F64 | Elem::Pointer => 64,
            Elem::I128 => 128,
        }
    }
}

/// Writes instructions at the end of the current block of one function.
pub(crate) struct Emitter<'m, 'ctx> {
    module: &'m ModuleBuilder<'ctx>,
    builder: Builder<'ctx>,
    function: FunctionValue<'ctx>,
    /// How many loops were emitted.
    loops: Cell<u32>,
    /// Whether the counters of innermost loops are hidden from LLVM.
    hides_counters: Cell<bool>,
    /// The address of the word that loops poll, if they do.
    polled: Cell<Option<Value<'ctx>>>,
    /// The block that a poll jumps to when the launch is stopped.
    stopped: Cell<Option<BasicBlock<'ctx>>>,
    /// An upper bound on the steps since the last poll, within the loop body being emitted.
    unpolled: Cell<u64>,
    /// Whether a store fence is needed before the function returns.
    has_fences: Cell<bool>,
}

impl<'m, 'ctx> Emitter<'m, 'ctx> {
    /// An emitter at the start of a function that has no body yet.
    pub(crate) fn at_start_of(
        module: &'m ModuleBuilder<'ctx>,
        function: FunctionValue<'ctx>,
    ) -> Emitter<'m, 'ctx> {
        let entry = module.context().append_basic_block(function, "entry");
        let builder = module.context().create_builder();
        builder.position_at_end(entry);
        Emitter {
            module,
            builder,
            function,
            loops: Cell::new(0),
            hides_counters: Cell::new(false),
            polled: Cell::new(None),
            stopped: Cell::new(None),
            unpolled: Cell::new(1),
            has_fences: Cell::new(false),
        }
    }

    pub(crate) fn module(&self) -> &'m ModuleBuilder<'ctx> {
        self.module
    }

    pub(crate) fn level(&self) -> IsaLevel {
        self.module.level()
    }

    fn context(&self) -> &'ctx Context {
        self.module.context()
    }

    /// The parameter of a function at an existing position.
    pub(crate) fn parameter(&self, function: FunctionValue<'ctx>, position: u32) -> Value<'ctx> {
        function
            .get_nth_param(position)
            .unwrap_or_else(|| unreachable!("the function was made with this parameter"))
    }

    // Types.

    /// The type of `lanes` lanes; one lane is a scalar.
    pub(crate) fn ty(&self, elem: Elem, lanes: u32) -> BasicTypeEnum<'ctx> {
        let context = self.context();
        let scalar: BasicTypeEnum<'ctx> = match elem {
            Elem::I1 => context.bool_type().into(),
            Elem::I8 => context.i8_type().into(),
            Elem::I16 => context.i16_type().into(),
            Elem::I32 => context.i32_type().into(),
            Elem::I64 => context.i64_type().into(),
            Elem::I128 => context.i128_type().into(),
            Elem::F32 => context.f32_type().into(),
            Elem::F64 => context.f64_type().into(),
            Elem::Pointer => context.ptr_type(AddressSpace::default()).into(),
        };
        if lanes <= 1 {
            return scalar;
        }
        match scalar {
            BasicTypeEnum::IntType(ty) => ty.vec_type(lanes).into(),
            BasicTypeEnum::FloatType(ty) => ty.vec_type(lanes).into(),
            BasicTypeEnum::PointerType(ty) => ty.vec_type(lanes).into(),
            _ => unreachable!("lanes hold integers, floats or pointers"),
        }
    }

    /// The type of a value's lanes, with a different element type.
    pub(crate) fn ty_like(&self, like: Value<'ctx>, elem: Elem) -> BasicTypeEnum<'ctx> {
        self.ty(elem, lanes(like))
    }

    // Constants, in the type of an existing value.

    /// A float in every lane; `like` has floats.
    pub(crate) fn float(&self, like: Value<'ctx>, value: f64) -> Value<'ctx> {
        self.float_of(elem(like), lanes(like), value)
    }

    pub(crate) fn float_of(&self, elem: Elem, lanes: u32, value: f64) -> Value<'ctx> {
        let ty = match elem {
            Elem::F32 => self.context().f32_type(),
            _ => self.context().f64_type(),
        };
        splat_constant(ty.const_float(value).into(), lanes)
    }

    /// An integer in every lane; `like` has integers.
    pub(crate) fn int(&self, like: Value<'ctx>, value: i64) -> Value<'ctx> {
        self.int_of(elem(like), lanes(like), value)
    }

    pub(crate) fn int_of(&self, elem: Elem, lanes: u32, value: i64) -> Value<'ctx> {
        let ty = self.ty(elem, 1).into_int_type();
        // Above 64 bits, sign-extended; below, truncated.
        splat_constant(ty.const_int(value as u64, true).into(), lanes)
    }

    /// An i64 scalar, as sizes and indices are.
    pub(crate) fn i64(&self, value: i64) -> Value<'ctx> {
        self.int_of(Elem::I64, 1, value)
    }

    pub(crate) fn bool_of(&self, lanes: u32, value: bool) -> Value<'ctx> {
        self.int_of(Elem::I1, lanes, i64::from(value))
    }

    /// `0, 1, 2, …` as integers.
    pub(crate) fn lane_numbers(&self, elem: Elem, lanes: u32) -> Value<'ctx> {
        let ty = self.ty(elem, 1).into_int_type();
        if lanes <= 1 {
            return ty.const_zero().into();
        }
        let numbers: Vec<_> = (0..u64::from(lanes))
            .map(|n| ty.const_int(n, false))
            .collect();
        VectorType::const_vector(&numbers).into()
    }

    // Calls.

    /// Calls an LLVM intrinsic by name; `overload` has the types that complete its name.
    pub(crate) fn intrinsic(
        &self,
        name: &str,
        overload: &[BasicTypeEnum<'ctx>],
        arguments: &[Value<'ctx>],
    ) -> Option<Value<'ctx>> {
        let declaration = Intrinsic::find(name)
            .and_then(|intrinsic| intrinsic.get_declaration(self.module.module(), overload))
            .unwrap_or_else(|| unreachable!("LLVM 19 has the intrinsic {name}"));
        self.call(declaration, arguments)
    }

    /// Calls a function; `None` if it returns nothing.
    pub(crate) fn call(
        &self,
        function: FunctionValue<'ctx>,
        arguments: &[Value<'ctx>],
    ) -> Option<Value<'ctx>> {
        let arguments: Vec<BasicMetadataValueEnum<'ctx>> =
            arguments.iter().map(|&argument| argument.into()).collect();
        built(self.builder.build_direct_call(function, &arguments, ""))
            .try_as_basic_value()
            .basic()
    }

    fn intrinsic_value(&self, name: &str, arguments: &[Value<'ctx>]) -> Value<'ctx> {
        let ty = arguments
            .first()
            .unwrap_or_else(|| unreachable!("arithmetic has operands"))
            .get_type();
        self.intrinsic(name, &[ty], arguments)
            .unwrap_or_else(|| unreachable!("{name} has a value"))
    }
}

/// The number of lanes; 1 for a scalar.
pub(crate) fn lanes(value: Value<'_>) -> u32 {
    match value.get_type() {
        BasicTypeEnum::VectorType(ty) => ty.get_size(),
        _ => 1,
    }
}

/// The element type of the lanes.
pub(crate) fn elem(value: Value<'_>) -> Elem {
    let scalar = match value.get_type() {
        BasicTypeEnum::VectorType(ty) => ty.get_element_type(),
        other => other,
    };
    match scalar {
        BasicTypeEnum::IntType(ty) => Elem::integer(ty.get_bit_width()),
        BasicTypeEnum::FloatType(ty) if ty.get_bit_width() == 32 => Elem::F32,
        BasicTypeEnum::FloatType(_) => Elem::F64,
        _ => Elem::Pointer,
    }
}

fn splat_constant<'ctx>(scalar: Value<'ctx>, lanes: u32) -> Value<'ctx> {
    if lanes <= 1 {
        return scalar;
    }
    VectorType::const_vector(&vec![scalar; lanes as usize]).into()
}

/// The builder fails only without an insertion point, and an emitter's always has one.
fn built<T>(result: Result<T, BuilderError>) -> T {
    result.unwrap_or_else(|error| unreachable!("the emitter has a position: {error}"))
}

#[cfg(test)]
mod tests;
