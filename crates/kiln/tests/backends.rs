//! Native code and the interpreter give the same results, fallbacks are reported, and compiles are counted.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may panic")]

use kiln::diagnose::{self, Stage};
use kiln::{
    Compiling, Device, ErrorKind, Limits, Model, Observation, Options, Source, Tensor, internals,
};

const MLP: &str = "graph @mlp(%x: f32[B, 4], %w: f32[4, N], %b: f32[N]) -> f32[B, N] {
  %0 = matmul %x, %w
  %1 = add %0, %b
  %y = relu %1
  return %y
}";

#[test]
fn a_requested_backend_is_used() {
    let options = Options::new().device(Device::interpreter());
    let model = options.load(Source::text(MLP)).unwrap();
    assert_eq!(model.device(), Device::interpreter());
    assert_eq!(model.compilation_stats().compilations, 0);
    assert!(diagnose::compile_records(&model).is_empty());
    let x = Tensor::full(&[1, 4], 1.0f32).unwrap();
    let mut steps = Vec::new();
    let wrong = model.call([("x", &x), ("w", &x), ("b", &x)]);
    let error = wrong.profile(&mut steps).run().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
    let (w, b) = (
        Tensor::full(&[4, 1], 1.0f32).unwrap(),
        Tensor::full(&[1], 1.0f32).unwrap(),
    );
    let right = model.call([("x", &x), ("w", &w), ("b", &b)]);
    let error = right.profile(&mut steps).run().unwrap_err();
    assert_eq!(
        (error.kind(), error.code()),
        (ErrorKind::Unsupported, "E0983")
    );
    assert_eq!(
        diagnose::inspect(&model, Stage::Assembly)
            .unwrap_err()
            .code(),
        "E0983"
    );
}

#[cfg(not(feature = "llvm"))]
#[test]
fn without_a_compiler_models_are_interpreted() {
    assert_eq!(
        Model::load(Source::text(MLP)).unwrap().device(),
        Device::interpreter()
    );
    let error = Options::new()
        .device(Device::cpu())
        .load(Source::text(MLP))
        .unwrap_err();
    assert_eq!(error.code(), "E0974");
    assert!(Device::cpu().levels().is_empty());
}

#[cfg(feature = "llvm")]
mod compiled {
    use super::*;
    use kiln::diagnose::StepProfile;
    use kiln::{DType, Notice, Work};
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::sync::{Arc, Mutex};

    fn own() -> Options {
        Options::new().device(Device::cpu()).shared_kernels(false)
    }

    fn tensors(batch: usize, columns: usize) -> [(&'static str, Tensor); 3] {
        let ramp = |n: usize| (0..n).map(|i| (i % 7) as f32 - 3.0).collect::<Vec<_>>();
        let tensor =
            |shape: &[usize]| Tensor::from_vec(shape, ramp(shape.iter().product())).unwrap();
        [
            ("x", tensor(&[batch, 4])),
            ("w", tensor(&[4, columns])),
            ("b", tensor(&[columns])),
        ]
    }

    fn run(model: &Model, batch: usize, columns: usize) -> Tensor {
        let inputs = tensors(batch, columns);
        model.run(&inputs).unwrap().into_tensors().remove(0)
    }

    #[test]
    fn one_kernel_serves_every_size() {
        let model = own().threads(1).load(Source::text(MLP)).unwrap();
        let interpreted = Options::new().device(Device::interpreter());
        let interpreted = interpreted.load(Source::text(MLP)).unwrap();
        for (batch, columns) in [(1, 1), (0, 3), (5, 0), (7, 17), (33, 8), (1, 16)] {
            let found = run(&model, batch, columns).to_vec::<f32>().unwrap();
            let expected = run(&interpreted, batch, columns).to_vec::<f32>().unwrap();
            assert_eq!(found, expected, "{batch} x {columns}");
        }
        let stats = model.compilation_stats();
        assert_eq!((stats.failures, stats.interpreted_steps), (0, 0));
        assert_eq!(stats.unique_kernels, 1);
        assert_eq!(
            diagnose::compile_records(&model).len() as u64,
            stats.compilations
        );
        // The code exists for both known and new sizes.
        let before = stats.compilations;
        run(&model, 9, 23);
        assert_eq!(model.compilation_stats().compilations, before);
    }

    #[test]
    fn every_level_of_this_machine_gives_the_same_results() {
        let expected = run(&own().load(Source::text(MLP)).unwrap(), 5, 19);
        assert!(!Device::cpu().levels().is_empty());
        for level in Device::cpu().levels() {
            for threads in [1, 2] {
                let options = own().target(&level).threads(threads);
                let found = run(&options.load(Source::text(MLP)).unwrap(), 5, 19);
                assert_eq!(
                    found.to_vec::<f32>().unwrap(),
                    expected.to_vec::<f32>().unwrap(),
                    "{level}"
                );
            }
        }
    }

    #[test]
    fn models_with_the_same_settings_share_kernels() {
        let options = || {
            Options::new()
                .device(Device::cpu())
                .threads(1)
                .target(&Device::cpu().levels()[0])
        };
        // No other test compiles this kernel.
        let text = "graph @shared(%x: f32[N]) -> f32[N] {
          %0 = exp %x
          %1 = add %0, %0
          %2 = sqrt %1
          return %2
        }";
        let x = Tensor::full(&[5], 0.5f32).unwrap();
        let first = options().load(Source::text(text)).unwrap();
        first.run([("x", &x)]).unwrap();
        let compiled = first.compilation_stats().compilations;
        let second = options().load(Source::text(text)).unwrap();
        second.run([("x", &x)]).unwrap();
        assert_eq!(second.compilation_stats().compilations, compiled);
        let apart = own().load(Source::text(text)).unwrap();
        assert_eq!(apart.compilation_stats().compilations, 0);
    }

