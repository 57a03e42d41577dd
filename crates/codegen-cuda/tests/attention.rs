//! Attention on the host: source code that iterates over tiles of keys gives the results of the kernel's evaluator, at
//! sizes around tile boundaries. Kernels that are not attention are left to other strategies. Needs g++; without it the
//! tests print a message and pass.

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

/// Whether the attention schedule is offered for a kernel.
fn is_offered(text: &str) -> bool {
    let offered = CudaCompiler::offered(&kernel(text)).into_iter();
    offered
        .map(|candidate| candidate.schedule)
        .any(|schedule| schedule.name == "attention")
}

/// The attention schedule that is offered, and others.
fn schedules(text: &str, others: &[&str]) -> Vec<Schedule> {
    let offered = CudaCompiler::offered(&kernel(text)).into_iter();
    let offered = offered.map(|candidate| candidate.schedule);
    let mut all: Vec<Schedule> = offered.filter(|s| s.name == "attention").collect();
    assert_eq!(all.len(), 1, "one attention is offered for {text}");
    let others = others.iter();
    all.extend(others.map(|text| Schedule::new("attention").with_text(*text)));
    all
}

/// Checks a kernel with the attention schedule that is offered, and with other tiles, at these sizes.
fn check(text: &str, others: &[&str], sizes: &[&[i64]]) {
    if lacks_compiler() {
        return;
    }
    let kernel = kernel(text);
    let case = |(seed, symbols): (u64, &&[i64])| {
        CheckedCase::of(&kernel, symbols, seed, smooth(seed)).unwrap()
    };
    let cases: Vec<CheckedCase> = (0..).zip(sizes).filter_map(case).collect();
    assert_eq!(cases.len(), sizes.len());
    for schedule in schedules(text, others) {
        let host = HostKernel::build(&kernel, &schedule, None).unwrap();
        host.check(&cases).unwrap_or_else(|why| panic!("{why}"));
    }
}

/// Attention over `i`, `j`, `d` and `e`, with a score in between.
fn attention(operands: &str, products: [&str; 2], score: &str, stored: &str) -> String {
    let [scores, mix] = products;
    format!(
        "kernel @attention({operands}) {{
           outer b < B, i < M
           p[j < N] = reduce add[d < D] {scores}
           s[j < N] = {score}
           t = reduce max[j < N] s[j]
           w[j < N] = exp(s[j] - t)
           z = reduce add[j < N] w[j]
           o[e < E] = reduce add[j < N] {mix}
           store %y[b, i, e < E] = {stored}
         }}"
    )
}

/// Sizes in the order B, M, D, N, E: all 1, around tile boundaries, 0, primes.
const SIZES: &[&[i64]] = &[
    &[1, 1, 1, 1, 1],
    &[2, 2, 2, 2, 2],
    &[1, 65, 15, 63, 17],
    &[1, 64, 16, 64, 16],
    &[2, 3, 17, 65, 63],
    &[1, 7, 67, 129, 65],
    &[1, 5, 64, 0, 8],
    &[1, 5, 0, 9, 8],
    &[1, 0, 4, 9, 8],
    &[0, 3, 4, 9, 8],
    &[1, 3, 8, 9, 0],
    &[1, 31, 33, 67, 131],
];

#[test]
fn attention_of_f32_does_what_it_means() {
    let text = attention(
        "%q: in f32[B, M, D], %k: in f32[B, N, D], %m: in f32[B, N], %v: in f32[B, N, E], %y: out f32[B, M, E]",
        ["%q[b, i, d] * %k[b, j, d]", "w[j] * %v[b, j, e]"],
        "p[j] * 0.25 + %m[b, j]",
        "o[e] / z",
    );
    let others = [
        "attention f32 tile 64 64 8 64 warps 1",
        "attention f32 tile 128 64 16 128 warps 1",
    ];
    check(&text, &others, SIZES);
}

