//! Loops use the device and the host as little as possible: the work of each iteration is counted.

#![allow(clippy::unwrap_used, reason = "a test that cannot continue panics")]

mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use kiln_backend::{
    BatchKey, Builtin, BuiltinOperand, ExecuteError, Execution, ExecutorWrapper, Fault,
    KernelExecutor, Launch, LoadedKernel, Memory, MemorySlice,
};
use kiln_interpreter::{InterpretOptions, interpret};
use kiln_lazy_runtime::{CompiledProgram, Runtime, RuntimeOptions};
use kiln_tensor::{DType, Tensor};
use kiln_testkit::oracle::{Tolerance, compare_all};
use support::{FakeCompiler, FakeDevice, compiled, graph, ramp};

/// The operations requested from a device.
#[derive(Debug, Default)]
struct Counts {
    allocations: AtomicUsize,
    uploads: AtomicUsize,
    downloads: AtomicUsize,
    launches: AtomicUsize,
    builtins: AtomicUsize,
    waits: AtomicUsize,
}

/// [`Counts`] at one point in time, or the difference between two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Counted {
    allocations: usize,
    uploads: usize,
    downloads: usize,
    launches: usize,
    builtins: usize,
    waits: usize,
}

impl Counts {
    fn take(&self) -> Counted {
        let take = |count: &AtomicUsize| count.swap(0, Ordering::SeqCst);
        Counted {
            allocations: take(&self.allocations),
            uploads: take(&self.uploads),
            downloads: take(&self.downloads),
            launches: take(&self.launches),
            builtins: take(&self.builtins),
            waits: take(&self.waits),
        }
    }
}

fn count(counter: &AtomicUsize) {
    counter.fetch_add(1, Ordering::SeqCst);
}

/// The fake device with counters.
#[derive(Clone, Default)]
struct CountingDevice(Arc<Counts>, FakeDevice);

struct CountingExecution(Box<dyn Execution>, Arc<Counts>);

impl ExecutorWrapper for CountingDevice {
    type Inner = FakeDevice;

    fn inner(&self) -> &FakeDevice {
        &self.1
    }

    fn takes_batches(&self) -> bool {
        true
    }

    fn alloc(&self, bytes: usize) -> Result<Memory, ExecuteError> {
        count(&self.0.allocations);
        self.1.alloc(bytes)
    }

    fn upload(&self, tensor: &Tensor) -> Result<Memory, ExecuteError> {
        count(&self.0.uploads);
        self.1.upload(tensor)
    }

    fn download(
        &self,
        memory: &Memory,
        offset: usize,
        dtype: DType,
        shape: &[usize],
    ) -> Result<Tensor, ExecuteError> {
        count(&self.0.downloads);
        self.1.download(memory, offset, dtype, shape)
    }

    fn begin(&self) -> Box<dyn Execution> {
        Box::new(CountingExecution(self.1.begin(), Arc::clone(&self.0)))
    }
}

impl Execution for CountingExecution {
    unsafe fn launch(
        &mut self,
        kernel: &LoadedKernel,
        launch: &Launch<'_>,
    ) -> Result<(), ExecuteError> {
        count(&self.1.launches);
        // SAFETY: guaranteed by the caller.
        unsafe { self.0.launch(kernel, launch) }
    }

