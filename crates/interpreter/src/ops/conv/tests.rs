//! Convolutions compared with their definition, computed by loops over every index.

use crate::fault::OpFault;
use crate::ops::testing::{TestSizes, counting, tensor};
use kiln_ir::{Dims, Op, Window};
use kiln_tensor::{DType, Tensor};
use proptest::prelude::*;

/// A spatial axis: input, kernel, stride, dilation, low, high.
type AxisSizes = (usize, usize, i64, i64, i64, i64);

fn axis() -> impl Strategy<Value = AxisSizes> {
    (0usize..7, 1usize..4, 1i64..4, 1i64..3, 0i64..3, 0i64..3)
}

fn window(sizes: &mut TestSizes, axes: &[AxisSizes]) -> Window {
    let column = |of: fn(&AxisSizes) -> i64| -> Vec<i64> { axes.iter().map(of).collect() };
    Window {
        strides: column(|axis| axis.2).into(),
        dilations: column(|axis| axis.3).into(),
        low: sizes.dims(&column(|axis| axis.4)),
        high: sizes.dims(&column(|axis| axis.5)),
    }
}

fn shape(leading: [usize; 2], axes: &[AxisSizes], size: fn(&AxisSizes) -> usize) -> Vec<usize> {
    leading.into_iter().chain(axes.iter().map(size)).collect()
}

/// Small integers, so that sums are exact in every float.
fn pattern(shape: &[usize], step: i64) -> Tensor {
    let n: usize = shape.iter().product();
    let elements = (0..n as i64).map(|i| (i * step % 7 - 3) as f32);
    Tensor::from_vec(shape, elements.collect()).unwrap()
}

/// Every index of a shape, in row-major order.
fn indices(shape: &[usize]) -> impl Iterator<Item = Vec<usize>> + '_ {
    (0..shape.iter().product()).map(|flat: usize| {
        let mut rest = flat;
        let mut index: Vec<usize> = shape
            .iter()
            .rev()
            .map(|&size| {
                let at = rest % size;
                rest /= size;
                at
            })
            .collect();
        index.reverse();
        index
    })
}

fn at(tensor: &Tensor, elements: &[f32], index: &[usize]) -> f32 {
    let place = index
        .iter()
        .zip(tensor.shape())
        .fold(0, |place, (&at, &size)| place * size + at);
    elements[place]
}

/// The input position of each pair of spatial output position and tap; `None` in the padding.
fn meet(
    axes: &[AxisSizes],
    output: &[usize],
    tap: &[usize],
    limit: &[usize],
) -> Option<Vec<usize>> {
    axes.iter()
        .enumerate()
        .map(|(i, axis)| {
            let position = output[i] as i64 * axis.2 + tap[i] as i64 * axis.3 - axis.4;
            usize::try_from(position)
                .ok()
                .filter(|&position| position < limit[i])
        })
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn convolutions_equal_the_definition(
        axes in prop::collection::vec(axis(), 0..3),
        (n, groups) in (0usize..3, 1usize..4),
        (group_in, group_out) in (0usize..3, 0usize..3),
        special in prop::option::of((0usize..9, prop::sample::select(vec![f32::INFINITY, f32::NAN]))),
    ) {
        let x = pattern(&shape([n, groups * group_in], &axes, |axis| axis.0), 3);
        let mut w = pattern(&shape([groups * group_out, group_in], &axes, |axis| axis.1), 5);
        if let Some((place, number)) = special && !w.is_empty() {
            let place = place % w.len();
            w.as_mut_slice::<f32>().unwrap()[place] = number;
        }
        let mut sizes = TestSizes::new();
        let window = window(&mut sizes, &axes);
        let op = Op::Conv { window, groups, out: DType::F32 };
        let Ok(y) = sizes.run(&op, &[x.clone(), w.clone()]) else { return Ok(()) };
        let (xs, ws) = (x.to_vec::<f32>().unwrap(), w.to_vec::<f32>().unwrap());
        let found = y.to_vec::<f32>().unwrap();
        for (index, found) in indices(y.shape()).zip(found) {
            let mut expected = 0.0;
            for tap in indices(&w.shape()[1..]) {
                let position = meet(&axes, &index[2..], &tap[1..], &x.shape()[2..]);
                let channel = index[1] / group_out * group_in + tap[0];
                // The padding is zeros, multiplied by the weight.
                let element = position.map_or(0.0, |position| {
                    at(&x, &xs, &[vec![index[0], channel], position].concat())
                });
                expected += element * at(&w, &ws, &[vec![index[1]], tap].concat());
            }
            let same = found == expected || found.is_nan() && expected.is_nan();
            prop_assert!(same, "expected {expected}, found {found} at {index:?}");
        }
    }

    #[test]
    fn transposed_convolutions_equal_the_definition(
        axes in prop::collection::vec(axis(), 0..3),
        (n, groups, output_padding) in (0usize..3, 1usize..4, 0i64..2),
        (group_in, group_out) in (0usize..3, 0usize..3),
    ) {
        let x = pattern(&shape([n, groups * group_in], &axes, |axis| axis.0), 3);
        let w = pattern(&shape([groups * group_in, group_out], &axes, |axis| axis.1), 5);
        let mut sizes = TestSizes::new();
        let window = window(&mut sizes, &axes);
        let output_padding = sizes.dims(&vec![output_padding; axes.len()]);
        let op = Op::ConvTranspose { window, output_padding, groups };
        let Ok(y) = sizes.run(&op, &[x.clone(), w.clone()]) else { return Ok(()) };
        let (xs, ws) = (x.to_vec::<f32>().unwrap(), w.to_vec::<f32>().unwrap());
        let mut expected = vec![0.0; y.len()];
        for index in indices(x.shape()) {
            for tap in indices(&w.shape()[1..]) {
                let Some(position) = meet(&axes, &index[2..], &tap[1..], &y.shape()[2..]) else { continue };
                let channel = index[1] / group_in * group_out + tap[0];
                let weight = at(&w, &ws, &[vec![index[1]], tap].concat());
                let write = [vec![index[0], channel], position].concat();
                let place = write.iter().zip(y.shape()).fold(0, |place, (&at, &size)| place * size + at);
                expected[place] += at(&x, &xs, &index) * weight;
            }
        }
        prop_assert_eq!(y.to_vec::<f32>().unwrap(), expected);
    }
}

