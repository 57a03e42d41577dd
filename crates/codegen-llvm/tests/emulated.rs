//! Code for AArch64 computes the same as the evaluator, run by an emulator if one is installed.
//!
//! Objects are linked with a small C program (`emulated/driver.c`), which reads sizes and operands from standard input.
//! On a machine without `aarch64-linux-gnu-gcc` or `qemu-aarch64` the test prints a message and runs nothing (on
//! Debian: `apt-get install qemu-user gcc-aarch64-linux-gnu libc6-dev-arm64-cross`).

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "a test that cannot continue panics"
)]

mod support;

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;

use kiln_backend::{
    Artifact, FALLBACK_SCHEDULE, Fault, FaultCause, IsaLevel, KernelCompiler, LaunchContext,
    Listing, Schedule, Unobserved,
};
use kiln_codegen_llvm::LlvmCompiler;
use kiln_kernel::{Role, VerifiedKernel};
use kiln_tensor::{DType, Tensor};
use kiln_testkit::cases::topic;
use kiln_testkit::kernels::{Checked, Elements, Meaning, covering_sizes, kernel_tensors};
use kiln_testkit::random::SplitMix64;
use support::{SMOOTH, kernel};

const CROSS_COMPILER: &str = "aarch64-linux-gnu-gcc";

/// Maximum points of a call.
const WORK: f64 = 20_000.0;

/// Products with packed weights, windows, rows with functions, conversions: kernels that use registers, masks and tails.
const KERNELS: [&str; 6] = [
    "kernel @map(%x: in f32[N], %y: in f32[N], %z: out f32[N]) {
       outer n < N
       store %z[n] = tanh(%x[n]) * exp(%y[n]) + sin(%x[n])
     }",
    "kernel @softmax(%x: in f32[B, R], %y: out f32[B, R]) {
       outer b < B
       m = reduce max[r < R] %x[b, r]
       s = reduce add[r < R] exp(%x[b, r] - m)
       store %y[b, r < R] = exp(%x[b, r] - m) / s
     }",
    "kernel @product(%x: in f32[M, K], %w: in f32[K, N], %y: out f32[M, N]) {
       outer m < M, n < N
       acc = reduce add[k < K] %x[m, k] * %w[k, n]
       store %y[m, n] = acc
     }",
    "kernel @dense(%x: in f32[M, 48], %w: const f32[48, 40], %b: const f32[40], %y: out f32[M, 40]) {
       outer m < M, n < 40
       acc = reduce add[k < 48] %x[m, k] * %w[k, n]
       store %y[m, n] = max(acc + %b[n], 0)
     }",
    "kernel @conv(%x: in f32[H + 2, W + 2, 5], %w: const f32[3, 3, 5, 24], %y: out f32[H, W, 24]) {
       outer i < H, j < W, c < 24
       acc = reduce add[u < 3, v < 3, d < 5] %x[i + u, j + v, d] * %w[u, v, d, c]
       store %y[i, j, c] = acc
     }",
    "kernel @halves(%x: in f16[N], %y: out f32[N]) {
       outer n < N
       store %y[n] = f32(%x[n]) * 2
     }",
];

/// Products of bytes and of bf16, which a level may sum several at a time; with each pair of signs, and steps that are not
/// a multiple of a group.
const NARROW: [&str; 5] = [
    "kernel @bytes(%x: in u8[M, 48], %w: const i8[48, 40], %y: out i32[M, 40]) {
       outer m < M, n < 40
       acc = reduce add[k < 48] i32(%x[m, k]) * i32(%w[k, n])
       store %y[m, n] = acc
     }",
    "kernel @signed(%x: in i8[M, K], %w: in i8[K, N], %y: out i32[M, N]) {
       outer m < M, n < N
       acc = reduce add[k < K] i32(%x[m, k]) * i32(%w[k, n])
       store %y[m, n] = acc
     }",
    "kernel @unsigned(%x: in u8[M, K], %w: in u8[K, N], %y: out i32[M, N]) {
       outer m < M, n < N
       acc = reduce add[k < K] i32(%x[m, k]) * i32(%w[k, n])
       store %y[m, n] = acc
     }",
    "kernel @bf16(%x: in bf16[M, 48], %w: const bf16[48, 40], %y: out f32[M, 40]) {
       outer m < M, n < 40
       acc = reduce add[k < 48] f32(%x[m, k]) * f32(%w[k, n])
       store %y[m, n] = acc
     }",
    "kernel @bf16_inputs(%x: in bf16[M, K], %w: in bf16[K, N], %y: out f32[M, N]) {
       outer m < M, n < N
       acc = reduce add[k < K] f32(%x[m, k]) * f32(%w[k, n])
       store %y[m, n] = acc
     }",
];

/// Indices that are data, some out of bounds.
const PICK: &str = "kernel @pick(%x: in f32[3], %i: in i64[M], %y: out f32[M]) {
   outer m < M
   store %y[m] = %x[%i[m]]
 }";

