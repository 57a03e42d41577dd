//! Products with schedules that would not be chosen on this machine; those that are chosen are files of
//! `testkit/testdata/products`.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test that cannot continue panics"
)]

mod support;

use kiln_backend::IsaLevel;
use kiln_backend::{KernelCompiler, Unobserved};
use kiln_codegen_llvm::LlvmCompiler;
use support::{check_variants, compiled_as, kernel, loops_of, with_loops};

/// Rows, inner sizes and columns.
const SIZES: [[i64; 3]; 42] = [
    [0, 3, 9],
    [3, 0, 9],
    [13, 0, 17],
    [33, 2, 0],
    [1, 1, 1],
    [2, 5, 3],
    [3, 9, 16],
    [3, 17, 65],
    [1, 33, 130],
    [4, 8, 7],
    [5, 16, 8],
    [6, 7, 15],
    [7, 3, 17],
    [11, 10, 24],
    [12, 4, 25],
    [13, 9, 31],
    [31, 2, 33],
    [32, 8, 16],
    [33, 7, 1],
    [34, 16, 15],
    [37, 11, 17],
    [40, 5, 71],
    [50, 1, 9],
    [35, 24, 6],
    [2, 100, 9],
    [64, 9, 80],
    [8, 13, 33],
    [9, 30, 2],
    [10, 12, 48],
    [20, 6, 40],
    [23, 5, 33],
    [2, 47, 129],
    [3, 4, 257],
    [3, 60, 5],
    [14, 48, 4],
    [15, 200, 8],
    [30, 3, 1030],
    [14, 7, 2049],
    [45, 6, 40],
    [34, 9, 50],
    [47, 3, 35],
    [41, 13, 4],
];

/// Two factors, neither of which is packed.
const PRODUCT: &str = "kernel @mm(%x: in f32[M, K], %y: in f32[K, N], %o: out f32[M, N]) {
  outer m < M, n < N
  s = reduce add[k < K] %x[m, k] * %y[k, n]
  store %o[m, n] = s
}";

/// As on a machine where half-width vectors are as fast as full ones.
#[test]
fn products_with_vectors_of_half_the_width() {
    let kernel = kernel(PRODUCT);
    let variants = compiled_as(&kernel, |loops| {
        for nest in &mut loops.nests {
            nest.tile.lanes /= 2;
        }
    });
    check_variants(&kernel, &variants, ["M", "K", "N"], &SIZES);
}

/// A tile of more accumulators than registers is replaced by a smaller one.
#[test]
fn tiles_that_spill_are_replaced_by_smaller_ones() {
    let kernel = kernel(PRODUCT);
    let compiler = LlvmCompiler::new();
    let target = LlvmCompiler::target(IsaLevel::Avx2Fma);
    let asked = compiler.schedules(&kernel, &target).remove(0).schedule;
    let asked = with_loops(&kernel, &asked, |loops| {
        for nest in &mut loops.nests {
            nest.tile.rows = nest.tile.rows.map(|(axis, _)| (axis, 16));
        }
    });
    let artifact = compiler
        .compile(&kernel, &target, &asked, &mut Unobserved)
        .unwrap();
    let loops = loops_of(&kernel, &artifact.schedule);
    let rows = loops.nests.last().unwrap().tile.rows;
    assert!(
        rows.is_none_or(|(_, rows)| rows < 16),
        "{}",
        artifact.schedule.text
    );
    // With its own schedule the same kernel keeps its tile.
    let usual = compiler.schedules(&kernel, &target).remove(0).schedule;
    let artifact = compiler
        .compile(&kernel, &target, &usual, &mut Unobserved)
        .unwrap();
    assert_eq!(artifact.schedule, usual);
}
