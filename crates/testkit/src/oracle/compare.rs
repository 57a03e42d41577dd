//! Comparing tensors element by element; the first difference is reported with both values.

use kiln_tensor::{DType, Element, Tensor, TensorError, bf16, f16};

/// The allowed difference of elements.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Tolerance {
    /// Equal bits, except for NaNs.
    Exact,
    /// At most this many representable floats apart. Integers and bools are compared exactly.
    Ulps(u64),
    /// `|found - expected| <= absolute + relative * |expected|`. Integers and bools are compared
    /// exactly.
    Close {
        /// Relative to the expected element.
        relative: f64,
        /// Regardless of the element.
        absolute: f64,
    },
    /// `|found - expected| <= bound * (the maximum |expected| of the tensor, at least 1)`: for sums of many terms, where
    /// small results come from large terms.
    OfLargest(f64),
}

/// How two tensors differ.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Mismatch {
    /// A wrong number of tensors.
    #[error("expected {expected} tensors, found {found}")]
    Count {
        /// The expected number.
        expected: usize,
        /// The actual number.
        found: usize,
    },
    /// A wrong element type or shape.
    #[error("tensor {tensor}: expected {expected}, found {found}")]
    Type {
        /// Which tensor.
        tensor: usize,
        /// Its dtype and shape.
        expected: String,
        /// The actual ones.
        found: String,
    },
    /// Elements that differ too much.
    #[error(
        "tensor {tensor}{index:?}: expected {expected}, found {found} ({count} of {total} elements differ by more than {tolerance})"
    )]
    Element {
        /// Which tensor.
        tensor: usize,
        /// The index of the first such element.
        index: Vec<usize>,
        /// The expected element.
        expected: String,
        /// The actual element.
        found: String,
        /// The number of such elements.
        count: usize,
        /// The number of elements.
        total: usize,
        /// The allowed difference.
        tolerance: String,
    },
    /// A tensor that cannot be read.
    #[error(transparent)]
    Tensor(#[from] TensorError),
}

/// Whether `found` equals `expected`.
///
/// # Errors
/// The first difference.
pub fn compare(expected: &Tensor, found: &Tensor, tolerance: Tolerance) -> Result<(), Mismatch> {
    compare_nth(0, expected, found, tolerance)
}

/// Whether `found` equal `expected`, one by one.
///
/// # Errors
/// The first difference.
pub fn compare_all(
    expected: &[Tensor],
    found: &[Tensor],
    tolerance: Tolerance,
) -> Result<(), Mismatch> {
    if expected.len() != found.len() {
        return Err(Mismatch::Count {
            expected: expected.len(),
            found: found.len(),
        });
    }
    expected
        .iter()
        .zip(found)
        .enumerate()
        .try_for_each(|(tensor, (expected, found))| compare_nth(tensor, expected, found, tolerance))
}

fn compare_nth(
    tensor: usize,
    expected: &Tensor,
    found: &Tensor,
    tolerance: Tolerance,
) -> Result<(), Mismatch> {
    if expected.dtype() != found.dtype() || expected.shape() != found.shape() {
        let show = |tensor: &Tensor| format!("{}{:?}", tensor.dtype(), tensor.shape());
        return Err(Mismatch::Type {
            tensor,
            expected: show(expected),
            found: show(found),
        });
    }
    match expected.dtype() {
        DType::F64 => floats::<f64>(tensor, expected, found, tolerance),
        DType::F32 => floats::<f32>(tensor, expected, found, tolerance),
        DType::F16 => floats::<f16>(tensor, expected, found, tolerance),
        DType::BF16 => floats::<bf16>(tensor, expected, found, tolerance),
        DType::I64 => equal::<i64>(tensor, expected, found),
        DType::I32 => equal::<i32>(tensor, expected, found),
        DType::I16 => equal::<i16>(tensor, expected, found),
        DType::I8 => equal::<i8>(tensor, expected, found),
        DType::U64 => equal::<u64>(tensor, expected, found),
        DType::U32 => equal::<u32>(tensor, expected, found),
        DType::U16 => equal::<u16>(tensor, expected, found),
        DType::U8 => equal::<u8>(tensor, expected, found),
        DType::Bool => equal::<bool>(tensor, expected, found),
        other => unreachable!("{other} has no representation to compare"),
    }
}

fn equal<T: Element + PartialEq + std::fmt::Debug>(
    tensor: usize,
    expected: &Tensor,
    found: &Tensor,
) -> Result<(), Mismatch> {
    elements::<T>(tensor, expected, found, "0", |_| {
        Box::new(|expected, found| expected == found)
    })
}

fn floats<T: Float>(
    tensor: usize,
    expected: &Tensor,
    found: &Tensor,
    tolerance: Tolerance,
) -> Result<(), Mismatch> {
    let allowed = match tolerance {
        Tolerance::Exact => "0 bits".to_owned(),
        Tolerance::Ulps(ulps) => format!("{ulps} ulps"),
        Tolerance::Close { relative, absolute } => format!("{absolute:e} + {relative:e} of it"),
        Tolerance::OfLargest(bound) => format!("{bound:e} of the largest"),
    };
    elements::<T>(tensor, expected, found, &allowed, |all| {
        let finite = all.iter().map(|x| x.wide().abs()).filter(|x| x.is_finite());
        let largest = finite.fold(1.0, f64::max);
        Box::new(move |expected: &T, found: &T| {
            let (e, f) = (expected.wide(), found.wide());
            let same = expected.order() == found.order() || (e.is_nan() && f.is_nan());
            let within = |bound: f64| e == f || (e - f).abs() <= bound;
            same || (!e.is_nan()
                && !f.is_nan()
                && match tolerance {
                    Tolerance::Exact => false,
                    Tolerance::Ulps(ulps) => expected.order().abs_diff(found.order()) <= ulps,
                    Tolerance::Close { relative, absolute } => {
                        within(absolute + relative * e.abs())
                    }
                    Tolerance::OfLargest(bound) => within(bound * largest),
                })
        })
    })
}

