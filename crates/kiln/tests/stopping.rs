//! Calls that are cancelled in the middle of an op, of every family, interpreted and compiled: they end promptly, and
//! the next call is correct.
//!
//! A case is scaled up until a call is still running when it is cancelled. The test measures the processor time that
//! the call uses from then on, which does not depend on other load on the machine.

#![cfg(feature = "llvm")]
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test may panic, and prints what it measured"
)]

use kiln::internals::codegen_llvm::LlvmCompiler;
use kiln::internals::lazy_runtime::{Runtime, RuntimeOptions};
use kiln::internals::native::NativeExecutor;
use kiln::internals::tensor::Element;
use kiln::{Cache, Cancellation, Device, Model, Options, Source, Tensor, diagnose, internals};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

const THREADS: usize = 2;

/// How much longer a call may run, on each of its threads.
const MAX_TIME: Duration = Duration::from_millis(50);

/// When calls are cancelled, measured from their start.
const AFTER: Duration = Duration::from_millis(15);

/// The same for calls that take less time at any scale.
const SOON: Duration = Duration::from_millis(2);

/// Longer than any call continues, however busy the machine is; only a call that does not end takes longer.
const FOR_EVER: Duration = Duration::from_secs(20);

/// An op, or ops that become one kernel. `{N}` and the like are sizes.
struct Case {
    name: &'static str,
    text: &'static str,
    /// Inputs for a scale; 1 is small.
    inputs: fn(usize) -> Vec<(&'static str, Tensor)>,
    /// The largest scale that fits in memory.
    most: usize,
}

/// Varied numbers between 0.1 and 1.
fn floats(shape: &[usize]) -> Tensor {
    let pattern: Vec<f32> = (0..997)
        .map(|i| 0.1 + (i * 7919 % 997) as f32 / 1108.0)
        .collect();
    repeated(shape, &pattern)
}

/// Varied integers below a limit.
fn below(limit: usize, shape: &[usize]) -> Tensor {
    let pattern: Vec<i64> = (0..997).map(|i| (i * 7919 % limit) as i64).collect();
    repeated(shape, &pattern)
}

/// A tensor that repeats these elements: large ones are created quickly.
fn repeated<T: Element>(shape: &[usize], pattern: &[T]) -> Tensor {
    let len = shape.iter().product();
    let mut elements = pattern.repeat(len / pattern.len() + 1);
    elements.truncate(len);
    Tensor::from_vec(shape, elements).unwrap()
}

/// Two vectors with many pairwise sums.
fn pairs(n: usize) -> Vec<(&'static str, Tensor)> {
    vec![("x", floats(&[n, 1])), ("y", floats(&[1, 512]))]
}

fn matrix(n: usize) -> Vec<(&'static str, Tensor)> {
    vec![("x", floats(&[n, 512]))]
}

fn image(n: usize) -> Vec<(&'static str, Tensor)> {
    vec![("x", floats(&[n.div_ceil(4), 16, 64, 64]))]
}

macro_rules! case {
    ($name:ident, $inputs:expr, $most:expr, $text:expr) => {
        Case {
            name: stringify!($name),
            text: $text,
            inputs: $inputs,
            most: $most,
        }
    };
}

/// Every family of ops, and every way in which kernels are scheduled.
fn cases() -> Vec<Case> {
    vec![
        case!(map, pairs, 1 << 17, "graph @g(%x: f32[N, 1], %y: f32[1, M]) -> f32[N, M] {
          %a = add %x, %y
          %b = tanh %a
          %c = exp %b
          return %c
        }"),
        case!(sum_of_all, pairs, 1 << 24, "graph @g(%x: f32[N, 1], %y: f32[1, M]) -> f32[] {
          %a = add %x, %y
          %b = tanh %a
          %c = reduce %b {function = max, axes = [0, 1]}
          return %c
        }"),
        case!(sum_of_few, pairs, 1 << 24, "graph @g(%x: f32[N, 1], %y: f32[1, M]) -> f32[M] {
          %a = add %x, %y
          %b = tanh %a
          %c = reduce %b {function = max, axes = [0]}
          return %c
        }"),
        case!(sums_of_rows, pairs, 1 << 22, "graph @g(%x: f32[N, 1], %y: f32[1, M]) -> f32[N] {
          %a = add %x, %y
          %b = exp %a
          %c = reduce %b {function = sum, axes = [1]}
          return %c
        }"),
        case!(arg_reduce, pairs, 1 << 22, "graph @g(%x: f32[N, 1], %y: f32[1, M]) -> i64[N] {
          %a = add %x, %y
          %b = tanh %a
          %c = arg_reduce %b {extremum = max, axis = 1}
          return %c
        }"),
        case!(softmax, pairs, 1 << 17, "graph @g(%x: f32[N, 1], %y: f32[1, M]) -> f32[N, M] {
          %a = add %x, %y
          %m = reduce %a {function = max, axes = [1], keep_dims}
          %s = sub %a, %m
          %e = exp %s
          %t = reduce %e {function = sum, axes = [1], keep_dims}
          %o = div %e, %t
          return %o
        }"),
        case!(product, |n| vec![("x", floats(&[8 * n, 512])), ("y", floats(&[512, 300]))], 1 << 15,
            "graph @g(%x: f32[N, K], %y: f32[K, M]) -> f32[N, M] {
          %a = matmul %x, %y
          return %a
        }"),
        case!(product_by_a_vector, |n| vec![("x", floats(&[1, 64 * n])), ("y", floats(&[64 * n, 64]))], 1 << 14,
            "graph @g(%x: f32[N, K], %y: f32[K, M]) -> f32[N, M] {
          %a = matmul %x, %y
          return %a
        }"),
        case!(products_in_a_batch, |n| vec![("x", floats(&[n, 24, 64])), ("y", floats(&[n, 64, 33]))], 1 << 14,
            "graph @g(%x: f32[B, N, K], %y: f32[B, K, M]) -> f32[B, N, M] {
          %a = matmul %x, %y
          return %a
        }"),
        case!(product_of_integers, |n| vec![("x", below(9, &[n, 512])), ("y", below(9, &[512, 300]))], 1 << 16,
            "graph @g(%x: i64[N, K], %y: i64[K, M]) -> i64[N, M] {
          %a = matmul %x, %y
          return %a
        }"),
        case!(attention, |n| vec![("q", floats(&[1, n, 32])), ("k", floats(&[1, 512, 32])), ("v", floats(&[1, 512, 32]))], 1 << 18,
            "graph @g(%q: f32[B, Q, 32], %k: f32[B, K, 32], %v: f32[B, K, 32]) -> f32[B, Q, 32] {
          %t = transpose %k {permutation = [0, 2, 1]}
          %a = matmul %q, %t
          %m = reduce %a {function = max, axes = [2], keep_dims}
          %s = sub %a, %m
          %e = exp %s
          %u = reduce %e {function = sum, axes = [2], keep_dims}
          %o = div %e, %u
          %r = matmul %o, %v
          return %r
        }"),
        case!(conv_3x3, |n| vec![("x", floats(&[n.div_ceil(4), 16, 64, 64])), ("w", floats(&[32, 16, 3, 3]))], 1 << 9,
            "graph @g(%x: f32[N, 16, H, W], %w: f32[32, 16, 3, 3]) -> f32[N, 32, H, W] {
          %a = conv %x, %w {strides = [1, 1], dilations = [1, 1], low = [1, 1], high = [1, 1], groups = 1}
          return %a
        }"),
        case!(conv_strided, |n| vec![("x", floats(&[n.div_ceil(4), 16, 65, 65])), ("w", floats(&[32, 16, 5, 5]))], 1 << 9,
            "graph @g(%x: f32[N, 16, 65, 65], %w: f32[32, 16, 5, 5]) -> f32[N, 32, 33, 33] {
          %a = conv %x, %w {strides = [2, 2], dilations = [1, 1], low = [2, 2], high = [2, 2], groups = 1}
          return %a
        }"),
        case!(conv_of_each_channel, |n| vec![("x", floats(&[n.div_ceil(4), 16, 64, 64])), ("w", floats(&[16, 1, 5, 5]))], 1 << 10,
            "graph @g(%x: f32[N, 16, H, W], %w: f32[16, 1, 5, 5]) -> f32[N, 16, H, W] {
          %a = conv %x, %w {strides = [1, 1], dilations = [1, 1], low = [2, 2], high = [2, 2], groups = 16}
          return %a
        }"),
        case!(conv_transpose, |n| vec![("x", floats(&[n.div_ceil(4), 16, 32, 32])), ("w", floats(&[16, 8, 3, 3]))], 1 << 10,
            "graph @g(%x: f32[N, 16, 32, 32], %w: f32[16, 8, 3, 3]) -> f32[N, 8, 65, 65] {
          %a = conv_transpose %x, %w {strides = [2, 2], dilations = [1, 1], low = [0, 0], high = [0, 0], output_padding = [0, 0], groups = 1}
          return %a
        }"),
        case!(pool_max, image, 1 << 10, "graph @g(%x: f32[N, 16, H, W]) -> f32[N, 16, H, W] {
          %a = pool %x {function = max, size = [5, 5], strides = [1, 1], dilations = [1, 1], low = [2, 2], high = [2, 2]}
          return %a
        }"),
        case!(arg_pool, image, 1 << 10, "graph @g(%x: f32[N, 16, H, W]) -> i64[N, 16, H, W] {
          %a = arg_pool %x {size = [5, 5], strides = [1, 1], dilations = [1, 1], low = [2, 2], high = [2, 2]}
          return %a
        }"),
        case!(pool_over_much, image, 1 << 10, "graph @g(%x: f32[N, 16, 64, 64]) -> f32[N, 16, 18, 18] {
          %a = pool %x {function = mean, size = [47, 47], strides = [1, 1], dilations = [1, 1], low = [0, 0], high = [0, 0]}
          return %a
        }"),
        case!(cumulate, matrix, 1 << 16, "graph @g(%x: f32[N, M]) -> f32[N, M] {
          %a = cumulate %x {function = sum, axis = 0}
          return %a
        }"),
        case!(cumulate_rows, matrix, 1 << 16, "graph @g(%x: f32[N, M]) -> f32[N, M] {
          %a = cumulate %x {function = sum, axis = 1}
          return %a
        }"),
        case!(cast, matrix, 1 << 17, "graph @g(%x: f32[N, M]) -> f16[N, M] {
          %a = cast %x {to = f16}
          return %a
        }"),
        case!(transpose, matrix, 1 << 17, "graph @g(%x: f32[N, M]) -> f32[M, N] {
          %a = transpose %x {permutation = [1, 0]}
          return %a
        }"),
        case!(broadcast, matrix, 1 << 14, "graph @g(%x: f32[N, M]) -> f32[8, N, M] {
          %a = broadcast %x {dims = [8, N, M]}
          return %a
        }"),
        case!(concat, matrix, 1 << 16, "graph @g(%x: f32[N, M]) -> f32[N, 2*M] {
          %a = concat %x, %x {axis = 1}
          return %a
        }"),
        case!(pad, matrix, 1 << 17, "graph @g(%x: f32[N, M]) -> f32[N, M + 7] {
          %f: f32[] = constant [0]
          %a = pad %x, %f {low = [0, 3], high = [0, 4], mode = reflect}
          return %a
        }"),
        case!(slice, |n| vec![("x", floats(&[n, 1024]))], 1 << 16, "graph @g(%x: f32[N, 1024]) -> f32[N, 512] {
          %a = slice %x {starts = [0, 1], sizes = [N, 512], steps = [1, 2]}
          return %a
        }"),
        case!(reshape, |n| vec![("x", floats(&[512, n]))], 1 << 17, "graph @g(%x: f32[M, N]) -> f32[M*N] {
          %t = transpose %x {permutation = [1, 0]}
          %a = reshape %t {dims = [M*N]}
          return %a
        }"),
        case!(gather, |n| vec![("x", floats(&[100, 512])), ("i", below(100, &[n]))], 1 << 17,
            "graph @g(%x: f32[N, M], %i: i64[K]) -> f32[K, M] {
          %a = gather %x, %i {axis = 0}
          return %a
        }"),
        case!(gather_elements, |n| vec![("x", floats(&[n, 256])), ("i", below(256, &[n, 256]))], 1 << 16,
            "graph @g(%x: f32[N, M], %i: i64[N, M]) -> f32[N, M] {
          %a = gather_elements %x, %i {axis = 1}
          return %a
        }"),
        case!(gather_nd, |n| vec![("x", floats(&[100, 512])), ("i", below(100, &[n, 1]))], 1 << 17,
            "graph @g(%x: f32[N, M], %i: i64[K, 1]) -> f32[K, M] {
          %a = gather_nd %x, %i {batch_axes = 0}
          return %a
        }"),
        case!(scatter_elements, |n| vec![("x", floats(&[n, 256])), ("i", below(256, &[n, 256])), ("u", floats(&[n, 256]))], 1 << 15,
            "graph @g(%x: f32[N, M], %i: i64[N, M], %u: f32[N, M]) -> f32[N, M] {
          %a = scatter_elements %x, %i, %u {axis = 1, combine = add}
          return %a
        }"),
        case!(scatter_nd, |n| vec![("x", floats(&[100, 64])), ("i", below(100, &[8 * n, 1])), ("u", floats(&[8 * n, 64]))], 1 << 17,
            "graph @g(%x: f32[N, M], %i: i64[K, 1], %u: f32[K, M]) -> f32[N, M] {
          %a = scatter_nd %x, %i, %u {combine = add}
          return %a
        }"),
        case!(top_k, |n| vec![("x", floats(&[512 * n]))], 1 << 15, "graph @g(%x: f32[N]) -> (f32[3], i64[3]) {
          %v, %i = top_k %x {k = 3, axis = 0, extremum = max}
          return %v, %i
        }"),
        case!(top_k_of_rows, matrix, 1 << 16, "graph @g(%x: f32[N, 512]) -> (f32[N, 300], i64[N, 300]) {
          %v, %i = top_k %x {k = 300, axis = 1, extremum = min}
          return %v, %i
        }"),
        case!(non_zero, |n| vec![("x", below(3, &[512 * n]))], 1 << 15, "graph @g(%x: i64[N]) -> (i64[1, N], i64[]) {
          %i, %c = non_zero %x
          return %i, %c
        }"),
        case!(random_bits, |n| vec![("k", Tensor::from_slice(&[2], &[1u64, 2]).unwrap()), ("x", floats(&[n]))], 1 << 17,
            "graph @g(%k: u64[2], %x: f32[N]) -> (u32[N, 512], f32[N]) {
          %b = random_bits %k {dims = [N, 512]}
          %y = neg %x
          return %b, %y
        }"),
        case!(iota, |n| vec![("x", floats(&[n]))], 1 << 17, "graph @g(%x: f32[N]) -> (i32[N, 512], f32[N]) {
          %i = iota {dims = [N, 512], axis = 0, dtype = i32}
          %y = neg %x
          return %i, %y
        }"),
        case!(resize, image, 1 << 9, "graph @g(%x: f32[N, 16, 64, 64]) -> f32[N, 16, 128, 128] {
          %a = resize %x {axes = [2, 3], sizes = [128, 128], scales = [2.0, 2.0], mode = linear, coordinates = half_pixel, rounding = floor, cubic_coefficient = -0.75}
          return %a
        }"),
        // A strided input is copied before execution starts.
        case!(strided_input, |n| vec![("x", floats(&[512, n]).transpose(&[1, 0]).unwrap())], 1 << 17,
            "graph @g(%x: f32[N, M]) -> f32[N] {
          %a = reduce %x {function = max, axes = [1]}
          return %a
        }"),
        // The input is returned as the output, in row-major order.
        case!(strided_output, |n| vec![("x", floats(&[512, n]).transpose(&[1, 0]).unwrap())], 1 << 17,
            "graph @g(%x: f32[N, M]) -> f32[N, M] {
          return %x
        }"),
        case!(stacked_by_a_loop, |n| vec![("t", Tensor::scalar(n as i64)), ("x", floats(&[512]))], 1 << 17,
            "graph @g(%t: i64[], %x: f32[M]) -> f32[k, M] {
          %on: bool[] = constant [true]
          %all: f32[k, M] = loop %t, %on, %x {carried = 0} -> (k)
            region(%i: i64[], %y: f32[M]) {
              %more: bool[] = constant [true]
              %next: f32[M] = neg %y
              yield %more, %next
            }
          return %all
        }"),
    ]
}

/// Processor time of this process.
fn processor_time() -> Duration {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: writes to the struct that it is given.
    let result = unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &raw mut time) };
    assert_eq!(result, 0);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Serialises the tests, which measure processor time.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The cost of a call after its cancellation: processor time, and wall time.