/// The emulator, if it and the cross compiler are installed.
fn emulator() -> Option<&'static str> {
    let is_there = |program: &&str| {
        let asked = Command::new(program)
            .arg("--version")
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status();
        asked.is_ok_and(|status| status.success())
    };
    let emulators = ["qemu-aarch64", "qemu-aarch64-static"];
    let emulator = emulators.into_iter().find(is_there);
    emulator.filter(|_| is_there(&CROSS_COMPILER))
}

/// A program that launches a kernel.
struct Program {
    emulator: &'static str,
    path: PathBuf,
}

impl Program {
    /// Links the code of an artifact with the driver.
    fn link(emulator: &'static str, artifact: &Artifact, folder: &Path) -> Self {
        fs::create_dir_all(folder).unwrap();
        let (object, path) = (folder.join("kernel.o"), folder.join("program"));
        fs::write(&object, &artifact.code).unwrap();
        let entries = artifact.phases.iter().map(|phase| phase.entry.as_str());
        let declared = entries
            .enumerate()
            .map(|(number, entry)| format!("extern phase phase_{number} __asm__(\"{entry}\");\n"));
        let names: Vec<String> = (0..artifact.phases.len())
            .map(|number| format!("phase_{number}"))
            .collect();
        let header = format!(
            "{}static phase *const phases[] = {{{}}};\n",
            declared.collect::<String>(),
            names.join(", ")
        );
        fs::write(folder.join("phases.h"), header).unwrap();
        let driver = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/emulated/driver.c");
        let linked = Command::new(CROSS_COMPILER)
            .args(["-std=c11", "-Wall", "-Werror", "-O1", "-static", "-I"])
            .arg(folder)
            .arg(driver)
            .arg(&object)
            .arg("-o")
            .arg(&path)
            .output()
            .unwrap();
        let problem = String::from_utf8_lossy(&linked.stderr);
        assert!(linked.status.success(), "{}: {problem}", artifact.kernel);
        Self { emulator, path }
    }

    /// Runs it on an input; returns its output.
    fn run(&self, input: Vec<u8>) -> Vec<u8> {
        let mut child = Command::new(self.emulator)
            .arg(&self.path)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stdin = child.stdin.take().unwrap();
        let writing = thread::spawn(move || stdin.write_all(&input));
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{}", output.status);
        writing.join().unwrap().unwrap();
        output.stdout
    }
}

/// A call in the driver's format, with the initial contents of its operands.
struct Call<'a> {
    symbols: &'a [i64],
    tensors: Vec<Tensor>,
    operands: Vec<Vec<u8>>,
    input: Vec<u8>,
}

impl<'a> Call<'a> {
    fn new(
        kernel: &VerifiedKernel,
        artifact: &Artifact,
        symbols: &'a [i64],
        tensors: Vec<Tensor>,
    ) -> Self {
        let context = LaunchContext {
            symbols,
            threads: 3,
            caches: [32 << 10, 512 << 10, 0],
        };
        let numbers = artifact.numbers(&context).unwrap();
        let mut input = Vec::new();
        let mut operands = Vec::new();
        word(&mut input, numbers.bytes().len());
        for (position, (buffer, tensor)) in kernel.buffers().values().zip(&tensors).enumerate() {
            let pack = artifact.packs.iter().find(|pack| pack.buffer == position);
            let (bytes, shift) = match pack {
                Some(pack) => (pack.apply(tensor).unwrap().as_bytes().unwrap().to_vec(), 0),
                None if buffer.role == Role::Out && buffer.dtype != DType::Bool => {
                    (vec![0xa5; tensor.byte_len()], buffer.dtype.size_in_bytes())
                }
                None => {
                    let bytes = tensor.as_bytes().unwrap().to_vec();
                    (bytes, buffer.dtype.size_in_bytes())
                }
            };
            assert!(bytes.len() >= numbers.bytes()[position], "%{}", buffer.name);
            word(&mut input, bytes.len());
            word(&mut input, shift);
            input.extend_from_slice(&bytes);
            operands.push(bytes);
        }
        word(&mut input, numbers.arguments().len());
        for argument in numbers.arguments() {
            input.extend_from_slice(&argument.to_le_bytes());
        }
        word(&mut input, numbers.shared_scratch());
        for phase in numbers.phases() {
            word(&mut input, usize::try_from(phase.tasks).unwrap());
            word(&mut input, phase.scratch);
        }
        Self {
            symbols,
            tensors,
            operands,
            input,
        }
    }

    /// Takes the results of this call from the front of an output.
    fn read(&self, kernel: &VerifiedKernel, output: &mut &[u8]) -> (Vec<Tensor>, Option<Fault>) {
        let mut take = |bytes: usize| {
            let (first, rest) = output.split_at(bytes);
            *output = rest;
            first
        };
        let reported = u64::from_le_bytes(take(8).try_into().unwrap());
        let cause = match reported & 0xff {
            0 => None,
            1 => Some(FaultCause::IndexOutOfRange),
            2 => Some(FaultCause::DivisionByZero),
            other => panic!("expected a cause of a fault, found {other}"),
        };
        let fault = cause.map(|cause| Fault {
            launch: 0,
            cause,
            site: (reported >> 8) as usize,
        });
        let mut written = Vec::new();
        let buffers = kernel.buffers().values().zip(&self.tensors);
        for ((buffer, tensor), before) in buffers.zip(&self.operands) {
            let after = take(before.len());
            if buffer.role.is_written() {
                let found = Tensor::from_bytes(buffer.dtype, tensor.shape(), after);
                written.push(found.unwrap());
            } else {
                assert!(after == before, "%{} was written", buffer.name);
            }
        }
        (written, fault)
    }
}

