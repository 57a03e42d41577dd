//! NVRTC compiles generated sources for every kind of architecture, with bounded register spills, to the instructions
//! that they are written for. Needs NVRTC, but no GPU; without it the tests print a message and pass.
//!
//! `KILN_NVRTC` is the library or its folder; `KILN_NVDISASM` is a disassembler, used to check the instructions.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test may panic, and print what it did"
)]

mod support;

use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use kiln_backend::{CompileObserver, CompilePhase, KernelCompiler, Unobserved};
use kiln_codegen_cuda::{CudaArch, CudaCompiler, CudaError, DeviceCode, Entry};
use support::{kernel, kernel_files};

/// The architectures that are compiled for: the oldest, one with a suffix, a new one.
const ARCHS: [CudaArch; 3] = [CudaArch::Sm80, CudaArch::Sm90a, CudaArch::Sm100];

/// The compiler; `None` if it is missing, after printing the reason.
fn compiler() -> Option<CudaCompiler> {
    match CudaCompiler::new(CudaArch::Sm90a) {
        Ok(compiler) => Some(compiler),
        Err(CudaError::Environment { .. }) => {
            println!("skipped: CUDA C is not compiled, since NVRTC is not installed");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

const MAP: &str = "kernel @gelu(%x: in f32[N], %y: out f32[N]) {
  outer i < N
  store %y[i] = gelu(%x[i])
}";
const SOFTMAX: &str = "kernel @softmax(%x: in f32[M, N], %y: out f32[M, N]) {
  outer m < M
  t = reduce max[j < N] %x[m, j]
  z = reduce add[j < N] exp(%x[m, j] - t)
  store %y[m, j < N] = exp(%x[m, j] - t) / z
}";
const PRODUCT: &str =
    "kernel @linear(%x: in bf16[M, K], %w: in bf16[K, N], %b: in f32[N], %y: out bf16[M, N]) {
  outer m < M, n < N
  s = reduce add[k < K] f32(%x[m, k]) * f32(%w[k, n])
  store %y[m, n] = bf16(relu(s + %b[n]))
}";
const SINGLE: &str = "kernel @linear(%x: in f32[M, K], %w: in f32[K, N], %y: out f32[M, N]) {
  outer m < M, n < N
  s = reduce add[k < K] %x[m, k] * %w[k, n]
  store %y[m, n] = s
}";
const DOUBLE: &str = "kernel @product(%x: in f64[M, K], %w: in f64[K, N], %y: out f64[M, N]) {
  outer m < M, n < N
  s = reduce add[k < K] %x[m, k] * %w[k, n]
  store %y[m, n] = s
}";
const LONG: &str = "kernel @product(%x: in i64[M, K], %w: in i64[K, N], %y: out i64[M, N]) {
  outer m < M, n < N
  s = reduce add[k < K] %x[m, k] * %w[k, n]
  store %y[m, n] = s
}";
const BYTES: &str =
    "kernel @product(%x: in i8[M, K], %w: in i8[N, K], %c: in f32[N], %y: out f32[M, N]) {
  outer m < M, n < N
  s = reduce add[k < K] i32(%x[m, k]) * i32(%w[n, k])
  store %y[m, n] = f32(s) * %c[n]
}";

const WINDOW: &str = "kernel @conv(%x: in bf16[N, C, H, W], %w: in bf16[O, C, 3, 3], %y: out bf16[N, O, H, W]) {
  outer n < N, o < O, h < H, w < W
  s = reduce add[c < C, p < 3, q < 3] f32(%x[n, c, h + p - 1, w + q - 1] if inside else bf16(0.0)) * f32(%w[o, c, p, q])
  store %y[n, o, h, w] = bf16(relu(s))
}";
const PIXELS: &str =
    "kernel @conv(%x: in bf16[N, C, H], %w: in bf16[O, C], %y: out bf16[N, O, H]) {
  outer n < N, o < O, h < H
  s = reduce add[c < C] f32(%x[n, c, h]) * f32(%w[o, c])
  store %y[n, o, h] = bf16(relu(s))
}";

