//! Times of kernels and launches: every schedule, on operands that do not fit the caches.
#![allow(unsafe_code, reason = "launches on memory of their own")]

use crate::launches;
use anyhow::{Error, anyhow};
use kiln::internals::backend::{
    Builtin, BuiltinOperand, Execution, KernelCompiler, KernelExecutor, Launch, LaunchContext,
    Memory, MemorySlice, Unobserved,
};
use kiln::internals::codegen_cuda::{CudaCompiler, CudaExecutor, arch_of};
use kiln::internals::kernel;
use kiln::internals::tensor::{DType, Tensor};
use std::time::{Duration, Instant};

/// Rounds of each measurement; the median counts.
const ROUNDS: usize = 5;

/// The minimum duration of a round.
const ROUND: Duration = Duration::from_millis(30);

/// The total size in bytes of the operands that are used in rotation: several times that of the caches.
const ROTATED_BYTES: usize = 512 << 20;

/// A kernel to measure.
struct Subject {
    name: &'static str,
    text: &'static str,
    symbols: &'static [i64],
    /// Multiply-adds, for products.
    products: f64,
}

const SUBJECTS: &[Subject] = &[
    Subject {
        name: "copy f32, 64 M",
        text: "kernel @copy(%x: in f32[N], %y: out f32[N]) {\n  outer i < N\n  store %y[i] = %x[i]\n}",
        symbols: &[1 << 26],
        products: 0.0,
    },
    Subject {
        name: "copy f32, odd size",
        text: "kernel @copy(%x: in f32[N], %y: out f32[N]) {\n  outer i < N\n  store %y[i] = %x[i]\n}",
        symbols: &[(1 << 26) - 1],
        products: 0.0,
    },
    Subject {
        name: "silu f32, 64 M",
        text: "kernel @silu(%x: in f32[N], %y: out f32[N]) {\n  outer i < N\n  store %y[i] = %x[i] / (1.0 + exp(0.0 - %x[i]))\n}",
        symbols: &[1 << 26],
        products: 0.0,
    },
    Subject {
        name: "add f32, 64 M",
        text: "kernel @add(%a: in f32[N], %b: in f32[N], %y: out f32[N]) {\n  outer i < N\n  store %y[i] = %a[i] + %b[i]\n}",
        symbols: &[1 << 26],
        products: 0.0,
    },
    Subject {
        name: "bias + relu f32, 65536 x 1024",
        text: "kernel @bias(%x: in f32[M, N], %b: in f32[N], %y: out f32[M, N]) {\n  outer i < M, j < N\n  store %y[i, j] = max(%x[i, j] + %b[j], 0.0)\n}",
        symbols: &[65536, 1024],
        products: 0.0,
    },
    Subject {
        name: "row sums f32, 65536 x 1024",
        text: "kernel @sums(%x: in f32[M, N], %y: out f32[M]) {\n  outer i < M\n  s = reduce add[j < N] %x[i, j]\n  store %y[i] = s\n}",
        symbols: &[65536, 1024],
        products: 0.0,
    },
    Subject {
        name: "softmax f32, 65536 x 1024",
        text: "kernel @softmax(%x: in f32[M, N], %y: out f32[M, N]) {\n  outer i < M\n  m = reduce max[j < N] %x[i, j]\n  s = reduce add[j < N] exp(%x[i, j] - m)\n  store %y[i, j < N] = exp(%x[i, j] - m) / s\n}",
        symbols: &[65536, 1024],
        products: 0.0,
    },
    Subject {
        name: "product f32, 2048^3",
        text: "kernel @product(%a: in f32[M, K], %b: in f32[K, N], %y: out f32[M, N]) {\n  outer i < M, j < N\n  s = reduce add[k < K] %a[i, k] * %b[k, j]\n  store %y[i, j] = s\n}",
        symbols: &[2048, 2048, 2048],
        products: 2048.0 * 2048.0 * 2048.0,
    },
    Subject {
        name: "product f64, 2048^3",
        text: "kernel @product(%a: in f64[M, K], %b: in f64[K, N], %y: out f64[M, N]) {\n  outer i < M, j < N\n  s = reduce add[k < K] %a[i, k] * %b[k, j]\n  store %y[i, j] = s\n}",
        symbols: &[2048, 2048, 2048],
        products: 2048.0 * 2048.0 * 2048.0,
    },
    Subject {
        name: "product i8, 2048^3",
        text: "kernel @product(%a: in i8[M, K], %b: in i8[N, K], %y: out i32[M, N]) {\n  outer i < M, j < N\n  s = reduce add[k < K] i32(%a[i, k]) * i32(%b[j, k])\n  store %y[i, j] = s\n}",
        symbols: &[2048, 2048, 2048],
        products: 2048.0 * 2048.0 * 2048.0,
    },
    Subject {
        name: "attention f32, 64 heads of 64, 1024 x 1024",
        text: "kernel @attention(%q: in f32[B, M, 64], %k: in f32[B, N, 64], %m: in f32[N], %v: in f32[B, N, 64], %y: out f32[B, M, 64]) {\n  outer b < B, i < M\n  p[j < N] = reduce add[d < 64] %q[b, i, d] * %k[b, j, d]\n  s[j < N] = p[j] * 0.125 + %m[j]\n  t = reduce max[j < N] s[j]\n  w[j < N] = exp(s[j] - t)\n  z = reduce add[j < N] w[j]\n  o[e < 64] = reduce add[j < N] w[j] * %v[b, j, e]\n  store %y[b, i, e < 64] = o[e] / z\n}",
        symbols: &[64, 1024, 1024],
        products: 2.0 * 64.0 * 1024.0 * 1024.0 * 64.0,
    },
    Subject {
        name: "attention bf16, 64 heads of 64, 1024 x 1024",
        text: "kernel @attention(%q: in bf16[B, M, 64], %k: in bf16[B, N, 64], %m: in f32[N], %v: in bf16[B, N, 64], %y: out bf16[B, M, 64]) {\n  outer b < B, i < M\n  p[j < N] = reduce add[d < 64] f32(%q[b, i, d]) * f32(%k[b, j, d])\n  s[j < N] = p[j] * 0.125 + %m[j]\n  t = reduce max[j < N] s[j]\n  w[j < N] = exp(s[j] - t)\n  z = reduce add[j < N] w[j]\n  o[e < 64] = reduce add[j < N] w[j] * f32(%v[b, j, e])\n  store %y[b, i, e < 64] = bf16(o[e] / z)\n}",
        symbols: &[64, 1024, 1024],
        products: 2.0 * 64.0 * 1024.0 * 1024.0 * 64.0,
    },
];

