//! The executor on a simulated driver: results, order, lifetimes, graphs, transfers, errors.
#![allow(unsafe_code, reason = "launches on memory of their own")]
#![allow(clippy::unwrap_used, reason = "a test that cannot continue panics")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use kiln_backend::{
    Artifact, BatchKey, Builtin, BuiltinOperand, ExecuteError, Execution, FaultCause,
    KernelExecutor, Launch, LaunchContext, LaunchNumbers, LoadedKernel, Memory, MemoryLimits,
    MemorySlice, Resident, StopSignal,
};
use kiln_codegen_cuda::CudaExecutor;
use kiln_codegen_cuda::driver::mock::{ILLEGAL_ADDRESS, MockCompiler, MockDriver, OUT_OF_MEMORY};
use kiln_native::NativeExecutor;
use kiln_tensor::{DType, Tensor};

const DOUBLE: &str = "kernel @double(%x: in f32[N], %y: out f32[N]) {
  outer i < N
  store %y[i] = %x[i] * 2.0
}";

const TAKE: &str = "kernel @take(%x: in f32[N], %at: in i64[M], %y: out f32[M]) {
  outer i < M
  store %y[i] = %x[%at[i]]
}";

/// A kernel loaded on a device.
struct Loaded {
    artifact: Artifact,
    loaded: LoadedKernel,
}

fn load(device: &CudaExecutor, text: &str) -> Result<Loaded, ExecuteError> {
    let kernel = kiln_kernel::verify(kiln_kernel::text::read(text).unwrap()).unwrap();
    let artifact = MockCompiler::artifact(&kernel);
    let loaded = device.load(&artifact)?;
    Ok(Loaded { artifact, loaded })
}

impl Loaded {
    fn numbers(&self, symbols: &[i64]) -> LaunchNumbers {
        let context = LaunchContext {
            symbols,
            threads: 1,
            caches: [1 << 15, 1 << 20, 1 << 24],
        };
        self.artifact.numbers(&context).unwrap()
    }
}

fn whole(memory: &Memory) -> MemorySlice<'_> {
    MemorySlice {
        memory,
        offset: 0,
        bytes: memory.bytes(),
    }
}

fn launch(
    run: &mut dyn Execution,
    kernel: &Loaded,
    symbols: &[i64],
    buffers: &[&Memory],
) -> Result<(), ExecuteError> {
    let numbers = kernel.numbers(symbols);
    let buffers: Vec<_> = buffers.iter().map(|memory| whole(memory)).collect();
    let launch = Launch {
        buffers: &buffers,
        numbers: &numbers,
    };
    // SAFETY: the tests give each launch its own memory.
    unsafe { run.launch(&kernel.loaded, &launch) }
}

fn ramp(n: usize) -> Tensor {
    let numbers: Vec<f32> = (0..n).map(|i| i as f32 * 0.5 - 3.0).collect();
    Tensor::from_vec(&[n], numbers).unwrap()
}

fn doubled(n: usize) -> Vec<f32> {
    (0..n).map(|i| i as f32 - 6.0).collect()
}

/// Doubles a tensor `times` times; returns the elements.
fn double(device: &CudaExecutor, n: usize, times: usize) -> Result<Vec<f32>, ExecuteError> {
    let kernel = load(device, DOUBLE)?;
    let mut run = device.begin();
    let mut x = device.upload(&ramp(n))?;
    for _ in 0..times {
        let y = device.alloc(n * 4)?;
        launch(&mut *run, &kernel, &[n as i64], &[&x, &y])?;
        x = y;
    }
    assert_eq!(run.finish()?, None);
    let y = device.download(&x, 0, DType::F32, &[n])?;
    Ok(y.to_vec().unwrap())
}

fn on(driver: &MockDriver) -> CudaExecutor {
    CudaExecutor::on(driver.clone()).unwrap()
}

#[test]
fn chains_of_launches_are_right_at_every_edge_size() {
    for n in [0, 1, 2, 3, 31, 127, 128, 129] {
        let driver = MockDriver::new();
        assert_eq!(double(&on(&driver), n, 1).unwrap(), doubled(n), "{n}");
        let four = double(&on(&driver), n, 2).unwrap();
        assert_eq!(four, doubled(n).iter().map(|x| x * 2.0).collect::<Vec<_>>());
        assert_eq!(
            (driver.used_bytes(), driver.living()),
            ((0, 0), [0; 4]),
            "{n}"
        );
    }
}

