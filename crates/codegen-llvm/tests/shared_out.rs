//! Reductions to few results, which are shared out in parts: sizes around a part, around as many parts as there are at the
//! most, around vectors, and primes; whatever is combined, and wherever a NaN is.

mod support;

use kiln_testkit::generate::Flavor;
use kiln_testkit::kernels::{Checked, Elements};
use support::{SMOOTH, check_at, check_sizes, compiled, kernel, symbols};

/// A part has a multiple of 64 points, and there are 64 parts at the most.
const SIZES: [i64; 26] = [
    0, 1, 2, 3, 7, 8, 9, 15, 16, 17, 31, 33, 63, 64, 65, 97, 127, 128, 129, 997, 4095, 4096, 4097,
    8191, 8193, 65_537,
];

/// Compares a kernel over `K` with its meaning at all sizes.
fn check(text: &str, elements: Elements, sizes: &[i64]) {
    let kernel = kernel(text);
    let variants = compiled(&kernel);
    for (seed, &size) in (1..).zip(sizes) {
        let sizes = symbols(&kernel, &[("K", size)]);
        let checked = check_at(&kernel, &variants, &sizes, elements, seed);
        assert_eq!(checked, Some(Checked::Agreed), "K = {size}\n{text}");
    }
}

fn reduction(what: &str, dtype: &str) -> String {
    format!(
        "kernel @all(%x: in {dtype}[K], %o: out {dtype}[]) {{
           s = reduce {what}[k < K] %x[k]
           store %o[] = s
         }}"
    )
}

#[test]
fn sums_products_and_extrema_of_floats() {
    for dtype in ["f32", "f64"] {
        check(&reduction("add", dtype), SMOOTH, &SIZES);
        for what in ["max", "min"] {
            check(&reduction(what, dtype), SMOOTH, &SIZES[1..]);
        }
    }
    check(&reduction("mul", "f32"), SMOOTH, &SIZES[..12]);
}

#[test]
fn integers_wrap_as_one_reduction_does() {
    let edges = Elements {
        flavor: Flavor::Edges,
        ..SMOOTH
    };
    for dtype in ["i64", "i32", "u8", "i16"] {
        for what in ["add", "mul"] {
            check(&reduction(what, dtype), edges, &SIZES);
        }
        for what in ["max", "min"] {
            check(&reduction(what, dtype), edges, &SIZES[1..]);
        }
    }
}

#[test]
fn one_nan_and_one_infinity_are_found_wherever_they_are() {
    let special = Elements {
        flavor: Flavor::Special,
        ..SMOOTH
    };
    for what in ["add", "max", "min"] {
        check(&reduction(what, "f32"), special, &SIZES[1..16]);
        for odd in ["sqrt(-1.0 - %x[k] * %x[k])", "1.0 / (%x[k] * 0.0)"] {
            let one = format!(
                "kernel @one(%x: in f32[K], %o: out f32[]) {{
                   s = reduce {what}[k < K] select(k + 2 == K, {odd}, %x[k])
                   store %o[] = s
                 }}"
            );
            check(&one, SMOOTH, &SIZES[1..]);
        }
    }
}

/// Few results, two reduced axes, and a reduction that reads another.
#[test]
fn results_of_several_reductions_and_of_few_points() {
    for rows in [2, 3, 8] {
        let text = format!(
            "kernel @few(%x: in f32[{rows}, K], %o: out f32[{rows}]) {{
               outer r < {rows}
               s = reduce add[k < K] %x[r, k]
               store %o[r] = s
             }}"
        );
        check(&text, SMOOTH, &SIZES);
    }
    let axes = "kernel @axes(%x: in f32[5, K, 3], %o: out f32[]) {
       s = reduce add[a < 5, k < K, b < 3] %x[a, k, b]
       store %o[] = s
     }";
    check(axes, SMOOTH, &SIZES[..21]);
    let variance = "kernel @spread(%x: in f32[K], %o: out f32[]) {
       most = reduce max[k < K] %x[k]
       s = reduce add[k < K] exp(%x[k] - most)
       store %o[] = s
     }";
    check(variance, SMOOTH, &SIZES[1..]);
}

#[test]
fn few_sums_of_packed_weights_are_split() {
    // Weights in blocks of results, for vectors across these, and parts whose vectors run along what is summed.
    let text = |k: &str| {
        format!(
            "kernel @few(%x: in f32[{k}, 3], %w: const f32[5, {k}, 3], %b: const f32[5, 1], %o: out f32[5, 1]) {{
               outer n < 5
               s = reduce add[k < {k}, t < 3] %x[k, t] * %w[n, k, t]
               store %o[n, 0] = s * %b[n, 0]
             }}"
        )
    };
    check_sizes(&text("7"), [], &[[]]);
    check_sizes(&text("2000"), [], &[[]]);
    let sizes = [0, 1, 2, 17, 1021, 5000].map(|size| [size]);
    check_sizes(&text("K"), ["K"], &sizes);
}
