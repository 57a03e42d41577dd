//! Makes each large allocation of a load and of a call fail in turn: the result is a typed error that states the number of
//! bytes, nothing has changed, and a retry succeeds.
//!
//! The allocator of this program fails the n-th request for at least [`LARGE`] bytes, on any thread, for n = 0, 1, 2 …
//! until an operation makes fewer requests; then again that request and all later ones. Memory that the system maps for
//! tensors goes through `mmap64`, which is defined here in place of the C library's. An infallible allocation aborts the
//! process, so that a test cannot miss it: with the variable `KILN_TEST_ALLOCATIONS` set, the last backtrace printed is
//! where it happened.

#![cfg(all(feature = "llvm", feature = "onnx", target_os = "linux"))]
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a test may panic, and prints its counts"
)]

use kiln::internals::ir::Graph;
use kiln::internals::shape_inference::GraphBuilder;
use kiln::{Cache, DType, Device, Error, ErrorKind, Model, Options, Outputs, Source, Tensor};
use kiln_testkit::export::{to_onnx, to_onnx_beside};
use std::alloc::{GlobalAlloc, Layout, System};
use std::backtrace::Backtrace;
use std::ffi::{c_int, c_void};
use std::fs;
use std::path::{Path, PathBuf};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use tempfile::TempDir;

/// Smaller allocations do not grow with a model or its inputs here.
const LARGE: usize = 80 << 10;

/// The number of large allocations that succeed before one fails; negative if none is to fail.
static UNTIL_FAILURE: AtomicI64 = AtomicI64::new(-1);
/// Whether all later ones fail as well.
static IS_LASTING: AtomicBool = AtomicBool::new(false);
/// The bytes of the first allocation that failed; 0 if none has.
static FAILED: AtomicUsize = AtomicUsize::new(0);
/// Whether to print backtraces of failures.
static IS_TRACED: AtomicBool = AtomicBool::new(false);

/// Whether this request is to fail.
fn fails(bytes: usize) -> bool {
    if bytes < LARGE || UNTIL_FAILURE.load(Ordering::SeqCst) < 0 || is_compile_thread() {
        return false;
    }
    let is_lasting = IS_LASTING.load(Ordering::SeqCst);
    let passed =
        UNTIL_FAILURE.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| match left {
            0 if is_lasting => Some(0),
            left => Some(left - 1),
        });
    let is_it = passed == Ok(0);
    if is_it {
        let _ = FAILED.compare_exchange(0, bytes, Ordering::SeqCst, Ordering::SeqCst);
        if IS_TRACED.load(Ordering::SeqCst) {
            eprintln!("no {bytes} bytes at\n{}", Backtrace::force_capture());
        }
    }
    is_it
}

/// Whether this is a compile thread: a compile's memory grows with the code, and is bounded in a compile worker.
fn is_compile_thread() -> bool {
    let mut name = [0_u8; 16];
    // SAFETY: the system writes at most sixteen bytes, the last one zero.
    unsafe { libc::prctl(libc::PR_GET_NAME, name.as_mut_ptr()) };
    name.starts_with(b"kiln-compile")
}

struct Failing;

