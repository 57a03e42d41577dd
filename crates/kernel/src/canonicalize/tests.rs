//! Canonical kernels have the expected form, and structurally equal kernels have the same text.

use std::collections::BTreeSet;

use super::*;
use crate::text::read;

fn verified(text: &str) -> VerifiedKernel {
    let kernel = read(text).unwrap_or_else(|errors| panic!("{}", errors.render(text)));
    verify(kernel).unwrap_or_else(|errors| panic!("{errors}"))
}

/// The canonical text, and the values of its symbols.
fn canonical(text: &str) -> String {
    let kernel = canonicalize(&verified(text));
    let mut out = kernel.text();
    let dims = kernel.kernel.dims();
    for (symbol, &value) in dims.symbols().zip(&kernel.values) {
        out += &format!(
            "{} = {}\n",
            dims.symbol_name(symbol),
            kernel.dims.display(value)
        );
    }
    out
}

#[test]
fn equal_structures_have_equal_canonical_text() {
    let elementwise = |shape: &str, outer: &str, at: &str| {
        canonicalize(&verified(&format!(
            "kernel @relu(%x: in f32[{shape}], %y: out f32[{shape}]) {{\n outer {outer}\n store %y[{at}] = relu(%x[{at}])\n}}"
        )))
        .text()
    };
    let texts = BTreeSet::from([
        elementwise("N", "i < N", "i"),
        elementwise("B, S, D", "b < B, s < S, d < D", "b, s, d"),
        elementwise("B, S, 7", "b < B, s < S, d < 7", "b, s, d"),
        elementwise("2*H, W", "h < 2*H, w < W", "h, w"),
    ]);
    assert_eq!(texts.len(), 1, "{texts:?}");
    let linear = |m: &str, k: &str, n: &str| {
        canonicalize(&verified(&format!(
            "kernel @linear(%x: in f32[{m}, {k}], %w: const f32[{k}, {n}], %y: out f32[{m}, {n}]) {{
               outer i < {m}, j < {n}
               acc = reduce add[k < {k}] %x[i, k] * %w[k, j]
               store %y[i, j] = acc
             }}"
        )))
        .text()
    };
    assert_eq!(linear("M", "384", "1536"), linear("B*S", "1536", "384"));
    assert_eq!(
        linear("M", "384", "384"),
        linear("M", "384", "1536"),
        "that two sizes are one is an accident"
    );
    assert_ne!(
        linear("M", "384", "384"),
        linear("M", "384", "100"),
        "a multiple of 16 is no accident"
    );
    assert_eq!(linear("M", "K", "N"), linear("M", "100", "75"));
    assert_ne!(
        linear("M", "K", "N"),
        linear("M", "100", "24"),
        "a tile is chosen for a few channels that no tile divides"
    );
}

#[test]
fn channels_of_data_that_fill_no_vector_stay() {
    let gradient = |channels: &str| {
        canonicalize(&verified(&format!(
            "kernel @weights(%x: in f32[N, {channels}, 16, 16], %g: in f32[N, O, 14, 14], %d: out f32[O, {channels}, 3, 3]) {{
               outer o < O, c < {channels}, i < 3, j < 3
               acc = reduce add[n < N, y < 14, x < 14] %x[n, c, i + y, j + x] * %g[n, o, y, x]
               store %d[o, c, i, j] = acc
             }}"
        )))
        .text()
    };
    assert_ne!(gradient("3"), gradient("5"));
    assert_eq!(gradient("16"), gradient("64"));
    assert_eq!(gradient("C"), gradient("25"));
}