    #[test]
    fn targets_that_make_no_sense_are_refused() {
        let error = own().target("avx9000").load(Source::text(MLP)).unwrap_err();
        assert_eq!(
            (error.kind(), error.code()),
            (ErrorKind::Environment, "E0980")
        );
        assert!(
            error.to_string().contains(&Device::cpu().levels()[0]),
            "{error}"
        );
    }

    #[test]
    fn numbers_of_threads_and_plans_that_make_no_sense_are_refused() {
        let compiling = |threads| Compiling {
            threads: Some(threads),
            ..Compiling::default()
        };
        let no_plans = Limits {
            launch_plans: 0,
            ..Limits::default()
        };
        for (options, expected) in [
            (own().threads(1 << 20), "at most 1024 threads, given"),
            (own().threads(0), "at least 1 threads, given 0"),
            (own().compiling(compiling(0)), "at least 1 compile threads"),
            (
                own().compiling(compiling(1 << 20)),
                "at most 1024 compile threads",
            ),
            (own().limits(no_plans), "at least 1 launch plans, given 0"),
        ] {
            let error = options.load(Source::text(MLP)).unwrap_err();
            assert_eq!(error.code(), "E0981");
            assert!(error.to_string().contains(expected), "{error}");
            let is_too_many = expected.starts_with("at most");
            assert_eq!(error.kind() == ErrorKind::Limit, is_too_many, "{error}");
        }
    }

    #[test]
    fn a_debug_build_reports_once_that_it_interprets() {
        let notices = Arc::new(Mutex::new(Vec::new()));
        for _ in 0..2 {
            let heard = Arc::clone(&notices);
            let options = Options::new().observe(
                Observation::new()
                    .on_notice(move |notice| heard.lock().unwrap().push(notice.clone())),
            );
            let model = options.load(Source::text(MLP)).unwrap();
            assert_eq!(model.device(), Device::default());
        }
        let heard = notices.lock().unwrap();
        assert_eq!(
            *heard,
            if cfg!(debug_assertions) {
                vec![Notice::InterpretedInDebugBuild]
            } else {
                vec![]
            }
        );
        assert!(
            heard
                .iter()
                .all(|notice| notice.to_string().contains("debug build"))
        );
    }

    #[test]
    fn compiles_and_plans_are_reported_to_listeners() {
        let told = Arc::new(Mutex::new(Vec::new()));
        let heard = Arc::clone(&told);
        let options = own().observe(Observation::new().on_progress(move |progress| {
            heard
                .lock()
                .unwrap()
                .push((progress.work, progress.step.to_owned()));
        }));
        let model = options.load(Source::text(MLP)).unwrap();
        run(&model, 2, 2);
        let told = told.lock().unwrap();
        let has = |wanted: Work| told.iter().any(|(work, _)| *work == wanted);
        assert!(has(Work::Plan) && has(Work::Compile), "{told:?}");
        assert!(!has(Work::Run), "{told:?}");
    }

