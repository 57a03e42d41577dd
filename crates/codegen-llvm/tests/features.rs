//! Kernel features whose tests need specific operands, or inspect faults; the others are files (`testkit/testdata`).

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test that cannot continue panics"
)]

mod support;

use kiln_backend::FaultCause;
use kiln_tensor::Tensor;
use kiln_testkit::kernels::{check_kernel, run_kernel};
use support::{compiled, kernel};

/// The padding of a convolution is multiplied as zeros; a transposed convolution multiplies only existing elements.
#[test]
fn non_finite_weights_are_multiplied_with_the_padding() {
    let runtimes = support::graphs::runtimes();
    for (channels, groups, op) in [
        (2, 1, "conv"),
        (6, 6, "conv"),
        (4, 2, "conv"),
        (2, 1, "conv_transpose"),
        (4, 2, "conv_transpose"),
    ] {
        let within = channels / groups;
        let (weights, output_padding) = match op {
            "conv" => ([6, within], ""),
            _ => ([channels, 6 / groups], ", output_padding = [0, 0]"),
        };
        for stride in [1, 2] {
            let out = match (op, stride) {
                (_, 1) => [5, 17],
                ("conv", _) => [3, 9],
                _ => [9, 33],
            };
            let dtype = if op == "conv" { ", out = f32" } else { "" };
            let text = format!(
                "graph @padded(%x: f32[N, {channels}, 5, 17], %w: f32[{}, {}, 3, 3]) -> f32[N, 6, {}, {}] {{
                  %y = {op} %x, %w {{strides = [{stride}, {stride}], dilations = [1, 1], low = [1, 1], high = [1, 1]{output_padding}, groups = {groups}{dtype}}}
                  return %y
                }}",
                weights[0], weights[1], out[0], out[1]
            );
            for (place, number) in [(0, f32::INFINITY), (4, f32::NAN), (17, f32::NEG_INFINITY)] {
                let mut w = Tensor::full(&[weights[0], weights[1], 3, 3], 0.5_f32).unwrap();
                w.as_mut_slice::<f32>().unwrap()[place] = number;
                let x = Tensor::full(&[1, channels, 5, 17], 2.0_f32).unwrap();
                support::graphs::check_inputs(&text, &runtimes, &[x, w])
                    .unwrap_or_else(|message| panic!("{message}"));
            }
        }
    }
}

#[test]
fn division_at_the_limits_of_the_float_range() {
    let kernel = kernel(
        "kernel @scaled(%x: in f32[M, N], %d: in f32[M], %y: out f32[M, N]) {
          outer i < M
          store %y[i, j < N] = %x[i, j] / %d[i]
        }",
    );
    let tiny = f32::from_bits(1);
    let ends = [
        0.0,
        -0.0,
        tiny,
        3e-39,
        f32::MIN_POSITIVE,
        1e-20,
        1.0,
        3.0,
        1e20,
        f32::MAX,
    ];
    let mut numbers: Vec<f32> = ends.iter().flat_map(|&end| [end, -end]).collect();
    numbers.extend([f32::INFINITY, f32::NEG_INFINITY, f32::NAN, 7e-20, 0.1]);
    let count = numbers.len();
    let rows = Tensor::from_vec(&[count, count], numbers.repeat(count)).unwrap();
    let divisors = Tensor::from_vec(&[count], numbers.clone()).unwrap();
    let out = Tensor::full(&[count, count], 0.0_f32).unwrap();
    let tensors = [rows, divisors, out];
    let symbols = support::symbols(&kernel, &[("M", count as i64), ("N", count as i64)]);
    let executor = kiln_native::NativeExecutor::new();
    let alone: std::sync::Arc<dyn kiln_backend::TaskPool> =
        std::sync::Arc::new(kiln_backend::CallerOnly);
    for variant in compiled(&kernel) {
        let (artifact, loaded) = (&variant.artifact, &variant.loaded);
        let ran = run_kernel(
            &executor, &kernel, artifact, loaded, &symbols, &tensors, &alone,
        );
        let (results, _) = ran.unwrap();
        let quotients = results.last().unwrap();
        for (&quotient, at) in quotients.as_slice::<f32>().unwrap().iter().zip(0..) {
            let (dividend, divisor) = (numbers[at % count], numbers[at / count]);
            let exact = dividend / divisor;
            assert!(
                quotient == exact || (quotient.is_nan() && exact.is_nan()),
                "{dividend:e} / {divisor:e}: {quotient:e}, expected {exact:e}"
            );
        }
    }
}

/// The comparison also runs the kernels as if there were no caches.
#[test]
fn results_larger_than_caches_are_stored_non_temporally() {
    let executor = kiln_native::NativeExecutor::new();
    for (text, shapes) in [
        (
            "kernel @map(%x: in f32[N], %y: out f32[N], %z: out f64[N]) {
              outer i < N
              store %y[i] = %x[i] * 2.0
              store %z[i] = f64(%x[i])
            }",
            vec![vec![77], vec![4099]],
        ),
        (
            "kernel @rows(%x: in f32[M, N], %y: out f32[M, N]) {
              outer i < M
              t = reduce add[r < N] %x[i, r]
              store %y[i, j < N] = %x[i, j] - t
            }",
            vec![vec![3, 40], vec![5, 64], vec![2, 67]],
        ),
    ] {
        let kernel = kernel(text);
        let variants = compiled(&kernel);
        let streams = |variant: &kiln_testkit::kernels::Variant| {
            let argument = |quantity: &kiln_backend::Quantity| quantity.to_string() == "cache3";
            variant.artifact.arguments.iter().any(argument)
        };
        assert!(variants.iter().any(streams), "{text}");
        for shape in shapes {
            let elements: usize = shape.iter().product();
            let x = (0..elements)
                .map(|i| i as f32 * 0.5 - 9.0)
                .collect::<Vec<_>>();
            let mut tensors = vec![Tensor::from_vec(&shape, x).unwrap()];
            for buffer in kernel.buffers().values().skip(1) {
                tensors.push(Tensor::zeros(buffer.dtype, &shape).unwrap());
            }
            let sizes: Vec<i64> = shape.iter().map(|&size| size as i64).collect();
            check_kernel(&executor, &kernel, &variants, &sizes, &tensors).unwrap();
        }
    }
}

