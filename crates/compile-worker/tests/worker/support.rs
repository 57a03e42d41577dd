//! A worker under test: this test program, whose compiler misbehaves on kernels with certain names.

use std::cell::Cell;
use std::path::Path;
use std::time::Duration;

use kiln_backend::{
    Artifact, CompileError, CompileObserver, CompilerWrapper, KernelCompiler, Schedule, Target,
    Unobserved,
};
use kiln_codegen_llvm::{LlvmCompiler, LlvmError};
use kiln_compile_worker::{CompileLimits, WorkerCompiler, WorkerProgram, serve};
use kiln_kernel::{VerifiedKernel, text, verify};

/// LLVM, or a fault instead if the kernel is named after one.
pub(crate) struct Faulty(LlvmCompiler);

impl CompilerWrapper for Faulty {
    type Inner = LlvmCompiler;

    fn inner(&self) -> &LlvmCompiler {
        &self.0
    }

    fn compile(
        &self,
        kernel: &VerifiedKernel,
        target: &Target,
        schedule: &Schedule,
        observer: &mut dyn CompileObserver,
    ) -> Result<Artifact, CompileError> {
        match kernel.name() {
            name if name.starts_with("abort") => std::process::abort(),
            name if name.starts_with("exit") => std::process::exit(0),
            name if name.starts_with("panic") => panic!("a pass that panics"),
            name if name.starts_with("write_to_null") => write_to_null(),
            name if name.starts_with("hang") => loop {
                std::thread::park();
            },
            name if name.starts_with("spin") => loop {
                std::hint::spin_loop();
            },
            name if name.starts_with("eat_memory") => eat_memory(),
            name if name.starts_with("overflow_the_stack") => {
                deeper(0);
            }
            _ => {}
        }
        self.0.compile(kernel, target, schedule, observer)
    }
}

fn write_to_null() {
    // SAFETY: none: the process must end with SIGSEGV, as when LLVM dereferences a null pointer.
    unsafe { std::ptr::without_provenance_mut::<u64>(8).write_volatile(1) };
}

fn eat_memory() {
    let mut eaten: Vec<Vec<u8>> = Vec::new();
    loop {
        let mut part = Vec::with_capacity(16 << 20);
        part.push(1);
        eaten.push(std::hint::black_box(part));
    }
}

#[allow(unconditional_recursion, reason = "it is to overflow the stack")]
fn deeper(depth: u64) -> u64 {
    let frame = std::hint::black_box([depth; 512]);
    deeper(frame[7] + 1) + frame[9]
}

#[test]
#[ignore = "a worker; the other tests run it in a process of its own"]
fn child_worker() {
    let start = std::env::args_os().next_back().expect("an argument");
    let code = serve(&start, || {
        let compiler = Faulty(LlvmCompiler::new());
        // LLVM starts before the first request.
        compile(&compiler, &kernel("prepare")).expect("it compiles");
        compiler
    });
    std::process::exit(i32::from(code != std::process::ExitCode::SUCCESS));
}

/// This program as a worker.
pub(crate) fn program() -> WorkerProgram {
    program_at(&std::env::current_exe().expect("tests are programs"))
}

/// A copy of it.
pub(crate) fn program_at(path: &Path) -> WorkerProgram {
    // SAFETY: the program is this test program or a copy of it.
    unsafe { WorkerProgram::at(path) }
        .expect("this program is there")
        .with_arguments([
            "support::child_worker",
            "--exact",
            "--ignored",
            "--nocapture",
            "--",
        ])
}

pub(crate) fn limits() -> CompileLimits {
    let mut limits = CompileLimits::default();
    limits.wall_clock = Duration::from_secs(60);
    limits.address_space = 2 << 30;
    limits
}

pub(crate) fn compiler(limits: CompileLimits, workers: usize) -> WorkerCompiler {
    compiler_of(program(), limits, workers)
}

pub(crate) fn compiler_of(
    program: WorkerProgram,
    limits: CompileLimits,
    workers: usize,
) -> WorkerCompiler {
    let inner = LlvmCompiler::new();
    WorkerCompiler::new(inner, LlvmError::CODES, program, limits, workers)
        .expect("a thread for the pool")
}

/// A kernel with this name.
pub(crate) fn kernel(name: &str) -> VerifiedKernel {
    let source = format!(
        "kernel @{name}(%x: in f32[N], %y: out f32[N]) {{
           outer i < N
           store %y[i] = %x[i] + %x[i]
         }}"
    );
    verify(text::read(&source).expect("the text of a kernel")).expect("a kernel that is right")
}

pub(crate) fn compile(
    compiler: &dyn KernelCompiler,
    kernel: &VerifiedKernel,
) -> Result<Artifact, CompileError> {
    let target = compiler.host();
    let best = compiler.schedules(kernel, &target).remove(0).schedule;
    compiler.compile(kernel, &target, &best, &mut Unobserved)
}

/// The descriptors of this process.
pub(crate) fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").expect("procfs").count()
}

/// The number of descriptors of this process once its pool is at rest: it has this many workers, and the number of
/// descriptors has not changed for a quarter of a second. Before that, a worker may be starting, and another's pipes
/// may still be open.
pub(crate) fn descriptors_at_rest(workers: usize) -> usize {
    const POLLS: u32 = 50;
    let seen = Cell::new((0, 0));
    until("a pool at rest", || {
        let (before, times) = seen.get();
        let now = descriptors();
        let is_same = children().len() == workers && now == before;
        let times = if is_same { times + 1 } else { 0 };
        seen.set((now, times));
        times >= POLLS
    });
    seen.get().0
}

/// The children of this process, zombies included.
pub(crate) fn children() -> Vec<u32> {
    let mut children = Vec::new();
    for task in std::fs::read_dir("/proc/self/task").expect("procfs") {
        let path = task.expect("a thread").path().join("children");
        // A thread may have ended in the meantime.
        let text = std::fs::read_to_string(path).unwrap_or_default();
        children.extend(
            text.split_whitespace()
                .filter_map(|id| id.parse::<u32>().ok()),
        );
    }
    children
}

/// The resident memory of this process, in bytes.
pub(crate) fn resident() -> usize {
    let statm = std::fs::read_to_string("/proc/self/statm").expect("procfs");
    let pages = statm
        .split(' ')
        .nth(1)
        .and_then(|pages| pages.parse::<usize>().ok());
    pages.expect("a number of pages") * 4096
}

/// Waits until a condition holds; fails if it never does.
pub(crate) fn until(what: &str, is_so: impl Fn() -> bool) {
    for _ in 0..6_000 {
        if is_so() {
            return;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    panic!("never: {what}");
}