#[test]
fn attention_of_16_bit_floats_does_what_it_means() {
    for dtype in ["bf16", "f16"] {
        let text = attention(
            &format!(
                "%q: in {dtype}[B, M, D], %k: in {dtype}[B, N, D], %m: in {dtype}[M, N], %v: in {dtype}[B, N, E], %y: out {dtype}[B, M, E]"
            ),
            [
                "f32(%q[b, i, d]) * f32(%k[b, j, d])",
                "w[j] / z * f32(%v[b, j, e])",
            ],
            "p[j] * 0.25 + f32(%m[i, j])",
            &format!("{dtype}(o[e])"),
        );
        let others = [
            format!("attention {dtype} tile 32 16 16 16 warps 1"),
            format!("attention {dtype} tile 128 32 32 96 warps 4"),
        ];
        let others = others.each_ref().map(String::as_str);
        check(&text, &others, SIZES);
    }
}

/// Results in f32 have the precision of f32, since each weight is multiplied as two numbers.
#[test]
fn weights_are_rounded_only_where_the_kernel_rounds() {
    let text = |weight: &str| {
        attention(
            "%q: in bf16[B, M, D], %k: in bf16[B, D, N], %v: in bf16[B, E, N], %y: out f32[B, M, E]",
            [
                "f32(%q[b, i, d]) * f32(%k[b, d, j])",
                &format!("{weight} * f32(%v[b, e, j])"),
            ],
            "p[j]",
            "o[e]",
        )
    };
    let exact = text("w[j]");
    check(&exact, &[], SIZES);
    let rounded = text("f32(bf16(w[j] / z))");
    check(&rounded, &[], SIZES);
    let parts = |text: &str| {
        let schedule = schedules(text, &[]).remove(0);
        let source = CudaCompiler::host_source(&kernel(text), &schedule).unwrap();
        source.text.contains("multiply_sums<2>(scores")
    };
    assert!(parts(&exact) && !parts(&rounded));
}

/// Heads of known size whose queries share keys, interleaved with those of other heads.
#[test]
fn heads_of_known_sizes_keep_their_queries() {
    for (dtype, size) in [
        ("f32", 24),
        ("f32", 64),
        ("bf16", 64),
        ("f16", 80),
        ("bf16", 136),
    ] {
        let wide = |x: &str| match dtype {
            "f32" => x.to_owned(),
            _ => format!("f32({x})"),
        };
        let text = format!(
            "kernel @attention(%q: in {dtype}[B, M, 2, 3, {size}], %k: in {dtype}[B, N, 2, {size}], %v: in {dtype}[B, N, 2, {size}], %y: out f32[B, M, 2, 3, {size}]) {{
               outer b < B, h < 2, g < 3, i < M
               p[j < N] = reduce add[d < {size}] {} * {}
               t = reduce max[j < N] p[j] * 0.125
               z = reduce add[j < N] exp(p[j] * 0.125 - t)
               o[e < {size}] = reduce add[j < N] exp(p[j] * 0.125 - t) * {}
               r = 1.0 / z
               store %y[b, i, h, g, e < {size}] = relu(o[e] * r)
             }}",
            wide("%q[b, i, h, g, d]"),
            wide("%k[b, j, h, d]"),
            wide("%v[b, j, h, e]"),
        );
        check(&text, &[], &[&[1, 1, 1], &[1, 23, 70], &[2, 11, 130]]);
    }
}

