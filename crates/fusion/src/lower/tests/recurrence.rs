//! Loops lowered to carry blocks, compared with the interpreter, and loops that are not lowered.

use kiln_kernel::Class;
use kiln_tensor::Tensor;

use super::{Case, check, check_with, class_of, refused};

/// No iterations, one, several; no points, one, several.
const SIZES: &[Case<'_>] = &[
    &[("T", 0), ("N", 3), ("B", 2)],
    &[("T", 1), ("N", 1), ("B", 1)],
    &[("T", 2), ("N", 0), ("B", 2)],
    &[("T", 5), ("N", 4), ("B", 3)],
    &[("T", 7), ("N", 9), ("B", 1)],
];

/// A loop over all of `T`: its inputs, its results, and its head and body.
fn over_all(inputs: &str, results: &str, head: &str, body: &str, given: &str) -> String {
    format!(
        "graph @g({inputs}) -> ({results}) {{
           %sizes: i64[1] = dims {{sizes = [T]}}
           %trips: i64[] = reshape %sizes {{dims = []}}
           %go: bool[] = constant [true]
           {head}
           {body}
           return {given}
         }}"
    )
}

#[test]
fn a_running_sum_gives_its_last_value_and_all_of_them() {
    let text = over_all(
        "%x: f32[T, N], %h: f32[N]",
        "f32[N], f32[T, N]",
        "",
        "%1: f32[N], %2: f32[T, N] = loop %trips, %go, %h, %x {carried = 1}
           region(%i: i64[], %s: f32[N], %xs: f32[T, N]) {
             %on: bool[] = constant [true]
             %a: f32[N] = gather %xs, %i {axis = 0}
             %b: f32[N] = add %s, %a
             yield %on, %b, %b
           }",
        "%1, %2",
    );
    let kernel = check(&text, SIZES);
    assert_eq!(kernel.stages().len(), 1);
    let text = kiln_kernel::text::print(&kernel);
    assert!(
        !text.contains("select"),
        "every index is in bounds:\n{text}"
    );
}

#[test]
fn several_carried_values_may_read_each_other() {
    let text = over_all(
        "%x: f32[B, T, N], %g: f32[N], %h: f32[B, N], %c: f32[B, N]",
        "f32[B, N], f32[B, N], f32[T, B, N], f32[T, B, N]",
        "",
        "%1: f32[B, N], %2: f32[B, N], %3: f32[T, B, N], %4: f32[T, B, N] = loop %trips, %go, %h, %c, %x, %g {carried = 2}
           region(%i: i64[], %p: f32[B, N], %q: f32[B, N], %xs: f32[B, T, N], %k: f32[N]) {
             %on: bool[] = constant [true]
             %a: f32[B, N] = gather %xs, %i {axis = 1}
             %b: f32[B, N] = mul %q, %k
             %d: f32[B, N] = add %b, %a
             %e: f32[B, N] = tanh %d
             %f: f32[B, N] = sub %e, %p
             yield %on, %d, %f, %p, %f
           }",
        "%1, %2, %3, %4",
    );
    assert_eq!(check(&text, SIZES).stages().len(), 2);
    // They are swapped, and one stays unchanged.
    let text = over_all(
        "%t: f32[T], %x: i64[N], %y: i64[N], %z: i64[N]",
        "i64[N], i64[N], i64[N], i64[T, N]",
        "",
        "%1: i64[N], %2: i64[N], %3: i64[N], %4: i64[T, N] = loop %trips, %go, %x, %y, %z {carried = 3}
           region(%i: i64[], %a: i64[N], %b: i64[N], %c: i64[N]) {
             %on: bool[] = constant [true]
             %d: i64[N] = add %a, %b
             yield %on, %b, %d, %c, %a
           }",
        "%1, %2, %3, %4",
    );
    check(&text, SIZES);
}

/// The iteration number as a value and as an index, also counted from the end; a counter without a reader.
#[test]
fn the_iteration_number_becomes_the_carry_step() {
    let text = over_all(
        "%x: f32[T, N], %h: f32[N]",
        "f32[N], f32[T, N]",
        "%one: i64[] = constant [1]
         %last: i64[] = sub %trips, %one",
        "%1: f32[N], %2: i64[], %3: f32[T, N] = loop %trips, %go, %h, %one, %x, %last {carried = 2}
           region(%i: i64[], %s: f32[N], %n: i64[], %xs: f32[T, N], %end: i64[]) {
             %on: bool[] = constant [true]
             %at: i64[] = sub %end, %i
             %a: f32[N] = gather %xs, %at {axis = 0}
             %k: i64[] = add %n, %i
             %f: f32[] = cast %k {to = f32}
             %b: f32[N] = mul %a, %f
             %c: f32[N] = max %s, %b
             yield %on, %c, %k, %c
           }",
        "%1, %3",
    );
    check(&text, SIZES);
}

