//! AVX-512 instructions that LLVM does not select from generic IR.
//!
//! Each exists for vectors of 128, 256 and 512 bits. For other lane counts or levels the functions return `None`, and
//! callers emit the generic form.

use super::order::Side;
use super::{Elem, Emitter, Value, elem, lanes};

/// The current rounding mode.
const CURRENT_DIRECTION: i64 = 4;

impl<'ctx> Emitter<'_, 'ctx> {
    /// Whether [`Emitter::scaled_by_power`] supports values of this type.
    pub(crate) fn scales_by_powers(&self, like: Value<'ctx>) -> bool {
        Form::of(self, like).is_some()
    }

    /// `x * 2^n` for an integral `n`, rounded once, including subnormal results; NaN if either operand is.
    pub(crate) fn scaled_by_power(&self, x: Value<'ctx>, n: Value<'ctx>) -> Option<Value<'ctx>> {
        let form = Form::of(self, x)?;
        form.call(self, "scalef", vec![x, n])
    }

    /// The minimum or maximum, with -0 < +0; if one is NaN, either operand.
    pub(super) fn extreme_of_numbers(
        &self,
        side: Side,
        a: Value<'ctx>,
        b: Value<'ctx>,
    ) -> Option<Value<'ctx>> {
        let form = Form::of(self, a)?;
        // Bit 0 selects the maximum; the bits above select the sign of the result.
        let choice = match side {
            Side::Smaller => 0b0100,
            Side::Larger => 0b0101,
        };
        let choice = self.int_of(Elem::I32, 1, choice);
        form.call(self, "range", vec![a, b, choice])
    }
}

/// A vector type with instructions.
struct Form<'ctx> {
    suffix: &'static str,
    /// The pass-through operand of an unmasked instruction.
    unmasked: Value<'ctx>,
    mask: Value<'ctx>,
    is_full: bool,
}

impl<'ctx> Form<'ctx> {
    fn of(e: &Emitter<'_, 'ctx>, like: Value<'ctx>) -> Option<Self> {
        if !e.level().has_avx512() {
            return None;
        }
        let n_lanes = lanes(like);
        let suffix = match (elem(like), n_lanes) {
            (Elem::F32, 16) => "ps.512",
            (Elem::F32, 8) => "ps.256",
            (Elem::F32, 4) => "ps.128",
            (Elem::F64, 8) => "pd.512",
            (Elem::F64, 4) => "pd.256",
            (Elem::F64, 2) => "pd.128",
            _ => return None,
        };
        let mask = if n_lanes == 16 { Elem::I16 } else { Elem::I8 };
        Some(Self {
            suffix,
            unmasked: e.float(like, 0.0),
            mask: e.int_of(mask, 1, -1),
            is_full: suffix.ends_with("512"),
        })
    }

    fn call(
        &self,
        e: &Emitter<'_, 'ctx>,
        name: &str,
        mut operands: Vec<Value<'ctx>>,
    ) -> Option<Value<'ctx>> {
        operands.extend([self.unmasked, self.mask]);
        if self.is_full {
            operands.push(e.int_of(Elem::I32, 1, CURRENT_DIRECTION));
        }
        let name = format!("llvm.x86.avx512.mask.{name}.{}", self.suffix);
        e.intrinsic(&name, &[], &operands)
    }
}