/// One query per head, as in text generation; three heads share the same keys, whose values are wider than a tile.
#[test]
fn single_queries_do_what_they_mean() {
    for dtype in ["f32", "bf16"] {
        let wide = |x: &str| match dtype {
            "f32" => x.to_owned(),
            _ => format!("f32({x})"),
        };
        let text = format!(
            "kernel @attention(%q: in {dtype}[B, 6, 20], %k: in {dtype}[B, 2, N, 20], %v: in {dtype}[B, 2, N, 300], %y: out f32[B, 6, 300]) {{
               outer b < B, h < 6
               p[j < N] = reduce add[d < 20] {} * {}
               t = reduce max[j < N] p[j]
               z = reduce add[j < N] exp(p[j] - t)
               o[e < 300] = reduce add[j < N] exp(p[j] - t) / z * {}
               store %y[b, h, e < 300] = o[e]
             }}",
            wide("%q[b, h, d]"),
            wide("%k[b, h / 3, j, d]"),
            wide("%v[b, h / 3, j, e]"),
        );
        check(&text, &[], &[&[1, 1], &[2, 67]]);
    }
}

#[test]
fn masks_by_selection_and_by_number_of_keys_do_what_they_mean() {
    // Query `i` attends to keys up to `i`.
    let causal = attention(
        "%q: in f32[B, M, D], %k: in f32[B, N, D], %v: in f32[B, N, E], %y: out f32[B, M, E]",
        ["%q[b, i, d] * %k[b, j, d]", "w[j] * %v[b, j, e]"],
        "select(j <= i, p[j], -1e30)",
        "o[e] / z",
    );
    check(&causal, &[], SIZES);
    // The number of keys is data, or 0; the maximum and the sum are stored too.
    let ragged = "kernel @ragged(%q: in bf16[B, M, 16], %k: in bf16[B, N, 16], %v: in bf16[B, N, 16], %n: in i64[B], %l: out f32[B, M], %y: out bf16[B, M, 16]) {
       outer b < B, i < M
       s[j < N] = reduce add[d < 16] f32(%q[b, i, d]) * f32(%k[b, j, d])
       t = reduce max[j < clamp(%n[b] + 66, N)] s[j]
       z = reduce add[j < clamp(%n[b] + 66, N)] exp(s[j] - t)
       o[e < 16] = reduce add[j < clamp(%n[b] + 66, N)] exp(s[j] - t) * f32(%v[b, j, e])
       store %l[b, i] = t + z
       store %y[b, i, e < 16] = bf16(select(z > 0.0, o[e] / z, 0.0))
     }";
    check(ragged, &[], &[&[2, 3, 5], &[1, 65, 80], &[1, 2, 0]]);
}

/// Kernels as produced by fusion: a plain softmax, one whose fully masked rows are zero, and one with an extra score
/// per head that takes weight but adds no value (an attention sink).
const FUSED: [&str; 3] = [
    "kernel @attention(%b0: in bf16[s0, s1, s2, 64], %b1: in bf16[s0, s1, s2, 64], %b2: in bf16[s0, 1, 1, s2], %b3: in bf16[s0, s1, s2, 64], %b4: out bf16[s0, s2, s1, 64]) {
       outer a0 < s0, a1 < s2, a2 < s1
       v0[a3 < s2] = reduce add[a4 < 64] f32(%b0[a0, a2, a1, a4]) * f32(%b1[a0, a2, a3, a4])
       v1[a5 < s2] = v0[a5] * 0.125 + f32(%b2[a0, 0, 0, a5])
       v2 = reduce max[a6 < s2] v1[a6]
       v3[a7 < s2] = exp(v1[a7] - v2)
       v4 = reduce add[a8 < s2] v3[a8]
       v5[a9 < s2] = v3[a9] / v4
       v6[a10 < 64] = reduce add[a11 < s2] v5[a11] * f32(%b3[a0, a2, a11, a10])
       store %b4[a0, a1, a2, a12 < 64] = bf16(v6[a12])
     }",
    "kernel @attention(%b0: in f32[s0, s1, 64], %b1: in f32[s0, s2, 64], %b2: in f32[s1, s2], %b3: in f32[s0, s2, 64], %b4: out f32[s0, s1, 64]) {
       outer a0 < s0, a1 < s1
       v0[a2 < s2] = reduce add[a3 < 64] %b0[a0, a1, a3] * %b1[a0, a2, a3]
       v1[a4 < s2] = v0[a4] * 0.125 + %b2[a1, a4]
       v2 = reduce max[a5 < s2] v1[a5]
       v3[a6 < s2] = exp(v1[a6] - select(v2 == -inf, 0.0, v2))
       v4 = reduce add[a7 < s2] v3[a7]
       v5[a8 < s2] = v3[a8] / select(v4 == 0.0, 1.0, v4)
       v6[a9 < 64] = reduce add[a10 < s2] v5[a10] * %b3[a0, a10, a9]
       store %b4[a0, a1, a11 < 64] = v6[a11]
     }",
    "kernel @attention(%b0: in f32[s0, s1, 64], %b1: in f32[s0, s2, 64], %b2: in f32[s0], %b3: in f32[s0, s2, 64], %b4: out f32[s0, s1, 64]) {
       outer a0 < s0, a1 < s1
       v0[a2 < s2] = reduce add[a3 < 64] %b0[a0, a1, a3] * %b1[a0, a2, a3]
       v1 = reduce max[a4 < s2] v0[a4]
       v2 = max(v1, %b2[a0])
       v3[a5 < s2] = exp(v0[a5] - v2)
       v4 = reduce add[a6 < s2] v3[a6]
       v5 = v4 + exp(%b2[a0] - v2)
       v6[a7 < 64] = reduce add[a8 < s2] v3[a8] / v5 * %b3[a0, a8, a7]
       store %b4[a0, a1, a9 < 64] = v6[a9]
     }",
];

