//! Arithmetic, comparison, selection and conversion, lane by lane.

use inkwell::types::{BasicType as _, BasicTypeEnum, IntType};
use inkwell::values::{BasicValue as _, FastMathFlags, InstructionOpcode};
use inkwell::{FloatPredicate, IntPredicate};

use super::{Elem, Emitter, Value, built, elem, lanes};

macro_rules! binary {
    ($($(#[$meta:meta])* $name:ident $opcode:ident;)*) => {
        impl<'ctx> Emitter<'_, 'ctx> {
            $(
                $(#[$meta])*
                pub(crate) fn $name(&self, a: Value<'ctx>, b: Value<'ctx>) -> Value<'ctx> {
                    self.binary(InstructionOpcode::$opcode, a, b)
                }
            )*
        }
    };
}

binary! {
    fadd FAdd;
    fsub FSub;
    fmul FMul;
    fdiv FDiv;
    iadd Add;
    isub Sub;
    imul Mul;
    /// Undefined for a divisor of 0 and for `MIN / -1`, which the caller excludes.
    sdiv SDiv;
    /// Undefined for a divisor of 0, which the caller excludes.
    udiv UDiv;
    /// Undefined for a divisor of 0, which the caller excludes.
    urem URem;
    and And;
    or Or;
    xor Xor;
    /// Undefined for a shift by the width or more, which the caller excludes.
    shl Shl;
    /// Undefined for a shift by the width or more, which the caller excludes.
    lshr LShr;
    /// Undefined for a shift by the width or more, which the caller excludes.
    ashr AShr;
}

impl<'ctx> Emitter<'_, 'ctx> {
    fn binary(&self, opcode: InstructionOpcode, a: Value<'ctx>, b: Value<'ctx>) -> Value<'ctx> {
        built(self.builder.build_binop(opcode, a, b, ""))
    }

    fn cast(&self, opcode: InstructionOpcode, value: Value<'ctx>, to: Elem) -> Value<'ctx> {
        let ty = self.ty_like(value, to);
        if value.get_type() == ty {
            return value;
        }
        built(self.builder.build_cast(opcode, value, ty, ""))
    }

    /// Allows a float sum, difference or product to be contracted to a multiply-add.
    pub(crate) fn contracted(&self, value: Value<'ctx>) -> Value<'ctx> {
        if let Some(instruction) = value.as_instruction_value() {
            // Values that are not float arithmetic (constants, say) have no such flag and need none.
            let _ = instruction.set_fast_math_flags(FastMathFlags::AllowContract);
        }
        value
    }

    /// Flips the sign, of zeros and NaNs too.
    pub(crate) fn fneg(&self, a: Value<'ctx>) -> Value<'ctx> {
        match a {
            Value::VectorValue(a) => built(self.builder.build_float_neg(a, "")).into(),
            a => built(self.builder.build_float_neg(a.into_float_value(), "")).into(),
        }
    }

    /// Clears the sign, of zeros and NaNs too.
    pub(crate) fn fabs(&self, a: Value<'ctx>) -> Value<'ctx> {
        self.intrinsic_value("llvm.fabs", &[a])
    }

    /// The magnitude of `a` with the sign of `b`.
    pub(crate) fn copysign(&self, a: Value<'ctx>, b: Value<'ctx>) -> Value<'ctx> {
        self.intrinsic_value("llvm.copysign", &[a, b])
    }

    pub(crate) fn sqrt(&self, a: Value<'ctx>) -> Value<'ctx> {
        self.intrinsic_value("llvm.sqrt", &[a])
    }

    /// `a * b + c`: rounded once where the level has the instruction, twice elsewhere.
    pub(crate) fn fma(&self, a: Value<'ctx>, b: Value<'ctx>, c: Value<'ctx>) -> Value<'ctx> {
        if self.level().has_fma() {
            self.intrinsic_value("llvm.fma", &[a, b, c])
        } else {
            self.fadd(self.fmul(a, b), c)
        }
    }

    /// `c - a * b`, as [`Emitter::fma`].
    pub(crate) fn fnma(&self, a: Value<'ctx>, b: Value<'ctx>, c: Value<'ctx>) -> Value<'ctx> {
        self.fma(self.fneg(a), b, c)
    }

    pub(crate) fn ineg(&self, a: Value<'ctx>) -> Value<'ctx> {
        self.isub(self.int(a, 0), a)
    }

    pub(crate) fn not(&self, a: Value<'ctx>) -> Value<'ctx> {
        self.xor(a, self.int(a, -1))
    }

    /// Compares floats; the predicate defines the result for NaN.
    pub(crate) fn fcmp(
        &self,
        predicate: FloatPredicate,
        a: Value<'ctx>,
        b: Value<'ctx>,
    ) -> Value<'ctx> {
        match (a, b) {
            (Value::VectorValue(a), Value::VectorValue(b)) => {
                built(self.builder.build_float_compare(predicate, a, b, "")).into()
            }
            (a, b) => {
                let (a, b) = (a.into_float_value(), b.into_float_value());
                built(self.builder.build_float_compare(predicate, a, b, "")).into()
            }
        }
    }

    /// Compares integers, or pointers.
    pub(crate) fn icmp(
        &self,
        predicate: IntPredicate,
        a: Value<'ctx>,
        b: Value<'ctx>,
    ) -> Value<'ctx> {
        match (a, b) {
            (Value::VectorValue(a), Value::VectorValue(b)) => {
                built(self.builder.build_int_compare(predicate, a, b, "")).into()
            }
            (Value::PointerValue(a), Value::PointerValue(b)) => {
                built(self.builder.build_int_compare(predicate, a, b, "")).into()
            }
            (a, b) => {
                let (a, b) = (a.into_int_value(), b.into_int_value());
                built(self.builder.build_int_compare(predicate, a, b, "")).into()
            }
        }
    }

    pub(crate) fn is_nan(&self, a: Value<'ctx>) -> Value<'ctx> {
        self.fcmp(FloatPredicate::UNO, a, a)
    }

    /// `a` where the condition is true, otherwise `b`. A scalar condition selects whole vectors.
    pub(crate) fn select(
        &self,
        condition: Value<'ctx>,
        a: Value<'ctx>,
        b: Value<'ctx>,
    ) -> Value<'ctx> {
        match condition {
            Value::VectorValue(condition) => built(self.builder.build_select(condition, a, b, "")),
            other => built(self.builder.build_select(other.into_int_value(), a, b, "")),
        }
    }

    pub(crate) fn smin(&self, a: Value<'ctx>, b: Value<'ctx>) -> Value<'ctx> {
        self.intrinsic_value("llvm.smin", &[a, b])
    }

    pub(crate) fn smax(&self, a: Value<'ctx>, b: Value<'ctx>) -> Value<'ctx> {
        self.intrinsic_value("llvm.smax", &[a, b])
    }

    pub(crate) fn umin(&self, a: Value<'ctx>, b: Value<'ctx>) -> Value<'ctx> {
        self.intrinsic_value("llvm.umin", &[a, b])
    }

    pub(crate) fn umax(&self, a: Value<'ctx>, b: Value<'ctx>) -> Value<'ctx> {
        self.intrinsic_value("llvm.umax", &[a, b])
    }

    /// f16 bits to f32. Only for levels with the instruction.
    pub(crate) fn f16_to_f32(&self, bits: Value<'ctx>) -> Value<'ctx> {
        let half = built(self.builder.build_cast(
            InstructionOpcode::BitCast,
            bits,
            self.f16_type_like(bits),
            "",
        ));
        let wide = self.cast(InstructionOpcode::FPExt, half, Elem::F32);
        if self.level().is_aarch64() {
            return wide;
        }
        // LLVM would compare and negate the halves, for which x86 has only scalar code.
        self.intrinsic_value("llvm.arithmetic.fence", &[wide])
    }

    /// f32 to f16 bits. Only for levels with the instruction.
    pub(crate) fn f32_to_f16(&self, x: Value<'ctx>) -> Value<'ctx> {
        let half = built(self.builder.build_cast(
            InstructionOpcode::FPTrunc,
            x,
            self.f16_type_like(x),
            "",
        ));
        self.cast(InstructionOpcode::BitCast, half, Elem::I16)
    }

    fn f16_type_like(&self, like: Value<'ctx>) -> BasicTypeEnum<'ctx> {
        let scalar = self.context().f16_type();
        match lanes(like) {
            1 => scalar.into(),
            n_lanes => scalar.vec_type(n_lanes).into(),
        }
    }

    /// The high word of `high:low` shifted left; shifts are modulo the width.
    pub(crate) fn funnel_left(
        &self,
        high: Value<'ctx>,
        low: Value<'ctx>,
        shift: Value<'ctx>,
    ) -> Value<'ctx> {
        self.intrinsic_value("llvm.fshl", &[high, low, shift])
    }

    /// The number of leading zero bits; the width for 0.
    pub(crate) fn leading_zeros(&self, a: Value<'ctx>) -> Value<'ctx> {
        self.intrinsic("llvm.ctlz", &[a.get_type()], &[a, self.bool_of(1, false)])
            .unwrap_or_else(|| unreachable!("ctlz has a value"))
    }

    /// The smaller operand if neither is NaN and not both are zero; `b` otherwise. One instruction on x86, for uses in
    /// which the other cases do not matter.
    pub(crate) fn fmin_loose(&self, a: Value<'ctx>, b: Value<'ctx>) -> Value<'ctx> {
        self.select(self.fcmp(FloatPredicate::OLT, a, b), a, b)
    }

    /// The larger operand if neither is NaN and not both are zero; `b` otherwise.
    pub(crate) fn fmax_loose(&self, a: Value<'ctx>, b: Value<'ctx>) -> Value<'ctx> {
        self.select(self.fcmp(FloatPredicate::OGT, a, b), a, b)
    }

    /// The same bits, as lanes of a different type of the same width.
    pub(crate) fn bitcast(&self, value: Value<'ctx>, to: Elem) -> Value<'ctx> {
        self.cast(InstructionOpcode::BitCast, value, to)
    }

    /// The bits of floats, as integers.
    pub(crate) fn to_bits(&self, value: Value<'ctx>) -> Value<'ctx> {
        self.bitcast(value, Elem::integer(elem(value).bits()))
    }

    /// Integers as floats of the same bits.
    pub(crate) fn bits_to_float(&self, value: Value<'ctx>) -> Value<'ctx> {
        match elem(value) {
            Elem::I32 => self.bitcast(value, Elem::F32),
            _ => self.bitcast(value, Elem::F64),
        }
    }

    pub(crate) fn zext(&self, value: Value<'ctx>, to: Elem) -> Value<'ctx> {
        self.cast(InstructionOpcode::ZExt, value, to)
    }

    pub(crate) fn sext(&self, value: Value<'ctx>, to: Elem) -> Value<'ctx> {
        self.cast(InstructionOpcode::SExt, value, to)
    }

    /// The low bits of wider integers.
    pub(crate) fn trunc_int(&self, value: Value<'ctx>, to: Elem) -> Value<'ctx> {
        self.cast(InstructionOpcode::Trunc, value, to)
    }

    /// f32 to f64, exactly.
    pub(crate) fn extend_float(&self, value: Value<'ctx>) -> Value<'ctx> {
        self.cast(InstructionOpcode::FPExt, value, Elem::F64)
    }

    /// f64 to f32, rounded to nearest even.
    pub(crate) fn narrow_float(&self, value: Value<'ctx>) -> Value<'ctx> {
        self.cast(InstructionOpcode::FPTrunc, value, Elem::F32)
    }

    /// Signed integers to floats, rounded to nearest even.
    pub(crate) fn signed_to_float(&self, value: Value<'ctx>, to: Elem) -> Value<'ctx> {
        self.cast(InstructionOpcode::SIToFP, value, to)
    }

    /// Unsigned integers to floats, rounded to nearest even.
    pub(crate) fn unsigned_to_float(&self, value: Value<'ctx>, to: Elem) -> Value<'ctx> {
        self.cast(InstructionOpcode::UIToFP, value, to)
    }

    /// Floats to integers, truncated; a value out of range is poison.
    pub(crate) fn float_to_integer(
        &self,
        value: Value<'ctx>,
        to: Elem,
        signed: bool,
    ) -> Value<'ctx> {
        let opcode = match signed {
            true => InstructionOpcode::FPToSI,
            false => InstructionOpcode::FPToUI,
        };
        self.cast(opcode, value, to)
    }

    /// One scalar in every lane.
    pub(crate) fn splat(&self, scalar: Value<'ctx>, n_lanes: u32) -> Value<'ctx> {
        if n_lanes <= 1 {
            return scalar;
        }
        let ty = self.ty(elem(scalar), n_lanes).into_vector_type();
        let zero = self.context().i32_type().const_zero();
        let first = built(
            self.builder
                .build_insert_element(ty.get_poison(), scalar, zero, ""),
        );
        let mask = self.ty(Elem::I32, n_lanes).into_vector_type().const_zero();
        built(
            self.builder
                .build_shuffle_vector(first, ty.get_poison(), mask, ""),
        )
        .into()
    }

    /// The lanes of `a`, then those of `b`, selected by number.
    pub(crate) fn shuffle(&self, a: Value<'ctx>, b: Value<'ctx>, picks: &[u32]) -> Value<'ctx> {
        let numbers: Vec<_> = picks
            .iter()
            .map(|&pick| self.context().i32_type().const_int(u64::from(pick), false))
            .collect();
        let mask = inkwell::types::VectorType::const_vector(&numbers);
        built(self.builder.build_shuffle_vector(
            a.into_vector_value(),
            b.into_vector_value(),
            mask,
            "",
        ))
        .into()
    }

    /// Transposes a square register tile: as many vectors as each has lanes, a power of two.
    pub(crate) fn transpose(&self, mut rows: Vec<Value<'ctx>>) -> Vec<Value<'ctx>> {
        let n = rows.len() as u32;
        let mut width = 1;
        while width < n {
            // The off-diagonal blocks of this width are swapped.
            let low: Vec<u32> = (0..n)
                .map(|lane| {
                    if lane & width == 0 {
                        lane
                    } else {
                        n + lane - width
                    }
                })
                .collect();
            let high: Vec<u32> = (0..n)
                .map(|lane| {
                    if lane & width == 0 {
                        lane + width
                    } else {
                        n + lane
                    }
                })
                .collect();
            let pairs: Vec<_> = (0..n as usize)
                .filter(|row| row & width as usize == 0)
                .collect();
            for row in pairs {
                let (a, b) = (rows[row], rows[row + width as usize]);
                rows[row] = self.shuffle(a, b, &low);
                rows[row + width as usize] = self.shuffle(a, b, &high);
            }
            width *= 2;
        }
        rows
    }

    /// A lane of a vector; a scalar is its only lane.
    pub(crate) fn extract(&self, vector: Value<'ctx>, lane: u32) -> Value<'ctx> {
        match vector {
            Value::VectorValue(vector) => {
                let lane = self.context().i32_type().const_int(u64::from(lane), false);
                built(self.builder.build_extract_element(vector, lane, ""))
            }
            scalar => scalar,
        }
    }

    /// A mask of the first `count` lanes; `0 <= count <= lanes`.
    pub(crate) fn first_lanes(&self, count: Value<'ctx>, lanes: u32) -> Value<'ctx> {
        // A comparison is recomputed at each use, in the innermost loop; on levels where masks are bits, a mask made
        // from a number is not. This is done only for this number of lanes: LLVM 19 reloads a spilled mask of eight
        // lanes with eight more.
        const LANES: u32 = 16;
        if self.level().has_mask_registers() && lanes == LANES {
            let one = self.i64(1);
            let bits = self.isub(self.binary(InstructionOpcode::Shl, one, count), one);
            let bits = built(self.builder.build_int_truncate(
                bits.into_int_value(),
                self.bits_type(lanes),
                "",
            ));
            let mask = self.ty(Elem::I1, lanes);
            return built(self.builder.build_bit_cast(bits, mask, ""));
        }
        let count = self.trunc_int(count, Elem::I32);
        let numbers = self.lane_numbers(Elem::I32, lanes);
        self.icmp(IntPredicate::ULT, numbers, self.splat(count, lanes))
    }

    /// Whether any lane of a mask is true, as a scalar.
    pub(crate) fn any(&self, mask: Value<'ctx>) -> Value<'ctx> {
        let n_lanes = lanes(mask);
        if n_lanes <= 1 {
            return mask;
        }
        let bits = self.bits_type(n_lanes);
        let packed = built(
            self.builder
                .build_bit_cast(mask, bits.as_basic_type_enum(), ""),
        );
        let zero = bits.const_zero();
        built(
            self.builder
                .build_int_compare(IntPredicate::NE, packed.into_int_value(), zero, ""),
        )
        .into()
    }

    /// Integers with one bit per lane.
    fn bits_type(&self, lanes: u32) -> IntType<'ctx> {
        std::num::NonZeroU32::new(lanes)
            .and_then(|bits| self.context().custom_width_int_type(bits).ok())
            .unwrap_or_else(|| unreachable!("vectors have a few lanes"))
    }
}