#[test]
fn axes_that_are_not_contiguous_stay_separate() {
    let text = |x: &str, strides: &str, at: &str, value: &str| {
        canonicalize(&verified(&format!(
            "kernel @k(%x: in f32[{x}]{strides}, %y: out f32[A, B]) {{\n outer a < A, b < B\n store %y[a, b] = %x[{at}] {value}\n}}"
        )))
        .kernel
        .outer()
        .len()
    };
    assert_eq!(text("A, B", "", "a, b", ""), 1);
    assert_eq!(text("A, B", " strides [B, 1]", "a, b", ""), 1);
    assert_eq!(text("A, B", " strides [2*B, 2]", "a, b", ""), 1);
    assert_eq!(text("A, B", " strides [2*B, 1]", "a, b", ""), 2);
    assert_eq!(text("A, B", " strides [0, 1]", "a, b", ""), 2);
    assert_eq!(text("A, B", " strides [0, 0]", "a, b", ""), 1);
    assert_eq!(text("B, A", "", "b, a", ""), 2);
    assert_eq!(text("A", "", "a", ""), 2);
    assert_eq!(text("A, B", "", "a, b", "+ f32(b)"), 2);
    let beside = |value: &str| text("A, B", "", "a, b", &format!("+ {value}"));
    assert_eq!(beside("f32(a * B + b)"), 1, "the position along both");
    assert_eq!(beside("f32((a * B + b) / 4) * f32(a * B + b)"), 1);
    assert_eq!(beside("f32(a * B + b) * f32(a)"), 2);
    assert_eq!(beside("f32(a * B + b) * f32(a * B)"), 2);
    assert_eq!(beside("f32(a * B + b) * f32(b)"), 2);
    assert_eq!(beside("f32(a * A + b)"), 2);
    assert_eq!(beside("f32(b * A + a)"), 2);
    assert_eq!(text("A, B + 1", "", "a, b + 1", ""), 2);
    assert_eq!(
        text("A, B + 1", "", "a, b", ""),
        2,
        "rows are longer than what is read of them"
    );
}

#[test]
fn positions_over_merged_axes_are_simplified() {
    assert_eq!(
        canonical(
            "kernel @bits(%k: in u64[2], %y: out u32[A, 3, B, 5]) {
           outer a < A, c < 3, b < B, d < 5
           store %y[a, c, b, d] = philox_4x32_10(u64(((a * 3 + c) * B + b) * 5 + d), %k[0], %k[1])
         }"
        ),
        "kernel @kernel(%b0: in u64[2], %b1: out u32[s0]) {
  outer a0 < s0
  store %b1[a0] = philox_4x32_10(u64(a0), %b0[0], %b0[1])
}
s0 = 15*A*B
"
    );
}

#[test]
fn rows_of_concatenations_and_slices_are_merged() {
    assert_eq!(
        canonical(
            "kernel @concat(%x: in f32[A, 3, C], %y: in f32[A, B, C], %o: out f32[A, B + 3, C]) {
           outer a < A, b < B + 3, c < C
           store %o[a, b, c] = select(b < 3, %x[a, b, c] if inside else 0.0, %y[a, b - 3, c] if inside else 0.0)
         }"
        ),
        "kernel @kernel(%b0: in f32[s0, s1], %b1: in f32[s0, s2], %b2: out f32[s0, s3]) {
  outer a0 < s0, a1 < s3
  store %b2[a0, a1] = select(a1 < s1, %b0[a0, a1] if inside else 0.0, %b1[a0, a1 - s1] if inside else 0.0)
}
s0 = A
s1 = 3*C
s2 = B*C
s3 = B*C + 3*C
"
    );
    assert_eq!(
        canonical(
            "kernel @slice(%x: in f32[A, 100, C], %o: out f32[A, 90, C]) {
           outer a < A, b < 90, c < C
           store %o[a, b, c] = %x[a, b + 5, c]
         }"
        ),
        "kernel @kernel(%b0: in f32[s0, 100*s1], %b1: out f32[s0, 90*s1]) {
  outer a0 < s0, a1 < 90*s1
  store %b1[a0, a1] = %b0[a0, a1 + size(5*s1)]
}
s0 = A
s1 = C
"
    );
    // The shift is also used as a number, rows are not read whole, and the length is also an offset.
    for value in [
        "%x[a, b + 5, c] + f32(b + 5)",
        "%x[a, b + 5, c / 2]",
        "%x[a, b + 5, c] + f32(c + 5)",
    ] {
        let text = canonical(&format!(
            "kernel @k(%x: in f32[A, 100, C], %o: out f32[A, 90, C]) {{
           outer a < A, b < 90, c < C
           store %o[a, b, c] = {value}
         }}"
        ));
        assert!(text.contains("outer a0 < s0, a1 < "), "{text}");
        assert!(text.contains("a2 < "), "{text}");
    }
}