/// Attention with a mask, for heads of a given size.
fn attention(dtype: &str, size: u32) -> String {
    let wide = |x: &str| match dtype {
        "f32" => x.to_owned(),
        _ => format!("f32({x})"),
    };
    let (query, key, value) = (
        wide("%q[b, i, d]"),
        wide("%k[b, j, d]"),
        wide("%v[b, j, e]"),
    );
    let result = match dtype {
        "f32" => "o[e] / z".to_owned(),
        _ => format!("{dtype}(o[e] / z)"),
    };
    format!(
        "kernel @attention(%q: in {dtype}[B, M, {size}], %k: in {dtype}[B, N, {size}], %m: in f32[M, N], %v: in {dtype}[B, N, {size}], %y: out {dtype}[B, M, {size}]) {{
           outer b < B, i < M
           p[j < N] = reduce add[d < {size}] {query} * {key}
           s[j < N] = p[j] * 0.125 + %m[i, j]
           t = reduce max[j < N] s[j]
           z = reduce add[j < N] exp(s[j] - t)
           o[e < {size}] = reduce add[j < N] exp(s[j] - t) * {value}
           store %y[b, i, e < {size}] = {result}
         }}"
    )
}

const SCAN: &str = "kernel @cumsum(%x: in f32[M, N], %y: out f32[M, N]) {
  outer m < M
  carry i < N {
    s init 0.0 = prev(s) + %x[m, i]
    store %y[m, i] = s
  }
}";

#[test]
fn every_schedule_compiles_within_a_budget_of_spills() {
    let Some(compiler) = compiler() else { return };
    let heads = [
        ("f32", 64),
        ("f32", 128),
        ("bf16", 64),
        ("f16", 128),
        ("bf16", 256),
    ];
    let heads = heads.map(|(dtype, size)| attention(dtype, size));
    let texts = [
        MAP, SOFTMAX, PRODUCT, SINGLE, DOUBLE, LONG, BYTES, WINDOW, PIXELS,
    ];
    let texts = texts.map(str::to_owned);
    for text in texts.iter().chain(&heads) {
        let kernel = kernel(text);
        for arch in ARCHS {
            for candidate in compiler.schedules(&kernel, &arch.target()) {
                let schedule = &candidate.schedule;
                let report = compiler.report(&kernel, arch, schedule).unwrap();
                let lines: Vec<&str> = report
                    .lines()
                    .filter(|line| line.contains("stack frame"))
                    .collect();
                assert!(!lines.is_empty(), "{report}");
                for line in lines {
                    let numbers = line.split_whitespace().filter_map(|word| word.parse().ok());
                    let numbers: Vec<u32> = numbers.collect();
                    let worst = numbers.iter().copied().max().unwrap();
                    // Calls of a division's slow path may spill a few words; the largest tile spills some outside its
                    // loop, which has its own test.
                    let budget = match schedule.name.as_str() {
                        "contraction" => 512,
                        _ => 64,
                    };
                    assert!(
                        numbers.len() == 3 && worst <= budget,
                        "{arch} {schedule} `{}`: {report}",
                        schedule.text
                    );
                }
            }
        }
    }
}

/// A product by groups of warps: the assembler makes their instructions wait for each other, with a warning, if it cannot prove
/// that nothing else touches their sums.
#[test]
fn products_by_groups_of_warps_stay_asynchronous() {
    let Some(compiler) = compiler() else { return };
    let kernel = kernel(PRODUCT);
    let by_groups = |arch: CudaArch| {
        let schedules = compiler.schedules(&kernel, &arch.target()).into_iter();
        let mut schedules = schedules.map(|candidate| candidate.schedule);
        schedules.find(|schedule| schedule.text.contains("groups"))
    };
    let schedule = by_groups(CudaArch::Sm90a).unwrap();
    let report = compiler
        .report(&kernel, CudaArch::Sm90a, &schedule)
        .unwrap();
    assert!(!report.contains("serialized"), "{report}");
    if let Some(found) = instructions(&compiler, PRODUCT, CudaArch::Sm90a) {
        let waits = ["HGMMA.64x128x16.F32.BF16", "WARPGROUP.DEPBAR.LE gsb0, 0x1"];
        assert!(waits.iter().all(|wanted| found.contains(wanted)), "{found}");
    }
    for arch in [CudaArch::Sm80, CudaArch::Sm100] {
        assert_eq!(by_groups(arch), None);
        let error = compiler.report(&kernel, arch, &schedule).unwrap_err();
        assert_eq!(error.code(), "E0552", "{error}");
    }
}

