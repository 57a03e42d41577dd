//! Products of 16-bit integers and of bf16, summed in pairs, and of 8-bit integers, summed in fours: instructions that LLVM
//! does not select for shuffled operands.

use inkwell::values::InstructionOpcode;
use kiln_backend::IsaLevel;

use super::{Elem, Emitter, Value, built, elem, lanes};

impl<'ctx> Emitter<'_, 'ctx> {
    /// Whether [`Emitter::sum_pairs`] supports results of this many lanes.
    pub(crate) fn sums_pairs(&self, lanes: u32) -> bool {
        let level = self.level();
        level.multiplies_pairs() && lanes >= 4 && lanes <= level.lanes(32) && name(lanes).is_some()
    }

    /// `a0 * b0 + a1 * b1` of each pair of adjacent lanes, wrapping in 32 bits.
    pub(crate) fn sum_pairs(&self, a: Value<'ctx>, b: Value<'ctx>) -> Value<'ctx> {
        name(lanes(a) / 2)
            .and_then(|name| self.intrinsic(name, &[], &[a, b]))
            .unwrap_or_else(|| unreachable!("`sums_pairs` was asked"))
    }

    /// Whether [`Emitter::sum_bf16_pairs`] supports results of this many lanes.
    pub(crate) fn sums_bf16_pairs(&self, lanes: u32) -> bool {
        let level = self.level();
        level.multiplies_bf16_pairs()
            && lanes <= level.lanes(32)
            && name_of_bf16_pairs(level, lanes).is_some()
    }

    /// `sum + a0 * b0 + a1 * b1` of each pair of adjacent bf16, in f32. The factors are their bits, twice as many lanes as the
    /// sum has.
    pub(crate) fn sum_bf16_pairs(
        &self,
        sum: Value<'ctx>,
        a: Value<'ctx>,
        b: Value<'ctx>,
    ) -> Value<'ctx> {
        let ty = self.context().bf16_type().vec_type(lanes(a));
        let as_floats = |value| {
            let cast = InstructionOpcode::BitCast;
            built(self.builder.build_cast(cast, value, ty, ""))
        };
        name_of_bf16_pairs(self.level(), lanes(sum))
            .and_then(|name| self.add_products(name, sum, as_floats(a), as_floats(b)))
            .unwrap_or_else(|| unreachable!("`sums_bf16_pairs` was asked"))
    }

    /// Whether [`Emitter::sum_fours`] supports results of this many lanes.
    pub(crate) fn sums_fours(&self, lanes: u32) -> bool {
        let level = self.level();
        level.multiplies_fours()
            && lanes <= level.lanes(32)
            && name_of_fours(level, lanes).is_some()
    }

    /// `sum + a0 * b0 + a1 * b1 + a2 * b2 + a3 * b3` of each four adjacent bytes, unsigned ones of `a` and signed ones of `b`,
    /// wrapping in 32 bits. All are lanes of 32 bits.
    pub(crate) fn sum_fours(
        &self,
        sum: Value<'ctx>,
        a: Value<'ctx>,
        b: Value<'ctx>,
    ) -> Value<'ctx> {
        // LLVM's instructions of x86 take them as 32-bit lanes.
        let factor = |value| match self.level().is_aarch64() {
            true => self.regrouped(value, Elem::I8),
            false => value,
        };
        name_of_fours(self.level(), lanes(sum))
            .and_then(|name| self.add_products(name, sum, factor(a), factor(b)))
            .unwrap_or_else(|| unreachable!("`sums_fours` was asked"))
    }

    /// Calls an instruction that adds products to a sum. Those of AArch64 are overloaded by the types of both.
    fn add_products(
        &self,
        name: &str,
        sum: Value<'ctx>,
        a: Value<'ctx>,
        b: Value<'ctx>,
    ) -> Option<Value<'ctx>> {
        let types = [sum.get_type(), a.get_type()];
        let overload: &[_] = match self.level().is_aarch64() {
            true => &types,
            false => &[],
        };
        self.intrinsic(name, overload, &[sum, a, b])
    }

    /// Whether [`Emitter::sum_small_fours`] supports results of this many lanes.
    pub(crate) fn sums_small_fours(&self, lanes: u32) -> bool {
        let level = self.level();
        let in_pairs = level.multiplies_byte_pairs()
            && lanes <= level.lanes(32)
            && name_of_byte_pairs(lanes).is_some();
        self.sums_fours(lanes) || in_pairs
    }

    /// The same as [`Emitter::sum_fours`], where the bytes of `a` are at most 127: then two products fit 16 bits.
    pub(crate) fn sum_small_fours(
        &self,
        sum: Value<'ctx>,
        a: Value<'ctx>,
        b: Value<'ctx>,
    ) -> Value<'ctx> {
        if self.sums_fours(lanes(sum)) {
            return self.sum_fours(sum, a, b);
        }
        let bytes = [a, b].map(|value| self.regrouped(value, Elem::I8));
        let pairs = name_of_byte_pairs(lanes(sum))
            .and_then(|name| self.intrinsic(name, &[], &bytes))
            .unwrap_or_else(|| unreachable!("`sums_small_fours` was asked"));
        let ones = self.int_of(Elem::I16, lanes(pairs), 1);
        self.iadd(sum, self.sum_pairs(pairs, ones))
    }

    /// The same bits as lanes of a different width, low ones first.
    pub(crate) fn regrouped(&self, value: Value<'ctx>, to: Elem) -> Value<'ctx> {
        let ty = self.ty(to, elem(value).bits() * lanes(value) / to.bits());
        built(
            self.builder
                .build_cast(InstructionOpcode::BitCast, value, ty, ""),
        )
    }
}

/// The instruction for results of this many lanes.
fn name(lanes: u32) -> Option<&'static str> {
    match lanes {
        4 => Some("llvm.x86.sse2.pmadd.wd"),
        8 => Some("llvm.x86.avx2.pmadd.wd"),
        16 => Some("llvm.x86.avx512.pmaddw.d.512"),
        _ => None,
    }
}

/// The instruction for results of this many lanes.
fn name_of_bf16_pairs(level: IsaLevel, lanes: u32) -> Option<&'static str> {
    match lanes {
        2 | 4 if level.is_aarch64() => Some("llvm.aarch64.neon.bfdot"),
        4 => Some("llvm.x86.avx512bf16.dpbf16ps.128"),
        8 => Some("llvm.x86.avx512bf16.dpbf16ps.256"),
        16 => Some("llvm.x86.avx512bf16.dpbf16ps.512"),
        _ => None,
    }
}

/// The instruction for results of this many lanes.
fn name_of_fours(level: IsaLevel, lanes: u32) -> Option<&'static str> {
    match lanes {
        2 | 4 if level.is_aarch64() => Some("llvm.aarch64.neon.usdot"),
        4 => Some("llvm.x86.avx512.vpdpbusd.128"),
        8 => Some("llvm.x86.avx512.vpdpbusd.256"),
        16 => Some("llvm.x86.avx512.vpdpbusd.512"),
        _ => None,
    }
}

/// The instruction that sums products of bytes in pairs, for the bytes that fill this many lanes of 32 bits.
fn name_of_byte_pairs(lanes: u32) -> Option<&'static str> {
    match lanes {
        4 => Some("llvm.x86.ssse3.pmadd.ub.sw.128"),
        8 => Some("llvm.x86.avx2.pmadd.ub.sw"),
        16 => Some("llvm.x86.avx512.pmaddubs.w.512"),
        _ => None,
    }
}