#[test]
fn captures_and_results_may_have_axes_of_size_one() {
    let text = over_all(
        "%x: f32[T, 1, N], %w: f32[1, N], %b: f32[N, 1], %h: f32[1, N]",
        "f32[1, N], f32[T, N]",
        "",
        "%1: f32[1, N], %2: f32[T, N] = loop %trips, %go, %h, %x, %w, %b {carried = 1}
           region(%i: i64[], %s: f32[1, N], %xs: f32[T, 1, N], %v: f32[1, N], %c: f32[N, 1]) {
             %on: bool[] = constant [true]
             %a: f32[1, N] = gather %xs, %i {axis = 0}
             %d: f32[1, N] = mul %s, %v
             %e: f32[1, N] = add %d, %a
             %t: f32[1, N] = transpose %c {permutation = [1, 0]}
             %f: f32[1, N] = sub %e, %t
             %r: f32[N] = reshape %f {dims = [N]}
             yield %on, %f, %r
           }",
        "%1, %2",
    );
    check(&text, SIZES);
}

#[test]
fn loops_with_a_constant_trip_count_become_kernels() {
    for trips in [0, 1, 2, 5] {
        let text = format!(
            "graph @g(%x: i8[5, N], %h: i8[N]) -> (i8[N], i8[{trips}, N]) {{
               %trips: i64[] = constant [{trips}]
               %go: bool[] = constant [true]
               %1: i8[N], %2: i8[{trips}, N] = loop %trips, %go, %h, %x {{carried = 1}}
                 region(%i: i64[], %s: i8[N], %xs: i8[5, N]) {{
                   %on: bool[] = constant [true]
                   %a: i8[N] = gather %xs, %i {{axis = 0}}
                   %b: i8[N] = mul %s, %a
                   %c: i8[N] = add %b, %a
                   yield %on, %c, %s
                 }}
               return %1, %2
             }}"
        );
        check(&text, SIZES);
    }
}

/// A slice out of bounds and a division by zero, in an iteration that may not run.
#[test]
fn a_loop_kernel_faults_where_an_iteration_would() {
    let outside = "graph @g(%x: f32[T, N], %h: f32[N]) -> f32[N] {
      %trips: i64[] = constant [3]
      %go: bool[] = constant [true]
      %1: f32[N] = loop %trips, %go, %h, %x {carried = 1}
        region(%i: i64[], %s: f32[N], %xs: f32[T, N]) {
          %on: bool[] = constant [true]
          %a: f32[N] = gather %xs, %i {axis = 0}
          %b: f32[N] = add %s, %a
          yield %on, %b
        }
      return %1
    }";
    check(
        outside,
        &[
            &[("T", 2), ("N", 1)],
            &[("T", 3), ("N", 2)],
            &[("T", 9), ("N", 3)],
        ],
    );
    let division = over_all(
        "%x: i32[T], %h: i32[]",
        "i32[]",
        "",
        "%1: i32[] = loop %trips, %go, %h, %x {carried = 1}
           region(%i: i64[], %s: i32[], %xs: i32[T]) {
             %on: bool[] = constant [true]
             %a: i32[] = gather %xs, %i {axis = 0}
             %b: i32[] = div %s, %a
             yield %on, %b
           }",
        "%1",
    );
    let divisors = |name: &str, shape: &[usize]| {
        let values = (0..shape.iter().product()).map(|at: usize| i32::from(at != 2) * 3);
        (name == "x").then(|| Tensor::from_vec(shape, values.collect::<Vec<i32>>()).unwrap())
    };
    for trips in [0, 2, 4] {
        check_with(&division, &[&[("T", trips)]], &divisors);
    }
}