#[test]
fn kernels_as_fusion_makes_them_do_what_they_mean() {
    for text in FUSED {
        check(
            text,
            &[],
            &[&[1, 1, 1], &[2, 3, 70], &[1, 5, 0], &[0, 2, 3]],
        );
    }
}

/// Rows and tiles whose keys are all masked, and kernels without keys.
#[test]
fn masked_rows_are_what_they_mean() {
    if lacks_compiler() {
        return;
    }
    let (rows, keys, size) = (6, 150, 8);
    for dtype in ["f32", "bf16"] {
        let wide = |x: &str| match dtype {
            "f32" => x.to_owned(),
            _ => format!("f32({x})"),
        };
        let plain = attention(
            &format!(
                "%q: in {dtype}[B, M, D], %k: in {dtype}[B, N, D], %m: in f32[M, N], %v: in {dtype}[B, N, E], %y: out f32[B, M, E]"
            ),
            [
                &format!("{} * {}", wide("%q[b, i, d]"), wide("%k[b, j, d]")),
                &format!("w[j] * {}", wide("%v[b, j, e]")),
            ],
            "p[j] + %m[i, j]",
            "o[e] / z",
        );
        let guarded = plain
            .replace("exp(s[j] - t)", "exp(s[j] - select(t == -inf, 0.0, t))")
            .replace("o[e] / z", "o[e] / select(z == 0.0, 1.0, z)");
        assert_ne!(plain, guarded);
        for text in [plain, guarded] {
            let kernel = kernel(&text);
            let symbols = [1, rows, size, keys, size];
            let mask = |row: i64, key: i64| match row {
                // Masked per row: all keys, the first tiles, the last ones, all keys but one; then one NaN, one
                // infinity.
                0 => f32::NEG_INFINITY,
                1 if key < 140 => f32::NEG_INFINITY,
                2 if key > 3 => f32::NEG_INFINITY,
                3 if key != 70 => f32::NEG_INFINITY,
                4 if key == 66 => f32::NAN,
                5 if key == 66 => f32::INFINITY,
                _ => 0.0,
            };
            let masks = (0..rows).flat_map(|row| (0..keys).map(move |key| mask(row, key)));
            let masks: Vec<f32> = masks.collect();
            let mask = Tensor::from_vec(&[rows as usize, keys as usize], masks).unwrap();
            let change = |tensors: &mut Vec<Tensor>| tensors[2] = mask.clone();
            let case = CheckedCase::with(&kernel, &symbols, 5, smooth(5), &change).unwrap();
            for schedule in schedules(&text, &[]) {
                let host = HostKernel::build(&kernel, &schedule, None).unwrap();
                host.check(std::slice::from_ref(case.as_ref().unwrap()))
                    .unwrap_or_else(|why| panic!("{why}"));
            }
        }
    }
}

