//! Which strategy handles which sizes.

use std::collections::BTreeSet;

use kiln_backend::IsaLevel;
use kiln_kernel::VerifiedKernel;

use super::Problem;
use crate::loops::Loops;
use crate::testing::{chosen, kernel, loops, product};
use crate::tile::VectorAxis;
use crate::winograd::Transform;

const SIZES: [i64; 14] = [0, 1, 2, 3, 4, 7, 8, 11, 12, 31, 32, 33, 63, 64];

const CACHES: [usize; 3] = [1; 3];

/// The loops of a product with symbolic sizes, at a level.
fn open_product(right: &str, level: IsaLevel) -> (VerifiedKernel, Loops) {
    let kernel = product("M", "in", right, "N");
    let loops = loops(&kernel, level);
    (kernel, loops)
}

fn strategy((kernel, loops): &(VerifiedKernel, Loops), symbols: [i64; 3]) -> &str {
    &chosen(kernel, loops, &symbols, CACHES).strategy
}

#[test]
fn each_strategy_of_a_product_handles_some_sizes() {
    for (right, level, expected) in [
        (
            "K, N",
            IsaLevel::Avx2Fma,
            &[
                "dot_products",
                "gemv",
                "skinny_gemm",
                "packed_gemm",
                "contraction",
            ][..],
        ),
        (
            "K, N",
            IsaLevel::Avx512,
            &["dot_products", "skinny_gemm", "packed_gemm", "contraction"],
        ),
        ("N, K", IsaLevel::Avx2Fma, &["dot_products", "packed_gemm"]),
    ] {
        let product = open_product(right, level);
        let mut seen = BTreeSet::new();
        for m in SIZES {
            for k in SIZES {
                for n in SIZES {
                    seen.insert(strategy(&product, [m, k, n]));
                }
            }
        }
        let expected: BTreeSet<&str> = expected.iter().copied().collect();
        // Half-width vectors depend on the machine.
        seen.remove("half_vectors");
        assert_eq!(seen, expected, "{right} on {level}");
    }
}

#[test]
fn skinny_gemm_computes_its_rows_together() {
    let product = open_product("K, N", IsaLevel::Avx2Fma);
    let found = [1, 2, 3, 4].map(|m| strategy(&product, [m, 64, 64]));
    assert_eq!(found, ["gemv", "skinny_gemm", "skinny_gemm", "contraction"]);
}

/// Enough registers for three rows to have as many vectors as a single row.
#[test]
fn skinny_tiles_as_wide_as_gemv_tiles_serve_single_rows() {
    let product = open_product("K, N", IsaLevel::Avx512);
    assert_eq!(strategy(&product, [1, 64, 64]), "skinny_gemm");
}

#[test]
fn many_rows_and_more_columns_than_a_block_are_packed_at_launch() {
    let product = open_product("K, N", IsaLevel::Avx2Fma);
    let of_columns = [16, 17].map(|n| strategy(&product, [32, 7, n]));
    assert_eq!(of_columns, ["contraction", "packed_gemm"]);
    let of_rows = [31, 32].map(|m| strategy(&product, [m, 7, 17]));
    assert_eq!(of_rows, ["contraction", "packed_gemm"]);
}

#[test]
fn deep_sums_with_few_columns_are_vectorised_along_the_reduced_axis() {
    let product = open_product("K, N", IsaLevel::Avx2Fma);
    let is_dot = |k, n| strategy(&product, [64, k, n]) == "dot_products";
    let found = [(12, 1), (24, 2), (11, 1), (23, 2), (1000, 5)].map(|(k, n)| is_dot(k, n));
    assert_eq!(found, [true, true, false, false, false]);
}

#[test]
fn shallow_products_are_stored_in_long_runs() {
    let product = open_product("K, N", IsaLevel::Avx2Fma);
    let found = [3, 4].map(|k| strategy(&product, [20, k, 64]));
    assert_eq!(found, ["gemv", "contraction"]);
}

#[test]
fn tile_rows_follow_the_axis_with_enough_points() {
    let kernel = kernel(
        "kernel @mm(%x: in f32[A, B, K], %y: const f32[K, N], %o: out f32[B, A, N]) {
           outer b < B, a < A, n < N
           s = reduce add[k < K] %x[a, b, k] * %y[k, n]
           store %o[b, a, n] = s
         }",
    );
    let loops = loops(&kernel, IsaLevel::Avx2Fma);
    let rows = |a, b| {
        let nest = chosen(&kernel, &loops, &[a, b, 64, 64], CACHES);
        let (axis, _) = nest.tile.rows.unwrap();
        kernel.axis(axis).name.to_string()
    };
    assert_eq!([rows(50, 50), rows(50, 4), rows(50, 1)], ["a", "a", "a"]);
    assert_eq!([rows(1, 50), rows(3, 4), rows(3, 3)], ["b", "b", "a"]);
}

#[test]
fn rows_beyond_the_second_level_cache_are_computed_one_by_one() {
    let of_value = |value: &str| {
        let kernel = kernel(&format!(
            "kernel @rows(%x: in f32[M, N], %o: out f32[M, N]) {{
               outer m < M
               s = reduce add[n < N] %x[m, n]
               store[i < N] %o[m, i] = {value}
             }}"
        ));
        let loops = loops(&kernel, IsaLevel::Avx512);
        (kernel, loops)
    };
    let (kernel, loops) = of_value("%x[m, i] - s");
    let rows = |m| {
        let caches = [32 << 10, 1 << 20, 32 << 20];
        let nest = chosen(&kernel, &loops, &[m, 1024], caches);
        nest.tile.rows.map(|(_, count)| count)
    };
    assert_eq!(
        [0, 1, 256, 257].map(rows),
        [Some(2), Some(2), Some(2), None]
    );
    // A kernel with a lot of arithmetic is not memory-bound.
    assert_eq!(of_value("exp(%x[m, i] - s)").1.nests.len(), 1);
}

