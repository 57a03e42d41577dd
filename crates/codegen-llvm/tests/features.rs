//! One kernel per feature of the form, compiled with every schedule at every level, at sizes around the vectors' widths.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test that cannot go on panics"
)]

mod support;

use kiln_backend::FaultCause;
use kiln_tensor::Tensor;
use kiln_testkit::generate::Flavor;
use kiln_testkit::kernels::{Elements, check_kernel, run_kernel};
use support::{SMOOTH, check_text, compiled, kernel};

const EDGES: Elements = Elements {
    flavor: Flavor::Edges,
    indices: (0, 1),
};

/// Compares, and expects that no call faults.
fn check(text: &str) {
    check_with(text, SMOOTH);
}

fn check_with(text: &str, elements: Elements) {
    let (agreed, faulted) = check_text(text, elements, 20_000.0);
    assert!(agreed > 0, "no call has a result:\n{text}");
    assert_eq!(faulted, 0, "{text}");
}

#[test]
fn kernels_that_show_one_thing_each() {
    for (text, elements) in support::corpus::KERNELS {
        let (agreed, _) = check_text(text, elements, 20_000.0);
        assert!(agreed > 0, "no call has a result:\n{text}");
    }
}

#[test]
fn graphs_that_show_one_thing_each() {
    let runtimes = support::graphs::runtimes();
    for text in support::corpus::GRAPHS {
        support::graphs::check_text(text, &runtimes).unwrap_or_else(|message| panic!("{message}"));
    }
}

/// The padding of a convolution is zeros that are multiplied; a transposed one multiplies nothing that is not there.
#[test]
fn weights_that_are_not_finite_meet_the_padding() {
    let runtimes = support::graphs::runtimes();
    for (channels, groups, op) in [
        (2, 1, "conv"),
        (6, 6, "conv"),
        (4, 2, "conv"),
        (2, 1, "conv_transpose"),
        (4, 2, "conv_transpose"),
    ] {
        let within = channels / groups;
        let (weights, output_padding) = match op {
            "conv" => ([6, within], ""),
            _ => ([channels, 6 / groups], ", output_padding = [0, 0]"),
        };
        for stride in [1, 2] {
            let out = match (op, stride) {
                (_, 1) => [5, 17],
                ("conv", _) => [3, 9],
                _ => [9, 33],
            };
            let dtype = if op == "conv" { ", out = f32" } else { "" };
            let text = format!(
                "graph @padded(%x: f32[N, {channels}, 5, 17], %w: f32[{}, {}, 3, 3]) -> f32[N, 6, {}, {}] {{
                  %y = {op} %x, %w {{strides = [{stride}, {stride}], dilations = [1, 1], low = [1, 1], high = [1, 1]{output_padding}, groups = {groups}{dtype}}}
                  return %y
                }}",
                weights[0], weights[1], out[0], out[1]
            );
            for (place, number) in [(0, f32::INFINITY), (4, f32::NAN), (17, f32::NEG_INFINITY)] {
                let mut w = Tensor::full(&[weights[0], weights[1], 3, 3], 0.5_f32).unwrap();
                w.as_mut_slice::<f32>().unwrap()[place] = number;
                let x = Tensor::full(&[1, channels, 5, 17], 2.0_f32).unwrap();
                support::graphs::check_inputs(&text, &runtimes, &[x, w])
                    .unwrap_or_else(|message| panic!("{message}"));
            }
        }
    }
}

#[test]
fn guarded_loads() {
    check(
        "kernel @guards(%x: in f32[N], %c: in bool[N], %y: out f32[N], %z: out f32[N]) {
          outer i < N
          store %y[i] = (%x[i - 2] if inside else 1.5) + (%x[i + 3] if inside else -0.5)
          store %z[i] = %x[i] if %c[i] else 7.0
        }",
    );
    check(
        "kernel @picture(%x: in f32[H, W], %y: out f32[H, W]) {
          outer h < H, w < W
          s = reduce max[p < 3, q < 5] %x[h + p - 1, w + q - 2] if inside else -inf
          store %y[h, w] = s
        }",
    );
}

