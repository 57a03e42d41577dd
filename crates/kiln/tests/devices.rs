//! Devices registered by a user: found by key, created by their entries, and kept apart in everything that is stored.

#![allow(clippy::unwrap_used, reason = "a test may panic")]
#![allow(unsafe_code, reason = "a bundle that the test made is opened")]
#![cfg(all(feature = "llvm", feature = "onnx"))]

mod onnx_writer;

use kiln::internals::backend::{
    ExecuteError, ExecutorWrapper, IsaLevel, KernelCompiler, KernelExecutor, Memory, Resident,
    Target,
};
use kiln::internals::codegen_llvm::LlvmCompiler;
use kiln::internals::device::{DeviceEntry, DeviceProblem, DeviceSetup};
use kiln::internals::fusion::FusionOptions;
use kiln::internals::native::NativeExecutor;
use kiln::{Cache, Device, ErrorKind, Model, Options, OutputPlacement, Source, Tensor, diagnose};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Transfers between the host and a device.
#[derive(Default)]
struct Traffic {
    uploads: AtomicUsize,
    downloads: AtomicUsize,
}

impl Traffic {
    fn counts(&self) -> (usize, usize) {
        (
            self.uploads.load(Ordering::SeqCst),
            self.downloads.load(Ordering::SeqCst),
        )
    }
}

/// The CPU with separate memory: every transfer is a copy, and is counted.
struct Apart {
    cpu: NativeExecutor,
    traffic: Arc<Traffic>,
}

impl ExecutorWrapper for Apart {
    type Inner = NativeExecutor;

    fn inner(&self) -> &NativeExecutor {
        &self.cpu
    }

    fn device(&self) -> String {
        "apart".to_owned()
    }

    fn has_own_memory(&self) -> bool {
        true
    }

    fn upload(&self, tensor: &Tensor) -> Result<Memory, ExecuteError> {
        // No other device in this file has separate memory.
        if let Some(place) = Resident::place_of(tensor).filter(|place| place.offset == 0) {
            return Ok(place.memory.clone());
        }
        self.traffic.uploads.fetch_add(1, Ordering::SeqCst);
        self.cpu.upload(&tensor.copied().unwrap())
    }

    fn reupload(&self, tensor: Option<&Tensor>, memory: &mut Memory) -> Result<(), ExecuteError> {
        *memory = match tensor {
            Some(tensor) => ExecutorWrapper::upload(self, tensor)?,
            None => self.cpu.alloc(0)?,
        };
        Ok(())
    }

    fn lends_from(&self) -> usize {
        usize::MAX
    }

    fn download(
        &self,
        memory: &Memory,
        offset: usize,
        dtype: kiln::DType,
        shape: &[usize],
    ) -> Result<Tensor, ExecuteError> {
        self.traffic.downloads.fetch_add(1, Ordering::SeqCst);
        let tensor = self.cpu.download(memory, offset, dtype, shape)?;
        Ok(tensor.copied().unwrap())
    }
}

/// A test device that runs the CPU's code.
struct TestDevice {
    key: &'static str,
    traffic: Arc<Traffic>,
    fusion: FusionOptions,
    problem: Option<&'static str>,
}

impl TestDevice {
    fn new(key: &'static str) -> Self {
        Self {
            key,
            traffic: Arc::default(),
            fusion: FusionOptions::new(),
            problem: None,
        }
    }
}

impl DeviceEntry for TestDevice {
    fn key(&self) -> &str {
        self.key
    }

    fn levels(&self) -> Vec<String> {
        vec!["portable".to_owned()]
    }

    fn target(&self, _level: Option<&str>) -> Result<Target, DeviceProblem> {
        match self.problem {
            Some(problem) => Err(problem.into()),
            None => Ok(LlvmCompiler::target(IsaLevel::Portable)),
        }
    }

    fn compiler(&self, _setup: &DeviceSetup) -> Result<Box<dyn KernelCompiler>, DeviceProblem> {
        Ok(Box::new(LlvmCompiler::new()))
    }

    fn executor(&self, setup: &DeviceSetup) -> Result<Arc<dyn KernelExecutor>, DeviceProblem> {
        Ok(Arc::new(Apart {
            cpu: NativeExecutor::new().with_memory_limits(setup.memory),
            traffic: Arc::clone(&self.traffic),
        }))
    }

    fn fusion(&self) -> FusionOptions {
        self.fusion.clone()
    }
}

