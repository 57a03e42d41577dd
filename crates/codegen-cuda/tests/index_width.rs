//! 32-bit and 64-bit offsets: both functions give the results of the kernel's evaluator, and the sizes decide which of
//! them has tasks. Needs g++; without it the tests print a message and pass.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test may panic, and print what it did"
)]

mod support;

use kiln_backend::Schedule;
use kiln_codegen_cuda::CudaCompiler;
use support::{CheckedCase, HostKernel, kernel, lacks_compiler, smooth};

const TRANSPOSED: &str = "kernel @map(%x: in f32[N, M], %y: out f32[M, N]) {
  outer m < M, n < N
  store %y[m, n] = %x[n, m] * f32(m * 5000000000 + n)
}";
const SOFTMAX: &str = "kernel @softmax(%x: in f32[M, N], %y: out f32[M, N]) {
  outer m < M
  t = reduce max[n < N] %x[m, n]
  e[n < N] = exp(%x[m, n] - t)
  z = reduce add[n < N] e[n]
  store %y[m, n < N] = e[n] / z
}";
const COLUMNS: &str = "kernel @columns(%x: in f32[M, N], %y: out f32[N]) {
  outer n < N
  s = reduce add[m < M] %x[m, n]
  store %y[n] = s
}";
const STRIDED: &str = "kernel @strided(%x: in f32[M, N] strides [S, 1], %y: out f32[M, N]) {
  outer m < M, n < N
  store %y[m, n] = %x[m, n]
}";

const NARROW: &str = "typedef int k_index;";
const WIDE: &str = "typedef k_i64 k_index;";

/// The schedules of a kernel that have functions of both widths.
fn schedules(text: &str) -> Vec<Schedule> {
    let offered = CudaCompiler::offered(&kernel(text)).into_iter();
    let offered = offered.map(|candidate| candidate.schedule);
    let both: Vec<Schedule> = offered
        .filter(|schedule| ["map", "row", "split"].contains(&schedule.name.as_str()))
        .collect();
    assert!(!both.is_empty());
    both
}

#[test]
fn both_widths_do_what_they_mean() {
    if lacks_compiler() {
        return;
    }
    for (text, sizes) in [
        (TRANSPOSED, [[1, 1], [3, 70], [300, 5]]),
        (SOFTMAX, [[1, 1], [3, 700], [33, 65]]),
        (COLUMNS, [[1, 1], [3000, 5], [7, 300]]),
    ] {
        let kernel = kernel(text);
        let cases: Vec<CheckedCase> = (0..)
            .zip(&sizes)
            .filter_map(|(seed, sizes)| {
                CheckedCase::of(&kernel, sizes, seed, smooth(seed)).unwrap()
            })
            .collect();
        assert_eq!(cases.len(), sizes.len());
        for schedule in schedules(text) {
            let source = CudaCompiler::host_source(&kernel, &schedule).unwrap();
            let count = |word: &str| source.text.matches(word).count();
            assert!(count(NARROW) > 0 && count(NARROW) == count(WIDE));
            let wide = source.text.replace(NARROW, WIDE);
            for text in [source.text.as_str(), &wide] {
                let host =
                    HostKernel::build_text(&kernel, text, source.parts.clone(), None).unwrap();
                host.check(&cases).unwrap_or_else(|why| panic!("{why}"));
            }
        }
    }
}

/// Whether the functions that have tasks are the narrow ones; each narrow function is followed by its wide one.
fn is_narrow(host: &HostKernel, symbols: &[i64]) -> bool {
    let tasks = host.tasks(symbols);
    let has_tasks = |first: usize| tasks.iter().skip(first).step_by(2).any(|&tasks| tasks > 0);
    let [narrow, wide] = [0, 1].map(has_tasks);
    assert!(narrow != wide, "{tasks:?}");
    narrow
}

#[test]
fn sizes_choose_the_width() {
    if lacks_compiler() {
        return;
    }
    let limit = 1 << 30;
    for (text, narrow, wide) in [
        (TRANSPOSED, vec![limit / 8, 8], vec![limit / 8 + 1, 8]),
        (TRANSPOSED, vec![8, limit / 8], vec![8, limit / 8 + 1]),
        (SOFTMAX, vec![limit / 2048, 2048], vec![limit / 2048, 2049]),
        (COLUMNS, vec![2, limit / 2], vec![2, limit / 2 + 8]),
        // Symbols are in the order of the text. Even a few elements may have large offsets.
        (STRIDED, vec![4, 5, limit / 4], vec![4, 5, limit / 2]),
        (STRIDED, vec![4, 5, 5], vec![4, 5, i64::from(i32::MAX)]),
    ] {
        let host = HostKernel::build(&kernel(text), &schedules(text)[0], None).unwrap();
        let chosen = [&narrow, &wide].map(|symbols| is_narrow(&host, symbols));
        assert_eq!(chosen, [true, false], "{text}");
    }
}

#[test]
fn known_sizes_have_one_width() {
    for (size, word, other) in [("1000", NARROW, WIDE), ("3000000000", WIDE, NARROW)] {
        let text = COLUMNS.replace('N', size).replace('M', "7");
        for schedule in schedules(&text) {
            let source = CudaCompiler::host_source(&kernel(&text), &schedule).unwrap();
            assert!(source.text.contains(word) && !source.text.contains(other));
        }
    }
}
