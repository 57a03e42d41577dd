//! Tensors as seen by users: creating, viewing, writing, concatenating, running out of memory.

use proptest::prelude::*;

use crate::{AxisSlice, DType, Tensor, TensorError, bf16, f16, fault};

fn iota(shape: &[usize]) -> Tensor {
    let n: usize = shape.iter().product();
    Tensor::from_vec(shape, (0..n as i32).collect()).unwrap()
}

fn elements(tensor: &Tensor) -> Vec<i32> {
    tensor.to_vec().unwrap()
}

fn code<T>(result: Result<T, TensorError>) -> &'static str {
    result.map(|_| ()).unwrap_err().code()
}

#[test]
fn tensors_are_sent_and_shared_between_threads() {
    fn check<T: Send + Sync>() {}
    check::<Tensor>();
    check::<TensorError>();
}

#[test]
fn each_way_of_making_a_tensor_checks_its_length() {
    assert_eq!(
        Tensor::zeros(DType::Bool, &[2])
            .unwrap()
            .to_vec::<bool>()
            .unwrap(),
        [false; 2]
    );
    assert_eq!(
        Tensor::full(&[2], f16::ONE)
            .unwrap()
            .to_vec::<f16>()
            .unwrap(),
        [f16::ONE; 2]
    );
    assert_eq!(Tensor::scalar(bf16::ONE).item::<bf16>().unwrap(), bf16::ONE);
    assert_eq!(Tensor::scalar(true).shape(), [0; 0]);
    assert_eq!(code(Tensor::from_slice(&[2, 2], &[1u8; 3])), "E0341");
    assert_eq!(code(Tensor::from_bytes(DType::I16, &[2], &[0; 3])), "E0341");
    assert_eq!(code(Tensor::zeros(DType::I16, &[usize::MAX, 2])), "E0340");
    assert_eq!(code(Tensor::zeros(DType::F64, &[1 << 56])), "E0840");
    let bools = Tensor::from_bytes(DType::Bool, &[3], &[0, 1, 200]).unwrap();
    assert_eq!(bools.to_vec::<bool>().unwrap(), [false, true, true]);
    assert_eq!(bools.as_bytes().unwrap(), [0, 1, 1]);
    let numbers = Tensor::from_bytes(DType::U32, &[1], &[1, 2, 0, 0]).unwrap();
    assert_eq!(numbers.as_slice::<u32>().unwrap(), [0x201]);
}

#[test]
fn shapes_with_zeros_are_ordinary() {
    let empty = Tensor::zeros(DType::F32, &[2, 0, 3]).unwrap();
    assert!(empty.is_empty() && empty.is_contiguous());
    assert_eq!((empty.len(), empty.byte_len(), empty.rank()), (0, 0, 3));
    assert_eq!(empty.transpose(&[2, 1, 0]).unwrap().shape(), [3, 0, 2]);
    assert_eq!(
        empty.reshape(&[0, 7]).unwrap().to_vec::<f32>().unwrap(),
        [0.0f32; 0]
    );
    assert_eq!(empty.broadcast_to(&[5, 2, 0, 3]).unwrap().len(), 0);
    assert_eq!(empty.reverse(1).unwrap().shape(), [2, 0, 3]);
    assert_eq!(
        empty.narrow(0, 1, 1).unwrap().copied().unwrap().shape(),
        [1, 0, 3]
    );
    assert_eq!(
        Tensor::concat(&[&empty, &empty], 1).unwrap().shape(),
        [2, 0, 3]
    );
    assert!(empty.clone().as_mut_slice::<f32>().unwrap().is_empty());
    assert_eq!(code(empty.reshape(&[1])), "E0347");
    assert_eq!(code(empty.item::<f32>()), "E0341");
}

#[test]
fn elements_are_read_only_as_their_own_type() {
    let mut tensor = iota(&[2]);
    assert_eq!(code(tensor.as_slice::<u32>().map(drop)), "E0342");
    assert_eq!(code(tensor.to_vec::<f32>()), "E0342");
    assert_eq!(code(tensor.as_mut_slice::<i64>().map(drop)), "E0342");
    assert_eq!(
        tensor.as_slice::<f32>().unwrap_err().to_string(),
        "expected elements of f32, found i32"
    );
}

