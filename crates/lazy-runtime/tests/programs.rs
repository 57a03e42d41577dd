//! Whole graphs on the fake backend, compared with the interpreter: one test per kind of step.

mod support;

use kiln_tensor::Tensor;
use support::{compiled, error_of, expect_same, graph, ramp, runtime};

fn check(text: &str, calls: &[&[Tensor]]) {
    let graph = graph(text);
    for fuse in [true, false] {
        let program = compiled(&runtime(), &graph, fuse);
        for inputs in calls {
            expect_same(&program, &graph, inputs);
            // Again, with everything compiled.
            expect_same(&program, &graph, inputs);
        }
    }
}

fn integer(value: i64) -> Tensor {
    Tensor::scalar(value)
}

#[test]
fn matmul_with_bias_and_activation_agrees_with_the_interpreter() {
    let text = "graph @mlp(%x: f32[B, K], %w: f32[K, N], %b: f32[N]) -> f32[B, N] {
      %p = matmul %x, %w
      %s = add %p, %b
      %y = relu %s
      return %y
    }";
    let calls = |b, k, n| [ramp(&[b, k]), ramp(&[k, n]), ramp(&[n])];
    check(
        text,
        &[
            &calls(2, 3, 5),
            &calls(0, 3, 5),
            &calls(1, 0, 4),
            &calls(7, 1, 1),
        ],
    );
}

#[test]
fn constant_operands_are_packed() {
    let text = "graph @mlp(%x: f32[B, 3]) -> f32[B, 2] {
      %w: f32[3, 2] = constant [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]
      %p = matmul %x, %w
      return %p
    }";
    check(text, &[&[ramp(&[2, 3])], &[ramp(&[0, 3])]]);
}

#[test]
fn outputs_may_be_inputs_constants_views_or_duplicates() {
    let text = "graph @edges(%x: f32[A, B]) -> (f32[A, B], f32[2], f32[A * B], f32[A, B], f32[B, A], f32[A, B]) {
      %c: f32[2] = constant [1.5, -2.0]
      %flat = reshape %x {dims = [A * B]}
      %n = neg %x
      %back = reshape %n {dims = [B, A]}
      return %x, %c, %flat, %n, %back, \"again\" = %n
    }";
    check(
        text,
        &[&[ramp(&[2, 3])], &[ramp(&[0, 3])], &[ramp(&[1, 1])]],
    );
}

#[test]
fn slices_reshapes_transposes_and_concats_agree_with_the_interpreter() {
    let text =
        "graph @parts(%x: f32[A, 6]) -> (f32[A, 2, 2], f32[6, A], f32[A, 12], f32[A + 1, 6]) {
      %y = exp %x
      %head = slice %y {starts = [0, 1], sizes = [A, 4], steps = [1, 1]}
      %cube = reshape %head {dims = [A, 2, 2]}
      %turned = transpose %y {permutation = [1, 0]}
      %n = neg %y
      %both = concat %n, %y {axis = 1}
      %row: f32[1, 6] = constant [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]
      %more = concat %row, %y {axis = 0}
      return %cube, %turned, %both, %more
    }";
    check(
        text,
        &[&[ramp(&[5, 6])], &[ramp(&[1, 6])], &[ramp(&[0, 6])]],
    );
}

#[test]
fn slices_of_the_outermost_axis_are_views() {
    let text = "graph @rows(%x: f32[A, B]) -> f32[2, B] where A >= 3 {
      %y = exp %x
      %part = slice %y {starts = [1, 0], sizes = [2, B], steps = [1, 1]}
      %n = neg %part
      return %n
    }";
    check(text, &[&[ramp(&[3, 4])], &[ramp(&[5, 0])]]);
}

#[test]
fn softmax_and_row_statistics_agree_with_the_interpreter() {
    let text = "graph @softmax(%x: f32[B, N]) -> (f32[B, N], f32[B, N]) where N >= 1 {
      %m = reduce %x {function = max, axes = [1], keep_dims}
      %d = sub %x, %m
      %e = exp %d
      %s = reduce %e {function = sum, axes = [1], keep_dims}
      %y = div %e, %s
      %a = reduce %y {function = mean, axes = [0], keep_dims}
      %z = sub %y, %a
      return %y, %z
    }";
    check(
        text,
        &[&[ramp(&[3, 7])], &[ramp(&[1, 1])], &[ramp(&[4, 2])]],
    );
}

#[test]
fn data_dependent_sizes_agree_with_the_interpreter() {
    let text = "graph @found(%x: f32[A]) -> (i64[1, n], f32[n]) {
      %at: i64[1, A], %count: i64[] = non_zero %x
      bind %count -> (n)
      %places = slice %at {starts = [0, 0], sizes = [1, n], steps = [1, 1]}
      %flat = reshape %places {dims = [n]}
      %values = gather %x, %flat {axis = 0}
      %y = exp %values
      return %places, %y
    }";
    let x = Tensor::from_slice(&[5], &[0.0f32, 1.0, 0.0, -2.0, 3.0]).unwrap();
    let nothing = Tensor::from_slice(&[3], &[0.0f32; 3]).unwrap();
    check(text, &[&[x], &[nothing], &[ramp(&[0])]]);
}

#[test]
fn top_k_and_random_bits_agree_with_the_interpreter() {
    let text = "graph @top(%x: f32[A, B], %key: u64[2]) -> (f32[A, 2], i64[A, 2], u32[A, 3]) where B >= 2 {
      %values, %indices = top_k %x {k = 2, axis = 1, extremum = max}
      %bits = random_bits %key {dims = [A, 3]}
      return %values, %indices, %bits
    }";
    let key = Tensor::from_slice(&[2], &[7u64, 9]).unwrap();
    check(
        text,
        &[&[ramp(&[3, 5]), key.clone()], &[ramp(&[0, 2]), key]],
    );
}

