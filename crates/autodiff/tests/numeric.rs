//! Every differentiable op: its gradient against differences, and its tangents against its gradient.

mod harness;

use harness::{Case, check, check_second};
use kiln_scalar::Function;

#[test]
fn every_scalar_function_has_the_gradient_of_its_differences() {
    for function in Function::all() {
        let arity = function.arity();
        let smooth = (0..arity).filter(|&operand| {
            function
                .derivative(&[], operand)
                .is_ok_and(|slope| slope.is_some())
        });
        let smooth: Vec<usize> = smooth.collect();
        let floats = vec![kiln_tensor::DType::F64; arity];
        let returns_float = function
            .result_type(&floats)
            .is_ok_and(|dtype| dtype.is_float());
        if smooth.is_empty() || !returns_float || function.name() == "stop_gradient" {
            continue;
        }
        let (low, high) = match function.name() {
            "acosh" => (1.5, 3.0),
            "asin" | "acos" | "atanh" | "erf" => (-0.9, 0.9),
            "log" | "log2" | "sqrt" | "rsqrt" | "pow" | "reciprocal" | "div" => (0.3, 2.0),
            "log1p" => (-0.5, 2.0),
            "tan" => (-1.0, 1.0),
            // Away from jumps.
            "rem" | "floor_mod" => (0.55, 0.95),
            _ => (-2.0, 2.0),
        };
        let parameters: Vec<String> = (0..arity)
            .map(|index| format!("%x{index}: f64[N]"))
            .collect();
        let operands: Vec<String> = (0..arity).map(|index| format!("%x{index}")).collect();
        let text = format!(
            "({}) -> f64[N] {{ %y = {} {} return %y }}",
            parameters.join(", "),
            function.name(),
            operands.join(", ")
        );
        let calls: Vec<Vec<&[usize]>> = [&[0][..], &[1], &[7]]
            .iter()
            .map(|&shape| vec![shape; arity])
            .collect();
        let calls: Vec<&'static [&'static [usize]]> = calls
            .into_iter()
            .map(|call| &*Box::leak(call.into_boxed_slice()))
            .collect();
        let case = Case::new(
            Box::leak(text.into_boxed_str()),
            Box::leak(calls.into_boxed_slice()),
        );
        let case = case.within(low, high);
        check(function.name(), &case);
        check_second(function.name(), &case);
    }
}

macro_rules! cases {
    ($($name:ident: $case:expr;)+) => {
        $(
            #[test]
            fn $name() {
                let case = $case;
                check(stringify!($name), &case);
                check_second(stringify!($name), &case);
            }
        )+
    };
}

