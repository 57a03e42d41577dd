//! Children forked while other threads call, compile and store: each runs what its parent runs and compiles what is
//! missing, or reports that it cannot; none of them hangs.

#![cfg(all(feature = "llvm", target_os = "linux"))]
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use kiln::internals::ir::Graph;
use kiln::internals::shape_inference::GraphBuilder;
use kiln::{Cache, DType, Device, Model, Options, Source, Tensor};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, mpsc};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

const MLP: &str = "graph @mlp(%x: f32[B, 8], %w: f32[8, N], %b: f32[N]) -> (f32[B, N], f32[N]) {
  %0 = matmul %x, %w
  %1 = add %0, %b
  %2 = relu %1
  %3 = reduce %2 {function = sum, axes = [0]}
  return %2, %3
}";

fn options(folder: &Path) -> Options {
    Options::new()
        .device(Device::cpu())
        .threads(2)
        .cache(Cache::folder(folder))
}

/// Whether a call with this many rows and columns returns the right result.
fn is_right(model: &Model, rows: usize, columns: usize) -> bool {
    let full = |shape: &[usize], value: f32| Tensor::full(shape, value);
    let call = || -> Result<bool, kiln::Error> {
        let (x, w, b) = (
            full(&[rows, 8], 0.5)?,
            full(&[8, columns], 0.25)?,
            full(&[columns], 1.0)?,
        );
        let outputs = model.run([("x", &x), ("w", &w), ("b", &b)])?;
        let all = |tensor: &Tensor, value: f32| -> Result<bool, kiln::Error> {
            Ok(tensor.to_vec::<f32>()?.iter().all(|&found| found == value))
        };
        Ok(all(&outputs[0], 2.0)? && all(&outputs[1], 2.0 * rows as f32)?)
    };
    call().unwrap_or(false)
}

/// What a child does; returns the number of the step that failed.
fn child(model: &Model, folder: &Path, round: usize) -> i32 {
    if !is_right(model, 64, 32) {
        return 1;
    }
    // Sizes that have not been seen before, and a kernel that has not been compiled before.
    if !is_right(model, 100 + round, 7 + round % 5) {
        return 2;
    }
    let text = format!(
        "graph @own(%x: f32[N]) -> f32[N] {{
          %c: f32[] = constant [{round}.5]
          %y = add %x, %c
          %z = sqrt %y
          return %z
        }}"
    );
    let Ok(own) = options(folder).load(Source::text(&text)) else {
        return 3;
    };
    let x = Tensor::full(&[5], 0.0f32);
    let found = x.ok().and_then(|x| own.run([("x", &x)]).ok());
    let found = found.and_then(|outputs| outputs[0].to_vec::<f32>().ok());
    let expected = (round as f32 + 0.5).sqrt();
    match found {
        Some(found) if found.iter().all(|y| (y - expected).abs() < 1e-5) => 0,
        _ => 4,
    }
}

#[test]
fn children_forked_during_calls_run_and_compile_without_hanging() {
    let folder = tempfile::tempdir().unwrap();
    let model = options(folder.path()).load(Source::text(MLP)).unwrap();
    assert!(is_right(&model, 64, 32));
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let (model, is_over) = (&model, &is_over);
        let callers: Vec<_> = (0..2)
            .map(|caller| {
                scope.spawn(move || {
                    let mut call = caller;
                    while !is_over.load(Ordering::SeqCst) {
                        // Mostly known sizes, sometimes new ones.
                        let rows = if call % 16 == 0 { 1 + call % 500 } else { 64 };
                        assert!(is_right(model, rows, 32));
                        call += 1;
                    }
                })
            })
            .collect();
        let results: Vec<_> = (0..rounds())
            .map(|round| fork(|| child(model, folder.path(), round)))
            .collect();
        is_over.store(true, Ordering::SeqCst);
        let ended: Vec<_> = callers
            .into_iter()
            .map(std::thread::ScopedJoinHandle::join)
            .collect();
        assert!(ended.iter().all(Result::is_ok));
        assert!(results.iter().all(|&result| result == 0), "{results:?}");
    });
}

/// A graph with a large weight that is loaded on demand, and packed for its product.
fn weighted(load: impl Fn() + Send + Sync + 'static) -> Graph {
    let weight = Tensor::deferred(DType::F32, &[256, 192], move || {
        load();
        Tensor::full(&[256, 192], 0.25f32)
    });
    let mut builder = GraphBuilder::new("weighted");
    let rows = builder.dims_mut().fresh("B");
    let (rows, columns) = (
        builder.dims_mut().dim(rows),
        builder.dims_mut().constant(256),
    );
    let x = builder.input("x", DType::F32, &[rows, columns]);
    let weight = builder.constant(weight.unwrap()).unwrap();
    let y = builder.matmul(x, weight).unwrap();
    let y = builder.relu(y).unwrap();
    builder.finish(&[("y", y)]).unwrap()
}

