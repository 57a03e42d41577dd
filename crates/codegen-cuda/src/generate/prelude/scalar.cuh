// The primitive operations of the scalar language on every dtype, with its edge cases. Integers wrap; a division by zero
// is 0 here, and reported by the caller.
typedef long long k_i64;
typedef unsigned long long k_u64;
typedef signed char k_i8;
typedef unsigned char k_u8;
typedef unsigned short k_u16;
typedef unsigned k_u32;

struct k_f16 { unsigned short bits; };
struct k_bf16 { unsigned short bits; };

template <class T> struct k_kind { static constexpr bool is_float = false; };
template <> struct k_kind<float> { static constexpr bool is_float = true; };
template <> struct k_kind<double> { static constexpr bool is_float = true; };
template <> struct k_kind<k_f16> { static constexpr bool is_float = true; };
template <> struct k_kind<k_bf16> { static constexpr bool is_float = true; };
template <class T> struct k_unsigned { typedef T type; };
template <> struct k_unsigned<signed char> { typedef unsigned type; };
template <> struct k_unsigned<unsigned char> { typedef unsigned type; };
template <> struct k_unsigned<short> { typedef unsigned type; };
template <> struct k_unsigned<unsigned short> { typedef unsigned type; };
template <> struct k_unsigned<int> { typedef unsigned type; };
template <> struct k_unsigned<k_i64> { typedef k_u64 type; };
template <class T> constexpr bool k_is_signed = (T)-1 < (T)0;
template <class T> constexpr int k_bits = 8 * (int)sizeof(T);

// 16-bit floats compute in f32.
K_INLINE float k_wide(k_f16 x) { return k_f16_float(x.bits); }
K_INLINE float k_wide(k_bf16 x) { return k_bits_float((unsigned)x.bits << 16); }
K_INLINE float k_wide(float x) { return x; }
K_INLINE double k_wide(double x) { return x; }
template <class T> struct k_narrow;
template <> struct k_narrow<float> { static K_INLINE float of(float x) { return x; } };
template <> struct k_narrow<double> { static K_INLINE double of(double x) { return x; } };
template <> struct k_narrow<k_f16> { static K_INLINE k_f16 of(float x) { return k_f16{k_float_f16(x)}; } };
template <> struct k_narrow<k_bf16> { static K_INLINE k_bf16 of(float x) { return k_bf16{k_float_bf16(x)}; } };

// Rounding to odd: a later rounding to fewer bits gives what one rounding would have.
K_INLINE double k_odd_double(k_u64 x) {
    int zeros = x ? k_leading_zeros(x) : 64;
    if (zeros >= 11) return (double)x;
    int drop = 11 - zeros;
    k_u64 kept = x >> drop, lost = x & ((1ull << drop) - 1);
    return (double)((kept | (lost != 0)) << drop);
}
K_INLINE double k_odd_double(k_i64 x) {
    return x < 0 ? -k_odd_double((k_u64)0 - (k_u64)x) : k_odd_double((k_u64)x);
}
K_INLINE float k_odd_float(double x) {
    float y = (float)x;
    if (x != x || (double)y == x) return y;
    unsigned bits = k_float_bits(y);
    if ((y < 0 ? -(double)y : (double)y) > (x < 0 ? -x : x)) bits -= 1;
    return k_bits_float(bits | 1u);
}

