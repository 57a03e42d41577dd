//! Products of dequantised numbers as products of integers.
//!
//! `product(f32(q - z) * s, f32(r) * t)` is `f32(product(q, r) - z * sums(r)) * (s * t)`, where `r` and `t` are
//! constants: this is how exporters write every product of a quantised model. The integers are summed exactly, in i32,
//! whereas the products of dequantised numbers are rounded one by one.

use super::factors::in_bytes;
use crate::peephole::{Rewrite, Site};
use kiln_ir::{Dims, Op, PadMode, TensorType, ValueId, Window};
use kiln_scalar::Function;
use kiln_tensor::{DType, Tensor};

/// The largest product of two integers of 8 bits, or of one and a difference of two.
const LARGEST_PRODUCT: usize = 255 * 255;

/// Activations as integers.
struct Activations {
    /// i8 or u8.
    codes: ValueId,
    /// The code of zero.
    zero: i32,
    /// Its scale, of one element, or (for matmuls) one per row.
    scale: ValueId,
}

/// Constant weights as integers.
struct Weights {
    codes: Tensor,
    /// Of one element, or one per column (of a convolution, per output channel).
    scales: Vec<f32>,
}

/// Rewrites a product of dequantised operands to a product of integers.
pub(super) fn multiply_integers(site: &mut Site<'_>) -> Option<Rewrite> {
    let is_conv = match site.op() {
        Op::Matmul { out: DType::F32 } => false,
        Op::Conv {
            out: DType::F32, ..
        } => true,
        _ => return None,
    };
    let &[left, right] = site.operands() else {
        return None;
    };
    let activations = Activations::of(site, left, is_conv)?;
    let weights = Weights::of(site, right, is_conv)?;
    let zero = activations.zero;
    let (sums, ty) = match is_conv {
        false => products(site, &activations, &weights)?,
        true => convolved(site, &activations, &weights)?,
    };
    let mut total = sums;
    if zero != 0 {
        let excess = weights.excess(zero, is_conv, ty.rank())?;
        let excess = site.emit_constant(excess)?;
        total = site.emit(
            Op::map(Function::by_name("sub")?),
            [total, excess],
            ty.clone(),
        );
    }
    let wide = TensorType {
        dtype: DType::F32,
        ..ty
    };
    let total = site.emit(Op::Cast { to: DType::F32 }, [total], wide.clone());
    let mul = Op::map(Function::by_name("mul")?);
    let scale = site.constant_value(activations.scale);
    let one = scale.as_ref().filter(|scale| scale.len() == 1);
    let (total, scales) = match one.and_then(|scale| scale.to_vec::<f32>().ok()?.first().copied()) {
        Some(scale) => {
            let scales = weights.scales.iter();
            (total, scales.map(|other| other * scale).collect())
        }
        None => {
            let scaled = site.emit(mul.clone(), [total, activations.scale], wide.clone());
            (scaled, weights.scales.clone())
        }
    };
    let scales = along_results(scales, is_conv, wide.rank())?;
    let scales = site.emit_constant(scales)?;
    Some(Rewrite::op(mul, [total, scales]))
}

impl Activations {
    /// `f32(q) * s` or `f32(i32(q) - z) * s`.
    fn of(site: &Site<'_>, value: ValueId, is_conv: bool) -> Option<Self> {
        let (Some(("mul", &[left, right])), rank) =
            (site.map_behind(value), site.tensor(value)?.rank())
        else {
            return None;
        };
        let (wide, scale) = match is_scale(site, right, rank, is_conv) {
            true => (left, right),
            false if is_scale(site, left, rank, is_conv) => (right, left),
            false => return None,
        };
        let (Op::Cast { to: DType::F32 }, integer) = site.through(wide)? else {
            return None;
        };
        let is_narrow = |value| matches!(site.dtype(value), Some(DType::I8 | DType::U8));
        if is_narrow(integer) {
            return Some(Self {
                codes: integer,
                zero: 0,
                scale,
            });
        }
        let Some(("sub", &[widened, zero])) = site.map_behind(integer) else {
            return None;
        };
        let (
            Op::Cast {
                to: DType::I32 | DType::I16,
            },
            codes,
        ) = site.through(widened)?
        else {
            return None;
        };
        let zero = site.constant_value(zero)?.to_f64_vec().ok()?;
        let [zero] = *zero.as_slice() else {
            return None;
        };
        let fits = is_narrow(codes) && (-128.0..=255.0).contains(&zero);
        fits.then_some(Self {
            codes,
            zero: zero as i32,
            scale,
        })
    }
}

