#!/usr/bin/env python3
"""Minimax polynomials by Remez exchange, printed as Rust constants.

For each entry of TABLE, prints the polynomial with the smallest maximum weighted error from a
function on an interval, coefficients lowest first, rounded to the float type that uses them, and
that error. Needs mpmath.
"""
import sys
import struct
from mpmath import mp, mpf, matrix, lu_solve, cos, pi, exp, log, sqrt, sin, tan, atan, asin, erf, erfc, sinh, log1p, expm1

mp.prec = 400

def remez(g, w, a, b, degree):
    a, b = mpf(a), mpf(b)
    n = degree + 2
    xs = [(a + b) / 2 - (b - a) / 2 * cos(pi * (mpf(i)) / (n - 1)) for i in range(n)]
    xs = [min(max(x, a + (b - a) * mpf(10) ** -12), b) for x in xs]
    grid_n = 24 * n
    grid = [(a + b) / 2 - (b - a) / 2 * cos(pi * (mpf(i) + mpf(1) / 2) / grid_n) for i in range(grid_n)]
    grid = [a + (b - a) * mpf(10) ** -12] + grid + [b]
    gv = [g(x) for x in grid]
    wv = [w(x) for x in grid]
    coefs = None
    for _ in range(12):
        A = matrix(n, n)
        y = matrix(n, 1)
        for i, x in enumerate(xs):
            p = mpf(1)
            for j in range(degree + 1):
                A[i, j] = p
                p *= x
            A[i, n - 1] = (-1) ** i / w(x)
            y[i] = g(x)
        sol = lu_solve(A, y)
        coefs = [sol[j] for j in range(degree + 1)]
        level = abs(sol[n - 1])
        err = []
        for x, gx, wx in zip(grid, gv, wv):
            p = mpf(0)
            for c in reversed(coefs):
                p = p * x + c
            err.append((p - gx) * wx)
        # Alternating extrema: one per run of equal sign.
        extrema = []
        i = 0
        while i < len(grid):
            s = err[i] >= 0
            j, best = i, i
            while j < len(grid) and (err[j] >= 0) == s:
                if abs(err[j]) > abs(err[best]):
                    best = j
                j += 1
            extrema.append(best)
            i = j
        while len(extrema) > n:
            if len(extrema) - n >= 2 or True:
                # drop the smallest end
                if abs(err[extrema[0]]) < abs(err[extrema[-1]]):
                    extrema.pop(0)
                else:
                    extrema.pop()
        biggest = max(abs(e) for e in err)
        if len(extrema) < n:
            break
        xs = [grid[i] for i in extrema]
        if biggest / level < mpf('1.01'):
            break
    return coefs, biggest

def single(c):
    return struct.unpack('f', struct.pack('f', float(c)))[0]

def show(name, coefs, error, kind):
    values = [float(c) if kind == 'f64' else single(c) for c in coefs]
    print(f"// {name}: error 2^{float(mp.log(error, 2)):.1f}")
    print(f"const {name}: [f64; {len(values)}] = [")
    for v in values:
        print(f"    {v!r},")
    print("];")

LN2 = log(mpf(2))
R = LN2 / 2 * mpf('1.0002')
S = 3 - 2 * sqrt(mpf(2))   # largest s of the logarithm
Z = S * S
F0, F1 = sqrt(mpf('0.5')) - 1, sqrt(mpf(2)) - 1
P4 = (pi / 4 * mpf('1.0001')) ** 2
T8 = (sqrt(mpf(2)) - 1) ** 2 * mpf('1.0001')

def q_exp(r): return (exp(r) - 1 - r) / r ** 2
def q_exp2(r): return (mpf(2) ** r - 1 - r * LN2) / r ** 2
def log_tail(z):
    s = sqrt(z); return (log((1 + s) / (1 - s)) - 2 * s) / (s * z)
def log_w(z):
    s = sqrt(z); return s * z / log((1 + s) / (1 - s))
