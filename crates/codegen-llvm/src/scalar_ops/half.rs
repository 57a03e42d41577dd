//! 16-bit floats: conversion of their bits to f32 and back.
//!
//! Widening is exact; narrowing rounds to nearest even; subnormals are kept. IEEE halves use the conversion instructions of
//! levels that have them, and integer arithmetic elsewhere; there are no library calls.

use inkwell::{FloatPredicate, IntPredicate};

use kiln_tensor::DType;

use crate::emit::{Elem, Emitter, Value, lanes};

/// f16 or bf16 bits to f32.
pub(crate) fn widen<'ctx>(e: &Emitter<'_, 'ctx>, dtype: DType, bits: Value<'ctx>) -> Value<'ctx> {
    match dtype {
        DType::BF16 => {
            let wide = e.zext(bits, Elem::I32);
            e.bitcast(e.shl(wide, e.int(wide, 16)), Elem::F32)
        }
        _ if e.level().converts_f16() => e.f16_to_f32(bits),
        _ => widen_f16(e, bits),
    }
}

/// f32 to f16 or bf16 bits, rounded to nearest even.
pub(crate) fn narrow<'ctx>(e: &Emitter<'_, 'ctx>, dtype: DType, x: Value<'ctx>) -> Value<'ctx> {
    match dtype {
        DType::BF16 => narrow_bf16(e, x),
        _ if e.level().converts_f16() => e.f32_to_f16(x),
        _ => narrow_f16(e, x),
    }
}

/// f64 to f16 or bf16 bits, rounded once.
pub(crate) fn narrow_f64<'ctx>(e: &Emitter<'_, 'ctx>, dtype: DType, x: Value<'ctx>) -> Value<'ctx> {
    narrow(e, dtype, narrow_to_odd(e, x))
}

/// f64 to f32 by round to odd, so that further rounding is correct.
fn narrow_to_odd<'ctx>(e: &Emitter<'_, 'ctx>, x: Value<'ctx>) -> Value<'ctx> {
    let nearest = e.narrow_float(x);
    let back = e.extend_float(nearest);
    // Not for exact values, NaN, and infinite operands.
    let inexact = e.fcmp(FloatPredicate::ONE, back, x);
    let away = e.fcmp(FloatPredicate::OGT, e.fabs(back), e.fabs(x));
    let bits = e.to_bits(nearest);
    // In the bits of a float, the neighbour towards zero is one less.
    let toward_zero = e.isub(bits, e.zext(away, Elem::I32));
    let odd = e.or(toward_zero, e.int(bits, 1));
    e.select(inexact, e.bits_to_float(odd), nearest)
}

fn narrow_bf16<'ctx>(e: &Emitter<'_, 'ctx>, x: Value<'ctx>) -> Value<'ctx> {
    let bits = e.to_bits(x);
    let last = e.and(e.lshr(bits, e.int(bits, 16)), e.int(bits, 1));
    let rounded = e.iadd(bits, e.iadd(last, e.int(bits, 0x7fff)));
    // A NaN stays NaN regardless of its low bits: it becomes quiet.
    let quiet = e.or(bits, e.int(bits, 0x0040_0000));
    let chosen = e.select(e.is_nan(x), quiet, rounded);
    e.trunc_int(e.lshr(chosen, e.int(bits, 16)), Elem::I16)
}

/// The exponent moves by 112; subnormals are converted by an exact subtraction.
fn widen_f16<'ctx>(e: &Emitter<'_, 'ctx>, bits: Value<'ctx>) -> Value<'ctx> {
    let wide = e.zext(bits, Elem::I32);
    let sign = e.shl(e.and(wide, e.int(wide, 0x8000)), e.int(wide, 16));
    let magnitude = e.shl(e.and(wide, e.int(wide, 0x7fff)), e.int(wide, 13));
    let normal = e.iadd(magnitude, e.int(wide, 112 << 23));
    let special = e.iadd(magnitude, e.int(wide, 224 << 23));
    // 2^-14 with the fraction of the subnormal, minus 2^-14.
    let shifted = e.bits_to_float(e.iadd(magnitude, e.int(wide, 113 << 23)));
    let denormal = e.to_bits(e.fsub(shifted, e.float(shifted, 2f64.powi(-14))));
    let is_special = e.icmp(IntPredicate::UGE, magnitude, e.int(wide, 31 << 23));
    let is_denormal = e.icmp(IntPredicate::ULT, magnitude, e.int(wide, 1 << 23));
    let result = e.select(is_special, special, e.select(is_denormal, denormal, normal));
    e.bits_to_float(e.or(result, sign))
}

fn narrow_f16<'ctx>(e: &Emitter<'_, 'ctx>, x: Value<'ctx>) -> Value<'ctx> {
    let bits = e.to_bits(x);
    let int = |value| e.int(bits, value);
    let sign = e.and(e.lshr(bits, int(16)), int(0x8000));
    let magnitude = e.and(bits, int(0x7fff_ffff));
    // Numbers that stay normal: move the exponent and round the fraction.
    let last = e.and(e.lshr(magnitude, int(13)), int(1));
    let moved = e.isub(e.iadd(magnitude, e.iadd(last, int(0xfff))), int(112 << 23));
    let normal = e.lshr(moved, int(13));
    // Below 2^-14: adding 1/2 aligns the fraction so that the addition rounds it.
    let half = e.float_of(Elem::F32, lanes(x), 0.5);
    let aligned = e.to_bits(e.fadd(e.bits_to_float(magnitude), half));
    let denormal = e.isub(aligned, int(126 << 23));
    // From 65520 on, infinite; NaN stays NaN.
    let nan = e.or(e.and(e.lshr(magnitude, int(13)), int(0x3ff)), int(0x7e00));
    let is_nan = e.icmp(IntPredicate::UGT, magnitude, int(0x7f80_0000));
    let is_large = e.icmp(IntPredicate::UGE, magnitude, int(0x477f_f000));
    let is_denormal = e.icmp(IntPredicate::ULT, magnitude, int(113 << 23));
    let mut result = e.select(is_denormal, denormal, normal);
    result = e.select(is_large, int(0x7c00), result);
    result = e.select(is_nan, nan, result);
    e.trunc_int(e.or(result, sign), Elem::I16)
}