/// Whether a value of f32 has one element, or, for matmuls, one per row.
fn is_scale(site: &Site<'_>, value: ValueId, rank: usize, is_conv: bool) -> bool {
    let Some(ty) = site.tensor(value) else {
        return false;
    };
    let is_one = |&dim: &kiln_symbolic_shape::DimId| site.is(dim, 1);
    let along_rows = !is_conv && ty.rank() == rank && ty.dims.last().is_some_and(is_one);
    ty.dtype == DType::F32 && ty.rank() <= rank && (ty.dims.iter().all(is_one) || along_rows)
}

impl Weights {
    /// `f32(r) * t`, transposed or not.
    fn of(site: &Site<'_>, value: ValueId, is_conv: bool) -> Option<Self> {
        let (value, permutation) = match site.through(value) {
            Some((Op::Transpose { permutation }, source)) => (source, Some(permutation.clone())),
            _ => (value, None),
        };
        let Some(("mul", &[left, right])) = site.map_behind(value) else {
            return None;
        };
        let is_cast = |value| {
            let cast = site.through(value);
            cast.filter(|(op, _)| matches!(op, Op::Cast { to: DType::F32 }))
        };
        let ((_, integers), scale) = match is_cast(left) {
            Some(cast) => (cast, right),
            None => (is_cast(right)?, left),
        };
        if site.dtype(integers)?.is_float() {
            return None;
        }
        let (integers, scale) = (site.constant_value(integers)?, site.constant_value(scale)?);
        let codes = match integers.dtype() {
            DType::I8 | DType::U8 => integers,
            _ => in_bytes(&integers)?,
        };
        let rank = codes.rank();
        let mut scale = scale;
        while scale.rank() < rank {
            scale = scale.unsqueeze(0).ok()?;
        }
        let (codes, scale) = match permutation {
            Some(axes) => (
                codes
                    .transpose(&axes)
                    .and_then(|codes| codes.contiguous())
                    .ok()?,
                scale
                    .transpose(&axes)
                    .and_then(|scale| scale.contiguous())
                    .ok()?,
            ),
            None => (codes, scale),
        };
        let along = if is_conv { 0 } else { rank.checked_sub(1)? };
        let is_along = |(axis, &size): (usize, &usize)| size == 1 || axis == along;
        let fits = scale.rank() == rank
            && scale.shape().iter().enumerate().all(is_along)
            && rank >= 2
            && !codes.is_empty();
        let depth = match is_conv {
            true => codes.shape().iter().skip(1).product::<usize>(),
            false => codes.shape()[rank.checked_sub(2)?],
        };
        let is_exact = depth <= i32::MAX as usize / LARGEST_PRODUCT;
        let scales = scale.to_vec::<f32>().ok()?;
        (fits && is_exact).then_some(Self { codes, scales })
    }

