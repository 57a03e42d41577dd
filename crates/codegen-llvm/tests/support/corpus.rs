//! Kernels and graphs that each show one thing: what is checked first when something is wrong.

use kiln_testkit::generate::Flavor;
use kiln_testkit::kernels::Elements;

const SMOOTH: Elements = Elements {
    flavor: Flavor::Smooth,
    indices: (0, 2),
};
const EDGES: Elements = Elements {
    flavor: Flavor::Edges,
    indices: (0, 2),
};

/// Kernels, with what their operands are made of.
pub(crate) const KERNELS: [(&str, Elements); 13] = [
    (
        // What all rows of a tile know when they are summed together, each row must know anew when it goes by itself.
        "kernel @tilted(%w: in f32[N], %x: in f32[M, N], %y: out f32[M, N]) {
          outer i < M
          t = reduce add[r < N] %x[i, r] * %w[r]
          v = reduce add[k < N] (%x[i, k] - t * 0.5) * %w[k]
          store %y[i, j < N] = exp(%x[i, j] - t * 0.5) + v
        }",
        SMOOTH,
    ),
    (
        // An array of products, each scaled and shifted before it is kept.
        "kernel @scores(%q: in f32[M, 8], %k: in f32[N, 8], %a: in f32[N], %o: out f32[M, N]) {
          outer m < M
          s[j < N] = reduce add[d < 8] %q[m, d] * %k[j, d]
          w[j < N] = s[j] * 0.25 + %a[j]
          t = reduce max[j < N] w[j]
          store %o[m, j < N] = exp(w[j] - t)
        }",
        SMOOTH,
    ),
    (
        // Enough rows that what they share is laid out anew at each call.
        "kernel @shared(%x: in f32[13, 3], %w: in f32[N, 3], %y: out f32[13, N]) {
          outer m < 13, n < N
          s = reduce add[k < 3] %x[m, k] * %w[n, k]
          store %y[m, n] = s
        }",
        SMOOTH,
    ),
    (
        "kernel @columns(%x: in f32[B, C, 3], %w: const f32[B, 3], %y: out f32[B, C]) {
          outer i < B, j < C
          t = reduce add[r < 3] %x[i, j, r] * %w[i, r]
          store %y[i, j] = exp(tanh(t) - %w[i, 0] * 2.0) + sin(%w[i, 0] * 2.0)
        }",
        SMOOTH,
    ),
    (
        "kernel @unsigned(%a: in u8[N], %b: in u8[N], %c: in u32[N], %d: in u32[N], %y: out u8[N], %z: out bool[N]) {
          outer i < N
          store %y[i] = select(%a[i] < %b[i], %a[i], %b[i])
          store %z[i] = %c[i] >= %d[i]
        }",
        EDGES,
    ),
    (
        "kernel @quotient(%a: in i32[N], %b: in i8[N], %y: out i32[N], %z: out i32[N]) {
          outer i < N
          store %y[i] = %a[i] / (abs(i32(%b[i])) + 1)
          store %z[i] = %a[i] % (abs(i32(%b[i])) + 1)
        }",
        EDGES,
    ),
    (
        "kernel @wide_sum(%x: in f32[M, N], %y: out f64[M]) {
          outer i < M
          s = reduce add[r < N] f64(%x[i, r]) * 0.1
          store %y[i] = s
        }",
        SMOOTH,
    ),
    (
        "kernel @largest_at(%n: in i64[K], %x: in f32[K, D], %z: inout f32[N, D], %u: inout i32[N]) {
          outer k < K
          store[d < D] max %z[%n[k], d] = %x[k, d]
          store min %u[%n[k]] = i32(k) - 3
        }",
        SMOOTH,
    ),
    (
        // Long expressions run row by row.
        "kernel @long_epilogue(%x: in f32[M, K], %w: const f32[K, N], %b: in f32[M, N], %y: out f32[M, N]) {
          outer m < M, n < N
          s = reduce add[k < K] %x[m, k] * %w[k, n]
          store %y[m, n] = tanh(s + %b[m, n]) * sigmoid(s - %b[m, n]) + (%b[m, n] * s - abs(s)) * max(s, %b[m, n]) - exp(min(s, 0.5)) * relu(s * %b[m, n])
        }",
        SMOOTH,
    ),
    (
        "kernel @rows(%x: in f32[M, N], %y: out f32[M, N]) {
          outer m < M
          t = reduce max[r < N] %x[m, r]
          s = reduce add[r < N] exp(%x[m, r] - t)
          store %y[m, j < N] = (%x[m, j] - t) * sigmoid(%x[m, j]) / s + tanh(%x[m, j] * t) - log(s) * %x[m, j]
        }",
        SMOOTH,
    ),
    (
        "kernel @ties(%x: in i32[M, N], %y: out i64[M], %z: out i64[M]) where N >= 1 {
          outer i < M
          a = reduce argmax[r < N] %x[i, r] / 4
          b = reduce argmin_last[r < N] %x[i, r] / 4
          store %y[i] = a
          store %z[i] = b
        }",
        SMOOTH,
    ),
    (
        "kernel @backwards(%x: in f32[B, T], %y: out f32[B, T], %z: out f32[B]) {
          outer b < B
          carry t < T reverse {
            a init 1.0 = prev(a) * 0.5 + %x[b, t]
            c init 2.0 = prev(a) - prev(c) * 0.25 + a
            store %y[b, t] = c + prev(c)
          }
          store %z[b] = last(c) + last(a)
        }",
        SMOOTH,
    ),
    (
        "kernel @extremes(%x: in f32[M, N], %y: out f32[M], %z: out f32[M]) {
          outer i < M
          a = reduce max[r < N] %x[i, r] - 2.0
          b = reduce min[r < N] %x[i, r] + 2.0
          store %y[i] = a
          store %z[i] = b
        }",
        SMOOTH,
    ),
];