// Conversions.
template <class To, class From, bool to_float = k_kind<To>::is_float, bool from_float = k_kind<From>::is_float>
struct k_conversion;
template <class To, class From> struct k_conversion<To, From, false, false> {
    static K_INLINE To of(From x) { return (To)x; }
};
template <class From> struct k_conversion<bool, From, false, false> {
    static K_INLINE bool of(From x) { return x != 0; }
};
template <class To, class From> struct k_conversion<To, From, false, true> {
    static K_INLINE To of(From from) {
        auto x = k_wide(from);
        constexpr bool is_signed = k_is_signed<To>;
        constexpr int bits = k_bits<To> - (is_signed ? 1 : 0);
        const double end = bits == 64 ? 18446744073709551616.0 : (double)(1ull << (bits & 63));
        constexpr k_u64 top = bits == 64 ? ~0ull : (1ull << (bits & 63)) - 1;
        if (x != x) return (To)0;
        if ((double)x >= end) return (To)top;
        if (is_signed) return (double)x <= -end ? (To)(0 - top - 1) : (To)(k_i64)x;
        return x <= 0 ? (To)0 : (To)(k_u64)x;
    }
};
template <class From> struct k_conversion<bool, From, false, true> {
    static K_INLINE bool of(From x) { return !(k_wide(x) == 0); }
};
template <class From> struct k_conversion<float, From, true, false> {
    static K_INLINE float of(From x) { return (float)x; }
};
template <class From> struct k_conversion<double, From, true, false> {
    static K_INLINE double of(From x) { return (double)x; }
};
template <class To, class From> struct k_half_of_integer {
    static K_INLINE To of(From x) {
        if (sizeof(From) <= 2) return k_narrow<To>::of((float)x);
        double y = k_is_signed<From> ? k_odd_double((k_i64)x) : k_odd_double((k_u64)x);
        return k_narrow<To>::of(k_odd_float(y));
    }
};
template <class From> struct k_conversion<k_f16, From, true, false> : k_half_of_integer<k_f16, From> {};
template <class From> struct k_conversion<k_bf16, From, true, false> : k_half_of_integer<k_bf16, From> {};
template <class From> struct k_conversion<float, From, true, true> {
    static K_INLINE float of(From x) { return (float)k_wide(x); }
};
template <class From> struct k_conversion<double, From, true, true> {
    static K_INLINE double of(From x) { return (double)k_wide(x); }
};
template <class To, class From> struct k_half_of_float {
    static K_INLINE To of(From x) { return k_narrow<To>::of(k_wide(x)); }
};
template <class To> struct k_half_of_float<To, double> {
    static K_INLINE To of(double x) { return k_narrow<To>::of(k_odd_float(x)); }
};
template <class From> struct k_conversion<k_f16, From, true, true> : k_half_of_float<k_f16, From> {};
template <class From> struct k_conversion<k_bf16, From, true, true> : k_half_of_float<k_bf16, From> {};
template <class T> struct k_conversion<T, T, true, true> {
    static K_INLINE T of(T x) { return x; }
};
template <> struct k_conversion<float, float, true, true> {
    static K_INLINE float of(float x) { return x; }
};
template <> struct k_conversion<double, double, true, true> {
    static K_INLINE double of(double x) { return x; }
};
template <> struct k_conversion<k_f16, k_f16, true, true> {
    static K_INLINE k_f16 of(k_f16 x) { return x; }
};
template <> struct k_conversion<k_bf16, k_bf16, true, true> {
    static K_INLINE k_bf16 of(k_bf16 x) { return x; }
};
template <class To, class From> K_INLINE To k_cast(From x) { return k_conversion<To, From>::of(x); }