#[test]
fn views_select_and_reorder_without_copying() {
    let x = iota(&[2, 3, 4]);
    let base = x.as_slice::<i32>().unwrap().as_ptr();
    let last_row = x.narrow(0, 1, 1).unwrap().narrow(1, 2, 1).unwrap();
    assert_eq!(elements(&last_row), [20, 21, 22, 23]);
    assert_eq!(
        last_row.as_slice::<i32>().unwrap().as_ptr(),
        base.wrapping_add(20)
    );

    let axis = |axis, start, len, step| AxisSlice {
        axis,
        start,
        len,
        step,
    };
    let picked = x.slice(&[axis(2, 3, 2, -2), axis(0, 1, 2, 0)]).unwrap();
    assert_eq!(picked.shape(), [2, 3, 2]);
    assert_eq!(
        elements(&picked),
        [15, 13, 19, 17, 23, 21, 15, 13, 19, 17, 23, 21]
    );
    assert_eq!(elements(&picked.reverse(2).unwrap())[..4], [13, 15, 17, 19]);
    assert!(x.slice(&[axis(2, 9, 0, 5)]).unwrap().is_empty());
    for bad in [
        axis(0, 2, 1, 1),
        axis(0, 0, 3, 1),
        axis(0, 0, 2, -1),
        axis(1, 1, usize::MAX, 1),
    ] {
        assert_eq!(code(x.slice(&[bad])), "E0345", "{bad:?}");
    }
    let twice = x.slice(&[axis(1, 1, 2, 1), axis(1, 1, 1, 1)]).unwrap();
    assert_eq!(elements(&twice), [8, 9, 10, 11, 20, 21, 22, 23]);
    assert_eq!(
        code(x.slice(&[axis(1, 1, 2, 1), axis(1, 2, 1, 1)])),
        "E0345"
    );
    assert_eq!(code(x.slice(&[axis(3, 0, 1, 1)])), "E0343");
    assert_eq!(code(x.slice(&[axis(0, 1, usize::MAX, 0)])), "E0340");
    assert_eq!(code(x.reverse(3)), "E0343");

    assert_eq!(
        elements(&x.transpose(&[2, 0, 1]).unwrap())[..6],
        [0, 4, 8, 12, 16, 20]
    );
    for bad in [&[0, 1][..], &[0, 1, 1], &[0, 1, 3], &[0, 1, 2, 0]] {
        assert_eq!(code(x.transpose(bad)), "E0344", "{bad:?}");
    }
    let column = x.narrow(2, 0, 1).unwrap();
    assert_eq!(column.squeeze(2).unwrap().shape(), [2, 3]);
    assert_eq!(
        column.unsqueeze(0).unwrap().unsqueeze(4).unwrap().shape(),
        [1, 2, 3, 1, 1]
    );
    assert_eq!(code(x.squeeze(0)), "E0348");
    assert_eq!(code(x.squeeze(3)), "E0343");
    assert_eq!(code(x.unsqueeze(4)), "E0343");
}

#[test]
fn broadcasting_repeats_axes_of_size_one() {
    let x = iota(&[2, 1]);
    let wide = x.broadcast_to(&[2, 2, 3]).unwrap();
    assert_eq!(wide.strides(), [0, 1, 0]);
    assert_eq!(elements(&wide), [0, 0, 0, 1, 1, 1, 0, 0, 0, 1, 1, 1]);
    assert_eq!(x.broadcast_to(&[2, 0]).unwrap().len(), 0);
    assert_eq!(code(x.broadcast_to(&[3, 3])), "E0346");
    assert_eq!(code(x.broadcast_to(&[2])), "E0346");
    assert_eq!(code(x.broadcast_to(&[1 << 61, 2, 1])), "E0340");
    // More elements than memory can hold: the view is fine, but a copy is rejected.
    let vast = x.broadcast_to(&[1 << 58, 2, 1]).unwrap();
    assert_eq!(code(vast.contiguous()), "E0840");
    assert_eq!(code(vast.to_vec::<i32>()), "E0840");
}

