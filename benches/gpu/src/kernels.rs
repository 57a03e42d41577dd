//! Kernels against their evaluator: every schedule, on operands with guards around them.
#![allow(unsafe_code, reason = "launches on memory of their own")]

use crate::case::{self, Case};
use crate::image::{GUARD, Image};
use anyhow::{Error, anyhow, bail};
use kiln::internals::backend::{
    Artifact, KernelCompiler, KernelExecutor, Launch, LaunchContext, LoadedKernel, MemorySlice,
    Unobserved,
};
use kiln::internals::codegen_cuda::{CudaCompiler, CudaExecutor, arch_of};
use kiln::internals::kernel::{self, EvaluateError, Role, VerifiedKernel};
use kiln::internals::scalar::Mode;
use kiln::internals::tensor::{DType, Tensor};
use serde::Serialize;
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Threads that compile.
const COMPILE_THREADS: usize = 12;

/// The allowed multiple of the error of the declared types.
const TIMES: f64 = 8.0;

/// A result.
#[derive(Serialize)]
struct Line<'a> {
    kernel: &'a str,
    schedule: &'a str,
    launches: usize,
    faults: usize,
    wrong: Vec<String>,
}

/// A kernel with its cases.
struct Group<'a> {
    kernel: VerifiedKernel,
    cases: Vec<&'a Case>,
    /// Its code by schedule.
    code: Vec<(String, Result<Artifact, String>)>,
}

/// Checks the cases of a file whose names contain a word.
pub(crate) fn run(file: &str, word: &str) -> Result<(), Error> {
    let cases = case::read(file)?;
    let device = CudaExecutor::open(0)?;
    let compiler = CudaCompiler::new(arch_of(device.info())?)?;
    let mut by_text: BTreeMap<&str, Vec<&Case>> = BTreeMap::new();
    for case in cases.iter().filter(|case| case.name.contains(word)) {
        by_text.entry(&case.text).or_default().push(case);
    }
    let groups = compile(&compiler, by_text)?;
    let (mut launches, mut wrong) = (0, 0);
    for group in &groups {
        let name = group.cases.first().map_or("", |case| &case.name);
        for (schedule, artifact) in &group.code {
            let mut line = Line {
                kernel: name,
                schedule,
                launches: 0,
                faults: 0,
                wrong: Vec::new(),
            };
            check(&device, group, artifact, &mut line);
            launches += line.launches;
            wrong += usize::from(!line.wrong.is_empty());
            if !line.wrong.is_empty() {
                println!("{}", serde_json::to_string(&line)?);
            }
            if !device.is_healthy() {
                bail!("{name} with {schedule} lost the device");
            }
        }
    }
    let pairs: usize = groups.iter().map(|group| group.code.len()).sum();
    println!(
        "kernels: {} kernels, {pairs} with a schedule, {launches} launches, {wrong} wrong",
        groups.len()
    );
    Ok(())
}

/// Compiles every schedule of every kernel, on several threads.
fn compile<'a>(
    compiler: &CudaCompiler,
    by_text: BTreeMap<&'a str, Vec<&'a Case>>,
) -> Result<Vec<Group<'a>>, Error> {
    let mut groups = Vec::new();
    for (text, cases) in by_text {
        let read = kernel::text::read(text).map_err(|errors| anyhow!("{}", errors.render(text)))?;
        let kernel = kernel::verify(read).map_err(|errors| anyhow!("{errors}"))?;
        groups.push(Mutex::new(Group {
            kernel,
            cases,
            code: Vec::new(),
        }));
    }
    let next = AtomicUsize::new(0);
    std::thread::scope(|threads| {
        for _ in 0..COMPILE_THREADS {
            threads.spawn(|| {
                while let Some(group) = groups.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let Ok(mut group) = group.lock() else {
                        return;
                    };
                    group.code = code(compiler, &group.kernel);
                }
            });
        }
    });
    let groups = groups.into_iter().map(|group| group.into_inner());
    groups
        .map(|group| group.map_err(|_| anyhow!("a compile panicked")))
        .collect()
}

fn code(
    compiler: &CudaCompiler,
    kernel: &VerifiedKernel,
) -> Vec<(String, Result<Artifact, String>)> {
    let target = compiler.host();
    let schedules = compiler.schedules(kernel, &target).into_iter();
    schedules
        .map(|candidate| {
            let schedule = candidate.schedule;
            let made = compiler.compile(kernel, &target, &schedule, &mut Unobserved);
            let name = format!("{} {}", schedule.name, schedule.text.trim());
            (name, made.map_err(|error| error.to_string()))
        })
        .collect()
}

fn check(
    device: &CudaExecutor,
    group: &Group<'_>,
    artifact: &Result<Artifact, String>,
    line: &mut Line<'_>,
) {
    let artifact = match artifact {
        Ok(artifact) => artifact,
        Err(error) => {
            line.wrong.push(error.chars().take(600).collect());
            return;
        }
    };
    let loaded = match device.load(artifact) {
        Ok(loaded) => loaded,
        Err(error) => {
            line.wrong.push(error.to_string());
            return;
        }
    };
    for case in &group.cases {
        line.launches += 1;
        match check_case(device, &group.kernel, (artifact, &loaded), case) {
            Ok(is_fault) => line.faults += usize::from(is_fault),
            Err(error) if line.wrong.len() < 3 => {
                line.wrong.push(format!("{:?}: {error}", case.symbols));
            }
            Err(_) => {}
        }
    }
}

