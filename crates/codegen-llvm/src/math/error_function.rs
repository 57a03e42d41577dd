//! The error function.
//!
//! Below 0.9, `x + x P(x^2)`; above, `1 - e^-P(x)`, where `P` approximates `-log(erfc(x))`, until the result is 1.
//! Polynomials are minimax (`tools/minimax.py`) in the error of the function.

use inkwell::FloatPredicate;

use super::common::{is_f32, polynomial};
use super::exponential::exp;
use crate::emit::{Emitter, Value};

/// Error 2^-60.5.
const ERF_SMALL_F64: [f64; 12] = [
    0.1283791670955126,
    -0.37612638903183726,
    0.11283791670953705,
    -0.026866170644806852,
    0.005223977621604924,
    -0.000854832675499701,
    0.00012055321044332159,
    -1.4925299775969163e-05,
    1.6455214306041803e-06,
    -1.6275478208950775e-07,
    1.4046051987066104e-08,
    -8.481848081529695e-10,
];

/// Error 2^-61.4.
const ERF_LARGE_F64: [f64; 20] = [
    -3.660373460624991e-09,
    1.1283792424281531,
    0.636619148105382,
    0.10277559978261441,
    -0.019138094064437082,
    -0.00018668768130596634,
    0.0016563481306681998,
    -0.0005349411269921595,
    -3.4988922932125586e-05,
    0.00011855453275718562,
    -6.851330230857821e-05,
    2.5741490997551027e-05,
    -7.2412056176761455e-06,
    1.5835259831866933e-06,
    -2.7037695058822644e-07,
    3.552583229801443e-08,
    -3.4771008875571896e-09,
    2.3895918175608773e-10,
    -1.0289125466059611e-11,
    2.087842112723828e-13,
];

/// Error 2^-31.7.
const ERF_SMALL_F32: [f64; 7] = [
    0.12837916612625122,
    -0.37612634897232056,
    0.11283715069293976,
    -0.02686050906777382,
    0.005203860346227884,
    -0.0008175644325092435,
    8.513099601259455e-05,
];

/// Error 2^-34.0.
const ERF_LARGE_F32: [f64; 8] = [
    -0.000169212362379767,
    1.129488468170166,
    0.6334007382392883,
    0.10822048783302307,
    -0.025080693885684013,
    0.004156286828219891,
    -0.0004314008401706815,
    2.082930768665392e-05,
];

/// The error function.
pub(crate) fn erf<'ctx>(e: &Emitter<'_, 'ctx>, x: Value<'ctx>) -> Value<'ctx> {
    let (near, far, one_from) = if is_f32(x) {
        (&ERF_SMALL_F32[..], &ERF_LARGE_F32[..], 4.0)
    } else {
        (&ERF_SMALL_F64[..], &ERF_LARGE_F64[..], 6.0)
    };
    let magnitude = e.fabs(x);
    let square = e.fmul(x, x);
    let small = e.fma(x, polynomial(e, square, near), x);
    let bounded = e.fmin_loose(e.float(x, one_from), magnitude);
    let exponent = e.fneg(polynomial(e, bounded, far));
    let large = e.fsub(e.float(x, 1.0), exp(e, exponent));
    let is_small = e.fcmp(FloatPredicate::OLT, magnitude, e.float(x, 0.9));
    // The sign of zero and NaN are those of `x` on both paths.
    e.select(is_small, small, e.copysign(large, x))
}
