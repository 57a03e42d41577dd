//! The pipeline, the store, the service and the layers, on real kernels.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod support;

use kiln::internals::autodiff::{Cotangents, GradientRequest, differentiate};
use kiln::{Cache, CompilePolicy, Compiling, Device, Options, SealKey, Source, Tensor, diagnose};
use kiln_service::blueprint::{Blueprint, BlueprintLimits, STANDARD};
use kiln_service::layer::{
    CompiledLayer, ConvOptions, DenseOptions, LayerConfig, RanBy, RollbackReason, Switches,
};
use kiln_service::validate::guard::GuardProgram;
use kiln_service::{
    BlueprintCompiler, CancelToken, CheckKind, CompilationStatus, CompileTarget, KernelOptimizer,
    KernelRequest, KernelService, KernelValidator, Outcome, PackageStore, PerformanceBounds,
    ServiceOptions, Stage,
};
use std::sync::Arc;
use std::time::{Duration, Instant};
use support::scaled;

fn key() -> SealKey {
    SealKey::of_secret(&[7; 32])
}

fn compiler() -> BlueprintCompiler {
    let guard = GuardProgram::at(env!("CARGO_BIN_EXE_kiln-guard-runner"));
    support::compiler(support::validator(3).with_guard_program(guard))
}

fn standard(name: &str) -> Blueprint {
    let found = STANDARD.iter().find(|standard| standard.name == name);
    Blueprint::from_json(found.unwrap().json, &BlueprintLimits::default()).unwrap()
}

#[test]
fn gradients_are_checked_at_the_kernels_level_and_their_code_is_kept() {
    let folder = tempfile::tempdir().unwrap();
    let compiler = compiler().with_kernel_cache(folder.path());
    let blueprint = standard("mlp");
    let result = compiler.run(&blueprint, &CompileTarget::Cpu, &CancelToken::default());
    let package = result.into_package().unwrap();
    let graph = compiler.build(&blueprint).unwrap();
    let request = GradientRequest {
        outputs: vec![0],
        inputs: (0..graph.inputs().len()).collect(),
        cotangents: Cotangents::Inputs,
    };
    let joint = differentiate(&graph, &request).unwrap().graph;
    let compiles = |cache: Cache| {
        let compiling = Compiling {
            variants: None,
            ..Compiling::from(CompilePolicy::FirstUse)
        };
        let options = Options::new().device(Device::cpu()).cache(cache);
        let options = options.target(&package.metadata().level).threads(1);
        let options = options.compiling(compiling).shared_kernels(false);
        let model = options.load(Source::graph(joint.clone())).unwrap();
        let shapes: [&[usize]; 6] = [&[4, 64], &[64, 256], &[256], &[256, 64], &[64], &[4, 64]];
        let inputs = shapes.map(|shape| Tensor::full(shape, 0.5f32).unwrap());
        model.run(&inputs).unwrap();
        diagnose::compile_records(&model).len()
    };
    assert!(compiles(Cache::off()) > 0);
    assert_eq!(compiles(Cache::folder(folder.path())), 0);
}

fn service(folder: &std::path::Path, options: ServiceOptions) -> KernelService {
    KernelService::start(compiler(), PackageStore::open(folder).unwrap(), options).unwrap()
}

fn run<T>(work: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_time()
        .build();
    runtime.unwrap().block_on(work)
}

#[test]
fn the_standard_set_compiles_into_checked_packages() {
    for standard in STANDARD {
        let blueprint = Blueprint::from_json(standard.json, &BlueprintLimits::default()).unwrap();
        let result = compiler().run(&blueprint, &CompileTarget::Cpu, &CancelToken::default());
        assert_eq!(
            result.status,
            CompilationStatus::Succeeded,
            "{}: {:?}",
            standard.name,
            result.error
        );
        let stages: Vec<Stage> = result.stages.iter().map(|&(stage, _)| stage).collect();
        let all = [
            Stage::Validate,
            Stage::Build,
            Stage::Compile,
            Stage::Optimize,
            Stage::Check,
            Stage::Package,
        ];
        assert_eq!(stages, all);
        let validation = result.validation.clone().unwrap();
        for kind in [
            CheckKind::Correctness,
            CheckKind::Performance,
            CheckKind::Memory,
            CheckKind::Gradients,
        ] {
            let outcome = validation.outcome(kind).unwrap();
            assert!(
                matches!(outcome, Outcome::Passed(_)),
                "{} {kind}: {outcome:?}",
                standard.name
            );
        }
        let package = result.into_package().unwrap();
        let metadata = package.metadata();
        assert_eq!(
            (metadata.name.as_str(), metadata.device.as_str()),
            (standard.name, "cpu")
        );
        assert!(metadata.bundle_bytes > 0 && metadata.bundle_bytes < 100_000_000);
        assert_eq!(package.open(&key()).unwrap().outputs().len(), 1);
    }
}