    unsafe fn launch_batch(
        &mut self,
        key: BatchKey,
        batch: &[(&LoadedKernel, Launch<'_>)],
    ) -> Result<(), (usize, ExecuteError)> {
        count(&self.1.launches);
        // SAFETY: guaranteed by the caller.
        unsafe { self.0.launch_batch(key, batch) }
    }

    unsafe fn run_builtin(
        &mut self,
        builtin: &Builtin,
        inputs: &[(MemorySlice<'_>, BuiltinOperand<'_>)],
        outputs: &[(MemorySlice<'_>, BuiltinOperand<'_>)],
    ) -> Result<(), ExecuteError> {
        count(&self.1.builtins);
        // SAFETY: guaranteed by the caller.
        unsafe { self.0.run_builtin(builtin, inputs, outputs) }
    }

    fn finish(&mut self) -> Result<Option<Fault>, ExecuteError> {
        count(&self.1.waits);
        self.0.finish()
    }
}

/// A program with counters.
fn counted(text: &str) -> (CompiledProgram, Arc<Counts>, kiln_ir::Graph) {
    let graph = graph(text);
    let device = CountingDevice::default();
    let counts = Arc::clone(&device.0);
    let compiler = Some(Arc::new(FakeCompiler::default()) as Arc<_>);
    let runtime = Runtime::new(compiler, Arc::new(device), RuntimeOptions::new());
    let program = compiled(&Arc::new(runtime), &graph, true);
    (program, counts, graph)
}

/// The requests of the second call with these inputs, whose results must equal the interpreter's.
fn second_call(text: &str, inputs: &[Tensor]) -> Counted {
    let (program, counts, graph) = counted(text);
    let expected = interpret(&graph, inputs, &InterpretOptions::default()).unwrap();
    for _ in 0..2 {
        counts.take();
        let found = program.run(inputs).unwrap();
        compare_all(&expected, &found, Tolerance::OfLargest(1e-5)).unwrap();
    }
    counts.take()
}

/// A recurrent layer that returns every state, and the last two sums of states.
const RECURRENT: &str = "graph @recurrent(%x: f32[T, 2, 3], %w: f32[3, 3], %h: f32[2, 3], %c: f32[2, 3]) -> (f32[2, 3], f32[2, 3], f32[T, 2, 3]) {
  %sizes = dims {sizes = [T]}
  %trips = reshape %sizes {dims = []}
  %on: bool[] = constant [true]
  %last: f32[2, 3], %sum: f32[2, 3], %all: f32[T, 2, 3] = loop %trips, %on, %h, %c, %x, %w {carried = 2}
    region(%i: i64[], %state: f32[2, 3], %before: f32[2, 3], %xs: f32[T, 2, 3], %weights: f32[3, 3]) {
      %more: bool[] = constant [true]
      %now = gather %xs, %i {axis = 0}
      %product = matmul %state, %weights
      %added = add %now, %product
      %next = tanh %added
      %total = add %before, %next
      yield %more, %next, %total, %next
    }
  return %last, %sum, %all
}";

#[test]
fn a_loop_over_a_whole_axis_only_launches_per_iteration() {
    let inputs = |steps| {
        let of = |shape: &[usize]| ramp(shape);
        [of(&[steps, 2, 3]), of(&[3, 3]), of(&[2, 3]), of(&[2, 3])]
    };
    let (few, many) = (
        second_call(RECURRENT, &inputs(4)),
        second_call(RECURRENT, &inputs(40)),
    );
    let per_iteration = (many.launches - few.launches) / 36;
    assert!(per_iteration <= 2, "{per_iteration} launches per iteration");
    expect_no_more(few, many);
}

/// Apart from launches, further iterations make no requests; occasionally a step is timed, which waits for the device.
fn expect_no_more(few: Counted, many: Counted) {
    assert!(many.waits <= few.waits + 6, "{} waits", many.waits);
    let (launches, waits) = (few.launches, few.waits);
    let many = Counted {
        launches,
        waits,
        ..many
    };
    assert_eq!(many, few);
}

#[test]
fn every_number_of_iterations_is_right() {
    let (program, _, graph) = counted(RECURRENT);
    for steps in [1, 0, 2, 3, 1, 17] {
        let inputs = [
            ramp(&[steps, 2, 3]),
            ramp(&[3, 3]),
            ramp(&[2, 3]),
            ramp(&[2, 3]),
        ];
        support::expect_same(&program, &graph, &inputs);
    }
}

/// Prefix sums, in a loop with element-wise iterations.
const SUMS: &str = "graph @sums(%x: f32[T, N], %h: f32[N], %w: f32[N]) -> (f32[N], f32[T, N]) {
  %sizes = dims {sizes = [T]}
  %trips = reshape %sizes {dims = []}
  %on: bool[] = constant [true]
  %last: f32[N], %all: f32[T, N] = loop %trips, %on, %h, %x, %w, %trips {carried = 1}
    region(%i: i64[], %sum: f32[N], %xs: f32[T, N], %factor: f32[N], %steps: i64[]) {
      %more: bool[] = constant [true]
      %one: i64[] = constant [1]
      %end = sub %steps, %one
      %at = sub %end, %i
      %now = gather %xs, %at {axis = 0}
      %scaled = mul %sum, %factor
      %next = add %scaled, %now
      yield %more, %next, %sum
    }
  return %last, %all
}";

