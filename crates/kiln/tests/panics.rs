//! A panic inside a load or a call ends at the facade as a typed error, and the next load and call succeed.
//!
//! A panic is injected through `tracing`: a subscriber of this thread panics when a span of a given name is entered.
//! Passes, fusion, planning and import enter one each.

#![cfg(feature = "llvm")]
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use kiln::{Cache, Device, ErrorKind, Model, Options, Source, Tensor};
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::NoSubscriber;
use tracing::{Event, Metadata, Subscriber};

const TEXT: &str = "graph @f(%x: f32[B, 8], %w: f32[8, N]) -> f32[B, N] {
  %zero: f32[] = constant [0]
  %0 = matmul %x, %w
  %1 = add %0, %zero
  %2 = relu %1
  return %2
}";

/// Records the names of spans, or panics at one of them.
struct Failpoints {
    seen: Arc<Mutex<BTreeSet<&'static str>>>,
    panics_at: Option<&'static str>,
    is_hit: Arc<AtomicBool>,
    next: AtomicU64,
}

impl Failpoints {
    fn run<T>(
        panics_at: Option<&'static str>,
        work: impl FnOnce() -> T,
    ) -> (T, BTreeSet<&'static str>, bool) {
        let (seen, is_hit) = (Arc::default(), Arc::new(AtomicBool::new(false)));
        let failpoints = Self {
            seen: Arc::clone(&seen),
            panics_at,
            is_hit: Arc::clone(&is_hit),
            next: AtomicU64::new(1),
        };
        // With a single subscriber, `tracing` asks the subscriber of the first thread that reaches a span whether it is
        // enabled, and caches the answer: if that is a thread of the runtime, which has none, this one would not see the
        // span. With two it asks both.
        let _second = tracing::Dispatch::new(NoSubscriber::new());
        let result = tracing::subscriber::with_default(failpoints, work);
        let seen = seen.lock().unwrap().clone();
        (result, seen, is_hit.load(Ordering::SeqCst))
    }
}

impl Subscriber for Failpoints {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        let name = span.metadata().name();
        self.seen.lock().unwrap().insert(name);
        if self.panics_at == Some(name) && !self.is_hit.swap(true, Ordering::SeqCst) {
            panic!("injected at {name}");
        }
        Id::from_u64(self.next.fetch_add(1, Ordering::SeqCst))
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn event(&self, _: &Event<'_>) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

fn load() -> Result<Model, kiln::Error> {
    let options = Options::new()
        .device(Device::cpu())
        .threads(1)
        .shared_kernels(false)
        .cache(Cache::off());
    options.load(Source::text(TEXT))
}

fn call(model: &Model, rows: usize) -> Result<Vec<f32>, kiln::Error> {
    let (x, w) = (
        Tensor::full(&[rows, 8], 0.5f32)?,
        Tensor::full(&[8, 3], 0.25f32)?,
    );
    Ok(model.run([("x", &x), ("w", &w)])?[0].to_vec::<f32>()?)
}

#[test]
fn a_panic_at_any_stage_of_a_load_is_a_typed_error_and_the_next_load_works() {
    let (model, stages, _) = Failpoints::run(None, load);
    model.unwrap();
    for expected in ["kiln.fuse", "kiln.program"] {
        assert!(stages.contains(expected), "{stages:?}");
    }
    for stage in stages {
        let (failed, _, is_hit) = Failpoints::run(Some(stage), load);
        assert!(is_hit, "{stage}");
        let error = failed
            .err()
            .unwrap_or_else(|| panic!("{stage}: the load succeeded"));
        assert_eq!(
            (error.code(), error.kind()),
            ("E0991", ErrorKind::Internal),
            "{stage}"
        );
        assert!(
            error.to_string().contains(&format!("injected at {stage}")),
            "{error}"
        );
        assert_eq!(call(&load().unwrap(), 2).unwrap(), [1.0; 6], "{stage}");
    }
}

#[test]
fn a_panic_at_any_stage_of_a_call_is_a_typed_error_and_the_next_call_works() {
    let (found, stages, _) = {
        let model = load().unwrap();
        Failpoints::run(None, || call(&model, 2))
    };
    found.unwrap();
    for stage in stages {
        let model = load().unwrap();
        let (failed, _, is_hit) = Failpoints::run(Some(stage), || call(&model, 2));
        // Work on other threads does not reach this subscriber.
        assert!(is_hit, "{stage}");
        // A compile that panics is a separate error, caught closer to its source.
        if let Err(error) = failed {
            assert_eq!(error.kind(), ErrorKind::Internal, "{stage}: {error}");
        }
        for rows in [2, 5] {
            assert_eq!(call(&model, rows).unwrap(), vec![1.0; 3 * rows], "{stage}");
        }
    }
}

#[test]
fn a_panic_of_a_file_callback_is_a_typed_error() {
    struct Careless;
    impl kiln::internals::onnx::Fs for Careless {
        fn open(
            &self,
            _: &kiln::internals::onnx::Location,
        ) -> Result<Box<dyn kiln::internals::onnx::DataFile>, kiln::internals::onnx::FileError>
        {
            panic!("injected in a callback")
        }
    }
    // A model whose one initializer is external: field 7 (graph) with field 5 (initializer).
    let entry = |key: &str, value: &str| {
        let mut entry = vec![0x0a, key.len() as u8];
        entry.extend(key.bytes());
        entry.extend([0x12, value.len() as u8]);
        entry.extend(value.bytes());
        entry
    };
    let location = entry("location", "weights");
    // dims 1, f32, name "w", data_location EXTERNAL, external_data.
    let mut tensor = vec![
        0x08,
        1,
        0x10,
        1,
        0x42,
        1,
        b'w',
        0x70,
        1,
        0x6a,
        location.len() as u8,
    ];
    tensor.extend(location);
    let mut graph = vec![0x12, 1, b'g', 0x2a, tensor.len() as u8];
    graph.extend(tensor);
    let mut model = vec![0x08, 8, 0x42, 2, 0x10, 17, 0x3a, graph.len() as u8];
    model.extend(graph);
    let error = Model::load(Source::onnx(&model, Some(&Careless)))
        .err()
        .unwrap();
    assert_eq!(error.code(), "E0991", "{error}");
    assert!(
        error.to_string().contains("injected in a callback"),
        "{error}"
    );
}