def pow_tail(z):
    s = sqrt(z); return (log((1 + s) / (1 - s)) / (2 * s) - 1 - z / 3) / z ** 2
def f32_log(f): return (log1p(f) - f + f * f / 2) / f ** 3
def sin_tail(z):
    x = sqrt(z); return (sin(x) - x) / (x * z)
def cos_tail(z):
    x = sqrt(z); return (cos(x) - 1 + z / 2) / z ** 2
def atan_tail(z):
    x = sqrt(z); return (atan(x) - x) / (x * z)
def asin_tail(z):
    x = sqrt(z); return (asin(x) - x) / (x * z)
def sinh_tail(z):
    x = sqrt(z); return (sinh(x) - x) / (x * z)
def erf_small(z):
    x = sqrt(z); return erf(x) / x - 1
def erf_large(x): return -log(erfc(x))

TABLE = {
    'EXP_F64': (q_exp, lambda r: r * r / exp(r), -R, R * mpf('1.0007'), 9, 'f64'),
    'EXP_F32': (q_exp, lambda r: r * r / exp(r), -R, R * mpf('1.0007'), 4, 'f32'),
    'EXPM1_F32': (q_exp, lambda r: abs(r * r / expm1(r)), -R, R * mpf('1.0007'), 5, 'f32'),
    'EXP2_F64': (q_exp2, lambda r: r * r / mpf(2) ** r, -0.5001, 0.5003, 9, 'f64'),
    'EXP2_SHORT': (q_exp2, lambda r: r * r / mpf(2) ** r, -0.5001, 0.5003, 4, 'f64'),
    'LOG_F64': (log_tail, log_w, 0, Z, 6, 'f64'),
    'LOG_SHORT': (log_tail, log_w, 0, Z, 4, 'f64'),
    'LOG_F32': (f32_log, lambda f: abs(f ** 3 / log1p(f)), F0 * mpf('1.0001'), F1 * mpf('1.0001'), 7, 'f32'),
    'POW_F64': (pow_tail, lambda z: z ** 2, 0, Z, 6, 'f64'),
    'SIN_F64': (sin_tail, lambda z: z * sqrt(z) / sin(sqrt(z)), 0, P4, 5, 'f64'),
    'COS_F64': (cos_tail, lambda z: z ** 2 / cos(sqrt(z)), 0, P4, 5, 'f64'),
    'SIN_F32': (sin_tail, lambda z: z * sqrt(z) / sin(sqrt(z)), 0, P4, 2, 'f32'),
    'COS_F32': (cos_tail, lambda z: z ** 2 / cos(sqrt(z)), 0, P4, 2, 'f32'),
    'ATAN_F64': (atan_tail, lambda z: z * sqrt(z) / atan(sqrt(z)), 0, T8, 10, 'f64'),
    'ASIN_F64': (asin_tail, lambda z: z * sqrt(z) / asin(sqrt(z)), 0, 0.25, 12, 'f64'),
    'SINH_F64': (sinh_tail, lambda z: z * sqrt(z) / sinh(sqrt(z)), 0, 1, 6, 'f64'),
    'ERF_SMALL_F64': (erf_small, lambda z: sqrt(z) / erf(sqrt(z)), 0, mpf('0.9') ** 2, 11, 'f64'),
    'ERF_LARGE_F64': (erf_large, lambda x: erfc(x) / erf(x), 0.9, 6.0, 19, 'f64'),
    'ERF_SMALL_F32': (erf_small, lambda z: sqrt(z) / erf(sqrt(z)), 0, mpf('0.9') ** 2, 6, 'f32'),
    'ERF_LARGE_F32': (erf_large, lambda x: erfc(x) / erf(x), 0.9, 4.0, 7, 'f32'),
}

if __name__ == '__main__':
    for name in sys.argv[1:] or TABLE:
        g, w, a, b, degree, kind = TABLE[name]
        coefs, error = remez(g, w, a, b, degree)
        show(name, coefs, error, kind)
        sys.stdout.flush()