#[test]
fn strided_rows_are_lanes_unless_most_would_be_idle() {
    let kernel = kernel(
        "kernel @softmax(%x: in f32[C, N], %o: out f32[C, N]) {
           outer n < N
           m = reduce max[r < C] %x[r, n]
           e[j < C] = exp(%x[j, n] - m)
           t = reduce add[k < C] e[k]
           store %o[j < C, n] = e[j] / t
         }",
    );
    let of_level = |level, rows| {
        let loops = loops(&kernel, level);
        chosen(&kernel, &loops, &[21, rows], CACHES)
            .strategy
            .clone()
    };
    let wide = [0, 3, 4, 100].map(|rows| of_level(IsaLevel::Avx512, rows));
    assert_eq!(
        wide,
        ["reduction", "reduction", "strided_rows", "strided_rows"]
    );
    let narrow = [1, 2].map(|rows| of_level(IsaLevel::Avx2Fma, rows));
    assert_eq!(narrow, ["reduction", "strided_rows"]);
}

#[test]
fn windows_with_edges_along_the_vectors_are_single_vectors() {
    let vectors = |index: &str| {
        let kernel = kernel(&format!(
            "kernel @pool(%x: in f32[H, W], %o: out f32[H, W]) {{
               outer h < H, w < W
               s = reduce max[p < 3, q < 3] %x[{index}] if inside else -inf
               store %o[h, w] = s
             }}"
        ));
        let loops = loops(&kernel, IsaLevel::Avx512);
        loops.nests.last().unwrap().tile.vectors
    };
    assert_eq!(vectors("h + p - 1, w + q - 1"), 1);
    assert!(vectors("9 * h + 3 * p + q - 4, w") > 1);
}

/// Vectors along the rows would need gathers, but nine columns are too few to pack for.
#[test]
fn few_packable_columns_are_vectorised_rather_than_the_reduced_axis() {
    let vector = |columns: &str| {
        let kernel = product("M", "const", &format!("K, {columns}"), columns);
        loops(&kernel, IsaLevel::Avx2Fma).nests[0].tile.vector
    };
    assert!(matches!(vector("9"), VectorAxis::Outer(_)));
    assert_eq!(vector("9"), vector("N"));
    assert_eq!(vector("2"), VectorAxis::Inner);
}

#[test]
fn column_counts_with_many_idle_lanes_suit_half_vectors() {
    let has_idle_lanes = |columns: &str| {
        let kernel = product("M", "const", &format!("K, {columns}"), columns);
        let (level, transform) = (IsaLevel::Avx512, Transform::default());
        Problem::in_lanes(&kernel, level, transform, 16).has_idle_lanes()
    };
    let idle = ["24", "40", "72", "8"].map(has_idle_lanes);
    let busy = ["32", "48", "31", "88", "N"].map(has_idle_lanes);
    assert_eq!((idle, busy), ([true; 4], [false; 5]));
}

#[test]
fn a_transpose_to_short_rows_runs_along_the_axis_that_is_read() {
    let kernel = kernel(
        "kernel @turn(%x: in f32[N, M], %o: out f32[M, N]) {
           outer m < M, n < N
           store %o[m, n] = %x[n, m]
         }",
    );
    let loops = loops(&kernel, IsaLevel::Avx2Fma);
    let of = |n: i64| strategy(&(kernel.clone(), loops.clone()), [n, 1000, 1]).to_owned();
    assert_eq!([of(3), of(4)], ["short_rows", "transpose"]);
}

/// The sums in a weight gradient are long, so the axis in which results are contiguous does not decide.
#[test]
fn gradients_of_weights_are_vectorised_along_the_channels() {
    let gradient = |stores: &str| {
        kernel(&format!(
            "kernel @weights(%x: in f32[N, C, 16, 16], %g: in f32[N, O, 14, 14], %m: in f32[O, C, 3, 3], %v: in f32[O, C, 3, 3],
                 %d: out f32[O, C, 3, 3], %e: out f32[O, C, 3, 3]) {{
               outer o < O, c < C, i < 3, j < 3
               s = reduce add[n < N, y < 14, x < 14] %x[n, c, i + y, j + x] * %g[n, o, y, x]
               {stores}
             }}"
        ))
    };
    let update = "store %d[o, c, i, j] = s + %m[o, c, i, j]
        store %e[o, c, i, j] = s * %v[o, c, i, j] - %m[o, c, i, j]";
    for stores in ["store %d[o, c, i, j] = s\nstore %e[o, c, i, j] = s", update] {
        let kernel = gradient(stores);
        let loops = loops(&kernel, IsaLevel::Avx512);
        let nest = chosen(&kernel, &loops, &[64, 16, 32], CACHES);
        assert_eq!(nest.strategy, "packed_gemm");
        let VectorAxis::Outer(axis) = nest.tile.vector else {
            panic!("vectors along {:?}", nest.tile.vector);
        };
        assert_eq!(kernel.axis(axis).name, "c");
        // Packed in the order of the loops: the batch, then along the windows.
        let text = loops.print(&kernel);
        assert!(text.contains("copy %x [1 / 32, 0, 2, 3, 1 % 32]"), "{text}");
    }
}