/// Measures everything whose name contains a word.
pub(crate) fn run(word: &str) -> Result<(), Error> {
    let device = CudaExecutor::open(0)?;
    let compiler = CudaCompiler::new(arch_of(device.info())?)?;
    let copied = copy(&device)?;
    report(
        "driver's copy, 1 GiB",
        "",
        copied,
        2.0 * f64::from(1 << 30),
        0.0,
    )?;
    for subject in SUBJECTS
        .iter()
        .filter(|subject| subject.name.contains(word))
    {
        if let Err(error) = measure(&device, &compiler, subject) {
            let line = serde_json::json!({"name": subject.name, "error": format!("{error:#}")});
            println!("{line}");
        }
    }
    transfers(&device)?;
    launches::run(&device, &compiler)
}

/// Prints a measurement.
pub(crate) fn report(
    name: &str,
    schedule: &str,
    seconds: f64,
    bytes: f64,
    products: f64,
) -> Result<(), Error> {
    let line = serde_json::json!({
        "name": name,
        "schedule": schedule,
        "us": (seconds * 1e9).round() / 1e3,
        "gb_per_s": (bytes / seconds / 1e8).round() / 10.0,
        "tflop_per_s": (2.0 * products / seconds / 1e10).round() / 100.0,
    });
    println!("{line}");
    Ok(())
}

/// The median seconds of one of many repetitions of an operation; the repetitions are submitted, and then waited for
/// together.
pub(crate) fn time(
    run: &mut dyn Execution,
    mut enqueue: impl FnMut(&mut dyn Execution, usize) -> Result<(), Error>,
) -> Result<f64, Error> {
    for number in 0..3 {
        enqueue(run, number)?;
    }
    run.finish()?;
    let begin = Instant::now();
    enqueue(run, 0)?;
    run.finish()?;
    let once = begin.elapsed().max(Duration::from_micros(2));
    let count = (ROUND.as_secs_f64() / once.as_secs_f64()).clamp(1.0, 20_000.0) as usize;
    let mut times = Vec::with_capacity(ROUNDS);
    for _ in 0..ROUNDS {
        let begin = Instant::now();
        for number in 0..count {
            enqueue(run, number)?;
        }
        run.finish()?;
        times.push(begin.elapsed().as_secs_f64() / count as f64);
    }
    times.sort_by(f64::total_cmp);
    Ok(times[ROUNDS / 2])
}

