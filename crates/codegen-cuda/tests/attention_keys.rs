//! Which keys the blocks of an attention kernel visit: tiles that are fully masked are skipped, and with few queries
//! the keys are split over blocks. Needs g++; without it the tests print a message and pass.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test may panic, and print what it did"
)]

mod support;

use kiln_backend::Schedule;
use kiln_codegen_cuda::CudaCompiler;
use kiln_tensor::Tensor;
use support::{CheckedCase, HostKernel, kernel, lacks_compiler, smooth};

/// The attention schedule that is offered.
fn offered(text: &str) -> Schedule {
    let offered = CudaCompiler::offered(&kernel(text)).into_iter();
    let mut offered = offered.map(|candidate| candidate.schedule);
    offered.find(|s| s.name == "attention").unwrap()
}

fn wide(dtype: &str, x: &str) -> String {
    match dtype {
        "f32" => x.to_owned(),
        _ => format!("f32({x})"),
    }
}

/// Attention in which query `i` attends to the keys `j` that satisfy a condition. `%p` has a position per query.
fn masked(dtype: &str, sees: &str) -> String {
    let [q, k, v] =
        ["%q[b, i, d]", "%k[b, j, d]", "%v[b, j, e]"].map(|operand| wide(dtype, operand));
    format!(
        "kernel @attention(%q: in {dtype}[B, M, 16], %k: in {dtype}[B, N, 16], %v: in {dtype}[B, N, 16], %p: in i64[B, M], %y: out f32[B, M, 16]) {{
           outer b < B, i < M
           p[j < N] = reduce add[d < 16] {q} * {k}
           s[j < N] = select({sees}, p[j] * 0.25, -inf)
           t = reduce max[j < N] s[j]
           w[j < N] = exp(s[j] - t)
           z = reduce add[j < N] w[j]
           o[e < 16] = reduce add[j < N] w[j] * {v}
           store %y[b, i, e < 16] = o[e] / z
         }}"
    )
}

/// A case of `masked` whose query positions are given by a function.
fn case(text: &str, symbols: &[i64], position: impl Fn(i64) -> i64) -> CheckedCase {
    with(text, symbols, position, &|_| ())
}

/// The same, with modified operands.
fn with(
    text: &str,
    symbols: &[i64],
    position: impl Fn(i64) -> i64,
    change: &dyn Fn(&mut Vec<Tensor>),
) -> CheckedCase {
    let change = |tensors: &mut Vec<Tensor>| {
        let shape = [symbols[0], symbols[1]].map(|size| size as usize);
        let positions: Vec<i64> = (0..symbols[0] * symbols[1]).map(&position).collect();
        tensors[3] = Tensor::from_vec(&shape, positions).unwrap();
        change(tensors);
    };
    let kernel = kernel(text);
    let seed = symbols.iter().sum::<i64>() as u64;
    let case = CheckedCase::with(&kernel, symbols, seed, smooth(seed), &change);
    case.unwrap().unwrap()
}

/// Sizes in the order B, M, N: 0, 1, around tiles of 64 and 128 keys, primes; fewer and more queries than keys.
const SIZES: &[&[i64]] = &[
    &[1, 0, 5],
    &[1, 5, 0],
    &[1, 1, 1],
    &[2, 3, 63],
    &[1, 63, 64],
    &[1, 64, 65],
    &[1, 65, 127],
    &[1, 33, 128],
    &[1, 129, 129],
    &[2, 1, 191],
    &[1, 7, 193],
    &[1, 131, 257],
    &[1, 150, 67],
    &[1, 200, 130],
];

#[test]
fn masked_attention_does_what_it_means() {
    if lacks_compiler() {
        return;
    }
    let masks = [
        "j <= i",
        "j <= i + N - M",
        "j <= i and j > i - 40",
        "i - j < 70 and j - i < 70",
        "j < %p[b, i]",
        "%p[b, i] - j >= 0 and %p[b, i] - j < 70",
    ];
    for (number, sees) in masks.into_iter().enumerate() {
        let dtype = ["f32", "bf16", "f16"][number % 3];
        let text = masked(dtype, sees);
        let cases = SIZES.iter().map(|symbols| {
            // Some queries attend to no key, and some positions overflow when a key's position is subtracted.
            case(&text, symbols, |query| match query % 7 {
                3 => i64::MIN,
                5 => i64::MAX,
                _ => query * 37 % (symbols[2] + 9) - 4,
            })
        });
        let cases: Vec<CheckedCase> = cases.collect();
        let host = HostKernel::build(&kernel(&text), &offered(&text), None).unwrap();
        host.check(&cases)
            .unwrap_or_else(|why| panic!("{sees}: {why}"));
    }
}

/// The number of key tiles that blocks visit, with tiles of 64 queries and 64 keys.
fn visited(text: &str, case: CheckedCase) -> u64 {
    let schedule = Schedule::new("attention").with_text("attention f32 tile 64 64 16 64 warps 1");
    let kernel = kernel(text);
    let source = CudaCompiler::host_source(&kernel, &schedule).unwrap();
    let visit = "if (part == 0) scores.clear();";
    assert!(source.text.contains(visit));
    let counting = "if (part == 0) { scores.clear(); count_once(); }";
    let changed = source.text.replace(visit, counting);
    let host = HostKernel::build_text(&kernel, &changed, source.parts, None).unwrap();
    let cases = [case];
    host.check(&cases).unwrap_or_else(|why| panic!("{why}"));
    host.counted(&cases).unwrap()[0]
}

