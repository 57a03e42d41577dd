//! AVX-512 instructions that LLVM does not select from generic ones.
//!
//! Each exists for vectors of 128, 256 and 512 bits. For other lane counts or levels there is none, and callers emit the
//! generic form.

use super::order::Side;
use super::{Elem, Emitter, Value, elem, lanes};
use kiln_backend::IsaLevel;

/// Rounding as everywhere else.
const CURRENT_DIRECTION: i64 = 4;

impl<'ctx> Emitter<'_, 'ctx> {
    /// Whether [`Emitter::scaled_by_power`] is there for numbers like these.
    pub(crate) fn scales_by_powers(&self, like: Value<'ctx>) -> bool {
        Form::of(self, like).is_some()
    }

    /// `x * 2^n` for an integral `n`, rounded once, subnormal results too; NaN where either is.
    pub(crate) fn scaled_by_power(&self, x: Value<'ctx>, n: Value<'ctx>) -> Option<Value<'ctx>> {
        let form = Form::of(self, x)?;
        form.call(self, "scalef", vec![x, n])
    }

    /// The smaller or the larger one, -0 being less than +0; where one is NaN, either.
    pub(super) fn extreme_of_numbers(
        &self,
        side: Side,
        a: Value<'ctx>,
        b: Value<'ctx>,
    ) -> Option<Value<'ctx>> {
        let form = Form::of(self, a)?;
        // The lowest bit is set for the larger one; above, that the sign is the chosen one's.
        let choice = match side {
            Side::Smaller => 0b0100,
            Side::Larger => 0b0101,
        };
        let choice = self.int_of(Elem::I32, 1, choice);
        form.call(self, "range", vec![a, b, choice])
    }
}

/// Vectors that there are instructions for.
struct Form<'ctx> {
    suffix: &'static str,
    /// What lanes behind a mask that has none would hold.
    unmasked: Value<'ctx>,
    mask: Value<'ctx>,
    is_full: bool,
}

impl<'ctx> Form<'ctx> {
    fn of(e: &Emitter<'_, 'ctx>, like: Value<'ctx>) -> Option<Self> {
        if e.level() != IsaLevel::Avx512 {
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