#[test]
fn every_element_type_is_stored() {
    for dtype in [
        "f64", "f16", "bf16", "i64", "i32", "i16", "i8", "u64", "u32", "u16", "u8", "bool",
    ] {
        check_with(
            &format!(
                "kernel @copy(%x: in {dtype}[M, N], %y: out {dtype}[N, M]) {{
                  outer i < M, j < N
                  store %y[j, i] = %x[i, j]
                }}"
            ),
            EDGES,
        );
    }
}

#[test]
fn types_are_converted_in_vectors() {
    for (from, to) in [
        ("f16", "f32"),
        ("bf16", "f32"),
        ("f32", "f16"),
        ("f32", "bf16"),
        ("f32", "f64"),
        ("f64", "f32"),
        ("i8", "f32"),
        ("u8", "f32"),
        ("i32", "f32"),
        ("f32", "i32"),
        ("f32", "u8"),
        ("i64", "i8"),
        ("u8", "i32"),
        ("bool", "f32"),
        ("i32", "bool"),
        ("f16", "f64"),
    ] {
        check(&format!(
            "kernel @cast(%x: in {from}[N], %y: out {to}[N]) {{
              outer i < N
              store %y[i] = {to}(%x[i])
            }}"
        ));
    }
}

#[test]
fn strides_of_every_kind() {
    check(
        "kernel @strides(%x: in f32[M, N] strides [1, M], %r: in f32[M, N] strides [0, 1], %c: in f32[M, N] strides [1, 0], %p: in f32[M, N] strides [2*N + 3, 2], %y: out f32[M, N] strides [N + 5, 1], %z: out f32[M, N] strides [1, M + 1]) {
          outer i < M, j < N
          store %y[i, j] = %x[i, j] + %r[i, j] * %c[i, j]
          store %z[i, j] = %p[i, j] - %x[i, j]
        }",
    );
    check(
        "kernel @row_sums(%x: in f32[M, N] strides [1, M], %y: out f32[M]) {
          outer i < M
          s = reduce add[r < N] %x[i, r]
          store %y[i] = s
        }",
    );
}

#[test]
fn reductions_of_every_kind_and_type() {
    for (dtype, accumulator) in [
        ("f32", "f32"),
        ("f32", "f64"),
        ("f64", "f64"),
        ("i32", "i32"),
        ("i8", "i32"),
        ("u8", "u32"),
        ("i64", "i64"),
        ("u64", "u64"),
    ] {
        for reduction in ["add", "mul", "min", "max"] {
            let value = if dtype == accumulator {
                "%x[i, r]".to_owned()
            } else {
                format!("{accumulator}(%x[i, r])")
            };
            check(&format!(
                "kernel @reduce(%x: in {dtype}[M, N], %y: out {accumulator}[M]) {{
                  outer i < M
                  s = reduce {reduction}[r < N] {value}
                  store %y[i] = s
                }}"
            ));
        }
    }
    for reduction in ["and", "or"] {
        check(&format!(
            "kernel @truth(%x: in bool[M, N], %y: out bool[M]) {{
              outer i < M
              s = reduce {reduction}[r < N] %x[i, r]
              store %y[i] = s
            }}"
        ));
    }
}

#[test]
fn two_reduced_axes_and_columns() {
    check(
        "kernel @both(%x: in f32[M, K, N], %y: out f32[K]) {
          outer k < K
          s = reduce add[i < M, j < N] %x[i, k, j]
          store %y[k] = s
        }",
    );
    check(
        "kernel @columns(%x: in f32[M, N], %y: out f32[N]) {
          outer j < N
          m = reduce max[i < M] %x[i, j]
          s = reduce add[i < M] exp(%x[i, j] - m)
          store %y[j] = m + log(s)
        }",
    );
}

