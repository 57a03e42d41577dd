//! Calls whose sizes break what the ops of a graph ask of them: compiled code refuses what the interpreter refuses, with
//! its code, and computes what it computes.

#![allow(clippy::expect_used, reason = "a test may panic")]

mod support;

use arbitrary::Unstructured;
use kiln_interpreter::{InterpretError, InterpretLimits, InterpretOptions, interpret};
use kiln_ir::Graph;
use kiln_lazy_runtime::CompiledProgram;
use kiln_passes::{PassOptions, optimize};
use kiln_tensor::{DType, Tensor};
use kiln_testkit::generate::{
    Flavor, GraphOptions, broken_shapes, input_shapes, input_tensors, random_graph,
};
use kiln_testkit::oracle::{Tolerance, compare_all};
use kiln_testkit::random::seeded_bytes;
use support::{compiled, graph, ramp, runtime};

/// Faults of data (an index out of range, a division by zero), which compiled code meets after it judged all sizes that are
/// known before.
const OF_DATA: [&str; 2] = ["E0822", "E0882"];

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

/// The optimised graph as a program.
fn program_of(graph: &Graph, fuse: bool) -> CompiledProgram {
    let (optimized, _) =
        optimize(graph.clone(), &mut PassOptions::default()).expect("a valid graph");
    compiled(&runtime(), &optimized, fuse)
}

/// Whether a call was refused. Panics where the two do not agree.
fn is_refused(graph: &Graph, program: &CompiledProgram, inputs: &[Tensor]) -> Option<bool> {
    let shapes: Vec<_> = inputs.iter().map(Tensor::shape).collect();
    let text = || {
        format!(
            "shapes {shapes:?}\n{}\n{}",
            kiln_ir::text::print(graph),
            program.program()
        )
    };
    match (interpret(graph, inputs, &options()), program.run(inputs)) {
        (Ok(expected), Ok(found)) => {
            if let Err(mismatch) = compare_all(&expected, &found, Tolerance::OfLargest(1e-4)) {
                panic!("{mismatch}\n{}", text());
            }
            Some(false)
        }
        (Err(InterpretError::LiveBytes { .. } | InterpretError::Iterations { .. }), _) => None,
        (Err(expected), Err(found)) if expected.code() == found.code() => Some(true),
        // Sizes are judged before data.
        (Err(expected), _) if OF_DATA.contains(&expected.code()) => None,
        // Ops of a branch or a loop that no result needs are not asked for their sizes.
        (Err(_), Ok(_)) if graph.n_regions() > 1 => None,
        (Err(expected), found) => {
            let found = found.map_or_else(
                |error| format!("{} {error}", error.code()),
                |found| format!("{found:?}"),
            );
            panic!(
                "expected {} {expected}, found {found}\n{}",
                expected.code(),
                text()
            )
        }
        (Ok(_), Err(found)) => panic!(
            "expected what the interpreter gives, found {} {found}\n{}",
            found.code(),
            text()
        ),
    }
}

/// Expects the outcome of each call, fused and not, on graphs optimised and not.
fn expect_codes(source: &str, calls: &[(&[&[usize]], Option<&str>)]) {
    let graph = graph(source);
    for fuse in [false, true] {
        for program in [program_of(&graph, fuse), compiled(&runtime(), &graph, fuse)] {
            for (shapes, code) in calls {
                let types = graph
                    .inputs()
                    .iter()
                    .filter_map(|&input| graph.tensor_ty(input));
                let inputs = types.zip(*shapes).map(|(ty, shape)| match ty.dtype {
                    DType::F32 => ramp(shape),
                    dtype => Tensor::zeros(dtype, shape).expect("a small tensor"),
                });
                let inputs: Vec<Tensor> = inputs.collect();
                let interpreted = interpret(&graph, &inputs, &options());
                let expected = interpreted.as_ref().err().map(InterpretError::code);
                assert_eq!(expected, *code, "interpreted, {shapes:?}");
                is_refused(&graph, &program, &inputs);
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
fn sizes_of_an_unused_result_count() {
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
fn sizes_of_an_op_that_a_pass_removes_count() {
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
fn negative_paddings_are_refused_whether_or_not_elements_are_left() {
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
fn slices_that_leave_their_axis_are_refused() {
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
fn extrema_of_nothing_are_refused_where_there_is_a_result() {
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
        let program = program_of(&graph, seed % 3 != 0);
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
            match is_refused(&graph, &program, &inputs) {
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