fn conv_1d(
    x: &Tensor,
    w: &Tensor,
    axis: AxisSizes,
    groups: usize,
    out: DType,
) -> Result<Tensor, OpFault> {
    let mut sizes = TestSizes::new();
    let window = window(&mut sizes, &[axis]);
    sizes.run(
        &Op::Conv {
            window,
            groups,
            out,
        },
        &[x.clone(), w.clone()],
    )
}

const PLAIN: AxisSizes = (0, 0, 1, 1, 0, 0);

#[test]
fn convolutions_larger_than_a_tile_are_right() {
    // A row longer than a tile, and many short rows.
    for shape in [vec![1, 2, 200_000], vec![1, 2, 100_000, 2]] {
        let x = pattern(&shape, 3);
        let spatial = shape.len() - 2;
        let axes = vec![PLAIN; spatial];
        let w = Tensor::full(&[vec![1, 2], vec![1; spatial]].concat(), 1.0f32).unwrap();
        let mut sizes = TestSizes::new();
        let window = window(&mut sizes, &axes);
        let op = Op::Conv {
            window,
            groups: 1,
            out: DType::F32,
        };
        let y = sizes
            .run(&op, &[x.clone(), w])
            .unwrap()
            .to_vec::<f32>()
            .unwrap();
        let x = x.to_vec::<f32>().unwrap();
        let (first, second) = x.split_at(x.len() / 2);
        assert!(
            y.iter()
                .zip(first)
                .zip(second)
                .all(|((y, a), b)| *y == a + b)
        );
    }
}

#[test]
fn integers_widen_to_the_result() {
    let x = tensor(&[1, 2, 2], &[100u8, 200, 50, 255]);
    let w = tensor(&[1, 2, 1], &[255u8, 255]);
    let y = conv_1d(&x, &w, PLAIN, 1, DType::I32).unwrap();
    assert_eq!(y.to_vec::<i32>().unwrap(), [150 * 255, 455 * 255]);
    let depthwise = conv_1d(&x, &w.reshape(&[2, 1, 1]).unwrap(), PLAIN, 2, DType::I64).unwrap();
    assert_eq!(
        depthwise.to_vec::<i64>().unwrap(),
        [100 * 255, 200 * 255, 50 * 255, 255 * 255]
    );
}

#[test]
fn a_row_of_one_pixel_through_a_stride_of_two() {
    let x = counting(&[1, 1, 1]);
    let w = counting(&[1, 1, 3]);
    let y = conv_1d(&x, &w, (0, 0, 2, 1, 1, 1), 1, DType::F32).unwrap();
    assert_eq!(y.shape(), [1, 1, 1]);
    let fault = conv_1d(&x, &w, PLAIN, 1, DType::F32).unwrap_err();
    assert_eq!(
        fault.to_string(),
        "expected the size of a result of at least 0, found -1"
    );
}

#[test]
fn operands_that_do_not_fit_are_faults() {
    let x = counting(&[1, 4, 5]);
    for (w, axis, groups, code) in [
        (vec![2, 3, 1], PLAIN, 1, "E0821"),
        (vec![3, 2, 1], PLAIN, 2, "E0829"),
        (vec![2, 4], PLAIN, 1, "E0829"),
        (vec![2, 4, 1], (0, 0, 0, 1, 0, 0), 1, "E0829"),
        (vec![2, 4, 1], (0, 0, 1, 1, -1, 0), 1, "E0823"),
        (vec![2, 4, 1], PLAIN, 0, "E0829"),
        (vec![2, 4, 1], (0, 0, 1, 1, i64::MAX, i64::MAX), 1, "E0825"),
        (vec![2, 4, 1], (0, 0, 1, 1, 1 << 60, 0), 1, "E0340"),
    ] {
        let fault = conv_1d(&x, &counting(&w), axis, groups, DType::F32).unwrap_err();
        assert_eq!(fault.code(), code, "{w:?} {axis:?} {groups}: {fault}");
    }
    let mut sizes = TestSizes::new();
    let window = window(&mut sizes, &[PLAIN]);
    for (w, output_padding, groups, code) in [
        (vec![3, 1, 1], 0, 1, "E0821"),
        (vec![4, 1, 1], 0, 3, "E0829"),
        (vec![4, 1, 1], -1, 1, "E0823"),
        (vec![4, 1, 1], i64::MAX, 1, "E0340"),
    ] {
        let output_padding = sizes.dims(&[output_padding]);
        let op = Op::ConvTranspose {
            window: window.clone(),
            output_padding,
            groups,
        };
        assert_eq!(
            sizes
                .run(&op, &[x.clone(), counting(&w)])
                .unwrap_err()
                .code(),
            code
        );
    }
    let op = Op::ConvTranspose {
        window,
        output_padding: Dims::new(),
        groups: 1,
    };
    assert_eq!(
        sizes
            .run(&op, &[x.clone(), counting(&[4, 1, 1])])
            .unwrap_err()
            .code(),
        "E0829"
    );
}
