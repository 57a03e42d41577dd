// Functions of floats, in f32 and f64.
#define K_FUNCTION(name, single, wide) \
    K_INLINE float k_##name(float x) { return single; } \
    K_INLINE double k_##name(double x) { return wide; }
K_FUNCTION(ceil, ceilf(x), ceil(x))
K_FUNCTION(round_even, rintf(x), rint(x))
K_FUNCTION(trunc, truncf(x), trunc(x))
K_FUNCTION(sqrt, sqrtf(x), sqrt(x))
K_FUNCTION(rsqrt, 1.0f / sqrtf(x), 1.0 / sqrt(x))
K_FUNCTION(exp, expf(x), exp(x))
K_FUNCTION(exp2, exp2f(x), exp2(x))
K_FUNCTION(expm1, expm1f(x), expm1(x))
K_FUNCTION(log, logf(x), log(x))
K_FUNCTION(log2, log2f(x), log2(x))
K_FUNCTION(log1p, log1pf(x), log1p(x))
K_FUNCTION(sin, sinf(x), sin(x))
K_FUNCTION(cos, cosf(x), cos(x))
K_FUNCTION(tan, tanf(x), tan(x))
K_FUNCTION(asin, asinf(x), asin(x))
K_FUNCTION(acos, acosf(x), acos(x))
K_FUNCTION(atan, atanf(x), atan(x))
K_FUNCTION(sinh, sinhf(x), sinh(x))
K_FUNCTION(cosh, coshf(x), cosh(x))
K_FUNCTION(tanh, tanhf(x), tanh(x))
K_FUNCTION(asinh, asinhf(x), asinh(x))
K_FUNCTION(acosh, acoshf(x < 1.0f ? -1.0f : x), acosh(x < 1.0 ? -1.0 : x))
K_FUNCTION(atanh, atanhf(x), atanh(x))
K_FUNCTION(erf, erff(x), erf(x))
K_INLINE float k_atan2(float y, float x) { return atan2f(y, x); }
K_INLINE double k_atan2(double y, double x) { return atan2(y, x); }
template <class T> K_INLINE T k_sigmoid(T x) {
    T small = k_exp(k_negated(k_magnitude(x)));
    return x < 0 ? small / ((T)1 + small) : (T)1 / ((T)1 + small);
}
