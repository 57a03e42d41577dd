//! Kernels on the host: the generated source, executed thread by thread, gives the results of the kernel's evaluator at
//! edge sizes. Needs g++; without it the tests print a message and pass.
//!
//! `KILN_TEST_KERNELS=FIRST..END` checks other seeds than the first few; `KILN_TEST_FILES=WORD` only files whose paths
//! contain a word; `KILN_TEST_ALL=1` every file.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test may panic, and print what it did"
)]

mod support;

use kiln_backend::Schedule;
use kiln_codegen_cuda::CudaCompiler;
use kiln_testkit::generate::Flavor;
use kiln_testkit::kernels::{Elements, covering_sizes, random_kernel, random_sizes};
use kiln_testkit::random::SplitMix64;
use support::{check_everywhere, kernel, kernel_files, lacks_compiler, smooth};

fn expect(failures: Vec<String>) {
    assert!(
        failures.is_empty(),
        "{} kernels:\n{}",
        failures.len(),
        failures.join("\n\n")
    );
}

/// Runs checks on two threads; returns the failures.
fn in_parallel<T: Sync>(
    all: &[T],
    check: impl Fn(&T) -> Result<(usize, usize), String> + Sync,
) -> Vec<String> {
    let next = std::sync::atomic::AtomicUsize::new(0);
    let result = std::sync::Mutex::new(((0, 0), Vec::new()));
    std::thread::scope(|threads| {
        for _ in 0..2 {
            threads.spawn(|| {
                loop {
                    let at = next.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                    let Some(one) = all.get(at) else { break };
                    let checked = check(one);
                    let mut result = result.lock().unwrap();
                    match checked {
                        Ok((agreed, faulted)) => {
                            result.0.0 += agreed;
                            result.0.1 += faulted;
                        }
                        Err(why) => result.1.push(why),
                    }
                }
            });
        }
    });
    let ((agreed, faulted), failures) = result.into_inner().unwrap();
    println!(
        "{} kernels: {agreed} launches agreed, {faulted} faulted",
        all.len()
    );
    failures
}

fn try_random(seed: u64) -> Result<(usize, usize), String> {
    let text = random_kernel(seed);
    let read = kiln_kernel::text::read(&text).map_err(|errors| errors.render(&text))?;
    let Ok(kernel) = kiln_kernel::verify(read) else {
        return Ok((0, 0));
    };
    let mut random = SplitMix64::new(seed);
    let sizes: Vec<Vec<i64>> = (0..8)
        .filter_map(|_| random_sizes(&mut random, &kernel, 1500.0))
        .collect();
    // Indices that are data: one call in five may have some out of bounds.
    let elements = |seed: u64| Elements {
        flavor: match seed % 5 {
            2 => Flavor::Special,
            _ => Flavor::Smooth,
        },
        indices: match seed % 5 {
            4 => (-1, 3),
            _ => (0, 1),
        },
    };
    check_everywhere(&kernel, &[], &sizes, elements).map_err(|why| format!("seed {seed}: {why}"))
}

#[test]
fn random_kernels_do_what_they_mean() {
    if lacks_compiler() {
        return;
    }
    let given = std::env::var("KILN_TEST_KERNELS").ok();
    let given = given.as_deref().and_then(|given| given.split_once(".."));
    let seeds = given.map_or(0..8, |(first, end)| {
        first.parse().unwrap()..end.parse().unwrap()
    });
    let seeds: Vec<u64> = seeds.collect();
    expect(in_parallel(&seeds, |&seed| try_random(seed)));
}

#[test]
fn kernels_of_files_do_what_they_mean() {
    if lacks_compiler() {
        return;
    }
    let word = std::env::var("KILN_TEST_FILES").unwrap_or_default();
    let all = std::env::var_os("KILN_TEST_ALL").is_some() || !word.is_empty();
    let files = kernel_files();
    let chosen: Vec<&(String, String)> = files
        .iter()
        .filter(|(path, _)| path.contains(&word))
        .step_by(if all { 1 } else { 20 })
        .collect();
    expect(in_parallel(&chosen, |(path, text)| {
        let kernel = kernel(text);
        let sizes = covering_sizes(&kernel, 1500.0);
        check_everywhere(&kernel, &[], &sizes, smooth).map_err(|why| format!("{path}: {why}"))
    }));
}