#[test]
fn hidden_tiles_are_not_visited() {
    if lacks_compiler() {
        return;
    }
    let count = |sees: &str, symbols: &[i64], position: i64| {
        let text = masked("f32", sees);
        visited(&text, case(&text, symbols, |_| position))
    };
    let square = [1, 512, 512];
    assert_eq!(count("j >= 0", &square, 0), 8 * 8, "nothing is hidden");
    assert_eq!(count("j <= i", &square, 0), 1 + 2 + 3 + 4 + 5 + 6 + 7 + 8);
    assert_eq!(count("j <= i and j > i - 64", &square, 0), 1 + 7 * 2);
    assert_eq!(count("j <= i + N - M", &[1, 64, 512], 0), 8);
    assert_eq!(count("j <= i + N - M", &[1, 512, 192], 0), 1 + 2 + 3);
    assert_eq!(count("j < %p[b, i]", &[1, 1, 512], 128), 2);
    assert_eq!(count("j < %p[b, i]", &[1, 1, 512], 129), 3);
    assert_eq!(count("j < %p[b, i]", &[1, 1, 512], 0), 0, "all is hidden");
    assert_eq!(count("j < %p[b, i]", &[1, 1, 512], 9000), 8);
}

/// Zero times infinity is NaN, for a masked key too.
#[test]
fn hidden_values_that_are_not_finite_are_seen() {
    if lacks_compiler() {
        return;
    }
    let text = masked("f32", "j <= i");
    for value in [f32::INFINITY, f32::NEG_INFINITY, f32::NAN] {
        let change = |tensors: &mut Vec<Tensor>| {
            let mut values = vec![1.0_f32; 512 * 16];
            values[400 * 16 + 3] = value;
            tensors[2] = Tensor::from_vec(&[1, 512, 16], values).unwrap();
        };
        // The tile of key 400 is the seventh one.
        let case = with(&text, &[1, 512, 512], |_| 0, &change);
        assert_eq!(visited(&text, case), 6 * 7 + 7 + 8);
    }
}

/// A key whose index is out of bounds is a fault, even if its score is masked.
#[test]
fn hidden_keys_that_fault_are_reported() {
    if lacks_compiler() {
        return;
    }
    let text = masked("f32", "j < 5")
        .replace("%p: in i64[B, M]", "%p: in i64[1, N]")
        .replace("%k[b, j, d]", "%k[b, %p[0, j], d]");
    let kernel = kernel(&text);
    let host = HostKernel::build(&kernel, &offered(&text), None).unwrap();
    for (last, faults) in [(0, 0), (200, 1)] {
        let change = |tensors: &mut Vec<Tensor>| {
            let mut rows = vec![0_i64; 200];
            rows[199] = last;
            tensors[3] = Tensor::from_vec(&[1, 200], rows).unwrap();
        };
        let case = CheckedCase::with(&kernel, &[1, 3, 200], 1, smooth(1), &change);
        let (agreed, faulted) = host.check(&[case.unwrap().unwrap()]).unwrap();
        assert_eq!((agreed, faulted), (1 - faults, faults));
    }
}

/// Decoding: one query per head, heads in groups that share keys, the number of keys as data; the maximum and the sum
/// are stored too.
fn decoding(dtype: &str) -> String {
    let [q, k, v] =
        ["%q[b, g, d]", "%k[b, j, d]", "%v[b, j, e]"].map(|operand| wide(dtype, operand));
    format!(
        "kernel @decode(%q: in {dtype}[B, G, 16], %k: in {dtype}[B, N, 16], %v: in {dtype}[B, N, 24], %n: in i64[B], %l: out f32[B, G], %y: out {dtype}[B, G, 24]) {{
           outer b < B, g < G
           s[j < N] = reduce add[d < 16] {q} * {k}
           t = reduce max[j < clamp(%n[b] + N - 1, N)] s[j]
           z = reduce add[j < clamp(%n[b] + N - 1, N)] exp(s[j] - t)
           o[e < 24] = reduce add[j < clamp(%n[b] + N - 1, N)] exp(s[j] - t) * {v}
           store %l[b, g] = t + z
           store %y[b, g, e < 24] = {}
         }}",
        match dtype {
            "f32" => "select(z > 0.0, o[e] / z, 0.0)".to_owned(),
            _ => format!("{dtype}(select(z > 0.0, o[e] / z, 0.0))"),
        }
    )
}

/// Whether the phase that merges splits has tasks.
fn merges(host: &HostKernel, symbols: &[i64]) -> bool {
    *host.tasks(symbols).last().unwrap() > 0
}