#[test]
fn sums_are_accumulated_in_the_requested_type() {
    // 2^24 and many small numbers: an f32 sum loses them, in any order.
    let text = "kernel @wide(%x: in f32[N], %y: out f64[1]) {
      outer i < 1
      s = reduce add[r < N] f64(%x[r])
      store %y[i] = s
    }";
    let kernel = kernel(text);
    let variants = compiled(&kernel);
    let mut elements = vec![0.25_f32; 999];
    elements.push(16_777_216.0);
    let tensors = [
        Tensor::from_vec(&[1000], elements).unwrap(),
        Tensor::from_slice(&[1], &[0.0_f64]).unwrap(),
    ];
    let executor = kiln_native::NativeExecutor::new();
    check_kernel(&executor, &kernel, &variants, &[1000], &tensors).unwrap();
}

/// Every index that is read, with the faults of the kernel's evaluator and of its code.
#[test]
fn out_of_bounds_indices_are_reported_with_their_site() {
    let text = "kernel @gather(%n: in i64[K], %x: in f32[N, D], %y: out f32[K, D]) {
      outer k < K
      store %y[k, d < D] = %x[%n[k], d]
    }";
    let kernel = kernel(text);
    let variants = compiled(&kernel);
    let executor = kiln_native::NativeExecutor::new();
    let alone: std::sync::Arc<dyn kiln_backend::TaskPool> =
        std::sync::Arc::new(kiln_backend::CallerOnly);
    for (bad, at) in [
        (-1, 0),
        (5, 16),
        (i64::MIN, 3),
        (i64::MAX, 7),
        (4, usize::MAX),
    ] {
        let mut indices = vec![1_i64; 17];
        if let Some(index) = indices.get_mut(at) {
            *index = bad;
        }
        let tensors = [
            Tensor::from_vec(&[17], indices).unwrap(),
            Tensor::from_vec(&[5, 9], (0..45).map(|x| x as f32).collect()).unwrap(),
            Tensor::from_vec(&[17, 9], vec![0.0_f32; 153]).unwrap(),
        ];
        for variant in &variants {
            let symbols = support::symbols(&kernel, &[("K", 17), ("N", 5), ("D", 9)]);
            let (artifact, loaded) = (&variant.artifact, &variant.loaded);
            let ran = run_kernel(
                &executor, &kernel, artifact, loaded, &symbols, &tensors, &alone,
            );
            let fault = ran.unwrap().1;
            if at == usize::MAX {
                assert_eq!(fault, None);
                continue;
            }
            let fault = fault.unwrap();
            assert_eq!(fault.cause, FaultCause::IndexOutOfRange);
            let site = &variant.artifact.fault_sites[fault.site];
            assert!(site.contains("%x"), "{site}");
        }
    }
}

#[test]
fn only_integer_divisions_by_zero_are_reported() {
    for (text, divisor_is_zero) in [
        ("%a[i] / %b[i]", true),
        ("%a[i] % %b[i]", true),
        ("%a[i] / (%b[i] * %b[i] + 1)", false),
    ] {
        let text = format!(
            "kernel @divide(%a: in i32[N], %b: in i32[N], %y: out i32[N]) {{
              outer i < N
              store %y[i] = {text}
            }}"
        );
        let kernel = kernel(&text);
        let variants = compiled(&kernel);
        let executor = kiln_native::NativeExecutor::new();
        for n in [1_usize, 5, 8, 16, 17, 33] {
            for zero in [None, Some(0), Some(n / 2), Some(n - 1)] {
                let mut divisors: Vec<i32> = (0..n as i32).map(|i| i % 5 - 7).collect();
                if let Some(at) = zero {
                    divisors[at] = 0;
                }
                // The one quotient that overflows wraps.
                let mut dividends: Vec<i32> = (0..n as i32).map(|i| 3 * i - 40).collect();
                dividends[0] = i32::MIN;
                if zero != Some(0) {
                    divisors[0] = -1;
                }
                let tensors = [
                    Tensor::from_vec(&[n], dividends).unwrap(),
                    Tensor::from_vec(&[n], divisors).unwrap(),
                    Tensor::from_vec(&[n], vec![0_i32; n]).unwrap(),
                ];
                let checked = check_kernel(&executor, &kernel, &variants, &[n as i64], &tensors);
                let expected = match (zero, divisor_is_zero) {
                    (Some(_), true) => kiln_testkit::kernels::Checked::Faulted,
                    _ => kiln_testkit::kernels::Checked::Agreed,
                };
                assert_eq!(checked.unwrap(), expected, "{text} at {n}, {zero:?}");
            }
        }
    }
}