#[test]
fn slices_need_contiguous_elements_and_copies_do_not() {
    let turned = iota(&[2, 3]).transpose(&[1, 0]).unwrap();
    assert_eq!(code(turned.as_slice::<i32>()), "E0351");
    assert_eq!(code(turned.as_bytes()), "E0351");
    let flat = turned.contiguous().unwrap();
    assert_eq!(flat.as_slice::<i32>().unwrap(), [0, 3, 1, 4, 2, 5]);
    assert!(flat.bit_equal(&turned) && turned.bit_equal(&flat));
    assert_eq!(elements(&turned.reshape(&[6]).unwrap()), [0, 3, 1, 4, 2, 5]);
}

#[test]
fn writes_are_invisible_to_other_tensors() {
    let mut x = iota(&[2, 2]);
    let address = x.as_slice::<i32>().unwrap().as_ptr();
    x.as_mut_slice::<i32>().unwrap()[0] = 7;
    assert_eq!(x.as_slice::<i32>().unwrap().as_ptr(), address);

    let kept = x.clone();
    x.as_mut_slice::<i32>().unwrap()[1] = 8;
    assert_eq!(
        (elements(&kept), elements(&x)),
        (vec![7, 1, 2, 3], vec![7, 8, 2, 3])
    );

    let mut row = x.narrow(0, 1, 1).unwrap();
    drop(x);
    row.as_mut_slice::<i32>().unwrap().fill(0);
    assert_eq!(elements(&row), [0, 0]);

    let mut wide = row.broadcast_to(&[2, 2]).unwrap();
    drop(row);
    wide.as_mut_slice::<i32>().unwrap()[0] = 5;
    assert_eq!(elements(&wide), [5, 0, 0, 0]);
}

#[test]
fn bits_decide_equality() {
    let bits = |value: u32| Tensor::scalar(f32::from_bits(value));
    assert!(bits(0x7fc0_0001).bit_equal(&bits(0x7fc0_0001)));
    assert!(!bits(0x7fc0_0001).bit_equal(&bits(0x7fc0_0002)));
    assert!(!Tensor::scalar(0.0f32).bit_equal(&Tensor::scalar(-0.0f32)));
    assert!(!Tensor::scalar(0i32).bit_equal(&Tensor::scalar(0u32)));
    assert!(!iota(&[1, 2]).bit_equal(&iota(&[2])));
}

#[test]
fn concatenation_joins_along_one_axis() {
    let (a, b) = (iota(&[2, 1, 2]), iota(&[2, 2, 2]));
    let joined = Tensor::concat(&[&a, &b], 1).unwrap();
    assert_eq!(joined.shape(), [2, 3, 2]);
    assert_eq!(elements(&joined), [0, 1, 0, 1, 2, 3, 2, 3, 4, 5, 6, 7]);
    let turned = b.transpose(&[1, 0, 2]).unwrap();
    assert_eq!(
        elements(&Tensor::concat(&[&turned], 0).unwrap()),
        [0, 1, 4, 5, 2, 3, 6, 7]
    );
    assert_eq!(code(Tensor::concat(&[], 0)), "E0350");
    assert_eq!(code(Tensor::concat(&[&a], 3)), "E0343");
    assert_eq!(code(Tensor::concat(&[&a, &b], 0)), "E0349");
    assert_eq!(code(Tensor::concat(&[&a, &iota(&[2, 1])], 1)), "E0349");
    assert_eq!(
        code(Tensor::concat(
            &[&a, &Tensor::zeros(DType::F32, &[2, 1, 2]).unwrap()],
            1
        )),
        "E0342"
    );
    let vast = a.broadcast_to(&[1 << 58, 2, 1, 2]).unwrap();
    assert_eq!(code(Tensor::concat(&[&vast, &vast], 0)), "E0340");
}