/// A body without its first result, over a value `%s` and a slice `%a`.
fn body(ops: &str, next: &str) -> String {
    over_all(
        "%x: f32[T, N], %h: f32[N], %w: f32[N, N], %k: f32[M]",
        "f32[N]",
        "",
        &format!(
            "%1: f32[N] = loop %trips, %go, %h, %x, %w, %k {{carried = 1}}
               region(%i: i64[], %s: f32[N], %xs: f32[T, N], %v: f32[N, N], %l: f32[M]) {{
                 %on: bool[] = constant [true]
                 %a: f32[N] = gather %xs, %i {{axis = 0}}
                 {ops}
                 yield %on, {next}
               }}"
        ),
        "%1",
    )
}

/// The same with four points.
fn with_four(text: &str) -> String {
    let text = text.replace("N - 1", "3").replace("[N", "[4");
    text.replace(", N]", ", 4]")
}

#[test]
fn loops_that_are_not_elementwise_recurrences_are_refused() {
    let is_refused = |ops: &str, next: &str, what: &str| {
        let why = refused(&with_four(&body(ops, next)));
        assert!(why.contains(what), "{why}");
    };
    let products = "%r: f32[1, N] = reshape %s {dims = [1, N]}
                    %m: f32[1, N] = matmul %r, %v
                    %b: f32[N] = reshape %m {dims = [N]}";
    is_refused(
        products,
        "%b",
        "E0401 expected operations that a kernel computes, found `loop` (op8): its body contains a contraction or a window",
    );
    let reduces = "%r: f32[1] = reduce %s {function = sum, axes = [0], keep_dims}
                   %b: f32[N] = add %a, %r";
    is_refused(reduces, "%b", "its body contains a reduction or a scan");
    let reversed = "%r: f32[N] = slice %s {starts = [N - 1], sizes = [N], steps = [-1]}
                 %b: f32[N] = add %a, %r";
    is_refused(
        reversed,
        "%b",
        "its iterations move carried values between points",
    );
    let looked_up = "%o: i64[N] = iota {dims = [N], axis = 0, dtype = i64}
                 %r: f32[N] = gather %s, %o {axis = 0}";
    is_refused(looked_up, "%r", "E0405");
    let repeats = "%e: f32[1] = slice %a {starts = [0], sizes = [1], steps = [1]}
                   %f: f32[1] = gelu %e
                   %m: f32[1] = gelu %f
                   %b: f32[N] = add %s, %m";
    is_refused(repeats, "%b", "would be recomputed for each");
    let requires = "%c: f32[N] = slice %l {starts = [0], sizes = [N], steps = [1]}
                %b: f32[N] = add %s, %c";
    let why = refused(&body(requires, "%b"));
    assert!(why.contains("its body has requirements on sizes"), "{why}");
    // Here nothing prevents it.
    assert_eq!(
        class_of(&body("%b: f32[N] = add %s, %a", "%b")),
        Class::Scan
    );
}

#[test]
fn loops_with_data_dependent_trip_counts_are_refused() {
    let text = |trips: &str, go: &str, on: &str| {
        format!(
            "graph @g(%x: f32[N], %n: i64[], %c: bool[]) -> f32[N] {{
               %three: i64[] = constant [3]
               %true: bool[] = constant [true]
               %1: f32[N] = loop {trips}, {go}, %x, %c {{carried = 1}}
                 region(%i: i64[], %s: f32[N], %d: bool[]) {{
                   %on: bool[] = constant [true]
                   %b: f32[N] = add %s, %s
                   yield {on}, %b
                 }}
               return %1
             }}"
        )
    };
    let data = refused(&text("%n", "%true", "%on"));
    assert!(data.contains("its trip count is data"), "{data}");
    for (go, on) in [("%c", "%on"), ("%true", "%d")] {
        let data = refused(&text("%three", go, on));
        assert!(data.contains("its condition depends on data"), "{data}");
    }
    check(&text("%three", "%true", "%on"), &[&[("N", 3)]]);
}

#[test]
fn results_of_different_points_are_refused() {
    let text = over_all(
        "%x: f32[N], %n: i64[]",
        "f32[N], i64[]",
        "",
        "%1: f32[N], %2: i64[] = loop %trips, %go, %x, %n {carried = 2}
           region(%i: i64[], %s: f32[N], %c: i64[]) {
             %on: bool[] = constant [true]
             %a: f32[N] = neg %s
             %b: i64[] = add %c, %i
             yield %on, %a, %b
           }",
        "%1, %2",
    )
    .replace("%x: f32[N]", "%y: f32[T], %x: f32[N]");
    let why = refused(&text);
    assert!(why.starts_with("E0403"), "{why}");
}
