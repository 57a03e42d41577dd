//! Compiled code that is to end: every class of kernels, with every schedule at every level, returns soon after its stop
//! word is set, wherever it is, and is right the next time.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test that cannot go on panics"
)]

mod support;

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use kiln_codegen_llvm::LlvmCompiler;
use kiln_kernel::{
    Artifact, Builtin, BuiltinOperand, CallerOnly, ExecuteError, Execution, Fault, KernelCompiler,
    KernelExecutor, Launch, LaunchContext, Listing, LoadedKernel, Memory, MemorySlice, PackSpec,
    StopSignal, TaskPool,
};
use kiln_native::NativeExecutor;
use kiln_tensor::{DType, Tensor};
use kiln_testkit::kernels::{Variant, kernel_tensors, run_in};
use kiln_testkit::random::SplitMix64;
use support::{SMOOTH, compiled, kernel, symbols, targets};

/// A word that code is the first to see: the launch asks whether it is to begin before it was set.
#[derive(Default)]
struct Word {
    word: AtomicU32,
    has_begun: AtomicBool,
}

impl StopSignal for Word {
    fn is_stopped(&self) -> bool {
        let has_begun = self.has_begun.swap(true, Ordering::Relaxed);
        has_begun && self.word.load(Ordering::Relaxed) != 0
    }

    fn word(&self) -> &AtomicU32 {
        &self.word
    }
}

/// The CPU, with a stop word for every launch, and the time that launches took.
struct Stopping {
    cpu: NativeExecutor,
    word: Arc<Word>,
    took: Arc<Mutex<Duration>>,
}

struct Timed {
    execution: Box<dyn Execution>,
    word: Arc<Word>,
    took: Arc<Mutex<Duration>>,
}

impl KernelExecutor for Stopping {
    fn device(&self) -> String {
        self.cpu.device()
    }

    fn caches(&self) -> [usize; 3] {
        self.cpu.caches()
    }

    fn load(&self, artifact: &Artifact) -> Result<LoadedKernel, ExecuteError> {
        self.cpu.load(artifact)
    }

    fn alloc(&self, bytes: usize) -> Result<Memory, ExecuteError> {
        self.cpu.alloc(bytes)
    }

    fn upload(&self, tensor: &Tensor) -> Result<Memory, ExecuteError> {
        self.cpu.upload(tensor)
    }

    fn pack(&self, tensor: &Tensor, spec: &PackSpec) -> Result<Memory, ExecuteError> {
        self.cpu.pack(tensor, spec)
    }

    fn download(
        &self,
        memory: &Memory,
        offset: usize,
        dtype: DType,
        shape: &[usize],
    ) -> Result<Tensor, ExecuteError> {
        self.cpu.download(memory, offset, dtype, shape)
    }

    fn begin(&self, pool: Arc<dyn TaskPool>) -> Box<dyn Execution> {
        Box::new(Timed {
            execution: self.cpu.begin(pool),
            word: Arc::clone(&self.word),
            took: Arc::clone(&self.took),
        })
    }
}

impl Execution for Timed {
    fn launch(&mut self, kernel: &LoadedKernel, launch: &Launch<'_>) -> Result<(), ExecuteError> {
        let signal = Arc::clone(&self.word) as Arc<dyn StopSignal>;
        self.execution.stop_when(Some(signal));
        let begin = Instant::now();
        let launched = self.execution.launch(kernel, launch);
        *self.took.lock().unwrap() = begin.elapsed();
        self.execution.stop_when(None);
        launched
    }

    fn run_builtin(
        &mut self,
        builtin: &Builtin,
        inputs: &[(MemorySlice<'_>, BuiltinOperand<'_>)],
        outputs: &[(MemorySlice<'_>, BuiltinOperand<'_>)],
    ) -> Result<Vec<i64>, ExecuteError> {
        self.execution.run_builtin(builtin, inputs, outputs)
    }

    fn finish(&mut self) -> Result<Option<Fault>, ExecuteError> {
        self.execution.finish()
    }
}