struct Rest {
    processor: Duration,
    wall: Duration,
}

/// Cancels a running call; `None` if it ended before.
fn cancel(model: &Model, inputs: &[(&'static str, Tensor)], after: Duration) -> Option<Rest> {
    let cancellation = Cancellation::new();
    let begun = Arc::new(AtomicUsize::new(0));
    let asked = Arc::clone(&begun);
    let call = model
        .call(inputs)
        .cancellation(&cancellation)
        .cancel_when(move || {
            asked.fetch_add(1, Ordering::Relaxed);
            false
        });
    std::thread::scope(|scope| {
        let call = scope.spawn(move || {
            let result = call.run();
            (result.map(drop), Instant::now(), processor_time())
        });
        while begun.load(Ordering::Relaxed) == 0 && !call.is_finished() {
            std::thread::yield_now();
        }
        std::thread::sleep(after);
        let (processor, wall) = (processor_time(), Instant::now());
        cancellation.cancel();
        let (result, ended, used) = call.join().unwrap();
        let error = result.err()?;
        assert_eq!(error.code(), "E0835", "{error}");
        Some(Rest {
            processor: used.saturating_sub(processor),
            wall: ended.saturating_duration_since(wall),
        })
    })
}

fn model(case: &Case, device: Device) -> Model {
    let options = Options::new()
        .device(device)
        .threads(THREADS)
        .cache(Cache::off());
    options
        .load(Source::text(case.text))
        .unwrap_or_else(|error| panic!("{}: {error}", case.name))
}

/// Cancels calls of every case, and checks the next call.
fn every_case_ends(device: Device) {
    let _alone = alone();
    let only = std::env::var("KILN_STOPPING_CASE").ok();
    for case in cases() {
        if only.as_deref().is_some_and(|only| only != case.name) {
            continue;
        }
        let model = model(&case, device.clone());
        let small = (case.inputs)(3);
        // Compiles.
        model
            .run(&small)
            .unwrap_or_else(|error| panic!("{}: {error}", case.name));
        let (mut scale, mut rest) = (16, None);
        while rest.is_none() {
            scale *= 4;
            assert!(
                scale <= 4 * case.most,
                "{}: no call takes {SOON:?}",
                case.name
            );
            scale = scale.min(case.most);
            let large = (case.inputs)(scale);
            rest = cancel(&model, &large, AFTER);
            if scale == case.most {
                rest = rest.or_else(|| cancel(&model, &large, SOON));
            }
        }
        // Once more, at a scale at which a call that does not end runs for a long time.
        scale = (16 * scale).min(case.most);
        let rest = cancel(&model, &(case.inputs)(scale), AFTER).or(rest);
        let rest = rest.unwrap_or_else(|| unreachable!("the loop ends with one"));
        println!(
            "{device:?} {} at {scale}: {:.1?} of processor time, {:.1?}",
            case.name, rest.processor, rest.wall
        );
        let most = MAX_TIME * THREADS as u32;
        assert!(
            rest.processor <= most && rest.wall <= FOR_EVER,
            "{}: the call took {:?} of processor time in {:?} after it was cancelled",
            case.name,
            rest.processor,
            rest.wall
        );
        let comparison = diagnose::compare(&model, &diagnose::reference(&model, &small).unwrap());
        assert!(comparison.unwrap().agrees(), "{}", case.name);
    }
}

#[test]
fn interpreted_calls_end_in_the_middle_of_any_op() {
    every_case_ends(Device::interpreter());
}

#[test]
fn compiled_calls_end_in_the_middle_of_any_kernel_and_builtin() {
    every_case_ends(Device::cpu());
}

/// Five kernels, from a few numbers to products, whose polling cost is measured.
fn measured() -> Vec<Case> {
    vec![
        case!(
            tiny,
            |_| vec![("x", floats(&[4]))],
            1,
            "graph @g(%x: f32[N]) -> f32[N] {
          %a = add %x, %x
          return %a
        }"
        ),
        case!(
            softmax,
            |_| vec![("x", floats(&[64, 500]))],
            1,
            "graph @g(%x: f32[N, M]) -> f32[N, M] {
          %m = reduce %x {function = max, axes = [1], keep_dims}
          %s = sub %x, %m
          %e = exp %s
          %t = reduce %e {function = sum, axes = [1], keep_dims}
          %o = div %e, %t
          return %o
        }"
        ),
        Case {
            name: "gemm",
            text: "graph @g(%x: f32[N, K], %y: f32[K, M]) -> f32[N, M] {
              %a = matmul %x, %y
              return %a
            }",
            inputs: |_| vec![("x", floats(&[192, 192])), ("y", floats(&[192, 192]))],
            most: 1,
        },
        case!(
            attention,
            |_| vec![
                ("q", floats(&[4, 128, 32])),
                ("k", floats(&[4, 128, 32])),
                ("v", floats(&[4, 128, 32]))
            ],
            1,
            "graph @g(%q: f32[B, Q, 32], %k: f32[B, K, 32], %v: f32[B, K, 32]) -> f32[B, Q, 32] {
          %t = transpose %k {permutation = [0, 2, 1]}
          %a = matmul %q, %t
          %m = reduce %a {function = max, axes = [2], keep_dims}
          %s = sub %a, %m
          %e = exp %s
          %u = reduce %e {function = sum, axes = [2], keep_dims}
          %o = div %e, %u
          %r = matmul %o, %v
          return %r
        }"
        ),
        case!(
            elementwise,
            |_| vec![("x", floats(&[100_000]))],
            1,
            "graph @g(%x: f32[N]) -> f32[N] {
          %a = tanh %x
          %b = mul %a, %x
          return %b
        }"
        ),
    ]
}