#[test]
fn top_k_beyond_the_axis_is_refused() {
    let text = "graph @top(%x: f32[A], %n: i64[B]) -> (f32[B], i64[B]) {
      %values, %indices = top_k %x {k = B, axis = 0, extremum = max}
      return %values, %indices
    }";
    let graph = graph(text);
    let program = compiled(&runtime(), &graph, true);
    let call = |a, b| {
        [
            ramp(&[a]),
            Tensor::zeros(kiln_tensor::DType::I64, &[b]).unwrap(),
        ]
    };
    expect_same(&program, &graph, &call(4, 3));
    let error = error_of(&program, &call(2, 3));
    // The interpreter's message.
    assert_eq!(error.code(), "E0825", "{error}");
}

#[test]
fn branches_agree_with_the_interpreter() {
    let text = "graph @choose(%c: bool[], %x: f32[N]) -> f32[N] {
      %d = exp %x
      %y: f32[N] = if %c, %d
        region(%a: f32[N]) {
          yield %a
        }
        region(%b: f32[N]) {
          %n: f32[N] = neg %b
          %m: f32[N] = exp %n
          yield %m
        }
      %z = neg %y
      return %z
    }";
    let calls = |c: bool, n| [Tensor::scalar(c), ramp(&[n])];
    check(
        text,
        &[
            &calls(true, 3),
            &calls(false, 3),
            &calls(true, 0),
            &calls(false, 5),
        ],
    );
}

#[test]
fn sizes_decided_by_a_branch_agree_with_the_interpreter() {
    let text = "graph @grow(%c: bool[], %x: f32[N]) -> f32[n] {
      %y: f32[n] = if %c, %x -> (n)
        region(%a: f32[N]) {
          %twice: f32[2*N] = concat %a, %a {axis = 0}
          yield %twice
        }
        region(%b: f32[N]) {
          yield %b
        }
      %z = exp %y
      return %z
    }";
    let calls = |c: bool, n| [Tensor::scalar(c), ramp(&[n])];
    check(
        text,
        &[
            &calls(true, 3),
            &calls(false, 3),
            &calls(true, 0),
            &calls(false, 1),
        ],
    );
}

#[test]
fn loops_carry_and_stack_values() {
    let text = "graph @powers(%trips: i64[], %x: f32[N]) -> (f32[N], f32[t, N], f32[t, N]) {
      %on: bool[] = constant [true]
      %last: f32[N], %all: f32[t, N] = loop %trips, %on, %x, %x {carried = 1} -> (t)
        region(%i: i64[], %acc: f32[N], %factor: f32[N]) {
          %more: bool[] = constant [true]
          %next: f32[N] = mul %acc, %factor
          yield %more, %next, %next
        }
      %e = neg %all
      return %last, %all, %e
    }";
    let calls = |trips, n| [integer(trips), ramp(&[n])];
    check(
        text,
        &[
            &calls(3, 4),
            &calls(0, 4),
            &calls(1, 0),
            &calls(-1, 2),
            &calls(5, 1),
        ],
    );
}

#[test]
fn loops_end_when_the_condition_fails_and_may_swap_carried_values() {
    let text = "graph @fibonacci(%trips: i64[], %a: f32[N], %b: f32[N]) -> (f32[N], f32[N]) {
      %on: bool[] = constant [true]
      %p: f32[N], %q: f32[N] = loop %trips, %on, %a, %b {carried = 2}
        region(%i: i64[], %x: f32[N], %y: f32[N]) {
          %limit: i64[] = constant [3]
          %more = lt %i, %limit
          %sum: f32[N] = add %x, %y
          yield %more, %y, %sum
        }
      return %p, %q
    }";
    let calls = |trips, n| [integer(trips), ramp(&[n]), ramp(&[n])];
    check(text, &[&calls(2, 4), &calls(9, 3), &calls(0, 1)]);
}

#[test]
fn a_loop_whose_carried_sizes_change() {
    let text = "graph @doubling(%trips: i64[], %x: f32[N]) -> f32[m] {
      %on: bool[] = constant [true]
      %y: f32[m] = loop %trips, %on, %x {carried = 1} -> (m)
        region(%i: i64[], %a: f32[k]) -> (k) {
          %more: bool[] = constant [true]
          %twice: f32[2*k] = concat %a, %a {axis = 0}
          yield %more, %twice
        }
      %z = neg %y
      return %z
    }";
    let calls = |trips, n| [integer(trips), ramp(&[n])];
    check(text, &[&calls(3, 2), &calls(0, 5), &calls(2, 0)]);
}

#[test]
fn sizes_become_tensor_data() {
    let text = "graph @sizes(%x: f32[A, B]) -> (i64[2], i64[2]) {
      %s = dims {sizes = [A, A * B]}
      %t = add %s, %s
      return %s, %t
    }";
    check(text, &[&[ramp(&[2, 3])], &[ramp(&[0, 1])]]);
}

#[test]
fn scatter_updates_a_copy() {
    let text =
        "graph @scatter(%x: f32[N, 2], %i: i64[K, 1], %u: f32[K, 2]) -> (f32[N, 2], f32[N, 2]) {
      %y = scatter_nd %x, %i, %u {combine = add}
      %z = neg %x
      return %y, %z
    }";
    let i = Tensor::from_slice(&[3, 1], &[1i64, 0, 1]).unwrap();
    check(text, &[&[ramp(&[4, 2]), i, ramp(&[3, 2])]]);
}