    /// The code of zero times the sums of the weights of each result, for results of a rank.
    fn excess(&self, zero: i32, is_conv: bool, rank: usize) -> Option<Tensor> {
        let codes = self.codes.to_f64_vec().ok()?;
        let shape = self.codes.shape();
        let excess = |sum: f64| (sum as i32).wrapping_mul(zero);
        if is_conv {
            let per = codes.len() / shape[0];
            let sums: Vec<i32> = codes
                .chunks(per)
                .map(|part| excess(part.iter().sum()))
                .collect();
            let mut sizes = vec![1; rank.checked_sub(1)?];
            *sizes.first_mut()? = sums.len();
            return Tensor::from_vec(&sizes, sums).ok();
        }
        let (&columns, outer) = shape.split_last()?;
        let (&rows, batch) = outer.split_last()?;
        let mut sums = Vec::new();
        for matrix in codes.chunks(rows * columns) {
            for column in 0..columns {
                let column = matrix.iter().skip(column).step_by(columns);
                sums.push(excess(column.sum()));
            }
        }
        let sizes: Vec<usize> = batch.iter().copied().chain([1, columns]).collect();
        Tensor::from_vec(&sizes, sums).ok()
    }
}

/// Scales as they broadcast against results of a rank: along the last axis, or along the channels.
fn along_results(scales: Vec<f32>, is_conv: bool, rank: usize) -> Option<Tensor> {
    let count = scales.len();
    let sizes = match (count, is_conv) {
        (1, _) => Vec::new(),
        (_, false) => vec![count],
        (_, true) => {
            let mut sizes = vec![1; rank.checked_sub(1)?];
            *sizes.first_mut()? = count;
            sizes
        }
    };
    Tensor::from_vec(&sizes, scales).ok()
}

/// The matmul of the integers, with its type.
fn products(
    site: &mut Site<'_>,
    activations: &Activations,
    weights: &Weights,
) -> Option<(ValueId, TensorType)> {
    let codes = site.emit_constant(weights.codes.clone())?;
    let ty = TensorType {
        dtype: DType::I32,
        ..site.ty().clone()
    };
    let op = Op::Matmul { out: DType::I32 };
    let sums = site.emit(op, [activations.codes, codes], ty.clone());
    Some((sums, ty))
}

/// The convolution of the integers, whose borders are codes of zero.
fn convolved(
    site: &mut Site<'_>,
    activations: &Activations,
    weights: &Weights,
) -> Option<(ValueId, TensorType)> {
    let Op::Conv { window, groups, .. } = site.op().clone() else {
        return None;
    };
    let (x, window) = match activations.zero {
        0 => (activations.codes, window),
        zero => bordered(site, activations.codes, zero, window)?,
    };
    let codes = site.emit_constant(weights.codes.clone())?;
    let ty = TensorType {
        dtype: DType::I32,
        ..site.ty().clone()
    };
    let op = Op::Conv {
        window,
        groups,
        out: DType::I32,
    };
    let sums = site.emit(op, [x, codes], ty.clone());
    Some((sums, ty))
}

/// Codes with the borders of a window, filled with the code of zero, and the window without borders.
fn bordered(
    site: &mut Site<'_>,
    codes: ValueId,
    zero: i32,
    window: Window,
) -> Option<(ValueId, Window)> {
    let has_borders = window
        .low
        .iter()
        .chain(&window.high)
        .any(|&border| !site.is(border, 0));
    if !has_borders {
        return Some((codes, window));
    }
    let ty = site.tensor(codes)?.clone();
    let none = site.dims_mut().constant(0);
    let around = |borders: &Dims| -> Dims { [none, none].iter().chain(borders).copied().collect() };
    let (low, high) = (around(&window.low), around(&window.high));
    let mut dims = Dims::new();
    for ((&size, &low), &high) in ty.dims.iter().zip(&low).zip(&high) {
        dims.push(site.dims_mut().sum(&[low, size, high]).ok()?);
    }
    let zero = Tensor::from_f64_slice(ty.dtype, &[], &[f64::from(zero)]).ok()?;
    let zero = site.emit_constant(zero)?;
    let mode = PadMode::Constant;
    let padded = site.emit(
        Op::Pad { low, high, mode },
        [codes, zero],
        TensorType { dims, ..ty },
    );
    let borders: Dims = window.low.iter().map(|_| none).collect();
    Some((
        padded,
        Window {
            low: borders.clone(),
            high: borders,
            ..window
        },
    ))
}