#[test]
fn uploads_longer_than_the_slots_arrive() {
    let driver = MockDriver::new();
    let device = on(&driver);
    // More than two page-locked slots, and a remainder.
    let bytes: Vec<u8> = (0..9_437_189_u32).map(|i| (i % 251) as u8).collect();
    let tensor = Tensor::from_slice(&[bytes.len()], &bytes).unwrap();
    let memory = device.upload(&tensor).unwrap();
    let back = device
        .download(&memory, 0, DType::U8, &[bytes.len()])
        .unwrap();
    assert_eq!(back.as_bytes().unwrap(), bytes);
    let part = device
        .download(&memory, 5_000_000, DType::U8, &[3])
        .unwrap();
    assert_eq!(part.as_bytes().unwrap(), &bytes[5_000_000..5_000_003]);
    let statistics = device.statistics();
    assert_eq!((statistics.uploads, statistics.downloads), (1, 2));
    assert_eq!(statistics.uploaded_bytes, bytes.len() as u64);
}

#[test]
fn tensors_that_are_on_the_device_are_not_uploaded() {
    let driver = MockDriver::new();
    let device = on(&driver);
    let executor: Arc<dyn KernelExecutor> = Arc::new(device.clone());
    let memory = device.upload(&ramp(8)).unwrap();
    let tensor = Resident::tensor(&executor, &memory, 0, DType::F32, &[8]).unwrap();
    let same = device.upload(&tensor).unwrap();
    assert!(Arc::ptr_eq(same.handle(), memory.handle()));
    // A slice is copied within the device.
    let part = device.upload(&tensor.narrow(0, 3, 2).unwrap()).unwrap();
    let part = device.download(&part, 0, DType::F32, &[2]).unwrap();
    assert_eq!(part.to_vec::<f32>().unwrap(), [-1.5, -1.0]);
    assert_eq!(device.statistics().uploads, 1);
    // A tensor of another device is downloaded and uploaded.
    let other = on(&MockDriver::new());
    let copy = other.upload(&tensor).unwrap();
    assert_eq!(other.statistics().uploads, 1);
    let error = device.download(&copy, 0, DType::F32, &[8]).unwrap_err();
    assert_eq!(error.code, "E0565");
}

#[test]
fn a_fault_names_its_launch_and_the_next_run_has_none() {
    let device = on(&MockDriver::new());
    let double = load(&device, DOUBLE).unwrap();
    let take = load(&device, TAKE).unwrap();
    let x = device.upload(&ramp(4)).unwrap();
    let y = device.alloc(16).unwrap();
    let at = |index: i64| {
        device
            .upload(&Tensor::from_slice(&[1], &[index]).unwrap())
            .unwrap()
    };
    let (good, bad) = (at(3), at(4));
    let mut run = device.begin();
    let z = device.alloc(4).unwrap();
    for index in [&good, &bad, &bad] {
        launch(&mut *run, &double, &[4], &[&x, &y]).unwrap();
        launch(&mut *run, &take, &[4, 1], &[&x, index, &z]).unwrap();
    }
    let fault = run.finish().unwrap().unwrap();
    assert_eq!(
        (fault.launch, fault.cause),
        (3, FaultCause::IndexOutOfRange)
    );
    launch(&mut *run, &take, &[4, 1], &[&x, &good, &z]).unwrap();
    assert_eq!(run.finish().unwrap(), None);
    assert_eq!(
        device
            .download(&z, 0, DType::F32, &[1])
            .unwrap()
            .to_vec::<f32>()
            .unwrap(),
        [-1.5]
    );
}