    #[test]
    fn cancelled_calls_do_not_begin() {
        let stop = Arc::new(AtomicBool::new(false));
        let asked = Arc::clone(&stop);
        let options = own().cancel_when(move || asked.load(Ordering::Relaxed));
        let model = options.load(Source::text(MLP)).unwrap();
        let inputs = tensors(1, 1);
        stop.store(true, Ordering::Relaxed);
        let error = model.run(&inputs).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Cancelled);
    }

    #[test]
    fn a_profile_has_every_step() {
        let model = own().load(Source::text(MLP)).unwrap();
        let inputs = tensors(3, 5);
        let mut steps = Vec::new();
        let outputs = model.call(&inputs).profile(&mut steps).run().unwrap();
        assert_eq!(outputs[0].shape(), [3, 5]);
        let [
            StepProfile {
                kind,
                bytes,
                operations,
                class,
                ..
            },
        ] = steps.as_slice()
        else {
            panic!("one step was expected: {steps:?}");
        };
        assert_eq!((*kind, *class), ("kernel", Some("contraction")));
        assert_eq!(*bytes, 4 * (3 * 4 + 4 * 5 + 5 + 3 * 5));
        assert!(operations.is_some_and(|operations| operations >= 120.0));
    }

    #[test]
    fn errors_of_compiled_calls_have_kinds_and_codes() {
        let text = "graph @pick(%x: f32[N], %i: i64[M]) -> f32[M] {
          %y = gather %x, %i {axis = 0}
          return %y
        }";
        let model = own().load(Source::text(text)).unwrap();
        let x = Tensor::full(&[3], 1.0f32).unwrap();
        let outside = Tensor::from_slice(&[1], &[7i64]).unwrap();
        let error = model.run([("x", &x), ("i", &outside)]).unwrap_err();
        assert_eq!(
            (error.kind(), error.code()),
            (ErrorKind::InvalidInput, "E0822")
        );

        let text = "graph @sum(%a: f32[N], %b: f32[M]) -> f32[bcast(N, M)] plan N == M by \"add\" {
          %y = add %a, %b
          return %y
        }";
        let model = own().load(Source::text(text)).unwrap();
        let error = model
            .run([("a", &x), ("b", &Tensor::full(&[2], 1.0f32).unwrap())])
            .unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
        // A size of 1 needs another plan, which is counted.
        let one = Tensor::full(&[1], 1.0f32).unwrap();
        let sum = model.run([("a", &x), ("b", &one)]).unwrap();
        assert_eq!(sum[0].to_vec::<f32>().unwrap(), [2.0; 3]);
        assert!(model.compilation_stats().other_plans > 0);
    }

    #[test]
    fn memory_of_compiled_calls_is_limited() {
        let mut limits = kiln::Limits::default();
        limits.run.live_bytes = 1 << 10;
        let source = "graph @f(%x: f32[N]) -> f32[N] {\n  %y = exp %x\n  return %y\n}";
        let model = own().limits(limits).load(Source::text(source)).unwrap();
        let call = |n: usize| model.run([("x", &Tensor::zeros(DType::F32, &[n]).unwrap())]);
        assert!(call(8).is_ok());
        let error = call(10_000).unwrap_err();
        assert_eq!((error.kind(), error.code()), (ErrorKind::Limit, "E0832"));
    }

    #[test]
    fn a_runtime_supplied_by_the_caller_is_used() {
        use kiln::internals::lazy_runtime::{Runtime, RuntimeOptions};
        let runtime = Arc::new(Runtime::new(
            Some(Arc::new(kiln::internals::codegen_llvm::LlvmCompiler::new())),
            Arc::new(kiln::internals::native::NativeExecutor::new()),
            RuntimeOptions::new(),
        ));
        let options = internals::on_runtime(own(), Arc::clone(&runtime));
        run(&options.load(Source::text(MLP)).unwrap(), 2, 3);
        assert!(runtime.stats().compilations > 0);
    }

    #[test]
    fn many_threads_may_call_one_model() {
        let model = own().load(Source::text(MLP)).unwrap();
        let expected: Vec<Tensor> = (0..8).map(|n| run(&model, n, 8 - n)).collect();
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let (model, expected) = (&model, &expected);
                scope.spawn(move || {
                    for round in 0..16 {
                        let n = (thread + round) % 8;
                        let found = run(model, n, 8 - n);
                        let of = |tensor: &Tensor| tensor.to_vec::<f32>().unwrap();
                        assert_eq!(of(&found), of(&expected[n]));
                    }
                });
            }
        });
        assert_eq!(expected[1].dtype(), DType::F32);
    }
}

#[cfg(feature = "llvm")]
#[test]
fn interpreted_steps_share_memory_as_their_kernels_would() {
    let text = "graph @shares(%x: f32[N], %z: f32[M]) -> (f32[N], f32[M]) {
      %0 = reduce %x {function = max, axes = [0], keep_dims}
      %1 = sub %x, %0
      %2 = exp %1
      %3 = reduce %2 {function = sum, axes = [0], keep_dims}
      %4 = div %2, %3
      return %4, %z
    }";
    let options = Options::new()
        .device(Device::cpu())
        .cache(kiln::Cache::off())
        .shared_kernels(false)
        .compiling(Compiling {
            budget: Some(std::time::Duration::ZERO),
            ..Compiling::default()
        });
    let model = options.load(Source::text(text)).unwrap();
    for n in [4, 1, 16] {
        let (x, z) = (
            Tensor::full(&[n], 2.0f32).unwrap(),
            Tensor::full(&[2], 1.0f32).unwrap(),
        );
        let outputs = model.run([("x", &x), ("z", &z)]).unwrap();
        let shares = outputs[0].to_vec::<f32>().unwrap();
        assert_eq!(shares, vec![1.0 / n as f32; n]);
    }
    let stats = model.compilation_stats();
    assert_eq!((stats.compilations, stats.fallbacks > 0), (0, true));
}
