//! Calls of a model that are cancelled, on every device.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use kiln::{
    Cache, Cancellation, DType, Device, ErrorKind, Model, Observation, Options, Source, Tensor,
    Work,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

const FOREVER: &str = "graph @forever(%trips: i64[], %x: f32[N]) -> f32[N] {
  %on: bool[] = constant [true]
  %last: f32[N] = loop %trips, %on, %x {carried = 1}
    region(%i: i64[], %acc: f32[N]) {
      %more: bool[] = constant [true]
      %next: f32[N] = neg %acc
      yield %more, %next
    }
  return %last
}";

fn models() -> Vec<Model> {
    let model = |device: &Device| {
        let options = Options::new().device(device.clone()).cache(Cache::off());
        options.load(Source::text(FOREVER)).unwrap()
    };
    Device::all().iter().map(model).collect()
}

fn x() -> Tensor {
    Tensor::full(&[3], 1.5f32).unwrap()
}

#[test]
fn a_model_is_cancelled_from_another_thread_and_runs_again() {
    for model in models() {
        let cancellation = Cancellation::new();
        let asked = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&asked);
        let count = move || {
            counted.fetch_add(1, Ordering::SeqCst);
            false
        };
        let error = std::thread::scope(|scope| {
            let call = scope.spawn(|| {
                let trips = Tensor::scalar(1_i64 << 32);
                let x = x();
                let call = model.call([("trips", &trips), ("x", &x)]);
                call.cancellation(&cancellation).cancel_when(count).run()
            });
            while asked.load(Ordering::SeqCst) < 100 {
                std::thread::yield_now();
            }
            cancellation.cancel();
            call.join().unwrap().unwrap_err()
        });
        assert_eq!(
            (error.kind(), error.code()),
            (ErrorKind::Cancelled, "E0835")
        );
        let trips = Tensor::scalar(3i64);
        let outputs = model.run([("trips", &trips), ("x", &x())]).unwrap();
        assert_eq!(outputs[0].to_vec::<f32>().unwrap(), [-1.5; 3]);
    }
}

#[test]
fn a_call_beyond_its_time_limit_is_a_limit_error() {
    for model in models() {
        let limit = Duration::from_millis(30);
        let inputs = [Tensor::scalar(1_i64 << 32), x()];
        let named = [("trips", &inputs[0]), ("x", &inputs[1])];
        let error = model.call(named).time_limit(limit).run().unwrap_err();
        assert_eq!((error.kind(), error.code()), (ErrorKind::Limit, "E0894"));
        let mut outputs = [Tensor::zeros(DType::F32, &[3]).unwrap()];
        let call = model.call(&inputs).time_limit(limit);
        let error = call.run_into(&mut outputs).unwrap_err();
        assert_eq!(error.code(), "E0894");
        assert_eq!(outputs[0].to_vec::<f32>().unwrap(), [0.0; 3]);
        let inputs = [Tensor::scalar(1i64), x()];
        let call = model.call(&inputs).time_limit(Duration::from_secs(600));
        call.run_into(&mut outputs).unwrap();
        assert_eq!(outputs[0].to_vec::<f32>().unwrap(), [-1.5; 3]);
    }
}

#[test]
fn loading_can_be_cancelled_midway_and_then_retried() {
    let (reached, goes_on) = (
        Arc::new(AtomicBool::new(false)),
        Arc::new(AtomicBool::new(false)),
    );
    let is_cancelled = Arc::new(AtomicBool::new(false));
    let asked = Arc::clone(&is_cancelled);
    let (at_work, let_go) = (Arc::clone(&reached), Arc::clone(&goes_on));
    let options = Options::new()
        .cache(Cache::off())
        .cancel_when(move || asked.load(Ordering::SeqCst))
        .observe(Observation::new().on_progress(move |progress| {
            if progress.work == Work::Optimize {
                at_work.store(true, Ordering::SeqCst);
                while !let_go.load(Ordering::SeqCst) {
                    std::thread::yield_now();
                }
            }
        }));
    let load = || options.load(Source::text(FOREVER));
    std::thread::scope(|scope| {
        let loading = scope.spawn(load);
        while !reached.load(Ordering::SeqCst) {
            std::thread::yield_now();
        }
        is_cancelled.store(true, Ordering::SeqCst);
        // While the work is still waiting.
        let error = loading.join().unwrap().err().unwrap();
        assert_eq!(
            (error.kind(), error.code()),
            (ErrorKind::Cancelled, "E0835")
        );
    });
    goes_on.store(true, Ordering::SeqCst);
    is_cancelled.store(false, Ordering::SeqCst);
    let model = load().unwrap();
    let trips = Tensor::scalar(1i64);
    assert!(model.run([("trips", &trips), ("x", &x())]).is_ok());
}