/// Compares one launch; returns whether it faulted, as it should have.
fn check_case(
    device: &CudaExecutor,
    kernel: &VerifiedKernel,
    (artifact, loaded): (&Artifact, &LoadedKernel),
    case: &Case,
) -> Result<bool, Error> {
    let tensors = case.tensors()?;
    let context = LaunchContext {
        symbols: &case.symbols,
        threads: device.parallelism(),
        caches: device.caches(),
    };
    let numbers = artifact.numbers(&context)?;
    let form = kernel.kernel();
    let mut images = Vec::new();
    for ((buffer, tensor), &bytes) in form.buffers().values().zip(&tensors).zip(numbers.bytes()) {
        images.push(Image::of(form, buffer, &case.symbols, tensor, bytes)?);
    }
    let mut memories = Vec::new();
    for image in &images {
        memories.push(device.upload(&Tensor::from_slice(&[image.bytes.len()], &image.bytes)?)?);
    }
    let buffers: Vec<MemorySlice<'_>> = memories
        .iter()
        .map(|memory| MemorySlice {
            memory,
            offset: GUARD,
            bytes: memory.bytes() - 2 * GUARD,
        })
        .collect();
    let launch = Launch {
        buffers: &buffers,
        numbers: &numbers,
    };
    let mut run = device.begin();
    // SAFETY: the memories are this launch's own.
    unsafe { run.launch(loaded, &launch)? };
    let fault = run.finish()?;
    let meaning = evaluate(form, &case.symbols, &tensors)?;
    let Some([promoted, declared]) = meaning else {
        return match fault {
            Some(_) => Ok(true),
            None => Err(anyhow!("expected a fault, found none")),
        };
    };
    if let Some(fault) = fault {
        bail!("expected no fault, found {fault:?}");
    }
    let written = form.buffers().values().enumerate();
    for (position, buffer) in written.filter(|(_, buffer)| buffer.role.is_written()) {
        let bytes = memories[position].bytes();
        let found = device.download(&memories[position], 0, DType::U8, &[bytes])?;
        let found = images[position].read(&tensors[position], found.as_bytes()?)?;
        compare(&promoted[position], &declared[position], &found)
            .map_err(|error| anyhow!("%{}: {error}", buffer.name))?;
    }
    Ok(false)
}

/// The kernel's results in `f64` and in the declared types; `None` if it faults.
fn evaluate(
    form: &kernel::Kernel,
    symbols: &[i64],
    tensors: &[Tensor],
) -> Result<Option<[Vec<Tensor>; 2]>, Error> {
    let mut results = Vec::new();
    for mode in [Mode::Promoted, Mode::Declared] {
        let mut buffers = Vec::new();
        for (buffer, tensor) in form.buffers().values().zip(tensors) {
            let zeros = || Tensor::zeros(tensor.dtype(), tensor.shape());
            let tensor = match buffer.role {
                Role::Out => zeros()?,
                _ => tensor.clone().copied()?,
            };
            let is_wider = mode.stored(tensor.dtype()) != tensor.dtype();
            buffers.push(match is_wider {
                true => Tensor::from_vec(tensor.shape(), tensor.to_f64_vec()?)?,
                false => tensor,
            });
        }
        match kernel::evaluate(form, symbols, &mut buffers, mode) {
            Ok(()) => results.push(buffers),
            Err(EvaluateError::IndexOutOfRange { .. }) => return Ok(None),
            Err(error) if error.is_fault() => return Ok(None),
            Err(error) => return Err(anyhow!("{error}")),
        }
    }
    Ok(<[Vec<Tensor>; 2]>::try_from(results).ok())
}

/// Whether a result is explained by its value in `f64`, and that in the declared type.
fn compare(promoted: &Tensor, declared: &Tensor, found: &Tensor) -> Result<(), Error> {
    let dtype = found.dtype();
    let [exact, rounded, found] = [promoted, declared, found].map(Tensor::to_f64_vec);
    let (exact, rounded, found) = (exact?, rounded?, found?);
    let epsilon = match dtype {
        DType::F64 => 1e-12,
        DType::F32 => 2e-6,
        DType::F16 => 2e-3,
        DType::BF16 => 1.6e-2,
        _ => 0.0,
    };
    let finite = |x: &&f64| x.is_finite();
    let largest = exact
        .iter()
        .filter(finite)
        .fold(1.0, |a: f64, x| a.max(x.abs()));
    let errors = exact.iter().zip(&rounded).map(|(a, b)| (a - b).abs());
    let worst = errors.filter(|x| x.is_finite()).fold(0.0, f64::max);
    let allowed = TIMES * worst + epsilon * largest;
    let is_same = |a: f64, b: f64| a == b || (a.is_nan() && b.is_nan());
    for (index, &x) in found.iter().enumerate() {
        let (a, b) = (exact[index], rounded[index]);
        let is_near = epsilon > 0.0 && (x - a).abs() <= allowed;
        if !(is_near || is_same(x, b) || is_same(x, a)) {
            bail!("element {index}: expected {a} ({b} in {dtype}), found {x}");
        }
    }
    Ok(())
}
