//! The Winograd transforms of elements, weights and products.
//!
//! Each transform evaluates polynomials at as many points as a tile has elements along an axis, infinity among them. F(2x2,
//! 3x3) uses 0, 1 and -1: all factors are 1 or 1/2, and the sums are as accurate as those of nine products. F(4x4, 3x3)
//! uses 0 and the square roots of 1/2 and of 2, with both signs. As those are each other's inverses, the factors of the
//! products have similar magnitudes: errors are some 1.6 times those of nine products, where the usual points 1, 2 and
//! their negatives give 4.7 times (64 channels of normal numbers, the worst of each tile, 200 tiles).

use std::f32::consts::{FRAC_1_SQRT_2, SQRT_2};

use kiln_kernel::seeded::{Fault, is_on};
use kiln_scalar::ScalarValue;
use kiln_schedule_cpu::winograd::Transform;

use crate::emit::Value;
use crate::lower::context::KernelLowering;

/// The input transform of a row of elements.
pub(super) fn transform_input<'ctx>(
    transform: Transform,
    lowering: &KernelLowering<'_, '_, 'ctx>,
    elements: &[Value<'ctx>],
) -> Vec<Value<'ctx>> {
    let emit = &lowering.emit;
    let (add, sub) = (|a, b| emit.fadd(a, b), |a, b| emit.fsub(a, b));
    let times = |factor, value| scaled(lowering, factor, value);
    match (transform, elements) {
        (Transform::TwoByTwo, &[a, b, c, d]) => vec![sub(a, c), add(b, c), sub(c, b), sub(b, d)],
        (Transform::FourByFour, &[a, b, c, d, e, f]) => {
            // At the square roots of 1/2, and at those of 2.
            let (even, odd) = (sub(e, add(c, c)), sub(d, add(b, b)));
            let odd = times(FRAC_1_SQRT_2, odd);
            let (far_even, far_odd) = (sub(e, times(0.5, c)), sub(d, times(0.5, b)));
            let far_odd = times(SQRT_2, far_odd);
            vec![
                sub(add(a, e), times(2.5, c)),
                add(even, odd),
                sub(even, odd),
                add(far_even, far_odd),
                sub(far_even, far_odd),
                sub(add(b, f), times(2.5, d)),
            ]
        }
        _ => unreachable!("a tile has as many elements along each axis"),
    }
}

/// The weight transform of a row of weights.
pub(super) fn transform_weights<'ctx>(
    transform: Transform,
    lowering: &KernelLowering<'_, '_, 'ctx>,
    weights: &[Value<'ctx>],
) -> Vec<Value<'ctx>> {
    let emit = &lowering.emit;
    let (add, sub) = (|a, b| emit.fadd(a, b), |a, b| emit.fsub(a, b));
    let times = |factor, value| scaled(lowering, factor, value);
    let &[first, second, third] = weights else {
        unreachable!("a window has three taps along each axis")
    };
    match transform {
        Transform::TwoByTwo => {
            let ends = add(first, third);
            vec![
                first,
                times(0.5, add(ends, second)),
                times(0.5, sub(ends, second)),
                third,
            ]
        }
        Transform::FourByFour => {
            let (even, odd) = (add(first, times(0.5, third)), times(FRAC_1_SQRT_2, second));
            let (far_even, far_odd) = (add(first, add(third, third)), times(SQRT_2, second));
            vec![
                first,
                times(-2.0 / 3.0, add(even, odd)),
                times(-2.0 / 3.0, sub(even, odd)),
                times(1.0 / 6.0, add(far_even, far_odd)),
                times(1.0 / 6.0, sub(far_even, far_odd)),
                third,
            ]
        }
    }
}

/// The output transform of a row of products.
pub(super) fn transform_output<'ctx>(
    transform: Transform,
    lowering: &KernelLowering<'_, '_, 'ctx>,
    products: &[Value<'ctx>],
) -> Vec<Value<'ctx>> {
    let emit = &lowering.emit;
    let (add, sub) = (|a, b| emit.fadd(a, b), |a, b| emit.fsub(a, b));
    let times = |factor, value| scaled(lowering, factor, value);
    let but_for_a_fault = |sum, last| if is_on(Fault::LostPlane) { sum } else { last };
    match (transform, products) {
        (Transform::TwoByTwo, &[a, b, c, d]) => {
            let inner = sub(b, c);
            vec![add(add(a, b), c), but_for_a_fault(inner, sub(inner, d))]
        }
        (Transform::FourByFour, &[a, b, c, d, e, f]) => {
            let (even, odd) = (add(b, c), times(FRAC_1_SQRT_2, sub(b, c)));
            let (far_even, far_odd) = (add(d, e), times(SQRT_2, sub(d, e)));
            let last = add(times(0.5, odd), add(far_odd, far_odd));
            vec![
                add(a, add(even, far_even)),
                add(odd, far_odd),
                add(times(0.5, even), add(far_even, far_even)),
                but_for_a_fault(last, add(last, f)),
            ]
        }
        _ => unreachable!("a tile has as many products along each axis"),
    }
}

/// A value times a constant.
fn scaled<'ctx>(
    lowering: &KernelLowering<'_, '_, 'ctx>,
    factor: f32,
    value: Value<'ctx>,
) -> Value<'ctx> {
    let emit = &lowering.emit;
    let factor = lowering.literal(ScalarValue::F32(factor));
    emit.fmul(emit.splat(factor, crate::emit::lanes(value)), value)
}