const CHAIN: &str = "graph @chain(%x: f32[N]) -> f32[N] {
  %a = exp %x
  %b = add %a, %x
  %c = sqrt %b
  return %c
}";

fn options(device: Device) -> Options {
    Options::new().device(device).cache(Cache::off())
}

fn x() -> Tensor {
    Tensor::from_slice(&[3], &[0.5f32, 1.0, 2.0]).unwrap()
}

fn call(model: &Model, x: &Tensor) -> Tensor {
    model.run([("x", x)]).unwrap()[0].clone()
}

/// The number of kernels that a call launches.
fn launches_of(model: &Model) -> usize {
    let (x, mut steps) = (x(), Vec::new());
    model.call([("x", &x)]).profile(&mut steps).run().unwrap();
    steps.iter().filter(|step| step.kind == "kernel").count()
}

#[test]
fn a_registered_device_is_found_by_its_key_and_runs_models() {
    let entry = TestDevice::new("apart-1");
    let traffic = Arc::clone(&entry.traffic);
    let device = Device::register(entry).unwrap();
    assert_eq!("apart-1".parse::<Device>().unwrap(), device);
    assert!(Device::all().contains(&device));
    let message = "abacus".parse::<Device>().unwrap_err().to_string();
    assert!(
        message.contains("interpreter, cpu") && message.contains("apart-1"),
        "{message}"
    );

    let model = options(device.clone()).load(Source::text(CHAIN)).unwrap();
    let other = options(device.clone()).load(Source::text(CHAIN)).unwrap();
    assert_eq!(model.device(), device);
    let explained = diagnose::explain(&model).unwrap().to_string();
    assert!(explained.contains("on device apart-1\n"), "{explained}");
    // Nothing is transferred between the two models.
    let y = call(&other, &call(&model, &x()));
    assert_eq!((traffic.counts(), y.is_loaded()), ((1, 0), false));
    let reference = options(Device::interpreter())
        .load(Source::text(CHAIN))
        .unwrap();
    let expected = call(&reference, &call(&reference, &x()));
    let close = |(a, b): (&f32, &f32)| (a - b).abs() < 1e-5;
    let (found, expected) = (
        y.to_vec::<f32>().unwrap(),
        expected.to_vec::<f32>().unwrap(),
    );
    assert!(
        found.iter().zip(&expected).all(close),
        "{found:?} {expected:?}"
    );
    assert_eq!(traffic.counts(), (1, 1));
    // The interpreter accepts tensors in any memory.
    assert_eq!(call(&reference, &call(&model, &x())).len(), 3);

    let host = options(device).outputs(OutputPlacement::Host);
    let model = host.load(Source::text(CHAIN)).unwrap();
    assert!(call(&model, &x()).is_loaded());
}

#[test]
fn the_state_of_a_session_stays_on_its_device() {
    const CALLS: usize = 100;
    let entry = TestDevice::new("apart-4");
    let traffic = Arc::clone(&entry.traffic);
    let device = Device::register(entry).unwrap();
    let text = "graph @append(%cache: f32[C, 2], %at: i64[1], %row: f32[1, 2]) -> f32[C, 2] {
      %next = update_slice %cache, %at, %row {axes = [0]}
      return %next
    }";
    let model = options(device).load(Source::text(text)).unwrap();
    let empty = Tensor::full(&[5, 2], -1.0f32).unwrap();
    let session = model.session().state("cache", "next", empty);
    let mut session = session.build().unwrap();
    for call in 0..CALLS {
        let at = Tensor::full(&[1], call as i64 % 4).unwrap();
        let row = Tensor::full(&[1, 2], call as f32).unwrap();
        session.run([("at", &at), ("row", &row)]).unwrap();
        // The cache is transferred once, then only new rows.
        assert_eq!(traffic.counts(), (1 + 2 * (call + 1), 0));
    }
    let rows = session.state("cache").unwrap().to_vec::<f32>().unwrap();
    assert_eq!(
        rows,
        [96.0, 96.0, 97.0, 97.0, 98.0, 98.0, 99.0, 99.0, -1.0, -1.0]
    );
    assert_eq!(traffic.counts(), (1 + 2 * CALLS, 1));
}

#[test]
fn the_device_decides_what_fusion_may_do() {
    let narrow = TestDevice {
        fusion: FusionOptions::new().with_max_ops(1),
        ..TestDevice::new("narrow-1")
    };
    let narrow = Device::register(narrow).unwrap();
    for (device, launches) in [(Device::cpu(), 1), (narrow, 3)] {
        let model = options(device).load(Source::text(CHAIN)).unwrap();
        assert_eq!(launches_of(&model), launches);
        assert_eq!(diagnose::explain(&model).unwrap().count("kernel"), launches);
    }
}