/// Checks a kernel at sizes larger than tiles and splits, in the order of its symbols.
fn check_large(text: &str, sizes: &[&[i64]]) -> Result<(usize, usize), String> {
    let sizes: Vec<Vec<i64>> = sizes.iter().map(|sizes| sizes.to_vec()).collect();
    check_everywhere(&kernel(text), &[], &sizes, smooth)
}

#[test]
fn products_beyond_a_tile_do_what_they_mean() {
    if lacks_compiler() {
        return;
    }
    let product = |operands: &str, x: &str, w: &str, y: &str| {
        format!(
            "kernel @product({operands}, %y: out {y}) {{
               outer m < M, n < N
               s = reduce add[k < K] {x} * {w}
               store %y[m, n] = {}
             }}",
            match y {
                "f32[M, N]" => "relu(s)",
                "bf16[M, N]" => "bf16(s)",
                _ => "f16(s)",
            }
        )
    };
    let kernels = [
        product(
            "%x: in bf16[M, K], %w: in bf16[K, N]",
            "f32(%x[m, k])",
            "f32(%w[k, n])",
            "bf16[M, N]",
        ),
        product(
            "%x: in f16[K, M], %w: in f16[N, K]",
            "f32(%x[k, m])",
            "f32(%w[n, k])",
            "f16[M, N]",
        ),
        product(
            "%x: in f32[M, K], %w: in f32[N, K]",
            "%x[m, k]",
            "%w[n, k]",
            "f32[M, N]",
        ),
        product(
            "%x: in f32[K, M], %w: in f32[K, N]",
            "relu(%x[k, m])",
            "%w[k, n]",
            "f32[M, N]",
        ),
    ];
    // M, K, N: the depth wraps around the ring buffer; lines are aligned and unaligned.
    let sizes: &[&[i64]] = &[&[130, 168, 8], &[34, 39, 131], &[129, 0, 5], &[1, 257, 1]];
    let sizes: Vec<Vec<i64>> = sizes.iter().map(|sizes| sizes.to_vec()).collect();
    expect(in_parallel(&kernels, |text| {
        // The large tile, which is otherwise chosen only for more tiles than these sizes have.
        let unit = ["bf16", "f16", "f32"].into_iter();
        let unit = unit.filter(|unit| text.contains(&format!("{unit}[")));
        let words = match unit.into_iter().next() {
            Some("f32") | None => "f32 tile 128 128 16 warps 1 1".to_owned(),
            Some(unit) => format!("{unit} tile 128 128 32 warps 2 2"),
        };
        let large = Schedule::new("contraction").with_text(format!("contraction {words}"));
        check_everywhere(&kernel(text), &[large], &sizes, smooth)
    }));
}

/// Products by groups of warps: each factor along the depth or across it, copied, or computed and written.
#[test]
fn products_by_groups_of_warps_do_what_they_mean() {
    if lacks_compiler() {
        return;
    }
    let kernels = [
        ("bf16", "bf16[M, K]", "bf16[K, N]", "%x[m, k]", "%w[k, n]"),
        ("f16", "f16[K, M]", "f16[N, K]", "%x[k, m]", "%w[n, k]"),
        ("bf16", "bf16[K, M]", "bf16[K, N]", "%x[k, m]", "%w[k, n]"),
        ("f16", "f16[M, K]", "f16[N, K]", "%x[m, k]", "%w[n, k]"),
        (
            "bf16",
            "f32[M, K]",
            "bf16[K, N]",
            "bf16(relu(%x[m, k]))",
            "%w[k, n]",
        ),
    ];
    let kernels = kernels.map(|(unit, left, right, x, w)| {
        let text = format!(
            "kernel @product(%x: in {left}, %w: in {right}, %y: out f32[M, N]) {{
               outer m < M, n < N
               s = reduce add[k < K] f32({x}) * f32({w})
               store %y[m, n] = relu(s)
             }}"
        );
        (unit, text)
    });
    // M, K, N: the depth wraps around the ring; columns of lines; lines that are aligned and unaligned.
    let sizes: &[&[i64]] = &[&[72, 328, 264], &[257, 70, 131], &[5, 0, 8], &[1, 257, 1]];
    let sizes: Vec<Vec<i64>> = sizes.iter().map(|sizes| sizes.to_vec()).collect();
    expect(in_parallel(&kernels, |(unit, text)| {
        let tiles = ["256 128 64 groups 2", "64 256 64 groups 1"];
        let schedule = |tile| {
            Schedule::new("contraction").with_text(format!("contraction {unit} tile {tile}"))
        };
        check_everywhere(&kernel(text), &tiles.map(schedule), &sizes, smooth)
            .map_err(|why| format!("{text}: {why}"))
    }));
}