#[test]
fn a_run_says_how_far_it_came() {
    let token = CancelToken::default();
    token.cancel();
    let cancelled = compiler().run(&standard("dense"), &CompileTarget::Cpu, &token);
    assert_eq!(cancelled.status, CompilationStatus::Cancelled);
    let mut bad = standard("dense");
    bad.version = 3;
    let refused = compiler().run(&bad, &CompileTarget::Cpu, &CancelToken::default());
    assert_eq!(refused.status, CompilationStatus::Failed(Stage::Validate));
    assert_eq!(refused.into_package().unwrap_err().code(), "E1402");
    let level = CompileTarget::CpuLevel("abacus".to_owned());
    let unknown = compiler().run(&standard("dense"), &level, &CancelToken::default());
    assert_eq!(unknown.status, CompilationStatus::Failed(Stage::Compile));
    let cuda = compiler().run(
        &standard("dense"),
        &CompileTarget::Cuda,
        &CancelToken::default(),
    );
    assert_eq!(cuda.status, CompilationStatus::Failed(Stage::Optimize));
    assert_eq!(cuda.error.unwrap().code(), "E1421");
    let bounds = PerformanceBounds {
        max_time: Some(Duration::from_nanos(1)),
        ..PerformanceBounds::default()
    };
    let strict = compiler().with_validator(KernelValidator {
        bounds,
        shapes: 1,
        ..KernelValidator::default()
    });
    let rejected = strict.run(&scaled(2), &CompileTarget::Cpu, &CancelToken::default());
    assert_eq!(rejected.status, CompilationStatus::Rejected);
    let error = rejected.into_package().unwrap_err();
    assert_eq!(error.code(), "E1423");
    assert!(
        error.to_string().contains("performance: time of a call"),
        "{error}"
    );
}

#[test]
fn a_profile_agrees_with_a_stopwatch() {
    let graph = compiler().build(&standard("mlp")).unwrap();
    let model = compiler().compile(&graph, &CompileTarget::Cpu).unwrap();
    let inputs: Vec<Tensor> = model
        .inputs()
        .iter()
        .map(|input| {
            let dims = input.shape().unwrap().dimensions();
            let shape: Vec<usize> = dims
                .iter()
                .map(|dim| dim.value().unwrap_or(64) as usize)
                .collect();
            Tensor::full(&shape, 0.25f32).unwrap()
        })
        .collect();
    let optimizer = KernelOptimizer {
        measuring: Duration::from_millis(200),
        ..KernelOptimizer::default()
    };
    // Other load on the machine may slow down either measurement of a round, but not both measurements of every round
    // by the factor of a wrong profile.
    let agree = |profiled: f64, stopped: f64| (profiled / stopped - 1.0).abs() < 0.1;
    let mut rounds = Vec::new();
    let mut outputs = model.run(&inputs).unwrap().into_tensors();
    let profile = loop {
        let profile = optimizer.profile_kernel(&model, &inputs).unwrap();
        let mut times: Vec<f64> = (0..profile.calls)
            .map(|_| {
                let begin = Instant::now();
                model.call(&inputs).run_into(&mut outputs).unwrap();
                begin.elapsed().as_secs_f64()
            })
            .collect();
        times.sort_by(f64::total_cmp);
        let round = (profile.time.as_secs_f64(), times[times.len() / 2]);
        rounds.push(round);
        if agree(round.0, round.1) {
            break profile;
        }
        assert!(rounds.len() < 20, "profile, stopwatch: {rounds:?}");
    };
    let expected: usize = inputs.iter().chain(&outputs).map(Tensor::byte_len).sum();
    assert_eq!(profile.least_bytes, expected as u64);
    assert!(profile.cache.ratio > 0.0 && profile.cache.ratio <= 1.0);
    assert!(profile.memory_bytes > 0 && profile.bandwidth > 0.0);
}

