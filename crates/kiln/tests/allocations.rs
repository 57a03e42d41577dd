//! A warm call into given tensors allocates nothing; calls of real models allocate far less memory, and less often,
//! than interpreted ones.

#![cfg(feature = "llvm")]
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test may panic, and prints what it measured"
)]

use kiln::diagnose::{self, CallMemory};
use kiln::{Cache, DType, Device, Model, Options, Source, Tensor};
use std::alloc::{GlobalAlloc, Layout, System};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

static ALLOCATIONS: AtomicUsize = AtomicUsize::new(0);
static LIVE: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

/// Serialises the tests, so that each counts its own allocations.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

struct Counting;

// SAFETY: every call is forwarded to the system allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        let live = LIVE.fetch_add(layout.size(), Ordering::Relaxed) + layout.size();
        PEAK.fetch_max(live, Ordering::Relaxed);
        // SAFETY: the system allocator's contract is upheld by the caller.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        LIVE.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: as above.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// A model that shares nothing with others, and whose calls use one thread.
fn alone_on_a_thread(text: &str) -> Model {
    let options = Options::new()
        .device(Device::cpu())
        .threads(1)
        .shared_kernels(false)
        .cache(Cache::off());
    options.load(Source::text(text)).unwrap()
}

#[test]
fn a_warm_call_into_given_tensors_allocates_nothing() {
    let _alone = alone();
    let text = "graph @mlp(%x: f32[B, 8], %w: f32[8, N], %b: f32[N]) -> (f32[B, N], f32[N]) {
      %0 = matmul %x, %w
      %1 = add %0, %b
      %2 = relu %1
      %3 = reduce %2 {function = sum, axes = [0]}
      return %2, %3
    }";
    let model = alone_on_a_thread(text);
    let inputs = [
        Tensor::full(&[3, 8], 0.5f32).unwrap(),
        Tensor::full(&[8, 5], 0.25f32).unwrap(),
        Tensor::full(&[5], 1.0f32).unwrap(),
    ];
    let zeros = |shape: &[usize]| Tensor::zeros(DType::F32, shape).unwrap();
    let mut outputs = [zeros(&[3, 5]), zeros(&[5])];
    for _ in 0..3 {
        model.call(&inputs).run_into(&mut outputs).unwrap();
    }
    assert!(model.wait_for_compiles(std::time::Duration::from_secs(30)));
    let before = ALLOCATIONS.load(Ordering::Relaxed);
    for _ in 0..100 {
        model.call(&inputs).run_into(&mut outputs).unwrap();
    }
    let allocations = ALLOCATIONS.load(Ordering::Relaxed) - before;
    assert_eq!(outputs[0].to_vec::<f32>().unwrap(), [2.0; 15]);
    assert_eq!(outputs[1].to_vec::<f32>().unwrap(), [6.0; 5]);
    assert_eq!(allocations, 0, "in a hundred calls");
    // Tensors that do not match are replaced, and shared ones are not written to.
    let kept = outputs[0].clone();
    let mut others = [outputs[0].clone(), zeros(&[1])];
    let inputs = [
        Tensor::full(&[3, 8], -1.0f32).unwrap(),
        inputs[1].clone(),
        inputs[2].clone(),
    ];
    model.call(&inputs).run_into(&mut others).unwrap();
    assert_eq!(kept.to_vec::<f32>().unwrap(), [2.0; 15]);
    assert_eq!(others[0].to_vec::<f32>().unwrap(), [0.0; 15]);
    assert_eq!(others[1].shape(), [5]);
    assert_eq!(
        model
            .call(&inputs)
            .run_into(&mut others[..1])
            .unwrap_err()
            .code(),
        "E0893"
    );
}