// SAFETY: every call is forwarded to the system allocator, or refused.
unsafe impl GlobalAlloc for Failing {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if fails(layout.size()) {
            return null_mut();
        }
        // SAFETY: the system allocator's contract is upheld by the caller.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if fails(layout.size()) {
            return null_mut();
        }
        // SAFETY: as above.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        if bytes > layout.size() && fails(bytes) {
            return null_mut();
        }
        // SAFETY: as above.
        unsafe { System.realloc(pointer, layout, bytes) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Failing = Failing;

/// The system's `mmap`, which fails as the allocator does.
///
/// # Safety
/// As the system's.
#[unsafe(no_mangle)]
unsafe extern "C" fn mmap64(
    address: *mut c_void,
    bytes: usize,
    protection: c_int,
    flags: c_int,
    file: c_int,
    offset: i64,
) -> *mut c_void {
    if flags & libc::MAP_ANONYMOUS != 0 && fails(bytes) {
        // SAFETY: the address is thread-local.
        unsafe { *libc::__errno_location() = libc::ENOMEM };
        return libc::MAP_FAILED;
    }
    // SAFETY: the system's contract is upheld by the caller.
    let mapped = unsafe {
        libc::syscall(
            libc::SYS_mmap,
            address,
            bytes,
            protection,
            flags,
            file,
            offset,
        )
    };
    mapped as *mut c_void
}

/// Serialises the tests, from their first line on: an injected failure hits the next large allocation of any thread.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs `operation` on a fresh state while its first, second, … large allocation fails, until each has failed: alone,
/// and together with all later ones. Each time it must succeed anyway or report how much memory was missing, and
/// `check` checks the resulting state. Returns the number of allocations, and the number of errors.
fn fail_each<S>(
    what: &str,
    mut prepare: impl FnMut() -> S,
    mut operation: impl FnMut(&mut S) -> Result<(), Error>,
    mut check: impl FnMut(S),
) -> (usize, usize) {
    let is_traced = std::env::var_os("KILN_TEST_ALLOCATIONS").is_some();
    IS_TRACED.store(is_traced, Ordering::SeqCst);
    let (mut refused, mut n_errors) = (Vec::new(), 0);
    for is_lasting in [false, true] {
        IS_LASTING.store(is_lasting, Ordering::SeqCst);
        for n in 0.. {
            let mut state = prepare();
            FAILED.store(0, Ordering::SeqCst);
            UNTIL_FAILURE.store(n, Ordering::SeqCst);
            let result = operation(&mut state);
            UNTIL_FAILURE.store(-1, Ordering::SeqCst);
            let bytes = FAILED.load(Ordering::SeqCst);
            if bytes == 0 {
                result.unwrap_or_else(|error| panic!("{what}: nothing failed, and yet: {error}"));
                break;
            }
            refused.push(bytes);
            if let Err(error) = result {
                n_errors += 1;
                let place = format!("{what}: allocation {n} of {bytes} bytes: {error}");
                assert_eq!(error.kind(), ErrorKind::Resource, "{place}");
                assert!(states_a_size(&error), "{place}");
            }
            check(state);
        }
    }
    println!(
        "{what}: {n_errors} errors of {}: {refused:?}",
        refused.len()
    );
    (refused.len(), n_errors)
}

/// Whether an error contains a number of bytes that could be a large allocation.
fn states_a_size(error: &Error) -> bool {
    let text = error.to_string();
    let mut words = text.split_whitespace();
    words.any(|word| word.parse().is_ok_and(|said: usize| said >= LARGE / 2))
}

fn options(device: Device) -> Options {
    Options::new()
        .device(device)
        .threads(1)
        .shared_kernels(false)
        .cache(Cache::off())
}

/// Elements that equal their positions.
fn counting(dtype: DType, shape: &[usize]) -> Tensor {
    let n: usize = shape.iter().product();
    match dtype {
        DType::I64 => Tensor::from_vec(shape, (0..n).map(|i| (i * 7 % 16) as i64).collect()),
        DType::U64 => Tensor::from_vec(shape, (0..n as u64).collect()),
        _ => Tensor::from_vec(shape, (0..n).map(|i| (i % 13) as f32 - 6.0).collect()),
    }
    .unwrap()
}

/// An input: its name, dtype and shape, in which 0 stands for the number of rows.
type Input = (&'static str, DType, &'static [usize]);

fn inputs(inputs: &[Input], rows: usize) -> Vec<(String, Tensor)> {
    let input = |&(name, dtype, shape): &Input| {
        let size = |&size: &usize| if size == 0 { rows } else { size };
        let shape: Vec<usize> = shape.iter().map(size).collect();
        (name.to_owned(), counting(dtype, &shape))
    };
    inputs.iter().map(input).collect()
}

fn call(model: &Model, inputs: &[(String, Tensor)]) -> Result<Outputs, Error> {
    model.run(inputs)
}

fn bytes_of(outputs: &Outputs) -> Vec<Vec<u8>> {
    let bytes = |(_, output): (&str, &Tensor)| {
        let output = output.contiguous().unwrap();
        output.as_bytes().unwrap().to_vec()
    };
    outputs.iter().map(bytes).collect()
}

/// A description of each graph, its text after the name, and its inputs. The buffers are large with [`ROWS`] rows.
const CASES: &[(&str, &str, &[Input])] = &[
    (
        "products, reductions and maps",
        "(%x: f32[N, 64], %w: f32[64, 96]) -> (f32[N, 96], f32[N], f32[N, 96]) {
          %0 = matmul %x, %w
          %1 = relu %0
          %2 = reduce %1 {function = sum, axes = [1]}
          %3 = exp %0
          return %1, %2, %3
        }",
        &[("x", DType::F32, &[0, 64]), ("w", DType::F32, &[64, 96])],
    ),
    (
        "movement",
        "(%x: f32[N, 64]) -> (f32[2 * N, 64], f32[64, N], f32[N + 1, 64], f32[N, 64], i32[N, 64]) {
          %0 = concat %x, %x {axis = 0}
          %1 = transpose %x {permutation = [1, 0]}
          %zero: f32[] = constant [0.0]
          %2 = pad %x, %zero {low = [1, 0], high = [0, 0], mode = constant}
          %3 = slice %x {starts = [N - 1, 0], sizes = [N, 64], steps = [-1, 1]}
          %4 = cast %x {to = i32}
          return %0, %1, %2, %3, %4
        }",
        &[("x", DType::F32, &[0, 64])],
    ),
    (
        "windows",
        "(%x: f32[1, 3, N, 64], %w: f32[4, 3, 3, 3]) -> (f32[1, 4, N, 64], f32[1, 3, N, 64], f32[1, 3, N, 64], i64[1, 3, N, 64]) {
          %0 = conv %x, %w {strides = [1, 1], dilations = [1, 1], low = [1, 1], high = [1, 1], groups = 1}
          %1 = conv_transpose %0, %w {strides = [1, 1], dilations = [1, 1], low = [1, 1], high = [1, 1], output_padding = [0, 0], groups = 1}
          %2 = pool %x {function = max, size = [3, 3], strides = [1, 1], dilations = [1, 1], low = [1, 1], high = [1, 1]}
          %3 = arg_pool %x {size = [3, 3], strides = [1, 1], dilations = [1, 1], low = [1, 1], high = [1, 1]}
          return %0, %1, %2, %3
        }",
        &[
            ("x", DType::F32, &[1, 3, 0, 64]),
            ("w", DType::F32, &[4, 3, 3, 3]),
        ],
    ),
    (
        "resizing",
        "(%x: f32[1, 3, N, 64]) -> f32[1, 3, 2 * N, 64] {
          %0 = resize %x {axes = [2], sizes = [2 * N], scales = [2.0], mode = linear, coordinates = half_pixel, rounding = prefer_ceil, cubic_coefficient = -0.5}
          return %0
        }",
        &[("x", DType::F32, &[1, 3, 0, 64])],
    ),
    (
        "order",
        "(%x: f32[N, 64]) -> (f32[N, 60], i64[N, 60], f32[N, 64], i64[64]) {
          %0, %1 = top_k %x {k = 60, axis = 1, extremum = max}
          %2 = cumulate %x {function = sum, axis = 0}
          %3 = arg_reduce %x {extremum = max, axis = 0}
          return %0, %1, %2, %3
        }",
        &[("x", DType::F32, &[0, 64])],
    ),
    (
        "indices",
        "(%x: f32[16, 64], %i: i64[N], %j: i64[N, 1], %u: f32[N, 64], %e: i64[N, 16]) -> (f32[N, 64], f32[16, 64], f32[N, 64], f32[N, 16]) {
          %0 = gather %x, %i {axis = 0}
          %1 = scatter_nd %x, %j, %u {combine = add}
          %2 = gather_nd %x, %j {batch_axes = 0}
          %3 = gather_elements %u, %e {axis = 0}
          return %0, %1, %2, %3
        }",
        &[
            ("x", DType::F32, &[16, 64]),
            ("i", DType::I64, &[0]),
            ("j", DType::I64, &[0, 1]),
            ("u", DType::F32, &[0, 64]),
            ("e", DType::I64, &[0, 16]),
        ],
    ),
    (
        "sizes that data have",
        "(%x: f32[N, 64]) -> (i64[2, n], f32[t, 64, N]) {
          %at, %count = non_zero %x
          bind %count -> (n)
          %0 = slice %at {starts = [0, 0], sizes = [2, n], steps = [1, 1]}
          %trips: i64[] = constant [2]
          %on: bool[] = constant [true]
          %turned = transpose %x {permutation = [1, 0]}
          %last: f32[64, N], %all: f32[t, 64, N] = loop %trips, %on, %turned {carried = 1} -> (t)
            region(%iteration: i64[], %acc: f32[64, N]) {
              %more: bool[] = constant [true]
              %twice: f32[64, N] = add %acc, %acc
              yield %more, %twice, %twice
            }
          return %0, %all
        }",
        &[("x", DType::F32, &[0, 64])],
    ),
    (
        "branches and random numbers",
        "(%x: f32[N, 64], %key: u64[2]) -> (f32[N, 64], u32[N, 64]) {
          %on: bool[] = constant [true]
          %bits = random_bits %key {dims = [N, 64]}
          %sum = reduce %x {function = sum, axes = [0, 1]}
          %zero: f32[] = constant [0.0]
          %c = lt %sum, %zero
          %0: f32[N, 64] = if %c, %x
            region(%a: f32[N, 64]) {
              yield %a
            }
            region(%a: f32[N, 64]) {
              %b: f32[N, 64] = neg %a
              yield %b
            }
          return %0, %bits
        }",
        &[("x", DType::F32, &[0, 64]), ("key", DType::U64, &[2])],
    ),
    (
        "pages of the system",
        "(%x: f32[4096, N]) -> f32[4096, N] {
          %0 = add %x, %x
          return %0
        }",
        &[("x", DType::F32, &[4096, 0])],
    ),
];