#[test]
fn requests_for_one_thing_compile_it_once_and_later_ones_find_it() {
    let folder = tempfile::tempdir().unwrap();
    let blueprint = scaled(3);
    run(async {
        let service = service(folder.path(), ServiceOptions::default());
        let asked: Vec<_> = (0..16)
            .map(|n| {
                let (service, blueprint) = (service.clone(), Arc::clone(&blueprint));
                tokio::spawn(async move {
                    service
                        .get(KernelRequest::new(format!("client {n}"), blueprint))
                        .await
                })
            })
            .collect();
        for asked in asked {
            let kernel = asked.await.unwrap().unwrap();
            let x = Tensor::from_slice(&[2], &[1.0f32, 2.0]).unwrap();
            assert_eq!(
                kernel.model.run([("x", &x)]).unwrap()[0]
                    .to_vec::<f32>()
                    .unwrap(),
                [3.0, 6.0]
            );
        }
        let metrics = service.metrics();
        assert_eq!(
            (metrics.requests, metrics.compiles, metrics.failures),
            (16, 1, 0)
        );
        assert_eq!(metrics.memory_hits + metrics.joined, 15);
        assert!(
            metrics
                .to_prometheus()
                .contains("kiln_service_compiles_total 1\n")
        );
        // Another service finds the package.
        drop(service);
        let service = self::service(folder.path(), ServiceOptions::default());
        service
            .get(KernelRequest::new("later", Arc::clone(&blueprint)))
            .await
            .unwrap();
        let metrics = service.metrics();
        assert_eq!((metrics.compiles, metrics.store_hits), (0, 1));
        assert_eq!(service.store().keys().unwrap().len(), 1);
    });
}

#[test]
fn packages_that_do_not_fit_are_refused_with_a_reason_and_compiled_again() {
    let folder = tempfile::tempdir().unwrap();
    let blueprint = scaled(5);
    run(async {
        let first = service(folder.path(), ServiceOptions::default());
        first
            .get(KernelRequest::new("a", Arc::clone(&blueprint)))
            .await
            .unwrap();
        let key = first.store().keys().unwrap().remove(0);
        drop(first);
        let package = folder.path().join(&key);
        let metadata = std::fs::read_to_string(package.join("package.json")).unwrap();
        let bundle = std::fs::read(package.join("kernel.kiln-bundle")).unwrap();
        let mut torn = bundle.clone();
        torn.truncate(bundle.len() / 2);
        let mut flipped = bundle.clone();
        let middle = flipped.len() / 2;
        flipped[middle] ^= 1;
        let cases: [(&str, String, &[u8]); 4] = [
            (
                "newer format",
                metadata.replace("\"format\": 1", "\"format\": 2"),
                &bundle,
            ),
            ("damaged metadata", metadata.replace('}', ""), &bundle),
            ("torn bundle", metadata.clone(), &torn),
            ("changed bundle", metadata.clone(), &flipped),
        ];
        for (name, text, bytes) in cases {
            std::fs::write(package.join("package.json"), text).unwrap();
            std::fs::write(package.join("kernel.kiln-bundle"), bytes).unwrap();
            let service = service(folder.path(), ServiceOptions::default());
            service
                .get(KernelRequest::new("a", Arc::clone(&blueprint)))
                .await
                .unwrap();
            let metrics = service.metrics();
            assert_eq!(
                (metrics.packages_refused, metrics.compiles),
                (1, 1),
                "{name}"
            );
        }
        // A package stored under another key is rejected.
        let store = PackageStore::open(folder.path()).unwrap();
        let other = compiler().key(&scaled(6), &CompileTarget::Cpu);
        std::fs::create_dir(folder.path().join(&other)).unwrap();
        for file in ["package.json", "kernel.kiln-bundle"] {
            std::fs::copy(package.join(file), folder.path().join(&other).join(file)).unwrap();
        }
        assert_eq!(store.get(&other).unwrap_err().code(), "E1425");
        let renamed = std::fs::read_to_string(package.join("package.json"))
            .unwrap()
            .replace(&key, &other);
        std::fs::write(folder.path().join(&other).join("package.json"), renamed).unwrap();
        let error = store
            .get(&other)
            .unwrap()
            .unwrap()
            .open(&self::key())
            .unwrap_err();
        assert!(
            error.to_string().contains("that of another package"),
            "{error}"
        );
        // It cannot be opened with another key.
        let stranger = SealKey::of_secret(&[8; 32]);
        assert_eq!(
            store
                .get(&key)
                .unwrap()
                .unwrap()
                .open(&stranger)
                .unwrap_err()
                .code(),
            "E1425"
        );
    });
}

