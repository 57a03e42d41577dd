//! Resizing compared with values of the ONNX reference implementation (`onnx` 1.23).

use crate::ops::testing::{TestSizes, counting, tensor};
use kiln_ir::{Coordinates, NearestRounding, Op, Resize, ResizeMode};
use kiln_tensor::{DType, Element, Tensor, f16};

fn plain(sizes: &mut TestSizes, axes: &[usize], output: &[i64]) -> Resize {
    Resize {
        axes: axes.into(),
        sizes: sizes.dims(output),
        scales: axes.iter().map(|_| 0.0).collect(),
        mode: ResizeMode::Linear,
        coordinates: Coordinates::HalfPixel,
        rounding: NearestRounding::PreferFloor,
        cubic_coefficient: -0.75,
        exclude_outside: false,
        antialias: false,
    }
}

/// `[1, 2, 4, 8, 16]` resized to each of 8, 3 and 1 elements.
fn check(change: impl Fn(&mut Resize), expected: [&[f64]; 3]) {
    let x = tensor(&[5], &[1.0f64, 2.0, 4.0, 8.0, 16.0]);
    for (size, expected) in [8, 3, 1].into_iter().zip(expected) {
        let mut sizes = TestSizes::new();
        let mut resize = plain(&mut sizes, &[0], &[size]);
        change(&mut resize);
        let found = sizes
            .run(&Op::Resize(resize), std::slice::from_ref(&x))
            .unwrap()
            .to_vec::<f64>()
            .unwrap();
        assert_eq!(found.len(), expected.len());
        let close = found
            .iter()
            .zip(expected)
            .all(|(found, expected)| (found - expected).abs() < 1e-5);
        assert!(close, "expected {expected:?}, found {found:?}");
    }
}

#[test]
fn linear_resize_matches_onnx_reference_values() {
    let up: &[f64] = &[1.0, 1.4375, 2.125, 3.375, 5.25, 7.75, 12.5, 16.0];
    check(|_| {}, [up, &[1.333333, 4.0, 13.333333], &[4.0]]);
    check(
        |r| r.coordinates = Coordinates::PytorchHalfPixel,
        [up, &[1.333333, 4.0, 13.333333], &[1.0]],
    );
    check(
        |r| r.coordinates = Coordinates::AlignCorners,
        [
            &[
                1.0, 1.571429, 2.285714, 3.428571, 5.142857, 7.428571, 11.428571, 16.0,
            ],
            &[1.0, 4.0, 16.0],
            &[1.0],
        ],
    );
    check(
        |r| r.coordinates = Coordinates::Asymmetric,
        [
            &[1.0, 1.625, 2.5, 3.75, 6.0, 9.0, 14.0, 16.0],
            &[1.0, 3.333333, 10.666667],
            &[1.0],
        ],
    );
    check(
        |r| r.antialias = true,
        [up, &[1.375, 4.444444, 13.0], &[6.48]],
    );
    check(
        |r| (r.antialias, r.exclude_outside) = (true, true),
        [up, &[1.428571, 4.444444, 12.571429], &[5.842105]],
    );
}

#[test]
fn cubic_resize_matches_onnx_reference_values() {
    let up: &[f64] = &[
        0.907166, 1.268311, 2.129578, 3.022522, 4.988159, 7.477173, 12.884521, 16.742676,
    ];
    check(
        |r| r.mode = ResizeMode::Cubic,
        [up, &[1.203703, 4.0, 13.703702], &[4.0]],
    );
    check(
        |r| (r.mode, r.antialias) = (ResizeMode::Cubic, true),
        [up, &[1.130116, 3.904765, 13.137357], &[6.312]],
    );
    check(
        |r| (r.mode, r.exclude_outside, r.cubic_coefficient) = (ResizeMode::Cubic, true, -0.5),
        [
            &[
                0.928044, 1.294097, 2.093872, 3.193726, 4.968018, 7.636475, 13.043041, 16.575646,
            ],
            &[1.206898, 4.0, 13.931031],
            &[4.0],
        ],
    );
}

