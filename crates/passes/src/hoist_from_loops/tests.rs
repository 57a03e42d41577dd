//! Which ops are hoisted out of a loop, and which are not.

use super::hoist_from_loops;
use crate::testing::{after, graph, is_unchanged, optimized};
use crate::{eliminate_dead_ops, sink_constants};
use insta::assert_snapshot;
use kiln_interpreter::{InterpretOptions, interpret};
use kiln_tensor::Tensor;

/// The graph without dead ops.
fn hoisted(source: &str) -> String {
    after(&[hoist_from_loops, eliminate_dead_ops], source)
}

#[test]
fn products_over_inner_axis_slices_become_one_product() {
    let source = "
graph @main(%x: f32[4, T, 2], %w: f32[3, 5, 4], %h: f32[3, 5, 2]) -> f32[3, 5, 2] {
  %sizes: i64[1] = dims {sizes = [T]}
  %n: i64[] = reshape %sizes {dims = []}
  %go: bool[] = constant [true]
  %1: f32[3, 5, 2] = loop %n, %go, %h, %x, %w {carried = 1}
    region(%i: i64[], %state: f32[3, 5, 2], %xs: f32[4, T, 2], %v: f32[3, 5, 4]) {
      %stay: bool[] = constant [true]
      %2: f32[4, 2] = gather %xs, %i {axis = 1}
      %3: f32[3, 5, 2] = matmul %v, %2
      %4: f32[3, 5, 2] = add %3, %state
      yield %stay, %4
    }
  return %1
}";
    assert_snapshot!(hoisted(source));
    same_numbers(source, &|steps| {
        vec![ramp(&[4, steps, 2]), ramp(&[3, 5, 4]), ramp(&[3, 5, 2])]
    });
}

/// The size is bound to data in each iteration, so nothing of that size exists before the loop.
#[test]
fn ops_with_sizes_bound_in_the_loop_stay_in_it() {
    let source = "graph @main(%n: i64[], %x: f32[B], %k: i64[B]) -> (f32[B], f64[M, m]) {
           %go: bool[] = constant [true]
           %1: f32[B], %2: f64[M, m] = loop %n, %go, %x, %k {carried = 1} -> (M, m)
             region(%i: i64[], %p: f32[B], %l: i64[B]) {
               %stay: bool[] = constant [true]
               %low: i64[] = constant [0]
               %size: i64[] = max %i, %low
               bind %size -> (s)
               %counted: i32[s] = iota {dims = [s], axis = 0, dtype = i32}
               %steps: f64[s] = cast %counted {to = f64}
               yield %stay, %p, %steps
             }
           return %1, %2
         }";
    assert!(is_unchanged(hoist_from_loops, source));
}

#[test]
fn ops_that_may_fault_bind_or_read_carried_values_are_not_hoisted() {
    let in_loop = |ops: &str, result: &str| {
        format!(
            "graph @main(%n: i64[], %x: f32[B], %k: i64[B], %t: f32[A], %u: f32[C]) -> f32[B] {{
               %go: bool[] = constant [true]
               %1: f32[B] = loop %n, %go, %x, %k, %t, %u {{carried = 1}}
                 region(%i: i64[], %p: f32[B], %l: i64[B], %s: f32[A], %r: f32[C]) {{
                   %stay: bool[] = constant [true]
                   {ops}
                   %9: f32[B] = add %p, {result}
                   yield %stay, %9
                 }}
               return %1
             }}"
        )
    };
    let division = "%2: i64[B] = rem %l, %l
                    %3: f32[B] = cast %2 {to = f32}";
    let within = "%2: i64[B] = reciprocal %l
                  %3: f32[B] = cast %2 {to = f32}";
    let lookup = "%3: f32[B] = gather %s, %l {axis = 0}";
    let carried = "%3: f32[B] = exp %p";
    for ops in [division, within, lookup, carried] {
        assert!(is_unchanged(hoist_from_loops, &in_loop(ops, "%3")), "{ops}");
    }
    // The same place, with nothing that prevents hoisting.
    let root = "%2: f32[B] = cast %l {to = f32}
                %3: f32[B] = sqrt %2";
    assert!(!is_unchanged(hoist_from_loops, &in_loop(root, "%3")));
}