#[test]
fn appending_a_row_to_a_cache_allocates_and_plans_nothing() {
    let _alone = alone();
    let text = "graph @append(%cache: f32[C, 64], %at: i64[1], %row: f32[1, 64]) -> (f32[C, 64], f32[64]) {
      %next = update_slice %cache, %at, %row {axes = [0]}
      %sum = reduce %next {function = sum, axes = [0]}
      return %next, %sum
    }";
    let model = alone_on_a_thread(text);
    let cache = Tensor::zeros(DType::F32, &[1000, 64]).unwrap();
    let mut session = model
        .session()
        .state("cache", "next", cache)
        .build()
        .unwrap();
    let start = session.state("cache").unwrap().as_bytes().unwrap().as_ptr();
    let positions: Vec<Tensor> = (0..1000i64)
        .map(|at| Tensor::from_slice(&[1], &[at]).unwrap())
        .collect();
    let row = Tensor::full(&[1, 64], 1.0f32).unwrap();
    let mut sum = [Tensor::zeros(DType::F32, &[64]).unwrap()];
    let mut append = |at: usize| {
        let inputs = [positions[at].clone(), row.clone()];
        session.call(&inputs).run_into(&mut sum).unwrap();
        assert_eq!(
            session.state("cache").unwrap().as_bytes().unwrap().as_ptr(),
            start
        );
        sum[0].as_slice::<f32>().unwrap()[0]
    };
    for at in 0..3 {
        append(at);
    }
    assert!(model.wait_for_compiles(std::time::Duration::from_secs(60)));
    append(3);
    let before = ALLOCATIONS.load(Ordering::Relaxed);
    for at in 4..1000 {
        assert_eq!(append(at), (at + 1) as f32);
    }
    let allocations = ALLOCATIONS.load(Ordering::Relaxed) - before;
    assert_eq!(allocations, 0, "in a thousand calls");
}

/// The cost of one warm call that starts without an arena: the number of allocations, and the peak of additional bytes.
fn cost(model: &Model, inputs: &[(String, Tensor)]) -> (usize, usize) {
    let call = || {
        drop(model.run(inputs).unwrap());
    };
    call();
    call();
    let before = ALLOCATIONS.load(Ordering::Relaxed);
    call();
    let allocations = ALLOCATIONS.load(Ordering::Relaxed) - before;
    model.trim_memory(0);
    let live = LIVE.load(Ordering::Relaxed);
    PEAK.store(live, Ordering::Relaxed);
    call();
    (allocations, PEAK.load(Ordering::Relaxed) - live)
}

#[test]
fn real_model_calls_allocate_less_and_less_often_than_interpreted_ones() {
    let _alone = alone();
    let Some(folder) = std::env::var_os("KILN_MODELS") else {
        return;
    };
    // No block of memory is large enough to bypass the allocator.
    let cases: [(&str, &[usize]); 4] = [
        ("ocr-det", &[1, 3, 96, 96]),
        ("ocr-rec", &[1, 3, 48, 160]),
        ("ocr-cls", &[1, 3, 48, 192]),
        ("minilm", &[2, 16]),
    ];
    for (name, shape) in cases {
        let path = Path::new(&folder).join(name).join("model.onnx");
        let load = |device| {
            let options = Options::new().device(device).threads(1).cache(Cache::off());
            options.load(&path).unwrap()
        };
        let (compiled, interpreted) = (load(Device::cpu()), load(Device::interpreter()));
        let input = |input: &kiln::ValueDescription| {
            let tensor = match input.dtype() {
                Some(DType::I64) => Tensor::full(shape, 1i64),
                _ => Tensor::full(shape, 0.25f32),
            };
            (input.name().to_owned(), tensor.unwrap())
        };
        let inputs: Vec<_> = compiled.inputs().iter().map(input).collect();
        let (few, little) = cost(&compiled, &inputs);
        let (many, much) = cost(&interpreted, &inputs);
        let shapes: Vec<Vec<usize>> = inputs
            .iter()
            .map(|(_, input)| input.shape().to_vec())
            .collect();
        let memory = diagnose::call_memory(&compiled, &shapes).unwrap().unwrap();
        let CallMemory {
            arena,
            results,
            scratch,
            largest_live_set,
            largest_at,
            ..
        } = &memory;
        println!(
            "| `{name}` {shape:?} | {many} | {few} | {much} | {little} | {arena} | {results} | {scratch} | {largest_live_set} at {largest_at} |"
        );
        assert!(
            few * 10 <= many * 3,
            "{name}: {few} allocations against {many}"
        );
    }
}
