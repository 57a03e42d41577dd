//! Calls whose sizes violate the requirements of ops: compiled code rejects what the interpreter rejects, with the same
//! error code, and otherwise computes the same.

#![allow(clippy::expect_used, reason = "a test may panic")]

mod support;

use std::fmt::Debug;

use arbitrary::Unstructured;
use kiln_interpreter::{InterpretError, InterpretLimits, InterpretOptions, interpret};
use kiln_ir::Graph;
use kiln_lazy_runtime::CompiledProgram;
use kiln_passes::{PassOptions, optimize};
use kiln_shape_inference::record_requirements;
use kiln_tensor::{DType, Tensor};
use kiln_testkit::generate::{
    Flavor, GraphOptions, broken_shapes, input_shapes, input_tensors, random_graph,
};
use kiln_testkit::oracle::{Tolerance, compare_all, is_of_data, may_fail_with, may_leave_out};
use kiln_testkit::random::seeded_bytes;
use support::{compiled, graph, ramp, runtime};

fn options() -> InterpretOptions<'static> {
    InterpretOptions {
        limits: InterpretLimits {
            live_bytes: 1 << 20,
            iterations: 50,
            ..InterpretLimits::default()
        },
        ..InterpretOptions::default()
    }
}

/// A graph as written, and one that is compiled instead.
struct Compared<'a> {
    written: &'a Graph,
    compiled: Graph,
    program: CompiledProgram,
}

impl<'a> Compared<'a> {
    /// After all passes.
    fn optimized(written: &'a Graph, fuse: bool) -> Self {
        let (compiled, _) =
            optimize(written.clone(), &mut PassOptions::default()).expect("a valid graph");
        Self::new(written, compiled, fuse)
    }

    /// Unchanged.
    fn plain(written: &'a Graph, fuse: bool) -> Self {
        let mut compiled = written.clone();
        record_requirements(&mut compiled);
        Self::new(written, compiled, fuse)
    }

    fn new(written: &'a Graph, graph: Graph, fuse: bool) -> Self {
        Self {
            written,
            program: compiled(&runtime(), &graph, fuse),
            compiled: graph,
        }
    }

    /// Whether a call was rejected; `None` if the interpreter reached its limits. Panics if the two do not agree.
    fn is_refused(&self, inputs: &[Tensor]) -> Option<bool> {
        let run = |graph| interpret(graph, inputs, &options());
        let (written, expected) = (run(self.written), run(&self.compiled));
        for result in [&written, &expected] {
            if let Err(InterpretError::LiveBytes { .. } | InterpretError::Iterations { .. }) =
                result
            {
                return None;
            }
        }
        match (&written, &expected) {
            (Ok(_), Ok(_)) | (Err(_), Err(_)) => {}
            // The fault was removed together with an op that no output needs.
            (Err(error), Ok(_)) if is_of_data(error.code()) => {}
            (written, expected) => self.disagree(inputs, written, expected),
        }
        let found = self.program.run(inputs);
        let found = found.map_err(|error| (error.code(), error.to_string()));
        match (&expected, &found) {
            (Ok(expected), Ok(found)) => {
                if let Err(mismatch) = compare_all(expected, found, Tolerance::OfLargest(1e-4)) {
                    self.disagree(inputs, mismatch, found);
                }
                Some(false)
            }
            (Err(error), Err((code, _))) if may_fail_with(&self.compiled, error.code(), code) => {
                Some(true)
            }
            (Err(error), Ok(_)) if may_leave_out(&self.compiled, error.code()) => Some(false),
            (expected, found) => self.disagree(inputs, expected, found),
        }
    }

    fn disagree(&self, inputs: &[Tensor], expected: impl Debug, found: impl Debug) -> ! {
        let shapes: Vec<_> = inputs.iter().map(Tensor::shape).collect();
        panic!(
            "expected {expected:?}, found {found:?}\nshapes {shapes:?}\n{}\n{}\n{}",
            kiln_ir::text::print(self.written),
            kiln_ir::text::print(&self.compiled),
            self.program.program()
        )
    }
}