/// Operands that are slices of larger arrays: if they do not begin at a multiple of 16 bytes, lines are not copied
/// directly.
#[test]
fn products_of_parts_do_what_they_mean() {
    if lacks_compiler() {
        return;
    }
    let product = |x: &str, operands: &str| {
        format!(
            "kernel @product({operands}, %w: in bf16[16, N], %y: out f32[B, M, N]) {{
               outer b < B, m < M, n < N
               s = reduce add[k < 16] f32({x}) * f32(%w[k, n])
               store %y[b, m, n] = s
             }}"
        )
    };
    let kernels = [
        product("%x[b, m, k + 8]", "%x: in bf16[B, M, 24]"),
        product("%x[b, m, k + 3]", "%x: in bf16[B, M, 24]"),
        product("%x[b, m, k + N]", "%x: in bf16[B, M, 8 * N + 16]"),
        product("%x[m, b * 4 + k]", "%x: in bf16[M, 8 * B + 16]"),
        product("%x[b, m * 4 + k]", "%x: in bf16[B, 8 * M + 16]"),
        product("%x[b, k + 3, m]", "%x: in bf16[B, 24, M]"),
    ];
    let sizes: &[&[i64]] = &[&[1, 1, 1], &[2, 8, 16], &[3, 24, 5], &[2, 65, 8]];
    expect(in_parallel(&kernels, |text| {
        check_large(text, sizes).map_err(|why| format!("{text}: {why}"))
    }));
}

/// Weights of convolutions: a line of several axes is copied directly.
#[test]
fn windows_of_16_bit_floats_do_what_they_mean() {
    if lacks_compiler() {
        return;
    }
    let window = |border: &str, x: &str| {
        format!(
            "kernel @window(%x: in bf16[N, C, H + {border}, W + {border}], %w: in bf16[O, C, 3, 3], %y: out f32[N, O, H, W]) {{
               outer n < N, o < O, h < H, w < W
               s = reduce add[c < C, p < 3, q < 3] f32({x}) * f32(%w[o, c, p, q])
               store %y[n, o, h, w] = s
             }}"
        )
    };
    let kernels = [
        window("2", "%x[n, c, h + p, w + q]"),
        window(
            "0",
            "%x[n, c, h + p - 1, w + q - 1] if inside else bf16(0.0)",
        ),
        // 1x1 windows: lines of images are copied directly if they end at a multiple of 16 bytes.
        window("0", "%x[n, c, h, w]")
            .replace("p < 3, q < 3", "p < 1")
            .replace("3, 3]", "1]")
            .replace("c, p, q]", "c, p]"),
    ];
    for (text, operand) in kernels.iter().zip(["y", "y", "x"]) {
        let offered = CudaCompiler::offered(&kernel(text)).into_iter();
        let schedule = offered.map(|candidate| candidate.schedule).next().unwrap();
        assert!(schedule.text.starts_with("contraction bf16"), "{schedule}");
        let source = CudaCompiler::host_source(&kernel(text), &schedule).unwrap();
        let copies = source.text.contains(&format!("{operand}_async = (("));
        assert!(copies, "{}", source.text);
    }
    // In the order of the symbols: numbers of channels that give lines of 16 bytes, and others.
    let sizes: &[&[i64]] = &[
        &[1, 1, 1, 1, 1],
        &[1, 8, 3, 5, 9],
        &[2, 3, 4, 3, 33],
        &[1, 16, 2, 7, 65],
        &[1, 0, 2, 2, 2],
    ];
    expect(in_parallel(&kernels, |text| {
        check_large(text, sizes).map_err(|why| format!("{text}: {why}"))
    }));
}

