//! Results against a case's expected ones: dtype, sizes, and every element within the case's tolerance.

use kiln::{DType, Tensor};

/// The tolerance of a float: `absolute + relative * |expected|`.
#[derive(Clone, Copy)]
pub(crate) struct Tolerance {
    pub(crate) relative: f64,
    pub(crate) absolute: f64,
}

impl Tolerance {
    /// For elements of `dtype`: half a unit in the last place for a rounding, two for a sum.
    fn of(self, dtype: DType) -> Self {
        let unit = match dtype {
            DType::BF16 => 1.0 / 128.0,
            DType::F16 => 1.0 / 1024.0,
            _ => 0.0,
        };
        Self {
            relative: self.relative.max(2.0 * unit),
            ..self
        }
    }
}

/// Describes how `found` differs; `None` where it does not.
pub(crate) fn difference(
    name: &str,
    found: &Tensor,
    expected: &Tensor,
    tolerance: Tolerance,
) -> Option<String> {
    if found.dtype() != expected.dtype() || found.shape() != expected.shape() {
        return Some(format!(
            "{name}: expected {}{:?}, found {}{:?}",
            expected.dtype(),
            expected.shape(),
            found.dtype(),
            found.shape()
        ));
    }
    if !found.dtype().is_float() {
        return (!same_bits(found, expected)).then(|| unlike(name, found, expected));
    }
    let tolerance = tolerance.of(found.dtype());
    let (Ok(found), Ok(expected)) = (found.to_f64_vec(), expected.to_f64_vec()) else {
        return Some(format!("{name}: out of memory"));
    };
    let pairs = found.iter().zip(&expected);
    let off = |&(found, expected): &(&f64, &f64)| !is_close(*found, *expected, tolerance);
    let count = pairs.clone().filter(off).count();
    let (index, (found, expected)) = pairs.enumerate().find(|(_, pair)| off(pair))?;
    Some(format!(
        "{name}: element {index}: expected {expected:e}, found {found:e}; {count} elements differ"
    ))
}

fn is_close(found: f64, expected: f64, tolerance: Tolerance) -> bool {
    found == expected
        || (found.is_nan() && expected.is_nan())
        || (found - expected).abs() <= tolerance.absolute + tolerance.relative * expected.abs()
            && expected.is_finite()
}

fn same_bits(found: &Tensor, expected: &Tensor) -> bool {
    let bytes = |tensor: &Tensor| {
        tensor
            .contiguous()
            .ok()?
            .as_bytes()
            .ok()
            .map(<[u8]>::to_vec)
    };
    match (bytes(found), bytes(expected)) {
        (Some(found), Some(expected)) => found == expected,
        _ => false,
    }
}

fn unlike(name: &str, found: &Tensor, expected: &Tensor) -> String {
    let (Ok(found), Ok(expected)) = (found.to_f64_vec(), expected.to_f64_vec()) else {
        return format!("{name}: out of memory");
    };
    let pairs = found.iter().zip(&expected);
    let count = pairs.clone().filter(|(a, b)| a != b).count();
    match pairs.enumerate().find(|(_, (a, b))| a != b) {
        Some((index, (found, expected))) => format!(
            "{name}: element {index}: expected {expected}, found {found}; {count} elements differ"
        ),
        None => format!("{name}: bytes differ"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIGHT: Tolerance = Tolerance {
        relative: 1e-3,
        absolute: 1e-7,
    };

    fn floats(elements: &[f32]) -> Tensor {
        Tensor::from_slice(&[elements.len()], elements).unwrap()
    }

    #[test]
    fn floats_agree_within_the_tolerance_and_infinities_exactly() {
        let expected = floats(&[1.0, f32::NAN, f32::INFINITY, 0.0]);
        let close = floats(&[1.0005, f32::NAN, f32::INFINITY, -0.0]);
        assert_eq!(difference("y", &close, &expected, TIGHT), None);
        let off = floats(&[1.0, 0.0, f32::MAX, 0.0]);
        let said = difference("y", &off, &expected, TIGHT).unwrap();
        assert!(
            said.contains("element 1") && said.contains("2 elements"),
            "{said}"
        );
    }

    #[test]
    fn integers_agree_exactly_and_types_count() {
        let (a, b) = (
            Tensor::from_slice(&[2], &[1000_i32, 2]).unwrap(),
            Tensor::from_slice(&[2], &[1001_i32, 2]).unwrap(),
        );
        assert!(difference("y", &a, &b, TIGHT).is_some());
        assert_eq!(difference("y", &a, &a, TIGHT), None);
        let wide = Tensor::from_slice(&[2], &[1000_i64, 2]).unwrap();
        let said = difference("y", &wide, &a, TIGHT).unwrap();
        assert_eq!(said, "y: expected i32[2], found i64[2]");
    }
}