#[test]
fn nearest_resize_matches_onnx_reference_values() {
    let set = |rounding| {
        move |r: &mut Resize| {
            r.mode = ResizeMode::Nearest;
            r.rounding = rounding;
        }
    };
    let up: &[f64] = &[1.0, 1.0, 2.0, 4.0, 4.0, 8.0, 16.0, 16.0];
    check(
        set(NearestRounding::PreferFloor),
        [up, &[1.0, 4.0, 16.0], &[4.0]],
    );
    check(
        set(NearestRounding::PreferCeil),
        [up, &[1.0, 4.0, 16.0], &[4.0]],
    );
    check(
        set(NearestRounding::Ceil),
        [
            &[1.0, 2.0, 4.0, 4.0, 8.0, 8.0, 16.0, 16.0],
            &[2.0, 4.0, 16.0],
            &[4.0],
        ],
    );
    check(
        |r| {
            set(NearestRounding::Floor)(r);
            r.coordinates = Coordinates::Asymmetric;
        },
        [
            &[1.0, 1.0, 2.0, 2.0, 4.0, 8.0, 8.0, 16.0],
            &[1.0, 2.0, 8.0],
            &[1.0],
        ],
    );
}

#[test]
fn nearest_resize_rounds_halves_as_requested() {
    // Doubling with asymmetric coordinates hits every half.
    let of = |rounding| {
        let mut sizes = TestSizes::new();
        let mut resize = plain(&mut sizes, &[0], &[4]);
        (resize.mode, resize.rounding, resize.coordinates) =
            (ResizeMode::Nearest, rounding, Coordinates::Asymmetric);
        sizes
            .values::<f32>(&Op::Resize(resize), &[counting(&[2])])
            .1
    };
    assert_eq!(of(NearestRounding::PreferFloor), [0.0, 0.0, 1.0, 1.0]);
    assert_eq!(of(NearestRounding::PreferCeil), [0.0, 1.0, 1.0, 1.0]);
}

#[test]
fn a_stated_scale_differs_from_the_quotient_of_sizes() {
    let x = tensor(&[5], &[1.0f32, 2.0, 4.0, 8.0, 16.0]);
    for (coordinates, expected) in [
        (Coordinates::HalfPixel, [1.214286f32, 3.285714, 8.571429]),
        (Coordinates::HalfPixelSymmetric, [1.571429, 4.0, 11.428572]),
    ] {
        let mut sizes = TestSizes::new();
        let mut resize = plain(&mut sizes, &[0], &[3]);
        resize.coordinates = coordinates;
        resize.scales[0] = 0.7;
        let found = sizes
            .values::<f32>(&Op::Resize(resize), std::slice::from_ref(&x))
            .1;
        assert!(
            found
                .iter()
                .zip(expected)
                .all(|(a, b)| (a - b).abs() < 1e-5),
            "{found:?}"
        );
    }
}

#[test]
fn axes_are_independent() {
    let mut sizes = TestSizes::new();
    let resize = plain(&mut sizes, &[2, 0], &[4, 1]);
    let x = tensor(
        &[2, 2, 2],
        &[0.0f32, 4.0, 8.0, 12.0, 16.0, 20.0, 24.0, 28.0],
    );
    let (shape, found) = sizes.values::<f32>(&Op::Resize(resize), &[x]);
    assert_eq!(shape, [1, 2, 4]);
    assert_eq!(found, [8.0, 9.0, 11.0, 12.0, 16.0, 17.0, 19.0, 20.0]);
}

#[test]
fn resize_ignores_elements_of_weight_zero() {
    let mut sizes = TestSizes::new();
    let resize = plain(&mut sizes, &[0], &[3]);
    let x = tensor(&[3], &[1.0f32, f32::NAN, f32::INFINITY]);
    let found = sizes.values::<f32>(&Op::Resize(resize), &[x]).1;
    assert!(found[0] == 1.0 && found[1].is_nan() && found[2] == f32::INFINITY);
}