/// Checks the outcome of each call, fused and unfused, on optimised and unoptimised graphs.
fn expect_codes(source: &str, calls: &[(&[&[usize]], Option<&str>)]) {
    let graph = graph(source);
    for fuse in [false, true] {
        for compared in [
            Compared::optimized(&graph, fuse),
            Compared::plain(&graph, fuse),
        ] {
            for (shapes, code) in calls {
                let types = graph
                    .inputs()
                    .iter()
                    .filter_map(|&input| graph.tensor_ty(input));
                let inputs = types.zip(*shapes).map(|(ty, shape)| match ty.dtype {
                    DType::F32 => ramp(shape),
                    DType::I64 => Tensor::full(shape, 1_i64).expect("a small tensor"),
                    dtype => Tensor::zeros(dtype, shape).expect("a small tensor"),
                });
                let inputs: Vec<Tensor> = inputs.collect();
                let interpreted = interpret(&graph, &inputs, &options());
                let expected = interpreted.as_ref().err().map(InterpretError::code);
                assert_eq!(expected, *code, "interpreted, {shapes:?}");
                compared.is_refused(&inputs);
            }
        }
    }
}

#[test]
fn sums_whose_broadcast_is_presumed_by_a_later_product_are_refused() {
    expect_codes(
        "graph @g(%x: f32[D, E], %y: f32[4, F], %z: f32[H]) -> f32[4, bcast(E, F, H)] {
           %1 = add %x, %z
           %2 = mul %y, %1
           return %2
         }",
        &[
            (&[&[4, 3], &[4, 3], &[3]], None),
            (&[&[1, 3], &[4, 3], &[1]], None),
            (&[&[8, 3], &[4, 3], &[3]], Some("E0820")),
            (&[&[0, 3], &[4, 3], &[3]], Some("E0820")),
            (&[&[4, 3], &[4, 2], &[3]], Some("E0820")),
            (&[&[4, 2], &[4, 1], &[3]], Some("E0820")),
        ],
    );
}

#[test]
fn choices_between_sizes_that_do_not_broadcast_are_refused() {
    expect_codes(
        "graph @g(%c: bool[S], %x: f32[T], %y: f32[8]) -> f32[8] {
           %0 = select %c, %x, %y
           return %0
         }",
        &[
            (&[&[8], &[8], &[8]], None),
            (&[&[1], &[1], &[8]], None),
            (&[&[1], &[9], &[8]], Some("E0820")),
            (&[&[3], &[1], &[8]], Some("E0820")),
            (&[&[0], &[8], &[8]], Some("E0820")),
        ],
    );
}

#[test]
fn sizes_of_an_unused_result_are_checked() {
    expect_codes(
        "graph @g(%x: f32[A], %y: f32[B]) -> f32[A] {
           %0 = add %x, %y
           %1 = neg %x
           return %1
         }",
        &[
            (&[&[3], &[1]], None),
            (&[&[3], &[2]], Some("E0820")),
            (&[&[0], &[2]], Some("E0820")),
        ],
    );
}

#[test]
fn sizes_of_an_op_that_a_pass_removes_are_checked() {
    expect_codes(
        "graph @g(%x: f32[A], %y: f32[B]) -> i64[1] {
           %0 = add %x, %y
           %1 = dims {sizes = [A]}
           return %1
         }",
        &[(&[&[3], &[3]], None), (&[&[3], &[2]], Some("E0820"))],
    );
}

#[test]
fn negative_paddings_are_refused_even_if_elements_remain() {
    expect_codes(
        "graph @g(%x: f32[A], %y: f32[B]) -> f32[A + B - 3] {
           %v: f32[] = constant [0.0]
           %0 = pad %x, %v { low = [B - 3], high = [0], mode = constant }
           return %0
         }",
        &[
            (&[&[4], &[5]], None),
            (&[&[4], &[3]], None),
            (&[&[4], &[2]], Some("E0823")),
            (&[&[3], &[0]], Some("E0823")),
        ],
    );
}

#[test]
fn out_of_bounds_slices_are_refused() {
    expect_codes(
        "graph @g(%x: f32[A], %y: f32[B]) -> f32[B] {
           %0 = slice %x { starts = [1], sizes = [B], steps = [1] }
           return %0
         }",
        &[
            (&[&[4], &[3]], None),
            (&[&[0], &[0]], None),
            (&[&[4], &[4]], Some("E0345")),
        ],
    );
}