/// A model whose code polls, or one whose code does not.
fn polling(case: &Case, polls: bool) -> Model {
    let compiler = match polls {
        true => LlvmCompiler::new(),
        false => LlvmCompiler::new().without_polls(),
    };
    let runtime = Runtime::new(
        Some(Arc::new(compiler)),
        Arc::new(NativeExecutor::new()),
        RuntimeOptions::new(),
    );
    let options = internals::on_runtime(Options::new().device(Device::cpu()), Arc::new(runtime));
    options.load(Source::text(case.text)).unwrap()
}

/// The cost of polling stated in the book: the minimum processor time over many interleaved rounds of calls.
#[test]
#[ignore = "a measurement, for release builds"]
fn measure_the_cost_of_polls() {
    let _alone = alone();
    for case in measured() {
        let inputs = (case.inputs)(1);
        let models = [polling(&case, true), polling(&case, false)];
        let mut least = [Duration::MAX; 2];
        let calls = if case.name == "tiny" { 300 } else { 1 };
        for _round in 0..500 {
            for (model, least) in models.iter().zip(&mut least) {
                let begin = processor_time();
                for _call in 0..calls {
                    model.run(&inputs).unwrap();
                }
                *least = processor_time().saturating_sub(begin).min(*least);
            }
        }
        let [with, without] = least.map(|time| time.as_secs_f64() * 1e6 / f64::from(calls));
        println!(
            "{}: {with:.3} us, {without:.3} us without polls, {:+.2} %",
            case.name,
            100.0 * (with / without - 1.0)
        );
    }
}