/// Loads the weighted graph and calls it; returns whether the result is right.
fn loads_and_is_right(graph: &Graph, rows: usize) -> bool {
    let options = Options::new()
        .device(Device::cpu())
        .threads(2)
        .cache(Cache::off());
    let model = options.load(Source::graph(graph.clone()));
    model.is_ok_and(|model| is_right_weighted(&model, rows))
}

fn is_right_weighted(model: &Model, rows: usize) -> bool {
    let call = || -> Result<bool, kiln::Error> {
        let x = Tensor::full(&[rows, 256], 0.5f32)?;
        let outputs = model.run([("x", &x)])?;
        Ok(outputs[0].to_vec::<f32>()?.iter().all(|&y| y == 32.0))
    };
    call().unwrap_or(false)
}

#[test]
fn a_child_forked_while_another_thread_loads_a_weight_loads_it_itself() {
    let parent = std::process::id();
    let (begun, is_begun) = mpsc::channel();
    let (done, is_done) = mpsc::channel::<()>();
    let gate = Mutex::new(Some((begun, is_done)));
    let graph = weighted(move || {
        // The parent's first load does not return until the child has ended.
        if std::process::id() == parent
            && let Some((begun, is_done)) = gate.lock().unwrap().take()
        {
            begun.send(()).unwrap();
            is_done.recv().unwrap();
        }
    });
    std::thread::scope(|scope| {
        let caller = scope.spawn(|| loads_and_is_right(&graph, 3));
        is_begun.recv().unwrap();
        assert_eq!(fork(|| i32::from(!loads_and_is_right(&graph, 3))), 0);
        done.send(()).unwrap();
        assert!(caller.join().unwrap());
    });
}

/// A subscriber that blocks its thread at the n-th span until it is released.
struct Stopping {
    at: u64,
    next: AtomicU64,
    stopped: mpsc::Sender<&'static str>,
    go_on: Mutex<mpsc::Receiver<()>>,
}

impl Subscriber for Stopping {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        let number = self.next.fetch_add(1, Ordering::SeqCst);
        if number == self.at {
            self.stopped.send(span.metadata().name()).unwrap();
            self.go_on.lock().unwrap().recv().unwrap();
        }
        Id::from_u64(number)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn event(&self, _: &Event<'_>) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

#[test]
fn a_child_forked_at_any_stage_of_a_load_and_first_call_loads_and_calls() {
    let mut stages = Vec::new();
    for at in 1..=40 {
        let graph = weighted(|| {});
        let (stopped, is_stopped) = mpsc::channel();
        let (go_on, may_go_on) = mpsc::channel();
        let subscriber = Stopping {
            at,
            next: AtomicU64::new(1),
            stopped,
            go_on: Mutex::new(may_go_on),
        };
        let is_past_the_end = std::thread::scope(|scope| {
            let graph = &graph;
            let caller = scope.spawn(move || {
                tracing::subscriber::with_default(subscriber, || loads_and_is_right(graph, 3))
            });
            // If the call ended with fewer spans, the sender is dropped with the subscriber.
            let Ok(stage) = is_stopped.recv() else {
                assert!(caller.join().unwrap());
                return true;
            };
            stages.push(stage);
            let result = fork(|| i32::from(!loads_and_is_right(graph, 3)));
            go_on.send(()).unwrap();
            assert!(caller.join().unwrap(), "{stage}");
            assert_eq!(result, 0, "{stage}");
            false
        });
        if is_past_the_end {
            break;
        }
    }
    assert!(stages.contains(&"kiln.fuse"), "{stages:?}");
}

fn rounds() -> usize {
    let rounds = std::env::var("KILN_FORK_ROUNDS");
    rounds.map_or(12, |rounds| rounds.parse().unwrap())
}

/// Forks a child and waits for it; returns its exit status, or the negated signal that ended it.
fn fork(child: impl FnOnce() -> i32) -> i32 {
    // SAFETY: the child calls the library and the allocator, both of which support forks; it leaves by `_exit`.
    let pid = unsafe { libc::fork() };
    if pid == 0 {
        // SAFETY: a watchdog, whose signal ends the child.
        unsafe { libc::alarm(20) };
        let result = child();
        // SAFETY: ends the child at once.
        unsafe { libc::_exit(result) };
    }
    assert!(pid > 0, "the fork failed");
    let mut status = 0;
    // SAFETY: the child is ours, and the status is a local variable.
    assert_eq!(unsafe { libc::waitpid(pid, &raw mut status, 0) }, pid);
    match libc::WIFEXITED(status) {
        true => libc::WEXITSTATUS(status),
        false => -libc::WTERMSIG(status),
    }
}