#[test]
fn limits_cancellation_and_stopping_are_typed() {
    let folder = tempfile::tempdir().unwrap();
    run(async {
        let options = ServiceOptions {
            max_queued: 2,
            max_queued_per_client: 1,
            ..ServiceOptions::default()
        };
        let service = service(folder.path(), options);
        let ask = |client: &str, factor: u32| {
            let (service, client) = (service.clone(), client.to_owned());
            tokio::spawn(async move {
                service
                    .get(KernelRequest::new(client, scaled(factor)))
                    .await
            })
        };
        // The first request occupies the thread, and the second one waits.
        let first = ask("a", 10);
        while service.metrics().in_flight < 1 || service.metrics().queued > 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        let second = ask("a", 11);
        while service.metrics().queued < 1 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        let third = ask("a", 12).await.unwrap();
        assert_eq!(third.unwrap_err().code(), "E1430");
        // No caller waits for the second request any more.
        second.abort();
        first.await.unwrap().unwrap();
        while service.metrics().in_flight > 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        let metrics = service.metrics();
        assert_eq!(
            (metrics.refused, metrics.cancelled, metrics.compiles),
            (1, 1, 1)
        );
        let mut hurried = KernelRequest::new("b", scaled(13));
        hurried.deadline = Some(Duration::ZERO);
        assert_eq!(service.get(hurried).await.unwrap_err().code(), "E1435");
        // It was compiled anyway.
        service
            .get(KernelRequest::new("b", scaled(13)))
            .await
            .unwrap();
        let mut broken = Blueprint::clone(&scaled(14));
        broken.name = "not a name".to_owned();
        let error = service
            .get(KernelRequest::new("b", Arc::new(broken)))
            .await
            .unwrap_err();
        assert_eq!(error.code(), "E1404");
        service.stop();
        let error = service
            .get(KernelRequest::new("b", scaled(15)))
            .await
            .unwrap_err();
        assert_eq!(error.code(), "E1432");
        let none = ServiceOptions {
            compile_threads: 0,
            ..options
        };
        let store = PackageStore::open(folder.path()).unwrap();
        assert_eq!(
            KernelService::start(compiler(), store, none)
                .unwrap_err()
                .code(),
            "E1433"
        );
    });
}

fn dense() -> DenseOptions {
    DenseOptions {
        inputs: 3,
        outputs: 2,
        bias: true,
        activation: Some("relu".to_owned()),
    }
}

