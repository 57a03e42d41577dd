//! Mistakes injected into a source, or into the device, are found by executing it on the host; otherwise agreement
//! would prove little.

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

const PRODUCT: &str = "kernel @product(%x: in bf16[M, K], %w: in bf16[K, N], %y: out f32[M, N]) {
  outer m < M, n < N
  s = reduce add[k < K] f32(%x[m, k]) * f32(%w[k, n])
  store %y[m, n] = s
}";
const ROW: &str = "kernel @row(%x: in f32[M, N], %y: out f32[M]) {
  outer m < M
  s = reduce add[n < N] %x[m, n]
  store %y[m] = s
}";

/// Whether a changed kernel gives wrong results, with copies that land early and late.
fn is_found(
    text: &str,
    schedule: &str,
    sizes: &[i64],
    change: impl Fn(&str) -> String,
    define: Option<&str>,
) -> bool {
    let kernel = kernel(text);
    let name = schedule.split(' ').next().unwrap();
    let schedule = Schedule::new(name).with_text(schedule);
    let source = CudaCompiler::host_source(&kernel, &schedule).unwrap();
    let changed = change(&source.text);
    let host = HostKernel::build_text(&kernel, &changed, source.parts, define).unwrap();
    let case = |seed| CheckedCase::of(&kernel, sizes, seed, smooth(seed)).unwrap();
    let cases: Vec<CheckedCase> = (1..7).filter_map(case).collect();
    host.check(&cases).is_err()
}

#[test]
fn mistakes_in_products_are_found() {
    if lacks_compiler() {
        return;
    }
    let schedule = "contraction bf16 tile 64 64 32 warps 2 2";
    let found = |change: &dyn Fn(&str) -> String, define| {
        is_found(PRODUCT, schedule, &[40, 200, 24], change, define)
    };
    let replaced = |from: &'static str, to: &'static str| {
        move |text: &str| {
            assert!(text.contains(from), "the source has no `{from}`");
            text.replace(from, to)
        }
    };
    let same = |text: &str| text.to_owned();
    assert!(!found(&same, None), "the source itself is right");
    assert!(found(&same, Some("SEEDED_NO_BARRIER")), "no barriers");
    assert!(found(&same, Some("SEEDED_NO_WAIT")), "no waits for copies");
    let short = |text: &str| {
        let text = replaced("(unsigned)next % 4", "(unsigned)next % 3")(text);
        replaced("(unsigned)step % 4", "(unsigned)step % 3")(&text)
    };
    assert!(found(&short, None), "a ring that is a tile short");
    let early = replaced("k_copy_wait<2>()", "k_copy_wait<3>()");
    assert!(found(&early, None), "a wait for too few copies");
    let off = replaced("k0 = (k_i64)next * 32", "k0 = (k_i64)next * 32 + 1");
    assert!(found(&off, None), "an index off by one");
}

#[test]
fn mistakes_in_products_by_groups_of_warps_are_found() {
    if lacks_compiler() {
        return;
    }
    let schedule = "contraction bf16 tile 64 128 64 groups 1";
    let found = |change: &dyn Fn(&str) -> String, define| {
        is_found(PRODUCT, schedule, &[40, 392, 72], change, define)
    };
    let same = |text: &str| text.to_owned();
    assert!(!found(&same, None), "the source itself is right");
    assert!(found(&same, Some("SEEDED_NO_BARRIER")), "no barriers");
    assert!(found(&same, Some("SEEDED_NO_WAIT")), "no waits for copies");
    for (from, to, why) in [
        ("k_copy_wait<1>()", "k_copy_wait<2>()", "too few copies"),
        ("k_fence_shared(); ", "", "copies that are not fenced"),
        (
            "k_group_wait<1>()",
            "k_group_wait<3>()",
            "a busy tile is filled",
        ),
        (
            "k_group_wait<0>()",
            "k_group_wait<1>()",
            "sums that are not complete",
        ),
        (
            "line % 8 * 8",
            "line % 4 * 8",
            "lines that are permuted otherwise",
        ),
        (
            "(k_u64)(1024 >> 4) << 32",
            "(k_u64)(512 >> 4) << 32",
            "lines at half the distance",
        ),
        ("LINES * 128", "LINES * 64", "columns at half the distance"),
    ] {
        let change = |text: &str| {
            assert!(text.contains(from), "the source has no `{from}`");
            text.replace(from, to)
        };
        assert!(found(&change, None), "{why}");
    }
}

#[test]
fn mistakes_in_rows_are_found() {
    if lacks_compiler() {
        return;
    }
    let found = |change: &dyn Fn(&str) -> String, define| {
        is_found(ROW, "row threads 256 lanes 4", &[5, 3000], change, define)
    };
    let same = |text: &str| text.to_owned();
    assert!(!found(&same, None), "the source itself is right");
    assert!(found(&same, Some("SEEDED_NO_BARRIER")), "no barriers");
    let skips = |text: &str| {
        assert!(text.contains("mask = 16"));
        text.replace("mask = 16", "mask = 8")
    };
    assert!(found(&skips, None), "half of a warp is not added");
}