/// A kernel of each class, with sizes at which it has much to do.
const KERNELS: [(&str, &[(&str, i64)]); 9] = [
    // One task: all of it is one result.
    (
        "kernel @full(%x: in f32[K], %o: out f32[]) {
           s = reduce add[a < A, k < K] tanh(%x[k])
           store %o[] = s
         }",
        &[("A", 1 << 12), ("K", 1 << 7)],
    ),
    (
        "kernel @long(%x: in f32[K], %o: out f32[2]) {
           outer i < 2
           s = reduce max[k < K] exp(%x[k])
           store %o[i] = s
         }",
        &[("K", 1 << 19)],
    ),
    (
        "kernel @map(%x: in f32[N], %o: out f32[N]) {
           outer n < N
           store %o[n] = tanh(exp(%x[n]))
         }",
        &[("N", 1 << 18)],
    ),
    (
        "kernel @softmax(%x: in f32[M, N], %o: out f32[M, N]) {
           outer m < M
           most = reduce max[n < N] %x[m, n]
           sum = reduce add[n < N] exp(%x[m, n] - most)
           store[i < N] %o[m, i] = exp(%x[m, i] - most) / sum
         }",
        &[("M", 2), ("N", 1 << 17)],
    ),
    (
        "kernel @product(%x: in f32[M, K], %y: in f32[K, N], %o: out f32[M, N]) {
           outer m < M, n < N
           s = reduce add[k < K] %x[m, k] * %y[k, n]
           store %o[m, n] = s
         }",
        &[("M", 300), ("K", 300), ("N", 300)],
    ),
    (
        "kernel @deep(%x: in f32[K], %y: in f32[N], %o: out f32[M, N]) {
           outer m < M, n < N
           s = reduce add[a < A, k < K] %x[k] * %y[n]
           store %o[m, n] = s
         }",
        &[("M", 1), ("N", 16), ("A", 1 << 13), ("K", 1 << 6)],
    ),
    (
        "kernel @window(%x: in f32[H + 4, W + 4, C], %w: const f32[5, 5, C], %o: out f32[H, W, C]) {
           outer i < H, j < W, c < C
           s = reduce add[p < 5, q < 5] %x[i + p, j + q, c] * %w[p, q, c]
           store %o[i, j, c] = s
         }",
        &[("H", 100), ("W", 100), ("C", 32)],
    ),
    (
        "kernel @count(%x: in f32[K], %o: out i64[]) {
           s = reduce argmax[k < K] exp(%x[k])
           store %o[] = s
         }",
        &[("K", 1 << 18)],
    ),
    (
        "kernel @scatter(%i: in i64[K], %x: in f32[K], %o: inout f32[4]) {
           outer k < K
           store add %o[%i[k]] = tanh(exp(%x[k]))
         }",
        &[("K", 1 << 17)],
    ),
];

#[test]
fn code_returns_soon_after_its_stop_word_is_set() {
    let pool: Arc<dyn TaskPool> = Arc::new(CallerOnly);
    for (text, sizes) in KERNELS {
        let kernel = kernel(text);
        let symbols = symbols(&kernel, sizes);
        let mut random = SplitMix64::new(7);
        let tensors = kernel_tensors(&mut random, kernel.kernel(), &symbols, SMOOTH)
            .unwrap()
            .unwrap();
        for Variant { artifact, loaded } in compiled(&kernel) {
            let stopping = Stopping {
                cpu: NativeExecutor::new(),
                word: Arc::default(),
                took: Arc::default(),
            };
            let context = LaunchContext {
                symbols: &symbols,
                threads: 1,
                caches: stopping.caches(),
            };
            let run = |stop: u32| {
                stopping.word.word.store(stop, Ordering::Relaxed);
                stopping.word.has_begun.store(false, Ordering::Relaxed);
                let code = (&artifact, &loaded);
                let ran = run_in(&stopping, &kernel, code, &context, &tensors, &pool);
                (ran.unwrap().0, *stopping.took.lock().unwrap())
            };
            let (expected, whole) = run(0);
            // The machine may be busy with other things now and then.
            let least = (0..3).map(|_| run(1).1).min().unwrap();
            let what = format!("{} {}", artifact.target.level, artifact.schedule);
            assert!(
                least < whole / 2 + Duration::from_millis(2),
                "{least:?} of {whole:?} after the stop word was set: {what}\n{text}"
            );
            let again = run(0).0;
            for (expected, again) in expected.iter().zip(&again) {
                assert!(expected.bit_equal(again), "{what}\n{text}");
            }
        }
    }
}

#[test]
fn every_phase_polls() {
    for (text, _) in KERNELS {
        let kernel = kernel(text);
        let compiler = LlvmCompiler::new();
        for target in targets() {
            for candidate in compiler.schedules(&kernel, &target) {
                let ir = compiler
                    .listing(&kernel, &target, &candidate.schedule, Listing::Source)
                    .unwrap();
                let functions = ir.split("\ndefine ").skip(1);
                for function in functions.filter(|function| function.contains("@phase")) {
                    let body = function.split("\n}").next().unwrap_or_default();
                    let what = format!("{target} {}", candidate.schedule);
                    assert!(body.contains("load volatile i32"), "{what}\n{body}");
                }
            }
        }
    }
}
