//! Edge values and edge sizes, through whole graphs.

use crate::support::{error, output, run, tensor, zeros};
use insta::assert_snapshot;
use kiln_tensor::{DType, Element, Tensor, f16};

/// Applies an element-wise function to vectors.
fn map<T: Element, R: Element>(function: &str, operands: &[&[T]]) -> Vec<R> {
    let dtype = T::DTYPE;
    let names = ["%a", "%b", "%c"];
    let parameters: Vec<String> = operands
        .iter()
        .zip(names)
        .map(|(operand, name)| format!("{name}: {dtype}[{}]", operand.len()))
        .collect();
    let arguments = names[..operands.len()].join(", ");
    let (n, result) = (operands[0].len(), R::DTYPE);
    let text = format!(
        "graph @edge({}) -> {result}[{n}] {{ %y: {result}[{n}] = {function} {arguments} return %y }}",
        parameters.join(", ")
    );
    let inputs: Vec<Tensor> = operands
        .iter()
        .map(|elements| tensor(&[elements.len()], elements))
        .collect();
    output(&text, &inputs)
}

#[test]
fn edge_values_are_defined_through_graphs() {
    let (nan, inf) = (f32::NAN, f32::INFINITY);
    let denormal = f32::from_bits(1);
    // NaN, infinities, denormals and signed zeros.
    let bits = |values: Vec<f32>| values.into_iter().map(f32::to_bits).collect::<Vec<_>>();
    assert_eq!(
        bits(map("add", &[&[denormal, -0.0], &[0.0, -0.0]])),
        [1, 0x8000_0000]
    );
    assert_eq!(bits(map("max", &[&[-0.0f32, 0.0], &[0.0, -0.0]])), [0, 0]);
    assert_eq!(
        bits(map("min", &[&[-0.0f32, 0.0], &[0.0, -0.0]])),
        [0x8000_0000; 2]
    );
    assert!(
        map::<f32, f32>("max", &[&[nan, 1.0], &[1.0, nan]])
            .iter()
            .all(|x| x.is_nan())
    );
    assert!(map::<f32, f32>("sub", &[&[inf], &[inf]])[0].is_nan());
    assert!(map::<f32, f32>("sqrt", &[&[-1.0]])[0].is_nan());
    assert_eq!(
        map::<f32, f32>("div", &[&[1.0, -1.0], &[0.0, 0.0]]),
        [inf, -inf]
    );
    assert_eq!(
        map::<f32, f32>("relu", &[&[-inf, -0.0, 2.0]]),
        [0.0, 0.0, 2.0]
    );
    assert_eq!(
        map::<f32, f32>("sigmoid", &[&[-inf, inf, 0.0]]),
        [0.0, 1.0, 0.5]
    );
    assert_eq!(
        map::<f32, bool>("lt", &[&[nan, 1.0, -0.0], &[1.0, nan, 0.0]]),
        [false; 3]
    );
    assert_eq!(
        map::<f32, bool>("ne", &[&[nan, 0.0], &[nan, -0.0]]),
        [true, false]
    );
    // Integers wrap around.
    assert_eq!(map::<i32, i32>("add", &[&[i32::MAX], &[1]]), [i32::MIN]);
    assert_eq!(
        map::<i32, i32>("div", &[&[i32::MIN, 7, -7], &[-1, 2, 2]]),
        [i32::MIN, 3, -3]
    );
    assert_eq!(
        map::<i32, i32>("rem", &[&[i32::MIN, -7], &[-1, 2]]),
        [0, -1]
    );
    assert_eq!(map::<i64, i64>("neg", &[&[i64::MIN]]), [i64::MIN]);
    assert_eq!(map::<u8, u8>("sub", &[&[0], &[1]]), [255]);
    // Shifts by at least the width.
    assert_eq!(
        map::<u8, u8>("shl", &[&[1, 1, 255], &[7, 8, 200]]),
        [128, 0, 0]
    );
    assert_eq!(
        map::<i8, i8>("shr", &[&[-1, -128, 64], &[8, 100, 100]]),
        [-1, -1, 0]
    );
    // Rounding to narrow floats happens once per op.
    let tiny = f16::from_f32(6e-8);
    assert_eq!(
        map::<f16, f16>("mul", &[&[tiny], &[f16::from_f32(0.25)]]),
        [f16::ZERO]
    );
}