#[test]
fn offsets_in_too_few_bits_are_found() {
    if lacks_compiler() {
        return;
    }
    let short = |text: &str| {
        assert!(text.contains("typedef int k_index;"));
        text.replace("typedef int k_index;", "typedef short k_index;")
    };
    let found = |change: &dyn Fn(&str) -> String| {
        is_found(ROW, "row threads 32 lanes 4", &[40_000, 3], change, None)
    };
    assert!(!found(&str::to_owned), "the source itself is right");
    assert!(found(&short), "offsets that wrap");
}

#[test]
fn mistakes_in_attention_are_found() {
    if lacks_compiler() {
        return;
    }
    for (dtype, tile) in [
        ("f32", "64 64 8 64 warps 1"),
        ("bf16", "32 16 16 16 warps 2"),
    ] {
        let wide = |x: &str| match dtype {
            "f32" => x.to_owned(),
            _ => format!("f32({x})"),
        };
        let text = format!(
            "kernel @attention(%q: in {dtype}[M, D], %k: in {dtype}[N, D], %v: in {dtype}[N, D], %y: out f32[M, D]) {{
               outer i < M
               s[j < N] = reduce add[d < D] {} * {}
               t = reduce max[j < N] s[j]
               z = reduce add[j < N] exp(s[j] - t)
               o[e < D] = reduce add[j < N] exp(s[j] - t) * {}
               store %y[i, e < D] = o[e] / z
             }}",
            wide("%q[i, d]"),
            wide("%k[j, d]"),
            wide("%v[j, e]"),
        );
        let schedule = format!("attention {dtype} tile {tile}");
        let found = |change: &dyn Fn(&str) -> String, define| {
            is_found(&text, &schedule, &[40, 24, 150], change, define)
        };
        let replaced = |from: &'static str, to: &'static str| {
            move |text: &str| {
                assert!(text.contains(from), "the source has no `{from}`");
                text.replace(from, to)
            }
        };
        let same = |text: &str| text.to_owned();
        assert!(!found(&same, None), "the source itself is right");
        assert!(found(&same, Some("SEEDED_NO_BARRIER")), "no barriers");
        assert!(found(&same, Some("SEEDED_NO_WAIT")), "no waits for copies");
        let one_slot = replaced("slots + next % 2", "slots + 0 * next");
        let one_slot =
            |text: &str| replaced("slots + step % 2", "slots + 0 * step")(&one_slot(text));
        assert!(found(&one_slot, None), "a single slot");
        let stale = replaced("mixed.at(r, c) *= scale", "mixed.at(r, c) *= 1.0f");
        assert!(found(&stale, None), "sums that are not rescaled");
        let stale = replaced("k_fused(totals[r], scale, total)", "totals[r] + total");
        assert!(found(&stale, None), "totals that are not rescaled");
        let beyond = replaced("<= last_key ?", "<= last_key + 1 ?");
        assert!(found(&beyond, None), "a key that is none");
        let quad = replaced("mask = SHARING / 2", "mask = SHARING / 4");
        assert!(found(&quad, None), "half of a row");
    }
}

/// Attention for one query, with a known last key: masked by position, or with the keys split over blocks.
const DECODING: &str =
    "kernel @decode(%q: in f32[H, D], %k: in f32[N, D], %v: in f32[N, D], %y: out f32[H, D]) {
  outer h < H
  p[j < N] = reduce add[d < D] %q[h, d] * %k[j, d]
  s[j < N] = select(j <= 320, p[j], -inf)
  t = reduce max[j < N] s[j]
  z = reduce add[j < N] exp(s[j] - t)
  o[e < D] = reduce add[j < N] exp(s[j] - t) * %v[j, e]
  store %y[h, e < D] = o[e] / z
}";

#[test]
fn mistakes_in_visited_keys_are_found() {
    if lacks_compiler() {
        return;
    }
    let tile = "tile 64 64 8 64 warps 1";
    let found = |schedule: &str, from: &'static str, to: &'static str| {
        let change = |text: &str| {
            assert!(text.contains(from), "the source has no `{from}`");
            text.replace(from, to)
        };
        is_found(DECODING, schedule, &[3, 8, 1000], change, None)
    };
    let masked = format!("attention f32 {tile}");
    assert!(!found(&masked, "k_narrow_keys", "k_narrow_keys"));
    for (from, to, why) in [
        ("1 - hidden", "-hidden", "a key too few"),
        (
            "first_tile + step / (parts + 1)",
            "first_tile",
            "the first tile's positions",
        ),
        (
            "end_key = k_reduce<k_op_max, 256>(end_key, k_shared);",
            "",
            "rows of other threads",
        ),
    ] {
        assert!(found(&masked, from, to), "{why}");
    }
    let split = format!("attention f32 {tile} split {tile}");
    assert!(!found(&split, "k_merge", "k_merge"));
    for (from, to, why) in [
        ("a.total * of_a", "a.total", "totals that are not rescaled"),
        ("b.mix * of_b", "b.mix", "mixes that are not rescaled"),
        ("k_partial{now,", "k_partial{b.maximum,", "the last maximum"),
        (
            "slot < (row + 1)",
            "slot + 1 < (row + 1)",
            "a split that is left out",
        ),
        (
            "first_seen + split * share",
            "first_seen",
            "the first keys again and again",
        ),
        (
            "/ 64 - first_seen : 0",
            "/ 64 - first_seen - 1 : 0",
            "a tile too few",
        ),
    ] {
        assert!(found(&split, from, to), "{why}");
    }
}