/// The number of rows in the first call, and in one that needs more memory.
const ROWS: usize = 500;
const MORE_ROWS: usize = 700;

#[test]
fn each_large_allocation_of_a_call_may_fail() {
    let _alone = alone();
    for (what, body, wanted) in CASES {
        for device in [Device::interpreter(), Device::cpu()] {
            let text = format!("graph @f{body}");
            let load = || options(device.clone()).load(Source::text(&text)).unwrap();
            let few = inputs(wanted, ROWS);
            let many = inputs(wanted, MORE_ROWS);
            let copies = inputs(wanted, MORE_ROWS);
            let model = load();
            let of_few = bytes_of(&call(&model, &few).unwrap());
            let of_many = bytes_of(&call(&model, &many).unwrap());
            let is_right = |model: Model| {
                assert!(
                    bytes_of(&call(&model, &few).unwrap()) == of_few,
                    "{what}: few rows"
                );
                assert!(
                    bytes_of(&call(&model, &many).unwrap()) == of_many,
                    "{what}: many rows"
                );
                for ((_, input), (_, copy)) in many.iter().zip(&copies) {
                    assert!(input.as_bytes().unwrap() == copy.as_bytes().unwrap());
                }
            };
            let what = |when: &str| format!("{what}, {device:?}, {when}");
            let (n_allocations, n_errors) = fail_each(
                &what("first call"),
                load,
                |model| call(model, &few).map(drop),
                is_right,
            );
            assert!(n_allocations > 0 && n_errors > 0);
            let warm = || {
                let model = load();
                call(&model, &few).unwrap();
                model
            };
            for (when, inputs) in [("later call", &few), ("growing call", &many)] {
                fail_each(
                    &what(when),
                    warm,
                    |model| call(model, inputs).map(drop),
                    |model| {
                        is_right(model);
                    },
                );
            }
        }
    }
}

