//! Many threads, processes and forks, shapes in any order: every result is correct, and every kernel is compiled once.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test may panic")]

mod support;

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use kiln_backend::{
    Artifact, CompileError, CompileObserver, CompilerWrapper, KernelCompiler, Schedule, Target,
};
use kiln_interpreter::{InterpretOptions, interpret};
use kiln_kernel::VerifiedKernel;
use kiln_kernel_cache::{DiskOptions, DiskTier, LruLimits, Tier};
use kiln_lazy_runtime::{CompilePolicy, CompiledProgram, Runtime, RuntimeOptions};
use support::{FakeCompiler, FakeDevice, Offer, compiled, expect_same, graph, ramp, runtime_with};
use tempfile::TempDir;

const FOLDER: &str = "KILN_TEST_STORM_FOLDER";

const GRAPH: &str = "graph @g(%x: f32[A, B], %w: f32[B, C]) -> (f32[A, C], f32[A], f32[A, B]) {
  %p = matmul %x, %w
  %e = exp %x
  %s = reduce %x {function = sum, axes = [1]}
  return %p, %s, %e
}";

/// Appends a mark to a file for each compile, so that those of all processes can be counted.
struct Marking {
    inner: FakeCompiler,
    marks: PathBuf,
}

impl CompilerWrapper for Marking {
    type Inner = FakeCompiler;

    fn inner(&self) -> &FakeCompiler {
        &self.inner
    }

    fn compile(
        &self,
        kernel: &VerifiedKernel,
        target: &Target,
        schedule: &Schedule,
        observer: &mut dyn CompileObserver,
    ) -> Result<Artifact, CompileError> {
        let marks = fs::OpenOptions::new()
            .append(true)
            .create(true)
            .open(&self.marks);
        marks.unwrap().write_all(b"x").unwrap();
        self.inner.compile(kernel, target, schedule, observer)
    }
}

fn program_in(folder: &Path) -> (Arc<Runtime>, CompiledProgram) {
    let compiler = Marking {
        inner: FakeCompiler::default(),
        marks: folder.join("marks"),
    };
    let disk: Arc<dyn Tier> = Arc::new(DiskTier::at(folder.join("cache"), DiskOptions::default()));
    let runtime = Runtime::new(
        Some(Arc::new(compiler)),
        Arc::new(FakeDevice::default()),
        RuntimeOptions::new(),
    );
    let runtime = Arc::new(runtime.with_tiers(vec![disk]));
    let program = compiled(&runtime, &graph(GRAPH), false);
    (runtime, program)
}

fn n_compiles(folder: &Path) -> u64 {
    fs::metadata(folder.join("marks")).map_or(0, |marks| marks.len())
}

fn check(program: &CompiledProgram, rows: usize) {
    expect_same(program, &graph(GRAPH), &[ramp(&[rows, 3]), ramp(&[3, 2])]);
}

#[test]
#[ignore = "a job for a child"]
fn child_that_joins_the_storm() {
    let Some(folder) = std::env::var_os(FOLDER) else {
        return;
    };
    let (_, program) = program_in(Path::new(&folder));
    thread::scope(|scope| {
        for rows in 0..8 {
            let program = &program;
            scope.spawn(move || check(program, rows));
        }
    });
}

#[test]
fn eight_processes_of_eight_threads_compile_each_kernel_once() {
    let folder = TempDir::new().unwrap();
    let child = || {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command
            .args(["--exact", "child_that_joins_the_storm", "--ignored", "-q"])
            .env(FOLDER, folder.path());
        command.spawn().unwrap()
    };
    let children: Vec<_> = (0..8).map(|_| child()).collect();
    for mut child in children {
        assert!(child.wait().unwrap().success());
    }
    assert_eq!(n_compiles(folder.path()), 3);
    // One more process compiles nothing, and reports where its code came from.
    let (runtime, program) = program_in(folder.path());
    check(&program, 4);
    let stats = runtime.stats();
    assert_eq!((stats.compilations, stats.cache.tier_hits), (0, 3));
    assert_eq!(n_compiles(folder.path()), 3);
}

#[test]
fn a_forked_child_runs_its_parents_kernels_and_compiles_new_ones() {
    let folder = TempDir::new().unwrap();
    let (_runtime, program) = program_in(folder.path());
    check(&program, 2);
    let other = graph(
        "graph @other(%x: f32[A]) -> f32[A] {
      %y = sqrt %x
      return %y
    }",
    );
    let fresh = compiled(program.runtime(), &other, false);
    // SAFETY: the child calls this crate, the allocator, which supports forks, and its own threads; it exits without
    // running any of the parent's code.
    let child = unsafe { libc::fork() };
    if child == 0 {
        // SAFETY: a watchdog, whose signal ends the child.
        unsafe { libc::alarm(20) };
        let x = [ramp(&[5, 3]), ramp(&[3, 2])];
        let known = program.run(&x).is_ok();
        let new = fresh.run(&[ramp(&[4])]).is_ok();
        // SAFETY: ends the child at once.
        unsafe { libc::_exit(i32::from(!known) + 2 * i32::from(!new)) };
    }
    assert!(child > 0, "it forks");
    let mut status = 0;
    // SAFETY: the child is ours, and the status is a local variable.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    assert!(
        libc::WIFEXITED(status),
        "the child hangs or crashes: {status}"
    );
    assert_eq!(libc::WEXITSTATUS(status), 0);
    check(&program, 3);
    // The child's compiled code is stored.
    let before = n_compiles(folder.path());
    fresh.run(&[ramp(&[4])]).unwrap();
    assert_eq!(n_compiles(folder.path()), before);
}