#[test]
fn extremes_of_nothing_and_of_nan() {
    for reduction in ["min", "max"] {
        check_with(
            &format!(
                "kernel @extreme(%x: in f32[M, N], %y: out f32[M], %z: out f32[N]) {{
                  outer i < M
                  s = reduce {reduction}[r < N] %x[i, r]
                  store %y[i] = s
                }}"
            )
            .replace(", %z: out f32[N]", ""),
            EDGES,
        );
        check_with(
            &format!(
                "kernel @pair(%a: in f32[N], %b: in f32[N], %y: out f32[N]) {{
                  outer i < N
                  store %y[i] = {reduction}(%a[i], %b[i])
                }}"
            ),
            EDGES,
        );
    }
}

#[test]
fn arg_reductions_and_their_ties() {
    for reduction in ["argmax", "argmin", "argmax_last", "argmin_last"] {
        // Few different values, so that there are ties; with NaN in the second.
        for (dtype, value, elements) in [
            ("f32", "round_even(%x[i, r] * 2.0)", SMOOTH),
            ("f32", "%x[i, r]", EDGES),
            ("i32", "%x[i, r] / 4", SMOOTH),
            ("u8", "%x[i, r]", EDGES),
        ] {
            check_with(
                &format!(
                    "kernel @arg(%x: in {dtype}[M, N], %y: out i64[M]) where N >= 1 {{
                      outer i < M
                      a = reduce {reduction}[r < N] {value}
                      store %y[i] = a
                    }}"
                ),
                elements,
            );
        }
    }
}

#[test]
fn rows_divided_by_one_number() {
    for dtype in ["f32", "f64"] {
        for elements in [SMOOTH, EDGES] {
            check_with(
                &format!(
                    "kernel @scaled(%x: in {dtype}[M, N], %d: in {dtype}[M], %y: out {dtype}[M, N]) {{
                      outer i < M
                      store %y[i, j < N] = %x[i, j] / %d[i]
                    }}"
                ),
                elements,
            );
        }
    }
}

#[test]
fn quotients_at_the_ends_of_the_range() {
    let kernel = kernel(
        "kernel @scaled(%x: in f32[M, N], %d: in f32[M], %y: out f32[M, N]) {
          outer i < M
          store %y[i, j < N] = %x[i, j] / %d[i]
        }",
    );
    let tiny = f32::from_bits(1);
    let ends = [
        0.0,
        -0.0,
        tiny,
        3e-39,
        f32::MIN_POSITIVE,
        1e-20,
        1.0,
        3.0,
        1e20,
        f32::MAX,
    ];
    let mut numbers: Vec<f32> = ends.iter().flat_map(|&end| [end, -end]).collect();
    numbers.extend([f32::INFINITY, f32::NEG_INFINITY, f32::NAN, 7e-20, 0.1]);
    let count = numbers.len();
    let rows = Tensor::from_vec(&[count, count], numbers.repeat(count)).unwrap();
    let divisors = Tensor::from_vec(&[count], numbers.clone()).unwrap();
    let out = Tensor::full(&[count, count], 0.0_f32).unwrap();
    let tensors = [rows, divisors, out];
    let symbols = support::symbols(&kernel, &[("M", count as i64), ("N", count as i64)]);
    let executor = kiln_native::NativeExecutor::new();
    let alone: std::sync::Arc<dyn kiln_backend::TaskPool> =
        std::sync::Arc::new(kiln_backend::CallerOnly);
    for variant in compiled(&kernel) {
        let (artifact, loaded) = (&variant.artifact, &variant.loaded);
        let ran = run_kernel(
            &executor, &kernel, artifact, loaded, &symbols, &tensors, &alone,
        );
        let (results, _) = ran.unwrap();
        let quotients = results.last().unwrap();
        for (&quotient, at) in quotients.as_slice::<f32>().unwrap().iter().zip(0..) {
            let (dividend, divisor) = (numbers[at % count], numbers[at / count]);
            let exact = dividend / divisor;
            assert!(
                quotient == exact || (quotient.is_nan() && exact.is_nan()),
                "{dividend:e} / {divisor:e}: {quotient:e}, expected {exact:e}"
            );
        }
    }
}