#[test]
fn products_in_loops_that_may_end_early_are_not_hoisted() {
    let source = |goes_on: &str| {
        format!(
            "graph @main(%x: f32[T, 2, 4], %w: f32[4, 4], %h: f32[2, 4], %c: bool[]) -> f32[2, 4] {{
               %sizes: i64[1] = dims {{sizes = [T]}}
               %n: i64[] = reshape %sizes {{dims = []}}
               %go: bool[] = constant [true]
               %1: f32[2, 4] = loop %n, %go, %h, %x, %w, %c {{carried = 1}}
                 region(%i: i64[], %state: f32[2, 4], %xs: f32[T, 2, 4], %v: f32[4, 4], %d: bool[]) {{
                   %stay: bool[] = constant [true]
                   %2: f32[2, 4] = gather %xs, %i {{axis = 0}}
                   %3: f32[2, 4] = matmul %2, %v
                   %4: f32[2, 4] = add %3, %state
                   yield {goes_on}, %4
                 }}
               return %1
             }}"
        )
    };
    assert!(is_unchanged(hoist_from_loops, &source("%d")));
    assert!(!is_unchanged(hoist_from_loops, &source("%stay")));
}

fn ramp(shape: &[usize]) -> Tensor {
    let n: usize = shape.iter().product();
    let elements: Vec<f32> = (0..n)
        .map(|i| ((i * 7 + 3) % 11) as f32 * 0.25 - 1.0)
        .collect();
    Tensor::from_vec(shape, elements).unwrap()
}

/// Products may round differently, so close numbers are accepted. Includes loops that run no iterations, or one.
fn same_numbers(source: &str, inputs: &dyn Fn(usize) -> Vec<Tensor>) {
    let before = graph(source);
    let (optimized, _) = optimized(before.clone());
    for steps in [0, 1, 2, 5] {
        let inputs = inputs(steps);
        let run = |graph| interpret(graph, &inputs, &InterpretOptions::default()).unwrap();
        for (expected, found) in run(&before).iter().zip(run(&optimized)) {
            assert_eq!(expected.shape(), found.shape());
            let pairs = expected.to_vec::<f32>().unwrap();
            let pairs = pairs.into_iter().zip(found.to_vec::<f32>().unwrap());
            for (expected, found) in pairs {
                assert!((expected - found).abs() <= 1e-5 * expected.abs().max(1.0));
            }
        }
    }
}

#[test]
fn loops_give_the_same_numbers_as_before() {
    same_numbers(
        "graph @main(%x: f32[T, 2, 4], %w: f32[4, 6], %g: f32[6, 6], %h: f32[2, 6]) -> (f32[2, 6], f32[T, 2, 6]) {
           %sizes: i64[1] = dims {sizes = [T]}
           %n: i64[] = reshape %sizes {dims = []}
           %go: bool[] = constant [true]
           %1: f32[2, 6], %2: f32[T, 2, 6] = loop %n, %go, %h, %x, %w, %g {carried = 1}
             region(%i: i64[], %state: f32[2, 6], %xs: f32[T, 2, 4], %v: f32[4, 6], %r: f32[6, 6]) {
               %stay: bool[] = constant [true]
               %now: f32[2, 4] = gather %xs, %i {axis = 0}
               %p: f32[2, 6] = matmul %now, %v
               %small: f32[6, 6] = tanh %r
               %q: f32[2, 6] = matmul %state, %small
               %s: f32[2, 6] = add %p, %q
               %y: f32[2, 6] = tanh %s
               yield %stay, %y, %y
             }
           return %1, %2
         }",
        &|steps| vec![ramp(&[steps, 2, 4]), ramp(&[4, 6]), ramp(&[6, 6]), ramp(&[2, 6])],
    );
}

#[test]
fn constants_are_hoisted_with_their_readers() {
    let source = "
graph @main(%x: f32[T, 1, 4], %h: f32[1, 4]) -> f32[1, 4] {
  %sizes: i64[1] = dims {sizes = [T]}
  %n: i64[] = reshape %sizes {dims = []}
  %go: bool[] = constant [true]
  %w: f32[4, 4] = constant [1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0]
  %1: f32[1, 4] = loop %n, %go, %h, %x, %w {carried = 1}
    region(%i: i64[], %state: f32[1, 4], %xs: f32[T, 1, 4], %v: f32[4, 4]) {
      %stay: bool[] = constant [true]
      %2: f32[1, 4] = gather %xs, %i {axis = 0}
      %3: f32[1, 4] = matmul %2, %v
      %4: f32[1, 4] = sub %3, %state
      yield %stay, %4
    }
  return %1
}";
    let passes = [sink_constants, hoist_from_loops, eliminate_dead_ops];
    assert_snapshot!(after(&passes, source));
}
