//! Random models and shapes for a long time: results stay correct, and memory, descriptors and threads do not grow.
//!
//! `KILN_SOAK_MINUTES` sets how long the ignored test runs; `cargo xtask soak` runs it. The other test takes a few
//! seconds.

#![cfg(all(feature = "llvm", target_os = "linux"))]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    reason = "a test may panic, and prints what it measured"
)]

use arbitrary::Unstructured;
use kiln::diagnose::{self, Stage};
use kiln::internals::interpreter::{InterpretLimits, InterpretOptions, interpret};
use kiln::internals::ir::Graph;
use kiln::{
    Cache, Cancellation, CompilePolicy, Compiling, Device, ErrorKind, Inputs, Limits, MemoryLimits,
    Model, Options, Source, Tensor,
};
use kiln_testkit::generate::{Flavor, GraphOptions, input_shapes, input_tensors, random_graph};
use kiln_testkit::oracle::{Tolerance, compare_all};
use kiln_testkit::random::seeded_bytes;
use std::fs;
use std::path::Path;
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// Serialises the tests of this file: each measures the whole process.
static ALONE: Mutex<()> = Mutex::new(());

/// How many models are alive throughout. No two of them share a runtime: their options differ, or they request separate
/// ones.
const KEPT: u64 = 20;

/// The resources of the process.
#[derive(Clone, Copy, Debug)]
struct Sample {
    resident: usize,
    /// Bytes allocated and not freed.
    allocated: usize,
    descriptors: usize,
    threads: Threads,
}

/// Its threads, by purpose.
#[derive(Clone, Copy, Debug, Default)]
struct Threads {
    /// Compile threads of runtimes: created when there is something to compile and all existing ones are busy.
    compile: usize,
    /// Launch threads of runtimes: created with the runtime.
    workers: usize,
    /// Cancellation threads of runtimes: one each, started by the first call that can be cancelled, and ended after a
    /// while without such calls.
    watches: usize,
    others: usize,
}

impl Threads {
    /// The number of threads whose name has this prefix.
    fn named(name: &str) -> usize {
        let names = Self::names();
        names.iter().filter(|given| given.starts_with(name)).count()
    }

    fn names() -> Vec<String> {
        let tasks = fs::read_dir("/proc/self/task").unwrap();
        // A thread that ends meanwhile no longer has a name.
        let name = |task: std::io::Result<fs::DirEntry>| {
            fs::read_to_string(task.unwrap().path().join("comm")).unwrap_or_default()
        };
        tasks.map(name).collect()
    }

    fn count() -> Self {
        let mut threads = Self::default();
        for name in Self::names() {
            match name {
                name if name.starts_with("kiln-compile-") => threads.compile += 1,
                name if name.starts_with("kiln-worker-") => threads.workers += 1,
                name if name.starts_with("kiln-watch") => threads.watches += 1,
                _ => threads.others += 1,
            }
        }
        threads
    }

    /// At most as many as the live runtimes may have: those of the kept models, and that of the last round's model,
    /// whose threads may be about to end. A runtime gets another compile thread when it first has several kernels to
    /// compile at once, which takes the last of them about forty models; from then on the number is constant.
    fn expect_bounded(self) {
        let runtimes = KEPT as usize + 1;
        let each = std::thread::available_parallelism().map_or(1, usize::from);
        assert!(self.compile <= runtimes * each, "{self:?}");
        // Every other runtime is for calls with two threads.
        assert!(self.workers <= runtimes.div_ceil(2), "{self:?}");
        assert!(self.watches <= runtimes, "{self:?}");
    }
}

impl Sample {
    fn take() -> Self {
        // Work that outlives a cancelled call ends soon.
        let begin = Instant::now();
        while Threads::named("kiln-detached") > 0 && begin.elapsed() < Duration::from_secs(60) {
            std::thread::yield_now();
        }
        // Freed memory that the allocator keeps does not count as growth.
        // SAFETY: the function has no preconditions.
        unsafe { libc::malloc_trim(0) };
        let status = fs::read_to_string("/proc/self/status").unwrap();
        let number = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name));
            let digits = line.and_then(|rest| rest.split_whitespace().next());
            digits
                .and_then(|digits| digits.parse::<usize>().ok())
                .unwrap()
        };
        // SAFETY: as above.
        let heap = unsafe { libc::mallinfo2() };
        Self {
            resident: number("VmRSS:") * 1024,
            allocated: heap.uordblks + heap.hblkhd,
            descriptors: fs::read_dir("/proc/self/fd").unwrap().count(),
            threads: Threads::count(),
        }
    }
}