/// Whether an element matches the expected one.
type Same<T> = Box<dyn Fn(&T, &T) -> bool>;

fn elements<T: Element + std::fmt::Debug>(
    tensor: usize,
    expected: &Tensor,
    found: &Tensor,
    allowed: &str,
    same: impl FnOnce(&[T]) -> Same<T>,
) -> Result<(), Mismatch> {
    let (left, right) = (expected.to_vec::<T>()?, found.to_vec::<T>()?);
    let same = same(&left);
    let mut differing = left
        .iter()
        .zip(&right)
        .enumerate()
        .filter(|(_, (left, right))| !same(left, right));
    let Some((position, (first, other))) = differing.next() else {
        return Ok(());
    };
    Err(Mismatch::Element {
        tensor,
        index: index_of(position, expected.shape()),
        expected: format!("{first:?}"),
        found: format!("{other:?}"),
        count: 1 + differing.count(),
        total: left.len(),
        tolerance: allowed.to_owned(),
    })
}

/// The index, per axis, of an element at a row-major position.
pub(super) fn index_of(position: usize, shape: &[usize]) -> Vec<usize> {
    let mut rest = position;
    let mut index: Vec<usize> = shape
        .iter()
        .rev()
        .map(|&size| {
            let along = rest % size.max(1);
            rest /= size.max(1);
            along
        })
        .collect();
    index.reverse();
    index
}

/// A float of any width.
trait Float: Element + std::fmt::Debug {
    /// Its value.
    fn wide(&self) -> f64;
    /// Its position in the order of all floats of its width: neighbours differ by 1, including -0 and 0.
    fn order(&self) -> i64;
}

macro_rules! float {
    ($($ty:ty, $bits:ty, $wide:expr;)+) => {
        $(impl Float for $ty {
            fn wide(&self) -> f64 {
                $wide(*self)
            }

            fn order(&self) -> i64 {
                let bits = self.to_bits() as $bits;
                // Negative floats count down from -1, as their magnitudes count up.
                i64::from(if bits < 0 { <$bits>::MIN.wrapping_sub(bits).wrapping_sub(1) } else { bits })
            }
        })+
    };
}

float! {
    f64, i64, f64::from;
    f32, i32, f64::from;
    f16, i16, f16::to_f64;
    bf16, i16, bf16::to_f64;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tensor(elements: &[f32]) -> Tensor {
        Tensor::from_slice(&[2, elements.len() / 2], elements).unwrap()
    }

    #[test]
    fn the_first_difference_is_named() {
        let (expected, found) = (tensor(&[1.0, 2.0, 3.0, 4.0]), tensor(&[1.0, 2.0, 3.5, 5.0]));
        let error = compare(&expected, &found, Tolerance::Exact).unwrap_err();
        assert_eq!(
            error.to_string(),
            "tensor 0[1, 0]: expected 3.0, found 3.5 (2 of 4 elements differ by more than 0 bits)"
        );
        assert!(compare(&expected, &found, Tolerance::OfLargest(0.25)).is_ok());
        let close = Tolerance::Close {
            relative: 0.2,
            absolute: 0.0,
        };
        let error = compare(&expected, &found, close).unwrap_err().to_string();
        assert!(
            error.contains("[1, 1]: expected 4.0, found 5.0 (1 of 4"),
            "{error}"
        );
    }

    #[test]
    fn zeros_differ_by_one_and_nans_are_alike() {
        let nan = f32::from_bits(0xffc0_0001);
        let (expected, found) = (tensor(&[0.0, f32::NAN]), tensor(&[-0.0, nan]));
        assert!(compare(&expected, &found, Tolerance::Exact).is_err());
        assert!(compare(&expected, &found, Tolerance::Ulps(1)).is_ok());
        let number = tensor(&[0.0, 1.0]);
        assert!(compare(&expected, &number, Tolerance::OfLargest(10.0)).is_err());
        assert!(compare(&number, &expected, Tolerance::Ulps(u64::MAX)).is_err());
    }

    #[test]
    fn infinities_are_close_only_to_themselves() {
        let (infinite, large) = (tensor(&[f32::INFINITY, 1.0]), tensor(&[f32::MAX, 1.0]));
        let close = Tolerance::Close {
            relative: 1.0,
            absolute: 1.0,
        };
        assert!(compare(&infinite, &infinite, close).is_ok());
        assert!(compare(&large, &infinite, close).is_err());
        assert!(compare(&large, &infinite, Tolerance::Ulps(1)).is_ok());
    }

    #[test]
    fn types_and_counts_are_compared_first() {
        let (row, column) = (
            tensor(&[1.0, 2.0]),
            tensor(&[1.0, 2.0]).reshape(&[1, 2]).unwrap(),
        );
        let error = compare(&row, &column, Tolerance::Exact).unwrap_err();
        assert_eq!(
            error.to_string(),
            "tensor 0: expected f32[2, 1], found f32[1, 2]"
        );
        let error = compare_all(&[row.clone(), row.clone()], &[row], Tolerance::Exact).unwrap_err();
        assert_eq!(error.to_string(), "expected 2 tensors, found 1");
        let integers = Tensor::from_slice(&[2], &[1_i64, 2]).unwrap();
        let others = Tensor::from_slice(&[2], &[1_i64, 3]).unwrap();
        assert!(compare(&integers, &others, Tolerance::OfLargest(1.0)).is_err());
        assert!(compare(&integers, &integers, Tolerance::Exact).is_ok());
    }
}