/// Launches a chain as one batch; returns the elements of the last result.
fn batch(
    device: &CudaExecutor,
    run: &mut dyn Execution,
    kernel: &Loaded,
    key: usize,
    n: usize,
) -> Vec<f32> {
    let memories = [
        device.upload(&ramp(n)).unwrap(),
        device.alloc(n * 4).unwrap(),
        device.alloc(n * 4).unwrap(),
    ];
    let numbers = kernel.numbers(&[n as i64]);
    let [x, y, z] = &memories;
    let (first, second) = ([whole(x), whole(y)], [whole(y), whole(z)]);
    let launches = [first, second];
    let launches: Vec<_> = launches
        .iter()
        .map(|buffers| {
            let numbers = &numbers;
            (&kernel.loaded, Launch { buffers, numbers })
        })
        .collect();
    let key = BatchKey {
        plan: 7,
        first: key,
    };
    // SAFETY: the memories are used by this batch only.
    unsafe { run.launch_batch(key, &launches) }.unwrap();
    run.finish().unwrap();
    let z = device.download(z, 0, DType::F32, &[n]).unwrap();
    z.to_vec().unwrap()
}

#[test]
fn a_repeated_batch_becomes_a_graph_and_is_patched_for_other_memories() {
    let driver = MockDriver::new();
    let device = on(&driver);
    let kernel = load(&device, DOUBLE).unwrap();
    let mut run = device.begin();
    let expected: Vec<f32> = doubled(5).iter().map(|x| x * 2.0).collect();
    for round in 0..6 {
        // Uses different memory in each round.
        let kept = device.alloc(256 * (round + 1)).unwrap();
        assert_eq!(batch(&device, &mut *run, &kernel, 0, 5), expected);
        drop(kept);
    }
    let statistics = device.statistics();
    assert_eq!((statistics.launches, statistics.graphs_built), (2, 1));
    assert_eq!(
        (statistics.graphs_launched, statistics.graph_launches),
        (5, 10)
    );
    assert!(statistics.nodes_updated > 0);
    // The number of graphs is bounded.
    for _ in 0..2 {
        for key in 1..=40 {
            assert_eq!(batch(&device, &mut *run, &kernel, key, 5), expected);
        }
    }
    assert!(driver.living()[1] <= 32);
    drop((run, kernel, device));
    assert_eq!(driver.living(), [0; 4]);
}

#[test]
fn a_driver_that_refuses_graphs_launches_one_by_one() {
    let driver = MockDriver::new();
    driver.refuse_graphs();
    let device = on(&driver);
    let kernel = load(&device, DOUBLE).unwrap();
    let mut run = device.begin();
    let expected: Vec<f32> = doubled(3).iter().map(|x| x * 2.0).collect();
    for _ in 0..4 {
        assert_eq!(batch(&device, &mut *run, &kernel, 0, 3), expected);
    }
    let statistics = device.statistics();
    assert_eq!((statistics.graphs_refused, statistics.launches), (1, 8));
}

#[test]
fn a_launch_that_does_not_fit_its_kernel_is_refused() {
    let device = on(&MockDriver::new());
    let kernel = load(&device, DOUBLE).unwrap();
    let [x, short] = [16, 12].map(|bytes| device.alloc(bytes).unwrap());
    let mut run = device.begin();
    let error = launch(&mut *run, &kernel, &[4], &[&x, &short]).unwrap_err();
    assert_eq!(
        error.to_string(),
        "buffer y of kernel double: expected at least 16 bytes, found 12"
    );
    assert!(launch(&mut *run, &kernel, &[4], &[&x]).is_err());
    let host = NativeExecutor::new();
    let foreign = host.alloc(16).unwrap();
    assert!(launch(&mut *run, &kernel, &[4], &[&x, &foreign]).is_err());
    let other = load(&on(&MockDriver::new()), DOUBLE).unwrap();
    let y = device.alloc(16).unwrap();
    assert_eq!(
        launch(&mut *run, &other, &[4], &[&x, &y]).unwrap_err().code,
        "E0565"
    );
    // In a batch, the launches before the invalid one run.
    let numbers = kernel.numbers(&[4]);
    let (fits, too_short) = ([whole(&x), whole(&y)], [whole(&y), whole(&short)]);
    let launches = [fits, too_short].map(|buffers| buffers.to_vec());
    let launches: Vec<_> = launches
        .iter()
        .map(|buffers| {
            let numbers = &numbers;
            (&kernel.loaded, Launch { buffers, numbers })
        })
        .collect();
    let key = BatchKey { plan: 1, first: 0 };
    // SAFETY: the memories are used by this batch only.
    let (position, error) = unsafe { run.launch_batch(key, &launches) }.unwrap_err();
    assert_eq!((position, error.code), (1, "E0565"));
    run.finish().unwrap();
    assert_eq!(device.statistics().launches, 1);
}