/// Every schedule of the kernels in testkit's files, for the architectures in turn.
#[test]
fn kernels_of_files_compile() {
    let Some(compiler) = compiler() else { return };
    let step = match std::env::var_os("KILN_TEST_ALL") {
        Some(_) => 1,
        None => 40,
    };
    let mut jobs = Vec::new();
    for (number, (path, text)) in kernel_files().into_iter().step_by(step).enumerate() {
        let kernel = kernel(&text);
        for (turn, arch) in (number..).zip(ARCHS) {
            let candidates = compiler.schedules(&kernel, &arch.target()).into_iter();
            for candidate in candidates.skip(turn % ARCHS.len()).step_by(ARCHS.len()) {
                jobs.push((path.clone(), kernel.clone(), arch, candidate.schedule));
            }
        }
    }
    let next = AtomicUsize::new(0);
    let failures = Mutex::new(Vec::new());
    std::thread::scope(|threads| {
        for _ in 0..2 {
            threads.spawn(|| {
                while let Some((path, kernel, arch, schedule)) =
                    jobs.get(next.fetch_add(1, Ordering::Relaxed))
                {
                    if let Err(why) = compiler.report(kernel, *arch, schedule) {
                        let failure = format!("{path}, {arch}, `{}`: {why}", schedule.text);
                        failures.lock().unwrap().push(failure);
                    }
                }
            });
        }
    });
    let failures = failures.into_inner().unwrap();
    println!("{} schedules compiled", jobs.len());
    assert!(failures.is_empty(), "{}", failures.join("\n\n"));
}

#[test]
fn artifacts_have_an_entry_per_phase() {
    let Some(compiler) = compiler() else { return };
    let kernel = kernel(SOFTMAX);
    let target = CudaArch::Sm90a.target();
    for candidate in compiler.schedules(&kernel, &target) {
        let artifact = compiler
            .compile(&kernel, &target, &candidate.schedule, &mut Unobserved)
            .unwrap();
        let code = DeviceCode::from_bytes(&artifact.code).unwrap();
        assert_eq!(code.arch, "sm_90a");
        assert!(code.cubin.starts_with(b"\x7fELF"));
        assert_eq!(code.entries.len(), artifact.phases.len());
        for (entry, phase) in code.entries.iter().zip(&artifact.phases) {
            let Entry::Function { name, threads } = entry else {
                panic!("{entry:?}")
            };
            assert_eq!((name, *threads), (&phase.entry, phase.block));
        }
    }
    let again = compiler.compile(
        &kernel,
        &target,
        &compiler.schedules(&kernel, &target)[0].schedule,
        &mut Unobserved,
    );
    let first = compiler.compile(
        &kernel,
        &target,
        &compiler.schedules(&kernel, &target)[0].schedule,
        &mut Unobserved,
    );
    assert_eq!(
        again.unwrap().code,
        first.unwrap().code,
        "equal sources have equal code"
    );
}

#[test]
fn cancelled_compiles_end_with_the_code_of_cancellation() {
    struct Cancelled;
    impl CompileObserver for Cancelled {
        fn begin(&mut self, _phase: CompilePhase) {}
        fn end(&mut self, _phase: CompilePhase) {}
        fn is_cancelled(&self) -> bool {
            true
        }
    }
    let Some(compiler) = compiler() else { return };
    let kernel = kernel(PRODUCT);
    let target = CudaArch::Sm80.target();
    let schedule = &compiler.schedules(&kernel, &target)[0].schedule;
    let error = compiler
        .compile(&kernel, &target, schedule, &mut Cancelled)
        .unwrap_err();
    assert_eq!(error.code, kiln_backend::CompileError::CANCELLED);
}