/// `y = Sqrt(Add(Exp(x), x))` of any size.
fn onnx() -> Vec<u8> {
    use onnx_writer::{F32, graph, model, node, value};
    let nodes = ["a = Exp(x)", "b = Add(a, x)", "y = Sqrt(b)"].map(|text| node(text, &[]));
    let [x, y] = ["x", "y"].map(|name| [value(name, F32, Some(&["N"]))]);
    model(&graph(&nodes, &[], &x, &y))
}

#[test]
fn stored_programs_belong_to_one_device() {
    let narrow = TestDevice {
        fusion: FusionOptions::new().with_max_ops(1),
        ..TestDevice::new("narrow-2")
    };
    let narrow = Device::register(narrow).unwrap();
    let wide = Device::register(TestDevice::new("wide-2")).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let (file, cache) = (folder.path().join("m.onnx"), folder.path().join("cache"));
    std::fs::write(&file, onnx()).unwrap();
    let launches = |device: &Device| {
        let options = Options::new()
            .device(device.clone())
            .cache(Cache::folder(&cache));
        let model = options.load(&file).unwrap();
        launches_of(&model)
    };
    // Target and compiler are the same, and each is loaded a second time from the store.
    let both = || (launches(&narrow), launches(&wide));
    assert_eq!([both(), both()], [(3, 1), (3, 1)]);
}

#[test]
fn a_bundle_names_its_device() {
    let entry = TestDevice::new("apart-3");
    let traffic = Arc::clone(&entry.traffic);
    let device = Device::register(entry).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("m.kiln-bundle");
    let model = options(device.clone()).load(Source::text(CHAIN)).unwrap();
    model.save_bundle(&path, None).unwrap();
    // SAFETY: it has just been written.
    let bundle = unsafe { Model::open_bundle(&path, Options::new().cache(Cache::off())) }.unwrap();
    assert_eq!(bundle.device(), device);
    let before = traffic.counts();
    let y = call(&bundle, &x());
    assert_eq!((y.len(), traffic.counts()), (3, (before.0 + 1, before.1)));
}

#[test]
fn taken_and_malformed_device_keys_are_refused() {
    Device::register(TestDevice::new("twice")).unwrap();
    for (key, problem) in [
        ("twice", "another device has this key"),
        ("cpu", "another device has this key"),
        ("interpreter", "another device has this key"),
        ("Odd:key", "expected lower-case letters"),
        ("", "expected lower-case letters"),
    ] {
        let error = Device::register(TestDevice::new(key)).unwrap_err();
        assert_eq!(
            (error.code(), error.kind()),
            ("E0974", ErrorKind::InvalidInput)
        );
        assert!(error.to_string().contains(problem), "{error}");
    }
}

#[test]
fn an_unavailable_device_is_a_typed_error() {
    let absent = TestDevice {
        problem: Some("no card was found"),
        ..TestDevice::new("absent")
    };
    let absent = Device::register(absent).unwrap();
    let error = options(absent).load(Source::text(CHAIN)).unwrap_err();
    assert_eq!(
        (error.code(), error.kind()),
        ("E0998", ErrorKind::Environment)
    );
    assert_eq!(
        error.to_string(),
        "device absent cannot be used: no card was found"
    );
}

#[test]
fn a_level_is_set_by_key_or_target_and_a_conflict_is_refused() {
    let device: Device = "cpu:portable".parse().unwrap();
    let load = |options: Options| options.cache(Cache::off()).load(Source::text(CHAIN));
    let by_key = load(Options::new().device(device.clone())).unwrap();
    let by_target = load(Options::new().device(Device::cpu()).target("portable")).unwrap();
    let by_both = load(Options::new().device(device.clone()).target("portable")).unwrap();
    for model in [by_key, by_target, by_both] {
        assert_eq!(model.device(), device);
    }
    let error = load(Options::new().device(device).target("avx2+fma")).unwrap_err();
    assert_eq!(error.code(), "E0980");
    let error = "cpu:avx9000".parse::<Device>().unwrap_err();
    assert_eq!(
        (error.code(), error.kind()),
        ("E0980", ErrorKind::Environment)
    );
    assert!(error.to_string().contains("portable"), "{error}");
}