#[test]
fn rows_of_several_axes_become_one() {
    let kernel = canonicalize(&verified(
        "kernel @global(%x: in f32[N, C, H, W], %y: out f32[N, C]) {
           outer n < N, c < C
           m = reduce max[h < H, w < W] %x[n, c, h, w]
           s = reduce add[h < H, w < W] exp(%x[n, c, h, w] - m)
           store %y[n, c] = s
         }",
    ));
    insta::assert_snapshot!(kernel.text(), @r"
    kernel @kernel(%b0: in f32[s0, s1], %b1: out f32[s0]) {
      outer a0 < s0
      v0 = reduce max[a1 < s1] %b0[a0, a1]
      v1 = reduce add[a2 < s1] exp(%b0[a0, a2] - v0)
      store %b1[a0] = v1
    }
    ");
}

#[test]
fn unused_stages_are_dropped_and_buffers_kept() {
    let kernel = canonicalize(&verified(
        "kernel @k(%x: in f32[N], %unused: in f32[M], %y: out f32[N]) where N % 8 == 0, N >= 8, M <= 12 {
           outer i < N
           dead = reduce add[r < M] %unused[r]
           live = %x[0]
           store %y[i] = live
         }",
    ));
    insta::assert_snapshot!(kernel.text(), @r"
    kernel @kernel(%b0: in f32[s0], %b1: in f32[s1], %b2: out f32[s0]) where s0 % 8 == 0, s0 >= 8, s1 <= 12 {
      outer a0 < s0
      v0 = %b0[0]
      store %b2[a0] = v0
    }
    ");
}

#[test]
fn the_policy_decides_which_sizes_stay_constant() {
    let kernel = verified(
        "kernel @sum(%x: in f32[N, 24], %y: out f32[N]) {
           outer i < N
           s = reduce add[r < 24] %x[i, r]
           store %y[i] = s
         }",
    );
    let inner = |inner: i64, multiple: i64| {
        let policy = CanonicalPolicy {
            inner,
            multiple,
            ..CanonicalPolicy::default()
        };
        canonicalize_with(&kernel, &policy)
    };
    assert!(inner(24, 16).text().contains("f32[s0, 24]"));
    assert!(inner(16, 16).text().contains("f32[s0, s1]"));
    assert!(inner(16, 8).text().contains("where s1 % 8 == 0"));
    let general = inner(16, 16);
    let hints = general.kernel.dims().hints();
    assert_eq!(
        hints.iter().map(|hint| hint.likely).collect::<Vec<_>>(),
        [24]
    );
}