/// The comparison runs them as if there were no caches too.
#[test]
fn results_larger_than_caches_go_past_them() {
    let executor = kiln_native::NativeExecutor::new();
    for (text, shapes) in [
        (
            "kernel @map(%x: in f32[N], %y: out f32[N], %z: out f64[N]) {
              outer i < N
              store %y[i] = %x[i] * 2.0
              store %z[i] = f64(%x[i])
            }",
            vec![vec![77], vec![4099]],
        ),
        (
            "kernel @rows(%x: in f32[M, N], %y: out f32[M, N]) {
              outer i < M
              t = reduce add[r < N] %x[i, r]
              store %y[i, j < N] = %x[i, j] - t
            }",
            vec![vec![3, 40], vec![5, 64], vec![2, 67]],
        ),
    ] {
        let kernel = kernel(text);
        let variants = compiled(&kernel);
        let streams = |variant: &kiln_testkit::kernels::Variant| {
            let argument = |quantity: &kiln_backend::Quantity| quantity.to_string() == "cache3";
            variant.artifact.arguments.iter().any(argument)
        };
        assert!(variants.iter().any(streams), "{text}");
        for shape in shapes {
            let elements: usize = shape.iter().product();
            let x = (0..elements)
                .map(|i| i as f32 * 0.5 - 9.0)
                .collect::<Vec<_>>();
            let mut tensors = vec![Tensor::from_vec(&shape, x).unwrap()];
            for buffer in kernel.buffers().values().skip(1) {
                tensors.push(Tensor::zeros(buffer.dtype, &shape).unwrap());
            }
            let sizes: Vec<i64> = shape.iter().map(|&size| size as i64).collect();
            check_kernel(&executor, &kernel, &variants, &sizes, &tensors).unwrap();
        }
    }
}

#[test]
fn rows_that_are_gone_through_several_times() {
    for elements in [SMOOTH, EDGES] {
        check_with(
            "kernel @softmax(%x: in f32[M, N], %y: out f32[M, N]) {
              outer i < M
              m = reduce max[r < N] %x[i, r]
              e[j < N] = exp(%x[i, j] - m)
              t = reduce add[k < N] e[k]
              store %y[i, j < N] = e[j] / t
            }",
            elements,
        );
    }
    check(
        "kernel @norm(%g: in f32[N], %b: in f32[N], %x: in f32[M, N], %y: out f32[M, N]) where N >= 1 {
          outer i < M
          t = reduce add[r < N] %x[i, r]
          v = reduce add[k < N] square(%x[i, k] - t / f32(N))
          store %y[i, j < N] = %b[j] + %g[j] * ((%x[i, j] - t / f32(N)) * rsqrt(v / f32(N) + 1e-5))
        }",
    );
}

#[test]
fn array_locals_are_kept_per_point() {
    check(
        "kernel @arrays(%x: in f32[B, N, K], %y: out f32[B, N], %z: out f32[B, K]) {
          outer b < B
          p[j < N] = reduce add[r < K] %x[b, j, r] * %x[b, j, r]
          q[j < N, r < K] = %x[b, j, r] * p[j]
          m = reduce max[j < N] p[j]
          store %y[b, j < N] = p[j] - m
          t[r < K] = reduce add[j < N] q[j, r]
          store %z[b, r < K] = t[r]
        }",
    );
}

#[test]
fn blocks_carry_forwards_and_backwards() {
    for reverse in ["", " reverse"] {
        check(&format!(
            "kernel @carry(%x: in f32[B, T, E], %y: out f32[B, T, E], %z: out f32[B, E]) {{
              outer b < B
              carry t < T{reverse} {{
                a[e < E] init 1.0 = prev(a)[e] * 0.5 + %x[b, t, e]
                c[e < E] init 2.0 = prev(a)[e] - prev(c)[e] * 0.25 + a[e]
                store %y[b, t, e < E] = c[e] + prev(c)[e]
              }}
              store %z[b, e < E] = last(c)[e] + last(a)[e]
            }}"
        ));
        check(
            &format!(
                "kernel @fibonacci(%y: out i64[T], %z: out i64[B]) {{
              outer b < B
              carry t < T{reverse} {{
                a init 0 = prev(c)
                c init 1 = prev(a) + prev(c)
              }}
              store %z[b] = last(c)
            }}"
            )
            .replace("%y: out i64[T], ", ""),
        );
    }
}