#[test]
fn windows_past_an_axis_are_refused() {
    expect_codes(
        "graph @g(%x: f32[1, 1, A]) -> f32[1, 1, A - 4] {
           %0 = pool %x {function = max, size = [5], strides = [1], dilations = [1], low = [0], high = [0]}
           return %0
         }",
        &[
            (&[&[1, 1, 6]], None),
            (&[&[1, 1, 4]], None),
            (&[&[1, 1, 3]], Some("E0823")),
            (&[&[1, 1, 0]], Some("E0823")),
        ],
    );
}

#[test]
fn repeats_of_sizes_other_than_one_are_refused() {
    expect_codes(
        "graph @g(%x: f32[A], %y: f32[B]) -> f32[B] {
           %0 = broadcast %x { dims = [B] }
           return %0
         }",
        &[
            (&[&[3], &[3]], None),
            (&[&[1], &[0]], None),
            (&[&[2], &[4]], Some("E0346")),
        ],
    );
}

#[test]
fn extrema_of_an_empty_axis_are_refused_if_the_result_has_elements() {
    expect_codes(
        "graph @g(%x: f32[A, B]) -> i64[A] {
           %0 = arg_reduce %x {extremum = max, axis = 1}
           return %0
         }",
        &[
            (&[&[2, 3]], None),
            (&[&[0, 0]], None),
            (&[&[2, 0]], Some("E0824")),
        ],
    );
}

/// An `if` whose branches yield their first capture, and compute an unused value from `%p` and `%q`.
fn branches(condition: &str, then: &str, otherwise: &str, after: &str) -> String {
    format!(
        "graph @g(%c: bool[], %x: f32[A], %y: f32[B]) -> f32[A] {{
           %true: bool[] = constant [true]
           %0: f32[A] = if {condition}, %x, %y
             region(%p: f32[A], %q: f32[B]) {{
               {then}
               yield %p
             }}
             region(%r: f32[A], %s: f32[B]) {{
               {otherwise}
               yield %r
             }}
           {after}
           return %0
         }}"
    )
}

#[test]
fn sizes_of_a_dead_op_are_checked_if_its_branch_is_taken() {
    let equal: &[&[usize]] = &[&[], &[3], &[3]];
    let broken: &[&[usize]] = &[&[], &[3], &[2]];
    // The condition is false in each of these calls.
    let taken = branches("%c", "", "%d = add %r, %s", "");
    expect_codes(&taken, &[(equal, None), (broken, Some("E0820"))]);
    let other = branches("%c", "%d = add %p, %q", "", "");
    expect_codes(&other, &[(equal, None), (broken, None)]);
}

#[test]
fn faults_of_an_inlined_branch_keep_program_order() {
    let after = "%7 = slice %y { starts = [0], sizes = [3], steps = [1] }";
    let text = branches("%true", "%d = add %p, %q", "", after);
    expect_codes(
        &text,
        &[
            (&[&[], &[3], &[3]], None),
            (&[&[], &[1], &[2]], Some("E0345")),
            (&[&[], &[3], &[2]], Some("E0820")),
        ],
    );
    // Both require too much of the second input; the branch is checked first.
    let graph = graph(&text);
    let compared = Compared::optimized(&graph, true);
    let broken = [Tensor::scalar(false), ramp(&[3]), ramp(&[2])];
    let error = compared
        .program
        .run(&broken)
        .expect_err("sizes that do not fit");
    assert_eq!(error.code(), "E0820");
}

#[test]
fn sizes_of_an_unused_if_result_are_checked() {
    expect_codes(
        "graph @g(%c: bool[], %x: f32[A], %y: f32[B], %z: f32[C]) -> f32[A] {
           %0: f32[n] = if %c, %x, %y -> (n)
             region(%p: f32[A], %q: f32[B]) {
               yield %p
             }
             region(%r: f32[A], %s: f32[B]) {
               yield %s
             }
           %1 = add %0, %z
           return %x
         }",
        &[
            (&[&[], &[3], &[4], &[4]], None),
            (&[&[], &[3], &[4], &[3]], Some("E0820")),
        ],
    );
}