/// A number that may be negative must not become a symbol with stronger properties.
#[test]
fn numbers_that_may_be_negative_do_not_become_size_symbols() {
    use kiln_scalar::Mode;
    use kiln_symbolic_shape::Binding;
    use kiln_tensor::Tensor;

    let original = verified(
        "kernel @last(%x: in f32[A], %y: out f32[B]) {
          outer i < B
          store %y[i] = %x[size(A - 3) + i] if inside else 0.5
        }",
    );
    let canonical = canonicalize(&original);
    for (a, b) in [(0, 2), (1, 3), (2, 2), (3, 4), (5, 3)] {
        let of = |name: &str| if name == "A" { a } else { b };
        let dims = original.dims();
        let symbols = dims.symbols();
        let binding: Binding = symbols
            .map(|symbol| (symbol, of(dims.symbol_name(symbol))))
            .collect();
        let values: Vec<i64> = canonical
            .values
            .iter()
            .map(|&value| canonical.dims.evaluate(value, &binding).unwrap())
            .collect();
        let x: Vec<f32> = (0..a).map(|i| i as f32 + 1.0).collect();
        let expected: Vec<f32> = (0..b)
            .map(|i| {
                let at = usize::try_from(a - 3 + i);
                *at.ok().and_then(|at| x.get(at)).unwrap_or(&0.5)
            })
            .collect();
        let y = Tensor::full(&[b as usize], 9.0_f32).unwrap();
        let mut buffers = [Tensor::from_vec(&[a as usize], x).unwrap(), y];
        crate::evaluate(&canonical.kernel, &values, &mut buffers, Mode::Declared).unwrap();
        assert_eq!(buffers[1].to_vec::<f32>().unwrap(), expected, "{a}, {b}");
    }
}

/// An attention of a conformer, whose sizes depend on facts that cannot be stated for a new kernel.
const KEPT: &str = "
kernel @attention<B, T, n1, n3>(
  %v116: in bool[B, max((T + 1) / 4 - 1, 0)],
  %v290: in f32[B, max((T + 1) / 4 - 1, 0), 4, 16],
  %v11: const f32[4, 16],
  %v293: in f32[B, max((T + 1) / 4 - 1, 0), 4, 16],
  %v312: in f32[B, 4, max((T + 1) / 4 - 1, 0), n3],
  %v296: in f32[B, max((T + 1) / 4 - 1, 0), 4, 16],
  %v324: out f32[B, max((T + 1) / 4 - 1, 0), 4, 16])
  where product(B, (T + 1) / 4 - 1, 32, 19) == product(B, n1, 608),
    bcast(max((T + 1) / 4 - 1, 0), min(n3, n3 / 2 + 1), n1) == n1,
    bcast(max((T + 1) / 4 - 1, 0), min(n3, n3 / 2 + 1), n1) == bcast(max((T + 1) / 4 - 1, 0), n1),
    n1 == min(n3, n3 / 2 + 1),
    max((T + 1) / 4 - 1, 0) == n1 {
  outer i0 < B, i1 < max((T + 1) / 4 - 1, 0), i2 < 4
  s0[j9 < max((T + 1) / 4 - 1, 0)] = reduce add[r10 < 16] (%v290[i0, i1, i2, r10] + %v11[i2, r10]) * %v293[i0, j9, i2, r10]
  s1[j8 < max((T + 1) / 4 - 1, 0)] = select(%v116[i0, j8], -1000000000.0, (s0[j8] + %v312[i0, i2, i1, j8]) * 0.25)
  s2 = reduce max[r11 < max((T + 1) / 4 - 1, 0)] s1[r11]
  s3[j7 < max((T + 1) / 4 - 1, 0)] = exp(s1[j7] - s2)
  s4 = reduce add[r12 < max((T + 1) / 4 - 1, 0)] s3[r12]
  s5[j6 < max((T + 1) / 4 - 1, 0)] = select(%v116[i0, j6], 0.0, s3[j6] / s4)
  s6[j4 < 16] = reduce add[r5 < max((T + 1) / 4 - 1, 0)] s5[r5] * %v296[i0, r5, i2, j4]
  store %v324[i0, i1, i2, e3 < 16] = s6[e3]
}
";

#[test]
fn kernels_kept_in_their_form_share_a_text() {
    let renamed = KEPT
        .replace("%v", "%weights.")
        .replace("(T ", "(time ")
        .replace("<B, T,", "<B, time,");
    assert_ne!(KEPT, renamed);
    assert_eq!(
        canonicalize(&verified(KEPT)).text(),
        canonicalize(&verified(&renamed)).text()
    );
}