#[test]
fn damaged_and_foreign_entries_are_compiled_again_and_never_wrong() {
    let folder = TempDir::new().unwrap();
    check(&program_in(folder.path()).1, 2);
    let entries = || {
        let files = fs::read_dir(folder.path().join("cache")).unwrap();
        let files = files.map(|file| file.unwrap().path());
        let is_entry = |path: &PathBuf| path.extension().is_some_and(|end| end == "kiln2");
        files.filter(is_entry).collect::<Vec<_>>()
    };
    // One truncated, one with a flipped bit, and one replaced by another entry.
    let [first, second, third] = &entries()[..] else {
        panic!("three kernels")
    };
    let bytes = fs::read(first).unwrap();
    fs::write(first, &bytes[..bytes.len() / 3]).unwrap();
    let mut flipped = fs::read(second).unwrap();
    let last = flipped.len() - 40;
    flipped[last] ^= 8;
    fs::write(second, flipped).unwrap();
    fs::write(third, &bytes).unwrap();
    let (runtime, program) = program_in(folder.path());
    check(&program, 2);
    let stats = runtime.stats();
    assert_eq!(stats.compilations, 3);
    assert_eq!((stats.cache.corrupt, stats.cache.rejected), (2, 1));
}

/// Pseudo-random numbers.
fn next(state: &mut u64) -> usize {
    *state = state
        .wrapping_mul(6_364_136_223_846_793_005)
        .wrapping_add(1_442_695_040_888_963_407);
    (*state >> 33) as usize
}

#[test]
fn every_order_of_shapes_is_right_under_every_policy() {
    // In some calls `A` and `B` are equal, in others one of them is 1: the plan's facts hold in some and fail in
    // others.
    let text = "graph @h(%x: f32[A, K], %y: f32[B, K]) -> (f32[bcast(A, B), K], f32[K]) {
      %s = add %x, %y
      %e = exp %x
      %r = reduce %e {function = sum, axes = [0]}
      return %s, %r
    }";
    let graph = graph(text);
    let options = InterpretOptions::default();
    for policy in [
        CompilePolicy::FirstUse,
        CompilePolicy::Background,
        CompilePolicy::AfterCalls(20),
    ] {
        let compiler = FakeCompiler {
            offer: Offer::MultipleOfFour,
            ..FakeCompiler::default()
        };
        let runtime = runtime_with(compiler, RuntimeOptions::new().with_policy(policy));
        let program = compiled(&runtime, &graph, true);
        let mut state = 17;
        for call in 0..120 {
            // From small to large, from large to small, and in random order.
            let rows = match call / 40 {
                0 => call,
                1 => 80 - call,
                _ => next(&mut state) % 9,
            };
            let other = [rows, 1, rows][next(&mut state) % 3];
            let columns = [0, 1, 4, 7, 8][next(&mut state) % 5];
            let (x, y) = (ramp(&[rows, columns]), ramp(&[other, columns]));
            let inputs = match next(&mut state) % 2 {
                0 => [x, y],
                _ => [y, x],
            };
            if interpret(&graph, &inputs, &options).is_ok() {
                expect_same(&program, &graph, &inputs);
            } else {
                assert!(program.run(&inputs).is_err());
            }
        }
        assert!(runtime.wait_idle(Duration::from_secs(20)));
        let stats = runtime.stats();
        assert!(
            stats.compilations > 0 && stats.other_plans > 0,
            "{policy:?}"
        );
    }
}

#[test]
fn evicted_kernels_and_plans_stay_alive_until_their_calls_end() {
    let (mut options, few) = (RuntimeOptions::new(), std::num::NonZeroUsize::MIN);
    options.cache.memory = LruLimits {
        entries: 1,
        bytes: usize::MAX,
    };
    let options = options.with_launch_plans(few);
    let compiler = FakeCompiler {
        offer: Offer::MultiplesOf(&[3, 2]),
        ..FakeCompiler::default()
    };
    let runtime = runtime_with(compiler, options);
    let programs = [false, true].map(|fuse| compiled(&runtime, &graph(GRAPH), fuse));
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let callers: Vec<_> = (0..6)
            .map(|caller| {
                let programs = &programs;
                scope.spawn(move || {
                    for call in 0..30 {
                        check(&programs[(caller + call) % 2], (caller * 5 + call) % 7);
                    }
                })
            })
            .collect();
        let evictor = scope.spawn(|| {
            while !is_over.load(Ordering::SeqCst) {
                programs[0].clear();
                runtime.clear_cache();
                programs[1].clear();
                runtime.trim_memory(0);
                thread::yield_now();
            }
        });
        let ended: Vec<_> = callers
            .into_iter()
            .map(thread::ScopedJoinHandle::join)
            .collect();
        is_over.store(true, Ordering::SeqCst);
        evictor.join().unwrap();
        assert!(ended.iter().all(Result::is_ok));
    });
    let stats = runtime.stats();
    assert!(
        stats.cache.evicted > 0 && stats.failures == 0,
        "{}",
        stats.to_report()
    );
}