#[test]
fn neighbouring_points_carry_several_values_in_vectors() {
    for dtype in ["f32", "f64", "i32"] {
        check(&format!(
            "kernel @cells(%x: in {dtype}[T, B, E], %a: in {dtype}[E], %h: in {dtype}[B, E], %y: out {dtype}[T, B, E], %u: out {dtype}[B, E], %v: out {dtype}[B, E]) {{
              outer b < B, e < E
              carry t < T {{
                s init %h[b, e] = prev(s) * %a[e] + %x[t, b, e]
                m init %a[e] = max(prev(m), s) - prev(s)
                store %y[t, b, e] = s - prev(m)
              }}
              store %u[b, e] = last(m)
              store %v[b, e] = last(s)
            }}"
        ));
        // What steps read lies apart, and at positions that are data.
        check(&format!(
            "kernel @apart(%x: in {dtype}[E, T], %n: in i64[E], %u: in {dtype}[E + 2], %y: out {dtype}[T, E]) {{
              outer e < E
              carry t < T {{
                s init %u[e] = prev(s) + %x[e, t] * %u[min(max(%n[e], 0), 1)]
                store %y[t, e] = s
              }}
            }}"
        ));
        // No value is carried that the last axis changes, but for what it begins with.
        check(&format!(
            "kernel @halves(%h: in {dtype}[E], %y: out {dtype}[T, E], %z: out {dtype}[E]) {{
              outer e < E
              carry t < T {{
                s init %h[e] = max(prev(s), {dtype}(t))
                store %y[t, e] = prev(s)
              }}
              store %z[e] = last(s)
            }}"
        ));
    }
}

/// Vectors of updates: rows and columns from a position on that is data, in bounds and out of them.
#[test]
fn stores_that_join_along_outer_axes() {
    for combine in ["add", "max", "set"] {
        for dtype in ["f32", "u8", "i64"] {
            for (place, shape) in [
                ("%n[0] + k, d", "[N + K, D]"),
                ("k, %n[0] + d", "[K, N + D]"),
                ("%n[0] + k, %n[1] + d", "[N + K, N + D]"),
                ("%n[0], d", "[N, D]"),
            ] {
                let (agreed, _) = check_text(
                    &format!(
                        "kernel @update(%n: in i64[2], %x: in {dtype}[K, D], %z: inout {dtype}{shape}) {{
                          outer k < K, d < D
                          store {combine} %z[{place}] = %x[k, d]
                        }}"
                    ),
                    Elements {
                        indices: (-1, 2),
                        ..SMOOTH
                    },
                    20_000.0,
                );
                assert!(agreed > 0, "{combine} {dtype} at {place}");
            }
        }
    }
}

#[test]
fn stores_that_join() {
    for combine in ["add", "mul", "min", "max", "set"] {
        for dtype in ["f32", "i32", "u8", "f64"] {
            let (agreed, _) = check_text(
                &format!(
                    "kernel @scatter(%n: in i64[K], %x: in {dtype}[K, D], %z: inout {dtype}[N, D]) {{
                      outer k < K
                      store[d < D] {combine} %z[%n[k], d] = %x[k, d]
                    }}"
                ),
                Elements {
                    flavor: Flavor::Small,
                    indices: (0, 2),
                },
                20_000.0,
            );
            assert!(agreed > 0);
        }
    }
}