/// The format in which a model is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kept {
    /// Everything in one file.
    Inside,
    /// Weights in an external file.
    Beside,
    /// A bundle.
    Bundle,
}

/// `y = relu(x w + (a - b)) c'`: weights that are packed, folded and transposed, each of which is large.
fn graph() -> Graph {
    let mut builder = GraphBuilder::new("weights");
    let [one, inner, outer] = [ROWS as i64, 64, 512].map(|size| builder.size(size));
    let x = builder.input("x", DType::F32, &[one, inner]);
    let mut constant = |shape: &[usize]| builder.constant(counting(DType::F32, shape)).unwrap();
    let (w, a, b, c) = (
        constant(&[64, 512]),
        constant(&[ROWS, 512]),
        constant(&[ROWS, 512]),
        constant(&[48, 512]),
    );
    let _ = outer;
    let product = builder.matmul(x, w).unwrap();
    let bias = builder.map("sub", &[a, b]).unwrap();
    let sum = builder.add(product, bias).unwrap();
    let positive = builder.map("relu", &[sum]).unwrap();
    let turned = builder.transpose(c, &[1, 0]).unwrap();
    let y = builder.matmul(positive, turned).unwrap();
    builder.finish(&[("y", y)]).unwrap()
}

fn kept_model(folder: &Path, kept: Kept) -> PathBuf {
    let path = folder.join("model.onnx");
    let shapes = [vec![ROWS, 64]];
    match kept {
        Kept::Inside => fs::write(&path, to_onnx(&graph(), &shapes).unwrap()).unwrap(),
        Kept::Beside => {
            let (model, weights) = to_onnx_beside(&graph(), &shapes, "weights.bin").unwrap();
            fs::write(&path, model).unwrap();
            fs::write(folder.join("weights.bin"), weights).unwrap();
        }
        Kept::Bundle => {
            let path = folder.join("model.kiln-bundle");
            let model = options(Device::cpu()).load(Source::graph(graph())).unwrap();
            model.save_bundle(&path, None).unwrap();
            return path;
        }
    }
    path
}