#[test]
fn a_failed_allocation_changes_nothing() {
    let mut x = iota(&[2, 3]);
    let shared = x.clone();
    let turned = x.transpose(&[1, 0]).unwrap();
    assert_eq!(
        code(fault::with_failing_allocation(0, || x
            .as_mut_slice::<i32>()
            .map(drop))),
        "E0840"
    );
    assert_eq!(elements(&x), elements(&shared));
    x.as_mut_slice::<i32>().unwrap()[0] = 1;
    assert_eq!(
        code(fault::with_failing_allocation(0, || turned.contiguous())),
        "E0840"
    );
    // Concatenating a strided operand allocates twice; either allocation may fail, and a retry works.
    for n in 0..2 {
        let joined = fault::with_failing_allocation(n, || Tensor::concat(&[&turned, &turned], 0));
        assert_eq!(code(joined), "E0840", "allocation {n}");
    }
    let joined = fault::with_failing_allocation(3, || Tensor::concat(&[&turned, &turned], 0));
    assert_eq!(joined.unwrap().shape(), [6, 2]);
}

#[test]
fn debug_output_is_short_and_shows_no_elements() {
    let x = iota(&[2, 3]);
    assert_eq!(format!("{x:?}"), "Tensor(i32[2, 3])");
    let turned = x.transpose(&[1, 0]).unwrap();
    assert_eq!(format!("{turned:?}"), "Tensor(i32[3, 2], strides [1, 3])");
}

/// A tensor seen through a few random views, with its elements computed index by index.
fn viewed() -> impl Strategy<Value = Tensor> {
    let shape = prop::collection::vec(0usize..4, 1..4);
    (
        shape,
        prop::collection::vec((0usize..4, 0usize..4, 1isize..3, any::<bool>()), 0..4),
    )
        .prop_map(|(shape, steps)| {
            steps
                .into_iter()
                .fold(iota(&shape), |x, (kind, at, step, flag)| {
                    let axis = at % x.rank();
                    let size = x.shape()[axis];
                    match kind {
                        0 => x.reverse(axis).unwrap(),
                        1 => {
                            let mut order: Vec<usize> = (0..x.rank()).collect();
                            order.rotate_left(axis);
                            x.transpose(&order).unwrap()
                        }
                        2 if size > 0 => {
                            let len = size.div_ceil(step as usize);
                            x.slice(&[AxisSlice {
                                axis,
                                start: 0,
                                len,
                                step,
                            }])
                            .unwrap()
                        }
                        3 if flag => {
                            let mut wide = vec![2];
                            wide.extend_from_slice(x.shape());
                            x.broadcast_to(&wide).unwrap()
                        }
                        _ => x,
                    }
                })
        })
}

proptest! {
    #[test]
    fn all_read_methods_agree(x in viewed()) {
        let expected = elements(&x);
        prop_assert_eq!(expected.len(), x.len());
        let copy = x.contiguous().unwrap();
        prop_assert_eq!(copy.as_slice::<i32>().unwrap(), &expected[..]);
        prop_assert!(copy.bit_equal(&x));
        prop_assert_eq!(elements(&x.copied().unwrap()), expected);
    }

    #[test]
    fn reshape_keeps_the_order_of_elements(x in viewed(), at in 0usize..4) {
        let expected = elements(&x);
        let flat = x.reshape(&[x.len()]).unwrap();
        prop_assert_eq!(&elements(&flat), &expected);
        prop_assert_eq!(&elements(&flat.reshape(x.shape()).unwrap()), &expected);
        // Two adjacent axes merged into one.
        let axis = at % x.rank();
        if axis + 1 < x.rank() {
            let mut merged = x.shape().to_vec();
            merged[axis] *= merged.remove(axis + 1);
            prop_assert_eq!(&elements(&x.reshape(&merged).unwrap()), &expected);
        }
    }

    #[test]
    fn concat_of_the_parts_is_the_whole(x in viewed(), at in 0usize..4, cut in 0usize..4) {
        let axis = at % x.rank();
        let size = x.shape()[axis];
        let cut = cut.min(size);
        let (low, high) = (x.narrow(axis, 0, cut).unwrap(), x.narrow(axis, cut, size - cut).unwrap());
        prop_assert!(Tensor::concat(&[&low, &high], axis).unwrap().bit_equal(&x));
    }
}