#[cfg(test)]
mod tests {
    use crate::testing::{graph, optimized};
    use kiln_interpreter::{InterpretOptions, interpret};
    use kiln_ir::{BlobMap, Graph, Op};
    use kiln_shape_inference::read_graph;
    use kiln_tensor::{DType, Tensor};

    /// The product of dequantised `x` and weights, with parts of the text replaced.
    fn matmul(replaced: &[(&str, &str)]) -> String {
        let mut text = "
graph @main(%x: u8[B, 3]) -> f32[B, 2] {
  %i: i32[B, 3] = cast %x {to = i32}
  %z: i32[] = constant [7]
  %c: i32[B, 3] = sub %i, %z
  %f: f32[B, 3] = cast %c {to = f32}
  %s: f32[] = constant [0.5]
  %a: f32[B, 3] = mul %f, %s
  %q: i8[3, 2] = constant [1, -2, 127, 4, -128, 0]
  %g: f32[3, 2] = cast %q {to = f32}
  %t: f32[2] = constant [0.25, 3.0]
  %w: f32[3, 2] = mul %g, %t
  %y: f32[B, 2] = matmul %a, %w
  return %y
}"
        .to_owned();
        for (from, to) in replaced {
            assert!(text.contains(from), "{from}");
            text = text.replace(from, to);
        }
        text
    }

    fn sums_integers(graph: &Graph) -> bool {
        graph.ops().any(|(_, data)| {
            matches!(
                data.op,
                Op::Matmul { out: DType::I32 }
                    | Op::Conv {
                        out: DType::I32,
                        ..
                    }
            )
        })
    }

    /// Whether the product is one of integers after the passes; also checks that its results are unchanged.
    fn is_rewritten(text: &str, x: &Tensor) -> bool {
        let before = graph(text);
        let (after, _) = optimized(before.clone());
        let run = |graph: &Graph| {
            let outputs = interpret(graph, std::slice::from_ref(x), &InterpretOptions::default());
            outputs.unwrap()[0].to_f64_vec().unwrap()
        };
        let (found, expected) = (run(&after), run(&before));
        assert_eq!(found.len(), expected.len());
        for (found, expected) in found.iter().zip(&expected) {
            assert!(
                (found - expected).abs() <= 1e-5 * expected.abs().max(1.0),
                "{found} {expected}"
            );
        }
        sums_integers(&after)
    }

    fn codes(rows: usize) -> Tensor {
        let codes: Vec<u8> = (0..rows * 3)
            .map(|place| (place * 83 % 256) as u8)
            .collect();
        Tensor::from_vec(&[rows, 3], codes).unwrap()
    }

    #[test]
    fn a_matmul_of_dequantised_operands_is_one_of_integers() {
        for rows in [0, 1, 5] {
            assert!(is_rewritten(&matmul(&[]), &codes(rows)));
        }
    }

    #[test]
    fn scales_may_be_of_the_tensor_and_on_either_side_and_weights_may_be_transposed() {
        let one = matmul(&[("f32[2] = constant [0.25, 3.0]", "f32[] = constant [0.25]")]);
        assert!(is_rewritten(&one, &codes(2)));
        let swapped = matmul(&[("mul %f, %s", "mul %s, %f"), ("mul %g, %t", "mul %t, %g")]);
        assert!(is_rewritten(&swapped, &codes(2)));
        let transposed = matmul(&[
            ("%q: i8[3, 2]", "%q: i8[2, 3]"),
            ("%g: f32[3, 2]", "%g: f32[2, 3]"),
            ("%t: f32[2] = constant", "%t: f32[2, 1] = constant"),
            (
                "%w: f32[3, 2] = mul %g, %t",
                "%v: f32[2, 3] = mul %g, %t\n  %w: f32[3, 2] = transpose %v {permutation = [1, 0]}",
            ),
        ]);
        assert!(is_rewritten(&transposed, &codes(2)));
    }