#[test]
fn constants_are_packed_with_what_is_left_over() {
    check(
        "kernel @matmul(%x: in f32[M, K], %w: const f32[K, N], %b: const f32[N], %y: out f32[M, N]) {
          outer m < M, n < N
          s = reduce add[k < K] %x[m, k] * %w[k, n]
          store %y[m, n] = s + %b[n]
        }",
    );
    check(
        "kernel @transposed(%x: in f32[M, K], %w: const f32[N, K], %y: out f32[M, N]) {
          outer m < M, n < N
          s = reduce add[k < K] %x[m, k] * %w[n, k]
          store %y[m, n] = s
        }",
    );
    check(
        "kernel @pointwise(%x: in f32[B, C, P], %w: const f32[O, C], %y: out f32[B, O, P]) {
          outer b < B, o < O, p < P
          s = reduce add[c < C] %x[b, c, p] * %w[o, c]
          store %y[b, o, p] = relu(s)
        }",
    );
    check(
        "kernel @half(%x: in f16[M, K], %w: const f16[K, N], %y: out f16[M, N]) {
          outer m < M, n < N
          s = reduce add[k < K] f32(%x[m, k]) * f32(%w[k, n])
          store %y[m, n] = f16(s)
        }",
    );
}

#[test]
fn sums_are_kept_in_the_type_that_is_asked_for() {
    // 2^24 and many small ones: an f32 sum loses them, in any order.
    let text = "kernel @wide(%x: in f32[N], %y: out f64[1]) {
      outer i < 1
      s = reduce add[r < N] f64(%x[r])
      store %y[i] = s
    }";
    let kernel = kernel(text);
    let variants = compiled(&kernel);
    let mut elements = vec![0.25_f32; 999];
    elements.push(16_777_216.0);
    let tensors = [
        Tensor::from_vec(&[1000], elements).unwrap(),
        Tensor::from_slice(&[1], &[0.0_f64]).unwrap(),
    ];
    let executor = kiln_native::NativeExecutor::new();
    check_kernel(&executor, &kernel, &variants, &[1000], &tensors).unwrap();
}

/// Every index that is read, with what the kernel and its code report.
#[test]
fn indices_outside_are_reported_with_their_site() {
    let text = "kernel @gather(%n: in i64[K], %x: in f32[N, D], %y: out f32[K, D]) {
      outer k < K
      store %y[k, d < D] = %x[%n[k], d]
    }";
    let kernel = kernel(text);
    let variants = compiled(&kernel);
    let executor = kiln_native::NativeExecutor::new();
    let alone: std::sync::Arc<dyn kiln_backend::TaskPool> =
        std::sync::Arc::new(kiln_backend::CallerOnly);
    for (bad, at) in [
        (-1, 0),
        (5, 16),
        (i64::MIN, 3),
        (i64::MAX, 7),
        (4, usize::MAX),
    ] {
        let mut indices = vec![1_i64; 17];
        if let Some(index) = indices.get_mut(at) {
            *index = bad;
        }
        let tensors = [
            Tensor::from_vec(&[17], indices).unwrap(),
            Tensor::from_vec(&[5, 9], (0..45).map(|x| x as f32).collect()).unwrap(),
            Tensor::from_vec(&[17, 9], vec![0.0_f32; 153]).unwrap(),
        ];
        for variant in &variants {
            let symbols = support::symbols(&kernel, &[("K", 17), ("N", 5), ("D", 9)]);
            let (artifact, loaded) = (&variant.artifact, &variant.loaded);
            let ran = run_kernel(
                &executor, &kernel, artifact, loaded, &symbols, &tensors, &alone,
            );
            let fault = ran.unwrap().1;
            if at == usize::MAX {
                assert_eq!(fault, None);
                continue;
            }
            let fault = fault.unwrap();
            assert_eq!(fault.cause, FaultCause::IndexOutOfRange);
            let site = &variant.artifact.fault_sites[fault.site];
            assert!(site.contains("%x"), "{site}");
        }
    }
}