/// The first output reads the first element three times, with weights of both signs.
#[test]
fn an_infinite_edge_element_under_weights_of_both_signs_is_nan() {
    let x = tensor(&[5], &[f64::INFINITY, 2.0, 4.0, 8.0, 16.0]);
    let mut sizes = TestSizes::new();
    let mut resize = plain(&mut sizes, &[0], &[8]);
    resize.mode = ResizeMode::Cubic;
    let found = sizes.run(&Op::Resize(resize), &[x]).unwrap();
    let found = found.to_vec::<f64>().unwrap();
    assert!(found[0].is_nan(), "{found:?}");
    assert!(found[4..].iter().all(|x| x.is_finite()), "{found:?}");
}

#[test]
fn resize_of_half_floats_and_empty_tensors() {
    fn half<T: Element>(dtype: DType, x: &[T]) -> Tensor {
        let mut sizes = TestSizes::new();
        let resize = plain(&mut sizes, &[0], &[2]);
        let result = sizes
            .run(&Op::Resize(resize), &[tensor(&[x.len()], x)])
            .unwrap();
        assert_eq!(result.dtype(), dtype);
        result
    }
    let f16s = [1.0f32, 2.0, 3.0, 4.0].map(f16::from_f32);
    assert_eq!(
        half(DType::F16, &f16s).to_vec::<f16>().unwrap(),
        [1.5, 3.5].map(f16::from_f32)
    );
    let bf16s = [1.0f32, 2.0, 3.0, 4.0].map(kiln_tensor::bf16::from_f32);
    assert_eq!(
        half(DType::BF16, &bf16s)
            .to_vec::<kiln_tensor::bf16>()
            .unwrap()[1]
            .to_f32(),
        3.5
    );

    let mut sizes = TestSizes::new();
    let grow = plain(&mut sizes, &[0], &[2]);
    let nothing = Tensor::zeros(DType::F32, &[0, 3]).unwrap();
    assert_eq!(
        sizes
            .run(&Op::Resize(grow.clone()), &[nothing])
            .unwrap_err()
            .code(),
        "E0824"
    );
    let no_lines = Tensor::zeros(DType::F32, &[3, 0]).unwrap();
    assert_eq!(
        sizes.run(&Op::Resize(grow), &[no_lines]).unwrap().shape(),
        [2, 0]
    );
    let shrink = plain(&mut sizes, &[0], &[0]);
    assert_eq!(
        sizes
            .run(&Op::Resize(shrink), &[counting(&[3])])
            .unwrap()
            .shape(),
        [0]
    );
}

#[test]
fn invalid_resizes_are_faults() {
    let mut sizes = TestSizes::new();
    let good = plain(&mut sizes, &[0], &[2]);
    let x = [counting(&[3])];
    let cases: [(&str, Resize, &str); 5] = [
        (
            "axis",
            Resize {
                axes: [1].into_iter().collect(),
                ..good.clone()
            },
            "E0829",
        ),
        (
            "scales",
            Resize {
                scales: [].into_iter().collect(),
                ..good.clone()
            },
            "E0829",
        ),
        (
            "sizes",
            Resize {
                sizes: sizes.dims(&[-1]),
                ..good.clone()
            },
            "E0823",
        ),
        (
            "reach",
            Resize {
                scales: [1e-300].into_iter().collect(),
                antialias: true,
                ..good.clone()
            },
            "E0825",
        ),
        (
            "huge",
            Resize {
                sizes: sizes.dims(&[i64::MAX]),
                ..good.clone()
            },
            "E0340",
        ),
    ];
    for (what, resize, code) in cases {
        assert_eq!(
            sizes.run(&Op::Resize(resize), &x).unwrap_err().code(),
            code,
            "{what}"
        );
    }
    let fault = sizes
        .run(&Op::Resize(good), &[tensor(&[2], &[1i32, 2])])
        .unwrap_err();
    assert_eq!(fault.code(), "E0829");
}