// Arithmetic: of floats and integers by tag.
template <class T, bool is_float = k_kind<T>::is_float> struct k_number;
template <class T> struct k_number<T, false> {
    typedef typename k_unsigned<T>::type U;
    static K_INLINE T add(T a, T b) { return (T)((U)a + (U)b); }
    static K_INLINE T sub(T a, T b) { return (T)((U)a - (U)b); }
    static K_INLINE T mul(T a, T b) { return (T)((U)a * (U)b); }
    static K_INLINE T neg(T a) { return (T)((U)0 - (U)a); }
    static K_INLINE T div(T a, T b) {
        if (b == 0) return 0;
        if (k_is_signed<T> && b == (T)-1) return neg(a);
        return (T)(a / b);
    }
    static K_INLINE T rem(T a, T b) {
        if (b == 0 || (k_is_signed<T> && b == (T)-1)) return 0;
        return (T)(a % b);
    }
    static K_INLINE T floor_div(T a, T b) {
        T quotient = div(a, b);
        return rem(a, b) == 0 || (a < 0) == (b < 0) ? quotient : sub(quotient, 1);
    }
    static K_INLINE T floor_mod(T a, T b) {
        T rest = rem(a, b);
        return rest == 0 || (rest < 0) == (b < 0) ? rest : add(rest, b);
    }
    static K_INLINE T pow(T a, T b) {
        if (k_is_signed<T> && b < 0) {
            if (a == 1) return 1;
            if (a == (T)-1) return (b & 1) ? a : (T)1;
            return 0;
        }
        T power = 1, square = a;
        for (U left = (U)b; left != 0; left >>= 1) {
            if (left & 1) power = mul(power, square);
            square = mul(square, square);
        }
        return power;
    }
    static K_INLINE T min(T a, T b) { return a < b ? a : b; }
    static K_INLINE T max(T a, T b) { return a > b ? a : b; }
    static K_INLINE T abs(T a) { return k_is_signed<T> && a < 0 ? neg(a) : a; }
    static K_INLINE T sign(T a) { return a > 0 ? (T)1 : a < 0 ? (T)-1 : (T)0; }
};
K_INLINE float k_floor(float x) { return floorf(x); }
K_INLINE double k_floor(double x) { return floor(x); }
K_INLINE float k_fmod(float a, float b) { return fmodf(a, b); }
K_INLINE double k_fmod(double a, double b) { return fmod(a, b); }
K_INLINE float k_copysign(float a, float b) { return copysignf(a, b); }
K_INLINE double k_copysign(double a, double b) { return copysign(a, b); }
K_INLINE float k_raise(float a, float b) { return (float)::pow((double)a, (double)b); }
K_INLINE double k_raise(double a, double b) { return ::pow(a, b); }
K_INLINE bool k_negative(float x) { return k_float_bits(x) >> 31; }
K_INLINE bool k_negative(double x) { return k_double_bits(x) >> 63; }
K_INLINE float k_magnitude(float x) { return k_bits_float(k_float_bits(x) & 0x7fffffffu); }
K_INLINE double k_magnitude(double x) { return k_bits_double(k_double_bits(x) & ~(1ull << 63)); }
K_INLINE float k_negated(float x) { return k_bits_float(k_float_bits(x) ^ 0x80000000u); }
K_INLINE double k_negated(double x) { return k_bits_double(k_double_bits(x) ^ (1ull << 63)); }

template <class T> struct k_number<T, true> {
    typedef k_narrow<T> N;
    static K_INLINE T add(T a, T b) { return N::of(k_wide(a) + k_wide(b)); }
    static K_INLINE T sub(T a, T b) { return N::of(k_wide(a) - k_wide(b)); }
    static K_INLINE T mul(T a, T b) { return N::of(k_wide(a) * k_wide(b)); }
    static K_INLINE T div(T a, T b) { return N::of(k_wide(a) / k_wide(b)); }
    static K_INLINE T neg(T a) { return N::of(k_negated(k_wide(a))); }
    static K_INLINE T abs(T a) { return N::of(k_magnitude(k_wide(a))); }
    static K_INLINE T rem(T a, T b) { return N::of(k_fmod(k_wide(a), k_wide(b))); }
    static K_INLINE T floor_div(T a, T b) { return N::of(k_floor(k_wide(div(a, b)))); }
    static K_INLINE T floor_mod(T a, T b) {
        auto y = k_wide(b);
        auto rest = k_fmod(k_wide(a), y);
        if (rest == 0) return N::of(k_copysign(rest, y));
        return N::of((rest < 0) != (y < 0) ? rest + y : rest);
    }
    static K_INLINE T pow(T a, T b) { return N::of(k_raise(k_wide(a), k_wide(b))); }
    static K_INLINE T min(T a, T b) {
        auto x = k_wide(a), y = k_wide(b);
        return x < y || x != x || (x == y && k_negative(x)) ? a : b;
    }
    static K_INLINE T max(T a, T b) {
        auto x = k_wide(a), y = k_wide(b);
        return x > y || x != x || (x == y && !k_negative(x)) ? a : b;
    }
    static K_INLINE T sign(T a) {
        auto x = k_wide(a);
        return x == 0 || x != x ? a : N::of(k_copysign((decltype(x))1, x));
    }
};
#define K_BINARY(name) template <class T> K_INLINE T k_##name(T a, T b) { return k_number<T>::name(a, b); }
K_BINARY(add) K_BINARY(sub) K_BINARY(mul) K_BINARY(div) K_BINARY(rem) K_BINARY(floor_div) K_BINARY(floor_mod)
K_BINARY(pow) K_BINARY(min) K_BINARY(max)
template <class T> K_INLINE T k_neg(T a) { return k_number<T>::neg(a); }
template <class T> K_INLINE T k_abs(T a) { return k_number<T>::abs(a); }
template <class T> K_INLINE T k_sign(T a) { return k_number<T>::sign(a); }
// Whether a power has no value.
template <class T> K_INLINE bool k_pow_faults(T a, T b) { return k_is_signed<T> && a == 0 && b < 0; }