#[test]
fn sizes_in_a_loop_with_an_unused_result_are_checked() {
    expect_codes(
        "graph @g(%trips: i64[], %x: f32[A], %y: f32[B]) -> f32[A] {
           %true: bool[] = constant [true]
           %0: f32[A] = loop %trips, %true, %x, %y {carried = 1}
             region(%i: i64[], %p: f32[A], %q: f32[B]) {
               %go: bool[] = constant [true]
               %s = slice %q { starts = [0], sizes = [2], steps = [1] }
               yield %go, %p
             }
           return %x
         }",
        &[
            (&[&[], &[3], &[2]], None),
            (&[&[], &[3], &[1]], Some("E0345")),
        ],
    );
}

#[test]
fn layers_of_an_unused_stack_must_have_one_size() {
    expect_codes(
        "graph @g(%trips: i64[], %x: f32[A]) -> f32[B2] {
           %true: bool[] = constant [true]
           %last: f32[B2], %all: f32[n, m] = loop %trips, %true, %x {carried = 1} -> (B2, n, m)
             region(%i: i64[], %p: f32[k]) -> (k) {
               %go: bool[] = constant [true]
               %q = concat %p, %p {axis = 0}
               yield %go, %q, %q
             }
           return %last
         }",
        &[(&[&[], &[0]], None), (&[&[], &[3]], None)],
    );
    let text = "graph @g(%x: f32[A]) -> f32[B2] {
           %trips: i64[] = constant [2]
           %true: bool[] = constant [true]
           %last: f32[B2], %all: f32[n, m] = loop %trips, %true, %x {carried = 1} -> (B2, n, m)
             region(%i: i64[], %p: f32[k]) -> (k) {
               %go: bool[] = constant [true]
               %q = concat %p, %p {axis = 0}
               yield %go, %q, %q
             }
           return %last
         }";
    expect_codes(text, &[(&[&[0]], None), (&[&[3]], Some("E0349"))]);
}

#[test]
fn data_faults_in_unused_elements_occur_only_without_fusion() {
    let graph = graph(
        "graph @g(%x: f32[A], %i: i64[B]) -> f32[2] {
           %0 = gather %x, %i {axis = 0}
           %1 = slice %0 {starts = [0], sizes = [2], steps = [1]}
           return %1
         }",
    );
    let indices = |last: i64| Tensor::from_slice(&[3], &[1, 0, last]).expect("a small tensor");
    for (last, is_fault) in [(2, false), (3, true)] {
        let inputs = [ramp(&[3]), indices(last)];
        let code = |fuse| {
            let compared = Compared::plain(&graph, fuse);
            let found = compared.program.run(&inputs);
            compared.is_refused(&inputs);
            found.err().map(|error| error.code())
        };
        assert_eq!(code(false), is_fault.then_some("E0822"));
        assert_eq!(code(true), None);
        let interpreted = interpret(&graph, &inputs, &options()).err();
        assert_eq!(
            interpreted.map(|error| error.code()),
            is_fault.then_some("E0822")
        );
    }
}

fn number(name: &str, default: u64) -> u64 {
    let given = std::env::var(name).ok();
    given.and_then(|n| n.parse().ok()).unwrap_or(default)
}

#[test]
fn random_graphs_refuse_sizes_as_the_interpreter_does() {
    let first = number("KILN_RANDOM_FIRST", 0);
    let (mut accepted, mut refused) = (0, 0);
    for seed in first..first + number("KILN_RANDOM_GRAPHS", 60) {
        let bytes = seeded_bytes(seed, 8192);
        let mut choices = Unstructured::new(&bytes);
        let options = GraphOptions {
            max_ops: 10,
            smooth: true,
        };
        let graph = random_graph(&mut choices, &options).expect("bytes enough");
        let compared = Compared::optimized(&graph, seed % 3 != 0);
        for _ in 0..6 {
            let Ok(Some(shapes)) = input_shapes(&mut choices, &graph) else {
                break;
            };
            let shapes = broken_shapes(&mut choices, &graph, &shapes).expect("bytes enough");
            if shapes.iter().flatten().any(|&size| size > 40) {
                continue;
            }
            let Ok(inputs) = input_tensors(&mut choices, &graph, &shapes, Flavor::Small) else {
                break;
            };
            match compared.is_refused(&inputs) {
                Some(true) => refused += 1,
                Some(false) => accepted += 1,
                None => {}
            }
        }
    }
    assert!(
        refused > 20 && accepted > 20,
        "{refused} calls were refused and {accepted} accepted"
    );
}