#[test]
fn code_that_is_damaged_or_for_another_architecture_is_refused() {
    let device = on(&MockDriver::new());
    let kernel = kiln_kernel::verify(kiln_kernel::text::read(DOUBLE).unwrap()).unwrap();
    let parts = MockCompiler::artifact(&kernel).to_parts();
    let code = kiln_codegen_cuda::DeviceCode::from_bytes(&parts.code).unwrap();
    let with = |change: &dyn Fn(&mut kiln_codegen_cuda::DeviceCode)| {
        let (mut code, mut parts) = (code.clone(), parts.clone());
        change(&mut code);
        parts.code = code.to_bytes().unwrap();
        // SAFETY: the mock evaluates texts.
        device.load(&unsafe { Artifact::trusted(parts) })
    };
    let error = with(&|code| code.arch = "sm_80".to_owned()).unwrap_err();
    assert_eq!(
        (error.code, error.to_string().as_str()),
        (
            "E0566",
            "code for sm_80 cannot run on cuda:0, which runs code for sm_90a; compile for that level"
        )
    );
    assert_eq!(
        with(&|code| code.cubin = b"no cubin".to_vec())
            .unwrap_err()
            .code,
        "E0563"
    );
    assert_eq!(
        with(&|code| code.entries.clear()).unwrap_err().code,
        "E0565"
    );
    let mut damaged = parts.clone();
    damaged.code.truncate(30);
    // SAFETY: as above.
    let error = device
        .load(&unsafe { Artifact::trusted(damaged) })
        .unwrap_err();
    assert_eq!(error.code, "E0550");
    assert!(device.is_healthy());
}

#[test]
fn a_sticky_error_at_any_call_makes_every_later_operation_a_lost_device() {
    let mut n_lost = 0;
    for calls in 0.. {
        let driver = MockDriver::new();
        let device = on(&driver);
        let kept = device.upload(&ramp(3)).unwrap();
        let loaded = load(&device, DOUBLE).unwrap();
        let mut waiting = device.begin();
        let y = device.alloc(12).unwrap();
        launch(&mut *waiting, &loaded, &[3], &[&kept, &y]).unwrap();
        driver.fail_after(calls, ILLEGAL_ADDRESS);
        let kernel = load(&device, DOUBLE);
        let ran = double(&device, 5, 2);
        let mut run = device.begin();
        let batched = kernel.as_ref().map(|kernel| {
            let numbers = kernel.numbers(&[3]);
            let buffers = [whole(&kept), whole(&y)];
            let launch = Launch {
                buffers: &buffers,
                numbers: &numbers,
            };
            let launches = [(&kernel.loaded, launch); 2];
            let key = BatchKey { plan: 1, first: 0 };
            (0..3).try_for_each(|_| {
                // SAFETY: the memories are used by this batch only.
                let launched = unsafe { run.launch_batch(key, &launches) };
                launched.map_err(|(_, error)| error)?;
                run.finish().map(drop)
            })
        });
        if ran.is_ok() && matches!(batched, Ok(Ok(()))) && device.is_healthy() {
            break;
        }
        n_lost += 1;
        assert!(!device.is_healthy(), "after {calls}");
        let errors = [
            ran.err().map(|error| error.code),
            Some(device.alloc(1).unwrap_err().code),
            Some(device.upload(&ramp(3)).unwrap_err().code),
            Some(
                device
                    .download(&kept, 0, DType::F32, &[3])
                    .unwrap_err()
                    .code,
            ),
            Some(device.load(&loaded.artifact).unwrap_err().code),
            Some(waiting.finish().unwrap_err().code),
            Some(device.begin().finish().unwrap_err().code),
            Some(
                launch(&mut *waiting, &loaded, &[3], &[&kept, &y])
                    .unwrap_err()
                    .code,
            ),
        ];
        for code in errors.into_iter().flatten() {
            assert_eq!(code, ExecuteError::DEVICE_LOST, "after {calls}");
        }
        // Releasing does not panic.
        drop((kept, y, run, waiting, loaded, device));
    }
    assert!(n_lost > 30, "{n_lost}");
}