pub(crate) fn whole(memory: &Memory) -> MemorySlice<'_> {
    MemorySlice {
        memory,
        offset: 0,
        bytes: memory.bytes(),
    }
}

/// Seconds of a copy of a GiB by the driver.
fn copy(device: &CudaExecutor) -> Result<f64, Error> {
    let [from, to] = [device.alloc(1 << 30)?, device.alloc(1 << 30)?];
    let shape = [1 << 30];
    let operand = BuiltinOperand {
        dtype: DType::U8,
        shape: &shape,
    };
    time(&mut *device.begin(), |run, _| {
        let (from, to) = ([(whole(&from), operand)], [(whole(&to), operand)]);
        // SAFETY: the memories are this run's own.
        Ok(unsafe { run.run_builtin(&Builtin::Copy, &from, &to) }?)
    })
}

/// Numbers other than zeros.
pub(crate) fn filled(device: &CudaExecutor, bytes: usize) -> Result<Memory, Error> {
    let mut state = 1u32;
    let numbers: Vec<f32> = (0..bytes.div_ceil(4))
        .map(|_| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 8) as f32 / 8_388_608.0 - 1.0
        })
        .collect();
    Ok(device.upload(&Tensor::from_vec(&[numbers.len()], numbers)?)?)
}

fn measure(device: &CudaExecutor, compiler: &CudaCompiler, subject: &Subject) -> Result<(), Error> {
    let read = kernel::text::read(subject.text);
    let read = read.map_err(|errors| anyhow!("{}", errors.render(subject.text)))?;
    let kernel = kernel::verify(read).map_err(|errors| anyhow!("{errors}"))?;
    let target = compiler.host();
    for candidate in compiler.schedules(&kernel, &target) {
        let schedule = candidate.schedule;
        let begin = Instant::now();
        let artifact = compiler.compile(&kernel, &target, &schedule, &mut Unobserved)?;
        let compiled = begin.elapsed();
        let loaded = device.load(&artifact)?;
        let numbers = artifact.numbers(&LaunchContext {
            symbols: subject.symbols,
            threads: device.parallelism(),
            caches: device.caches(),
        })?;
        let bytes: usize = numbers.bytes().iter().sum();
        let sets = ROTATED_BYTES.div_ceil(bytes).clamp(1, 8);
        let mut memories = Vec::new();
        for _ in 0..sets {
            let set = numbers.bytes().iter().map(|&bytes| filled(device, bytes));
            memories.push(set.collect::<Result<Vec<_>, _>>()?);
        }
        let seconds = time(&mut *device.begin(), |run, number| {
            let set = &memories[number % sets];
            let buffers: Vec<_> = set.iter().map(whole).collect();
            let launch = Launch {
                buffers: &buffers,
                numbers: &numbers,
            };
            // SAFETY: the memories are this run's own.
            Ok(unsafe { run.launch(&loaded, &launch) }?)
        })?;
        let name = format!("{} {}", schedule.name, schedule.text.trim());
        report(subject.name, &name, seconds, bytes as f64, subject.products)?;
        let line = serde_json::json!({
            "name": subject.name, "schedule": name, "compile_ms": compiled.as_secs_f64() * 1e3,
        });
        println!("{line}");
    }
    Ok(())
}

/// Rates of transfers, from and to memory of the host that is not page-locked.
fn transfers(device: &CudaExecutor) -> Result<(), Error> {
    let bytes = 256 << 20;
    let tensor = Tensor::from_vec(&[bytes / 4], vec![1.5f32; bytes / 4])?;
    let mut times = [f64::MAX; 2];
    for _ in 0..3 {
        let begin = Instant::now();
        let memory = device.upload(&tensor)?;
        // A small download waits for the upload.
        device.download(&memory, 0, DType::F32, &[1])?;
        times[0] = times[0].min(begin.elapsed().as_secs_f64());
        let begin = Instant::now();
        device.download(&memory, 0, DType::F32, &[bytes / 4])?;
        times[1] = times[1].min(begin.elapsed().as_secs_f64());
    }
    report("upload, 256 MiB", "", times[0], bytes as f64, 0.0)?;
    report("download, 256 MiB", "", times[1], bytes as f64, 0.0)
}