#[test]
fn casts_saturate_and_wrap() {
    let cast = |to: &str| {
        format!("graph @c(%x: f32[5]) -> {to}[5] {{ %y = cast %x {{to = {to}}} return %y }}")
    };
    let x = tensor(&[5], &[f32::NAN, f32::INFINITY, -1e30, -1.9, 300.0]);
    assert_eq!(
        output::<i32>(&cast("i32"), std::slice::from_ref(&x)),
        [0, i32::MAX, i32::MIN, -1, 300]
    );
    assert_eq!(
        output::<u8>(&cast("u8"), std::slice::from_ref(&x)),
        [0, 255, 0, 0, 255]
    );
    assert_eq!(output::<bool>(&cast("bool"), &[x]), [true; 5]);
    let narrow = "graph @c(%x: i64[2]) -> i8[2] { %y = cast %x {to = i8} return %y }";
    assert_eq!(
        output::<i8>(narrow, &[tensor(&[2], &[384i64, -129])]),
        [-128, 127]
    );
}

#[test]
fn integer_division_by_zero_is_a_fault() {
    let text = r#"graph @g(%a: i32[N], %b: i32[N]) -> i32[N] { %y = div %a, %b from "model/div" return %y }"#;
    let operands = [tensor(&[2], &[1i32, 2]), tensor(&[2], &[1i32, 0])];
    assert_snapshot!(error(text, &operands), @"E0882: integer division by zero in `div` in div (model/div)");
    let nothing = [tensor::<i32>(&[0], &[]), tensor::<i32>(&[0], &[])];
    assert!(output::<i32>(text, &nothing).is_empty());
}

#[test]
fn sizes_that_do_not_broadcast_are_named() {
    let text = r#"graph @g(%a: f32[N, A], %b: f32[N, B]) -> f32[N, bcast(A, B)] { %y = add %a, %b from "p2o.Add.12" return %y }"#;
    assert_snapshot!(error(text, &[zeros(&[1, 2]), zeros(&[1, 4])]), @"E0820: cannot broadcast %a f32[1, 2] with %b f32[1, 4] in add (p2o.Add.12)");
    assert_eq!(
        run(text, &[zeros(&[3, 1]), zeros(&[3, 4])]).unwrap()[0].shape(),
        [3, 4]
    );
}

#[test]
fn indices_out_of_range_are_faults() {
    let text = "graph @g(%x: f32[N, 2], %i: i64[K]) -> f32[K, 2] { %y = gather %x, %i {axis = 0} return %y }";
    let x = tensor(&[3, 2], &[1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0]);
    assert_eq!(
        output::<f32>(text, &[x.clone(), tensor(&[2], &[-1i64, 0])]),
        [5.0, 6.0, 1.0, 2.0]
    );
    assert_snapshot!(error(text, &[x.clone(), tensor(&[2], &[0i64, 3])]), @"E0822: expected an index into an axis of size 3, found 3 at position 1 of the indices in gather (%2)");
    assert_snapshot!(error(text, &[x, tensor(&[1], &[-4i64])]), @"E0822: expected an index into an axis of size 3, found -4 at position 0 of the indices in gather (%2)");
    assert_snapshot!(error(text, &[zeros(&[0, 2]), tensor(&[1], &[0i64])]), @"E0822: expected an index into an axis of size 0, found 0 at position 0 of the indices in gather (%2)");
}

#[test]
fn slices_out_of_bounds_are_faults() {
    let text = "graph @g(%x: f32[N]) -> f32[3] { %y = slice %x {starts = [1], sizes = [3], steps = [1]} return %y }";
    assert_eq!(
        output::<f32>(text, &[tensor(&[4], &[0.0f32, 1.0, 2.0, 3.0])]),
        [1.0, 2.0, 3.0]
    );
    assert_snapshot!(error(text, &[zeros(&[3])]), @"E0345: slice of 3 from 1 by step 1 leaves axis 0 of size 3 in slice (%1)");
}