#[test]
fn an_access_out_of_memory_loses_the_device_and_not_the_process() {
    let driver = MockDriver::new();
    // Each memory is its own segment, so that an access beyond it is detected.
    let limits = MemoryLimits::new().with_total_bytes(1024);
    let device = on(&driver).with_memory_limits(limits);
    let kernel = load(&device, DOUBLE).unwrap();
    // An artifact that declares too few bytes.
    let mut parts = kernel.artifact.to_parts();
    for buffer in &mut parts.buffers {
        buffer.bytes = kiln_backend::Quantity::constant(0);
    }
    // SAFETY: the mock evaluates texts, and detects accesses outside its memory.
    let artifact = unsafe { Artifact::trusted(parts) };
    let wrong = Loaded {
        loaded: device.load(&artifact).unwrap(),
        artifact,
    };
    let [x, y] = [4, 4].map(|bytes| device.alloc(bytes).unwrap());
    let mut run = device.begin();
    let launched = launch(&mut *run, &wrong, &[100], &[&x, &y]);
    let finished = run.finish();
    assert!(launched.is_err() || finished.is_err());
    let error = run.finish().unwrap_err();
    assert!(error.is_device_lost());
    assert!(
        error.to_string().contains("CUDA_ERROR_ILLEGAL_ADDRESS"),
        "{error}"
    );
}

#[test]
fn memory_that_is_short_at_any_call_is_a_typed_error_and_a_retry_works() {
    let mut n_failed = 0;
    for calls in 0.. {
        let driver = MockDriver::new();
        let device = on(&driver);
        driver.fail_after(calls, OUT_OF_MEMORY);
        let before = driver.calls();
        match double(&device, 5, 2) {
            Ok(found) => {
                assert_eq!(
                    found,
                    doubled(5).iter().map(|x| x * 2.0).collect::<Vec<_>>()
                );
                if driver.calls() - before <= calls {
                    break;
                }
            }
            Err(error) => {
                n_failed += 1;
                // A device that cannot be synchronised is lost, since it is unknown what is still running.
                if error.is_device_lost() {
                    continue;
                }
                assert!(error.out_of_memory, "{error}");
            }
        }
        assert!(device.is_healthy());
        assert_eq!(double(&device, 3, 1).unwrap(), doubled(3), "after {calls}");
        drop(device);
        assert_eq!(
            (driver.used_bytes(), driver.living()),
            ((0, 0), [0; 4]),
            "after {calls}"
        );
    }
    assert!(n_failed > 5, "{n_failed}");
}

#[test]
fn device_memory_that_is_full_is_an_error_with_sizes() {
    let driver = MockDriver::with_memory(1 << 20);
    let device = on(&driver);
    let kept = device.alloc(600 << 10).unwrap();
    let error = device.alloc(600 << 10).unwrap_err();
    assert!(error.out_of_memory);
    assert_eq!(error.code, "E0564");
    assert!(
        error
            .to_string()
            .contains("614400 bytes of memory of device cuda:0"),
        "{error}"
    );
    drop(kept);
    // Cached memory is freed to make space for another size.
    device.alloc(900 << 10).unwrap();
    assert_eq!(device.memory_pool().unwrap().stats().rented_bytes, 0);
}

#[test]
fn device_memory_stays_within_its_limit() {
    let driver = MockDriver::new();
    let limits = MemoryLimits::new()
        .with_total_bytes(100_000)
        .with_kept_bytes(60_000);
    let device = on(&driver).with_memory_limits(limits);
    let first = device.alloc(60_000).unwrap();
    let error = device.alloc(50_000).unwrap_err();
    assert_eq!((error.code, error.out_of_memory), ("E0568", true));
    drop(first);
    let second = device.alloc(99_000).unwrap();
    assert!(driver.used_bytes().0 <= 100_000 + 4096);
    drop(second);
    let pool = device.memory_pool().unwrap();
    assert!(pool.stats().kept_bytes <= 60_000);
    assert_eq!(pool.stats().refusals, 1);
    device.alloc(1000).unwrap();
    pool.trim(0);
    assert_eq!(pool.stats().kept_bytes, 0);
    assert_eq!(device.alloc(usize::MAX).unwrap_err().code, "E0568");
}

fn operand<'a>(
    memory: &'a Memory,
    dtype: DType,
    shape: &'a [usize],
) -> (MemorySlice<'a>, BuiltinOperand<'a>) {
    (whole(memory), BuiltinOperand { dtype, shape })
}

