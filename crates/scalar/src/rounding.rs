//! Rounding to the two 16-bit floats in one step.
//!
//! Going through f32 would round twice, which does not always give the same result as rounding once. So the step to f32
//! rounds to odd: an inexact result gets its last bit set, which is enough for the second rounding to determine on
//! which side of a tie the number was. (The `half` crate's own conversions from f64 drop or round the low bits,
//! depending on the processor.)

use kiln_tensor::{bf16, f16};

/// The nearest f16, ties to even.
pub(crate) fn f16_from_f64(value: f64) -> f16 {
    f16::from_f32(f32_to_odd(value))
}

/// The nearest bf16, ties to even.
pub(crate) fn bf16_from_f64(value: f64) -> bf16 {
    bf16::from_f32(f32_to_odd(value))
}

/// The f64 nearest to an integer of at most 65 bits, or an odd neighbour if it is not exact (round to odd), so that
/// further rounding is correct.
pub(crate) fn f64_to_odd(value: i128) -> f64 {
    const SHIFT: u32 = 12;
    if value.unsigned_abs() < 1 << 53 {
        return value as f64;
    }
    let dropped = value & ((1 << SHIFT) - 1);
    let kept = (value >> SHIFT) | i128::from(dropped != 0);
    kept as f64 * f64::from(1u32 << SHIFT)
}

fn f32_to_odd(value: f64) -> f32 {
    let nearest = value as f32;
    if f64::from(nearest) == value || value.is_nan() || value.is_infinite() {
        return nearest;
    }
    // Towards zero, then odd. In the bits of a float, the neighbour towards zero is one less.
    let away = f64::from(nearest).abs() > value.abs();
    f32::from_bits((nearest.to_bits() - u32::from(away)) | 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounding_to_half_uses_bits_beyond_f32() {
        // 1 + 2^-11 is halfway between two f16; anything above must round up.
        let tie = 1.0 + 2f64.powi(-11);
        assert_eq!(f16_from_f64(tie), f16::ONE);
        assert_eq!(
            f16_from_f64(tie + 2f64.powi(-40)).to_f64(),
            1.0 + 2f64.powi(-10)
        );
        assert_eq!(
            f16_from_f64(-tie - 2f64.powi(-40)).to_f64(),
            -1.0 - 2f64.powi(-10)
        );
        let tie = 1.0 + 2f64.powi(-8);
        assert_eq!(bf16_from_f64(tie), bf16::ONE);
        assert_eq!(
            bf16_from_f64(tie + 2f64.powi(-40)).to_f64(),
            1.0 + 2f64.powi(-7)
        );
    }

    #[test]
    fn every_f16_and_every_midpoint_round_correctly() {
        for bits in 0..0x7bffu16 {
            let (low, high) = (f16::from_bits(bits), f16::from_bits(bits + 1));
            let middle = (low.to_f64() + high.to_f64()) / 2.0;
            let even = if bits % 2 == 0 { low } else { high };
            assert_eq!(f16_from_f64(low.to_f64()), low);
            assert_eq!(f16_from_f64(middle), even);
            assert_eq!(f16_from_f64(middle * (1.0 + f64::EPSILON)), high);
            assert_eq!(f16_from_f64(-middle * (1.0 - f64::EPSILON)), -low);
        }
        assert_eq!(f16_from_f64(65519.999999), f16::MAX);
        assert_eq!(f16_from_f64(65520.0), f16::INFINITY);
        assert_eq!(f16_from_f64(f64::MAX), f16::INFINITY);
        assert_eq!(f16_from_f64(-f64::MIN_POSITIVE).to_bits(), 0x8000);
        assert!(f16_from_f64(f64::NAN).is_nan());
    }

    #[test]
    fn large_integers_round_once() {
        // Halfway between two bf16 and one more: only the last bit tells.
        let tie = (1i128 << 62) + (1 << 54);
        assert_eq!(bf16_from_f64(f64_to_odd(tie)).to_f64(), 2f64.powi(62));
        assert_eq!(
            bf16_from_f64(f64_to_odd(tie + 1)).to_f64(),
            2f64.powi(62) + 2f64.powi(55)
        );
        assert_eq!(
            bf16_from_f64(f64_to_odd(-tie - 1)).to_f64(),
            -2f64.powi(62) - 2f64.powi(55)
        );
        assert_eq!(f64_to_odd(-5), -5.0);
    }
}