    #[test]
    fn a_scale_per_row_is_applied_to_the_rows() {
        let rows = matmul(&[
            ("(%x: u8[B, 3])", "(%x: u8[B, 3], %s: f32[B, 1])"),
            ("  %s: f32[] = constant [0.5]\n", ""),
        ]);
        let before = graph(&rows);
        let (after, _) = optimized(before.clone());
        assert!(sums_integers(&after));
        let inputs = [
            codes(2),
            Tensor::from_slice(&[2, 1], &[0.5_f32, -2.0]).unwrap(),
        ];
        let run = |graph| interpret(graph, &inputs, &InterpretOptions::default()).unwrap();
        let [found, expected] = [&after, &before].map(|graph| run(graph)[0].to_f64_vec().unwrap());
        assert_eq!(found, expected);
    }

    #[test]
    fn weights_with_a_scale_along_the_sum_stay_as_they_are() {
        let along = matmul(&[(
            "f32[2] = constant [0.25, 3.0]",
            "f32[3, 1] = constant [0.25, 3.0, 1.0]",
        )]);
        assert!(!is_rewritten(&along, &codes(2)));
    }

    #[test]
    fn integers_that_do_not_fit_bytes_stay_as_they_are() {
        let wide = matmul(&[(
            "i8[3, 2] = constant [1, -2, 127",
            "i32[3, 2] = constant [1, -2, 1000",
        )]);
        assert!(!is_rewritten(&wide, &codes(2)));
        let centred = matmul(&[(
            "%q: i8[3, 2] = constant [1, -2, 127, 4, -128, 0]",
            "%p: u8[3, 2] = constant [1, 2, 127, 4, 130, 0]\n  %o: i32[3, 2] = cast %p {to = i32}\n  %n: i32[] = constant [3]\n  %q: i32[3, 2] = sub %o, %n",
        )]);
        assert!(is_rewritten(&centred, &codes(2)));
    }

    #[test]
    fn a_convolution_has_borders_of_the_zero_point() {
        let text = |pads: &str, sizes: &str| {
            format!(
                "
graph @main(%x: u8[N, 1, H, 4]) -> f32[N, 2, {sizes}] {{
  %i: i32[N, 1, H, 4] = cast %x {{to = i32}}
  %z: i32[] = constant [9]
  %c: i32[N, 1, H, 4] = sub %i, %z
  %f: f32[N, 1, H, 4] = cast %c {{to = f32}}
  %s: f32[] = constant [0.5]
  %a: f32[N, 1, H, 4] = mul %f, %s
  %q: i8[2, 1, 2, 2] = constant [1, -2, 3, 4, 5, 6, -7, 8]
  %g: f32[2, 1, 2, 2] = cast %q {{to = f32}}
  %t: f32[2, 1, 1, 1] = constant [0.25, 3.0]
  %w: f32[2, 1, 2, 2] = mul %g, %t
  %y = conv %a, %w {{strides = [1, 1], dilations = [1, 1], {pads}, groups = 1}}
  return %y
}}"
            )
        };
        for (pads, sizes) in [
            ("low = [0, 0], high = [0, 0]", "H - 1, 3"),
            ("low = [1, 0], high = [1, 2]", "H + 1, 5"),
        ] {
            let read = read_graph(&text(pads, sizes), &BlobMap::new());
            let before = read.unwrap_or_else(|errors| panic!("{errors}"));
            let (after, _) = optimized(before.clone());
            assert!(sums_integers(&after), "{pads}");
            let codes: Vec<u8> = (0..24).map(|place| (place * 53 % 256) as u8).collect();
            let x = Tensor::from_vec(&[2, 1, 3, 4], codes).unwrap();
            let run = |graph| {
                let outputs = interpret(
                    graph,
                    std::slice::from_ref(&x),
                    &InterpretOptions::default(),
                );
                outputs.unwrap()[0].to_f64_vec().unwrap()
            };
            assert_eq!(run(&after), run(&before), "{pads}");
        }
    }
}