/// Sizes 0 and 1, rank 0, and the same tensor as several inputs give the defined results.
#[test]
fn zero_sizes_scalars_and_size_one_broadcasts() {
    let add = "graph @g(%a: f32[A, B], %b: f32[C, D]) -> f32[bcast(A, C), bcast(B, D)] { %y = add %a, %b return %y }";
    for (left, right, expected) in [
        ([0, 3], [0, 3], [0, 3]),
        ([0, 1], [1, 3], [0, 3]),
        ([1, 1], [0, 1], [0, 1]),
        ([1, 3], [2, 1], [2, 3]),
        ([1, 1], [1, 1], [1, 1]),
    ] {
        let outputs = run(add, &[zeros(&left), zeros(&right)]).unwrap();
        assert_eq!(outputs[0].shape(), expected, "{left:?} + {right:?}");
    }
    let x = tensor(&[2, 1], &[1.0f32, 10.0]);
    let row = tensor(&[1, 3], &[1.0f32, 2.0, 3.0]);
    assert_eq!(
        output::<f32>(add, &[x.clone(), row.clone()]),
        [2.0, 3.0, 4.0, 11.0, 12.0, 13.0]
    );
    // The same tensor twice, and a view of it.
    let square = row.broadcast_to(&[3, 3]).unwrap();
    let transposed = square.transpose(&[1, 0]).unwrap();
    assert_eq!(
        output::<f32>(add, &[square.clone(), transposed.clone()])[..3],
        [2.0, 3.0, 4.0]
    );
    assert_eq!(
        output::<f32>(add, &[square.clone(), square])[..3],
        [2.0, 4.0, 6.0]
    );

    let scalars = "graph @g(%a: f32[], %b: f32[]) -> f32[] { %y = mul %a, %b return %y }";
    assert_eq!(
        output::<f32>(scalars, &[Tensor::scalar(3.0f32), Tensor::scalar(4.0f32)]),
        [12.0]
    );
    let mixed = "graph @g(%a: f32[], %b: f32[N]) -> f32[N] { %y = mul %a, %b return %y }";
    assert_eq!(
        output::<f32>(
            mixed,
            &[Tensor::scalar(3.0f32), tensor(&[2], &[1.0f32, 2.0])]
        ),
        [3.0, 6.0]
    );
    assert!(output::<f32>(mixed, &[Tensor::scalar(3.0f32), zeros(&[0])]).is_empty());

    let matmul =
        "graph @g(%a: f32[M, K], %b: f32[K, N]) -> f32[M, N] { %y = matmul %a, %b return %y }";
    assert_eq!(
        output::<f32>(matmul, &[zeros(&[2, 0]), zeros(&[0, 2])]),
        [0.0; 4]
    );
    let softmax = "graph @g(%x: f32[N, C]) -> f32[N, C] {
        %m = reduce %x {function = max, axes = [1], keep_dims}
        %s = sub %x, %m
        %e = exp %s
        %t = reduce %e {function = sum, axes = [1], keep_dims}
        %y = div %e, %t
        return %y
    }";
    assert_eq!(output::<f32>(softmax, &[zeros(&[2, 1])]), [1.0, 1.0]);
    assert!(output::<f32>(softmax, &[zeros(&[2, 0])]).is_empty());
    assert!(output::<f32>(softmax, &[zeros(&[0, 2])]).is_empty());
    let reshape =
        "graph @g(%x: f32[A, B]) -> f32[A * B] { %y = reshape %x {dims = [A * B]} return %y }";
    assert!(output::<f32>(reshape, &[zeros(&[0, 7])]).is_empty());
    let concat = "graph @g(%x: f32[A], %y: f32[B]) -> f32[A + B] { %z = concat %x, %y {axis = 0} return %z }";
    assert_eq!(output::<f32>(concat, &[zeros(&[0]), zeros(&[1])]), [0.0]);
}

#[test]
fn source_and_movement_ops_run_in_one_graph() {
    let text =
        "graph @g(%x: f32[A, 2]) -> (i64[2], i32[A, 2], f32[2, A], f32[A, 2], f32[A + 2, 2]) {
        %sizes = dims {sizes = [A, 2]}
        %count = iota {dims = [A, 2], axis = 0, dtype = i32}
        %t = transpose %x {permutation = [1, 0]}
        %r = slice %x {starts = [A - 1, 0], sizes = [A, 2], steps = [-1, 1]}
        %v: f32[] = constant [-1.0]
        %p = pad %x, %v {low = [1, 0], high = [1, 0], mode = constant}
        return %sizes, %count, %t, %r, %p
    }";
    let outputs = run(text, &[tensor(&[2, 2], &[1.0f32, 2.0, 3.0, 4.0])]).unwrap();
    assert_eq!(outputs[0].to_vec::<i64>().unwrap(), [2, 2]);
    assert_eq!(outputs[1].to_vec::<i32>().unwrap(), [0, 0, 1, 1]);
    assert_eq!(outputs[2].to_vec::<f32>().unwrap(), [1.0, 3.0, 2.0, 4.0]);
    assert_eq!(outputs[3].to_vec::<f32>().unwrap(), [3.0, 4.0, 1.0, 2.0]);
    assert_eq!(
        outputs[4].to_vec::<f32>().unwrap(),
        [-1.0, -1.0, 1.0, 2.0, 3.0, 4.0, -1.0, -1.0]
    );
    assert!(outputs.iter().all(Tensor::is_contiguous));
}

#[test]
fn a_shape_too_large_for_memory_is_an_error() {
    let text = "graph @g(%x: f32[A], %y: f32[B]) -> f32[A, B] where A >= 0 {
        %0 = reshape %x {dims = [A, 1]}
        %1 = reshape %y {dims = [1, B]}
        %z = add %0, %1
        return %z
    }";
    let long = Tensor::zeros(DType::F32, &[1])
        .unwrap()
        .broadcast_to(&[1 << 20])
        .unwrap();
    assert_snapshot!(error(text, &[long.clone(), long]), @"E0832: expected at most 68719476736 bytes of live values, found 13194147921920 at add (%4): raise the limit or use smaller shapes");
}