fn dense_parameters() -> [(&'static str, Tensor); 2] {
    let w = Tensor::from_slice(&[3, 2], &[1.0f32, -1.0, 2.0, -2.0, 3.0, -3.0]).unwrap();
    [
        ("w", w),
        ("bias", Tensor::from_slice(&[2], &[0.5f32, 0.5]).unwrap()),
    ]
}

fn switches(percent: f64) -> Switches {
    Switches::new(&LayerConfig {
        enabled: true,
        rollout_percent: percent,
        ..LayerConfig::default()
    })
    .unwrap()
}

#[test]
fn layers_run_stored_kernels_when_switched_on_and_give_the_same() {
    let folder = tempfile::tempdir().unwrap();
    run(async {
        let service = service(folder.path(), ServiceOptions::default());
        let layer = CompiledLayer::dense("head", &service, &dense(), Switches::default()).unwrap();
        let parameters = dense_parameters();
        let x = || Tensor::from_slice(&[1, 3], &[1.0f32, 1.0, 1.0]).unwrap();
        let off = layer.forward("r", x(), &parameters).await.unwrap();
        assert_eq!(
            (off.ran_by, off.tensor.to_vec::<f32>().unwrap()),
            (RanBy::Default, vec![6.5, 0.0])
        );
        layer.switches().set_enabled(true);
        layer.switches().set_rollout_percent(100.0).unwrap();
        // Kernels that are not loaded yet do not delay callers.
        assert_eq!(
            layer.forward("r", x(), &parameters).await.unwrap().ran_by,
            RanBy::NotReady
        );
        layer.load().await.unwrap();
        let on = layer.forward("r", x(), &parameters).await.unwrap();
        assert_eq!(on.ran_by, RanBy::Compiled);
        assert_eq!(on.tensor.to_vec::<f32>().unwrap(), [6.5, 0.0]);
        // The call's parameters are used.
        let other = [
            parameters[0].clone(),
            ("bias", Tensor::from_slice(&[2], &[0.0f32, 9.0]).unwrap()),
        ];
        let other = layer.forward("r", x(), &other).await.unwrap();
        assert_eq!(other.tensor.to_vec::<f32>().unwrap(), [6.0, 3.0]);
        let metrics = layer.metrics();
        assert_eq!(
            (
                metrics.executions,
                metrics.compiled,
                metrics.not_ready,
                metrics.fallbacks
            ),
            (4, 2, 1, 0)
        );
        // Two kernels: the product and the activation.
        assert_eq!(service.store().keys().unwrap().len(), 2);

        let conv = ConvOptions {
            channels: 2,
            filters: 2,
            size: 3,
            padding: 1,
            norm: true,
            activation: Some("relu".to_owned()),
            ..ConvOptions::default()
        };
        let layer = CompiledLayer::conv2d("conv", &service, &conv, switches(0.0)).unwrap();
        let image = Tensor::full(&[1, 2, 5, 7], 1.0f32).unwrap();
        let ones = |shape: &[usize]| Tensor::full(shape, 1.0f32).unwrap();
        let parameters = [
            ("w", ones(&[2, 2, 3, 3])),
            ("scale", ones(&[2])),
            ("shift", ones(&[2])),
            ("mean", ones(&[2])),
            ("variance", ones(&[2])),
        ];
        let expected = layer
            .forward("r", image.clone(), &parameters)
            .await
            .unwrap();
        layer.load().await.unwrap();
        layer.switches().set_rollout_percent(100.0).unwrap();
        let found = layer.forward("r", image, &parameters).await.unwrap();
        assert_eq!(
            (expected.ran_by, found.ran_by),
            (RanBy::Default, RanBy::Compiled)
        );
        let numbers = |tensor: &Tensor| tensor.to_vec::<f32>().unwrap();
        for (a, b) in numbers(&expected.tensor).iter().zip(numbers(&found.tensor)) {
            assert!((a - b).abs() <= 1e-4 * a.abs().max(1.0), "{a} {b}");
        }
    });
}

#[test]
fn a_failing_kernel_falls_back_loudly_and_is_rolled_back() {
    let folder = tempfile::tempdir().unwrap();
    run(async {
        let service = service(folder.path(), ServiceOptions::default());
        let layer = CompiledLayer::dense("head", &service, &dense(), switches(100.0)).unwrap();
        // No kernel is this fast.
        let layer = layer.with_time_limit(Duration::ZERO).unwrap();
        layer.load().await.unwrap();
        let parameters = dense_parameters();
        let x = || Tensor::from_slice(&[1, 3], &[1.0f32, 1.0, 1.0]).unwrap();
        for n in 0..20 {
            let output = layer
                .forward(&format!("r{n}"), x(), &parameters)
                .await
                .unwrap();
            assert_eq!(output.ran_by, RanBy::Fallback);
            assert_eq!(output.tensor.to_vec::<f32>().unwrap(), [6.5, 0.0]);
        }
        let metrics = layer.metrics();
        assert_eq!(
            (metrics.failures, metrics.fallbacks, metrics.rollbacks),
            (20, 20, 1)
        );
        assert_eq!(metrics.last_rollback, Some(RollbackReason::Errors(1.0)));
        assert_eq!(layer.switches().config().rollout_percent, 0.0);
        assert_eq!(
            layer.forward("r", x(), &parameters).await.unwrap().ran_by,
            RanBy::Default
        );
        layer.switches().set_rollout_percent(100.0).unwrap();
        layer.switches().set_fallback(false);
        assert_eq!(
            layer
                .forward("r", x(), &parameters)
                .await
                .unwrap_err()
                .code(),
            "E1434"
        );
        // Inputs that do not match are the caller's error.
        layer.switches().set_enabled(false);
        let error = layer.forward("r", x(), &parameters[..1]).await.unwrap_err();
        assert_eq!(error.cause().map(|cause| cause.code()), Some("E0871"));
    });
}