fn sums(steps: usize, width: usize) -> [Tensor; 3] {
    [ramp(&[steps, width]), ramp(&[width]), ramp(&[width])]
}

#[test]
fn an_element_wise_loop_is_one_launch() {
    for steps in [1, 40] {
        let counted = second_call(SUMS, &sums(steps, 5));
        assert_eq!((counted.launches, counted.uploads), (1, 0), "{counted:?}");
    }
}

/// A kernel without code is interpreted: the loop, and the computation of its trip count.
#[test]
fn a_loop_that_is_a_kernel_is_right_at_all_sizes_with_code_and_without() {
    let graph = graph(SUMS);
    let with = Arc::new(FakeCompiler::default()) as Arc<_>;
    for compiler in [Some(with), None] {
        let device = Arc::new(FakeDevice::default());
        let runtime = Runtime::new(compiler, device, RuntimeOptions::new());
        let program = compiled(&Arc::new(runtime), &graph, true);
        for (steps, width) in [(1, 3), (0, 2), (2, 0), (0, 0), (3, 1), (17, 9)] {
            support::expect_same(&program, &graph, &sums(steps, width));
        }
    }
}

#[test]
fn a_loop_that_is_a_kernel_runs_no_more_iterations_than_the_limit() {
    let graph = graph(SUMS);
    let mut options = RuntimeOptions::new();
    options.loop_iterations = 3;
    let compiler = Some(Arc::new(FakeCompiler::default()) as Arc<_>);
    let runtime = Runtime::new(compiler, Arc::new(FakeDevice::default()), options);
    let program = compiled(&Arc::new(runtime), &graph, true);
    support::expect_same(&program, &graph, &sums(3, 2));
    let error = program.run(&sums(4, 2)).unwrap_err();
    assert_eq!(error.code(), "E0833", "{error}");
    support::expect_same(&program, &graph, &sums(2, 2));
}

#[test]
fn a_trip_count_input_is_not_read_from_the_device() {
    let text = "graph @powers(%trips: i64[], %x: f32[4]) -> (f32[4], f32[t, 4]) {
      %on: bool[] = constant [true]
      %last: f32[4], %all: f32[t, 4] = loop %trips, %on, %x, %x {carried = 1} -> (t)
        region(%i: i64[], %acc: f32[4], %factor: f32[4]) {
          %more: bool[] = constant [true]
          %next = mul %acc, %factor
          yield %more, %next, %next
        }
      return %last, %all
    }";
    let few = second_call(text, &[Tensor::scalar(3_i64), ramp(&[4])]);
    let many = second_call(text, &[Tensor::scalar(30_i64), ramp(&[4])]);
    assert_eq!(many.launches, few.launches + 27);
    expect_no_more(few, many);
    assert_eq!(few.downloads, 2, "the outputs alone");
}

/// A condition on data is read in each iteration, and nothing else is.
#[test]
fn only_the_loop_condition_is_read_from_the_device() {
    let text = "graph @until(%x: f32[], %trips: i64[]) -> (f32[], f32[t]) {
      %on: bool[] = constant [true]
      %last: f32[], %all: f32[t] = loop %trips, %on, %x {carried = 1} -> (t)
        region(%i: i64[], %a: f32[]) {
          %one: f32[] = constant [1.0]
          %limit: f32[] = constant [20.5]
          %next = add %a, %one
          %more = lt %next, %limit
          yield %more, %next, %next
        }
      return %last, %all
    }";
    let calls = |start: f32| second_call(text, &[Tensor::scalar(start), Tensor::scalar(100_i64)]);
    let (few, many) = (calls(17.0), calls(1.0));
    assert_eq!(many.downloads - few.downloads, 16);
    assert_eq!(many.uploads, few.uploads);
}