#[test]
fn copies_run_on_the_device_and_sorting_on_the_host_which_is_counted() {
    let driver = MockDriver::new();
    let device = on(&driver);
    let kernel = load(&device, DOUBLE).unwrap();
    let x = device.upload(&ramp(5)).unwrap();
    let [y, z, values] = [20, 20, 8].map(|bytes| device.alloc(bytes).unwrap());
    let indices = device.alloc(16).unwrap();
    let top = Builtin::TopK {
        axis: 0,
        largest: true,
    };
    let sort = |run: &mut dyn Execution| {
        let from = [operand(&z, DType::F32, &[5])];
        let to = [
            operand(&values, DType::F32, &[2]),
            operand(&indices, DType::I64, &[2]),
        ];
        // SAFETY: the memories are used by this run only.
        unsafe { run.run_builtin(&top, &from, &to) }
    };
    let mut run = device.begin();
    launch(&mut *run, &kernel, &[5], &[&x, &y]).unwrap();
    let (from, to) = (
        [operand(&y, DType::F32, &[5])],
        [operand(&z, DType::F32, &[5, 1])],
    );
    // SAFETY: the memories are used by this run only.
    unsafe { run.run_builtin(&Builtin::Copy, &from, &to) }.unwrap();
    assert_eq!(sort(&mut *run).unwrap_err().code, "E0567");
    run.finish().unwrap();
    drop(run);
    let device = device.clone().with_host(Arc::new(NativeExecutor::new()));
    let mut run = device.begin();
    sort(&mut *run).unwrap();
    // Later launches see the result.
    let doubled = device.alloc(8).unwrap();
    launch(&mut *run, &kernel, &[2], &[&values, &doubled]).unwrap();
    run.finish().unwrap();
    let found = device.download(&doubled, 0, DType::F32, &[2]).unwrap();
    assert_eq!(found.to_vec::<f32>().unwrap(), [-4.0, -6.0]);
    let found = device.download(&indices, 0, DType::I64, &[2]).unwrap();
    assert_eq!(found.to_vec::<i64>().unwrap(), [4, 3]);
    assert_eq!(device.statistics().host_builtins, 1);
    // SAFETY: as above.
    let onto_itself = unsafe { run.run_builtin(&Builtin::Copy, &from, &from) };
    assert_eq!(onto_itself.unwrap_err().code, "E0565");
}

#[derive(Default)]
struct Stopped(AtomicU32);

impl StopSignal for Stopped {
    fn is_stopped(&self) -> bool {
        self.0.load(Ordering::SeqCst) != 0
    }

    fn word(&self) -> &AtomicU32 {
        &self.0
    }
}

#[test]
fn runs_with_a_signal_are_waited_for_and_ended() {
    let device = on(&MockDriver::new());
    let kernel = load(&device, DOUBLE).unwrap();
    let x = device.upload(&ramp(5)).unwrap();
    let y = device.alloc(20).unwrap();
    let signal = Arc::new(Stopped::default());
    let mut run = device.begin();
    for is_stopped in [0, 1] {
        signal.0.store(is_stopped, Ordering::SeqCst);
        run.stop_when(Some(Arc::clone(&signal) as Arc<dyn StopSignal>));
        launch(&mut *run, &kernel, &[5], &[&x, &y]).unwrap();
        assert_eq!(run.finish().unwrap(), None);
    }
    run.stop_when(None);
    launch(&mut *run, &kernel, &[5], &[&x, &y]).unwrap();
    run.finish().unwrap();
    let found = device.download(&y, 0, DType::F32, &[5]).unwrap();
    assert_eq!(found.to_vec::<f32>().unwrap(), doubled(5));
}

#[test]
fn counts_name_what_ran_on_the_host() {
    let device = on(&MockDriver::new());
    double(&device, 4, 2).unwrap();
    let executor: &dyn KernelExecutor = &device;
    assert!(executor.is_healthy());
    let counts = executor.counts();
    let count = |name: &str| {
        counts
            .iter()
            .find(|(known, _)| *known == name)
            .map(|(_, n)| *n)
    };
    assert_eq!(count("builtins run on the host"), Some(0));
    assert_eq!(
        (count("launches one by one"), count("uploads")),
        (Some(2), Some(1))
    );
}