/// The options of a round: policies, limits, stores and separate runtimes rotate.
fn options(round: u64, folder: &Path) -> Options {
    // The limits are so low that all are reached with the first models: later growth is a leak.
    let mut limits = Limits {
        memory: MemoryLimits::new().with_kept_bytes(256 << 10),
        ..Limits::default()
    };
    limits.kernels.entries = 16;
    limits.kernels.bytes = 1 << 20;
    let options = Options::new()
        .device(Device::cpu())
        .threads(1 + (round % 2) as usize)
        .shared_kernels(!round.is_multiple_of(3))
        .limits(limits);
    let options = match round % 4 {
        0 => options,
        1 => options.compiling(CompilePolicy::Background),
        2 => options.compiling(CompilePolicy::AfterCalls(2)),
        _ => options.compiling(Compiling {
            max_block: Some(Duration::from_millis(3)),
            ..CompilePolicy::Background.into()
        }),
    };
    // Small enough that entries are evicted all the time.
    match round % 5 {
        0 => options.cache(Cache::off()),
        _ => options.cache(Cache::folder(folder).max_bytes(1 << 20)),
    }
}

/// Calls of a random model with random shapes; returns how many agreed with the interpreter.
fn round(seed: u64, folder: &Path) -> usize {
    let bytes = seeded_bytes(seed, 4096);
    let mut choices = Unstructured::new(&bytes);
    let kind = GraphOptions {
        max_ops: 8,
        smooth: true,
    };
    let graph = random_graph(&mut choices, &kind).expect("bytes enough");
    let Ok(model) = options(seed, folder).load(Source::graph(graph.clone())) else {
        return 0;
    };
    let names: Vec<String> = model
        .inputs()
        .iter()
        .map(|input| input.name().to_owned())
        .collect();
    let mut agreed = 0;
    for call in 0..5 {
        let Some(shapes) = input_shapes(&mut choices, &graph).expect("bytes enough") else {
            break;
        };
        if shapes.iter().flatten().any(|&size| size > 40) {
            continue;
        }
        let Ok(inputs) = input_tensors(&mut choices, &graph, &shapes, Flavor::Small) else {
            break;
        };
        let named = || names.iter().zip(&inputs).collect::<Inputs<'_>>();
        let cancellation = Cancellation::new();
        if call == 3 {
            cancellation.cancel();
        }
        let found = match call {
            // One call that is cancelled at once, and two concurrent calls.
            3 => {
                let call = model.call(named()).cancellation(&cancellation);
                let error = call.run().unwrap_err();
                assert!(
                    error.kind() == ErrorKind::Cancelled || expected(&graph, &inputs).is_none()
                );
                continue;
            }
            4 => std::thread::scope(|scope| {
                let other = scope.spawn(|| model.run(named()).map(drop).is_ok());
                let found = model.run(named());
                assert_eq!(other.join().unwrap(), found.is_ok());
                found
            }),
            _ => model.run(named()),
        };
        let Some(expected) = expected(&graph, &inputs) else {
            continue;
        };
        let found = found.unwrap_or_else(|error| {
            let program = diagnose::inspect(&model, Stage::Program).unwrap_or_default();
            let graph = kiln::internals::ir::text::print(&graph);
            panic!("seed {seed}, shapes {shapes:?}: {error}\n{graph}\n{program}")
        });
        let found: Vec<Tensor> = found.iter().map(|(_, tensor)| tensor.clone()).collect();
        if let Err(mismatch) = compare_all(&expected, &found, Tolerance::OfLargest(1e-4)) {
            panic!("seed {seed}, shapes {shapes:?}: {mismatch}");
        }
        agreed += 1;
    }
    assert!(model.wait_for_compiles(Duration::from_secs(60)));
    agreed
}

fn expected(graph: &Graph, inputs: &[Tensor]) -> Option<Vec<Tensor>> {
    let limits = InterpretLimits {
        live_bytes: 1 << 20,
        iterations: 50,
        ..InterpretLimits::default()
    };
    let options = InterpretOptions {
        limits,
        ..InterpretOptions::default()
    };
    interpret(graph, inputs, &options).ok()
}