/// The input of a model of [`graph`].
fn input_of(model: &Model) -> [(String, Tensor); 1] {
    let name = model.inputs()[0].name().to_owned();
    [(name, counting(DType::F32, &[ROWS, 64]))]
}

#[test]
fn each_large_allocation_of_storing_a_model_may_fail() {
    let _alone = alone();
    let folder = TempDir::new().unwrap();
    let path = kept_model(folder.path(), Kept::Beside);
    let load = |cache: &TempDir| {
        options(Device::cpu())
            .cache(Cache::folder(cache.path()))
            .load(&path)
    };
    let answer = |model: &Model| bytes_of(&call(model, &input_of(model)).unwrap());
    let right = answer(&load(&TempDir::new().unwrap()).unwrap());
    let input = counting(DType::F32, &[ROWS, 64]);
    let (n_allocations, n_errors) = fail_each(
        "a load and a call that store",
        || TempDir::new().unwrap(),
        |cache| {
            let model = load(cache)?;
            model.run([(model.inputs()[0].name(), &input)]).map(drop)
        },
        |cache| assert!(answer(&load(&cache).unwrap()) == right),
    );
    assert!(n_allocations > 0 && n_errors > 0);
}

#[test]
fn each_large_allocation_of_a_load_may_fail() {
    let _alone = alone();
    let answer = |model: &Model| bytes_of(&call(model, &input_of(model)).unwrap());
    for kept in [Kept::Inside, Kept::Beside, Kept::Bundle] {
        let folder = TempDir::new().unwrap();
        let path = kept_model(folder.path(), kept);
        let stored = options(Device::cpu()).cache(Cache::folder(folder.path().join("cache")));
        let mut ways = vec![
            ("interpreted", options(Device::interpreter())),
            ("compiled", options(Device::cpu())),
        ];
        if kept != Kept::Bundle {
            ways.push(("stored", stored));
        }
        for (way, options) in ways {
            let load = || match kept {
                // SAFETY: it was saved a few lines above.
                Kept::Bundle => unsafe { Model::open_bundle(&path, options.clone()) },
                Kept::Inside | Kept::Beside => options.load(&path),
            };
            let right = answer(&load().unwrap());
            fail_each(
                &format!("{kept:?}, {way}, load"),
                || None,
                |model| {
                    *model = Some(load()?);
                    Ok(())
                },
                |model| {
                    assert!(model.is_none_or(|model| answer(&model) == right));
                    assert!(answer(&load().unwrap()) == right);
                },
            );
            let input = input_of(&load().unwrap());
            let (_, n_errors) = fail_each(
                &format!("{kept:?}, {way}, first call"),
                || load().unwrap(),
                |model| call(model, &input).map(drop),
                |model| assert!(answer(&model) == right),
            );
            assert!(n_errors > 0);
        }
    }
}
