//! Comparison with two references at once: results in `f64`, and results in the declared types.
//!
//! The distance of the second from the first shows the effect of rounding on this computation; a different order of the
//! same operations may be a few times as far off, and slightly further where the second was lucky. Where it was too
//! lucky, results in `f64` for inputs perturbed by a rounding show how far the computation may deviate.

use kiln_tensor::{DType, Tensor};

/// The allowed multiple of the declared types' error.
const TIMES: f64 = 8.0;

/// A result that neither reference explains.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Unexplained {
    /// A wrong type or shape.
    #[error("expected {expected}, found {found}")]
    Type {
        /// The expected type and shape.
        expected: String,
        /// The actual ones.
        found: String,
    },
    /// Elements that differ too much.
    #[error(
        "{index:?}: expected {promoted} ({declared} in the declared type), found {found} ({count} of {total} elements are wrong)"
    )]
    Element {
        /// The index of the first such element.
        index: Vec<usize>,
        /// The element in `f64`.
        promoted: f64,
        /// The element in the declared type.
        declared: f64,
        /// The actual element.
        found: f64,
        /// The number of wrong elements.
        count: usize,
        /// The number of elements.
        total: usize,
    },
}

/// Whether a result is explained by its value in `f64` and its value in the declared type.
///
/// Floats may be as far from `promoted` as eight times the maximum error of `declared` in the tensor, plus a tolerance
/// of their type relative to the maximum element (at least 1). Integers and bools must equal either. If a reference is
/// not finite, the result must equal one of the references.
///
/// # Errors
/// The first element that is not explained.
pub fn explain(promoted: &Tensor, declared: &Tensor, found: &Tensor) -> Result<(), Unexplained> {
    explain_near(promoted, declared, &[], found)
}

/// As [`explain`], but floats may also be off by eight times the error of a result in `nearby`: the computation's
/// results in `f64` for inputs perturbed by a rounding.
///
/// # Errors
/// The first element that is not explained.
pub fn explain_near(
    promoted: &Tensor,
    declared: &Tensor,
    nearby: &[Tensor],
    found: &Tensor,
) -> Result<(), Unexplained> {
    let dtype = declared.dtype();
    let shown = |tensor: &Tensor| format!("{}{:?}", tensor.dtype(), tensor.shape());
    if found.dtype() != dtype
        || found.shape() != declared.shape()
        || found.shape() != promoted.shape()
    {
        return Err(Unexplained::Type {
            expected: shown(declared),
            found: shown(found),
        });
    }
    let (wide, narrow) = (
        promoted.to_f64_vec().unwrap_or_default(),
        declared.to_f64_vec().unwrap_or_default(),
    );
    let nearby = nearby
        .iter()
        .map(|near| farthest(&wide, &near.to_f64_vec().unwrap_or_default()));
    let off = TIMES * nearby.fold(farthest(&wide, &narrow), f64::max);
    let numbers = found.to_f64_vec().unwrap_or_default();
    let finite = wide.iter().map(|x| x.abs()).filter(|x| x.is_finite());
    let allowed = off + tolerance(dtype) * finite.fold(1.0, f64::max);
    let explained = |at: usize| {
        let (promoted, declared, found) = (wide[at], narrow[at], numbers[at]);
        let same = |a: f64| a == found || (a.is_nan() && found.is_nan());
        if !dtype.is_float() {
            return same(promoted) || same(declared);
        }
        if promoted.is_finite() && declared.is_finite() {
            return (promoted - found).abs() <= allowed;
        }
        // If only one type overflows, either result is allowed.
        same(promoted)
            || same(declared)
            || (promoted.is_finite() && (promoted - found).abs() <= allowed)
    };
    let mut wrong = (0..numbers.len()).filter(|&at| !explained(at));
    let Some(at) = wrong.next() else {
        return Ok(());
    };
    Err(Unexplained::Element {
        index: super::compare::index_of(at, found.shape()),
        promoted: wide[at],
        declared: narrow[at],
        found: numbers[at],
        count: 1 + wrong.count(),
        total: numbers.len(),
    })
}

/// The maximum finite difference of two elements.
fn farthest(a: &[f64], b: &[f64]) -> f64 {
    let off = a.iter().zip(b).map(|(a, b)| (a - b).abs());
    off.filter(|off| off.is_finite()).fold(0.0, f64::max)
}

fn tolerance(dtype: DType) -> f64 {
    match dtype {
        DType::F64 => 1e-11,
        DType::F16 => 2e-3,
        DType::BF16 => 1.6e-2,
        _ => 1e-5,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wide(elements: &[f64]) -> Tensor {
        Tensor::from_slice(&[elements.len()], elements).unwrap()
    }

    fn narrow(elements: &[f32]) -> Tensor {
        Tensor::from_slice(&[elements.len()], elements).unwrap()
    }

    #[test]
    fn differences_within_rounding_are_explained() {
        let promoted = wide(&[1.0, 2.0]);
        assert_eq!(
            explain(&promoted, &narrow(&[1.0, 2.0]), &narrow(&[1.0, 2.000_01])),
            Ok(())
        );
        let far = narrow(&[1.0, 2.01]);
        assert!(explain(&promoted, &narrow(&[1.0, 2.0]), &far).is_err());
        // The declared type is off by 0.002: eight times that is allowed.
        assert_eq!(explain(&promoted, &narrow(&[1.002, 2.0]), &far), Ok(()));
        let error = explain(&promoted, &narrow(&[1.0, 2.0]), &narrow(&[0.0, 2.0])).unwrap_err();
        assert_eq!(
            error.to_string(),
            "[0]: expected 1 (1 in the declared type), found 0 (1 of 2 elements are wrong)"
        );
    }

    #[test]
    fn differences_from_input_rounding_are_explained() {
        // A sum that cancels, and that happens to be correct in the declared type.
        let (promoted, declared, found) = (wide(&[0.0]), narrow(&[0.0]), narrow(&[1e-3]));
        assert!(explain(&promoted, &declared, &found).is_err());
        let nearby = [wide(&[1e-5]), wide(&[-2e-4])];
        assert_eq!(explain_near(&promoted, &declared, &nearby, &found), Ok(()));
        assert!(explain_near(&promoted, &declared, &nearby[..1], &found).is_err());
    }

    #[test]
    fn non_finite_results_need_a_non_finite_reference() {
        let nan = f32::NAN;
        let promoted = wide(&[f64::NAN, 1e300]);
        let declared = narrow(&[nan, f32::INFINITY]);
        assert_eq!(explain(&promoted, &declared, &declared), Ok(()));
        assert!(explain(&promoted, &declared, &narrow(&[0.0, f32::INFINITY])).is_err());
        assert!(explain(&promoted, &declared, &narrow(&[nan, nan])).is_err());
    }

    #[test]
    fn integers_must_equal_one_of_the_references() {
        let integers = |elements: &[i64]| Tensor::from_slice(&[elements.len()], elements).unwrap();
        let (a, b) = (integers(&[1, 5]), integers(&[1, 6]));
        assert_eq!(explain(&a, &b, &b), Ok(()));
        assert!(explain(&a, &b, &integers(&[2, 6])).is_err());
        assert!(explain(&a, &b, &narrow(&[1.0, 6.0])).is_err());
    }
}