/// Runs rounds until `is_enough`, with models that are alive throughout; takes a sample after each eighth of the
/// rounds.
fn soak(is_enough: impl Fn(u64) -> f64) -> Vec<Sample> {
    let _alone = ALONE
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner);
    // By default each compile thread gets its own heap, as large as its largest compile and increasingly fragmented, so
    // resident memory would say nothing about live memory.
    // SAFETY: it changes the allocator's heap policy, which is allowed at any time.
    unsafe { libc::mallopt(libc::M_ARENA_MAX, 1) };
    let folder = tempfile::tempdir().unwrap();
    let text = "graph @kept(%x: f32[N]) -> f32[N] {
      %y = exp %x
      return %y
    }";
    // A kept model uses the shared runtime in the rounds whose options share it.
    let kept: Vec<Model> = (0..KEPT)
        .map(|round| {
            options(round, folder.path())
                .load(Source::text(text))
                .unwrap()
        })
        .collect();
    let call = |model: &Model, size: usize| {
        let x = Tensor::full(&[size], 0.5f32).unwrap();
        model.run([("x", &x)]).unwrap();
    };
    // All its threads exist before the first sample.
    for model in &kept {
        (0..4).for_each(|size| call(model, size));
        assert!(model.wait_for_compiles(Duration::from_secs(60)));
    }
    let (mut samples, mut agreed, mut rounds) = (Vec::new(), 0, 0);
    let begin = Instant::now();
    loop {
        let done = is_enough(rounds);
        while samples.len() < (done * 8.0) as usize && samples.len() < 8 {
            let sample = Sample::take();
            println!(
                "{:>6.1} min  {rounds:>7} models  {agreed:>7} calls compared  {:>6.1} MB allocated  {:>6.1} MB resident  {} descriptors  {:?}",
                begin.elapsed().as_secs_f64() / 60.0,
                sample.allocated as f64 / 1e6,
                sample.resident as f64 / 1e6,
                sample.descriptors,
                sample.threads,
            );
            sample.threads.expect_bounded();
            samples.push(sample);
        }
        if done >= 1.0 {
            break;
        }
        agreed += round(rounds, folder.path());
        rounds += 1;
        if rounds % 16 == 0 {
            for model in &kept {
                call(model, rounds as usize % 100);
            }
        }
    }
    assert!(
        agreed as u64 > rounds,
        "of {rounds} models {agreed} calls agreed"
    );
    samples
}

/// Nothing grows after the first quarter by more than this many bytes.
fn expect_flat(samples: &[Sample], allowed: usize) {
    let [_, first, .., last] = samples else {
        panic!("{samples:?}");
    };
    assert!(last.resident <= first.resident + allowed, "{samples:?}");
    assert!(
        last.allocated <= first.allocated + allowed / 2,
        "{samples:?}"
    );
    assert!(last.descriptors <= first.descriptors, "{samples:?}");
    // How many runtimes compile at the same time is random; their number is bounded, which the rounds check.
    assert!(last.threads.others <= first.threads.others, "{samples:?}");
    assert!(
        last.threads.workers <= first.threads.workers + 1,
        "{samples:?}"
    );
}

/// Drops whatever it holds.
type Leak = Box<dyn std::any::Any>;

#[test]
fn leaks_of_memory_descriptors_and_threads_are_detected() {
    let _alone = ALONE
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner);
    let thread = |name: &'static str| {
        let (end, ended) = std::sync::mpsc::channel::<()>();
        let thread = std::thread::Builder::new().name(name.to_owned());
        let handle = thread.spawn(move || ended.recv().is_ok()).unwrap();
        // A thread has its name once it runs.
        while Threads::named(name) == 0 {
            std::thread::yield_now();
        }
        Box::new((end, handle))
    };
    let leaks: [(&str, &dyn Fn() -> Leak); 4] = [
        ("memory", &|| Box::new(vec![1_u8; 30 << 20])),
        ("a descriptor", &|| {
            Box::new(fs::File::open("/dev/null").unwrap())
        }),
        ("a thread", &|| thread("a-leak")),
        ("two workers", &|| {
            Box::new((thread("kiln-worker-8"), thread("kiln-worker-9")))
        }),
    ];
    for (what, leak) in leaks {
        let before = Sample::take();
        expect_flat(&[before, before, Sample::take()], 24 << 20);
        let leaked = leak();
        let samples = [before, before, Sample::take()];
        let judged = std::panic::catch_unwind(|| expect_flat(&samples, 24 << 20));
        assert!(judged.is_err(), "{what}: {samples:?}");
        drop(leaked);
    }
}

#[test]
fn a_short_soak_leaks_nothing() {
    let samples = soak(|rounds| rounds as f64 / 240.0);
    expect_flat(&samples, 24 << 20);
}

#[test]
#[ignore = "takes half an hour: `cargo xtask soak`"]
fn a_long_soak_leaks_nothing() {
    let minutes = std::env::var("KILN_SOAK_MINUTES");
    let minutes: f64 = minutes.map_or(30.0, |minutes| minutes.parse().expect("a number"));
    let begin = Instant::now();
    let samples = soak(|_| begin.elapsed().as_secs_f64() / (60.0 * minutes));
    expect_flat(&samples, 32 << 20);
}