#[test]
fn integers_divided_by_zero_are_reported_and_nothing_else_is() {
    for (text, divisor_is_zero) in [
        ("%a[i] / %b[i]", true),
        ("%a[i] % %b[i]", true),
        ("%a[i] / (%b[i] * %b[i] + 1)", false),
    ] {
        let text = format!(
            "kernel @divide(%a: in i32[N], %b: in i32[N], %y: out i32[N]) {{
              outer i < N
              store %y[i] = {text}
            }}"
        );
        let kernel = kernel(&text);
        let variants = compiled(&kernel);
        let executor = kiln_native::NativeExecutor::new();
        for n in [1_usize, 5, 8, 16, 17, 33] {
            for zero in [None, Some(0), Some(n / 2), Some(n - 1)] {
                let mut divisors: Vec<i32> = (0..n as i32).map(|i| i % 5 - 7).collect();
                if let Some(at) = zero {
                    divisors[at] = 0;
                }
                // The one quotient that does not fit wraps.
                let mut dividends: Vec<i32> = (0..n as i32).map(|i| 3 * i - 40).collect();
                dividends[0] = i32::MIN;
                if zero != Some(0) {
                    divisors[0] = -1;
                }
                let tensors = [
                    Tensor::from_vec(&[n], dividends).unwrap(),
                    Tensor::from_vec(&[n], divisors).unwrap(),
                    Tensor::from_vec(&[n], vec![0_i32; n]).unwrap(),
                ];
                let checked = check_kernel(&executor, &kernel, &variants, &[n as i64], &tensors);
                let expected = match (zero, divisor_is_zero) {
                    (Some(_), true) => kiln_testkit::kernels::Checked::Faulted,
                    _ => kiln_testkit::kernels::Checked::Agreed,
                };
                assert_eq!(checked.unwrap(), expected, "{text} at {n}, {zero:?}");
            }
        }
    }
}

/// Row 11 of the faults: what is defined at the edges of every type is the same in compiled code.
#[test]
fn edges_of_every_operation_are_the_same_compiled() {
    let float = [
        "a + b",
        "a - b",
        "a * b",
        "a / b",
        "min(a, b)",
        "max(a, b)",
        "-a",
        "abs(a)",
        "floor(a)",
        "ceil(a)",
        "round_even(a)",
        "trunc(a)",
        "sqrt(a)",
        "rsqrt(a)",
        "exp(a)",
        "log(a)",
        "tanh(a)",
        "sigmoid(a)",
        "relu(a)",
        "sign(a)",
        "select(a < b, a, b)",
        "select(a == b, a, b)",
        "select(a >= b, b, a)",
    ];
    let integer = [
        "a + b",
        "a - b",
        "a * b",
        "min(a, b)",
        "max(a, b)",
        "-a",
        "abs(a)",
        "select(a < b, a, b)",
        "select(a >= b, a, b)",
        "shl(a, b)",
        "shr(a, b)",
        "bit_and(a, b)",
        "bit_or(a, b)",
        "bit_xor(a, b)",
        "bit_not(a)",
    ];
    let mut refused = Vec::new();
    let mut run = |dtype: &str, expression: &str| {
        // `a` and `b` are words of the expression alone.
        let words = |word: &str| match word {
            "a" => "%a[i]".to_owned(),
            "b" => "%b[i]".to_owned(),
            other => other.to_owned(),
        };
        let mut text = String::new();
        let mut word = String::new();
        for c in expression.chars().chain(std::iter::once(' ')) {
            if c.is_ascii_alphanumeric() || c == '_' {
                word.push(c);
            } else {
                text.push_str(&words(&std::mem::take(&mut word)));
                text.push(c);
            }
        }
        let text = format!(
            "kernel @edge(%a: in {dtype}[N], %b: in {dtype}[N], %y: out {dtype}[N]) {{
              outer i < N
              store %y[i] = {text}
            }}"
        );
        match kiln_kernel::text::read(&text) {
            Ok(_) => check_with(
                &text
                    .replace("[N]", "[M, N]")
                    .replace("[i]", "[k, i]")
                    .replace("outer i", "outer k < M, i"),
                EDGES,
            ),
            Err(_) => refused.push(format!("{dtype} {expression}")),
        }
    };
    for dtype in ["f32", "f64"] {
        for expression in float {
            run(dtype, expression);
        }
    }
    for dtype in ["i64", "i32", "i8", "u64", "u32", "u8"] {
        for expression in integer {
            run(dtype, expression);
        }
    }
    assert!(refused.is_empty(), "{refused:?}");
}