/// Swapped values keep their memories.
#[test]
fn delayed_carried_values_are_not_overwritten() {
    let text = "graph @delay(%trips: i64[], %a: f32[N], %b: f32[N], %c: f32[N]) -> (f32[N], f32[N], f32[N], f32[t, N]) {
      %on: bool[] = constant [true]
      %p: f32[N], %q: f32[N], %r: f32[N], %all: f32[t, N] = loop %trips, %on, %a, %b, %c {carried = 3} -> (t)
        region(%i: i64[], %x: f32[N], %y: f32[N], %z: f32[N]) {
          %more: bool[] = constant [true]
          %sum = add %x, %z
          yield %more, %y, %z, %sum, %x
        }
      return %p, %q, %r, %all
    }";
    let (program, _, graph) = counted(text);
    let inputs = |trips: i64| [Tensor::scalar(trips), ramp(&[5]), ramp(&[5]), ramp(&[5])];
    for trips in [1, 2, 3, 9, 0, 30] {
        support::expect_same(&program, &graph, &inputs(trips));
    }
    let (few, many) = (
        second_call(text, &inputs(9)),
        second_call(text, &inputs(30)),
    );
    assert_eq!(few.allocations, many.allocations);
}

/// A nested loop whose inner loop passes on its initial values if it runs no iterations.
#[test]
fn nested_loops_keep_their_carried_values() {
    let text = "graph @nested(%trips: i64[], %x: f32[N]) -> (f32[N], f32[t, N]) {
      %on: bool[] = constant [true]
      %last: f32[N], %all: f32[t, N] = loop %trips, %on, %x {carried = 1} -> (t)
        region(%i: i64[], %a: f32[N]) {
          %more: bool[] = constant [true]
          %half: f32[] = constant [0.5]
          %b = mul %a, %half
          %c: f32[N] = loop %i, %more, %b, %a {carried = 1}
            region(%j: i64[], %s: f32[N], %t: f32[N]) {
              %again: bool[] = constant [true]
              %u = add %s, %t
              yield %again, %u
            }
          yield %more, %c, %c
        }
      return %last, %all
    }";
    let (program, _, graph) = counted(text);
    for trips in [1_i64, 2, 5, 0, 3] {
        support::expect_same(&program, &graph, &[Tensor::scalar(trips), ramp(&[3])]);
    }
}

/// More iterations than there are iteration numbers in one upload.
#[test]
fn the_iteration_number_is_right_beyond_the_first_uploaded_batch() {
    let text = "graph @count(%trips: i64[]) -> (i64[], i64[t]) {
      %on: bool[] = constant [true]
      %zero: i64[] = constant [0]
      %last: i64[], %all: i64[t] = loop %trips, %on, %zero {carried = 1} -> (t)
        region(%i: i64[], %a: i64[]) {
          %more: bool[] = constant [true]
          %b = add %a, %i
          yield %more, %b, %i
        }
      return %last, %all
    }";
    let (program, counts, graph) = counted(text);
    support::expect_same(&program, &graph, &[Tensor::scalar(2500_i64)]);
    assert!(counts.take().uploads < 10);
    support::expect_same(&program, &graph, &[Tensor::scalar(3_i64)]);
}

/// A value that grows from one iteration to the next, next to one that keeps its size.
#[test]
fn growing_carried_values_are_right_and_others_reuse_memory() {
    let text = "graph @growing(%trips: i64[], %x: f32[N], %y: f32[4]) -> (f32[m], f32[4]) {
      %on: bool[] = constant [true]
      %all: f32[m], %last: f32[4] = loop %trips, %on, %x, %y {carried = 2} -> (m)
        region(%i: i64[], %a: f32[k], %b: f32[4]) -> (k) {
          %more: bool[] = constant [true]
          %longer = concat %a, %b {axis = 0}
          %next = exp %b
          %half: f32[] = constant [0.5]
          %scaled = mul %next, %half
          yield %more, %longer, %scaled
        }
      return %all, %last
    }";
    let (program, _, graph) = counted(text);
    for trips in [3_i64, 0, 1, 7] {
        let inputs = [Tensor::scalar(trips), ramp(&[3]), ramp(&[4])];
        support::expect_same(&program, &graph, &inputs);
    }
}