cases! {
    broadcast_operands_sum_their_cotangents: Case::new(
        "(%x: f64[A, B], %y: f64[B], %z: f64[A, 1]) -> f64[A, B] { %p = mul %x, %y %q = div %p, %z return %q }",
        &[&[&[2, 3], &[3], &[2, 1]], &[&[0, 3], &[3], &[0, 1]], &[&[1, 1], &[1], &[1, 1]], &[&[3, 0], &[0], &[3, 1]]],
    ).within(0.5, 2.0);
    sizes_that_may_be_one_sum_their_cotangents: Case::new(
        "(%x: f64[A], %y: f64[B]) -> f64[bcast(A, B)] { %p = mul %x, %y return %p }",
        &[&[&[3], &[3]], &[&[1], &[3]], &[&[3], &[1]], &[&[1], &[1]], &[&[0], &[1]], &[&[0], &[0]]],
    );
    reshape: Case::new(
        "(%x: f64[A, 6]) -> f64[A, 2, 3] { %y = reshape %x {dims = [A, 2, 3]} %z = square %y return %z }",
        &[&[&[0, 6]], &[&[1, 6]], &[&[3, 6]]],
    );
    broadcast: Case::new(
        "(%x: f64[A, 1], %like: i64[B]) -> f64[3, A, B] { %y = broadcast %x {dims = [3, A, B]} %z = square %y return %z }",
        &[&[&[2, 1], &[4]], &[&[1, 1], &[1]], &[&[2, 1], &[0]]],
    );
    transpose: Case::new(
        "(%x: f64[A, B, C]) -> f64[C, A, B] { %y = transpose %x {permutation = [2, 0, 1]} %z = square %y return %z }",
        &[&[&[2, 3, 4]], &[&[1, 0, 2]], &[&[1, 1, 1]]],
    );
    slice_with_steps: Case::new(
        "(%x: f64[N, 7]) -> f64[N, 3] { %y = slice %x {starts = [0, 1], sizes = [N, 3], steps = [1, 2]} %z = square %y return %z }",
        &[&[&[0, 7]], &[&[1, 7]], &[&[4, 7]]],
    );
    slice_backwards: Case::new(
        "(%x: f64[N]) -> f64[N] { %y = slice %x {starts = [N - 1], sizes = [N], steps = [-1]} %z = square %y return %z }",
        &[&[&[0]], &[&[1]], &[&[5]]],
    );
    slice_backwards_with_steps: Case::new(
        "(%x: f64[8]) -> f64[3] { %y = slice %x {starts = [6], sizes = [3], steps = [-3]} %z = square %y return %z }",
        &[&[&[8]]],
    );
    pad_with_a_constant: Case::new(
        "(%x: f64[N, 2], %v: f64[]) -> f64[N + 1, 5] { %y = pad %x, %v {low = [1, 0], high = [0, 3], mode = constant} %z = square %y return %z }",
        &[&[&[0, 2], &[]], &[&[1, 2], &[]], &[&[3, 2], &[]]],
    );
    pad_reflected: Case::new(
        "(%x: f64[N, 3], %v: f64[]) -> f64[N, 7] { %y = pad %x, %v {low = [0, 2], high = [0, 2], mode = reflect} %z = square %y return %z }",
        &[&[&[0, 3], &[]], &[&[1, 3], &[]], &[&[2, 3], &[]]],
    );
    pad_with_the_edge: Case::new(
        "(%x: f64[N, 3], %v: f64[]) -> f64[N + 2, 6] { %y = pad %x, %v {low = [2, 1], high = [0, 2], mode = edge} %z = square %y return %z }",
        &[&[&[1, 3], &[]], &[&[2, 3], &[]]],
    );
    concat: Case::new(
        "(%x: f64[A, 2], %y: f64[B, 2]) -> f64[A + B, 2] { %z = concat %x, %y {axis = 0} %s = square %z return %s }",
        &[&[&[2, 2], &[3, 2]], &[&[0, 2], &[1, 2]], &[&[1, 2], &[0, 2]]],
    );
    gather: Case::new(
        "(%x: f64[A, 5, B], %i: i64[I, J]) -> f64[A, I, J, B] { %y = gather %x, %i {axis = 1} %z = square %y return %z }",
        &[&[&[2, 5, 3], &[2, 4]], &[&[1, 5, 1], &[1, 1]], &[&[0, 5, 2], &[0, 3]]],
    ).below(5);
    gather_rows_by_one_index: Case::new(
        "(%x: f64[4, B], %i: i64[]) -> f64[B] { %y = gather %x, %i {axis = 0} %z = square %y return %z }",
        &[&[&[4, 3], &[]], &[&[4, 0], &[]]],
    ).below(4);
    gather_elements: Case::new(
        "(%x: f64[A, 4], %i: i64[A, I]) -> f64[A, I] { %y = gather_elements %x, %i {axis = 1} %z = square %y return %z }",
        &[&[&[3, 4], &[3, 6]], &[&[1, 4], &[1, 1]], &[&[0, 4], &[0, 2]]],
    ).below(4);
    gather_nd: Case::new(
        "(%x: f64[3, 3, B], %i: i64[I, 2]) -> f64[I, B] { %y = gather_nd %x, %i {batch_axes = 0} %z = square %y return %z }",
        &[&[&[3, 3, 2], &[5, 2]], &[&[3, 3, 1], &[0, 2]]],
    ).below(3);
    gather_nd_with_batch_axes: Case::new(
        "(%x: f64[A, 3, B], %i: i64[A, I, 1]) -> f64[A, I, B] { %y = gather_nd %x, %i {batch_axes = 1} %z = square %y return %z }",
        &[&[&[2, 3, 2], &[2, 5, 1]], &[&[1, 3, 1], &[1, 1, 1]]],
    ).below(3);
    scatter_elements_that_replace: Case::new(
        "(%x: f64[A, 4], %i: i64[A, I], %u: f64[A, I]) -> f64[A, 4] { %y = scatter_elements %x, %i, %u {axis = 1, combine = set} %z = square %y return %z }",
        &[&[&[3, 4], &[3, 6], &[3, 6]], &[&[1, 4], &[1, 1], &[1, 1]], &[&[0, 4], &[0, 2], &[0, 2]]],
    ).below(4);
    scatter_elements_that_add: Case::new(
        "(%x: f64[A, 4], %i: i64[A, I], %u: f64[A, I]) -> f64[A, 4] { %y = scatter_elements %x, %i, %u {axis = 1, combine = add} %z = square %y return %z }",
        &[&[&[3, 4], &[3, 6], &[3, 6]], &[&[1, 4], &[1, 1], &[1, 1]]],
    ).below(4);
    scatter_elements_that_multiply: Case::new(
        "(%x: f64[A, 4], %i: i64[A, I], %u: f64[A, I]) -> f64[A, 4] { %y = scatter_elements %x, %i, %u {axis = 1, combine = mul} return %y }",
        &[&[&[3, 4], &[3, 6], &[3, 6]], &[&[1, 4], &[1, 1], &[1, 1]]],
    ).below(4);
    scatter_nd_that_keeps_the_maximum: Case::new(
        "(%x: f64[4, B], %i: i64[I, 1], %u: f64[I, B]) -> f64[4, B] { %y = scatter_nd %x, %i, %u {combine = max} return %y }",
        &[&[&[4, 2], &[6, 1], &[6, 2]], &[&[4, 1], &[1, 1], &[1, 1]]],
    ).below(4);
    update_slice: Case::new(
        "(%x: f64[5, B], %at: i64[1], %u: f64[2, B]) -> f64[5, B] { %y = update_slice %x, %at, %u {axes = [0]} %z = square %y return %z }",
        &[&[&[5, 3], &[1], &[2, 3]], &[&[5, 0], &[1], &[2, 0]]],
    ).below(4);
    matmul: Case::new(
        "(%a: f64[M, K], %b: f64[K, N]) -> f64[M, N] { %c = matmul %a, %b return %c }",
        &[&[&[2, 3], &[3, 4]], &[&[1, 1], &[1, 1]], &[&[2, 0], &[0, 3]], &[&[0, 2], &[2, 1]]],
    );
    matmul_of_a_batch_with_one_matrix: Case::new(
        "(%a: f64[A, B, M, K], %b: f64[K, N]) -> f64[A, B, M, N] { %c = matmul %a, %b return %c }",
        &[&[&[2, 2, 2, 3], &[3, 2]], &[&[1, 0, 1, 1], &[1, 1]]],
    );
    matmul_with_broadcast_batches: Case::new(
        "(%a: f64[A, 1, M, K], %b: f64[B, K, N]) -> f64[A, B, M, N] { %c = matmul %a, %b return %c }",
        &[&[&[2, 1, 2, 3], &[2, 3, 2]], &[&[1, 1, 1, 1], &[1, 1, 1]]],
    );
    convolution: Case::new(
        "(%x: f64[N, 2, H, W], %w: f64[3, 2, 3, 2]) -> f64[N, 3, H, W - 1] { %y = conv %x, %w {strides = [1, 1], dilations = [1, 1], low = [1, 0], high = [1, 0], groups = 1} return %y }",
        &[&[&[2, 2, 4, 3], &[3, 2, 3, 2]], &[&[1, 2, 1, 2], &[3, 2, 3, 2]], &[&[0, 2, 3, 3], &[3, 2, 3, 2]]],
    );
    reductions: Case::new(
        "(%x: f64[A, B, C]) -> (f64[A, C], f64[A, 1, 1], f64[B], f64[A, C], f64[]) {
            %s = reduce %x {function = sum, axes = [1]}
            %m = reduce %x {function = mean, axes = [1, 2], keep_dims}
            %p = reduce %x {function = product, axes = [0, 2]}
            %h = reduce %x {function = max, axes = [1]}
            %l = reduce %x {function = min, axes = [0, 1, 2]}
            return %s, %m, %p, %h, %l }",
        &[&[&[2, 3, 4]], &[&[1, 1, 1]], &[&[3, 1, 2]]],
    );
    cumulative_sums: Case::new(
        "(%x: f64[A, B]) -> (f64[A, B], f64[A, B]) {
            %f = cumulate %x {function = sum, axis = 1}
            %r = cumulate %x {function = sum, axis = 0, exclusive, reverse}
            %s = square %f return %s, %r }",
        &[&[&[2, 3]], &[&[1, 1]], &[&[0, 2]], &[&[3, 0]]],
    );
    cumulative_products: Case::new(
        "(%x: f64[A, B]) -> (f64[A, B], f64[A, B], f64[A, B]) {
            %f = cumulate %x {function = product, axis = 1}
            %r = cumulate %x {function = product, axis = 0, exclusive, reverse}
            %e = cumulate %x {function = product, axis = 1, exclusive}
            return %f, %r, %e }",
        &[&[&[2, 3]], &[&[1, 1]], &[&[0, 2]], &[&[3, 2]]],
    );
    cumulative_extrema: Case::new(
        "(%x: f64[A, B]) -> (f64[A, B], f64[A, B]) {
            %f = cumulate %x {function = max, axis = 1}
            %r = cumulate %x {function = min, axis = 1, reverse}
            return %f, %r }",
        &[&[&[2, 5]], &[&[1, 1]], &[&[0, 2]]],
    );
    top_k: Case::new(
        "(%x: f64[A, 5]) -> (f64[A, 3], i64[A, 3]) { %v, %i = top_k %x {k = 3, axis = 1, extremum = max} %s = square %v return %s, %i }",
        &[&[&[2, 5]], &[&[0, 5]], &[&[1, 5]]],
    );
    mean_pool: Case::new(
        "(%x: f64[N, 2, H, W]) -> f64[N, 2, H, W] { %y = pool %x {function = mean, size = [3, 3], strides = [1, 1], dilations = [1, 1], low = [1, 1], high = [1, 1]} %z = square %y return %z }",
        &[&[&[1, 2, 3, 4]], &[&[2, 2, 1, 1]]],
    );
    resize_linear: Case::new(
        "(%x: f64[N, 1, H]) -> f64[N, 1, 2 * H] { %y = resize %x {axes = [2], sizes = [2 * H], scales = [0.0], mode = linear, coordinates = half_pixel, rounding = prefer_floor, cubic_coefficient = -0.75} %z = square %y return %z }",
        &[&[&[2, 1, 3]], &[&[1, 1, 1]]],
    );
    softmax: Case::new(
        "(%x: f64[A, B]) -> f64[A, B] {
            %m = reduce %x {function = max, axes = [1], keep_dims}
            %d = sub %x, %m %e = exp %d
            %s = reduce %e {function = sum, axes = [1], keep_dims}
            %y = div %e, %s return %y }",
        &[&[&[2, 5]], &[&[1, 1]], &[&[3, 2]]],
    );
    a_branch_is_reversed: Case::new(
        "(%c: bool[], %x: f64[N], %y: f64[N]) -> f64[N] {
            %r = if %c, %x, %y
              region(%a: f64[N], %b: f64[N]) { %p = mul %a, %b yield %p }
              region(%d: f64[N], %e: f64[N]) { %q = square %d yield %q }
            %z = square %r return %z }",
        &[&[&[], &[3], &[3]], &[&[], &[0], &[0]], &[&[], &[1], &[1]], &[&[], &[2], &[2]]],
    );
    a_loop_is_reversed: Case::new(
        "(%x: f64[N], %w: f64[N]) -> (f64[N], f64[5, N]) {
            %n: i64[] = constant [5]
            %t: bool[] = constant [true]
            %h, %s = loop %n, %t, %x, %w {carried = 1}
              region(%i: i64[], %g: f64[N], %v: f64[N]) {
                %p = mul %g, %v %q = tanh %p %o = square %g
                %c: bool[] = constant [true]
                yield %c, %q, %o
              }
            return %h, %s }",
        &[&[&[3], &[3]], &[&[0], &[0]], &[&[1], &[1]]],
    );
}