#[test]
fn other_kernels_are_left_to_other_strategies() {
    let with = |maximum: &str, weight: &str, mix: &str, rest: &str| {
        format!(
            "kernel @other(%q: in f32[M, 8], %k: in f32[N, 8], %v: in f32[N, 8], %c: in f32[N], %y: out f32[M, 8], %x: out f32[M, N]) {{
               outer i < M
               p[j < N] = reduce add[d < 8] %q[i, d] * %k[j, d]
               t = reduce max[j < N] {maximum}
               w[j < N] = {weight}
               z = reduce add[j < N] w[j]
               o[e < 8] = reduce add[j < N] {mix}
               store %y[i, e < 8] = o[e] / z
               {rest}
             }}"
        )
        .replace(
            ", %x: out f32[M, N]",
            if rest.is_empty() { "" } else { ", %x: out f32[M, N]" },
        )
    };
    let (weight, mix) = ("exp(p[j] - t)", "w[j] * %v[j, e]");
    assert!(is_offered(&with("p[j]", weight, mix, "")));
    let cases = [
        ("another score", with("p[j] * 0.5", weight, mix, "")),
        ("another function", with("p[j]", "exp2(p[j] - t)", mix, "")),
        (
            "weights that are stored",
            with("p[j]", weight, mix, "store %x[i, j < N] = w[j]"),
        ),
        (
            "another factor",
            with("p[j]", weight, "w[j] * %c[j] * %v[j, e]", ""),
        ),
        (
            "a score of another key",
            with("p[N - 1 - j]", "exp(p[N - 1 - j] - t)", mix, ""),
        ),
        (
            "a shift that depends on the key",
            with("p[j]", "exp(p[j] - max(t, %c[j]))", mix, ""),
        ),
    ];
    for (why, text) in cases {
        assert!(!is_offered(&text), "{why}");
    }
    let causal =
        "kernel @causal(%q: in f32[S, 8], %k: in f32[S, 8], %v: in f32[S, 8], %y: out f32[S, 8]) {
       outer i < S
       s[j < S] = reduce add[d < 8] %q[i, d] * %k[j, d]
       t = reduce max[j < clamp(i + 1, S)] s[j]
       z = reduce add[j < clamp(i + 1, S)] exp(s[j] - t)
       o[e < 8] = reduce add[j < clamp(i + 1, S)] exp(s[j] - t) * %v[j, e]
       store %y[i, e < 8] = o[e] / z
     }";
    assert!(!is_offered(causal), "as many keys as the row says");
    let two = causal.replacen("clamp(i + 1, S)", "S", 1);
    assert!(!is_offered(&two), "two numbers of keys");
    let square =
        "kernel @square(%q: in f32[M, 8], %k: in f32[N, 8], %v: in f32[N, N], %y: out f32[M, N]) {
       outer i < M
       p[j < N] = reduce add[d < 8] %q[i, d] * %k[j, d]
       t = reduce max[j < N] p[j]
       w[j < N] = exp(p[j] - t)
       z = reduce add[j < N] w[j]
       o[e < N] = reduce add[j < N] w[j] * %v[j, e]
       store %y[i, e < N] = o[e] / z
     }";
    assert!(is_offered(square));
    let other = square.replace("w[j] * %v[j, e]", "w[e] * %v[j, e]");
    assert!(!is_offered(&other), "the weight of another key");
}