/// Graphs over sizes `A` and `B`, of inputs that are all `f32`.
pub(crate) const GRAPHS: [&str; 7] = [
    // Coordinates that a rounding more would move over a border: divisions must be exact.
    "graph @borders(%x: f32[A], %y: f32[B]) -> (f32[17], f32[2]) {
      %a = resize %x {axes = [0], sizes = [17], scales = [2.0], mode = cubic, coordinates = half_pixel_symmetric, rounding = ceil, cubic_coefficient = -0.75, exclude_outside}
      %b = resize %y {axes = [0], sizes = [2], scales = [0.0], mode = linear, coordinates = pytorch_half_pixel, rounding = prefer_ceil, cubic_coefficient = -0.75, exclude_outside}
      return %a, %b
    }",
    "graph @broadcast(%x: f32[A], %y: f32[B]) -> f32[bcast(A, B)] {
      %s = add %x, %y
      %t = mul %s, %x
      return %t
    }",
    "graph @square(%x: f32[A, A], %y: f32[A, A]) -> f32[A, A] {
      %t = transpose %x {permutation = [1, 0]}
      %s = add %t, %y
      return %s
    }",
    "graph @transposed(%x: f32[A, B], %y: f32[B, A]) -> f32[B, A] {
      %t = transpose %x {permutation = [1, 0]}
      %s = mul %t, %y
      return %s
    }",
    "graph @border(%x: f32[A, B]) -> f32[A + 3, B + 1] {
      %f: f32[] = constant [1.5]
      %p = pad %x, %f {low = [1, 0], high = [2, 1], mode = constant}
      %s = neg %p
      return %s
    }",
    "graph @pieces(%x: f32[A, B], %y: f32[A, 3]) -> f32[A, B + 3] {
      %n = neg %x
      %c = concat %n, %y {axis = 1}
      %s = tanh %c
      return %s
    }",
    "graph @kept(%x: f32[A, B]) -> f32[A, B] {
      %a = neg %x
      %m = reduce %a {function = max, axes = [0], keep_dims}
      %c = cumulate %a {function = sum, axis = 1}
      %d = cumulate %c {function = sum, axis = 0}
      %e = sub %d, %m
      %f = add %e, %a
      return %f
    }",
];