/// The instructions of a kernel's best schedule, if there is a disassembler.
fn instructions(compiler: &CudaCompiler, text: &str, arch: CudaArch) -> Option<String> {
    let tool = std::env::var_os("KILN_NVDISASM")?;
    let (kernel, target) = (kernel(text), arch.target());
    let schedule = &compiler.schedules(&kernel, &target)[0].schedule;
    let artifact = compiler
        .compile(&kernel, &target, schedule, &mut Unobserved)
        .unwrap();
    let code = DeviceCode::from_bytes(&artifact.code).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("kernel.cubin");
    std::fs::write(&file, &code.cubin).unwrap();
    let output = Command::new(tool).arg("-c").arg(&file).output().unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    Some(String::from_utf8_lossy(&output.stdout).into_owned())
}

#[test]
fn machine_code_has_the_intended_instructions() {
    let Some(compiler) = compiler() else { return };
    let (half, single) = (attention("bf16", 64), attention("f32", 64));
    for arch in ARCHS {
        for (text, wanted) in [
            (
                half.as_str(),
                &["HMMA.16816.F32.BF16", "LDSM.16.MT88", "LDGSTS.E.BYPASS.128"][..],
            ),
            (single.as_str(), &["FFMA", "LDS.128", "LDG.E.128"]),
            (MAP, &["LDG.E.128", "STG.E.128"]),
            (SOFTMAX, &["LDG.E.128", "STG.E.128", "SHFL"]),
            (PRODUCT, &["HMMA.16816.F32.BF16", "LDSM.16.M", "LDG.E.128"]),
            (
                WINDOW,
                &["HMMA.16816.F32.BF16", "LDSM.16.M", "LDGSTS.E.BYPASS.128"],
            ),
            (
                PIXELS,
                &["HMMA.16816.F32.BF16", "LDSM.16.M", "LDGSTS.E.BYPASS.128"],
            ),
            (SINGLE, &["FFMA", "LDS.128", "LDG.E.128"]),
            (DOUBLE, &["DFMA", "LDS.128", "LDG.E.128"]),
            (BYTES, &["IDP.4A.S8.S8", "LDS.128"]),
        ] {
            let Some(found) = instructions(&compiler, text, arch) else {
                println!("skipped: no machine code is checked, since KILN_NVDISASM is not set");
                return;
            };
            for instruction in wanted {
                assert!(
                    found.contains(instruction),
                    "{arch}: no {instruction} in\n{found}"
                );
            }
            // Between the first and the last multiplication, nothing is spilled to memory.
            for function in found.split(".type").skip(1) {
                let lines: Vec<&str> = function.lines().collect();
                let multiplies = |line: &&str| {
                    ["HMMA", "HGMMA", "FFMA", "DFMA", "IDP"]
                        .iter()
                        .any(|word| line.contains(word))
                };
                let is_product = text != MAP && text != SOFTMAX;
                let (Some(first), Some(last), true) = (
                    lines.iter().position(multiplies),
                    lines.iter().rposition(multiplies),
                    is_product,
                ) else {
                    continue;
                };
                for line in &lines[first..last] {
                    let is_local = line.contains(" LDL") || line.contains(" STL");
                    assert!(!is_local, "{arch}: {line}");
                }
            }
        }
    }
}

#[test]
fn scans_compile_with_the_fallback() {
    let Some(compiler) = compiler() else { return };
    let kernel = kernel(SCAN);
    for arch in ARCHS {
        let schedules = compiler.schedules(&kernel, &arch.target());
        let last = schedules.last().unwrap();
        assert!(last.schedule.is_fallback());
        compiler.report(&kernel, arch, &last.schedule).unwrap();
    }
}