#[test]
fn split_keys_do_what_they_mean() {
    if lacks_compiler() {
        return;
    }
    for dtype in ["f32", "bf16", "f16"] {
        let text = decoding(dtype);
        let kernel = kernel(&text);
        let host = HostKernel::build(&kernel, &offered(&text), None).unwrap();
        // B, G, N: around splits of 256 keys and tiles of 64, and primes.
        let sizes: [(&[i64], bool); 9] = [
            (&[1, 1, 0], false),
            (&[1, 1, 1], false),
            (&[2, 3, 511], false),
            (&[2, 3, 512], true),
            (&[1, 1, 513], true),
            (&[1, 65, 577], true),
            (&[1, 7, 1031], true),
            (&[0, 7, 1031], true),
            (&[3, 0, 1031], true),
        ];
        let mut cases = Vec::new();
        for (seed, (symbols, is_split)) in (0..).zip(sizes) {
            if symbols[0] * symbols[1] > 0 {
                assert_eq!(merges(&host, symbols), is_split, "{symbols:?}");
            }
            cases.extend(CheckedCase::of(&kernel, symbols, seed, smooth(seed)).unwrap());
        }
        assert_eq!(cases.len(), sizes.len());
        host.check(&cases).unwrap_or_else(|why| panic!("{why}"));
        assert!(!merges(&host, &[400, 16, 4096]), "enough tasks as they are");
    }
}

/// With a mask, the visible keys are split evenly over the blocks.
#[test]
fn masked_keys_are_split() {
    if lacks_compiler() {
        return;
    }
    for (dtype, sees) in [
        ("f32", "j <= %p[b, i]"),
        ("bf16", "%p[b, i] - j >= 0 and %p[b, i] - j < 300"),
    ] {
        let text = masked(dtype, sees);
        let host = HostKernel::build(&kernel(&text), &offered(&text), None).unwrap();
        let sizes: [&[i64]; 3] = [&[1, 1, 1031], &[2, 3, 700], &[1, 33, 517]];
        let mut cases = Vec::new();
        for symbols in sizes {
            assert!(merges(&host, symbols));
            for position in [-1, 0, 63, 64, 300, 511, symbols[2], i64::MIN, i64::MAX] {
                cases.push(case(&text, symbols, |query| position.saturating_sub(query)));
            }
        }
        host.check(&cases)
            .unwrap_or_else(|why| panic!("{sees}: {why}"));
    }
}

/// Splits without a finite score, and with scores that are infinite or NaN.
#[test]
fn splits_of_masked_rows_are_what_they_mean() {
    if lacks_compiler() {
        return;
    }
    let text = masked("f32", "j >= 0")
        .replace("%p: in i64[B, M]", "%p: in f32[M, N]")
        .replace(
            "select(j >= 0, p[j] * 0.25, -inf)",
            "p[j] * 0.25 + %p[i, j]",
        );
    let guarded = text
        .replace("exp(s[j] - t)", "exp(s[j] - select(t == -inf, 0.0, t))")
        .replace("o[e] / z", "o[e] / select(z == 0.0, 1.0, z)");
    assert_ne!(text, guarded);
    let (rows, keys) = (6, 800);
    let mask = |row: i64, key: i64| match row {
        // Masked per row: all keys, the first splits, the last ones, all keys but one; then one NaN, one infinity.
        0 => f32::NEG_INFINITY,
        1 if key < 700 => f32::NEG_INFINITY,
        2 if key > 3 => f32::NEG_INFINITY,
        3 if key != 400 => f32::NEG_INFINITY,
        4 if key == 400 => f32::NAN,
        5 if key == 400 => f32::INFINITY,
        _ => 0.0,
    };
    let masks = (0..rows).flat_map(|row| (0..keys).map(move |key| mask(row, key)));
    let masks: Vec<f32> = masks.collect();
    let mask = Tensor::from_vec(&[rows as usize, keys as usize], masks).unwrap();
    for text in [text, guarded] {
        let kernel = kernel(&text);
        let change = |tensors: &mut Vec<Tensor>| tensors[3] = mask.clone();
        let case = CheckedCase::with(&kernel, &[1, rows, keys], 5, smooth(5), &change);
        let host = HostKernel::build(&kernel, &offered(&text), None).unwrap();
        assert!(merges(&host, &[1, rows, keys]));
        host.check(&[case.unwrap().unwrap()])
            .unwrap_or_else(|why| panic!("{why}"));
    }
}

/// The order in which blocks and threads run changes no bit.
#[test]
fn merged_splits_do_not_depend_on_order() {
    if lacks_compiler() {
        return;
    }
    let text = masked("f32", "j <= %p[b, i]");
    let symbols = [1, 3, 1031];
    let tensors = case(&text, &symbols, |query| 1000 + query).tensors;
    let host = HostKernel::build(&kernel(&text), &offered(&text), None).unwrap();
    let runs: Vec<_> = (0..6)
        .map(|seed| (&symbols[..], &tensors[..], seed))
        .collect();
    let ran = host.run(&runs).unwrap().into_iter();
    let results: Vec<Vec<u8>> = ran
        .map(|ran| ran.unwrap().0[0].as_bytes().unwrap().to_vec())
        .collect();
    assert!(results.windows(2).all(|pair| pair[0] == pair[1]));
}