/// Products of dtypes that tensor cores do not support: each has its own tile.
#[test]
fn products_of_f64_and_of_integers_do_what_they_mean() {
    if lacks_compiler() {
        return;
    }
    let product = |operands: &str, factors: &str, stored: &str| {
        format!(
            "kernel @product({operands}) {{
               outer m < M, n < N
               s = reduce add[k < K] {factors}
               store %y[m, n] = {stored}
             }}"
        )
    };
    let kernels = [
        (
            "f64 tile 128 64 8",
            product(
                "%x: in f64[M, K], %w: in f64[K, N], %y: out f64[M, N]",
                "%x[m, k] * %w[k, n]",
                "relu(s)",
            ),
        ),
        (
            "i64 tile 128 64 8",
            product(
                "%x: in i64[K, M], %w: in i64[N, K], %y: out i64[M, N]",
                "%x[k, m] * %w[n, k]",
                "s + 1",
            ),
        ),
        (
            "i32 tile 128 128 16",
            product(
                "%x: in u8[M, K], %w: in i8[K, N], %z: in u8[], %y: out i32[M, N]",
                "(i32(%x[m, k]) - i32(%z[])) * i32(%w[k, n])",
                "s",
            ),
        ),
        (
            "i8 tile 128 128 32",
            product(
                "%x: in i8[M, K], %w: in i8[N, K], %c: in f32[N], %y: out f32[M, N]",
                "i32(%x[m, k]) * i32(%w[n, k])",
                "f32(s) * %c[n]",
            ),
        ),
        (
            "i8 tile 64 128 4",
            product(
                "%x: in i8[K, M], %w: in i8[K, N], %y: out i32[M, N]",
                "i32(%x[k, m]) * i32(%w[k, n])",
                "s",
            ),
        ),
    ];
    // In the order of the symbols, whatever that is: around tile boundaries, and 0.
    let sizes: &[&[i64]] = &[
        &[1, 1, 1],
        &[130, 40, 9],
        &[34, 67, 131],
        &[5, 0, 3],
        &[3, 5, 66],
        &[64, 64, 64],
    ];
    let sizes: Vec<Vec<i64>> = sizes.iter().map(|sizes| sizes.to_vec()).collect();
    let elements = |_: u64| Elements {
        flavor: Flavor::Smooth,
        indices: (-9, 10),
    };
    expect(in_parallel(&kernels, |(words, text)| {
        let kernel = kernel(text);
        let offered = CudaCompiler::offered(&kernel).into_iter();
        let mut names = offered.map(|candidate| candidate.schedule.name);
        if !names.any(|name| name == "contraction") {
            return Err(format!("no contraction is offered for {text}"));
        }
        let words = format!("contraction {words} warps 1 1");
        let large = Schedule::new("contraction").with_text(words);
        check_everywhere(&kernel, &[large], &sizes, elements)
    }));
}

#[test]
fn split_reductions_do_what_they_mean() {
    if lacks_compiler() {
        return;
    }
    let kernels = [
        "kernel @sum(%x: in f32[N], %y: out f32[]) {
           s = reduce add[n < N] %x[n]
           store %y[] = s * 0.5
         }",
        "kernel @largest(%x: in f32[N], %y: out i64[]) {
           s = reduce argmax_last[n < N] %x[n]
           store %y[] = s
         }",
        "kernel @columns(%x: in bf16[N, 3], %y: out f32[3]) {
           outer j < 3
           s = reduce add[n < N] f32(%x[n, j])
           store %y[j] = s
         }",
        "kernel @smallest(%x: in i32[N, 9], %y: out i64[9]) {
           outer j < 9
           s = reduce argmin[n < N] %x[n, j]
           store %y[j] = s
         }",
        "kernel @planes(%x: in f32[N, 5, 7], %y: out f32[5]) {
           outer j < 5
           s = reduce max[n < N, i < 7] %x[n, j, i]
           store %y[j] = s
         }",
    ];
    let sizes: &[&[i64]] = &[&[0], &[1], &[4097], &[33_001]];
    expect(in_parallel(&kernels, |text| check_large(text, sizes)));
}

#[test]
fn rows_of_every_length_do_what_they_mean() {
    if lacks_compiler() {
        return;
    }
    let kernels = [
        "kernel @softmax(%x: in f32[M, N], %y: out f32[M, N]) {
           outer m < M
           t = reduce max[j < N] %x[m, j]
           z = reduce add[j < N] exp(%x[m, j] - t)
           store %y[m, j < N] = exp(%x[m, j] - t) / z
         }",
        "kernel @scores(%x: in f32[M, N], %y: out f32[M, N]) {
           outer m < M
           p[j < N] = exp(%x[m, j])
           z = reduce add[j < N] p[j]
           store %y[m, j < N] = p[j] / z
         }",
    ];
    let sizes: &[&[i64]] = &[&[3, 1020], &[2, 1025], &[1, 8192], &[1, 8193]];
    expect(in_parallel(&kernels, |text| check_large(text, sizes)));
}