// Comparisons; integers and bools compare as they are.
template <class T> K_INLINE T k_comparable(T x) { return x; }
K_INLINE float k_comparable(k_f16 x) { return k_wide(x); }
K_INLINE float k_comparable(k_bf16 x) { return k_wide(x); }
#define K_COMPARE(name, sign) \
    template <class T> K_INLINE bool k_##name(T a, T b) { return k_comparable(a) sign k_comparable(b); }
K_COMPARE(eq, ==) K_COMPARE(ne, !=) K_COMPARE(lt, <) K_COMPARE(le, <=) K_COMPARE(gt, >) K_COMPARE(ge, >=)
template <class T> K_INLINE bool k_is_nan(T x) { return k_wide(x) != k_wide(x); }
template <class T> K_INLINE bool k_is_inf(T x) { return k_magnitude(k_wide(x)) == (decltype(k_wide(x)))(1e300 * 1e300); }
template <class T> K_INLINE bool k_is_finite(T x) { return k_wide(x) - k_wide(x) == 0; }
template <class T> K_INLINE T k_select(bool c, T a, T b) { return c ? a : b; }

// Logic and bits.
K_INLINE bool k_and(bool a, bool b) { return a & b; }
K_INLINE bool k_or(bool a, bool b) { return a | b; }
K_INLINE bool k_xor(bool a, bool b) { return a ^ b; }
K_INLINE bool k_not(bool a) { return !a; }
template <class T> K_INLINE T k_bit_and(T a, T b) { return (T)(a & b); }
template <class T> K_INLINE T k_bit_or(T a, T b) { return (T)(a | b); }
template <class T> K_INLINE T k_bit_xor(T a, T b) { return (T)(a ^ b); }
template <class T> K_INLINE T k_bit_not(T a) { return (T)~a; }
template <class T> K_INLINE T k_shl(T a, T b) {
    typedef typename k_unsigned<T>::type U;
    return b < 0 || (k_u64)b >= (k_u64)k_bits<T> ? (T)0 : (T)((U)a << (int)b);
}
template <class T> K_INLINE T k_shr(T a, T b) {
    if (b < 0 || (k_u64)b >= (k_u64)k_bits<T>) return a < 0 ? (T)-1 : (T)0;
    return (T)(a >> (int)b);
}

// A value that replaces the best one so far in an arg-reduction: a NaN is the most extreme.
template <bool smallest, bool last, class T> K_INLINE bool k_precedes(T value, T held) {
    auto x = k_comparable(value), y = k_comparable(held);
    bool x_nan = x != x, y_nan = y != y;
    if (x_nan || y_nan) return x_nan && (!y_nan || last);
    return (smallest ? x < y : x > y) || (last && x == y);
}