fn word(to: &mut Vec<u8>, number: usize) {
    to.extend_from_slice(&(number as u64).to_le_bytes());
}

/// Compares a kernel, compiled with the best schedule and with the fallback, with the evaluator; returns how many calls
/// agreed, and how many faulted.
fn check(
    (emulator, folder): (&'static str, &Path),
    level: IsaLevel,
    text: &str,
    elements: Elements,
) -> (usize, usize) {
    let kernel = kernel(text);
    let (compiler, target) = (LlvmCompiler::new(), LlvmCompiler::target(level));
    let best = compiler.schedules(&kernel, &target).remove(0).schedule;
    let mut schedules = vec![best, Schedule::new(FALLBACK_SCHEDULE)];
    schedules.dedup();
    let sizes = covering_sizes(&kernel, WORK);
    let mut tally = (0, 0);
    for schedule in schedules {
        let artifact = compiler
            .compile(&kernel, &target, &schedule, &mut Unobserved)
            .unwrap();
        let program = Program::link(emulator, &artifact, folder);
        let calls = (1..).zip(&sizes).filter_map(|(seed, symbols)| {
            let mut random = SplitMix64::new(seed);
            let tensors = kernel_tensors(&mut random, &kernel, symbols, elements).unwrap()?;
            Some(Call::new(&kernel, &artifact, symbols, tensors))
        });
        let calls: Vec<Call<'_>> = calls.collect();
        let input = calls.iter().flat_map(|call| call.input.iter().copied());
        let output = program.run(input.collect());
        let mut rest = output.as_slice();
        for call in &calls {
            let (found, fault) = call.read(&kernel, &mut rest);
            let meaning = Meaning::of(&kernel, call.symbols, &call.tensors).unwrap();
            let judged = meaning.judge(&kernel, &artifact, &found, fault);
            match judged {
                Ok(Checked::Agreed) => tally.0 += 1,
                Ok(Checked::Faulted) => tally.1 += 1,
                Err(finding) => panic!("{finding}\nat {:?} of\n{text}", call.symbols),
            }
        }
        assert!(rest.is_empty());
    }
    tally
}

#[test]
fn code_for_aarch64_gives_what_kernels_mean() {
    let Some(emulator) = emulator() else {
        eprintln!("not run: no {CROSS_COMPILER}, or no qemu-aarch64");
        return;
    };
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("emulated");
    let own = KERNELS.map(|text| (text.to_owned(), SMOOTH));
    let cases = topic("smoke").unwrap();
    let smoke = cases.iter().filter(|case| case.is_kernel());
    let all = own
        .into_iter()
        .chain(smoke.map(|case| (case.text(), case.elements())));
    for (text, elements) in all {
        let is_strided = kernel(&text)
            .buffers()
            .values()
            .any(|buffer| buffer.strides.is_some());
        if !is_strided {
            let (agreed, _) = check((emulator, &folder), IsaLevel::Neon, &text, elements);
            assert!(agreed > 0, "{text}");
        }
    }
    let elements = Elements {
        indices: (-1, 4),
        ..SMOOTH
    };
    let (agreed, faulted) = check((emulator, &folder), IsaLevel::Neon, PICK, elements);
    assert!(agreed > 0 && faulted > 0, "{agreed} {faulted}");
}

#[test]
fn narrow_products_for_aarch64_use_its_instructions_and_give_what_kernels_mean() {
    let level = IsaLevel::NeonI8mmBf16;
    for text in NARROW {
        let instruction = match text.contains("bf16[") {
            true => "bfdot",
            false => "usdot",
        };
        let (compiler, target) = (LlvmCompiler::new(), LlvmCompiler::target(level));
        let kernel = kernel(text);
        let schedule = compiler.schedules(&kernel, &target).remove(0).schedule;
        let assembly = compiler
            .listing(&kernel, &target, &schedule, Listing::Assembly)
            .unwrap();
        assert!(assembly.contains(instruction), "{text}\n{assembly}");
    }
    let Some(emulator) = emulator() else {
        eprintln!("not run: no {CROSS_COMPILER}, or no qemu-aarch64");
        return;
    };
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("emulated-narrow");
    for (text, level) in NARROW
        .into_iter()
        .flat_map(|text| [IsaLevel::Neon, level].map(|level| (text, level)))
    {
        let (agreed, _) = check((emulator, &folder), level, text, SMOOTH);
        assert!(agreed > 0, "{text}");
    }
}
